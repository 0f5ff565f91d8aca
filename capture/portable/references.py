"""Objects as plain data that another process turns into its own objects: constants, what modules hold under a name, and
what stands at a place that a guard reads, each with a print where the name alone does not say which object it is.

    writer, reader = Writer(), Reader()
    reader.read(writer.write(jnp.exp)) is jnp.exp
"""

from __future__ import annotations

import contextlib
import pickle
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from dynacomp.capture._native import Held, known_dict, known_set
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal, leaves
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.resume import Layout, layout_of, original_of, resume_code
from dynacomp.capture.calls.cache_layout import CACHE, RESULT
from dynacomp.capture.portable.homes import Unportable, is_library, module_of, name_of
from dynacomp.capture.portable.instances import is_value, put_together, taken_apart
from dynacomp.capture.portable.prints import ROWS as PRINTED
from dynacomp.capture.portable.prints import TYPED, Prints, at_name, device_name, named, shelf
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.checks import Check, Checks, check_at
from dynacomp.capture.reconstruct.output import ProgramSlot
from dynacomp.capture.reconstruct.tracebacks import left_alone

ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")  # text that speaks of one process's memory
OF_PROCESS = (known_dict, known_set, runtime.known_key)  # they are given hashes
LARGEST = 1 << 20  # bytes of an array that is written
CACHED = (CACHE, RESULT)  # what functions that remember results keep out of sight
FOUND = ("named", "kept", "of class", "module", "globals", "way", "limits")  # objects that exist, not made like others
HOLDERS = {cls.__name__: cls for cls in (runtime.Weak, Held, runtime.Kept)}


class Changed(Exception):
    """An object is not there, or is another than it was."""


class Gone:
    """What weak references once referred to."""


class Writer:
    """Objects as data. way: what else is tried for an object that has no name of its own. code: the frame's."""

    def __init__(self, code: types.CodeType | None = None, way: Callable[[Any], Any] = lambda obj: None) -> None:
        self.prints, self.code, self.way = Prints(), code, way
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._copies: dict[int, tuple[int, Any]] = {}  # objects that are made again
        self._open: set[int] = set()
        self.options: Any = None  # of the entry
        self.hashes = False  # whether one of those may keep a hash: only processes with the same may have it

    def number(self, obj: Any) -> int | None:
        """Which of the objects that are found again it is: those that are one here are one there. None where identity
        tells nothing: of literals, and of what Python makes at each access."""
        if is_literal(obj) or type(obj) is types.BuiltinFunctionType:
            return None
        return self._numbers.setdefault(id(obj), (len(self._numbers), obj))[0]

    def write(self, obj: Any) -> tuple[Any, ...]:
        if is_literal(obj):
            if any(map(ADDRESS.search, texts(obj))):
                raise Unportable("an address")
            self.hashes |= bool(self._open) and type(obj) is int and obj.bit_length() > 31
            return "is", obj
        if obj is self.options:
            return ("options",)
        row = WRITERS.get(type(obj))
        try:
            data = self.by_name(obj) if row is None else row(self, obj)
        except Unportable:
            otherwise = self.way(obj) or self.made(obj)
            if otherwise is None:
                raise
            data = otherwise
        return ("found", self.number(obj), data) if data[0] in FOUND else data

    def by_name(self, obj: Any) -> tuple[Any, ...]:
        found = named(obj)
        if any(obj is fn for fn in OF_PROCESS):
            raise Unportable(f"{obj.__name__}, which is given hashes")
        if found is not None:
            return "named", *found, self.prints.of(obj)
        data = placed(obj)
        if data is None:
            raise Unportable(f"a {type(obj).__qualname__} without a name")
        return data

    def made(self, obj: Any) -> tuple[Any, ...] | None:
        """An object that is what it holds, to be made again: nobody else can tell it from that one."""
        cls = type(obj)
        if not is_value(cls) or id(obj) in self._open:
            return None
        self._open.add(id(obj))
        inside, slots, table = taken_apart(obj)
        held = [(self.write(owner), name, self.every(content)) for owner, name, content in slots]
        attributes = None if table is None else list(zip(table, self.every(table.values())))
        data = "made", self.copy(obj), self.write(cls), self.write(inside), held, attributes
        self._open.discard(id(obj))
        return data

    def copy(self, obj: Any) -> int:
        """Which of the objects that are made again it is."""
        return self._copies.setdefault(id(obj), (len(self._copies), obj))[0]

    def every(self, objs: Any) -> list[Any]:
        return [self.write(o) for o in objs]


