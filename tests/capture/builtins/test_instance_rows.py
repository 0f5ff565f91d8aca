"""isinstance with checks that a metaclass writes in Python, on arrays that the graph computes."""

import abc
import collections.abc
import inspect
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters.ad import JVPTracer

import dynacomp
from dynacomp.capture.graph.avals import ARRAY_TYPE
from tests.capture.program_kit import check_one_graph

X = jnp.ones((2, 3))
SEEN = []


class Ranked(type):
    def __instancecheck__(cls, obj):
        SEEN.append(cls.rank)
        return isinstance(obj, jax.Array) and obj.ndim == cls.rank


class Matrix(metaclass=Ranked):
    rank = 2


class Vector(metaclass=Ranked):
    rank = 1


def run(fn, *args):
    SEEN.clear()
    want = fn(*args), list(SEEN)
    SEEN.clear()
    got = dynacomp.jit(fn, backend="xla")(*args), list(SEEN)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, want, got))
    return want[0]


@pytest.mark.parametrize("kinds", [Matrix, Vector, (int, Matrix), (Vector, (Matrix, str)), (Matrix, Vector)])
def test_the_metaclass_is_asked(kinds):
    breaks = dynacomp.stats()["breaks"]
    run(lambda x: (isinstance(x * 2, kinds), isinstance(x, kinds), isinstance(x.sum(0), kinds), x + 1), X)
    assert dynacomp.stats()["breaks"] == breaks


class Lenient(type):
    def __instancecheck__(cls, obj):
        return super().__instancecheck__(obj) or isinstance(obj, jax.Array)


class Anything(metaclass=Lenient):
    pass


def test_a_metaclass_may_ask_type():
    breaks, thing = dynacomp.stats()["breaks"], Anything()
    run(lambda x: (isinstance(thing, Anything), isinstance(Anything(), Anything), isinstance(x * 2, Anything),
                   isinstance(3, Anything), x + 1), X)
    assert dynacomp.stats()["breaks"] == breaks


def test_an_instance_is_not_asked_about():
    breaks = dynacomp.stats()["breaks"]
    run(lambda x: (isinstance(Matrix(), Matrix), isinstance(3, Matrix), x + 1), X)
    assert dynacomp.stats()["breaks"] == breaks


def test_jaxtyping_and_beartype():
    jaxtyping, beartype = pytest.importorskip("jaxtyping"), pytest.importorskip("beartype")
    Table, Row = (jaxtyping.Float[jaxtyping.Array, dims] for dims in ("n d", " n"))

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def rows(x: Table, y: Table) -> Row:
        return (x * y).sum(1)

    compiled, breaks = dynacomp.jit(lambda x, y: rows(x, y + 1), backend="xla"), dynacomp.stats()["breaks"]
    for x in (X, X, jnp.ones((4, 2))):
        assert jnp.allclose(compiled(x, x), 2 * x.sum(1))
    slopes = dynacomp.jit(jax.grad(lambda x, y: rows(x, y).sum()), backend="xla")
    assert jnp.allclose(slopes(X, 3 * X), 3)
    assert dynacomp.stats()["breaks"] == breaks
    with pytest.raises(jaxtyping.TypeCheckError):
        compiled(X, jnp.ones((3, 3)))


def test_signatures_and_weak_references():
    def target(a, b=2, *, c=3):
        return a

    signature, holder = inspect.signature(target), [weakref.ref(target)]

    def bound(x):
        arguments = signature.bind(x, c=5)
        arguments.apply_defaults()
        return holder[0]()(**arguments.arguments) * arguments.arguments["c"], arguments.args[1]

    breaks = dynacomp.stats()["breaks"]
    run(bound, X)
    assert dynacomp.stats()["breaks"] == breaks


class Proxy:
    asked = 0

    def __init__(self, target):
        self.target = target

    @property
    def __class__(self):
        Proxy.asked += 1
        return type(self.target)


Seen = abc.ABCMeta("Seen", (), {})


