"""`graph.descriptions`: what says how an array is that has a size that changes, kept in the structure of a tree."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import lineax

from dynacomp.capture.graph.descriptions import as_called, at_sizes, is_size_of, rebuilt, says_sizes_of
from dynacomp.capture.graph.size_scope import Scope
from tests.capture.program_kit import check_one_graph


@functools.partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["like"])
@dataclasses.dataclass
class Operator:
    weight: jax.Array
    like: object


class Layer(equinox.Module):
    weight: jax.Array
    like: jax.ShapeDtypeStruct = equinox.field(static=True)

    def __call__(self, x):
        return self.weight @ x + jnp.ones(self.like.shape, self.like.dtype)


def like(x):
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype)


def made_by_a_library(x):
    return lineax.PyTreeLinearOperator(x * 2, like(x), ()), lineax.IdentityLinearOperator(like(x)), x + 1


def read_of_a_library(x):
    operator = lineax.PyTreeLinearOperator(x * 2, like(x), ())
    says = operator.in_structure()
    return says, says.shape[0], says == like(x), jnp.zeros(says.shape), lineax.diagonal(operator)


def solved_by_a_library(x):
    operator = lineax.PyTreeLinearOperator(x * 2 + 9 * jnp.eye(len(x)), like(x), ())
    return (operator @ lineax.DiagonalLinearOperator(x[0] + 1)).as_matrix(), operator.T.mv(x[0])


def taken_apart(x):
    leaves, structure = jax.tree.flatten(Operator(x * 2, like(x)))
    return jax.tree.unflatten(structure, [leaf + 1 for leaf in leaves]), structure


def parted(x):
    layer = Layer(x * 2, like(x))
    arrays, others = equinox.partition(layer, equinox.is_array)
    same = jax.tree.structure(layer) == jax.tree.structure(Layer(x, like(x)))
    return jax.lax.scan(lambda n, row: (n, equinox.combine(arrays, others)(row)), 0.0, x)[1], others, same


def test_each_call_has_sizes_of_its_own_in_what_a_structure_keeps():
    inputs = [(jnp.arange(float(n * n)).reshape(n, n),) for n in (3, 6, 4, 5)]
    for program in (made_by_a_library, read_of_a_library, solved_by_a_library, taken_apart, parted):
        check_one_graph(program, *inputs, captures=2)


def test_only_sizes_of_the_capture_change():
    scope = Scope()
    size = scope.symbol("s0", 3)
    assert is_size_of(scope, size) and not is_size_of(Scope(), size) and not is_size_of(scope, 3)
    said = jax.ShapeDtypeStruct((2, size), jnp.float32)
    assert says_sizes_of(scope, said) and not says_sizes_of(Scope(), said)
    assert not says_sizes_of(scope, jax.ShapeDtypeStruct((2,), jnp.float32)) and not says_sizes_of(scope, (size,))


def test_it_is_made_as_its_class_is_called():
    for said in (jax.ShapeDtypeStruct((2,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32, weak_type=True),
                 jax.core.ShapedArray((3,), jnp.dtype("float32"), weak_type=True)):
        args, kwargs = as_called(said)
        assert type(said)(*args, **kwargs) == said


def test_a_structure_speaks_of_other_sizes():
    size = Scope().symbol("s0", 3)
    tree = {"a": Operator(1, [jax.ShapeDtypeStruct((size,), jnp.float32), {"n": size}]), "b": (Operator(2, "x"), 3)}
    structure = jax.tree.structure(tree)
    other = rebuilt(structure, lambda held: at_sizes(held, lambda s: 7))
    tree["a"].like[:] = jax.ShapeDtypeStruct((7,), jnp.float32), {"n": 7}
    assert str(other) == str(jax.tree.structure(tree))
    assert rebuilt(other, lambda held: at_sizes(held, lambda s: 9)) is other
