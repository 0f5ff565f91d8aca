"""NumPy arrays whose content is known while capturing: NumPy's own functions run on them at once.

A model makes its masks, positions and windows with NumPy. What it makes of constants is an `NdArrayV`, which
holds a real array that belongs to the capture alone: NumPy computes on it, stores into it and makes views of it
as it would for the program, so that what NumPy does is not told here. Where such an array leaves (it is returned,
stored, or alive at a break) replacement code makes a fresh one for each call, with views over the same memory.

An array that a module, a closure or an object holds is taken for a constant too, guarded by its content, as long
as NumPy only reads it. One that is an argument is data (see `given_arrays`): NumPy computes with it in each call.

    >>> known(cap, ListV([Const(1), Const(2)]))     # np.array([1, 2]) + 1 is computed during the capture
    True
"""

from __future__ import annotations

import operator
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.numpy_errors import raising
from dynacomp.capture.numbers import dynamic_scalars, host_arrays
from dynacomp.capture.numbers.applied import may_say, written
from dynacomp.capture.numbers.given_arrays import is_constant, is_data
from dynacomp.capture.numbers.size_values import concrete
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, NdArrayV, SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_graph_array, is_made_array, is_sequence, is_size
from dynacomp.capture.values.value import Value, as_python, children, type_of
from dynacomp.capture.wrapping.constants import from_python

MAX_BYTES = 1 << 20  # of an array that is computed during the capture
MAX_DATA = 1 << 24  # of one that is computed in each call; larger ones NumPy reads items of, no more

# Functions of NumPy that read or change more than their arguments, or call back.
IMPURE = {
    "apply_along_axis", "apply_over_axes", "array2string", "array_repr", "array_str", "asarray_chkfinite",
    "format_float_positional", "format_float_scientific", "fromfile", "fromfunction", "fromiter", "fromregex",
    "frompyfunc", "from_dlpack", "genfromtxt", "get_include", "get_printoptions", "getbufsize", "geterr", "geterrcall",
    "info", "load", "loadtxt", "piecewise", "printoptions", "save", "savetxt", "savez", "savez_compressed",
    "setbufsize", "set_printoptions", "seterr", "seterrcall", "show_config", "show_runtime", "test",
}
METHODS = {
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj",
    "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "fill", "flatten", "item", "max", "mean", "min",
    "nonzero", "partition", "prod", "put", "ravel", "repeat", "reshape", "round", "searchsorted", "sort", "squeeze",
    "std", "sum", "swapaxes", "take", "tobytes", "tolist", "trace", "transpose", "var", "view",
    "__getitem__", "__setitem__", "__len__", "__contains__", "__copy__", "__deepcopy__", "__bool__", "__int__",
    "__float__", "__index__", "__complex__",
}
ATTRIBUTES = {"T", "mT", "dtype", "imag", "itemsize", "nbytes", "ndim", "real", "shape", "size", "strides"}
VIEWS = {"T", "mT", "imag", "real"}  # of those, what shows the array's own memory


def _functions() -> dict[int, Any]:
    """NumPy's public functions that only compute, by identity."""
    found: dict[int, Any] = {}
    for module in (np, np.linalg, np.fft, np.lib.stride_tricks):
        for name, obj in vars(module).items():
            if callable(obj) and not name.startswith("_") and name not in IMPURE and not isinstance(obj, type):
                found[id(obj)] = obj
    return found


FUNCTIONS = _functions()
STRIDED: Any = type(np.lib.stride_tricks.as_strided(np.zeros(2), (1,)).base)  # what keeps the memory of a strided view


# --- what is known


def is_numpy(value: Value) -> bool:
    """A NumPy array: NumPy's own operations on it are not JAX's."""
    return is_made_array(value) or is_graph_array(value) and isinstance(value.real, np.ndarray)


def is_jax_array(value: Any) -> TypeGuard[ArrayV]:
    """An array of JAX, given or of the Graph: an ArrayV is one of NumPy's, too, where the program was given that."""
    return is_graph_array(value) and not isinstance(value.real, np.ndarray)


def holds_numpy(cap: Capture, value: Value) -> bool:
    """Whether a NumPy array is in a tree of containers."""
    value = cap.realize(value)
    return is_numpy(value) or any(holds_numpy(cap, v) for v in children(value))


