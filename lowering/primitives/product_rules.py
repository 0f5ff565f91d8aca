"""Products of matrices and convolutions of dtypes that no kernel multiplies, as ones that a kernel does.

XLA on a CPU computes them like this, and so do the rewrites:

    booleans, a boolean result      is any pair true? a sum of floats, which never wraps to zero
    two dtypes                      both become the result's
    integers, a float result        the same
    floats, an integer result       the product of floats, rounded to their dtype, then converted
    an algorithm (`DotAlgorithm`)   its operand dtypes and its accumulator, then converted
    a sum of one term               no sum: each element times a number, outer products
    a mask, and no free dimension   a sum of what the mask leaves: an infinity or NaN beside False is none of it

A convolution each of whose windows is one element, or all that it slides over, is a product of matrices: layers of
1×1 and their gradients, patches as large as the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _precision(eqn: Any, x: Any) -> Any:
    """That of a product of converted operands: what an algorithm asks of them is done by the conversion, and then each
    product is exact, which a GPU need not make those of float32."""
    if _algorithm(eqn) is None:
        return eqn.params["precision"]
    return (lax.Precision.HIGHEST,) * 2 if x.dtype == np.float32 else None


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


def is_single(eqn: Any) -> bool:
    """Is there nothing to sum over, or one term?"""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    return all(isinstance(n, int) and n == 1 for n in (eqn.invars[0].aval.shape[d] for d in contracted))


def _single(x: Any, y: Any, dims: Any, dtype: Any) -> Any:
    """Each element of one side times each of the other, batch by batch."""
    (left_in, right_in), (left_batch, right_batch) = dims
    left_free, right_free = ([d for d in range(v.ndim) if d not in (*inside, *batch)]
                             for v, inside, batch in ((x, left_in, left_batch), (y, right_in, right_batch)))
    wide = jnp.promote_types(x.dtype, dtype)
    x, y = (lax.convert_element_type(v, wide) for v in (x, y))
    x = lax.squeeze(lax.transpose(x, (*left_batch, *left_free, *left_in)), range(x.ndim - len(left_in), x.ndim))
    y = lax.squeeze(lax.transpose(y, (*right_batch, *right_free, *right_in)), range(y.ndim - len(right_in), y.ndim))
    first, last = len(left_batch), x.ndim
    x = lax.expand_dims(x, range(last, last + len(right_free)))
    y = lax.expand_dims(y, range(first, last))
    return lax.convert_element_type(jnp.multiply(x, y), dtype)


def _is_masked(eqn: Any) -> bool:
    """Is one side a mask, and is all of both summed over or a batch? XLA makes products and a sum of that, and of the
    products a choice (see `translate_rules.mask_of`)."""
    left, right, out = map(_kind, _dtypes(eqn))
    (contracted, _), (batch, _) = eqn.params["dimension_numbers"]
    return {left, right} == {"b", "f"} and out == "f" and all(
        len(contracted) + len(batch) == v.aval.ndim for v in eqn.invars)


def _masked(eqn: Any) -> Callable[[Any, Any], Any]:
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]

    def product(x: Any, y: Any) -> Any:
        x, y = lax.transpose(x, (*left_batch, *left)), lax.transpose(y, (*right_batch, *right))
        mask, x = (x, y) if x.dtype == np.bool_ else (y, x)
        x = lax.convert_element_type(x, eqn.outvars[0].aval.dtype)
        return jnp.sum(lax.select_n(mask, lax.full_like(x, 0), x), range(len(left_batch), x.ndim))

    return product


def _dot(eqn: Any) -> Callable[[Any, Any], Any]:
    dims = eqn.params["dimension_numbers"]
    if _is_masked(eqn):
        return _masked(eqn)
    if is_single(eqn):
        return _converted(eqn, lambda x, y, dtype: _single(x, y, dims, dtype))
    return _converted(eqn, lambda x, y, dtype: lax.dot_general(x, y, dims, _precision(eqn, x), dtype))


def _convolution(eqn: Any) -> Callable[[Any, Any], Any]:
    fixed = {k: v for k, v in eqn.params.items() if k not in ("precision", "preferred_element_type")}

    def product(x: Any, y: Any, dtype: Any) -> Any:
        return eqn.primitive.bind(x, y, precision=_precision(eqn, x), preferred_element_type=np.dtype(dtype), **fixed)

    return _converted(eqn, product)


def _sizes(var: Any, spec: Any) -> list[Any]:
    return [var.aval.shape[d] for d in spec[2:]]


def _covered(eqn: Any) -> list[bool]:
    """For each spatial dimension: is the window as long as what it would slide over?"""
    dims = eqn.params["dimension_numbers"]
    sizes = zip(_sizes(eqn.invars[0], dims.lhs_spec), _sizes(eqn.invars[1], dims.rhs_spec))
    return [isinstance(m, int) and m == n != 1 for m, n in sizes]


def is_product(eqn: Any) -> bool:
    """Does nothing of this convolution slide, and is nothing padded, dilated or divided into groups?"""
    p = eqn.params
    steps = zip(p["lhs_dilation"], p["rhs_dilation"], p["padding"], strict=True)
    plain = all(tuple(pad) == (0, 0) and one == two == 1 for one, two, pad in steps)
    windows = zip(_covered(eqn), _sizes(eqn.invars[1], p["dimension_numbers"].rhs_spec), p["window_strides"])
    single = all(whole or (n == 1 and step == 1) for whole, n, step in windows)
    return p["feature_group_count"] == p["batch_group_count"] == 1 and plain and single


def _as_product(eqn: Any) -> Callable[[Any, Any], Any]:
    """Channels and covered dimensions are summed over; the others are named by where they stand in the result (those
    of the window, which are 1, by -1). The sides stand as there, so that large results are not transposed."""
    dims, covered = eqn.params["dimension_numbers"], _covered(eqn)
    image, (result, features, *ends) = dims.lhs_spec[0], dims.out_spec
    free = [(i, j, end) for i, j, end, whole in zip(dims.lhs_spec[2:], dims.rhs_spec[2:], ends, covered) if not whole]
    left = {image: result} | {i: end for i, _, end in free}
    right = {dims.rhs_spec[0]: features} | {j: -1 for _, j, _ in free}
    rank = len(dims.out_spec)
    left_in, right_in = (tuple(d for d in range(rank) if d not in side) for side in (left, right))
    by_image = result < features < min((end for *_, end in free), default=0)

    def product(x: Any, y: Any) -> Any:
        pairs: Any
        if by_image:
            y = lax.broadcast(y, (x.shape[image],))
            pairs = (tuple(d + 1 for d in right_in), left_in), ((0,), (image,))
            places = [result, *_values(right), *_values({d: end for d, end in left.items() if d != image})]
        elif features < min(left.values()):
            pairs, places = ((right_in, left_in), ((), ())), [*_values(right), *_values(left)]
        else:
            pairs, places = ((left_in, right_in), ((), ())), [*_values(left), *_values(right)]
            x, y = y, x
        made = lax.dot_general(y, x, pairs, eqn.params["precision"], eqn.outvars[0].aval.dtype)
        return _placed(made, places, rank)

    return product


def _values(side: dict[int, int]) -> list[int]:
    return [side[d] for d in sorted(side)]


def _placed(made: Any, places: Sequence[int], rank: int) -> Any:
    """The dimensions of a product where they belong: -1 is dropped, what no dimension becomes is 1."""
    made = lax.squeeze(made, [d for d, place in enumerate(places) if place < 0])
    kept = [place for place in places if place >= 0]
    made = lax.transpose(made, sorted(range(len(kept)), key=kept.__getitem__))
    return lax.expand_dims(made, sorted(set(range(rank)) - set(kept)))


PRODUCTS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]] = {
    "dot_general": (lambda eqn: needs_conversion(eqn) or is_single(eqn), _dot),
    "conv_general_dilated": (
        lambda eqn: needs_conversion(eqn) or is_product(eqn),
        lambda eqn: _convolution(eqn) if needs_conversion(eqn) else _as_product(eqn),
    ),
}
