"""Shells: real instances of user classes with Values in their attributes.

A shell lets JAX's own pytree registry take a symbolic object apart: `jax.tree.flatten(shell)`
gives its leaves (Values) and its tree structure. A shell is never shown to the program: what a structure keeps of it
beside the leaves comes back as the object that it stands for, so that objects keep their identity there too. An object
has one shell for that, and structures that keep the same object are equal.
"""

from __future__ import annotations

import collections
import inspect
import operator
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax._src import tree_util
from jax._src.tree_util import _registry as REGISTRY  # how JAX takes objects apart

from dynacomp.capture.base.classes import entries, fields, has_dict, module_name, mro, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.key_order import unordered
from dynacomp.capture.bytecode.handing_on import hands_on
from dynacomp.capture.graph.descriptions import says_sizes_of
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.libraries import is_named, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import LibraryV, NeedsConcrete, SizeV
from dynacomp.capture.values.constant import Const, is_open, peek
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, ObjectV
from dynacomp.capture.values.questions import is_library_object, is_list
from dynacomp.capture.values.standing import PrivateV
from dynacomp.capture.values.value import Value, existing, is_changing
from dynacomp.capture.wrapping.builder import entries_of, is_made_anew, items_of
from dynacomp.capture.wrapping.builtin_subclasses import IMMUTABLE, built_in_base, payload_base, refill

CLASSES = S.Attr(S.Root(tree_util, "jax._src.tree_util"), "_registry")


class Looked(BaseException):
    """Somebody asks what an Unseen stands for. No `except Exception` of the program's takes it for its own."""


class Unseen:
    """Stands in a shell for an object that a container of the program's class notes beside its items (a tracker), which
    nobody has to look at to take the container apart: of the object its class is known. `seen` gets an entry where
    somebody looks, whatever becomes of that."""

    def __init__(self, cls: type, seen: list[bool]) -> None:
        object.__setattr__(self, "cls", cls)
        object.__setattr__(self, "seen", seen)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, "cls")
        return Unseen._looked(self)

    def _looked(self, *args: Any) -> Any:
        object.__getattribute__(self, "seen").append(True)
        raise Looked

    __getitem__ = __contains__ = __lt__ = __gt__ = __add__ = __enter__ = __int__ = __float__ = __index__ = _looked
    __bool__ = __eq__ = __hash__ = __iter__ = __len__ = __call__ = __setattr__ = __repr__ = _looked  # type: ignore


class Memo(dict[int, tuple[Value, Any]]):
    """id of a Value → it, and its real object. `is_leaf`: whether what takes the tree apart looks into an object of the
    program's; `inside` how many objects that are taken apart we are, where it may be a static field; `defers`: whether
    there may be Unseens in shells, and `seen` whether somebody looked at one. `by_name`: whether JAX alone takes the
    tree or the object apart that we are in; `handed_on`: whether nobody looks at the numbers in it then."""

    def __init__(self, is_leaf: Callable[[Any], bool] = lambda real: False, defers: bool = False,
                 by_name: bool = False) -> None:
        super().__init__()
        self.is_leaf, self.inside, self.defers, self.by_name, self.handed_on = is_leaf, 0, defers, by_name, by_name
        self.seen: list[bool] = []
        self.leaves: dict[int, ObjectV] = {}

    def takes_as_leaf(self, value: Value) -> bool:
        """Whether an object is handed through, and nothing of it is read; the program reads, and guards, what it
        needs."""
        if self.inside or not isinstance(value, ObjectV) or value.payload is not None or not self.is_leaf(value.real):
            return False
        self.leaves[id(value)] = value
        return True


def shell(cap: Capture, value: Value, memo: Memo) -> Any:
    """A real object for `value`: containers and objects are rebuilt, arrays stay Values.

    Reading all attributes of an object guards them all, so that static fields are checked.
    """
    if memo.takes_as_leaf(value):
        _stays_a_leaf(cap, memo.leaves[id(value)])
        return value
    if id(value) not in memo:
        made = kind(value).shell  # none of a number that changes: a leaf or a static field, `fixed_fields` tells
        memo[id(value)] = value, value if made is None else made(cap, value, memo)
    return memo[id(value)][1]


def _stays_a_leaf(cap: Capture, value: ObjectV) -> None:
    """The class of a leaf may be registered later: JAX looks into its objects from then on."""
    if value.source is not None and type(value.cls).__hash__ is type.__hash__:
        cap.guards.add("missing_key", CLASSES, value.cls)


def _const(cap: Capture, value: Const, memo: Memo) -> Any:
    """Itself where other functions came from there in earlier calls: it is entered, and guarded by what it holds."""
    anew = is_open(value) and value.source is not None and is_made_anew(cap, peek(value), value.source)
    return value if anew else value.value


