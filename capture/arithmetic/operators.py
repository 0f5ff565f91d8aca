"""Operators on Values: arithmetic, comparison, truth.

Constants are computed, arrays become nodes, containers follow their tables in `containers`,
instances of Python classes have their methods entered in Python's order (left, then reflected).
"""

from __future__ import annotations

import operator
import types
from collections.abc import Iterable
from typing import Any

from dynacomp.capture.arithmetic import arrays, graph_scalars, later, numpy_operands, powers, trace_states, unlike
from dynacomp.capture.arithmetic.identity import same_object
from dynacomp.capture.arithmetic.indices import as_length, has_index, index_value
from dynacomp.capture.arithmetic.pairs import Pair, Pairs
from dynacomp.capture.arithmetic.tree_structures import comparable
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.numbers import dynamic_scalars, host_functions, scalar_ranges, size_values
from dynacomp.capture.reconstruct.unknown_traces import compare_names
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.callables import BuiltinMethodV, MethodV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, holds, is_const, is_exactly, is_open, stands_for
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV, ViewV, row_kind
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_library_object,
    is_object,
    is_plain_tuple,
    is_sequence,
    is_set,
    is_tuple,
    own_class,
    type_name,
)
from dynacomp.capture.values.standing import LaterV, TracedNameV, TraceStateV
from dynacomp.capture.values.value import NotConstant, Value, as_python, is_changing, type_of
from dynacomp.capture.wrapping import ndarrays, partial_tables
from dynacomp.capture.wrapping.builtin_subclasses import is_number, plain
from dynacomp.capture.wrapping.class_attrs import MISSING, lookup, name_in_errors, resolve
from dynacomp.capture.wrapping.folding import fold as fold
from dynacomp.capture.wrapping.immutability import is_changeable

# The order of CPython's BINARY_OP arguments (Include/opcode.h).
BINARY = (operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul,
          operator.mod, operator.or_, operator.pow, operator.rshift, operator.sub, operator.truediv, operator.xor,
          operator.iadd, operator.iand, operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imul,
          operator.imod, operator.ior, operator.ipow, operator.irshift, operator.isub, operator.itruediv,
          operator.ixor)
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
           ">": operator.gt, ">=": operator.ge}
UNARY = {"UNARY_NEGATIVE": operator.neg, "UNARY_INVERT": operator.invert, "UNARY_POSITIVE": operator.pos}
_SIGNS = {op: sign for sign, op in COMPARE.items()}
_PLAIN = ("+", "&", "//", "<<", "@", "*", "%", "|", "** or pow()", ">>", "-", "/", "^")
_SYMBOLS = (*_PLAIN, *("**=" if s.startswith("**") else s + "=" for s in _PLAIN))
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}

# (operator name, left kind) → row(cap, a, b) or NotImplemented; filled by `containers`.
CONTAINER_OPS: dict[tuple[str, type], Any] = {}


