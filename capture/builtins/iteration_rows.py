"""Iterators and what consumes them, as rows of the table of callees: `iter`, `zip`, `sum`, `itertools`.

Iterators stay lazy Values (see `iteration`); generators' own methods stand here too.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Iterable, Sequence
from typing import Any

from dynacomp.capture._native import rethrow, throw
from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.arithmetic.arrays import rows
from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.arithmetic.operators import binary, fold, truth
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.loops_py import reduced, summed
from dynacomp.capture.builtins.builtin_rows import NONE, row
from dynacomp.capture.calls.calls import BUILTIN_METHODS, BUILTINS, call
from dynacomp.capture.kinds import any_order
from dynacomp.capture.kinds.exceptions import as_exception
from dynacomp.capture.kinds.iteration import ITERATORS, advance, get_iter, iterate, iterator, row_iter
from dynacomp.capture.kinds.whole_loops import gathered, looped
from dynacomp.capture.numbers import host_functions, size_values
from dynacomp.capture.rows import alike_items, grown_lists
from dynacomp.capture.symbolic import generators
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, LibraryV
from dynacomp.capture.values.constant import Const, holds, is_const, is_exactly, stands_for
from dynacomp.capture.values.containers import ListV, RangeV, SequenceV, TupleV
from dynacomp.capture.values.iterators import ASendV, CountIterV, GeneratorV, SeqIterV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_object, is_size
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.class_attrs import lookup


@row(iter)
def _iter(cap: Capture, x: Value, sentinel: Value | None = None) -> Value:
    if sentinel is None:
        return iterator(cap, x)
    if not as_python(cap.call(Const(callable), [x])):
        return fold(cap, iter, NONE, NONE)  # which refuses
    return StreamV("call", [sentinel], fn=x)


@row(next)
def _next(cap: Capture, it: Value, default: Value | None = None) -> Value:
    if is_object(it):
        method = cap.special(it, "__next__")
        if method is None:
            raise Raised(Const(TypeError(f"{it.cls.__name__!r} object is not an iterator")))
        try:
            return cap.call(method, [])
        except Raised as raised:
            if default is not None and issubclass(type_of(raised.value), StopIteration):
                return default
            raise
    item = advance(cap, it)
    if item is not None:
        return item
    if default is not None:
        return default
    result = kind(it).result
    raise stop_iteration(None if result is None else result(it))


def stop_iteration(result: Value | None) -> Raised:
    if result is None or stands_for(result, None):
        return Raised(Const(StopIteration()))
    return Raised(ObjectV(StopIteration, ctor=(result,), attrs={"args": TupleV([result]), "value": result}))


@row(zip)
def _zip(cap: Capture, *xs: Value, strict: Value = Const(False)) -> Value:
    return StreamV("zip", [get_iter(cap, x) for x in xs], state={"strict": as_python(strict)}, maker=cap.caller())


def accepted(judge: Any, subject: Any, args: Sequence[Value]) -> list[Any]:
    """The constant arguments that `judge(subject, *args)` takes; what it refuses, it says itself."""
    found = [as_python(a) for a in args]
    try:
        judge(subject, *found)
    except ours(Exception) as error:
        raise Raised(Const(error)) from None
    return found


@row(enumerate)
def _enumerate(cap: Capture, xs: Value, start: Value = Const(0)) -> Value:
    first = Const(int(operator.index(accepted(enumerate, (), [start])[0])))  # True is 1 here
    return StreamV("enumerate", [get_iter(cap, xs), CountIterV(first, None, Const(1))], maker=cap.caller())


@row(map)
def _map(cap: Capture, fn: Value, *xs: Value) -> Value:
    if not xs:
        return fold(cap, map, NONE)  # which refuses
    return StreamV("map", [get_iter(cap, x) for x in xs], fn=fn)


@row(filter)
def _filter(cap: Capture, fn: Value, xs: Value) -> Value:
    return StreamV("filter", [get_iter(cap, xs)], fn=fn)


@row(reversed)
def _reversed(cap: Capture, xs: Value) -> Value:
    row = kind(xs).reversed
    found = None if row is None else row(cap, xs)
    if found is not None:
        return found  # type: ignore[no-any-return]
    cls = type_of(xs)
    if not (hasattr(cls, "__reversed__") or hasattr(cls, "__getitem__")):
        raise Raised(Const(TypeError(f"{cls.__name__!r} object is not reversible")))
    return SeqIterV(TupleV(list(iterate(cap, xs))[::-1]), kind="other", seen=True)


def _back(cap: Capture, xs: Any) -> Value:
    return SeqIterV(xs, len(xs.items) - 1, "reversed")


def _list_back(cap: Capture, xs: ListV) -> Value:
    return alike_items.iterator(cap, xs, back=True) or _back(cap, xs)


def _const_back(cap: Capture, xs: Const) -> Value | None:
    return get_iter(cap, Const(xs.value[::-1])) if holds(xs, range) else None


def _range_back(cap: Capture, xs: RangeV) -> Value | None:
    if not stands_for(xs.step, 1):
        return None
    first, end = (binary(cap, operator.sub, x, Const(1)) for x in (xs.stop, xs.start))
    return CountIterV(first, end, Const(-1))


def _array_back(cap: Capture, xs: ArrayV) -> Value:
    """An array is the only one of these that can't change meanwhile, so that its iterator can be made again."""
    length = rows(cap, xs)
    if length is not None:
        return row_iter(cap, xs, length, back=True)
    return SeqIterV(TupleV(list(iterate(cap, xs))[::-1]), kind="other", maker=(reversed, [xs], {}), seen=True)


