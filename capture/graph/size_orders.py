"""How a Size compares with what is neither a Size nor an int: as the int would.

    n < 5.5, n == 5.0, n >= Fraction(11, 2)    # an int stands on the same side of n: n < 6, n == 5, n >= 6
    n < math.inf, n == math.nan                # decided, whatever n is
    n == x[0], n <= np.arange(8)               # an array, of n as an array
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

NUMBERS: Any = (numbers.Number, np.generic)
# What the other side is rounded to: `n >= 5.5` and `n < 5.5` speak of 6, `n > 5.5` and `n <= 5.5` of 5.
ROUNDED: dict[str, Callable[[Any], int]] = {"ge": math.ceil, "lt": math.ceil, "gt": math.floor, "le": math.floor}


def ordered(name: str, size: Any, other: Any) -> Any:
    """`size.__name__(other)`, for one of `ROUNDED`."""
    compare: Callable[[Any, Any], Any] = getattr(operator, name)
    if is_array(other):
        return compare(size.__jax_array__(), other)
    if not isinstance(other, NUMBERS) or isinstance(other, (complex, np.complexfloating)):
        return NotImplemented
    try:
        holds = compare(size, ROUNDED[name](other))
    except (OverflowError, ValueError):  # infinite, or no number
        holds = compare(0, other)
    return answered(other, holds)


def equal(size: Any, other: Any, is_equal: Callable[[int], bool]) -> Any:
    """`size == other`; is_equal: whether the size is that int."""
    if is_array(other):
        return size.__jax_array__() == other
    if not isinstance(other, NUMBERS):
        return NotImplemented
    try:
        whole = int(other.real)
    except (OverflowError, TypeError, ValueError):
        return answered(other, False)
    return answered(other, bool(other == whole) and is_equal(whole))


def is_array(other: Any) -> bool:
    """Whether JAX takes it as an array; symbolic sizes of its own, which it would take too, are none."""
    cls = type(other)
    return isinstance(other, (jax.Array, np.ndarray)) or hasattr(cls, "__jax_array__") and not hasattr(
        cls, "dimension_as_value")


def answered(other: Any, holds: Any) -> Any:
    """A comparison with a number of NumPy's gives NumPy's bool."""
    return np.bool_(holds) if isinstance(other, np.generic) else bool(holds)
