"""Python's built-in functions and types, as rows of the table of callees.

A row is `row(cap, *args, **kwargs)` on Values. To support another function of the standard library,
add a row here (or let its Python source be entered, which needs nothing).
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import sys
import types
from typing import Any

import jax
import numpy as np

from dynacomp.capture import arrays, attrs, generators, scalars, sizes
from dynacomp.capture.births import from_python
from dynacomp.capture.calls import BUILTIN_METHODS, BUILTINS, call
from dynacomp.capture.containers import contains, delitem, setitem
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.exceptions import as_exception, handled
from dynacomp.capture.iteration import advance, get_iter, iterate
from dynacomp.capture.keys import elements_of, hashable, pairs
from dynacomp.capture.machine import Capture
from dynacomp.capture.nodes import library_call
from dynacomp.capture.operators import BINARY, COMPARE, binary, fold, is_same, same_object, subscript, truth, unary
from dynacomp.capture.sequences import sort_values
from dynacomp.capture.shells import shell
from dynacomp.capture.texts import text
from dynacomp.capture.values import (
    ArrayV,
    Const,
    CountIterV,
    DictV,
    FunctionV,
    GeneratorV,
    HashedV,
    LibraryV,
    ListV,
    MethodV,
    NotConstant,
    ObjectV,
    PartialV,
    RangeV,
    ScalarV,
    SetV,
    SizeV,
    SliceV,
    StreamV,
    SuperV,
    TracebackV,
    TupleV,
    Value,
    ViewV,
    as_python,
    is_constant,
    type_of,
)

NONE = Const(None)


def row(*functions: Any) -> Any:
    """Registers a row for each of the real callables."""

    def register(fn: Any) -> Any:
        for f in functions:
            BUILTINS[f] = fn
        return fn

    return register


# --- inspection


@row(len)
def _len(cap: Capture, x: Value) -> Value:
    if isinstance(x, ArrayV):
        return arrays.length(cap, x)
    if isinstance(x, (TupleV, ListV, DictV, SetV)):
        return Const(len(x.items))
    if isinstance(x, ViewV):
        return Const(len(x.table.items))
    if isinstance(x, ObjectV) or (isinstance(x, Const) and isinstance(x.value, type)):
        method = cap.special(x, "__len__")
        if method is None:
            raise Raised(Const(TypeError(f"object of type {type_of(x).__name__!r} has no len()")))
        return cap.call(method, [])
    if isinstance(x, LibraryV):
        return library_call(cap, len, [x])
    if isinstance(x, ScalarV):
        return scalars.length(x)
    if isinstance(x, RangeV):
        raise Break("operator", "len of a symbolic range")
    return fold(cap, len, x)


def _class_of(x: Value) -> type:
    try:
        return type_of(x)
    except NotConstant:
        raise Break("call", f"type() of a {type(x).__name__}") from None


@row(type)
def _type(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1:
        return Const(_class_of(args[0]))
    raise Break("call", "type() with three arguments")


@row(isinstance)
def _isinstance(cap: Capture, x: Value, kinds: Value) -> Value:
    if isinstance(kinds, ObjectV):
        return cap.call(cap.getattr(kinds, "__instancecheck__"), [x])
    classes = as_python(kinds)
    fold(cap, lambda c: isinstance(None, c), kinds)  # which refuses what is no class
    if isinstance(x, Const):
        return Const(isinstance(x.value, classes))
    if isinstance(x, ObjectV) and x.real is not None:
        return Const(isinstance(x.real, classes))
    cls = _class_of(x)
    return Const(_array_isinstance(x, classes) if isinstance(x, ArrayV) else issubclass(cls, classes))


def _array_isinstance(x: ArrayV, classes: Any) -> bool:
    if isinstance(classes, tuple):
        return any(_array_isinstance(x, c) for c in classes)
    if x.real is not None:
        return isinstance(x.real, classes)
    return classes is jax.Array or issubclass(_class_of(x), classes) or (
        isinstance(classes, type) and classes.__module__.startswith("jax") and issubclass(jax.Array, classes))


@row(issubclass)
def _issubclass(cap: Capture, a: Value, b: Value) -> Value:
    return fold(cap, issubclass, a, b)


@row(callable)
def _callable(cap: Capture, x: Value) -> Value:
    if isinstance(x, Const):
        return Const(callable(x.value))
    if isinstance(x, ObjectV):
        return Const(attrs.lookup(x.cls, "__call__")[1] is not attrs.MISSING)
    return Const(isinstance(x, (FunctionV, MethodV, PartialV, LibraryV)))


@row(getattr)
def _getattr(cap: Capture, x: Value, name: Value, *default: Value) -> Value:
    if not default:
        return cap.getattr(x, as_python(name))
    try:
        return cap.getattr(x, as_python(name))
    except Raised as raised:
        if issubclass(type_of(raised.value), AttributeError):
            return default[0]
        raise


@row(hasattr)
def _hasattr(cap: Capture, x: Value, name: Value) -> Value:
    return Const(attrs.has_attribute(cap, x, as_python(name)))


@row(setattr)
def _setattr(cap: Capture, x: Value, name: Value, value: Value) -> Value:
    attrs.setattr_value(cap, x, as_python(name), value)
    return NONE


@row(delattr)
def _delattr(cap: Capture, x: Value, name: Value) -> Value:
    attrs.delattr_value(cap, x, as_python(name))
    return NONE


@row(hash)
def _hash(cap: Capture, x: Value) -> Value:
    if isinstance(x, ObjectV) and attrs.lookup(x.cls, "__hash__")[0] is not object:
        key = hashable(cap, x)
        return Const(hash(key)) if isinstance(key, HashedV) else _hash_of_id()
    return fold(cap, hash, x) if is_constant(x) else _hash_of_id()


def _hash_of_id() -> Value:
    raise Break("identity", "hash() of an object that hashes by its id")


@row(vars)
def _vars(cap: Capture, x: Value) -> Value:
    return cap.getattr(x, "__dict__")


# --- conversion


@row(bool)
def _bool(cap: Capture, x: Value = Const(False)) -> Value:
    return Const(truth(cap, x))


def _number(kind: type, dunder: str) -> Any:
    def convert(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        x = args[0] if args else Const(kind())
        if isinstance(x, (ArrayV, LibraryV)):
            raise Break("leaves", f"{kind.__name__}() of an array")
        if isinstance(x, SizeV):
            return x if kind is int else fold(cap, kind, sizes.concrete(cap, x))
        if isinstance(x, ObjectV):
            return cap.call(cap.getattr(x, dunder), [])
        return fold(cap, lambda *a: kind(*a), *args) if not kwargs else fold(
            cap, lambda *a: kind(*a[:len(args)], **dict(zip(kwargs, a[len(args):]))), *args, *kwargs.values())
    return convert


for _kind, _dunder in ((int, "__int__"), (float, "__float__"), (complex, "__complex__")):
    BUILTINS[_kind] = _number(_kind, _dunder)


@row(str)
def _str(cap: Capture, x: Value = Const(""), *rest: Value) -> Value:
    return text(cap, x, str) if not rest else fold(cap, str, x, *rest)


@row(repr)
def _repr(cap: Capture, x: Value) -> Value:
    return text(cap, x, repr)


@row(format)
def _format(cap: Capture, x: Value, spec: Value = Const("")) -> Value:
    return text(cap, x, format, as_python(spec))


@row(tuple)
def _tuple(cap: Capture, xs: Value = TupleV([])) -> Value:
    return xs if isinstance(xs, TupleV) and xs.cls is tuple else TupleV(list(iterate(cap, xs)))


@row(list)
def _list(cap: Capture, xs: Value = TupleV([])) -> Value:
    return ListV(list(iterate(cap, xs)))


@row(collections.deque)
def _deque(cap: Capture, xs: Value = TupleV([]), maxlen: Value = NONE) -> Value:
    limit = as_python(maxlen)
    items = list(iterate(cap, xs))
    return ListV(items if limit is None else items[max(0, len(items) - limit):], collections.deque, extra=limit)


@row(dict)
def _dict(cap: Capture, *sources: Value, **kwargs: Value) -> Value:
    made = DictV({})
    for source in sources:
        made.items.update(pairs(cap, source))
    made.items.update(kwargs)
    return made


@row(collections.OrderedDict)
def _ordered(cap: Capture, *sources: Value, **kwargs: Value) -> Value:
    made = _dict(cap, *sources, **kwargs)
    made.cls = collections.OrderedDict
    return made


@row(collections.defaultdict)
def _defaultdict(cap: Capture, factory: Value = NONE, *sources: Value, **kwargs: Value) -> Value:
    made = _dict(cap, *sources, **kwargs)
    made.cls, made.factory = collections.defaultdict, factory
    return made


def _set_of(kind: type) -> Any:
    def make(cap: Capture, xs: Value = TupleV([])) -> Value:
        return SetV(set(elements_of(cap, xs)), kind)
    return make


BUILTINS[set], BUILTINS[frozenset] = _set_of(set), _set_of(frozenset)


@row(slice)
def _slice(cap: Capture, *args: Value) -> Value:
    a = [NONE, args[0], NONE] if len(args) == 1 else [*args, *[NONE] * (3 - len(args))]
    return SliceV(*a)


@row(range)
def _range(cap: Capture, *args: Value) -> Value:
    a = [Const(0), args[0], Const(1)] if len(args) == 1 else [*args, *[Const(1)] * (3 - len(args))]
    if any(isinstance(x, SizeV) for x in a):
        return RangeV(*a)
    if any(isinstance(x, ArrayV) for x in a):
        raise Break("leaves", "range() of an array")
    return fold(cap, range, *a)


# --- iteration


@row(iter)
def _iter(cap: Capture, x: Value, *sentinel: Value) -> Value:
    if sentinel:
        return StreamV("call", [], fn=x, state={"sentinel": sentinel[0]})
    return get_iter(cap, x)


@row(next)
def _next(cap: Capture, it: Value, *default: Value) -> Value:
    if isinstance(it, ObjectV):
        try:
            return cap.call(cap.getattr(it, "__next__"), [])
        except Raised as raised:
            if default and issubclass(type_of(raised.value), StopIteration):
                return default[0]
            raise
    item = advance(cap, it)
    if item is not None:
        return item
    if default:
        return default[0]
    result = it.frame.result if isinstance(it, GeneratorV) else None
    raise stop_iteration(cap, result)


def stop_iteration(cap: Capture, result: Value | None) -> Raised:
    if result is None or (isinstance(result, Const) and result.value is None):
        return Raised(Const(StopIteration()))
    return Raised(ObjectV(StopIteration, ctor=(result,), attrs={"args": TupleV([result]), "value": result}))


@row(zip)
def _zip(cap: Capture, *xs: Value, strict: Value = Const(False)) -> Value:
    return StreamV("zip", [get_iter(cap, x) for x in xs], state={"strict": as_python(strict)})


@row(enumerate)
def _enumerate(cap: Capture, xs: Value, start: Value = Const(0)) -> Value:
    return StreamV("enumerate", [get_iter(cap, xs)], state={"index": as_python(start)})


@row(map)
def _map(cap: Capture, fn: Value, *xs: Value) -> Value:
    return StreamV("map", [get_iter(cap, x) for x in xs], fn=fn)


@row(filter)
def _filter(cap: Capture, fn: Value, xs: Value) -> Value:
    return StreamV("filter", [get_iter(cap, xs)], fn=fn)


@row(reversed)
def _reversed(cap: Capture, xs: Value) -> Value:
    if isinstance(xs, ObjectV):
        return cap.call(cap.getattr(xs, "__reversed__"), [])
    if isinstance(xs, Const) and isinstance(xs.value, range):
        return get_iter(cap, Const(xs.value[::-1]))
    return get_iter(cap, TupleV(list(iterate(cap, xs))[::-1]))


@row(sorted)
def _sorted(cap: Capture, xs: Value, *, key: Value = NONE, reverse: Value = Const(False)) -> Value:
    return ListV(sort_values(cap, list(iterate(cap, xs)), key, bool(as_python(reverse))))


@row(sum)
def _sum(cap: Capture, xs: Value, start: Value = Const(0)) -> Value:
    total = start
    for x in iterate(cap, xs):
        total = binary(cap, operator.add, total, x)
    return total


def _extreme(op: Any) -> Any:
    def pick(cap: Capture, *xs: Value, key: Value = NONE, default: Value | None = None) -> Value:
        items = list(iterate(cap, xs[0])) if len(xs) == 1 else list(xs)
        if not items:
            if default is not None:
                return default
            return fold(cap, max if op is operator.gt else min, TupleV([]))
        keyed = [x if isinstance(key, Const) and key.value is None else cap.call(key, [x]) for x in items]
        best = 0
        for i in range(1, len(items)):
            if truth(cap, binary(cap, op, keyed[i], keyed[best])):
                best = i
        return items[best]
    return pick


BUILTINS[max], BUILTINS[min] = _extreme(operator.gt), _extreme(operator.lt)


@row(any)
def _any(cap: Capture, xs: Value) -> Value:
    return Const(any(truth(cap, x) for x in iterate(cap, xs)))


@row(all)
def _all(cap: Capture, xs: Value) -> Value:
    return Const(all(truth(cap, x) for x in iterate(cap, xs)))


# --- arithmetic


@row(abs)
def _abs(cap: Capture, x: Value) -> Value:
    return unary(cap, operator.abs, x)


@row(pow)
def _pow(cap: Capture, a: Value, b: Value, *mod: Value) -> Value:
    if mod and isinstance(a, ObjectV):
        return cap.call(cap.getattr(a, "__pow__"), [b, *mod])
    return fold(cap, pow, a, b, *mod) if mod else binary(cap, operator.pow, a, b)


@row(divmod)
def _divmod(cap: Capture, a: Value, b: Value) -> Value:
    if isinstance(a, SizeV) or isinstance(b, SizeV):
        return TupleV([binary(cap, operator.floordiv, a, b), binary(cap, operator.mod, a, b)])
    for x, name, y in ((a, "__divmod__", b), (b, "__rdivmod__", a)):
        if isinstance(x, ObjectV) and cap.special(x, name) is not None:
            return cap.call(cap.special(x, name), [y])  # type: ignore[arg-type]
    return library_call(cap, divmod, [a, b]) if isinstance(a, ArrayV) or isinstance(b, ArrayV) else fold(
        cap, divmod, a, b)


@row(round)
def _round(cap: Capture, x: Value, n: Value = NONE) -> Value:
    if isinstance(x, ArrayV):
        return library_call(cap, round, [x, n])
    return fold(cap, round, x, n) if is_constant(x) else cap.call(cap.getattr(x, "__round__"), [n])


def _setitem(cap: Capture, owner: Value, key: Value, value: Value) -> Value:
    setitem(cap, owner, key, value)
    return NONE


def _delitem(cap: Capture, owner: Value, key: Value) -> Value:
    delitem(cap, owner, key)
    return NONE


for _op in {*BINARY, *COMPARE.values()}:
    BUILTINS[_op] = (lambda op: lambda cap, a, b: binary(cap, op, a, b))(_op)
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
for _name in ("prod", "fsum"):
    BUILTINS[getattr(math, _name)] = (lambda fn: lambda cap, xs, **kw: fold(
        cap, fn, TupleV(list(iterate(cap, xs)))))(getattr(math, _name))


# --- functools, itertools, super, staticmethod and the like


@row(functools.partial)
def _partial(cap: Capture, fn: Value, *args: Value, **kwargs: Value) -> Value:
    if isinstance(fn, PartialV):
        return PartialV(fn.func, [*fn.args, *args], {**fn.kwargs, **kwargs})
    return PartialV(fn, list(args), kwargs)


@row(functools.reduce)
def _reduce(cap: Capture, fn: Value, xs: Value, *initial: Value) -> Value:
    items = iterate(cap, xs)
    total = initial[0] if initial else next(items, None)
    if total is None:
        raise Raised(Const(TypeError("reduce() of empty iterable with no initial value")))
    for x in items:
        total = call(cap, fn, [total, x], {})
    return total


@row(super)
def _super(cap: Capture, *args: Value) -> Value:
    if args:
        return SuperV(as_python(args[0]), args[1])
    frame = cap.current
    assert frame is not None and frame.first_local is not None
    first = frame.locals.get(frame.first_local) or frame.cells[frame.first_local].content
    cell = frame.cells["__class__"]
    cell.content = cap.realize(cell.content)
    return SuperV(as_python(cell.content), cap.realize(first))


@row(itertools.chain)
def _chain(cap: Capture, *xs: Value) -> Value:
    return StreamV("chain", [get_iter(cap, x) for x in xs])


@row(itertools.count)
def _count(cap: Capture, start: Value = Const(0), step: Value = Const(1)) -> Value:
    return CountIterV(start, None, step)


@row(itertools.islice)
def _islice(cap: Capture, xs: Value, *args: Value) -> Value:
    limits = slice(*(as_python(a) for a in args))
    state = {"position": 0, "next": limits.start or 0, "stop": limits.stop, "step": limits.step or 1}
    return StreamV("islice", [get_iter(cap, xs)], state=state)


def _eager_itertool(fn: Any) -> Any:
    """Finite combinatorial iterators: computed on positions, then filled with the Values."""
    def make(cap: Capture, *xs: Value, **kwargs: Value) -> Value:
        pools = [list(iterate(cap, x)) for x in xs if not isinstance(x, Const) or not isinstance(x.value, int)]
        numbers = [x.value for x in xs if isinstance(x, Const) and isinstance(x.value, int)]
        real = {k: as_python(v) for k, v in kwargs.items()}
        tagged = [[(p, i) for i in range(len(pool))] for p, pool in enumerate(pools)]
        found = [TupleV([pools[p][i] for p, i in combo]) for combo in fn(*tagged, *numbers, **real)]
        return get_iter(cap, TupleV(found))
    return make


for _name in ("product", "permutations", "combinations", "combinations_with_replacement", "pairwise"):
    BUILTINS[getattr(itertools, _name)] = _eager_itertool(getattr(itertools, _name))


@row(itertools.repeat)
def _repeat(cap: Capture, x: Value, *times: Value) -> Value:
    if not times:
        return StreamV("map", [CountIterV(Const(0), None, Const(1))], fn=_constant_function(x))
    return get_iter(cap, TupleV([x] * as_python(times[0])))


def _constant_function(x: Value) -> Value:
    return MethodV(Const(_second), x)


def _second(first: Any, *rest: Any) -> Any:
    return first


BUILTINS[_second] = lambda cap, first, *rest: first


# --- the exception at hand


@row(sys.exc_info)
def _exc_info(cap: Capture) -> Value:
    error = handled(cap.current)
    return TupleV([NONE] * 3 if error is None else [Const(type_of(error)), error, TracebackV(error)])


@row(sys.exception)
def _current_exception(cap: Capture) -> Value:
    return handled(cap.current) or NONE


# --- things that must really happen, in Python


def _leaves(why: str) -> Any:
    def refuse(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        raise Break("effect", why)
    return refuse


for _name in ("print", "input", "open", "exec", "eval", "breakpoint", "compile", "globals", "locals", "dir",
              "__import__"):
    BUILTINS[getattr(builtins, _name)] = _leaves(f"{_name}()")
for _fn in (np.asarray, np.array):
    BUILTINS[_fn] = _leaves("a NumPy array made from values")
BUILTINS[jax.device_get] = _leaves("jax.device_get")
BUILTINS[jax.block_until_ready] = lambda cap, x: x


# --- jax.tree: structure is known while capturing, so user functions are simply called


def _tree_map(cap: Capture, fn: Value, tree: Value, *rest: Value, is_leaf: Value = NONE) -> Value:
    leaves, treedef = _flatten(cap, tree, is_leaf)
    others = []
    for r in rest:
        try:
            others.append(treedef.flatten_up_to(shell(cap, r)))
        except (ValueError, TypeError) as error:
            raise Raised(Const(error)) from None
    found = [call(cap, fn, [_leaf(cap, x) for x in xs], {}) for xs in zip(leaves, *others)]
    return from_python(cap, jax.tree.unflatten(treedef, found))


def _flatten(cap: Capture, tree: Value, is_leaf: Value = NONE) -> tuple[list[Any], Any]:
    from_shell = shell(cap, tree)
    if isinstance(is_leaf, Const) and is_leaf.value is None:
        return jax.tree.flatten(from_shell)
    return jax.tree.flatten(from_shell, is_leaf=lambda x: truth(cap, call(cap, is_leaf, [_leaf(cap, x)], {})))


def _leaf(cap: Capture, x: Any) -> Value:
    return x if isinstance(x, Value) else from_python(cap, x)


def _tree_leaves(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return ListV([_leaf(cap, x) for x in _flatten(cap, tree, is_leaf)[0]])


def _tree_flatten(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    leaves, treedef = _flatten(cap, tree, is_leaf)
    return TupleV([ListV([_leaf(cap, x) for x in leaves]), Const(treedef)])


def _tree_unflatten(cap: Capture, treedef: Value, leaves: Value) -> Value:
    return from_python(cap, jax.tree.unflatten(as_python(treedef), list(iterate(cap, leaves))))


def _tree_structure(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return Const(_flatten(cap, tree, is_leaf)[1])


for _fns, _row in (
    ((jax.tree.map, jax.tree_util.tree_map), _tree_map),
    ((jax.tree.leaves, jax.tree_util.tree_leaves), _tree_leaves),
    ((jax.tree.flatten, jax.tree_util.tree_flatten), _tree_flatten),
    ((jax.tree.unflatten, jax.tree_util.tree_unflatten), _tree_unflatten),
    ((jax.tree.structure, jax.tree_util.tree_structure), _tree_structure),
):
    for _tree_fn in _fns:
        BUILTINS[_tree_fn] = _row


# --- generators


def _send(cap: Capture, gen: GeneratorV, value: Value) -> Value:
    if not gen.started and not (isinstance(value, Const) and value.value is None):
        raise Raised(Const(TypeError("can't send non-None value to a just-started generator")))
    item = generators.resume(cap, gen, value)
    if item is None:
        raise stop_iteration(cap, gen.frame.result)
    return item


def _throw(cap: Capture, gen: GeneratorV, kind: Value, *rest: Value) -> Value:
    """`throw(error)`, or the older `throw(type, value, traceback)`."""
    if rest and not is_same(rest[0], NONE):
        kind = rest[0]
    error = as_exception(cap, kind)
    if isinstance(error, Const):
        error = cap.call(error, [])
    item = generators.throw(cap, gen, error)
    if item is None:
        raise stop_iteration(cap, gen.frame.result)
    return item


BUILTIN_METHODS.update({
    (GeneratorV, "send"): _send,
    (GeneratorV, "throw"): _throw,
    (GeneratorV, "close"): generators.close,
    (GeneratorV, "__next__"): lambda cap, gen: _next(cap, gen),
    (GeneratorV, "__iter__"): lambda cap, gen: gen,
})
