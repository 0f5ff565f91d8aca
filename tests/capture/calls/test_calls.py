"""Calls: functions, methods, classes, partials, callables of the program, and how their arguments are bound."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fftpack

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


class Scaled:
    count = 0

    def __init__(self, by):
        self.by = by

    def __call__(self, x, *more, **named):
        return x * self.by + len(more) + sum(named.values())

    def method(self, x, plus=0):
        return self(x) + plus

    @classmethod
    def made(cls, *args):
        return cls(*args)

    @staticmethod
    def twice(x):
        return x + x

    @property
    def half(self):
        return self.by / 2

    @functools.cached_property
    def kept(self):
        Scaled.count += 1
        return self.by * 10


def positional(a, b=2, /, c=3, *rest, d, e=5, **others):
    return a, b, c, rest, d, e, others


def decorated(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs), fn.__name__
    return inner


@decorated
def wrapped(x, n=1):
    """Says what it does."""
    return x + n


def methods(x):
    s = Scaled(3.0)
    bound, unbound = s.method, Scaled.method
    return (s(x, 1, 2, k=3), bound(x, plus=1), unbound(s, x), Scaled.made(2.0)(x), s.twice(x), Scaled.twice(1), s.half,
            s.method(x), bound.__self__ is s, bound.__func__ is unbound)


def bindings(x):
    return (positional(x, d=1), positional(1, 2, 3, 4, 5, d=x, f=6), positional(*(1, 2), **{"d": 3, "c": 4}),
            (lambda *a, **k: (a, k))(1, *[2], k=x), positional(1, d=1, a=2, b=3))


def partials(x):
    add = functools.partial(positional, 1, d=2)
    nested = functools.partial(add, 5, z=x)
    return add(), nested(c=7), add.func is positional, add.args, functools.reduce(operator.add, [x, x, 1])


def wrappers(x):
    return wrapped(x, n=2), wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__(x), jax.jit(wrapped.__wrapped__)(x)


def recursive(x):
    def power(n):
        return 1 if n == 0 else 2 * power(n - 1)

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    return power(10), even(7), x * power(2)


@pytest.mark.parametrize("program", [methods, bindings, partials, wrappers, recursive])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


@pytest.mark.parametrize("program", [
    lambda x: positional(), lambda x: positional(x), lambda x: positional(x, d=1, **{"d": 2}), lambda x: x(),
    lambda x: Scaled(), lambda x: Scaled(1)(), lambda x: x.shape(), lambda x: wrapped(x, m=1),
    lambda x: Scaled(1).twice(x, x),
    lambda x: functools.partial(wrapped, x)(y=1), lambda x: (lambda: x)(1)])
def test_calls_that_do_not_fit_raise_what_python_raises(program):
    want = outcome(program, (X,))
    compiled = dynacomp.jit(program, backend="eager")
    assert want[0] is TypeError and outcome(compiled, (X,)) == want == outcome(compiled, (X,))


def test_a_cached_property_is_computed_once_in_each_object():
    def program(x, s):
        return x + s.kept + s.kept

    compiled = dynacomp.jit(program, backend="eager")
    Scaled.count = 0
    made = [Scaled(float(n)) for n in range(4)]
    for s in made * 2:
        assert compiled(X, s).tolist() == (X + 20 * s.by).tolist()
    assert Scaled.count == 4


def test_functions_made_anew_in_each_call_are_one_entry():
    def program(x, n):
        fn = functools.partial(lambda y, k: y * k, k=n)
        return fn(x) + (lambda: n)()

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(5):
        assert compiled(X, 3).tolist() == program(X, 3).tolist()
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


class SetByHand:
    """As attrs writes `__init__` of its classes."""

    def __init__(self, x, n=3, get=object.__setattr__.__get__):
        put = get(self)
        put("x", x)
        put("n", n)

    def __setattr__(self, name, value):
        raise AttributeError(name)


def test_descriptors_bound_by_hand():
    def program(x):
        made, log = SetByHand(x * 2), [1]
        list.append.__get__(log)(x)
        Scaled.method.__get__(made, SetByHand)
        return made.x, made.n, log, list(vars(made))
    check_one_graph(program, (X,), (X + 1,))


def test_a_library_in_c_is_asked_for_what_whole_numbers_come_to():
    def program(x, n):
        return x * scipy.fftpack.next_fast_len(17) + scipy.fftpack.next_fast_len(n)

    check_one_graph(program, (X, 11), (X + 1, 11))
    check_one_graph(program, (X, 11), (X, 13), (X, 11), captures=2)


class Swapped:
    def inner(self, x):
        return x + 1

    def outer(self, x, by=2):
        return self.inner(x) * by


def test_code_and_defaults_of_methods_that_change():
    dynacomp.reset()
    made = Swapped()
    compiled = dynacomp.jit(lambda x: made.outer(x), backend="eager")
    before = Swapped.inner.__code__, Swapped.outer.__defaults__
    try:
        for code, defaults in (before, ((lambda self, x: x * 9).__code__, (2,)), (before[0], (3,)), before):
            Swapped.inner.__code__, Swapped.outer.__defaults__ = code, defaults
            assert compiled(X).tolist() == compiled(X).tolist() == made.outer(X).tolist()
    finally:
        Swapped.inner.__code__, Swapped.outer.__defaults__ = before
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 3 and not stats["breaks"] and not stats["frames_eager"]


class Answers:
    """What its special methods give is what it holds."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return self.held

    def __str__(self):
        return self.held

    def __format__(self, spec):
        return self.held


class Truth(Answers):
    def __bool__(self):
        return self.held


class Begun:
    def __init__(self, result):
        return result  # noqa: PLE0101


@pytest.mark.parametrize("asked", [
    lambda held: len(Answers(held)), lambda held: bool(Answers(held)), lambda held: 1 if Truth(held) else 2,
    lambda held: str(Answers(held)), lambda held: f"{Answers(held)}", lambda held: Begun(held) and 1])
def test_what_special_methods_give_is_looked_at(asked):
    def program(x, held):
        try:
            return x, asked(held)
        except (TypeError, ValueError, OverflowError) as error:
            return x, type(error), str(error)

    helds = (2, 4.5, True, np.int32(2), 2**70, "a", None)
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for held in (*helds, *helds):
        assert repr(compiled(X, held)) == repr(program(X, held))
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= len(helds)