def placed(obj: Any) -> tuple[Any, ...] | None:
    """An object by the place where a library keeps it."""
    place = shelf(obj)
    return None if place is None else ("kept", *place, type(obj).__qualname__)


def texts(obj: Any) -> list[str]:
    """The strings in a literal."""
    return [x for x in leaves(obj) if type(x) is str]


class Reader:
    """Data as objects of this process; `Changed`, or Unportable, where one is not what it was. slot: what stands for
    the program. code: the frame's."""

    def __init__(self, code: types.CodeType | None = None) -> None:
        self.prints, self.slot, self.code = Prints(), ProgramSlot(), code
        self._objects: dict[int, Any] = {}
        self._made: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self.options: Any = None

    def found(self, number: int | None, obj: Any) -> Any:
        """The object; `Changed` where it is one with another, and was not, or the other way round."""
        if number is not None and (self._objects.setdefault(number, obj) is not obj or self._numbers.setdefault(
                id(obj), number) != number):
            raise Changed(f"which objects are one: {type(obj).__qualname__}")
        return obj

    def made(self, number: int, *data: Any) -> Any:
        """The object that is made of such data: one, wherever it stands."""
        if number not in self._made:
            cls, inside, slots, table = data
            held = [(self.read(owner), name, tuple(self.every(content))) for owner, name, content in slots]
            attributes = None if table is None else {name: self.read(d) for name, d in table}
            self._made[number] = put_together(self.read(cls), self.read(inside), held, attributes)
        return self._made[number]

    def dead(self, number: int) -> Any:
        """A weak reference to what is gone: it equals itself alone."""
        return self._made.setdefault(number, weakref.ref(Gone()))

    def read(self, data: tuple[Any, ...]) -> Any:
        return READERS[data[0]](self, *data[1:])

    def every(self, data: Any) -> list[Any]:
        return [self.read(d) for d in data]

    def same(self, obj: Any, told: str) -> Any:
        """The object, where its print is the one that was written. Unportable where it has none."""
        if self.prints.of(obj) == told:
            return obj
        raise Changed(f"{type(obj).__qualname__} {getattr(obj, '__qualname__', '')}")


# --- writing


def _items(w: Writer, items: Any) -> tuple[Any, ...]:
    return type(items).__name__, w.every(items)


def _table(w: Writer, table: dict[Any, Any]) -> tuple[Any, ...]:
    home = module_of(table)
    return ("globals", home) if home is not None else ("dict", w.every(table), w.every(table.values()))


def _module(w: Writer, module: types.ModuleType) -> tuple[Any, ...]:
    return "module", name_of(module)


def made_code(write: Callable[[Any], tuple[Any, ...]], code: types.CodeType) -> tuple[Any, ...]:
    """Code that is made again, with what writes its constants: code of the program's own among them is no other's."""
    fields = {name: getattr(code, name) for name in CODE_FIELDS if hasattr(code, name)}
    return "code", fields, [made_code(write, c) if type(c) is types.CodeType else write(c) for c in code.co_consts]


CODE_FIELDS = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_flags",
               "co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_filename",
               "co_name", "co_qualname", "co_linetable", "co_exceptiontable")


def _holder(w: Writer, holder: Any) -> tuple[Any, ...]:
    weak = type(holder) is runtime.Weak
    content = w.write(holder() if weak else holder.obj)
    if weak and content[0] == "made":
        raise Unportable("an object that is referred to weakly")
    return "holder", type(holder).__name__, content


def _content(w: Writer, content: runtime.Content) -> tuple[Any, ...]:
    """An array that each call makes anew, by what it holds and how that lies."""
    array = content.array
    if type(array) is not np.ndarray or array.dtype.hasobject or array.nbytes > LARGEST or not (
            array.flags.c_contiguous or array.flags.f_contiguous):
        raise Unportable(f"an array of NumPy of {array.nbytes} bytes")
    return "content", pickle.dumps(array), array.flags.writeable


