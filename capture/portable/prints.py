"""Objects as digests: equal where another process has the same object, as far as compiled code can tell.

What a library's module holds under its own name is told by that name (who asks makes sure that the library's files are
the same); the program's functions by their code, defaults and cells, its classes by their bases and what they define.
An object of which no row of `ROWS` speaks has no print: `Unportable`.

    >>> prints_of(len), prints_of((1, 2.0)) == prints_of((1, 2))
    ('library builtins.len', False)
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import hashlib
import inspect
import re
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.literals import TypedComplex, TypedFloat, TypedInt, TypedNdArray
from jax.sharding import SingleDeviceSharding

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.literals import LITERALS
from dynacomp.capture.calls.calls import USER_RULES
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.portable.homes import Unportable, is_library, is_library_file, module_of, name_of, said
from dynacomp.capture.portable.instances import HEAP_TYPE, taken_apart
from dynacomp.capture.wrapping.builder import JITTED
from dynacomp.capture.wrapping.immutability import ALIASES

OF_PYTHON = ("types", "_collections_abc", "sys")  # that keep what has no name in `builtins`
MOST = 20_000  # objects that one record may lead to
TYPED = (TypedInt, TypedFloat, TypedComplex)  # numbers that JAX has given a type, which `repr` tells
LARGEST = 1 << 24  # bytes of an array that is read
IGNORED = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__",
           "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__"}  # of a class


class Prints:
    """The prints of one record: each object's is made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}
        self._open: dict[int, int] = {}
        self._reached = 0  # how far out an object leads back that is being printed
        self._left = MOST

    def of(self, obj: Any) -> str:
        known = self._known.get(id(obj))
        if known is not None:
            return known[1]
        depth = len(self._open)
        if id(obj) in self._open:  # a function that its own cell holds
            self._reached = min(self._reached, self._open[id(obj)])
            return f"open {depth - self._open[id(obj)]}"
        self._left -= 1
        if self._left < 0:
            raise Unportable(f"an object that leads to more than {MOST} others")
        outside, self._reached = self._reached, depth
        self._open[id(obj)] = depth
        try:
            found = self._print(obj)
        finally:
            del self._open[id(obj)]
        if self._reached >= depth:
            self._known[id(obj)] = obj, found
        self._reached = min(self._reached, outside)
        return found

    def _print(self, obj: Any) -> str:
        row = ROWS.get(type(obj))
        if row is not None:
            return row(self, obj)
        name = library_name(obj)
        if name is not None:
            return f"library {name}"
        if issubclass(type(obj), type):
            return _class(self, obj)
        if issubclass(type(obj), enum.Enum):
            told = ("enum", obj.name) if type(obj.name) is str else ("flags", self.of(obj.value))  # no flag has no name
            return digest(self.of(type(obj)), *told)
        if issubclass(type(obj), types.ModuleType):
            return _module(self, obj)
        if issubclass(type(obj), weakref.ReferenceType):
            return digest("weakref", self.of(obj()))
        if issubclass(type(obj), np.dtype) and obj.fields is None:
            return f"dtype {obj.str if obj.kind != 'V' else obj}"
        try:
            return _instance(self, obj)
        except Unportable:
            place = shelf(obj)
            if place is None:
                raise
            return f"kept as {'.'.join(place)}"

    def all(self, *objs: Any) -> list[str]:
        return [self.of(o) for o in objs]


def prints_of(obj: Any) -> str:
    return Prints().of(obj)