def _list(cap: Capture, value: ListV, memo: Memo) -> Any:
    """A deque by itself is a leaf, and stays a Value."""
    return [shell(cap, i, memo) for i in items_of(cap, value)] if value.cls is list else value


def _dict(cap: Capture, value: DictV, memo: Memo) -> Any:
    table = entries_of(cap, value, lambda v: shell(cap, v, memo), memo.by_name)
    if value.factory is None:
        return value.cls(table)
    factory = shell(cap, value.factory, memo)
    if factory is value.factory:  # a function that is made anew: only what can be called may stand there
        raise Break("argument", "a defaultdict with a function that is made anew in each call, passed to a library")
    return value.cls(factory, table)


def _private(cap: Capture, value: PrivateV, memo: Memo) -> Any:
    raise Break("argument", f"a {value.cls.__qualname__} passed to a library")


def _tuple(cap: Capture, value: TupleV, memo: Memo) -> Any:
    """An existing tuple of constants is itself, and others have one that stands for them: what a tree's structure holds
    keeps its identity."""
    items = [shell(cap, i, memo) for i in items_of(cap, value)]
    for known in (value.real, cap.known.shells.get(id(value), (value, None))[1]):
        if known is not None and tuple.__len__(known) == len(items) and all(
                map(operator.is_, items, tuple.__iter__(known))):
            cap.known.tuples.setdefault(id(known), value)
            return known
    built = tuple(items) if value.cls is tuple else tuple.__new__(value.cls, items)
    if items and memo.inside:
        cap.known.shells[id(value)] = cap.known.shells[id(built)] = value, built
        cap.known.tuples[id(built)] = value
    return built


def _library(cap: Capture, value: LibraryV, memo: Memo) -> Any:
    """A named tuple of functions, as Optax's transformations are, is a tree of them; what says how an array is stands
    for itself where it may be beside the leaves. Others are closed."""
    if value.shell is None and memo.inside and says_sizes_of(cap.sizes.scope, value.real):
        _keep_identity(cap, value, value.real)
        cap.known.shells[id(value)] = cap.known.shells[id(value.real)] = value, value.real
    names = getattr(type(value.real), "_fields", None) if isinstance(value.real, tuple) else None
    if value.shell is None and names is not None:
        items = [cap.getattr(value, name) for name in names]
        if all(is_library_object(x) for x in items):
            _keep_identity(cap, value, tuple.__new__(type(value.real), items))
    return value if value.shell is None else value.shell


def _keep_identity(cap: Capture, value: LibraryV, built: Any) -> None:
    """What a tree's structure holds is the same object when it comes out."""
    value.shell = built
    cap.known.objects[id(built)] = value


def fixed_fields(cap: Capture, memo: Memo, leaves: list[Any], unread: Iterable[Value] = (),
                 sizes: bool = False) -> None:
    """Changing numbers that are no leaves are part of the tree's structure: they must be constants. Not those of which
    it is known that nobody reads them there; `sizes`: those, too, that JAX alone would see."""
    seen = {id(x) for x in (*leaves, *unread)}
    for value, real in memo.values():
        if is_changing(value) and (real is value or sizes) and not seen & {id(value), id(real)}:
            raise NeedsConcrete(as_scalar(cap, value))  # type: ignore[arg-type]


def _object(cap: Capture, value: ObjectV, memo: Memo) -> Any:
    built: Any = _bare(cap, value, memo)
    found = attributes(cap, value)
    for name in [n for n in fields(built) if n not in found]:  # gone since it was made
        object.__delattr__(built, name)
    defers = memo.defers and value.payload is not None and not asks_types(value.cls)
    outer, memo.by_name = (memo.by_name, memo.handed_on), value.cls in REGISTRY and flattened_by_name(value.cls)
    memo.handed_on = memo.by_name or value.cls in REGISTRY and hands_on(
        value.cls, REGISTRY[value.cls].to_iter, REGISTRY[value.cls].from_iter)
    memo.inside += 1
    for name, attr in found.items():
        fixed = attr if memo.handed_on else size_values.known(cap, attr)  # its class may look at it
        put_off = defers and _is_beside(fixed)
        object.__setattr__(built, name, Unseen(fixed.cls, memo.seen) if put_off else shell(cap, fixed, memo))  # type: ignore
    memo.inside -= 1
    memo.by_name, memo.handed_on = outer
    return built


