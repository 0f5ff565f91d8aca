"""Classes that the captured code makes and registers with JAX."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import dynacomp
from tests.capture.program_kit import check_one_graph

INPUTS = [(jnp.arange(4.0) + n, n) for n in range(6)]


def by_methods() -> Any:
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, a: Any, b: Any, tag: str = "t") -> None:
            self.a, self.b, self.tag = a, b, tag

        def tree_flatten(self) -> Any:
            return (self.a, {"b": self.b}), self.tag

        @classmethod
        def tree_unflatten(cls, tag: str, parts: Any) -> Any:
            return cls(parts[0], parts[1]["b"], tag)

    return Pair


def by_functions() -> Any:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    jax.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, parts: Pair(*parts))
    return Pair


def by_dataclass() -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Pair:
        a: Any
        b: Any
        tag: str = dataclasses.field(default="t", metadata={"static": True})

    return Pair


def by_fields() -> Any:
    @functools.partial(jax.tree_util.register_dataclass, data_fields=["a", "b"], meta_fields=[])
    @dataclasses.dataclass(frozen=True)
    class Pair:
        a: Any
        b: Any

    return Pair


KINDS = [by_methods, by_functions, by_dataclass, by_fields]


def mapped(pair: Any, x: Any, n: int) -> Any:
    made = jax.tree.map(lambda a, b: a * n + b, pair(x, x + 1), pair(x, n))
    return made.a, made.b, type(made) is pair, len(jax.tree.leaves(made)), vars(made).keys() >= {"a", "b"}


def derived(pair: Any, x: Any, n: int) -> Any:
    loss, grad = jax.value_and_grad(lambda p: (p.a * p.b).sum() * n)(pair(x, x + 1))
    return loss, type(grad) is pair, grad.a, grad.b


def looped(pair: Any, x: Any, n: int) -> Any:
    last, rows = lax.scan(lambda p, t: (pair(p.a + t * n, p.b), pair(t, p.a)), pair(jnp.zeros(()), x), x)
    last = lax.cond(x[0] > 2, lambda p: pair(p.a, p.b + n), lambda p: p, last)
    return type(last) is pair, last.a, last.b, rows.b, jax.vmap(lambda p: p.a * p.b)(pair(x, x))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("use", [mapped, derived, looped])
def test_such_trees_are_part_of_the_graph(make, use):
    check_one_graph(lambda x, n: use(make(), x, n), *INPUTS, captures=2)


@pytest.mark.parametrize("make", KINDS)
def test_jax_knows_the_class_of_each_call(make):
    def program(x, n):
        pair = make()
        return pair(x * n, x), pair

    compiled, seen = dynacomp.jit(program, backend="eager"), set()
    dynacomp.reset()
    for x, n in INPUTS:
        made, cls = compiled(x, n)
        again = jax.tree.map(lambda leaf: leaf + 1, made)
        assert type(made) is type(again) is cls and (again.a == x * n + 1).all() and (again.b == x + 1).all()
        seen.add(cls)
    assert len(seen) == len(INPUTS) and not dynacomp.stats()["breaks"]


def test_what_jax_refuses_raises():
    def program(x):
        pair = by_methods()
        jax.tree_util.register_pytree_node_class(pair)
        return x

    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef"):
        dynacomp.jit(program)(jnp.ones(3))