def digest(*parts: Any) -> str:
    """A digest of texts and bytes; none can pass for another."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if type(part) is str else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:32]


# --- by name


def names_of(obj: Any) -> tuple[str, str] | None:
    """The module and the qualified name that an object says of itself."""
    cls = type(obj)
    module, name = said(obj, "__module__"), said(obj, "__qualname__")
    if cls is types.BuiltinFunctionType and module is None and isinstance(obj.__self__, type):
        module = obj.__self__.__module__  # `tuple.__new__`
    if name is None and cls in (np.ufunc,):
        module, name = "numpy", obj.__name__
    return (module, name) if type(module) is str and type(name) is str else None


def at_name(module: str, name: str) -> Any:
    """What a loaded module has under a qualified name, read from tables alone; LookupError where there is none."""
    found: Any = sys.modules[module]
    for part in name.split("."):
        if isinstance(found, type):
            found = next(vars(c)[part] for c in found.__mro__ if part in vars(c))
            found = found.__func__ if type(found) is staticmethod else found
        else:
            found = vars(found)[part]
    return found


def named(obj: Any) -> tuple[str, str] | None:
    """The name under which this very object is found."""
    names = names_of(obj)
    if names is None or "<" in names[1]:
        return None
    try:
        found = at_name(*names)
    except (LookupError, TypeError, StopIteration):
        return None
    return names if found is obj or _same_bound(found, obj) else None


def owner_of(fn: Any) -> type | None:
    """The class that a function is named after."""
    names = names_of(fn) if type(fn) is types.FunctionType else None
    try:
        found = names and at_name(names[0], names[1].rpartition(".")[0])
    except (LookupError, TypeError, StopIteration):
        return None
    return found if isinstance(found, type) and named(found) is not None else None


def _same_bound(found: Any, obj: Any) -> bool:
    """Whether both are the method of one object: Python makes such an object at each access."""
    return type(found) is type(obj) is types.BuiltinFunctionType and found == obj


def library_name(obj: Any) -> str | None:
    """The name of what a library's module holds."""
    found = named(obj)
    return ".".join(found) if found is not None and is_library(sys.modules[found[0]]) else None


def shelf(obj: Any) -> tuple[str, str] | None:
    """The library's module, and the name there, that keeps an object: its own, that of its class, one beside that."""
    for home in (said(obj, "__module__"), said(type(obj), "__module__"), *OF_PYTHON):
        module = sys.modules.get(home) if type(home) is str else None
        if is_library(module):
            for name, value in list(vars(module).items()):
                if value is obj:
                    return str(home), name
    place = _beside(module_name(type(obj)).partition(".")[0], len(sys.modules)).get(id(obj))
    return place if place is not None and vars(sys.modules[place[0]]).get(place[1]) is obj else None


@functools.lru_cache(32)
def _beside(package: str, modules: int) -> dict[int, tuple[str, str]]:
    """What a package keeps in its modules (of so many in all), by id: each place is to be looked at again."""
    found: dict[int, tuple[str, str]] = {}
    for home, module in list(sys.modules.items()):
        if home.partition(".")[0] == package and is_library(module):
            for name, value in list(vars(module).items()):
                found.setdefault(id(value), (home, name))
    return found


# --- rows


def _literal(p: Prints, obj: Any) -> str:
    return digest(type(obj).__name__, repr(obj))


def _code(p: Prints, code: types.CodeType) -> str:
    texts = (code.co_name, code.co_qualname, code.co_filename, repr((
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)))
    return digest("code", *texts, code.co_code, code.co_linetable, code.co_exceptiontable, *p.all(*code.co_consts))


def _function(p: Prints, fn: types.FunctionType) -> str:
    name = library_name(fn)
    if name is not None and is_library_file(fn.__code__.co_filename):
        return digest("library", name, p.of(fn.__code__))
    home = module_of(fn.__globals__) or _namespace(p, fn)
    rule = USER_RULES.get(fn)
    if rule is not None and (type(rule) is not types.FunctionType or rule.__closure__):
        raise Unportable(f"the rule for {fn.__qualname__}")
    kept = {k: v for k, v in vars(fn).items() if k != "__wrapped__"}
    held = fn.__defaults__, fn.__kwdefaults__, kept, vars(fn).get("__wrapped__"), *(fn.__closure__ or ())
    return digest("function", home, fn.__name__, fn.__qualname__, p.of(fn.__code__), rule.__qualname__ if rule else "",
                  *p.all(*held))


