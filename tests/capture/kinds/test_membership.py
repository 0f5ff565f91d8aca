"""`x in container` of what changes: three captures for all numbers and sets, no break, and plain Python's answers."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

STEPS = (4, 7)
KNOWN = {4, 7}
MISSING = object()
NUMBERS = (0, 4, 7, 1, 2, 3, 7, 4, 11, 5)


def array(n):
    return jnp.arange(float(n + 2))


def sets(made):
    return [(array(i), made(range(i, i + 3)), i * 2 % 5) for i in range(10)]


def own(x, n):
    held = {2}
    held.add(4)
    return x * 2 if n in held else x


def grown(x, held, n):
    if n in held:
        return x, held
    held.add(n)
    return x + len(held), held


PROGRAMS = {
    "tuple": lambda x, n: x * 2 if n in (4, 7) else x,
    "set": lambda x, n: x * 2 if n in {4, 7} else x,
    "list": lambda x, n: x * 2 if n not in [4, 7] else x,
    "range": lambda x, n: x * 2 if n in range(4, 8) else x,
    "set with a mark": lambda x, n: x * 2 if n in {MISSING, None, 4} else x,
    "set of marks": lambda x, n: x * 2 if n in {MISSING, None} else x + 1,
    "named tuple": lambda x, n: x * 2 if n in STEPS else x,
    "named set": lambda x, n: x * 2 if n in KNOWN else x,
    "size": lambda x, n: x * 2 if x.shape[0] in {4, 7} else x,
    "number": lambda x, n: x * (n in KNOWN),
    "made": own,
}
OF_SETS = {
    "changing": lambda x, held, n: x * 2 if n in held else x,
    "constant": lambda x, held, n: x * 2 if 3 in held else x,
    "length": lambda x, held, n: x * len(held) if held else x,
    "none": lambda x, held, n: x * 2 if None in held or "a" in held else x,
}


HELD = {"a": 1, "c": 2}
OPEN = {
    "four": lambda x, n: (x * (n in (1, 2)), n not in [3, 4], n in {1, 3}, n not in {0: 1, 2: 3}),
    "ifs": lambda x, n: (x + 1 if n in (1, 2) else x, "yes" if n in {1: 1} else "no", (n in {0, 1, 2}) is True),
    "characters": lambda x, n: (
        x * sum(c in "ae" for c in "abcdefgh"[n:n + 3]), [c in "bf" for c in "abcdefgh"[n:n + 2]]),
    "text": lambda x, n: ("b" in "abcde"[n:], "abcde"[n] not in "axc", x),
    "dict": lambda x, n: (x, "abcde"[n] in HELD, "abcde"[n] not in HELD, ("abcde"[n] in HELD.keys()) + 1),
    "used": lambda x, n: (lambda f: (x * f, {True: "t", False: "f"}[f], f"{f}", int(f), f ^ True, f == 1, not f))(
        n in (1, 2)),
    "traced": lambda x, n: jax.lax.fori_loop(0, 3, lambda i, c: c + (n in (1, 2, 5)), x),
    "where": lambda x, n: jnp.where(n in (1, 4), x, -x),
}


def changed(x, n, held, table, items):
    found = [n in held, n in table, n in items]
    held.add(n)
    items.append(n)
    table[n] = x
    found += [n in held, n in table, n in items]
    held.discard(n - 1)
    table.pop(n - 1, None)
    items.remove(items[0])
    return x * found[0], found, n - 1 in held, n - 1 in table, n in items, held, items


def check(program, calls, most=3):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for args in calls:
        other = tuple(set(x) if type(x) is set else x for x in args)
        assert not unlike(outcome(program, args), outcome(compiled, other))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= most


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_change(name):
    check(PROGRAMS[name], [(array(n), n) for n in NUMBERS])


@pytest.mark.parametrize("name", OPEN)
def test_an_answer_is_another_in_each_call(name):
    """Each answer was a condition of its own: an entry for each way that four of them may come out."""
    check(OPEN[name], [(array(3), n) for n in (0, 4, 2, 1, 3, 0, 2, 4, 1, 3)])


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_what_was_asked_before_a_container_changes_stays(backend):
    dynacomp.reset()
    compiled = dynacomp.jit(changed, backend=backend)
    for n in (1, 2, 0, 4, 2, 3, 1, 0, 2, 5):
        args = [(array(3), n, {1, 2}, {0: None, 2: None}, [1, 0, 4]) for _ in range(2)]
        assert not unlike(outcome(changed, args[0]), outcome(compiled, args[1]))


@pytest.mark.parametrize("made", [set, frozenset])
@pytest.mark.parametrize("name", OF_SETS)
def test_sets_with_other_content(name, made):
    check(OF_SETS[name], sets(made))


def test_floats_that_change_and_none_of_them_a_number():
    nan = float("nan")
    check(lambda x, n, held: (x * 2 if n in {1.0, 2.0} else x, n in held),
          [(array(i), n, {nan, 0.5}) for i, n in enumerate((0.5, 1.0, nan, 2.0, float("nan"), 1.5, nan, 0.1))], 6)


def test_what_may_hash_in_the_programs_code_is_compared_by_it():
    class Key(int):
        def __eq__(self, other):
            return False
        __hash__ = int.__hash__
    check(lambda x, held, n: x * 2 if n in held else x, [(array(3), {Key(2), 5}, n) for n in (2, 5, 2)])


def test_a_set_that_is_changed_after_it_was_asked():
    dynacomp.reset()
    compiled = dynacomp.jit(grown)
    plain, held = set(), set()
    for n in NUMBERS:
        assert not unlike(outcome(grown, (array(3), plain, n)), outcome(compiled, (array(3), held, n)))
        assert held == plain


def test_a_set_that_nobody_reads_is_not_guarded():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, held: (x * 2, held))
    for i in range(4):
        held = {i}
        assert compiled(array(3), held)[1] is held
    assert dynacomp.stats()["frames_captured"] == 1
