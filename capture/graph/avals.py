"""What is known of an array before it exists: shape, dtype and weak type.

`Aval` is the type of every array value in a Graph, before and after lowering. Dimensions are
Python ints, or symbolic: a `Size` (see `sizes`) while capturing,
SymPy expressions after lowering. `dtype` is a NumPy dtype (ml_dtypes included) or one of JAX's
extended dtypes (PRNG keys), which lowering removes.

    >>> import numpy as np
    >>> Aval((4, 3), np.dtype("float32"))
    f32[4,3]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeGuard

import jax
import numpy as np
from jax import jit as jax_jit
from jax._src.lax.lax import _convert_element_type
from jax._src.random.core import PRNGSpec
from jax._src.random.prng import PRNGKeyArray as KEY_TYPE
from jax._src.random.prng import prngs
from jax.sharding import AxisType, SingleDeviceSharding
from jaxlib import _jax

EXPLICIT = AxisType.Explicit
ARRAY_TYPE: type = _jax.ArrayImpl  # the class of every concrete jax.Array

_SHORT = {
    "bool": "bool", "float0": "float0",
    **{f"{k}{b}": f"{k[0]}{b}" for k in ("int", "uint", "float") for b in (2, 4, 8, 16, 32, 64)},
    "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
}


@dataclass(frozen=True, repr=False)
class Aval:
    """The abstract value of one array: `shape`, `dtype`, `weak_type`; on a mesh of explicit axes, which decide what
    operations may do with it, how it is divided among them."""

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool = False
    sharding: Any = field(default=None, kw_only=True)
    value: ClassVar[Any] = None  # the Value that a call gave back, see `Passed`
    number: ClassVar[Any] = None  # which number of Python's it is, see `Counted`
    hardens: ClassVar[bool] = False  # whether the node that gives it gives a weak array, see `Hardened`

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        name = str(self.dtype)
        return f"{_SHORT.get(name, name)}[{dims}]{'*' if self.weak_type else ''}"

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, repr=False)
class Counted(Aval):
    """A result that is a Python number in eager JAX: a function of the program has computed it, and JAX has handed it
    through (`aux`). number: its type, and between which ints it lies."""

    number: tuple[type, int, int] = (bool, 0, 1)  # type: ignore[misc]


def is_aval(x: Any) -> TypeGuard[Aval]:
    """Whether it is one array's abstract value: not several of them, an object or a literal."""
    return isinstance(x, Aval)


def aval_of(x: Any) -> Aval:
    """The Aval of an array, NumPy value, Python scalar, ShapeDtypeStruct or tracer.

    Python scalars are weakly typed, as JAX has them; raises TypeError for anything else that JAX
    would not take as an array.
    """
    if is_aval(x):
        return x
    if isinstance(x, jax.ShapeDtypeStruct):
        return of_struct(x)
    return of_struct(jax.typeof(x))


def of_struct(typed: Any) -> Aval:
    """The Aval of what says the shape and the dtype of an array."""
    return Aval(tuple(typed.shape), typed.dtype, bool(getattr(typed, "weak_type", False)), sharding=divided(typed))


def divided(typed: Any) -> Any:
    """How the type of an array says that it is divided, where an axis of its mesh is explicit; else None."""
    sharding = getattr(typed, "sharding", None)
    axes = () if sharding is None or isinstance(sharding, SingleDeviceSharding) else sharding.mesh.axis_types
    return sharding if EXPLICIT in axes else None


def class_of(aval: Aval) -> type:
    """The class of the arrays that operations of JAX give for it."""
    return ARRAY_TYPE if is_numpy_dtype(aval.dtype) else KEY_TYPE


def as_struct(aval: Aval) -> jax.ShapeDtypeStruct:
    """The `jax.ShapeDtypeStruct` of an Aval, for `jax.eval_shape` and `jax.make_jaxpr`."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=aval.sharding)


def weak(x: Any, kind: type) -> Any:
    """A scalar array as the Python `kind` that it holds would be: weakly typed, of JAX's default width."""
    return _convert_element_type(x, aval_of(kind()).dtype, weak_type=kind is not bool)


def weakly(x: Any) -> Any:
    """An array as a weakly typed one."""
    return _convert_element_type(x, x.dtype, weak_type=True)


@jax_jit
def another(x: Any) -> Any:
    """The same array as another object, as a function by `jax.jit` that does nothing makes it."""
    return x


def blank(shape: tuple[Any, ...], dtype: Any, weak_type: bool = False) -> Any:
    """Some array of that Aval: zeros, or equal PRNG keys."""
    if not is_numpy_dtype(dtype):
        return jax.numpy.broadcast_to(jax.random.key(0, impl=key_impl(dtype)), shape)
    return _convert_element_type(jax.lax.full(shape, 0, dtype), dtype, weak_type=weak_type)


def key_impl(dtype: Any) -> Any:
    """What JAX makes keys of this dtype by: the name of their implementation, or it itself where none is registered."""
    impl, name = dtype._impl, dtype._impl.name
    return name if prngs.get(name) is impl else PRNGSpec(impl)


def is_numpy_dtype(dtype: Any) -> bool:
    """False for JAX's extended dtypes (PRNG keys), which no loop can hold."""
    return isinstance(dtype, np.dtype)