def _namespace(p: Prints, fn: types.FunctionType) -> str:
    """What a generated function has instead of a module: what its code names there."""
    return digest("namespace", *(part for name in fn.__code__.co_names if name in fn.__globals__
                                 for part in (name, p.of(fn.__globals__[name]))))


def _class(p: Prints, cls: type) -> str:
    """A class of the program."""
    if not cls.__flags__ & HEAP_TYPE or cls.__module__ in ("builtins",):
        return f"class {cls.__module__}.{cls.__qualname__}"
    table = {k: v for k, v in vars(cls).items() if k not in IGNORED}
    return digest("class", cls.__module__, cls.__qualname__, *p.all(type(cls), cls.__bases__),
                  *(part for k, v in table.items() for part in (k, _defined(p, v))))


def _defined(p: Prints, value: Any) -> str:
    """What a class of the program defines; guards ask for what the compiled code has relied on."""
    if type(value) in (types.FunctionType, staticmethod, classmethod, property):
        code = value if type(value) is types.FunctionType else getattr(value, "__func__", None) or value.fget
        return p.of(code.__code__) if type(code) is types.FunctionType else type(code).__name__
    return _literal(p, value) if type(value) in LITERALS else type(value).__qualname__


def _instance(p: Prints, obj: Any) -> str:
    """An object of a class that Python code defines, by all that it holds."""
    inside, slots, table = taken_apart(obj)
    parts = [p.of(type(obj)), "" if inside is None else ROWS[type(inside)](p, inside)]
    for _, name, content in slots:
        parts += [name, *(p.all(*content) or ["not set"])]
    return digest("object", *parts, *((p.of(table),) if table is not None else ()))


def _module(p: Prints, module: types.ModuleType) -> str:
    return f"module {name_of(module)}"


def _sequence(p: Prints, items: Any) -> str:
    return digest(type(items).__name__, *p.all(*items))


def _tree(p: Prints, tree: Any) -> str:
    data = tree.node_data()
    return "leaf" if data is None else digest("tree", *p.all(*data, *tree.children()))


def _union(p: Prints, union: Any) -> str:
    return digest("union", *p.all(*union.__args__))


def _generic(p: Prints, alias: Any) -> str:
    return digest(type(alias).__name__, str(alias.__unpacked__), *p.all(alias.__origin__, alias.__args__))


def _set(p: Prints, items: Any) -> str:
    return digest(type(items).__name__, *sorted(p.all(*items)))


def _dict(p: Prints, table: dict[Any, Any]) -> str:
    home = module_of(table)
    if home is not None:
        return f"globals {home}"
    return digest("dict", *(part for k, v in table.items() for part in p.all(k, v)))


def _method(p: Prints, method: types.MethodType) -> str:
    return digest("method", *p.all(method.__func__, method.__self__))


def _partial(p: Prints, made: functools.partial[Any]) -> str:
    return digest("partial", *p.all(made.func, made.args, made.keywords, vars(made)))


def _of_class(p: Prints, descriptor: Any) -> str:
    return digest(type(descriptor).__name__, descriptor.__name__, p.of(descriptor.__objclass__))


def _wrapped(p: Prints, descriptor: Any) -> str:
    return digest(type(descriptor).__name__, p.of(descriptor.__func__))


def _property(p: Prints, made: property) -> str:
    return digest("property", *p.all(made.fget, made.fset, made.fdel))


def _sharding(p: Prints, sharding: SingleDeviceSharding) -> str:
    return f"on {device_name(sharding)} {sharding.memory_kind}"


def device_name(sharding: SingleDeviceSharding) -> int:
    """The place of the device among those of this process."""
    (device,) = sharding.device_set
    return jax.local_devices().index(device)


def _signature(p: Prints, found: inspect.Signature) -> str:
    """Annotations apart, which nobody compiles."""
    return digest("signature", *(part for q in found.parameters.values()
                                 for part in (q.name, q.kind.name, p.of(q.default))))