def _by_method(cap: Capture, xs: ObjectV) -> Value:
    """`reversed` of an instance."""
    method, hidden = cap.special(xs, "__reversed__"), lookup(xs.cls, "__reversed__")[0] is not None
    if method is not None:
        return cap.call(method, [])
    if hidden or lookup(xs.cls, "__getitem__")[0] is None:
        raise Raised(Const(TypeError(f"{xs.cls.__name__!r} object is not reversible")))
    raise Break("iterator", f"reversed() of a {xs.cls.__qualname__}, by its __getitem__")


define(ObjectV, Kind(reversed=_by_method))
define(SequenceV, Kind(reversed=_back))
define(ListV, Kind(reversed=_list_back))
define(Const, Kind(reversed=_const_back))
define(RangeV, Kind(reversed=_range_back))
define(ArrayV, Kind(reversed=_array_back))


@row(sorted)
def _sorted(cap: Capture, xs: Value, *, key: Value = NONE, reverse: Value = Const(False)) -> Value:
    xs = gathered(cap, xs)
    made = alike_items.in_order(cap, xs, key, bool(as_python(reverse)))
    return made or ListV(any_order.sort_all(cap, xs, key, as_python(reverse)))


ZERO = Const(0)


@row(sum)
def _sum(cap: Capture, xs: Value, start: Value = ZERO) -> Value:
    total = start
    if is_const(start):
        accepted(sum, (), [start])  # it joins no strings
    made = alike_items.of_numbers(cap, sum, xs) if start is ZERO else None
    if made is not None:
        return made
    whole = is_size(start) or is_exactly(start, int)  # floats are rounded
    if whole and isinstance(xs, RangeV) and is_const(xs.step) and xs.step.value == 1:
        return binary(cap, operator.add, total, _sum_of_range(cap, xs))
    made = looped(cap, summed, xs, start)
    if made is not None:
        return made
    for x in iterate(cap, xs):
        total = binary(cap, operator.add, total, x)
    return total


def _sum_of_range(cap: Capture, xs: RangeV) -> Value:
    """The sum of the whole numbers from `start` to `stop`, of which sizes make part, without counting."""
    n = binary(cap, operator.sub, xs.stop, xs.start)
    if not truth(cap, binary(cap, operator.gt, n, Const(0))):
        return Const(0)
    ends = binary(cap, operator.add, xs.start, binary(cap, operator.sub, xs.stop, Const(1)))
    return binary(cap, operator.floordiv, binary(cap, operator.mul, n, ends), Const(2))


EXTREMES: dict[Any, Any] = {operator.gt: max, operator.lt: min}


