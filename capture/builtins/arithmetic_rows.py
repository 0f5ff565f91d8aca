"""`abs`, `pow`, `divmod`, `round` and the functions of `operator` and `math`, as rows of the table of callees."""

from __future__ import annotations

import functools
import math
import operator
import types
from typing import Any

from dynacomp.capture.arithmetic import later
from dynacomp.capture.arithmetic.identity import same_object
from dynacomp.capture.arithmetic.indices import index_value
from dynacomp.capture.arithmetic.numpy_operands import is_numpy_number
from dynacomp.capture.arithmetic.operators import BINARY, COMPARE, binary, fold, truth, unary
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.loops_py import multiplied
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.builtins.builtin_rows import NONE, row
from dynacomp.capture.calls.calls import BUILTINS, fold_call
from dynacomp.capture.kinds.containers import contains, delitem, setitem
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.kinds.whole_loops import looped
from dynacomp.capture.numbers import host_functions
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_exactly, stands_for
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_graph_number, is_object
from dynacomp.capture.values.standing import LaterV
from dynacomp.capture.values.value import Value, is_changing, is_constant, type_of
from dynacomp.capture.wrapping import ndarrays


@row(abs)
def _abs(cap: Capture, x: Value) -> Value:
    return unary(cap, operator.abs, x)


@row(pow)
def _pow(cap: Capture, a: Value, b: Value, *mod: Value) -> Value:
    if mod and is_object(a):
        found = cap.call(cap.getattr(a, "__pow__"), [b, *mod])
        return found if not stands_for(found, NotImplemented) else _left(pow)
    return fold(cap, pow, a, b, *mod) if mod else binary(cap, operator.pow, a, b)


def _left(fn: Any) -> Value:
    """What no method of the operands has an answer for: NumPy, C code or the words of the TypeError."""
    raise Break("operator", f"{fn.__name__}() of objects that leave it to each other")


@row(divmod)
def _divmod(cap: Capture, a: Value, b: Value) -> Value:
    if any(map(is_changing, (a, b))) and all(is_constant(x) or is_changing(x) for x in (a, b)):
        return TupleV([binary(cap, operator.floordiv, a, b), binary(cap, operator.mod, a, b)])
    if any(map(is_numpy_number, (a, b))) and any(map(is_object, (a, b))):
        return _left(divmod)
    for x, name, y in ((a, "__divmod__", b), (b, "__rdivmod__", a)):
        method = cap.own(x, name)
        found = NONE if method is None else cap.call(method, [y])
        if method is not None and not stands_for(found, NotImplemented):
            return found
    if is_object(a) or is_object(b):
        return _left(divmod)
    made = ndarrays.call(cap, divmod, [a, b], {}) if any(map(ndarrays.is_numpy, (a, b))) else None
    if made is not None:
        return made
    return library_call(cap, divmod, [a, b]) if any(of_class(ArrayV, (a, b))) else fold(cap, divmod, a, b)


@row(round)
def _round(cap: Capture, x: Value, n: Value = NONE) -> Value:
    row = kind(x).round
    if row is not None:
        return row(cap, x, n)  # type: ignore[no-any-return]
    if is_constant(x):
        return fold(cap, round, x, n)
    method = cap.special(x, "__round__")
    if method is None:
        raise Raised(Const(TypeError(f"type {type_of(x).__name__} doesn't define __round__ method")))
    return cap.call(method, [] if stands_for(n, None) else [n])


def _setitem(cap: Capture, owner: Value, key: Value, value: Value) -> Value:
    setitem(cap, owner, key, value)
    return NONE


def _delitem(cap: Capture, owner: Value, key: Value) -> Value:
    delitem(cap, owner, key)
    return NONE


for _op in {*BINARY, *COMPARE.values()}:
    BUILTINS[_op] = (lambda op: lambda cap, a, b: binary(cap, op, a, b))(_op)


def _round_later(cap: Capture, x: Value, n: Value) -> Value:
    found = later.made(cap, round, x, n) if type_of(x) is float and is_exactly(n, int) and n.value >= 0 else None
    if found is None:
        raise Break("leaves", "round() of a number that the graph computes")
    return found


def _round_array(cap: Capture, x: Value, n: Value) -> Value:
    made = ndarrays.call(cap, round, [x, n], {}) if ndarrays.is_numpy(x) else None
    return made or library_call(cap, round, [x, n])


define(ArrayV, Kind(round=_round_array))
define(LaterV, Kind(round=_round_later))
define(NumberV, Kind(round=_round_later))


@row(operator.index)
def _index(cap: Capture, a: Value, /) -> Value:
    """An int is its own index, whether it is a constant or not."""
    a = index_value(cap, a)
    number = is_changing(a) or is_graph_number(a)
    return a if number and type_of(a) is int else fold_call(cap, operator.index, [a], {})


for _unary in (operator.neg, operator.pos, operator.invert):
    BUILTINS[_unary] = (lambda op: lambda cap, a: unary(cap, op, a))(_unary)
BUILTINS[types.MethodType] = lambda cap, fn, obj: MethodV(fn, obj)
BUILTINS.update({
    operator.getitem: subscript,
    operator.setitem: _setitem,
    operator.delitem: _delitem,
    operator.contains: lambda cap, c, x: Const(contains(cap, c, x)),
    operator.is_: lambda cap, a, b: Const(same_object(cap, a, b)),
    operator.is_not: lambda cap, a, b: Const(not same_object(cap, a, b)),
    operator.not_: lambda cap, a: Const(not truth(cap, a)),
    operator.truth: lambda cap, a: Const(truth(cap, a)),
})


@row(math.prod)
def _prod(cap: Capture, xs: Value, /, *, start: Value = Const(1)) -> Value:
    """Factor by factor, so that sizes stay sizes."""
    made = looped(cap, multiplied, xs, start)
    return made or functools.reduce(functools.partial(binary, cap, operator.mul), iterate(cap, xs), start)


@row(math.fsum)
def _fsum(cap: Capture, xs: Value, /) -> Value:
    items = list(iterate(cap, xs))
    return host_functions.exact_sum(cap, items) or fold(cap, math.fsum, TupleV(items))