def _resumed(w: Writer, code: types.CodeType) -> tuple[Any, ...]:
    """A resume function's code: the code that it goes on with, and where."""
    layout, original = layout_of(code), original_of(code)
    if layout is None:
        raise Unportable("code without a name")
    own = w.code is not None and original is original_of(w.code)
    return "resume", None if own else w.write(original), layout


def _descriptor(w: Writer, descriptor: Any) -> tuple[Any, ...]:
    owner, name = descriptor.__objclass__, descriptor.__name__
    if descriptor in CACHED:
        return "cached", CACHED.index(descriptor)
    if vars(owner).get(name) is not descriptor:
        raise Unportable(f"the descriptor {name}")
    return "of class", w.write(owner), name, w.prints.of(descriptor)


def _reference(w: Writer, ref: weakref.ReferenceType[Any]) -> tuple[Any, ...]:
    if ref() is None:
        return "dead", w.copy(ref)
    content = w.write(ref())
    if ref.__callback__ is not None or content[0] not in ("found", "named"):
        raise Unportable("an object that is referred to weakly")
    return "weakref", content


def _check(w: Writer, check: Check) -> tuple[Any, ...]:
    """A condition by its place: whether it can be trusted, each process finds out itself."""
    code, stopped = check.code(), check.stopped
    if code is None:
        raise Unportable("a condition of code that is gone")
    told = None if stopped is None else (stopped.kind, stopped.detail)
    return "check", None if code is w.code else w.write(code), check.index, check.line, told


def _tree(w: Writer, tree: Any) -> tuple[Any, ...]:
    data = tree.node_data()
    return "tree", data and w.every(data), w.every(tree.children())