def is_numpy_function(obj: Any) -> bool:
    """One of NumPy's, or another library's ufunc in C (`scipy.special.binom`): one on objects calls Python."""
    return id(obj) in FUNCTIONS or type(obj) is np.ufunc and not any("O" in loop for loop in obj.types)


ASKING = {"_wrapreduction", "_wrapreduction_any_all", "_wrapfunc"}  # by which NumPy calls an array's own method
ASKS = {np.mean, np.std, np.var, np.squeeze, np.shape, np.ndim, np.size}  # and those that do so themselves


def asking(fn: Any) -> types.FunctionType | None:
    """The Python function behind `np.all` and its like, which of what is no ndarray calls the method: the result of
    `np.all(x)` is `x.all()`, an array of JAX for an array of JAX. (XLA refuses the `stable=None` of `np.argsort`, which
    sorts by itself then.)"""
    inner = getattr(fn, "__wrapped__", None)
    return inner if isinstance(inner, types.FunctionType) and fn is not np.argsort and (
        fn in ASKS or not ASKING.isdisjoint(inner.__code__.co_names)) else None


def known(cap: Capture, value: Value, also: Callable[[Value], bool] = lambda v: False) -> bool:
    """Whether NumPy can be given `value` now; `also` says what else may be in it."""
    value = cap.realize(value)
    if kind(value).rebuild is not None:
        return type_of(value) in (tuple, list, slice) and all(known(cap, v, also) for v in children(value))
    return also(value) or _is_known(cap, value)


def _is_known(cap: Capture, value: Value) -> bool:
    row = kind(value).is_known
    return row is not None and row(cap, value)


def takes(cap: Capture, value: Value) -> bool:
    """Whether NumPy can be given `value`: it is known, or a number that changes, or data."""
    return known(cap, value, lambda v: host_arrays.is_number(v) or is_data(cap, v))


def holds_array(cap: Capture, values: Iterable[Value]) -> bool:
    """Whether a NumPy array is among them, or in their lists and tuples."""
    for value in map(cap.realize, values):
        if is_numpy(value):
            return True
        if is_sequence(value) and holds_array(cap, children(value)):
            return True
    return False


def _is_plain(obj: Any) -> bool:
    return is_literal(obj) or isinstance(obj, (np.generic, np.dtype, np._CopyMode)) or isinstance(obj, type) or (
        isinstance(obj, slice) and is_literal((obj.start, obj.stop, obj.step))) or isinstance(obj, np.ufunc)


def plain(cap: Capture, value: Value) -> Any:
    """The Python object of a known Value, for NumPy: arrays as the capture has them."""
    value = cap.realize(value)
    rebuild = kind(value).rebuild
    if rebuild is not None:
        return rebuild(value, [plain(cap, v) for v in children(value)])
    row = kind(value).plain
    return as_python(value) if row is None else row(cap, value)


def _known_array(cap: Capture, value: NdArrayV) -> Any:
    host_arrays.must_be_known(value)
    return value.array




def _of_outside(cap: Capture, value: ArrayV) -> Any:
    """A copy of an array from outside, which NumPy may read: its content is guarded."""
    copy = cap.known.outside.get(id(value.real))
    if copy is None:
        if value.source is not None:
            cap.guards.add("ndarray", value.source, value.real.shape, value.real.dtype, True)
            cap.guards.add("content", value.source, value.real.tobytes())
        copy = value.real.copy()
        copy.flags.writeable = value.real.flags.writeable
        cap.known.outside[id(value.real)] = copy
        cap.known.ndarrays[id(copy)] = value
        cap.known.keep += [value.real, copy]
    return copy


# --- calls


