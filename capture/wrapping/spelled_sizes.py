"""NumPy's whole numbers as sizes: `jnp.zeros(np.prod(x.shape))`, `jnp.split(x, np.cumsum(lengths))`.

A call gets a NumPy number or array that changes from call to call as an array of JAX, with NumPy's dtype. One that has
to know it (a shape, a count, places to split at) fails on that. The next attempt gives it ints in its place, which are
symbolic sizes: NumPy computes them in each call, and the function may do with them what it does with sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.numbers import host_arrays, host_functions, size_values
from dynacomp.capture.symbolic.libraries import label
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NdArrayV, NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_made_array, is_plain_tuple, is_scalar
from dynacomp.capture.values.value import Value, children
from dynacomp.capture.wrapping import ndarrays

MOST = 16  # numbers of an array that become sizes


def spell_next(cap: Capture, fn: Any, given: Collection[S.Source]) -> None:
    """Restart where the next attempt is to give calls of `fn`, which failed on what is found at these places, sizes for
    NumPy numbers in one more of its arguments."""
    args, kwargs = cap.libraries.arguments[-1]
    for place, value in (*enumerate(args), *kwargs.items()):
        for number in _numpy_numbers(cap, value):
            key = (label(fn), place, repr(_source(number)))
            if _source(number) in given and key not in cap.lessons.spelled and _may_be_sizes(number):
                cap.lessons.spelled.add(key)
                raise Restart


def spelled(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call of `fn`, with sizes for the numbers that it could not take there."""
    if not cap.lessons.spelled:
        return args, kwargs
    name, seen = label(fn), set[Any]()
    return [_put(cap, (name, n), v, seen) for n, v in enumerate(args)], {
        k: _put(cap, (name, k), v, seen) for k, v in kwargs.items()}


def _put(cap: Capture, place: tuple[str, Any], value: Value, seen: set[Any]) -> Value:
    value = cap.realize(value)
    if is_plain_tuple(value):
        return TupleV([_put(cap, place, v, seen) for v in children(value)])
    if not (is_scalar(value) or is_made_array(value)) or (*place, repr(_source(value))) not in cap.lessons.spelled:
        return value
    if _source(value) in seen:  # once as a shape, once as an element maybe, which has a dtype
        raise NeedsConcrete(ScalarV(None, source=_source(value)))
    seen.add(_source(value))
    return _sizes(cap, value)


def _sizes(cap: Capture, value: ScalarV | NdArrayV) -> Value:
    """A number as a size, an array as tuples of such."""
    if is_made_array(value) and not value.array.ndim:
        return _sizes(cap, ndarrays.call_method(cap, value, "__getitem__", [Const(())], {}))  # type: ignore[arg-type]
    if is_made_array(value):
        return TupleV([_sizes(cap, row) for row in ndarrays.rows(cap, value)])  # type: ignore[arg-type]
    number = host_functions.as_index(cap, value)
    if number is value:
        raise NeedsConcrete(value)  # type: ignore[arg-type]
    return size_values.as_size(cap, number) if is_scalar(number) else number


def _source(value: Any) -> Any:
    return value.recipe if is_made_array(value) else value.source


def _numpy_numbers(cap: Capture, value: Value) -> Iterator[ScalarV | NdArrayV]:
    """The numbers and arrays of NumPy that change, in an argument."""
    value = cap.realize(value)
    if is_plain_tuple(value):
        for part in children(value):
            yield from _numpy_numbers(cap, part)
    elif host_arrays.is_hosted(value) or is_scalar(value) and isinstance(value.hint, np.generic):
        yield value


def _may_be_sizes(value: ScalarV | NdArrayV) -> bool:
    """Whether JAX can't tell such numbers from Python's, which sizes are: by their dtype, say."""
    found = value.hint
    return found.size <= MOST and found.dtype.kind == "i" and (
        jax.dtypes.canonicalize_dtype(found.dtype) == jax.dtypes.canonicalize_dtype(int))