def _extreme(op: Any) -> Any:
    def pick(cap: Capture, *xs: Value, key: Value = NONE, default: Value | None = None) -> Value:
        if not xs:
            return fold(cap, EXTREMES[op])  # which refuses
        if len(xs) > 1 and default is not None:
            return fold(cap, lambda: EXTREMES[op](0, 0, default=0))  # so does this
        if not stands_for(key, None):
            found = _extreme_by(cap, op, iterate(cap, xs[0]) if len(xs) == 1 else xs, key)
            return found or default or fold(cap, EXTREMES[op], TupleV([]))
        if len(xs) == 1:
            xs = (gathered(cap, xs[0]),)
            found = alike_items.of_numbers(cap, EXTREMES[op], xs[0])
            if found is not None:
                return found
        items = list(iterate(cap, xs[0])) if len(xs) == 1 else list(xs)
        number = size_values.extreme(cap, EXTREMES[op].__name__, items) if items else default
        return number or _extreme_number(cap, EXTREMES[op], items) or _extreme_by(cap, op, items) or fold(
            cap, EXTREMES[op], TupleV([]))
    return pick


def _extreme_by(cap: Capture, op: Any, items: Iterable[Value], key: Value | None = None) -> Value | None:
    """The first item whose key is beyond those of all others; None where there are no items. Each key is made, and
    compared, before the next item is asked for."""
    best: tuple[Value, Value] | None = None
    for item in items:
        rank = item if key is None else cap.call(key, [item])
        if best is None or truth(cap, binary(cap, op, rank, best[1])):
            best = item, rank
    return None if best is None else best[0]


def _extreme_number(cap: Capture, pick: Any, items: list[Value]) -> Value | None:
    """The greatest or least of numbers of which the Graph, or Python in each call or for all rounds of a loop, computes
    some."""
    return graph_scalars.each_round(pick, *items) or graph_scalars.extreme(
        cap, pick, items) or host_functions.extreme(cap, pick, items)


BUILTINS.update({fn: _extreme(op) for op, fn in EXTREMES.items()})


@row(any)
def _any(cap: Capture, xs: Value) -> Value:
    return alike_items.of_numbers(cap, any, xs) or Const(any(truth(cap, x) for x in iterate(cap, xs)))


@row(all)
def _all(cap: Capture, xs: Value) -> Value:
    return alike_items.of_numbers(cap, all, xs) or Const(all(truth(cap, x) for x in iterate(cap, xs)))


@row(functools.reduce)
def _reduce(cap: Capture, fn: Value, xs: Value, *initial: Value) -> Value:
    made = looped(cap, reduced, xs, fn, *initial)
    if made is not None:
        return made
    items = iterate(cap, xs)
    total = initial[0] if initial else next(items, None)
    if total is None:
        raise Raised(Const(TypeError("reduce() of empty iterable with no initial value")))
    for x in items:
        total = call(cap, fn, [total, x], {})
    return total


@row(itertools.chain)
def _chain(cap: Capture, *xs: Value) -> Value:
    return StreamV("chain", [get_iter(cap, x) for x in xs])


@row(itertools.count)
def _count(cap: Capture, start: Value = Const(0), step: Value = Const(1)) -> Value:
    for number in (start, step):
        if is_const(number):
            accepted(itertools.count, number.value, ())
    by_ones = issubclass(type_of(step), int) and is_const(step) and step.value == 1
    if by_ones and issubclass(type_of(start), int) and type_of(start) is not int:
        start = cap.call(Const(int), [start])  # C counts by ones, of True and of an enum's members, too
    return CountIterV(start, None, step)


@row(itertools.islice)
def _islice(cap: Capture, xs: Value, *args: Value) -> Value:
    limits = slice(*accepted(itertools.islice, (), args))
    state = {"position": 0, "next": limits.start or 0, "stop": limits.stop, "step": limits.step or 1}
    return StreamV("islice", [get_iter(cap, xs)], state=state)


def _eager_itertool(fn: Any) -> Any:
    """Finite combinatorial iterators: computed on positions, then filled with the Values."""
    def make(cap: Capture, *xs: Value, **kwargs: Value) -> Value:
        if fn is not itertools.product and "iterable" in kwargs:
            xs = (kwargs.pop("iterable"), *xs)
        iterables, rest = (xs, ()) if fn is itertools.product else (xs[:1], xs[1:])
        pools = [list(iterate(cap, x)) for x in iterables]
        numbers, real = [as_python(x) for x in rest], {k: as_python(v) for k, v in kwargs.items()}
        tagged = [[(p, i) for i in range(len(pool))] for p, pool in enumerate(pools)]
        try:
            combos = list(fn(*tagged, *numbers, **real))
        except (TypeError, ValueError) as error:
            raise Raised(Const(error)) from None
        items = TupleV([TupleV([pools[p][i] for p, i in combo]) for combo in combos])
        return SeqIterV(items, kind="other", maker=(fn, [*map(TupleV, pools), *rest], real))
    return make