def asks_types(cls: type) -> bool:
    """Whether the code that takes objects of a class apart may ask for a `type`, which an Unseen has not of the object
    that it stands for: `type` stands in it, or in a method or function that it names."""
    row = REGISTRY.get(cls)
    todo, known = [] if row is None else [row.to_iter], set[types.CodeType]()
    while todo:
        fn = todo.pop()
        fn = getattr(fn, "__func__", fn)
        if not isinstance(fn, types.FunctionType) or fn.__code__ in known:
            continue
        known.add(fn.__code__)
        if "type" in fn.__code__.co_names:
            return True
        named = inspect.getclosurevars(fn)
        todo += [*named.nonlocals.values(), *named.globals.values(), *(
            entries(base)[name] for name in fn.__code__.co_names for base in mro(cls) if name in entries(base))]
    return False


def _is_beside(attr: Value) -> bool:
    """Whether JAX sees nothing of an object that existed but that it is one."""
    real = existing(attr) if isinstance(attr, ObjectV) and attr.payload is None else None
    return real is not None and jax.tree_util.all_leaves([real])


def _bare(cap: Capture, value: ObjectV, memo: Memo) -> Any:
    """The instance with its built-in content, without attributes."""
    if issubclass(value.cls, BaseException):
        raise Break("argument", f"an exception that the program made ({value.cls.__qualname__})")
    base: Any = payload_base(value.cls)
    if base in IMMUTABLE and is_changing(value.payload):  # its class may look at the number
        raise NeedsConcrete(as_scalar(cap, value.payload))  # type: ignore[arg-type]
    content = (shell(cap, value.payload, memo),) if base in IMMUTABLE else ()
    kept = cap.known.shells.get(id(value)) if base is None else None
    built = (base or built_in_base(value.cls)).__new__(value.cls, *content) if kept is None else kept[1]
    memo[id(value)] = cap.known.shells[id(value)] = cap.known.shells[id(built)] = value, built
    if base is not None and not content:
        refill(built, _content(cap, value.payload, memo))
    return built


def _content(cap: Capture, payload: Value, memo: Memo) -> Any:
    """What a mutable payload holds."""
    if is_list(payload) and payload.cls is collections.deque:
        return collections.deque([shell(cap, i, memo) for i in items_of(cap, payload)], payload.extra)
    return shell(cap, payload, memo)


def attributes(cap: Capture, value: ObjectV, ordered: bool = True) -> dict[str, Value]:
    """Every instance attribute as a Value, in the order of the instance's dictionary; guarded to be all, and to stand
    in this order where that matters."""
    names = dict.fromkeys(own_dict(value.real))
    if value.source is not None and has_dict(value.cls):
        table = S.ThreadDict if issubclass(value.cls, threading.local) else S.DictOf
        free = all(type(n) is str for n in names) and (not ordered or len(names) < 2 or is_taken_by_name(value.cls))
        cap.guards.add("names" if free else "keys", table(value.source), tuple(names))
    if value.view is not None:
        names = {}
    for name in value.moved:
        names.pop(name, None)
    names.update(dict.fromkeys(unordered(value.attrs)))
    names.update(dict.fromkeys(_slots(value)))
    found: dict[str, Value] = {}
    for name in names:
        attr = cap.instance_attribute(value, name)
        if attr is not None:
            found[name] = attr
    return found


def is_taken_by_name(cls: type) -> bool:
    """Whether JAX is given the parts of these objects by the names of the attributes, whatever their order: by the
    library that the class comes from, unless the program has written how."""
    return any(is_named(module_name(base)) for base in mro(cls)) and flattened_by_name(cls)


def flattened_by_name(cls: type) -> bool:
    """Whether no code of the program's runs when objects of a class are taken apart."""
    row = REGISTRY.get(cls)
    module = None if row is None else module_of(row.to_iter)
    return (module in (None, tree_util.__name__) or is_named(module)) and not any(
        "flatten" in name for base in mro(cls) if not is_named(module_name(base)) for name in entries(base))


def _slots(value: ObjectV) -> list[str]:
    names: list[str] = []
    for base in mro(value.cls):
        slots = entries(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [n for n in names if n not in ("__dict__", "__weakref__") and value.attrs.get(n) is not DELETED]


def _size(cap: Capture, value: SizeV, memo: Memo) -> Any:
    """JAX may keep it beside the leaves of an object, as the sizes in shapes."""
    return size_values.argument(cap, value) if memo.handed_on else value


define(SetV, Kind(shell=lambda cap, v, memo: v.cls(v.items)))
for _cls, _shell in ((Const, _const), (TupleV, _tuple), (ListV, _list), (DictV, _dict), (PrivateV, _private),
                     (ObjectV, _object), (LibraryV, _library), (SizeV, _size)):
    define(_cls, Kind(shell=_shell))  # type: ignore[arg-type]