def _jitted(p: Prints, fn: Any) -> str:
    """What `jax.jit` has made of a function, with its options."""
    if not hasattr(fn, "_jit_info"):
        raise Unportable("a copy of a function by jax.jit")
    return digest("jitted", *p.all(fn.__wrapped__, *fn._jit_info))


def _compiled(p: Prints, fn: Any) -> str:
    """What `dynacomp.jit` has made of a function, with its options."""
    return digest("compiled", *p.all(type(fn), fn.__wrapped__, fn.key, vars(fn)))


def _remade(p: Prints, value: Any) -> str:
    """A value of the standard library, by what pickle makes it of."""
    return digest("value", *p.all(*value.__reduce__()))


def _cached(p: Prints, fn: Any) -> str:
    """A function that remembers its results: which those are, guards ask."""
    parameters = vars(fn).get("cache_parameters")
    if parameters is None:
        raise Unportable(f"a {type(fn).__qualname__}")
    return digest("cached", p.of(fn.__wrapped__), p.of(parameters()))


def _builtin(p: Prints, fn: types.BuiltinFunctionType) -> str:
    """A function in C, or a method of an object."""
    found = named(fn)
    return f"library {'.'.join(found)}" if found is not None else digest("bound", fn.__name__, p.of(fn.__self__))


def _constant(p: Prints, array: Any) -> str:
    """What JAX has made of a Python number or of a NumPy array, with its type."""
    return digest("constant", repr((array.shape, array.dtype.name, array.weak_type)), array.tobytes())


def _array(p: Prints, array: jax.Array) -> str:
    """An array by its content, which compiled code may hold."""
    if array.nbytes > LARGEST or array.is_deleted() or not array.is_fully_addressable:
        raise Unportable(f"an array of {array.nbytes} bytes")
    told = array.shape, str(array.dtype), array.weak_type, array.committed
    return digest("array", repr(told), p.of(array.sharding), np.asarray(array).tobytes())


def _cell(p: Prints, cell: types.CellType) -> str:
    try:
        return digest("cell", p.of(cell.cell_contents))
    except ValueError:
        return "empty cell"


ROWS: dict[type, Callable[[Prints, Any], str]] = {
    **dict.fromkeys(LITERALS, _literal),
    types.CodeType: _code, types.FunctionType: _function, types.ModuleType: _module, types.MethodType: _method,
    tuple: _sequence, list: _sequence, dict: _dict, set: _set, frozenset: _set,
    collections.OrderedDict: lambda p, o: digest("ordered", _dict(p, dict(o))),
    collections.deque: lambda p, o: digest("deque", *p.all(list(o), o.maxlen)),
    types.MappingProxyType: lambda p, o: digest("proxy", _dict(p, dict(o))), inspect.Signature: _signature,
    types.CellType: _cell, functools.partial: _partial,  # type: ignore[dict-item]
    types.MemberDescriptorType: _of_class, types.GetSetDescriptorType: _of_class,
    types.WrapperDescriptorType: _of_class, types.MethodDescriptorType: _of_class,
    types.ClassMethodDescriptorType: _of_class,
    type(jax.tree.structure(0)): _tree, types.UnionType: _union, **dict.fromkeys(ALIASES, _generic),
    classmethod: _wrapped, staticmethod: _wrapped, property: _property, SingleDeviceSharding: _sharding,
    ARRAY_TYPE: _array, JITTED: _jitted, CompiledFunction: _compiled, TypedNdArray: _constant,
    **dict.fromkeys((datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal), _remade),
    re.Pattern: lambda p, o: digest("pattern", p.of(o.pattern), str(o.flags)),
    functools.cached_property: lambda p, o: digest("cached property", *p.all(o.func, o.attrname)),
    functools._lru_cache_wrapper: _cached, types.BuiltinFunctionType: _builtin,
    **dict.fromkeys(TYPED, _literal), type(Path()): lambda p, o: digest("path", str(o)),
}