def binary(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    """`op(a, b)` for one of module `operator`'s functions: by the first rule that knows both operands."""
    return OPERANDS.decide(a, b, cap, op)


def _of_container(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    row = CONTAINER_OPS.get((op.__name__, row_kind(a)))
    found = NotImplemented if row is None else row(cap, a, b)
    return None if found is NotImplemented else found


def _of_scalars(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    return dynamic_scalars.settled(cap, scalar_ranges.binary(cap, op, a, b) or dynamic_scalars.binary(op, a, b))


def _of_sizes(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    return binary(cap, op, *fixed(cap, a, b))


def _of_constants(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    a, b = comparable(cap, a, b)
    if op in _SIGNS and _are_plain_tuples(a, b) and any(_holds_changing(cap, v) for v in (a, b)):
        return _structural(cap, op, a, b)
    try:
        return fold(cap, op, a, b)
    except NotConstant:
        return _structural(cap, op, a, b)


def _of_changing(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    """An operator of numbers and strings that change: an expression of sizes, or one that Python computes; where it
    is neither, the sizes are constants."""
    a, b = _as_built_in(cap, op, a, b), _as_built_in(cap, op, b, a)
    found = (size_values.arithmetic(cap, op, a, b) or size_values.compare_openly(cap, op, a, b)
             or size_values.compare(cap, op, a, b))
    if found is None and _plain(op) is operator.mul:
        found = host_functions.repeated(cap, a, b)
    if found is None and _plain(op) is operator.mod:
        found = host_functions.percent(cap, a, b)
    if found is not None:
        return found
    left, right = host_functions.as_scalar(cap, a), host_functions.as_scalar(cap, b)
    sized = left is not a or right is not b
    try:
        found = _of_scalars(cap, op, left, right)
    except Break:
        if not sized:
            raise
    if found is not None:
        return size_values.counted(cap, found)  # type: ignore[return-value]
    return binary(cap, op, *fixed(cap, a, b)) if sized else fold(cap, op, a, b)


def _as_built_in(cap: Capture, op: Any, value: Value, other: Value) -> Value:
    """The number or text that a constant of the program's class is, a member of an `IntEnum`, say, where that class
    leaves the operator to it."""
    base = next((b for b in PLAIN if holds(value, b)), None)
    if base is None or type_of(value) is base or type_of(value) is bool:
        return value
    if any(resolve(cap, type_of(value), method)[0] not in (base, None) for method in _methods(op)):
        return value
    content, beside_numpy = Const(PLAIN[base](as_python(value))), numpy_operands.is_numpy_number(other)
    return numpy_operands.with_dtype(cap, content) if beside_numpy and base is not str else content


def _methods(op: Any) -> tuple[str, ...]:
    """The methods that an operator may ask of an operand's class."""
    name = _plain(op).__name__.strip("_")
    return f"__{name}__", f"__{_SWAPPED[name]}__" if op in _SIGNS else f"__r{name}__", f"__i{name}__"


def _of_classes(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """Where a metaclass defines the operator in Python, as that of Equinox's `tree ** ω` does."""
    return _by_methods(cap, op, a, b) if any(_has_own(v, _methods(op)) for v in (a, b)) else None


def _of_functions(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """Functions of Python's are equal where they are one, which is guarded: one made anew is known by its code."""
    if op not in (operator.eq, operator.ne) or any(type_of(v) not in (types.FunctionType, type(None)) for v in (a, b)):
        return None
    return Const(same_object(cap, a, b) == (op is operator.eq))


def _has_own(value: Value, methods: Iterable[str]) -> bool:
    """Whether it is a class whose metaclass has such a method in Python."""
    return holds(value, type) and any(
        isinstance(lookup(type_of(value), method)[1], types.FunctionType) for method in methods)


PLAIN = {int: int.__int__, float: float.__float__, str: str.__str__}  # what an instance of a subclass is without it


def fixed(cap: Capture, *values: Value) -> tuple[Value, ...]:
    """Operands with sizes as plain ints."""
    return tuple(size_values.known(cap, v, "an operator") for v in values)


def _of_numpy(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """NumPy's own operator; None where the other operand is JAX's. Break where NumPy is given what is not known."""
    found = ndarrays.call(cap, op, [a, b], {})
    if found is None and not any(ndarrays.is_jax_array(v) or is_library_object(v) for v in (a, b)):
        raise Break("leaves", f"NumPy's own {op.__name__}")
    return found


def _array_op(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    if not any(map(ndarrays.is_jax_array, (a, b))):
        found = _of_numpy(cap, op, a, b)
        if found is None and (_plain(op) is not op or any(map(ndarrays.is_numpy, (a, b)))):
            raise Break("leaves", f"NumPy's own {op.__name__}")
        return library_call(cap, op, [a, b]) if found is None else found
    _refuse_text(op, a)
    if op.__name__.startswith("i") and op not in (operator.invert, operator.index) and ndarrays.is_numpy(a):
        raise Break("store", "an in-place operation on a NumPy array")
    return powers.power(cap, a, b) if _plain(op) is operator.pow else library_call(cap, _plain(op), [a, b])


def _refuse_text(op: Any, a: Value) -> None:
    """Break for `"%f" % x`, where x is an array or holds one."""
    if holds(a, (str, bytes)) and _plain(op) is operator.mod:
        raise Break("leaves", "a text that shows an array")


def _plain(op: Any) -> Any:
    """The operator without in-place semantics: arrays do not change."""
    index = BINARY.index(op) if op in BINARY else -1
    return BINARY[index - 13] if index >= 13 else op


def _by_methods(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    name = op.__name__.strip("_")
    if numpy_operands.is_left(a, b):
        found, a = numpy_operands.asked(cap, op, a, b)
        if found is not None:
            return found
    if op in COMPARE.values():
        tries = [(a, f"__{name}__", b), (b, f"__{_SWAPPED[name]}__", a)]
    else:
        index = BINARY.index(op)
        plain = _plain(op).__name__.strip("_")
        tries = [(a, f"__i{plain}__", b)] if index >= 13 else []
        tries.append((a, f"__{plain}__", b))
        if _other_type(a, b):
            tries.append((b, f"__r{plain}__", a))
    if len(tries) > 1 and _prefers_right(cap, a, b, tries[-1][1], op):
        tries.sort(key=lambda t: t[0] is not b)
    for left, method, right in tries:
        if left is b and ndarrays.is_numpy(b) and numpy_operands.is_left(b, a):
            raise Break("leaves", f"NumPy's own {op.__name__} of an object")
        result = _try_method(cap, left, method, right)
        if result is not NotImplemented:
            return result
    if op is operator.eq or op is operator.ne:
        return Const(same_object(cap, a, b) == (op is operator.eq))
    repeated = _as_sequence(cap, op, a, b)
    if repeated is not None:
        return repeated
    kinds = f"{name_in_errors(type_of(a))!r} and {name_in_errors(type_of(b))!r}"
    if op in _SIGNS:
        raise Raised(Const(TypeError(f"{_SIGNS[op]!r} not supported between instances of {kinds}")))
    raise Raised(Const(TypeError(f"unsupported operand type(s) for {_SYMBOLS[BINARY.index(op)]}: {kinds}")))


def _as_sequence(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """A built-in sequence and an instance without methods for it: what has an `__index__` repeats the sequence,
    and what it is not joined with, the sequence says itself."""
    for one, other in ((a, b), (b, a)):
        cls = own_class(other)
        if cls is None or type_of(one) not in (str, bytes, list, tuple):
            continue
        if op in (operator.mul, operator.imul) and has_index(other):
            count = index_value(cap, other)
            return binary(cap, op, one, count) if one is a else binary(cap, op, count, one)
        joined = one is a and op in (operator.add, operator.iadd)
        if joined or op in (operator.mul, operator.imul):
            return fold(cap, _plain(op), Const(type_of(one)()), Const(type(cls.__name__, (), {})()))  # refuses
    return None


def _other_type(a: Value, b: Value) -> bool:
    """Only then is the right one asked too."""
    if holds(a, type) and holds(b, type):
        return type_of(a) is not type_of(b)
    return own_class(a) is None or own_class(a) is not own_class(b)


def _prefers_right(cap: Capture, a: Value, b: Value, method: str, op: Any) -> bool:
    """A subclass on the right goes first: always in comparisons, else if it has a method of its own."""
    left, right = type_of(a), type_of(b)
    if left is right or left not in right.__mro__:  # not issubclass: virtual ones do not count
        return False
    return op in _SIGNS or resolve(cap, right, method)[1] is not resolve(cap, left, method)[1]


def _try_method(cap: Capture, left: Value, method: str, right: Value) -> Any:
    if is_graph_array(left):
        if ndarrays.is_numpy(left):
            return _with_numpy(cap, left, method, right) if is_number(right) else NotImplemented
        if hasattr(own_class(right), "__jax_array__"):
            converted = cap.call(cap.getattr(right, "__jax_array__"), [])
            return library_call(cap, arrays.method(method), [left, converted])
        return library_call(cap, arrays.method(method), [left, plain(right)]) if is_number(right) else NotImplemented
    if not is_object(left):
        return _with_content(cap, left, method, right)
    _, raw = resolve(cap, left.cls, method)
    if raw is object.__ne__:
        return _inverse(cap, left, right)
    if raw is MISSING or raw is None or getattr(raw, "__objclass__", None) is object:
        return NotImplemented
    result = cap.call(cap.special(left, method), [right])  # type: ignore[arg-type]
    return NotImplemented if stands_for(result, NotImplemented) else result


def _with_numpy(cap: Capture, array: Value, method: str, number: Value) -> Value:
    """NumPy's operator of an array and a number of a subclass: unlike a plain number, that has a dtype of its own."""
    strong, swapped = numpy_operands.with_dtype(cap, plain(number)), _BY_SWAPPED.get(method)
    return binary(cap, swapped, strong, array) if swapped else binary(cap, _BY_METHOD[method], array, strong)


def _inverse(cap: Capture, left: Value, right: Value) -> Any:
    """`!=` of a class that says what is equal to its objects only."""
    found = _try_method(cap, left, "__eq__", right)
    return found if found is NotImplemented else Const(not truth(cap, found))


def _with_content(cap: Capture, left: Value, method: str, right: Value) -> Any:
    """An operator's method of a built-in object on an instance of a subclass: it sees the built-in content."""
    content = plain(right)
    raw = lookup(type_of(left), method)[1]
    if content is right or raw is MISSING or isinstance(raw, types.FunctionType):
        return _with_instance(cap, left, method, right)
    if is_number(right) and numpy_operands.is_numpy_number(left):
        return _with_numpy(cap, left, method, right)
    _check_leaves_it(left, method)
    if method in _COMPARING and unlike.compare(cap, operator.eq, left, content) is not None:
        return NotImplemented  # content of another kind is the instance's to compare
    if is_changing(left) or is_const(left) and is_changing(content):
        swapped = _BY_SWAPPED.get(method)
        return binary(cap, swapped, content, left) if swapped else binary(cap, _BY_METHOD[method], left, content)
    found = cap.call(BuiltinMethodV(left, method), [content if is_const(left) else right])
    return NotImplemented if stands_for(found, NotImplemented) else found


def _with_instance(cap: Capture, left: Value, method: str, right: Value) -> Any:
    """An operator's method of what is no instance, a member of an enum or a class, on one: built-in objects and
    NumPy's leave it to the instance, those of other libraries in C may look at it (a Decimal asks what is Rational)."""
    _, raw = lookup(type_of(left), method)
    if raw is object.__ne__:
        return _inverse(cap, left, right)
    if (is_const(left) or is_library_object(left)) and isinstance(raw, types.FunctionType):
        resolve(cap, type_of(left), method)
        found = cap.call(MethodV(Const(raw), left), [right])
        return NotImplemented if stands_for(found, NotImplemented) else found
    if raw is not MISSING and getattr(raw, "__objclass__", None) is not object:
        _check_leaves_it(left, method)
    return NotImplemented


def _check_leaves_it(left: Value, method: str) -> None:
    owner: Any = lookup(type_of(left), method)[0]
    if module_name(owner).partition(".")[0] not in LEAVING_IT:
        raise Break("operator", f"{method} of a {type_of(left).__qualname__} and an instance")


LEAVING_IT = ("builtins", "numpy", "ml_dtypes", "jax", "jaxlib", "types", "functools")
_BY_METHOD = {f"__{op.__name__.strip('_')}__": op for op in (*BINARY, *COMPARE.values())}
_COMPARING = {f"__{name}__" for name in _SWAPPED}
_BY_SWAPPED = {f"__r{op.__name__.strip('_')}__": op for op in BINARY[:13]}


def _structural(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    """Comparison of containers that hold arrays or objects, element by element."""
    if op in _SIGNS and op not in (operator.eq, operator.ne) and _are_sequences(a, b):
        return _order(cap, op, a, b)
    _refuse_text(op, a)
    if op not in (operator.eq, operator.ne):
        raise Break("operator", f"{op.__name__} of {type_name(a)} and {type_name(b)}")
    same = OPERATIONS.equal(cap, a, b)
    return Const(same == (op is operator.eq))


def _are_sequences(a: Value, b: Value) -> bool:
    return is_sequence(a) and row_kind(a) is row_kind(b) or _are_plain_tuples(a, b)


def _are_plain_tuples(a: Value, b: Value) -> bool:
    return all(is_plain_tuple(v) or is_exactly(v, tuple) for v in (a, b))


def _holds_changing(cap: Capture, v: Value) -> bool:
    """Whether numbers that change, or functions that are made anew, may decide how a tuple compares."""
    return is_changing(v) or is_open(v) or is_tuple(v) and any(_holds_changing(cap, item) for item in cap.items(v))


def _order(cap: Capture, op: Any, a: Value, b: Value) -> Value:
    """`<` and the like of two sequences: the first elements that differ decide, then the lengths."""
    left, right = _elements(cap, a), _elements(cap, b)
    for x, y in zip(left, right):
        if not OPERATIONS.equal(cap, x, y):
            return binary(cap, op, x, y)
    return Const(op(len(left), len(right)))


def _elements(cap: Capture, v: Value) -> list[Value]:
    return [Const(x) for x in as_python(v)] if is_const(v) else cap.items(v)



# Who computes an operator: the first of those that are asked.
OPERANDS = Pairs(
    Pair(trace_states.compare, some=(TraceStateV,)),
    Pair(compare_names, some=(TracedNameV,)),
    Pair(lambda cap, op, a, b: later.arithmetic(cap, op, a, b), some=(LaterV,)),
    Pair(_of_numpy, some=(NdArrayV,)),
    Pair(_of_classes, some=(Const,)),
    Pair(_of_functions, every=(Const,)),
    Pair(unlike.compare, some=(NumberV, *host_functions.CHANGING)),
    Pair(_of_container),
    Pair(lambda cap, op, a, b: graph_scalars.binary(cap, op, a, b), some=(NumberV,)),
    Pair(_of_changing, some=host_functions.CHANGING, every=(*host_functions.CHANGING, Const)),
    Pair(_of_scalars, some=(ScalarV,)),
    Pair(trace_states.compare_known, some=(ObjectV,), every=(ObjectV, Const)),
    Pair(_by_methods, some=(ObjectV,)),
    Pair(_array_op, some=(ArrayV, LibraryV)),
    Pair(_of_sizes, some=(SizeV,)),
    Pair(_of_constants),
)


def unary(cap: Capture, op: Any, value: Value) -> Value:
    """`op(value)` for one of module `operator`'s functions."""
    if _has_own(value, [f"__{op.__name__}__"]):
        return cap.call(MethodV(Const(resolve(cap, type_of(value), f"__{op.__name__}__")[1]), value), [])
    made = kind(value).unary
    return fold(cap, op, value) if made is None else made(cap, op, value)


def _object_unary(cap: Capture, op: Any, value: ObjectV) -> Value:
    method = cap.special(value, f"__{op.__name__}__")
    if method is None:
        sign = {"neg": "unary -", "pos": "unary +", "invert": "unary ~", "abs": "abs()"}[op.__name__]
        raise Raised(Const(TypeError(f"bad operand type for {sign}: {value.cls.__name__!r}")))
    return cap.call(method, [])


def _array_unary(cap: Capture, op: Any, value: Value) -> Value:
    if not ndarrays.is_numpy(value):
        return library_call(cap, op, [value])
    found = ndarrays.call(cap, op, [value], {})
    if found is None:
        raise Break("leaves", f"NumPy's own {op.__name__}")
    return found


def _size_unary(cap: Capture, op: Any, value: SizeV) -> Value:
    if op in (operator.pos, operator.index):
        return value
    found = size_values.arithmetic(cap, operator.mul, value, Const(-1)) if op in (operator.neg, operator.abs) else None
    if found is not None:
        return found if op is operator.neg else size_values.larger(cap, value, found)
    return dynamic_scalars.unary(op, host_functions.as_scalar(cap, value))  # type: ignore[arg-type]


def truth(cap: Capture, value: Value) -> bool:
    """`bool(value)`; Break where only the array's content can tell."""
    decide = kind(value).truth
    return True if decide is None else decide(cap, value)


def _const_truth(cap: Capture, value: Const) -> bool:
    if is_open(value):
        return True
    if value.source is not None and is_changeable(value.value):
        raise Break("opaque", f"the truth of a {type(value.value).__qualname__}")
    try:
        return bool(value.value)
    except ours(Exception) as error:
        raise Raised(Const(error)) from None


def _array_truth(cap: Capture, value: Value) -> bool:
    raise Break("branch", "a condition that is an array")


def _size_truth(cap: Capture, value: SizeV) -> bool:
    answer = size_values.compare(cap, operator.ne, value, Const(0))
    assert is_const(answer)
    return answer.value


def _opaque_truth(cap: Capture, value: OpaqueV) -> bool:
    if any(hasattr(type(value.obj), n) for n in ("__bool__", "__len__")):
        raise Break("opaque", f"the truth of a {type(value.obj).__qualname__}")
    return True


def as_bool(cap: Capture, value: Value) -> Value:
    """`bool(value)`, in the Graph where only that can tell, by Python in each call where the number changes."""
    row = kind(value).as_bool
    found = None if row is None else row(cap, value)
    return found or graph_scalars.from_array(cap, value, bool) or Const(truth(cap, value))


def negation(cap: Capture, value: Value) -> Value:
    """`not value`."""
    asked = as_bool(cap, value)
    row = kind(asked).negated
    return Const(not as_python(asked)) if row is None else row(cap, asked)


def _object_truth(cap: Capture, value: ObjectV) -> bool:
    for name in ("__bool__", "__len__"):
        method = cap.special(value, name)
        if method is not None:
            found = cap.call(method, [])
            if name == "__bool__" and type_of(found) is not bool and not is_graph_array(found):
                given = name_in_errors(type_of(found))
                raise Raised(Const(TypeError(f"__bool__ should return bool, returned {given}")))
            return truth(cap, found if name == "__bool__" else as_length(cap, found))
    return True


def count_of(cap: Capture, v: Any) -> Value:
    """How many elements a container has: a number that changes where not all of it is known."""
    front = getattr(v, "front", None)
    if front is not None:
        return front.count(v)  # type: ignore[no-any-return]
    if is_set(v) and v.parts is not None:
        return v.parts.count()  # type: ignore[no-any-return]
    found = partial_tables.count(cap, v)
    if found is None:
        row = kind(v).members
        return Const(len(v.items if row is None else row(v)))
    there, more = found
    return binary(cap, operator.add, cap.realize(there), Const(more)) if more else cap.realize(there)


define(Const, Kind(truth=_const_truth))
define(ArrayV, Kind(truth=_array_truth, unary=_array_unary))
define(NdArrayV, Kind(truth=lambda cap, v: truth(cap, ndarrays.call_method(cap, v, "__bool__", [], {})),
                      unary=_array_unary))
define(LibraryV, Kind(unary=_array_unary))
define(NumberV, Kind(truth=_array_truth, unary=graph_scalars.unary, as_bool=graph_scalars.truth,
                     negated=graph_scalars.negation))
define(ScalarV, Kind(truth=dynamic_scalars.decided, unary=lambda cap, op, v: dynamic_scalars.unary(op, v),
                     as_bool=dynamic_scalars.as_bool, negated=dynamic_scalars.negation))
define(SizeV, Kind(truth=_size_truth, unary=_size_unary,
                   as_bool=lambda cap, v: size_values.compare_openly(cap, operator.ne, v, Const(0))))
for _cls in (TupleV, ListV, DictV, SetV):
    define(_cls, Kind(truth=lambda cap, v: truth(cap, count_of(cap, v))))
define(ObjectV, Kind(truth=_object_truth, unary=_object_unary))
define(ViewV, Kind(truth=lambda cap, v: bool(v.table.items)))
define(OpaqueV, Kind(truth=_opaque_truth))
