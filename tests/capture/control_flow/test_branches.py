"""`if` on arrays: a `cond` node where that is sound, a graph break everywhere else."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of, same


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def both_sides(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + 1


def both_return(x):
    if jnp.any(x > 2):
        return x * 2, x.sum()
    return x - 1, x.sum() * 0


def nested(x):
    if x[0] > 1:
        if x[1] > 2:
            r = x * 10
        else:
            r = x * 5
    else:
        r = -x
    return r * 1


def effect(x, log):
    if x.sum() > 0:
        log.append(1)
        return x * 1
    log.append(2)
    return -x


def other_types(x):
    if x.sum() > 0:
        y = 1
    else:
        y = x * 1
    return y


def other_weak_type(x):
    if x.sum() > 0:
        y = jnp.asarray(1.0)
    else:
        y = x.sum()
    return y * jnp.ones((), jnp.bfloat16)


def raising(x):
    if x.sum() > 0:
        raise ValueError("positive")
    return x * 2


INPUTS = [jnp.array([3.0, 1.0]), jnp.array([3.0, 5.0]), jnp.array([-3.0, 1.0])]


def compare(fn, x, *rest):
    got = dynacomp.jit(fn, backend="xla")(x, *rest)
    want = fn(x, *rest)
    for a, b in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b)
        if not isinstance(a, int):
            assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)


@pytest.mark.parametrize("fn", [both_sides, both_return, nested])
def test_pure_sides_become_a_cond(fn):
    for x in INPUTS:
        compare(fn, x)
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["recompiles"] == 0


def in_turn(x, log):
    if x.sum() > 0:
        print("positive")
        return x * 1
    return -x


@pytest.mark.parametrize("fn", [other_types, other_weak_type])
def test_sides_of_other_kinds_break(fn):
    for x in INPUTS:
        compare(fn, x)
    assert dynacomp.stats()["breaks"]["branch"] >= 1


def test_side_effects(capsys):
    """The side that prints is expected not to be taken; where it often is, the graph breaks."""
    compiled = dynacomp.jit(in_turn, backend="xla")
    for k, x in enumerate(INPUTS * 3):
        np.testing.assert_allclose(compiled(x, []), in_turn(x, []))
        assert capsys.readouterr().out == "positive\n" * 2 * (k % 3 < 2)
        assert bool(dynacomp.stats()["breaks"]) == (k > 3), k


def test_sides_may_change_older_objects_alike():
    assert breaks_of(effect, *((lambda x=x: (x, [])) for x in INPUTS)) == {}


class Box:
    def __init__(self, value):
        self.value, self.flips = value, 0


def attributes(x, box):
    if x.sum() > 0:
        box.value = box.value + x
    else:
        box.value = -x
        box.flips += 1
    return box.value * 2, box.flips


def test_sides_may_write_attributes():
    compiled = dynacomp.jit(attributes, backend="eager")
    for x in INPUTS:
        ours, theirs = Box(x * 2), Box(x * 2)
        assert same(compiled(x, ours), attributes(x, theirs)) and same(vars(ours), vars(theirs))
    assert dynacomp.stats()["breaks"] == {}


def chain(x):
    if x.sum() > 5:
        r = x * 10
    elif x.sum() > 3:
        r = x * 5
    elif x.sum() > 0:
        r = x * 2
    else:
        r = -x
    return r


def early(x):
    if x[0] < 0:
        return x, 0
    y = x * 3
    if y[1] > 4:
        return y, 1
    return y + 1, 2


def expressions(x):
    y = x * 2 if x[0] > 1 and x[1] > 2 else x * 3
    z = x if x[0] < 0 or not x[1] > 2 else -x
    return y + z, not x[0] > 1, bool(x[1] > 2)


def fresh_containers(x):
    if x.sum() > 0:
        found = {"a": [x, x * 2], "n": 1}
    else:
        found = {"a": [-x, x * 3], "n": 2}
    found["a"].append(x)
    return found


def shared_container(x):
    if x.sum() > 0:
        a = b = [x * 1]
    else:
        a = b = [x * 2]
    a.append(x)
    return a, b, a is b


def cells(x):
    total = x * 0

    def add(v):
        nonlocal total
        total = total + v

    if x.sum() > 0:
        add(x)
    else:
        add(-x)
    return total


@pytest.mark.parametrize("fn", [chain, early, expressions, fresh_containers, shared_container, cells])
def test_more_shapes_of_if(fn):
    assert breaks_of(fn, *((lambda x=x: (x,)) for x in INPUTS)) == {}


def other_identity(x):
    if x.sum() > 0:
        a = b = [x * 1]
    else:
        a, b = [x * 1], [x * 1]
    a.append(x)
    return len(b)


def asserts(x):
    assert x.sum() > 0, "negative"
    return x * 2


def test_other_identities_break():
    assert breaks_of(other_identity, *((lambda x=x: (x,)) for x in INPUTS))["branch"] >= 1


def test_assert_raises_as_in_eager():
    compiled = dynacomp.jit(asserts, backend="eager")
    with pytest.raises(AssertionError, match="negative"):
        compiled(INPUTS[2])
    assert same(compiled(INPUTS[0]), asserts(INPUTS[0]))


def test_a_side_that_raises():
    compiled = dynacomp.jit(raising, backend="xla")
    with pytest.raises(ValueError, match="positive"):
        compiled(INPUTS[0])
    np.testing.assert_allclose(compiled(INPUTS[2]), INPUTS[2] * 2)


def test_an_input_that_is_returned_stays_itself():
    @dynacomp.jit
    def maybe(x):
        if x.sum() > 0:
            x = x * 2
        return x

    assert maybe(INPUTS[2]) is INPUTS[2]
    assert maybe(INPUTS[0]) is not INPUTS[0]


def sequences(x):
    for k, w in zip((1, 2, 3), [x, x * 2, x * 3]):
        if w.sum() > 5:
            return w, k
    return x + 1, 0


def an_iterator_afterwards(x):
    numbers = iter([10, 20, 30])
    for n in numbers:
        if x.sum() < n / 10:
            break
    return x * 2, next(numbers, None)


@pytest.mark.parametrize("fn, breaks", [(sequences, {}), (an_iterator_afterwards, None)])
def test_iterators_whose_position_depends(fn, breaks):
    found = breaks_of(fn, *((lambda x=x: (x,)) for x in INPUTS))
    assert found if breaks is None else found == breaks


class Holder:
    def __init__(self, value):
        self.value = value


def one_array_in_two_places(x):
    box, z = Holder(x + 1), x
    if jnp.all(x > 0):
        box.value = z = x * 2
    return box.value is z, box.value + z


def test_an_array_that_one_side_puts_in_two_places_stays_one():
    assert breaks_of(one_array_in_two_places, *((lambda x=x: (x,)) for x in INPUTS)) == {"branch": 1}


def steps_down(tree, at):
    return 0 if tree[at] == 0 else 1 + steps_down(tree, tree[at])


def walks(x, tree):
    y = jnp.tanh(x) * 2
    return y + steps_down(tree, 0), y.sum()


def test_a_function_that_calls_itself_until_an_array_says_stop():
    """Both sides run, it had no end: the whole frame was plain Python, at the recursion limit."""
    tree = jnp.array([2, 3, 1, 0, 0])
    made, seen = dynacomp.jit(walks, backend="eager"), []
    for i in range(6):
        x = jnp.arange(3.0) + i
        np.testing.assert_allclose(made(x, tree)[0], walks(x, tree)[0], rtol=1e-6)
        seen.append(dynacomp.stats()["frames_captured"])
    stats = dynacomp.stats()
    assert set(stats["breaks"]) == {"branch"} and not stats["frames_eager"] and seen[0] == seen[-1] <= 8, seen


def found(x, table, i):
    if i == 12:
        return i
    return i * 2 if x < table[i] else found(x, table, i + 1)


def test_a_function_that_calls_itself_until_a_number_says_stop_is_one_graph():
    program = lambda x: found(x, jnp.arange(12.0), 0) + x  # noqa: E731
    assert breaks_of(program, *((lambda i=i: (jnp.float32(i),)) for i in (0, 5, 20))) == {}