for _name in ("product", "permutations", "combinations", "combinations_with_replacement"):
    BUILTINS[getattr(itertools, _name)] = _eager_itertool(getattr(itertools, _name))


@row(itertools.pairwise)
def _pairwise(cap: Capture, xs: Value) -> Value:
    """Of a symbolic number of items: those but for the last one, beside those but for the first one."""
    items = grown_lists.of_rows(cap, xs)
    sides = [items and alike_items.taken(cap, items, s) for s in (slice(0, -1), slice(1, None))]
    if None in sides:
        return _eager_itertool(itertools.pairwise)(cap, xs)  # type: ignore[no-any-return]
    return StreamV("zip", [get_iter(cap, side) for side in sides])  # type: ignore[arg-type]


@row(itertools.repeat)
def _repeat(cap: Capture, x: Value, *times: Value) -> Value:
    left = accepted(itertools.repeat, None, times)
    return StreamV("repeat", [x], state={"left": left[0] if left else None})


@row(throw)
def _thrown_in(cap: Capture, error: Value) -> Value:
    """What a segment of a generator does with an exception that its driver was given."""
    assert cap.current is not None
    raise Raised(as_exception(cap, error), fresh=bool(cap.current.handling))


@row(rethrow)
def _raised_by_what_was_awaited(cap: Capture, error: Value) -> Value:
    raise Raised(as_exception(cap, error), fresh=False)


def _send(cap: Capture, gen: GeneratorV, value: Value) -> Value:
    if not gen.started and not stands_for(value, None):
        raise Raised(Const(TypeError("can't send non-None value to a just-started "
                                     f"{generators.type_name(gen.frame.code.code)}")))
    item = generators.resume(cap, gen, value)
    if item is None:
        raise stop_iteration(gen.frame.result)
    return item


def _throw(cap: Capture, gen: GeneratorV, kind: Value, *rest: Value) -> Value:
    """`throw(error)`, or the older `throw(type, value, traceback)`."""
    if rest and not is_same(rest[0], NONE):
        kind = rest[0]
    error = as_exception(cap, kind)
    if is_const(error):
        error = cap.call(error, [])
        if not issubclass(type_of(error), BaseException):
            raise Break("raises", "a class of exceptions whose instances are none is thrown")
    item = generators.throw(cap, gen, error)
    if item is None:
        raise stop_iteration(gen.frame.result)
    return item


def _of_async_generator(name: str) -> Any:
    """A method that gives what must be awaited, and does nothing by itself."""
    def method(cap: Capture, gen: Value, *args: Value) -> Value:
        if type_of(gen) is not types.AsyncGeneratorType:
            raise Break("call", f"method {name!r} of a {type_of(gen).__qualname__}")
        return LibraryV(getattr(types.AsyncGeneratorType, name), (gen, *args))
    return method


BUILTIN_METHODS.update({(kind, "__next__"): _next for kind in ITERATORS})
BUILTIN_METHODS.update({(kind, "__iter__"): get_iter for kind in ITERATORS})
BUILTIN_METHODS.update({
    (Const, "__iter__"): get_iter,
    (GeneratorV, "send"): _send,
    (GeneratorV, "throw"): _throw,
    (GeneratorV, "close"): generators.close,
    (GeneratorV, "__next__"): lambda cap, gen: _next(cap, gen),
    (GeneratorV, "__iter__"): lambda cap, gen: gen,
    (GeneratorV, "__anext__"): lambda cap, gen: ASendV(gen, NONE),
    (GeneratorV, "asend"): lambda cap, gen, value: ASendV(gen, value),
    (GeneratorV, "__aiter__"): lambda cap, gen: gen,
})
for _name in ("aclose", "athrow", "asend"):
    BUILTIN_METHODS[OpaqueV, _name] = _of_async_generator(_name)
    BUILTIN_METHODS.setdefault((GeneratorV, _name), _of_async_generator(_name))
