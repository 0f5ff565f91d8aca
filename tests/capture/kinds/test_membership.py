"""`x in container` of what changes: three captures for all numbers and sets, no break, and plain Python's answers."""

import jax.numpy as jnp
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

STEPS = (4, 7)
KNOWN = {4, 7}
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
