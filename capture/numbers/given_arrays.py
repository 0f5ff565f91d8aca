"""NumPy arrays that exist before the call: constants by their content, or data.

What a module, a closure or an object holds is a constant while it is small and seen to stay the same: NumPy computes
with it during the capture (see `ndarrays`). Everything else, an argument above all, is data: what NumPy makes of data
is computed in each call before the program runs, as of numbers that change (see `host_arrays`). That is the same as
where the program asks for it, since all that could change the array in between breaks the graph: stores by NumPy, and
calls that nothing is known of. The content of data is never a constant of an entry.

    >>> is_data(cap, ArrayV(node, aval, real=np.ones(3), source=S.Local("xb")))
    True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacomp.capture.symbolic.lessons import Stored
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.questions import is_graph_array

MAX_GUARDED = 1 << 16  # bytes of an array whose content a guard compares in each call
CONSTANT_PLACES = (S.Global, S.Closure, S.Attr, S.Slot)  # what is found there is no data of a call


def is_constant(cap: Capture, value: ArrayV) -> bool:
    """An array from outside that may be taken for a constant: an attribute may be data after all, and what has sizes
    that the entry leaves open is."""
    real = value.real
    if type(real) is not np.ndarray or real.nbytes > MAX_GUARDED or not real.flags.c_contiguous:
        return False
    return value.source is None or isinstance(value.source, CONSTANT_PLACES) and not _changes(cap, value) and all(
        type(d) is int for d in value.aval.shape)


def is_data(cap: Capture, value: Any) -> bool:
    """An array from outside that is no constant."""
    return is_graph_array(value) and type(value.real) is np.ndarray and value.source is not None and not is_constant(
        cap, value)


def _changes(cap: Capture, value: ArrayV) -> bool:
    """Whether so many entries were made already that what NumPy is given can be no constant of another one, or the
    array has been seen to change: once may be the second of two that take turns."""
    assert value.source is not None
    return any(map(cap.root.policy.changes_often, (S.Host("truth", (), bool), Stored(value.source))))
