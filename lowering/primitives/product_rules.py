"""Products of matrices and convolutions of dtypes that no kernel multiplies, as ones that a kernel does.

XLA on a CPU computes them like this, and so do the rewrites:

    booleans, a boolean result      is any pair true? a sum of floats, which never wraps to zero
    two dtypes                      both become the result's
    integers, a float result        the same
    floats, an integer result       the product of floats, rounded to their dtype, then converted
    an algorithm (`DotAlgorithm`)   its operand dtypes and its accumulator, then converted
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

Product = Callable[[Any, Any, Any], Any]
"""(left, right, dtype of the result) → the product, by kernels of ours."""


def _kind(dtype: Any) -> str:
    """'b', 'i' (signed or not), 'f' or 'c'."""
    if dtype == np.bool_:
        return "b"
    return "i" if jnp.issubdtype(dtype, np.integer) else "f" if jnp.issubdtype(dtype, np.floating) else "c"


def _dtypes(eqn: Any) -> tuple[np.dtype, np.dtype, np.dtype]:
    left, right, out = (v.aval.dtype for v in (*eqn.invars, *eqn.outvars))
    return left, right, out


def _algorithm(eqn: Any) -> Any:
    """The `DotAlgorithm` that the program asks for, or None."""
    asked = eqn.params["precision"]
    if isinstance(asked, lax.DotAlgorithmPreset):
        return None if asked == lax.DotAlgorithmPreset.DEFAULT else asked
    return asked if isinstance(asked, lax.DotAlgorithm) else None


def needs_conversion(eqn: Any) -> bool:
    """Do kernels of ours need other operands than these?"""
    left, right, out = _dtypes(eqn)
    kinds = {_kind(d) for d in (left, right, out)}
    mixed = "b" in kinds or len(kinds) > 1
    return _algorithm(eqn) is not None or mixed or (kinds == {"i"} and left != right)


def _converted(eqn: Any, product: Product) -> Callable[[Any, Any], Any]:
    left, right, out = _dtypes(eqn)
    cast = lax.convert_element_type
    if (algorithm := _algorithm(eqn)) is not None:
        return lambda x, y: _by_algorithm(algorithm, product, x, y, out)
    if out == np.bool_:
        return lambda x, y: lax.ne(product(cast(x, np.float32), cast(y, np.float32), np.float32), np.float32(0))
    if left == right and _kind(left) == "f" and _kind(out) == "i":
        return lambda x, y: cast(product(x, y, left), out)
    return lambda x, y: product(cast(x, out), cast(y, out), out)


def _by_algorithm(algorithm: Any, product: Product, x: Any, y: Any, out: Any) -> Any:
    """Operands and accumulator in the dtypes of an algorithm; None in it leaves a dtype as it is."""
    if isinstance(algorithm, lax.DotAlgorithm):
        left, right, wide = (
            algorithm.lhs_precision_type, algorithm.rhs_precision_type, algorithm.accumulation_type)
    else:
        left, right = (_first(t, v.dtype) for t, v in zip(
            (algorithm.supported_lhs_types, algorithm.supported_rhs_types), (x, y)))
        wide = algorithm.accumulation_type
    cast = lax.convert_element_type
    return cast(product(cast(x, left), cast(y, right), out if wide is None else wide), out)


def _first(supported: Any, dtype: Any) -> Any:
    return dtype if supported is None or dtype in supported else supported[0]


def _dot(eqn: Any) -> Callable[[Any, Any], Any]:
    dims = eqn.params["dimension_numbers"]
    return _converted(eqn, lambda x, y, dtype: lax.dot_general(x, y, dims, preferred_element_type=dtype))


def _convolution(eqn: Any) -> Callable[[Any, Any], Any]:
    fixed = {k: v for k, v in eqn.params.items() if k not in ("precision", "preferred_element_type")}

    def product(x: Any, y: Any, dtype: Any) -> Any:
        return eqn.primitive.bind(x, y, precision=None, preferred_element_type=np.dtype(dtype), **fixed)

    return _converted(eqn, product)


PRODUCTS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]] = {
    "dot_general": (needs_conversion, _dot),
    "conv_general_dilated": (needs_conversion, _convolution),
}
