"""`control_flow.merge`: what two sides of a condition leave becomes one Value, or the graph breaks."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.control_flow.merge import is_equal
from tests.capture.flow_kit import breaks_of

INPUTS = [lambda: (jnp.arange(1.0, 4.0),), lambda: (-jnp.arange(1.0, 4.0),)]


def numbers_and_tuples(x):
    if x.sum() > 0:
        n, pair = 3, (x, (x * 2, 1))
    else:
        n, pair = -4, (x + 1, (x, 7))
    return pair, n + 1, n * pair[1][1]


def objects_made_on_both(x):
    if x.sum() > 0:
        made, other = [x, {"a": x * 2}], 0
    else:
        made, other = [x * 3, {"a": x}], 0
    made[1]["b"] = made[0]
    return made, other


def an_object_changed_on_one(x):
    seen, table = [x], {"k": x}
    if x.sum() > 0:
        seen[0], table["k"] = x * 2, table["k"] + 1
    return seen, table


def a_constant_of_both(x):
    if x.sum() > 0:
        name, y = "same", x
    else:
        name, y = "same", x * x
    return y, name


def one_new_array_in_two_places(x):
    if x.sum() > 0:
        y = z = x * 2
    else:
        y = z = x * 3
    return y, z, y is z


def texts(x):
    name = "plus" if x.sum() > 0 else "minus"
    return x * 2, name


def lengths(x):
    made = [x] if x.sum() > 0 else [x, x]
    return made, x * 2




@pytest.mark.parametrize("program", [
    numbers_and_tuples, objects_made_on_both, an_object_changed_on_one, a_constant_of_both,
    one_new_array_in_two_places])
def test_one_graph(program):
    assert breaks_of(program, *INPUTS, *INPUTS) == {}


@pytest.mark.parametrize("program", [texts, lengths])
def test_what_has_no_one_value(program):
    assert breaks_of(program, *INPUTS, *INPUTS).keys() == {"branch"}


class Walk:
    """A sampler that holds a function made in the call."""

    def __init__(self, of):
        self.of, self.accepted = of, 0

    def run(self, x):
        for k in range(3):
            if self.of(x * 0.5) > k:
                x, self.accepted = x * 0.5, self.accepted + 1
        return x

    def rate(self):
        return self.accepted / 3


def test_a_function_made_in_each_call_that_both_sides_hold():
    """It is known by its code. Joining the sides looked at it: each call had an entry for it alone."""
    def program(x, scale):
        def of(x):
            return x.sum() + scale

        found = {}
        for name in ("one", "other"):
            walk = Walk(of)
            found[name] = walk.run(x), walk.rate()
        return found

    dynacomp.reset()
    compiled, seen = dynacomp.jit(program, backend="eager"), []
    for k in range(10):
        x, scale = jnp.arange(3.0) * 0.3 * k, 0.1 * k
        assert repr(compiled(x, scale)) == repr(program(x, scale))
        seen.append(dynacomp.stats()["frames_captured"])
    assert seen[3] == seen[-1], seen


def test_constants_are_equal_by_class_and_text():
    assert is_equal(1.0, 1.0) and is_equal((1, "a"), (1, "a")) and is_equal(float("nan"), float("nan"))
    assert not is_equal(1, True) and not is_equal(0.0, -0.0) and not is_equal([], [])


class Filter:
    """What a particle filter, a trust region or a neighbour list keeps: how often a branch was taken."""

    def __init__(self):
        self.x, self.taken, self.last, self.flag = jnp.ones(3), 0, 5, False

    def step(self, y):
        self.x = self.x * 0.9 + y
        total = jnp.sum(self.x)
        if total > 3.0:
            self.x = self.x * 0.1
            self.taken += 1
            self.flag = not self.flag
        if self.x[0] > 0.5:
            self.taken = self.last
        elif self.x[0] > 0.2:
            self.last += 2
            self.taken -= 1
        return total, self.taken * 2, self.taken + self.last

    def state(self):
        return self.taken, self.last, self.flag, type(self.taken), type(self.flag)


def test_ints_that_change_from_call_to_call_on_one_side():
    plain, own = Filter(), Filter()
    step = dynacomp.jit(own.step)
    for i in range(6):
        expected, got = plain.step(float(i % 4)), step(float(i % 4))
        assert got[1:] == expected[1:] and own.state() == plain.state()
    captured = dynacomp.stats()["frames_captured"]
    for i in range(4):
        assert step(float(i))[1:] == plain.step(float(i))[1:] and own.state() == plain.state()
    assert dynacomp.stats()["frames_captured"] == captured and not dynacomp.stats()["breaks"]


@pytest.mark.parametrize("large", [2**40, 2**31 - 1, -(2**31), 2**30 - 1])
def test_ints_that_the_graph_does_not_hold(large):
    plain, own = Filter(), Filter()
    step = dynacomp.jit(own.step)
    for i in range(7):
        if i == 4:
            plain.taken = own.taken = large
        assert step(float(i % 4))[1:] == plain.step(float(i % 4))[1:] and own.state() == plain.state()


class Pair:
    def __init__(self):
        self.first, self.second, self.third = jnp.ones(3), jnp.zeros(3), jnp.ones(3)


def written_in_another_order(x):
    pair = PAIR
    if x.sum() > 0:
        pair.third, pair.first, pair.second = x, x * 2, x + 1
    else:
        pair.second = pair.first + x
        pair.first, pair.third = x, pair.second * 3
    return list(vars(pair)), dict(vars(pair))


def made_in_another_order(x):
    pair = PAIR
    if x.sum() > 0:
        del pair.first
        pair.first = x
        pair.fifth = x + 1
        pair.fourth = x
    else:
        pair.fourth = x + 2
        pair.fifth = x * 3
    return list(vars(pair)), dict(vars(pair))


PAIR = Pair()


@pytest.mark.parametrize("fn", [written_in_another_order, made_in_another_order])
def test_attributes_that_the_sides_write_in_another_order(fn):
    """Which one was read first on the other side was left to the hashes of their names: some processes broke the
    graph."""
    for x in (jnp.arange(1.0, 4.0), -jnp.arange(1.0, 4.0)):
        vars(PAIR).clear()
        PAIR.__init__()
        want = fn(x)
        vars(PAIR).clear()
        PAIR.__init__()
        got = dynacomp.jit(fn)(x)
        assert got[0] == want[0] and all((got[1][k] == want[1][k]).all() for k in want[1])
    assert fn is made_in_another_order or not dynacomp.stats()["breaks"]
