"""Objects that are known by their identity alone: what may be looked into, and what may not."""

import array
import types
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp

import dynacomp
from dynacomp.capture.wrapping.immutability import is_changeable, says_constants, says_literals
from tests.capture.program_kit import check_one_graph

X = jnp.ones(2)


def test_classes_in_c_may_have_changed():
    assert all(map(is_changeable, ([], {}, bytearray(), types.SimpleNamespace(), array.array("d"),
                                   types.MappingProxyType({}), weakref.ref(X))))
    assert not any(map(is_changeable, (1, "a", (), range(3), len, X.dtype, int, types, property())))


def test_what_changes_between_calls_is_read_anew():
    names, numbers, table = types.SimpleNamespace(a=1), array.array("d", [1.0]), {"a": 1}
    proxy = types.MappingProxyType(table)

    def read(x):
        return x * names.a, numbers[0], len(numbers), proxy["a"], "b" in proxy, bool(proxy)

    compiled = dynacomp.jit(read)
    for n in range(3):
        assert repr(compiled(X)) == repr(read(X))
        names.a, numbers[0], table["a"] = n, n, n
        numbers.append(n)
        table.pop("b") if "b" in table else table.update(b=1)


class Thing:
    size = 1


def test_weak_proxies_tell_the_class_of_what_they_stand_for():
    def ask(x, proxy):
        return x * proxy.size, isinstance(proxy, Thing), type(proxy)

    compiled, thing = dynacomp.jit(ask), Thing()
    for size in (1, 2):
        thing.size = size
        assert repr(compiled(X, weakref.proxy(thing))) == repr(ask(X, weakref.proxy(thing)))


def test_a_proxy_whose_object_has_died():
    def ask(x, proxy):
        try:
            return proxy.size
        except ReferenceError as error:
            return str(error)

    assert dynacomp.jit(ask)(X, weakref.proxy(Thing())) == ask(X, weakref.proxy(Thing()))


class Layer(eqx.Module):
    w: jax.Array
    k: int = eqx.field(static=True)


def test_structures_of_library_modules_are_known_by_what_they_say():
    """Each call makes them anew (`eqx.filter_jit` hands them on as static arguments), with an object of Equinox in
    them that is compared by identity."""
    def program(leaves, structure, first):
        layer = jax.tree.unflatten(structure, leaves)
        return layer.w * layer.k, structure is first, structure == first

    first = jax.tree.structure(Layer(X, 2))

    def args(i, k=2):
        return [X + i], jax.tree.structure(Layer(X, k)), first

    assert says_constants(first) and not says_literals(first)
    check_one_graph(program, args(0), args(1), args(2))
    check_one_graph(program, args(0), args(1, 3), args(2, 3), captures=2)
    check_one_graph(program, ([X], first, first), args(1), captures=2)