def test_objects_that_tell_their_class_are_asked_as_python_asks_them():
    def kinds(p, x):
        return (isinstance(p, Proxy), isinstance(p, jax.Array), isinstance(p, (str, Proxy)), isinstance(p, Seen),
                p.__class__, type(p), x + 1)

    compiled = dynacomp.jit(kinds)
    for target in (X, "text", 3, X):
        Proxy.asked = 0
        want, asked = kinds(Proxy(target), 1), Proxy.asked
        Proxy.asked = 0
        assert compiled(Proxy(target), 1) == want and Proxy.asked == asked


def test_classes_that_are_registered_later():
    class Late:
        pass

    def weight(x, obj):
        return x * (2 if isinstance(obj, Seen) else 1), issubclass(type(obj), Seen)

    compiled, late = dynacomp.jit(weight), Late()
    assert compiled(3.0, late) == (3.0, False)
    Seen.register(Late)
    assert compiled(3.0, late) == (6.0, True)


def test_what_holds_of_a_class_is_asked_once():
    """Of each class once in a capture, until something is registered with an abstract one."""
    Shape = abc.ABCMeta("Shape", (), {})

    class Told:
        def __init__(self, told):
            self.told = told

        @property
        def __class__(self):
            return self.told

    class Square:
        pass

    told = Told(int), Told(str)

    def asked(x):
        squares = [Square() for _ in range(3)]
        before = [isinstance(s, Shape) for s in squares], [isinstance(s, int | Square) for s in squares]
        return before, [isinstance(t, (int, str)) for t in told], [isinstance(t, int) for t in told], x * 2

    compiled = dynacomp.jit(asked, backend="eager")
    for n in range(3):
        assert repr(compiled(X * n)) == repr(asked(X * n))
    Shape.register(Square)
    assert repr(compiled(X)) == repr(asked(X))


class Schedule(abc.ABC):
    @abc.abstractmethod
    def __call__(self, t):
        """At a time."""

    @classmethod
    def named(cls, name):
        return {each.__name__.lower(): each for each in cls.__subclasses__()}[name]()


class Linear(Schedule):
    def __call__(self, t):
        return 1 - t


class Cosine(Schedule):
    def __call__(self, t):
        return jnp.cos(t)


def test_the_classes_below_one_are_guarded():
    """A registry by `__subclasses__`: a break in each call, and all that came of it was unknown."""
    def scheduled(name, t):
        found = Schedule.named(name)(t)
        return found, len(Schedule.__subclasses__())

    dynacomp.reset()
    compiled = dynacomp.jit(scheduled, backend="eager")
    for name in ("linear", "cosine", "linear", "cosine"):
        assert str(compiled(name, X)) == str(scheduled(name, X))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"]

    class Late(Schedule):
        def __call__(self, t):
            return t * 3

    for name in ("late", "linear"):
        assert compiled(name, X)[1] == 3 and str(compiled(name, X)) == str(scheduled(name, X))
    assert not dynacomp.stats()["breaks"]


def test_the_classes_below_one_of_a_function_are_pythons():
    """A guard that names it would keep it alive."""
    def f(x):
        class Made:
            pass

        return x * 2, len(Made.__subclasses__())

    assert str(dynacomp.jit(f, backend="eager")(X)) == str(f(X))


KINDS = {"array": jax.Array, "arrays": (jax.Array, np.ndarray), "union": jax.Array | float, "numpy": np.ndarray,
         "hashable": collections.abc.Hashable, "tracer": jax.core.Tracer, "grads": JVPTracer, "object": object}
WAYS = {"jit": jax.jit, "grad": lambda f: jax.grad(lambda x: f(x).sum()), "vmap": jax.vmap, "plain": lambda f: f}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KINDS)
def test_the_class_of_a_traced_value(name, way):
    """That of a tracer is no subclass of `jax.Array`, though `isinstance` says so."""
    def below(x):
        return x * 2 if issubclass(type(x), KINDS[name]) else x * 3

    check_one_graph(lambda x: WAYS[way](below)(x), (jnp.arange(3.0),), (jnp.arange(3.0) + 1,))


@pytest.mark.parametrize("way", WAYS)
def test_the_class_of_a_traced_value_is_not_that_of_arrays(way):
    def same(x):
        return x * 2 if type(x) is ARRAY_TYPE else x * 3

    check_one_graph(lambda x: WAYS[way](same)(x), (jnp.arange(3.0),), (jnp.arange(3.0) + 1,))
