"""What Python makes of what the Graph computes, once it has run: `np.asarray(x)`, `x.tolist()`, `f"{float(loss):.3f}"`.

NumPy's arrays, lists, texts and 64-bit floats are nothing that a Graph holds. A program that only keeps or returns what
it makes of arrays needs no graph break for that: a `LaterV` is the call that replacement code makes in the end. Such a
call only computes: it changes nothing, raises and warns for no content that arrays can have, and gives an object of the
same class for all of them. That is why the tables below are short, and why each call is tried on two specimens first:
of the smallest sizes, and of others that have nothing in common.
Where the program looks at the object (an iteration, arithmetic of NumPy's) the graph breaks as ever, but where JAX has
the same content (`twin`): conditions, numbers and arguments of JAX are made of that.

    >>> made(cap, np.isfinite, x)       # and what of it: .any(), .shape, [0], float(...), an argument of JAX
    LaterV(obj=array([True, True]), fn=<ufunc 'isfinite'>, args=(ArrayV(...),), depth=1)
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic.indices import slice_of
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.numpy_errors import raising
from dynacomp.capture.bodies.placement import home
from dynacomp.capture.graph.avals import ARRAY_TYPE, is_numpy_dtype
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.sizes import canonical
from dynacomp.capture.numbers import size_values
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.lowered_args import lower_arg
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.computed import ArrayV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, holds, is_const
from dynacomp.capture.values.containers import ListV, SequenceV, SliceV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_graph_array, is_made_array, is_size
from dynacomp.capture.values.standing import LaterV, is_later
from dynacomp.capture.values.value import Value, as_python, children, now, type_of
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.constants import from_python

MOST_NESTED, LARGEST = 32, 1 << 16  # calls in one another; elements of a specimen
LEAST, OTHER = range(2)  # the two specimens
FAR = 10007  # a number of the other one: no index or axis
COPIES = (np.asarray, np.array)  # of one array of JAX: the same content
FUNCTIONS = IdentityTable()
for _fn in (*COPIES, np.isfinite, np.isnan, np.isinf, np.logical_and, np.logical_or, np.logical_not, np.signbit, np.any,
            np.all, np.argmax, np.argmin, np.stack, np.concatenate, np.vstack, np.hstack, np.sort, np.argsort, np.flip,
            np.copy, np.ravel, np.reshape, np.transpose, np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d,
            np.array_equal):
    FUNCTIONS[_fn] = True
METHODS = {"all", "any", "argmax", "argmin", "argsort", "copy", "flatten", "item", "ravel", "reshape", "squeeze",
           "tolist", "transpose", "__getitem__", "__copy__"}
PARTS = {"T", "dtype", "itemsize", "nbytes", "ndim", "shape", "size"}  # attributes of arrays that are no methods
TWINS = IdentityTable()  # functions and methods of NumPy's → those of JAX's that give the same content
for _fn, _twin in (*((fn, jnp.array) for fn in COPIES), *((getattr(np, name), getattr(jnp, name)) for name in (
        "isfinite", "isnan", "isinf", "logical_and", "logical_or", "logical_not", "any", "all", "argmax", "argmin"))):
    TWINS[_fn] = _twin
TWIN_METHODS = {"any": jnp.any, "all": jnp.all, "argmax": jnp.argmax, "argmin": jnp.argmin, "copy": jnp.array,
                "__getitem__": operator.getitem}
AXIS_FIRST = {"all", "any", "argmax", "argmin", "argsort", "sum", "mean", "max", "min"}
PLACES = {"argsort", "argmax", "argmin"}
NAMED = {"axis", "dtype"}  # arguments of functions
# Of whole numbers and truths NumPy warns of nothing but an empty mean, of comparisons neither; floats may overflow.
WHOLE = "biu"
WHOLE_FUNCTIONS, WHOLE_METHODS = (np.sum, np.mean, np.max, np.min), {"sum", "mean", "max", "min"}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
WIDE = (float, np.float64, "float64")  # to which NumPy converts without a warning
CLOSED = {operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul}


def made(cap: Capture, fn: Callable[..., Any], *args: Value) -> LaterV | None:
    """`fn(*args)`, later; None where that is not certain to be the same."""
    if cap.bodies or cap.under_trace or cap.root.traced or cap.effects.jitted:
        return None
    held = [_fixed(cap, v) for v in args]
    depth = 1 + max((_depth(v) for v in held), default=0)
    if depth > MOST_NESTED or None in held or not any(map(_depth, held)):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            like, other = (raising(fn, *[_like(v, which) for v in held]) for which in (LEAST, OTHER))
    except ours(Exception):  # as it will then, at its place
        return None
    if _class_of(like) != _class_of(other):
        return None
    return LaterV(like, fn=fn, args=tuple(held), depth=depth, other=other)  # type: ignore[arg-type]


def _class_of(obj: Any) -> Any:
    """What is the same of an object, whatever the sizes and contents."""
    return type(obj), getattr(obj, "dtype", None), getattr(obj, "ndim", None)


def _fixed(cap: Capture, v: Value) -> Value | None:
    """`v` as it will be when Python gets it; None for what may change until then, or is too large to try."""
    v = cap.realize(v)
    row = HELD.get(type(v))
    return None if row is None else row.fixed(cap, v)


def _depth(v: Value | None) -> int:
    """How deep calls are nested in it, those of the Graph among them; 0 where nothing of it is computed."""
    return 0 if v is None else HELD[type(v)].depth(v)


def _like(v: Any, which: int) -> Any:
    """An object like the one that Python will get: LEAST or OTHER."""
    return HELD[type(v)].like(v, which)


def _sized(expr: Any, which: int) -> Any:
    """A size of a specimen. Among OTHER sizes no two symbols have a factor in common, nor with small numbers."""
    if isinstance(expr, int):
        return expr
    scope = expr.scope
    return max(0, evaluate(canonical(expr), dict(zip(scope.values, _primes())) if which else scope.least))


def _primes() -> Iterator[int]:
    return (n for n in itertools.count(11, 2) if all(n % k for k in range(3, n, 2)))


def _is_fixed(v: Value) -> bool:
    """Whether its shape is the same in all calls."""
    return HELD[type(v)].steady(v)


@dataclass(frozen=True)
class Held:
    """What a kind of Value is as an argument of such a call: see the four functions above."""

    fixed: Callable[[Capture, Any], Value | None] = lambda cap, v: v
    depth: Callable[[Any], int] = lambda v: 0
    like: Callable[[Any, int], Any] = lambda v, which: now(v)
    steady: Callable[[Any], bool] = lambda v: True


def _fixed_sequence(cap: Capture, v: SequenceV) -> Value | None:
    if type_of(v) not in (tuple, list):
        return None
    items = [_fixed(cap, x) for x in cap.items(v)]
    return None if None in items or len(items) > MOST_NESTED else TupleV(items)  # type: ignore[arg-type]


def _fixed_array(cap: Capture, v: ArrayV) -> Value | None:
    sizes = (d if isinstance(d, int) else cap.sizes.scope.value(d) for d in v.aval.shape)
    plain = type_of(v) is ARRAY_TYPE and is_numpy_dtype(v.aval.dtype) and math.prod(sizes) <= LARGEST
    return v if plain and _size_of(v, OTHER) <= 16 * LARGEST else None


def _size_of(v: ArrayV, which: int) -> int:
    return math.prod(_sized(d, which) for d in v.aval.shape)


def _fixed_constant(cap: Capture, v: Const) -> Value | None:
    found = v.value if type(v.value) is tuple else (v.value,)
    return v if all(is_literal(x) or isinstance(x, (slice, type, types.EllipsisType)) for x in found) else None


def _fixed_known(cap: Capture, v: NdArrayV) -> Value | None:
    """A copy: the program may store into its own."""
    known = v.recipe is None and v.array.dtype.kind in WHOLE + "f" and v.array.size <= LARGEST
    return ndarrays.of_array(cap, v.array.copy()) if known else None


def _array_like(v: ArrayV, which: int) -> np.ndarray:
    return np.zeros([_sized(d, which) for d in v.aval.shape], v.aval.dtype)


def _scalar_like(v: ScalarV, which: int) -> Any:
    return v.hint + FAR if which and type(v.hint) is int else v.hint


HELD: dict[type, Held] = {
    Const: Held(_fixed_constant),
    SliceV: Held(lambda cap, v: Const(slice_of(cap, v)) if all(holds(p, object) for p in children(v)) else None),
    ListV: Held(_fixed_sequence),
    TupleV: Held(_fixed_sequence, lambda v: max(map(_depth, v.items), default=0),
                 lambda v, which: tuple(_like(x, which) for x in v.items),
                 lambda v: all(map(_is_fixed, v.items))),
    ArrayV: Held(_fixed_array, lambda v: 1, _array_like, lambda v: all(isinstance(d, int) for d in v.aval.shape)),
    NumberV: Held(depth=lambda v: 1, like=lambda v, which: v.kind(FAR if which else 1)),
    NdArrayV: Held(_fixed_known, like=lambda v, which: v.array),
    ScalarV: Held(like=_scalar_like, steady=lambda v: False),
    SizeV: Held(like=lambda v, which: _sized(v.expr, which), steady=lambda v: False),
    LaterV: Held(depth=lambda v: v.depth, like=lambda v, which: v.other if which else v.obj,
                 steady=lambda v: all(map(_is_fixed, v.args))),
}


# --- what makes them


def call(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A call of one of NumPy's functions."""
    known = FUNCTIONS.get(fn) or fn in WHOLE_FUNCTIONS and len(args) == 1 and _is_whole(args[0])
    if not known or not kwargs.keys() <= NAMED or not all(holds(v, object) for v in kwargs.values()):
        return None
    named = {k: as_python(v) for k, v in kwargs.items()}
    if fn in COPIES and (len(args) != 1 or "axis" in named) or "dtype" in named and named["dtype"] not in WIDE:
        return None
    if fn is np.asarray and not named and isinstance(args[0], LaterV) and type(args[0].obj) is np.ndarray:
        return args[0]
    return made(cap, functools.partial(fn, **named) if named else fn, *args)


