"""Lists and tuples: subscripts, operators and methods, with arrays and objects among their items."""

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


def methods(x):
    items = [3, 1, 2]
    items.append(5)
    items.extend(n * 2 for n in (1, 2))
    items.insert(1, 9)
    items.insert(-100, "first")
    popped = items.pop(), items.pop(0), items.pop(-2)
    items.remove(9)
    places = items.index(1), items.count(3), items.index(2, 1)
    other = items.copy()
    items.sort()
    other.sort(key=lambda n: -n)
    other.reverse()
    items.clear()
    return items, other, popped, places, x


def slices(x):
    items, fixed = [0, 1, 2, 3, 4, x], (0, 1, x)
    items[1:3] = ["a"]
    items[::2] = [7, 8, 9]
    del items[-1:], items[0]
    return items, items[::-1], fixed[1:], fixed[::2], fixed[:] is fixed, items[:] is items, fixed[5:], items[-2:][0]


def operators(x):
    a, b = [1, x], (1, x)
    c = a
    c += (2,)
    d = b
    d += (3,)
    return (c is a, a, d is b, d, [0] * 3, 2 * (1,), a * 0, [1] + [2], () + b is b, b * 1 is b, [1, 2] < [1, 3],
            (1,) < (1, 0),
            [1] == (1,), (1, "a") == (1, "a"), 2 in (1, 2), x is b[1], len(a))


def aliases(x):
    row = [0]
    table = [row] * 2
    table[0].append(x.shape[0])
    table.append(table)
    return table[1] is row, row, table[2] is table, [[0] * 2 for _ in range(2)], (row, row)


@pytest.mark.parametrize("program", [methods, slices, operators, aliases])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


@pytest.mark.parametrize("program", [
    lambda x: [x][1], lambda x: (x,)[-2], lambda x: [].pop(), lambda x: [1].remove(2), lambda x: [x].index(3),
    lambda x: [1] + (1,),
    lambda x: (1,) + [1], lambda x: [1]["a"], lambda x: [1] * [1], lambda x: [1].insert("a", 1),
    lambda x: [2, "a"].sort(),
    lambda x: [1, 2].__setitem__(slice(0, 2, 1), 3), lambda x: [1].pop(5),
    lambda x: [1] < (1,), lambda x: [0, 1, 2].__setitem__(slice(None, None, 2), [1])])
def test_what_raises_raises_the_same(program):
    want = outcome(program, (X,))
    compiled = dynacomp.jit(program, backend="eager")
    assert issubclass(want[0], Exception)
    assert outcome(compiled, (X,)) == want == outcome(compiled, (X,))


def test_a_list_from_outside_is_changed_as_the_program_says():
    def program(x, items, new):
        items += [new]
        items[0] = x
        items.sort(key=lambda v: 0 if v is x else v)
        return len(items)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(6):
        ours, theirs = [5, 3], [5, 3]
        same = ours
        assert compiled(X, ours, n) == program(X, theirs, n) and repr(ours) == repr(theirs) and same is ours
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


class Unordered:
    def __init__(self, mark):
        self.mark = mark


@pytest.mark.parametrize("program", [
    lambda x: sorted((name, Unordered(i)) for i, name in enumerate("cab"))[0][1].mark + x,
    lambda x: [v for _, v in sorted(zip([3, 1, 2], [x, x + 1, x + 2]))],
    lambda x: sorted([("b", x), ("a", x), ("b",)])[0][1],  # a prefix goes first: nobody asks the array
    lambda x: outcome(lambda x: sorted([("a", Unordered(1)), ("a", Unordered(2))]), (x,))[:2],
    lambda x: [n for n, _ in sorted([(2, x), (1, x), (3, x)], reverse=True)],
    lambda x: outcome(lambda x: sorted([(1, x), ("a", x)]), (x,))[:2],
], ids=["names", "numbers", "prefix", "equal", "reverse", "mixed"])
def test_tuples_are_sorted_by_what_they_begin_with(program):
    check_one_graph(lambda x: (x + 1, program(x)), (X,), (X + 1,))


def test_slices_to_store_and_delete_by_what_is_no_index():
    def store(x, k):
        items = [1, 2, 3]
        items[::k] = [x]
        return items

    def delete(x, k):
        items = [1, x, 3]
        del items[::k]
        return items

    for fn in (store, delete):
        compiled = dynacomp.jit(fn, backend="eager")
        for k in (3, 2, 1.5, 0, 0.0, "q", True):
            assert repr(outcome(compiled, (jnp.ones(2), k))) == repr(outcome(fn, (jnp.ones(2), k)))
        assert "internal" not in dynacomp.stats()["frames_eager"]


class Twice:
    def __index__(self):
        return 2


class Scaling(Twice):
    def __rmul__(self, other):
        return "scaled", type(other).__name__


@pytest.mark.parametrize("cls", [Twice, Scaling])
@pytest.mark.parametrize("items", [[1, 2], (1, 2), "ab"], ids=str)
def test_who_multiplies_a_sequence_is_asked_before_it_repeats(cls, items):
    def fn(x, n):
        return items * n, x + 1

    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        assert str(compiled(X, cls())) == str(fn(X, cls()))
