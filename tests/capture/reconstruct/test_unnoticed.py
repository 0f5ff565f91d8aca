"""`reconstruct.unnoticed`: locals that nothing reads any more are let go at a break, but for those that would tell."""

import collections
import gc
import math
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture._native import unnoticed
from tests.changing.kit import outcome, unlike

Pair = collections.namedtuple("Pair", "a b")


class Tells(tuple):
    def __del__(self):
        pass


class Plain:
    def __init__(self, held):
        self.held = held


class Slotted(list):
    __slots__ = ("held",)


def holding(held):
    return lambda: held


def watched(obj):
    watched.refs.append(weakref.ref(obj))
    return obj


watched.refs = []


@pytest.mark.parametrize("obj", [
    None, 3, 2.5, 1j, True, "text", b"b", ..., NotImplemented, math, np.ones(2), np.float32(1), jnp.ones(2),
    (1, [2, {"a": jnp.ones(2)}]), Pair(jnp.ones(1), [Pair(1, None)]), {(1, "k"): np.ones(1)}, [0] * 250, object(),
    Plain([Plain(1)]), Slotted([1]), {1, 2}, collections.Counter("ab"), collections.OrderedDict(a=1), holding([1]),
    Plain(holding(Plain(jnp.ones(1)))), Plain(1).__init__, type("Mine", (int,), {})(3)])
def test_what_nobody_misses(obj):
    assert unnoticed(obj, False)


@pytest.mark.parametrize("obj", [
    Tells((1,)), int, Plain, iter([]), (x for x in ()), np.array([object()]), np.ones(2).view(np.matrix), [0] * 300,
    watched({1}), watched(Plain(1)), watched(holding(1)), open(__file__), ValueError(), threading.Lock(),
    np.random.RandomState(0)])
def test_what_may_tell(obj):
    assert not unnoticed(obj, False) and not unnoticed(obj, True)
    for inside in ([obj], {"a": obj}, Plain(obj), holding(obj), Plain((1, holding([obj])))):
        assert unnoticed(inside, False) == isinstance(obj, type)
    inside = [obj]
    inside.append(inside)  # no end
    assert not unnoticed(inside, False)


def run(fn, calls):
    """Captures after each call; results, exceptions and side effects are those of plain Python."""
    dynacomp.reset()
    compiled, made = dynacomp.jit(fn, backend="eager"), []
    for args in calls:
        wrong = unlike(outcome(fn, args()), outcome(compiled, args()))
        assert not wrong, wrong
        made.append(dynacomp.stats()["frames_captured"])
    return made


def squares(w, x):
    return ((w["a"] * x) ** 2).sum()


def training(w, batches, log):
    """In the first round nothing of this is bound yet; in each later one all of it is, and dead."""
    for batch in batches:
        dynacomp.graph_break()
        loss, grads = jax.value_and_grad(squares)(w, batch["x"])
        pair = Pair(loss, [batch["x"] + 1])
        w = jax.tree.map(lambda p, g: p - 0.1 * g, w, grads)
        log(float(pair.a))
    return w


def test_all_rounds_go_on_in_one_function():
    calls = [lambda: ({"a": jnp.ones(3)}, [{"x": jnp.arange(3.0) * k} for k in range(3)], [].append)] * 4
    assert run(training, calls)[-1] <= 3
    assert dynacomp.stats()["breaks"].keys() == {"user"}


class Named:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(f"{self.name} died")


def objects_among_them(xs, mode, log):
    """A local that is an array in one call is an object with a finalizer in another one."""
    t = jnp.zeros(())
    for k, x in enumerate(xs):
        held = [Named(k, log)] if mode == "list" else Named(k, log) if mode == "object" else {"x": x}  # noqa: F841
        t = t + x.sum()
        log.append(f"round {k} {float(t)}")
        del x
        log.append("end")
    return t, log


def test_what_tells_lives_on():
    modes = ("none", "object", "list", "none", "object", "list", "none", "list", "object", "none")
    made = run(objects_among_them, [lambda i=i, m=m: ([jnp.arange(3.0) + i] * (2 + i % 3), m, []) for i, m in
                                    enumerate(modes)])
    assert made[-1] == made[5], made


def refers(xs, log):
    """Of what has a weak reference the program hears, behind a break as before it."""
    for x in xs:
        made = {"set": {1, 2}, "x": x}
        ref = weakref.ref(made["set"])
        y = x * 2
        log.append(float(y.sum()))
        log.append(ref() is not None)
    return log


def test_weak_references_hold():
    run(refers, [lambda n=n: ([jnp.arange(3.0)] * n, []) for n in (2, 3, 4, 2)])


def seen_by_a_function(xs, log):
    """The variable of the loop is a cell, empty in the first round."""
    for x in xs:
        dynacomp.graph_break()
        log.append(float(jax.grad(lambda w: (w * x).sum())(2.0)))  # noqa: B023
    return log


def test_the_variable_of_a_loop_that_a_function_sees():
    made = run(seen_by_a_function, [lambda: ([jnp.arange(3.0) + k for k in range(4)], [])] * 3)
    assert made[-1] <= 3, made


@pytest.mark.parametrize("obj, never", [
    (1, True), ([jnp.ones(1), {"a": (2,)}], True), (np.ones(1), True), (Plain(1), False), ({1}, False),
    ([holding(1)], False), (Slotted([1]), True)])
def test_what_nobody_could_miss(obj, never):
    assert unnoticed(obj, True) == never and unnoticed(obj, False)


class Died:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("died")


def referred(x, log, held):
    obj = held.pop()
    ref = weakref.ref(obj)
    y = x * 2
    print(end="")
    return y, ref() is not None


def called_back(x, log, held):
    obj = held.pop()
    ref = weakref.ref(obj, lambda _: log.append("died"))
    y = x * 2
    print(end="")
    log.append("end")
    return y, ref is not None


def finalized(x, log, held):
    obj = [held.pop()]
    weakref.finalize(obj[0], log.append, "died")
    y = x * 2
    print(end="")
    log.append("end")
    return y


def given_one(x, log, held):
    obj = Plain(1)
    obj.held = Died(log)
    y = x * 2
    print(end="")
    log.append("end")
    return y


def in_a_function(x, log, held):
    fn = holding(Died(log))  # noqa: F841
    y = x * 2
    print(end="")
    log.append("end")
    return y


def in_a_set(x, log, held):
    found = {Died(log)}  # noqa: F841
    y = x * 2
    print(end="")
    log.append("end")
    return y


@pytest.mark.parametrize("fn", [referred, called_back, finalized, given_one, in_a_function, in_a_set])
def test_what_captured_code_makes_tell(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(4):
        logs = [], []
        plain, ours = (f(jnp.ones(2) * n, log, [Plain(n)]) for f, log in zip((fn, compiled), logs))
        assert repr(plain) == repr(ours)
        gc.collect()  # the first call leaves cycles of ours
        assert logs[0] == logs[1]