def _is_whole(v: Value, kinds: str = WHOLE) -> bool:
    """Whether it is an array that Python makes, of numbers of such kinds."""
    return is_later(v) and type(v.obj) is np.ndarray and v.obj.dtype.kind in kinds


def _comparison(cap: Capture, op: Any, a: Value, b: Value) -> LaterV | None:
    """`a == b` of numbers of NumPy's, element by element."""
    numbers = (_is_whole(v, WHOLE + "f") or is_made_array(v) or is_const(v) and type(v.value) in (int, float, bool)
               for v in (a, b))
    return made(cap, op, a, b) if op in COMPARISONS and all(numbers) else None


def arithmetic(cap: Capture, op: Any, a: Value, b: Value) -> LaterV | None:
    """`a op b` of NumPy's arrays, which are compared, or of Python's numbers: the result is of one type, whatever they
    are, and an int as large as it has to be. Sizes change with the call; one that may be 0 divides nothing here."""
    kinds = type_of(a), type_of(b)
    if np.ndarray in kinds:
        return _comparison(cap, op, a, b)
    divided = op in (operator.truediv, operator.itruediv) and (
        is_const(b) and bool(b.value) or is_size(b) and size_values.is_positive(size_values.expr_of(b)))
    if not (op in CLOSED or divided) or not all(k in (int, float, bool) for k in kinds):
        return None
    return made(cap, op, a, b)


