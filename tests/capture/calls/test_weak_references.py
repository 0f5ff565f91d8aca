"""Weak references that captured code makes: what can be reached is alive, and gone objects are gone behind the code."""

import functools
import weakref

import jax
import jax.numpy as jnp

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


class Transform:
    """As NumPyro writes it: its inverse refers to it, and it to its inverse, weakly."""

    def __init__(self, scale):
        self.scale, self._inverse = scale, None

    @property
    def inverse(self):
        found = self._inverse() if isinstance(self._inverse, weakref.ref) else None
        if found is None:
            found = Inverse(self)
            self._inverse = weakref.ref(found)
        return found


class Inverse:
    def __init__(self, of):
        self.of = of

    def __call__(self, x):
        return x / self.of.scale


def test_references_to_what_can_be_reached():
    def program(x):
        transform = Transform(2.0)
        inverse = transform.inverse
        again = weakref.ref(inverse)
        return (inverse(x), transform.inverse is inverse, again is transform._inverse, again() is inverse,
                isinstance(again, weakref.ref), type(again) is weakref.ref, Transform(3.0).inverse(x))

    check_one_graph(program, (X,), (X + 1,))


def test_references_leave_as_references():
    def program(x, outer):
        transform = Transform(2.0)
        inverse = transform.inverse
        return transform, inverse, outer.inverse(x) + inverse(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(4):
        outer = Transform(3.0)
        transform, inverse, result = compiled(X, outer)
        assert transform._inverse() is inverse and outer._inverse() is None
        assert (result == program(X, Transform(3.0))[2]).all()
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_an_object_that_is_dropped_behind_a_break():
    def program(x):
        transform = Transform(2.0)
        inverse, seen = transform.inverse, transform._inverse
        dynacomp.graph_break()
        alive = seen() is inverse
        del inverse
        return x + 1, alive, seen() is None

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        assert compiled(X)[1:] == (True, True)
    assert dynacomp.stats()["frames_captured"]


def test_a_reference_with_a_callback_is_pythons():
    def program(x):
        thing, seen = Transform(2.0), []
        kept = weakref.ref(thing, seen.append)
        return x * kept().scale, thing, kept

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        _, thing, kept = compiled(X)
        assert kept() is thing and kept.__callback__
    assert dynacomp.stats()["breaks"]


STACK = []


def logged(fn):
    """As runtime type checkers write it: what it makes refers to itself, and stands on a stack while it runs."""
    holder = []

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        if getattr(holder[0](), "is_off", False):
            return fn(*args, **kwargs)
        STACK.append(dict(kwargs))
        try:
            return fn(*args, **kwargs)
        finally:
            STACK.pop()

    holder.append(weakref.ref(wrapped))
    return wrapped


def test_functions_that_the_captured_code_decorates():
    def program(x):
        @logged
        def double(y, n=2):
            return y * n

        return double(x), jax.vmap(double)(x), jax.lax.scan(lambda c, y: (double(c, n=3), double(y)), x[0], x)

    check_one_graph(program, (X,), (X + 1,))
    assert not STACK


def test_a_decorated_function_leaves_with_its_reference():
    def program(x):
        function = logged(lambda y: y + 1)
        dynacomp.graph_break()
        return function, function(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(4):
        function, result = compiled(X + n)
        assert (result == X + n + 1).all() and (function(X) == X + 1).all()
        assert function.__closure__[1].cell_contents[0]() is function
    assert dynacomp.stats()["breaks"] == {"user": 1} and dynacomp.stats()["frames_captured"] <= 3


def test_functions_that_come_anew_with_references_to_them():
    def given(n):
        return logged(lambda x: x * n)

    dynacomp.reset()
    compiled = dynacomp.jit(lambda f, x: f(x) + 1, backend="eager")
    for n in range(1, 7):
        assert (compiled(given(float(n)), X) == X * n + 1).all()
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]


def test_functions_that_captured_code_lets_go_of():
    held, given = [], {}

    def made(x):
        function = lambda y: y  # noqa: E731
        seen = weakref.ref(function)
        alive = seen() is function
        del function
        return x + 1, alive, seen()

    def emptied(x, seen):
        held.clear()
        return x + 1, True, seen()

    def replaced(x, seen):
        given["f"] = None
        return x + 1, True, seen()

    for program in (made, emptied, replaced):
        compiled = dynacomp.jit(program, backend="eager")
        for n in range(4):
            held[:] = [lambda y, n=n: y] if program is emptied else []
            given["f"] = (lambda y, n=n: y) if program is replaced else None
            function = [weakref.ref(f) for f in (*held, *filter(None, given.values()))]
            assert compiled(X, *function)[1:] == (True, None)
