"""Iterators and what consumes them: lazily, in Python's order, once."""

import itertools

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


class Countdown:
    def __init__(self, n):
        self.n, self.log = n, []

    def __iter__(self):
        return self

    def __next__(self):
        self.log.append(self.n)
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n

    def __reversed__(self):
        return iter("backwards")


def consumers(x):
    return (sum([1, 2], 3), sum([x, x]), sum([[1], [2]], []), max([3, 1]), min("ba"), max([1, -5], key=abs),
            max([], default=x),
            any([0, x is None, 1]), all([]), sorted([3, 1, 2], reverse=True), sorted("bA", key=str.lower),
            len(list(zip())),
            sum(range(5)), sum(n for n in (1, 2)))


def makers(x):
    return (list(zip([1, 2], "abc")), list(enumerate("ab", 5)), list(map(lambda a, b: a + b, [1, 2], [3, 4])),
            list(filter(None, [0, 1])), list(reversed([1, x])), list(reversed({"a": 1, "b": 2})), list(iter([1])),
            [y * 2 for y in [x, x]], dict(zip("ab", [1, 2])), tuple(reversed(range(3))))


def lazy(x):
    down = Countdown(5)
    pairs = zip(down, "ab")
    first = next(pairs)
    rest, end = list(pairs), next(pairs, "end")
    return first, rest, end, down.log, list(reversed(down)), next(iter(down)), x + down.n


def of_itertools(x):
    count, (left, right) = itertools.count(3, 2), itertools.tee([1, 2])
    return ([next(count), next(count)], list(itertools.chain([1], "a")),
            list(itertools.islice(itertools.cycle("ab"), 1, 6, 2)),
            list(itertools.accumulate([x, x, x]))[-1], [(k, list(g)) for k, g in itertools.groupby("aab")],
            next(left), list(right),
            list(itertools.product("ab", [1])), list(itertools.permutations([1, 2])), list(itertools.repeat(x, 2)),
            list(itertools.zip_longest("ab", [1])), list(itertools.starmap(pow, [(2, 3)])),
            list(itertools.pairwise([1, 2, 3])))


def two_argument_iter(x):
    items = [1, 2, 3]
    return list(iter(items.pop, 1)), items, x


def changing_list(x):
    items = [1, 2]
    for n in items:
        if len(items) < 5:
            items.append(n + 10)
    return items, x


@pytest.mark.parametrize("program", [consumers, makers, lazy, of_itertools, two_argument_iter, changing_list])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


@pytest.mark.parametrize("program", [
    lambda x: (x, sum(["a"], "")), lambda x: (x, max([])), lambda x: (x, next(iter([]))), lambda x: (x, list(zip(3))),
    lambda x: (x, reversed({1})), lambda x: (x, list(zip([1], [1, 2], strict=True))), lambda x: (x, sum([1, "a"])),
], ids=["sum of texts", "max of nothing", "next", "zip of a number", "reversed set", "strict zip", "sum of kinds"])
def test_what_raises_raises_the_same(program):
    compiled = dynacomp.jit(program, backend="eager")
    want = outcome(program, (X,))
    assert issubclass(want[0], Exception)
    assert outcome(compiled, (X,)) == want == outcome(compiled, (X,))


def products_of_neighbours(xs):
    squares, total = [], 0.0
    for x in xs:
        squares.append(x * x)
    for a, b in itertools.pairwise(squares):
        total = total + a @ b
    return jnp.stack([(a * b).sum() for a, b in itertools.pairwise(xs)]), total


def test_pairs_of_a_changing_number_of_rows():
    dynacomp.reset()
    compiled = dynacomp.jit(products_of_neighbours, backend="eager")
    for n in (4, 5, 7, 6, 9):
        xs = jnp.sin(jnp.arange(n * 3.0)).reshape(n, 3)
        for got, want in zip(compiled(xs), products_of_neighbours(xs)):
            assert jnp.allclose(got, want, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"]


def test_keys_are_made_between_the_items():
    """What a generator and a key do comes in Python's order."""
    def chosen(x, ks):
        log = []

        def items():
            for k in ks:
                log.append(("item", k))
                yield k

        def key(k):
            log.append(("key", k))
            return -k

        best = max(items(), key=key, default=0), min(items(), key=key, default=0)
        return x * best[0], best, sorted(items(), key=key), log

    dynacomp.reset()
    compiled = dynacomp.jit(chosen, backend="eager")
    for n in (3, 3, 4, 0, 1, 5):
        ks = [(i * 7) % 5 for i in range(n)]
        assert repr(compiled(jnp.ones(1), ks)) == repr(chosen(jnp.ones(1), ks))
    assert dynacomp.stats()["frames_captured"] and not dynacomp.stats()["frames_eager"]


def test_what_counts_by_ones_starts_with_an_int():
    def counted(x, start):
        ones, twos = itertools.count(start), itertools.count(start, 2)
        return (x + 1, [next(ones), next(ones)], [next(twos), next(twos)], next(itertools.count(True, True)),
                [*enumerate("ab", True)], list(itertools.islice(itertools.count(bool(start)), 2)))

    dynacomp.reset()
    compiled = dynacomp.jit(counted, backend="eager")
    for start in (True, False, 3, 2.5, 4, 5, False, 1.5):
        assert repr(compiled(X, start)) == repr(counted(X, start))
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]
