"""`types.SimpleNamespace`: read, written, made, compared and shown in the graph, like objects of Python classes."""

import copy
import sys
from types import SimpleNamespace as Namespace

import jax
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(3.0)


class Config(Namespace):
    scale = 3.0

    def scaled(self, x):
        return x * self.rate * self.scale


def reading(config, x):
    config.calls = getattr(config, "calls", 0) + 1
    return x * config.rate + config.inner.shift + config.calls


def making(x):
    made = Namespace(x=x, n=2)
    made.y = made.x * made.n
    entries = vars(made)
    entries["z"] = made.y + 1
    again = Namespace(**entries)
    del again.x
    again.self = again
    return made, again.z, again.self is again, entries is made.__dict__, hasattr(again, "x"), list(vars(again))


def comparing(x):
    one, other = Namespace(a=1), Namespace(a=2)
    return one == Namespace(a=1), one != other, one == 1, type(one) is Namespace, isinstance(Config(), Namespace), x + 1


def showing(x):
    return repr(Namespace(a=1, b=Namespace(c="x"))), str(Config(rate=1.0)), f"{Namespace()}", x + 1


def deriving(x):
    return Config(rate=2.0).scaled(x), Config(rate=1.0)


def copying(x):
    first = Namespace(held=[x], n=1)
    second, third = copy.copy(first), copy.deepcopy(first)
    second.n = 2
    third.held.append(x + 1)
    return first, second, third, first.held is second.held


def leaves(x):
    made = Namespace(a=x)
    return jax.tree.map(lambda v: v, [made])[0] is made, jax.tree.leaves({"a": made, "b": x + 1})[0] is made


@pytest.mark.parametrize("program", [making, comparing, showing, deriving, copying, leaves])
def test_namespaces_are_made_in_the_graph(program):
    compiled = dynacomp.jit(program, fullgraph=True, backend="eager")
    for _ in range(2):
        assert repr(compiled(X)) == repr(program(X))


def test_existing_namespaces_are_read_and_written_in_the_graph():
    compiled = dynacomp.jit(reading, fullgraph=True, backend="eager")
    ours, plain = (Namespace(rate=2.0, inner=Namespace(shift=1.0)) for _ in range(2))
    for n in range(3):
        assert repr(compiled(ours, X)) == repr(reading(plain, X)) and ours == plain
        ours.inner.shift = plain.inner.shift = float(n)
    ours.inner = plain.inner = Config(shift=7.0)
    assert repr(compiled(ours, X)) == repr(reading(plain, X))


def test_two_namespaces_of_one_shape_share_an_entry():
    compiled, before = dynacomp.jit(lambda n, x: x + n.w, backend="eager"), dynacomp.stats()["frames_captured"]
    for k in range(4):
        assert jnp.array_equal(compiled(Namespace(w=X * k), X), X + X * k)
    assert dynacomp.stats()["frames_captured"] == before + 1


REFUSED = [lambda: hash(Namespace(a=1)), lambda: Namespace(a=1).b, lambda: Namespace()["a"],
           lambda: iter(Namespace()), lambda: Namespace()(), lambda: len(Namespace()), lambda: Namespace(1, 2),
           lambda: Namespace(a=1) < Namespace(), lambda: setattr(Namespace(), "__dict__", {}),
           lambda: Namespace({1: 2}), lambda: Config(rate=1).rat, lambda: Namespace() + 1, lambda: 1 @ Namespace()]


@pytest.mark.parametrize("ask", REFUSED)
def test_what_namespaces_refuse_they_refuse_in_pythons_words(ask):
    told = []
    for fn in (ask, dynacomp.jit(ask, backend="eager")):
        with pytest.raises((TypeError, AttributeError)) as caught:
            fn()
        told.append((type(caught.value), str(caught.value)))
    assert told[0] == told[1]


def test_a_mapping_fills_a_namespace_since_python_3_13():
    fill = lambda pairs: Namespace(pairs, b=2)  # noqa: E731
    if sys.version_info >= (3, 13):
        assert dynacomp.jit(fill, fullgraph=True, backend="eager")({"a": 1, "b": 1}) == Namespace(a=1, b=2)
    else:
        with pytest.raises(TypeError, match="no positional arguments expected"):
            dynacomp.jit(fill, backend="eager")({"a": 1})
