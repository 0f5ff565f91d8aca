"""What is iterated over while capturing."""

import itertools
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of
from tests.capture.program_kit import check_one_graph, outcome


def flattened(x):
    return x.reshape(-1, *x.shape[2:]), [2 * n for n in x.shape[2:]], sum(x.shape[2:]), *x.shape[2:]


def test_sizes_left_over_may_be_none():
    compiled, before = dynacomp.jit(flattened, backend="xla"), dynacomp.stats()["breaks"]
    for x in (jnp.ones((2, 3)), jnp.ones((2, 3, 4))):
        want, got = flattened(x), compiled(x)
        assert got[0].shape == want[0].shape and got[1:] == want[1:]
    assert dynacomp.stats()["breaks"] == before


def test_a_generator_that_passes_a_break_keeps_its_keyword_arguments():
    def options(*args, first=0, **others):
        yield args, first, others

    def program(x):
        late = options(1, first=[x], second={"a": x})
        print(end="")
        return next(late), x + 1

    assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(2))) == repr(program(jnp.ones(2)))


def test_a_long_array_is_gone_through_by_python():
    """One Graph with a node for each part would take longer to compile than anything that is done with them."""

    def rises(x):
        found, last = [], x[0]
        for v in x[1:]:
            if v > last + 0.1:
                last = v
                found.append(v * 2)
        return jnp.stack(found)

    x = jnp.sort(jax.random.uniform(jax.random.key(0), (3000,)))
    compiled, before = dynacomp.jit(rises), dynacomp.stats()["graphs"]
    assert (compiled(x) == rises(x)).all()
    assert dynacomp.stats()["graphs"] - before < 8
    assert len(dynacomp.jit(lambda x: [v + 1 for v in x])(x[:40])) == 40


def test_a_loop_over_the_rows_of_an_array_passes_breaks():
    def rows(x):
        found = []
        for n, (v, w) in enumerate(zip(x, x[::-1])):
            print(end="")
            found.append(v * n + w)
        return jnp.stack(found)

    assert set(breaks_of(rows, *(lambda n=n: (jnp.arange(n * 2.0).reshape(n, 2),) for n in (4, 4, 4)))) == {"effect"}


def test_a_range_that_runs_backwards_from_a_size():
    def backwards(x, n):
        seen = []
        for t in reversed(range(n)):
            seen.append(t)
            if t > 1:
                print(end="")
                x = x * t
        return x, seen

    dynacomp.reset()
    made = dynacomp.jit(backwards, backend="eager")
    for n in (4, 5, 2, 0, 1, 3, 6, 7, 8, 3, 5, 4):
        assert repr(made(jnp.ones(2), n)) == repr(backwards(jnp.ones(2), n))
    assert "live" not in dynacomp.stats()["breaks"]


def test_iterators_that_the_program_has_keep_their_class_over_a_break():
    def taken(x):
        its = [reversed(x), itertools.pairwise([1, x, 3]), itertools.product([x, 2], repeat=2),
               itertools.combinations((1, 2, x), r=2), iter(x), iter(enumerate(x))]
        first = [next(it) for it in its]
        print(end="", file=sys.stderr)
        return first, [type(it).__name__ for it in its], [list(it) for it in its], [next(it, None) for it in its]

    for x in (jnp.ones(2), jnp.arange(3.0)):
        assert repr(dynacomp.jit(taken, backend="eager")(x)) == repr(taken(x))


@pytest.mark.parametrize("make", [lambda: jax.jit(jnp.sin), lambda: jax.tree.structure([1]), lambda: nn.Dense(2)])
def test_what_a_library_has_made_and_nobody_can_iterate_over_raises_as_in_python(make):
    """A defect of ours was told: TypeError."""
    for program in (lambda x: [x + 1, *make()], lambda x: {x.sum(), *make()}, lambda x: list(make())):
        dynacomp.reset()
        assert outcome(dynacomp.jit(program, backend="eager"), (jnp.ones(2),)) == outcome(program, (jnp.ones(2),))
        assert "internal" not in dynacomp.stats()["frames_eager"]


SPELLED = {
    "axes": lambda x, s: jnp.transpose(x, ["NCHW".index(c) for c in s]),
    "enumerated": lambda x, s: jnp.moveaxis(x, {c: i for i, c in enumerate(s)}["H"], 0),
    "unpacked": lambda x, s: (lambda a, *others: (x + s.count(a), others))(*s),
    "backwards": lambda x, s: ([x * i for i, c in enumerate(reversed(s)) if c != "C"], sorted(s), tuple(s.encode())),
}


@pytest.mark.parametrize("name", SPELLED)
def test_a_text_that_changes_is_iterated_over_in_an_entry_for_each(name):
    """From the third on it was a break, and the loops over it ran in Python."""
    fn, x = SPELLED[name], jnp.arange(16.0).reshape(2, 2, 2, 2)
    dynacomp.reset()
    made = dynacomp.jit(fn, backend="eager")
    for s in ("NCHW", "CHWN", "WNHC", "HWCN") * 3:
        assert repr(made(x, s)) == repr(fn(x, s))
    told = dynacomp.stats()
    assert told["frames_captured"] <= 4 and not told["breaks"] and not told["frames_eager"]


def test_a_range_to_where_only_the_arrays_tell_breaks():
    def fn(x, n):
        return x + 1, list(range(n % 5, int(jnp.sum(x) > 0) % 7))

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (2, 3, 0, 1, 0):
        assert repr(compiled(jnp.ones(3), n)) == repr(fn(jnp.ones(3), n))
    assert dynacomp.stats()["graphs"] >= 1 and set(dynacomp.stats()["breaks"]) <= {"scalar", "branch", "leaves", "item"}


@pytest.mark.parametrize("program", [
    lambda x, text: x[jnp.array(["abcdef".find(c) for c in text])].sum(),
    lambda x, text: x[jnp.array([{c: n for n, c in enumerate("abcdef")}[c] for c in text])],
    lambda x, text: (x * sum(ord(c) for c in text), "".join(chr(ord(c) + 1) for c in text)),
    lambda x, text: (x, [*zip(text, text)], [c.upper() for c in text])])
def test_characters_of_texts_that_change(program):
    """Each text took an entry of its own, until the graph broke there."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for text in ("abcd", "ffed", "cafe", "aaaa", "bead", "fade", "abcd", "deaf"):
        args = jnp.arange(6.0), text
        assert repr(compiled(*args)) == repr(program(*args))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["frames_eager"] and not stats["breaks"]


def test_texts_of_other_lengths_break_the_graph_in_the_end():
    def program(x, text):
        return x * sum(ord(c) for c in text)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(14):
        args = jnp.arange(3.0), "abcdefghijklmnopqrst"[:n]
        assert repr(compiled(*args)) == repr(program(*args))
    assert not dynacomp.stats()["frames_eager"]


def test_a_dataclass_of_chex_is_a_mapping():
    """`**state` broke: iteration over a library object."""
    chex = pytest.importorskip("chex")

    @chex.dataclass(frozen=True)
    class Part:
        a: object
        b: object

    @chex.dataclass(frozen=True)
    class Whole:
        a: object
        b: object
        c: object

    def program(x):
        part = jax.vmap(lambda v: Part(a=v, b=v + 1))(x)
        return Whole(c=x * 2, **part), dict(part), [2 * name for name in part], list(part.keys())

    check_one_graph(program, (jnp.arange(3.0),), (jnp.arange(3.0) + 1,))