def _dtype(w: Writer, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    if dtype.fields is not None or dtype.subdtype is not None or dtype.hasobject:
        raise Unportable(f"dtype {dtype}")
    return "dtype", dtype.name


def _typed(w: Writer, number: Any) -> tuple[Any, ...]:
    cls: Any = type(number)
    return "typed", TYPED.index(cls), cls.__base__(number), number.dtype.name


def _limits(w: Writer, limits: Any) -> tuple[Any, ...]:
    """What is known of a dtype of floats: there is one object for each, made when it is first asked for."""
    with contextlib.suppress(ValueError, StopIteration):  # NumPy does not know them all
        return "limits", next(n for n, find in enumerate(LIMITS) if find(limits.dtype) is limits), limits.dtype.name
    raise Unportable(f"a finfo of {limits.dtype}")


def _scalar(w: Writer, number: np.generic) -> tuple[Any, ...]:
    """A number of NumPy's, or of a type that JAX adds: it is what it holds."""
    return "scalar", number.dtype.name, number.tobytes()


LIMITS = (jax.numpy.finfo, np.finfo)
SCALARS = frozenset(cls for cls in (*np.sctypeDict.values(), jax.numpy.bfloat16.dtype.type)  # what no one can change
                    if np.dtype(cls).kind in "biufcV" and cls is not np.void)
LEAF = jax.tree.structure(0)
WRITERS: dict[type, Callable[[Writer, Any], tuple[Any, ...]]] = {
    runtime.Content: _content,
    Check: _check, Checks: lambda w, made: ("checks", w.every(made.checks)),
    type(LEAF): _tree, weakref.ReferenceType: _reference,
    tuple: _items, list: _items, dict: _table, types.ModuleType: _module,
    types.CodeType: _resumed, ProgramSlot: lambda w, slot: ("slot",), **dict.fromkeys(HOLDERS.values(), _holder),
    **{cls: _descriptor for cls, row in PRINTED.items() if row is PRINTED[types.MemberDescriptorType]},
    SingleDeviceSharding: lambda w, s: ("device", device_name(s), s.memory_kind),
    **dict.fromkeys(SCALARS, _scalar), **dict.fromkeys(TYPED, _typed), **dict.fromkeys(LIMITS, _limits),
    **{type(np.dtype(t)): _dtype for t in (*np.sctypeDict.values(), jax.numpy.bfloat16)},
}


# --- reading


def _named(r: Reader, module: str, name: str, told: str) -> Any:
    try:
        found = at_name(module, name)
    except (LookupError, TypeError, StopIteration):
        raise Changed(f"{module}.{name}") from None
    return r.same(found, told) if told else found


def _kept(r: Reader, module: str, name: str, kind: str) -> Any:
    found = vars(_loaded(module)).get(name)
    if type(found).__qualname__ != kind or not is_library(sys.modules[module]):
        raise Changed(f"{module}.{name}")
    return found


def _loaded(module: str) -> types.ModuleType:
    """A module. One that its package loads when it is asked for it, is."""
    if module not in sys.modules:
        package, _, name = module.rpartition(".")
        parent = _loaded(package) if package else None
        if is_library(parent) and "__getattr__" in vars(parent):
            getattr(parent, name, None)
        if module not in sys.modules:
            raise Changed(f"module {module}")
    return sys.modules[module]


def _resume(r: Reader, original: tuple[Any, ...] | None, layout: Layout) -> types.CodeType:
    code: Any = r.code if original is None else r.read(original)
    return resume_code(decode(original_of(code)), layout)


def _read_code(r: Reader, fields: dict[str, Any], consts: list[Any]) -> types.CodeType:
    return left_alone(_read_code.__code__.replace(**fields, co_consts=tuple(r.every(consts))))


def _held(r: Reader, kind: str, content: Any) -> Any:
    return HOLDERS[kind](r.read(content))


def _in_class(r: Reader, owner: Any, name: str, told: str) -> Any:
    found = vars(r.read(owner)).get(name)
    return r.same(found, told)


def _device(r: Reader, index: int, memory: str) -> SingleDeviceSharding:
    devices = jax.local_devices()
    if index >= len(devices):
        raise Changed(f"device {index}")
    return SingleDeviceSharding(devices[index], memory_kind=memory)


def _read_content(r: Reader, data: bytes, writeable: bool) -> runtime.Content:
    array = np.array(pickle.loads(data))  # whose memory may be that of bytes
    array.flags.writeable = writeable
    return runtime.Content(array)


def _read_check(r: Reader, code: Any, index: int, line: int, told: tuple[str, str] | None) -> Check:
    found: Check = check_at(r.code if code is None else r.read(code), index, line)  # type: ignore[arg-type]
    found.stopped = None if told is None else Break(*told)
    return found


def _read_tree(r: Reader, data: list[Any] | None, children: list[Any]) -> Any:
    if data is None:
        return LEAF
    return type(LEAF).from_node_data_and_children(  # type: ignore[attr-defined]
        jax.tree_util.default_registry, tuple(r.every(data)), r.every(children))


READERS: dict[str, Callable[..., Any]] = {
    "found": lambda r, number, data: r.found(number, r.read(data)),
    "is": lambda r, obj: obj,
    "tuple": lambda r, items: tuple(r.every(items)),
    "list": lambda r, items: r.every(items),
    "dict": lambda r, keys, values: dict(zip(r.every(keys), r.every(values))),
    "globals": lambda r, name: vars(_loaded(name)),
    "module": lambda r, name: _loaded(name),
    "named": _named, "kept": _kept, "code": _read_code, "holder": _held, "of class": _in_class, "device": _device,
    "resume": _resume, "check": _read_check, "checks": lambda r, held: Checks(tuple(r.every(held))),
    "weakref": lambda r, content: weakref.ref(r.read(content)),
    "dead": Reader.dead,
    "content": _read_content,
    "cached": lambda r, place: CACHED[place],
    "options": lambda r: r.options,
    "slot": lambda r: r.slot, "made": Reader.made, "tree": _read_tree,
    "scalar": lambda r, name, held: np.frombuffer(held, np.dtype(name))[0],
    "dtype": lambda r, name: np.dtype(name), "limits": lambda r, which, name: LIMITS[which](np.dtype(name)),
    "typed": lambda r, kind, plain, name: TYPED[kind](plain, np.dtype(name)),
}