def call(cap: Capture, fn: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`fn(*args, **kwargs)`, run by NumPy now; None where an argument is not known yet."""
    args, kwargs = [_as_data(cap, v) for v in args], {k: _as_data(cap, v) for k, v in kwargs.items()}
    if not all(takes(cap, v) for v in (*args, *kwargs.values())):
        return None
    if any(True for v in (*args, *kwargs.values()) for _ in host_arrays.changing(cap, v)):
        return _hosted(cap, fn, args, kwargs)
    given = [plain(cap, v) for v in args], {k: plain(cap, v) for k, v in kwargs.items()}
    return run(cap, lambda: fn(*given[0], **given[1]), (*given[0], *given[1].values()))


def _as_data(cap: Capture, value: Value) -> Value:
    """A list of numbers that Python knows before each call as a number that changes; others as they are."""
    row = kind(value).numbers
    return (row and row(cap, value)) or value


def _hosted(cap: Capture, fn: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The same with numbers that change: run now with those of this call, and in each call from then on."""
    made = host_arrays.Call(cap, fn, args, kwargs, lambda v: plain(cap, v))
    for data in made.data:
        known_data(cap, data, fn)
    given = [now(cap, v) for v in args], {k: now(cap, v) for k, v in kwargs.items()}
    if may_say(fn, *given):
        made.refuse()
    owners = {id(owner_of(array)) for array in written(fn, *given)}
    found = computed(cap, lambda: fn(*given[0], **given[1]), (*given[0], *given[1].values()), made, owners)
    return made.result(found, lambda array: of_array(cap, array if owner_of(array) is array or id(
        owner_of(array)) in cap.known.ndarrays else array.copy("K"), MAX_DATA))  # an owner that NumPy keeps: no view


def known_data(cap: Capture, value: ArrayV, fn: Callable[..., Any]) -> None:
    """What shows the memory of data is known by that, so that nothing is stored there."""
    if value.real.nbytes > MAX_DATA and fn != Method("__getitem__"):
        raise Break("leaves", f"what NumPy makes of an array of {value.real.nbytes} bytes")
    for array in (owner_of(value.real), value.real):
        cap.known.ndarrays[id(array)] = value
        cap.known.keep.append(array)


def now(cap: Capture, value: Value) -> Any:
    """`plain`, of what changes too: as it is in this call."""
    value = cap.realize(value)
    rebuild = kind(value).rebuild
    if rebuild is not None:
        return rebuild(value, [now(cap, v) for v in children(value)])
    if host_arrays.is_number(value):
        return value.hint  # type: ignore[attr-defined]
    if is_data(cap, value):
        return value.real  # type: ignore[attr-defined]
    return value.array if is_made_array(value) else plain(cap, value)


def call_method(cap: Capture, value: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`array.name(*args, **kwargs)` of a known array."""
    if name == "__iter__":
        return cap.call(Const(iter), [value])
    if name == "__len__" and host_arrays.is_hosted(value) and value.array.ndim:
        return host_arrays.dims(cap, value)[0]
    if name == "tolist" and host_arrays.is_hosted(value) and value.array.ndim:
        return ListV([call_method(cap, row, "tolist", [], {}) for row in rows(cap, value)])
    found = call(cap, Method(name), [value, *args], kwargs) if name in METHODS else None
    if found is None:
        raise Break("leaves", f".{name}() of a NumPy array")
    return found


def rows(cap: Capture, value: NdArrayV) -> list[Value]:
    """The parts along the first axis of an array that NumPy makes in each call: this many, from now on; Python goes
    through data, where its length changes."""
    if dynamic_scalars.is_of_array(cap, value.recipe) and is_size(host_arrays.dims(cap, value)[0]):
        raise Break("leaves", "iteration over a NumPy array")
    return [call_method(cap, value, "__getitem__", [Const(i)], {}) for i in range(host_arrays.length(cap, value))]


def attribute(cap: Capture, value: Value, name: str) -> Value | None:
    """An attribute of a known array; None for what is none, or a method."""
    if is_data(cap, value):
        return call(cap, operator.attrgetter(name), [value], {}) if name in VIEWS else None
    if host_arrays.is_hosted(value) and name in ATTRIBUTES:
        return host_arrays.attribute(cap, value, name) or call(cap, operator.attrgetter(name), [value], {})
    return of_result(cap, getattr(plain(cap, value), name)) if name in ATTRIBUTES else None


@dataclass(frozen=True)
class Method:
    """`array.name(*args)`."""

    name: str

    def __call__(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, self.name)(*args, **kwargs)


def run(cap: Capture, compute: Callable[[], Any], args: Iterable[Any]) -> Value:
    """The Value of what NumPy computes; Raised as it raises. Arrays among `args` may change."""
    return of_result(cap, computed(cap, compute, args))


def computed(cap: Capture, compute: Callable[[], Any], args: Iterable[Any], made: Any = None,
             writes: Collection[int] = ()) -> Any:
    """What NumPy computes. `made`: the call, where things among its arguments change from call to call. `writes`: the
    ids of the arrays that it writes, even where that changes nothing now."""
    args = list(args)
    owners = {id(o): o for o in map(owner_of, _arrays(args)) if o.nbytes <= MAX_DATA}  # of others only items are read
    before = [(owner, owner.copy()) for owner in owners.values()]
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = raising(compute)
    except FloatingPointError:
        raise Break("effect", "NumPy has a warning to give") from None
    except ours(Exception) as error:
        if made is not None:  # other numbers may not raise
            made.refuse()
        raise Raised(Const(error)) from None
    finally:  # what fails half-way has changed something too
        for owner, content in before:
            if id(owner) in writes or owner.tobytes() != content.tobytes():
                _changed(cap, owner, content, made)
    if said:
        raise Break("effect", "NumPy has a warning to give")
    return found


def _changed(cap: Capture, owner: Any, content: Any, made: Any) -> None:
    """An array has changed: one from outside may not, nor one that is older than a branch, loop or transformed
    function."""
    value = cap.known.ndarrays.get(id(owner))
    if is_graph_array(value):
        owner[...] = content
        raise Break("store", "NumPy changes an array from outside")
    if any(value is None or value.serial < body.serial for body in cap.bodies):
        owner[...] = content
        raise Break("effect_in_body", "a store into a NumPy array that is older than the code which may not run")
    if made is not None:
        made.store(value)


def _arrays(args: Iterable[Any]) -> Iterator[Any]:
    for arg in args:
        if isinstance(arg, np.ndarray):
            yield arg
        elif type(arg) in (tuple, list):
            yield from _arrays(arg)


def owner_of(array: Any) -> Any:
    """The array whose memory this one shows; `as_strided` puts an object of its own between the two."""
    while array.base is not None:
        base = array.base.base if type(array.base) is STRIDED else array.base
        if not isinstance(base, np.ndarray):
            break
        array = base
    return array


# --- results


def of_result(cap: Capture, found: Any) -> Value:
    """The Value of what a function of NumPy returned."""
    if type(found) is np.ndarray:
        return of_array(cap, found)
    if isinstance(found, tuple):
        return TupleV([of_result(cap, x) for x in found], type(found))
    if type(found) is list:
        return ListV([of_result(cap, x) for x in found])
    if is_literal(found) or isinstance(found, (np.generic, np.dtype)) and not isinstance(found, np.void):  # a view
        return from_python(cap, found)
    raise Break("opaque", f"a {type(found).__qualname__} of NumPy")


def of_array(cap: Capture, array: Any, most: int = MAX_BYTES) -> Value:
    """The one Value of an array that NumPy has made, of at most so many bytes."""
    value = cap.known.ndarrays.get(id(array))
    if value is None:
        if array.dtype.hasobject or array.nbytes > most:
            raise Break("leaves", f"a NumPy array of {array.nbytes} bytes")
        owner = owner_of(array)
        value = NdArrayV(array, base=None if owner is array else of_array(cap, owner))
        cap.known.ndarrays[id(array)] = value
        cap.known.keep.append(array)
    return value


def place(value: NdArrayV) -> tuple[Any, ...]:
    """Where a view lies in the memory of its owner: dtype, shape, strides, offset in bytes; whether it can be
    written."""
    array = value.array
    owner = owner_of(array)
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return array.dtype, array.shape, array.strides, offset, array.flags.writeable


define(ArrayV, Kind(plain=_of_outside, is_known=is_constant))
define(NdArrayV, Kind(plain=_known_array, is_known=lambda cap, v: True))
define(SizeV, Kind(plain=lambda cap, v: concrete(cap, v, "NumPy").value, is_known=lambda cap, v: True))
define(Const, Kind(is_known=lambda cap, v: _is_plain(v.value)))