def call_method(cap: Capture, value: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method of an array that Python makes, or of one of JAX that Python looks into."""
    arrays = is_graph_array(value) or isinstance(value.obj, (np.ndarray, np.generic))
    if kwargs.keys() == {"axis"} and not args and name in AXIS_FIRST:
        args, kwargs = [kwargs["axis"]], {}
    known = name in METHODS or name in WHOLE_METHODS and len(args) < 2 and _is_whole(value)
    found = made(cap, ndarrays.Method(name), value, *args) if arrays and known and not kwargs and (
        name != "__getitem__" or _is_index(cap, value, args[0])) else None
    if found is None:
        raise Break("leaves", f".{name}() of what Python makes of arrays")
    return found


def _is_index(cap: Capture, value: Value, key: Value) -> bool:
    """Whether all that `key` comes to finds as much in an array. A mask finds more or less, a number that is computed
    may lie outside, but for those that `np.argsort` and its like find in an array that is no longer. (`a[[0, 1]]` is
    not `a[0, 1]`.)"""
    if type_of(key) is list:
        return False
    held = _fixed(cap, key)
    if held is None or not _depth(held):
        return held is not None
    name = getattr(held.fn, "name", getattr(held.fn, "__name__", "")) if is_later(held) else ""
    if name not in PLACES or not is_later(value):
        return False
    found = [(_like(held.args[0], which), _like(value, which)) for which in (LEAST, OTHER)]  # type: ignore[attr-defined]
    return all(np.ndim(of) == np.ndim(array) == 1 and len(of) <= len(array) for of, array in found)


# --- what is asked of them


def _attribute(cap: Capture, value: LaterV, name: str) -> Value:
    if name in PARTS and isinstance(value.obj, (np.ndarray, np.generic)):
        if name == "T":
            return made(cap, operator.attrgetter("T"), value) or _looked_at(cap, value)
        if name in ("dtype", "itemsize", "ndim") or _is_fixed(value):
            return from_python(cap, getattr(value.obj, name))
        if name in ("shape", "size"):
            return cap.getattr(twin(cap, value) or _looked_at(cap, value), name)
    elif callable(getattr(type(value.obj), name, None)):
        return BuiltinMethodV(value, name)
    return _looked_at(cap, value)


def _looked_at(cap: Capture, value: LaterV, *rest: Any) -> Any:
    raise Break("leaves", f"what a {type(value.obj).__name__} holds that Python makes of arrays")


def number(cap: Capture, value: LaterV, kind: type, rest: list[Value], kwargs: dict[str, Value]) -> Value:
    """`float(x)`, where the Graph does not compute it; integers and truths are as they are."""
    whole = getattr(value.obj, "dtype", np.dtype(type(value.obj))).kind in "bui" if isinstance(
        value.obj, (np.ndarray, np.generic, int, float)) else None
    found = made(cap, kind, value) if whole is not None and (whole or kind is float) and not rest else None
    return found or _looked_at(cap, value)


def _length(cap: Capture, value: LaterV) -> Value:
    if type(value.obj) is not np.ndarray or not value.obj.ndim:
        _looked_at(cap, value)
    return Const(len(value.obj)) if _is_fixed(value) else cap.items(_attribute(cap, value, "shape"))[0]


def twin(cap: Capture, value: Any) -> Value | None:
    """An array of JAX with the same content; None where there is none."""
    row = kind(value).twin
    return None if row is None else row(cap, value)


def _later_twin(cap: Capture, value: LaterV) -> Value | None:
    known = isinstance(value.fn, ndarrays.Method)
    fn = TWIN_METHODS.get(value.fn.name) if known else TWINS.get(value.fn)
    if fn is None or fn is operator.getitem and not _is_fixed(value):  # else it may not lie within the array
        return None
    args = [twin(cap, v) for v in value.args]
    return None if None in args else args[0] if fn is jnp.array else library_call(cap, fn, args)  # type: ignore[arg-type]


def _argument(cap: Capture, value: LaterV) -> Any:
    """As JAX takes it: as an array of JAX with that content, another than `twin`, which has no weak type then."""
    array = twin(cap, value) if home(cap) is not None else None
    if not is_graph_array(array) or type(value.obj) is not np.ndarray:
        return _looked_at(cap, value)
    node = lower_arg(cap, library_call(cap, jnp.array, [array, Const(array.aval.dtype)]))
    cap.libraries.numpys[node] = value, value.obj
    del cap.libraries.handed[node]  # JAX makes an array of its own of it, each time
    return node


def _itself(cap: Capture, value: Value) -> Value:
    return value


define(LaterV, Kind(twin=_later_twin))
define(ArrayV, Kind(twin=_itself))
define(Const, Kind(twin=_itself))


def _emit(e: Emitter, v: LaterV) -> None:
    e.call(v.fn, *(functools.partial(e.load, arg) for arg in v.args))
    e.remember(v)


define(LaterV, Kind(getattr=_attribute, method=call_method, truth=_looked_at, length=_length,
                    getitem=lambda cap, v, key: call_method(cap, v, "__getitem__", [key], {}), key=_looked_at,
                    argument=_argument, emit=_emit))
