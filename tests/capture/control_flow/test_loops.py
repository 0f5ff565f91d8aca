"""Loops on arrays: a `while_loop` node where that is sound, a graph break everywhere else."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def f32(x):
    return lambda: (jnp.float32(x),)


def i32(*xs):
    return lambda: tuple(jnp.array(x) for x in xs)


def newton(x):
    while jnp.abs(x * x - 2.0) > 1e-5:
        x = x - (x * x - 2.0) / (2 * x)
    return x


def newton_counted(x):
    i = 0
    while jnp.abs(x * x - 2.0) > 1e-5 and i < 20:
        x = x - (x * x - 2.0) / (2 * x)
        i += 1
    return x, i


def break_and_else(x):
    n = 0
    for i in range(100):
        x = x * 0.5 + i
        n = i
        if x > 30:
            break
    else:
        x = -x
    return x, n


def return_inside(x):
    for i in range(100):
        x = x * 1.5
        if x > 30:
            return x, i
    return x, -1


def downwards(x):
    for i in range(50, 0, -3):
        x = x + i
        if x > 100:
            break
    return x, i


def while_true(x):
    k = 0
    while True:
        x = x / 2
        k += 1
        if x < 1:
            break
    return x, k


def collatz(n):
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return n, count


def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def tuples(x):
    state = (x, x * 2)
    while state[0].sum() < 100:
        state = (state[0] + state[1], state[1] * 1.5)
    return state


def flagged(x):
    done, steps = False, 0
    while not done:
        x = x * 2
        steps += 1
        if x.sum() > 50:
            done = True
    return x, steps, done


def none_at_first(x):
    before = None
    while x > 1:
        x = x / 2 if before is None else (x + before) / 4
        before = x
    return x


def bisection(x):
    low, high = x * 0, x
    for _ in range(60):
        middle = (low + high) / 2
        if high - low < 1e-3:
            break
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return middle


def power_iteration(m):
    v, last = jnp.ones(m.shape[0]), jnp.zeros(())
    for step in range(200):  # noqa: B007
        w = m @ v
        size = jnp.linalg.norm(w)
        v = w / size
        if jnp.abs(size - last) < 1e-4:
            break
        last = size
    return size, step


def rejection(key):
    tries = 0
    while True:
        key, use = jax.random.split(key)
        x = jax.random.uniform(use)
        tries += 1
        if x > 0.9:
            return x, tries


def nested(x):
    total = jnp.zeros(())
    while x > 1:
        y = x
        while y > 1:
            y = y / 2
            total = total + y
        x = x - 3
    return total, x


def changes_a_dict(x, state):
    while x.sum() < 30:
        state["h"] = state["h"] + x
        x = x * 2
    return x


class Counter:
    def __init__(self, value):
        self.value, self.rounds = value, 0

    def __eq__(self, other):
        return self.rounds == other.rounds and float(self.value) == float(other.value)


def changes_an_object(x, counters):
    counter = counters[0]
    while x > 1:
        counter.value = counter.value + x
        counter.rounds += 1
        x = x / 2
    return x


def continues(x):
    odd = 0
    for i in range(40):
        if i % 2 == 0:
            continue
        x = x + i
        odd += 1
        if x > 90:
            break
    return x, odd


def by_index(x):
    at = 0
    while x[at] < 3:
        at += 1
    return x[at], at


def comprehends(x):
    """PEP 709: the variable of a comprehension is a local of the function, unbound before and after."""
    for i in range(40):  # noqa: B007
        parts = [x * j * m for j in range(1, 3) for m in (1, 2)]
        x = sum(parts) / 12
        if x < 0.1:
            break
    return x, i


NODES = [
    (comprehends, f32(9.0), f32(0.05)),
    (newton, f32(3.0), f32(1.4142135)), (newton_counted, f32(3.0), f32(float("nan"))),
    (break_and_else, f32(1.0), f32(-1e9)), (return_inside, f32(1.0), f32(-1.0)), (downwards, f32(1.0), f32(-1e4)),
    (while_true, f32(100.0), f32(-1.0)), (collatz, i32(27), i32(1)), (gcd, i32(1071, 462), i32(7, 0)),
    (tuples, lambda: (jnp.ones(3),)), (flagged, lambda: (jnp.ones(3),)), (none_at_first, f32(100.0), f32(0.5)),
    (bisection, f32(2.0)), (power_iteration, lambda: (jnp.array([[2.0, 1.0], [1.0, 3.0]]),)),
    (rejection, lambda: (jax.random.key(3),)), (nested, f32(10.0), f32(0.0)),
    (changes_a_dict, lambda: (jnp.ones(3), {"h": jnp.zeros(3)})), (continues, f32(0.0), f32(-1e6)),
    (changes_an_object, lambda: (jnp.float32(9.0), [Counter(jnp.zeros(()))])),
    (by_index, lambda: (jnp.arange(9.0),)),
]


@pytest.mark.parametrize("fn, arguments", [(fn, rest) for fn, *rest in NODES], ids=[n[0].__name__ for n in NODES])
def test_loops_become_nodes(fn, arguments):
    assert breaks_of(fn, *arguments) == {}


def test_compiled_by_a_backend():
    assert breaks_of(newton_counted, f32(3.0), f32(5.0), backend="auto") == {}
    assert breaks_of(break_and_else, f32(1.0), f32(-1e9), backend="auto") == {}


def grows(x, log):
    while x.sum() < 20:
        log.append(x)
        x = x * 2
    return x


def other_weak_type(x):
    y = 1.0
    while jnp.all(x > y):
        y = y * x[0]
    return y


def float_counter(x):
    t = 0.1
    while x > t:
        t += 0.1
    return x, t


def multiplies(x):
    n = 3
    while x > 0:
        x = x - 1
        n = n * n
    return x, n


def strides(x):
    n = 0
    while x > 0:
        x = x - 1
        n += 1 << 28
    return x, n


def shown_on_the_way(x):
    while x > 1:
        x = x / 2
        print("step", end="")
    return x


BREAK = [
    (grows, lambda: (jnp.ones(3), [])), (other_weak_type, lambda: (jnp.array([2.0, 30.0]),)),
    (float_counter, f32(0.35)), (multiplies, f32(5.0)), (strides, f32(20.0)), (shown_on_the_way, f32(5.0)),
]


@pytest.mark.parametrize("fn, make", BREAK, ids=[n[0].__name__ for n in BREAK])
def test_other_loops_break(fn, make):
    assert breaks_of(fn, make)


def test_an_input_that_no_iteration_changed_stays_itself():
    compiled = dynacomp.jit(newton)
    there = jnp.asarray(1.4142135, jnp.float32)
    assert compiled(there) is there
    assert compiled(jnp.float32(3.0)) is not there
    assert dynacomp.stats()["breaks"] == {}


def test_derivatives_are_those_of_eager_jax():
    x = jnp.float32(3.0)
    assert jax.grad(dynacomp.jit(newton, backend="eager"))(x) == jax.grad(newton)(x)
    assert abs(jax.grad(dynacomp.jit(newton))(x) - jax.grad(newton)(x)) < 1e-8
    inside = lambda x: jax.grad(newton)(x) + 1  # noqa: E731
    assert dynacomp.jit(inside)(x) == inside(x)


def with_else(x, i):
    k, out = 0, []
    while (k := k + 1) < 6:
        if k == i % 6:
            break
        x = x + k
    else:
        out.append("none")
    return k, x, out


def appending(x, i):
    k, out = 0, []
    while (k := k + 1) < 6:
        if k == i % 6:
            out.append(k)
            break
        x = x + k
    return k, x, out


@pytest.mark.parametrize("fn", [with_else, appending])
def test_a_loop_whose_ends_differ_starts_from_its_first_round(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for i in (1, 4, 5, 3, 6, 0, 12, 7):
        assert repr(compiled(jnp.ones(3), i)) == repr(fn(jnp.ones(3), i))
    assert not dynacomp.stats()["frames_eager"]
