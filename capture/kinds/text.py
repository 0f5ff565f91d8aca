"""`str`, `repr`, `format` and `ascii` of Values.

Constants are simply printed. Containers are put together element by element, so that the `__repr__` of an object
inside is entered. A text that shows an address, or an array's content, is made in the end by Python, if anything keeps
it (`getattr(f, "__name__", str(f))` hardly ever does); what looks into one breaks the graph.
"""

from __future__ import annotations

import collections
import enum
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dynacomp.capture.arithmetic import later
from dynacomp.capture.arithmetic.operators import CONTAINER_OPS, fold
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.hashes import note_order
from dynacomp.capture.kinds.iteration import elements, key_value
from dynacomp.capture.numbers import host_functions, size_values
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.callables import MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NumberV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV, ViewV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_graph_array, is_library_object, is_made_function, is_object, is_tuple
from dynacomp.capture.values.standing import LaterV, is_later
from dynacomp.capture.values.value import NotConstant, Value, as_python, is_changing, is_constant, node_of, type_of
from dynacomp.capture.wrapping import class_attrs, object_attrs
from dynacomp.capture.wrapping.builtin_subclasses import inherits, plain
from dynacomp.capture.wrapping.class_prototypes import is_made

ORDER = {str: ("__str__", "__repr__"), repr: ("__repr__",), format: ("__format__", "__str__", "__repr__"),
         ascii: ("__repr__",)}
NO_TEXT = {"__str__": "__str__ returned non-string (type {})", "__repr__": "__repr__ returned non-string (type {})",
           "__format__": "__format__ must return a str, not {}"}


def text(cap: Capture, x: Value, how: Any, spec: str = "") -> Value:
    """`how(x)`, or `format(x, spec)`."""
    row = kind(x).text
    return _of_constant(cap, x, how, spec) if row is None else row(cap, x, how, spec)


def _of_changing(cap: Capture, x: Value, how: Any, spec: str) -> Value:
    """The text of a number or string that changes from call to call, made by Python; else a constant's."""
    hosted = host_functions.call(cap, how, [x, Const(spec)] if how is format else [x])
    return hosted or _of_constant(cap, size_values.known(cap, x, f"{how.__name__}()"), how, spec)


def _of_tuple(cap: Capture, x: TupleV, how: Any, spec: str) -> Value:
    return (_by_method if _has_own_text(x, how) else _of_container)(cap, x, how, spec)


def _of_container(cap: Capture, x: Value, how: Any, spec: str) -> Value:
    found = Const(shown(cap, x))
    return found if how in (str, repr) else fold(cap, lambda s: how(s, spec) if how is format else ascii(s), found)


def _of_array(cap: Capture, x: Value, how: Any, spec: str) -> Value:
    """What Python makes of it in the end. How JAX's arrays and NumPy's take a `spec` differs, but for floats."""
    whole = is_graph_array(x) and spec and not np.issubdtype(x.aval.dtype, np.floating)
    found = None if whole else later.made(cap, how, x, *[Const(spec)] * (how is format))
    if found is None:
        raise Break("leaves", f"{how.__name__}() of an array")
    return found


def _of_constant(cap: Capture, x: Value, how: Any, spec: str) -> Value:
    try:
        real = as_python(x)
    except NotConstant:
        if not is_made_function(x) or spec:
            raise Break("leaves", f"{how.__name__}() of something that shows an address") from None
        return _in_the_end(runtime.shown_function, x, cap.getattr(x, "__qualname__"))
    if is_made(cap, real) and issubclass(type(real), enum.Enum):
        return _of_member(cap, x, how, spec)
    if _shows_address(real):
        if how not in (str, repr):
            raise Break("leaves", f"{how.__name__}() that shows an address")
        return _in_the_end(how, x)
    return fold(cap, (lambda v: how(v, spec)) if how is format else how, x)


def _of_partial(cap: Capture, x: PartialV, how: Any, spec: str) -> Value:
    """That of what it holds, which nothing may change until then."""
    held = [cap.realize(v) for v in (x.func, *x.args, *x.kwargs.values())]
    if spec or how not in (str, repr, format) or not all(
            is_constant(v) and not is_changing(v) or is_graph_array(v) or is_made_function(v) for v in held):
        raise Break("leaves", f"{how.__name__}() of a partial of something that may change")
    return _in_the_end(repr, x)


def _of_method(cap: Capture, x: MethodV, how: Any, spec: str) -> Value:
    """That of the object that it is bound to, which Python shows in the end where it shows its address."""
    if spec or how not in (str, repr, format) or not is_made_function(x.func) and not is_constant(x.func):
        return _of_constant(cap, x, how, spec)
    held = text(cap, x.obj, repr)
    if is_later(held):
        return _in_the_end(repr, x)
    parts = [Const("<bound method "), cap.getattr(x.func, "__qualname__"), Const(" of "), held, Const(">")]
    return host_functions.concatenated(cap, parts) or fold(cap, host_functions.concat, *parts)


def _of_member(cap: Capture, x: Value, how: Any, spec: str) -> Value:
    """The text of a member of an enumeration that the captured code makes, which may say itself how it is shown."""
    own = [name for name in ORDER[how] if is_made(cap, class_attrs.lookup(type_of(x), name)[1])]
    if not own or how is str and own == ["__repr__"]:
        return fold(cap, (lambda v: how(v, spec)) if how is format else how, x)
    if how is ascii or own[0] == "__format__":
        raise Break("leaves", f"{how.__name__}() of an enumeration that says itself how it is shown")
    found = cap.call(cap.getattr(x, own[0]), [])
    return fold(cap, format, found, Const(spec)) if how is format else found


def _shows_address(real: Any) -> bool:
    try:
        return " at 0x" in repr(real)
    except ValueError:  # an int with more digits than Python prints
        return False


def _has_own_text(x: Any, how: Any) -> bool:
    """Whether the class of a tuple or of an object says in Python how it is shown."""
    if is_object(x):
        return not inherits(x.cls, *ORDER[how])
    return is_tuple(x) and any(class_attrs.lookup(x.cls, name)[0] not in (None, tuple, object)
                                         for name in ORDER[how])


def _by_method(cap: Capture, x: Any, how: Any, spec: str) -> Value:
    for name in ORDER[how]:
        owner, raw = class_attrs.lookup(x.cls, name)
        if owner is None or raw is None or (owner is object and not (
                name == "__str__" and issubclass(x.cls, BaseException))):
            continue
        args: list[Value] = [Const(spec)] if name == "__format__" else []
        found = cap.call(object_attrs.bind(cap, raw, x, owner, name), args)
        if not issubclass(type_of(found), str):
            raise Raised(Const(TypeError(NO_TEXT[name].format(class_attrs.name_in_errors(type_of(found))))))
        return found if name == "__format__" or how is not format or not spec else fold(cap, format, found, Const(spec))
    if spec:
        raise Break("leaves", "format() of an object, which has no such form")
    return _in_the_end(object.__repr__, x)


def _in_the_end(fn: Any, *args: Value) -> LaterV:
    """A text that shows where the first of `args` lies, which is made when that is."""
    return LaterV("<object at 0x0>", fn=fn, args=args, other="<object at 0x0>")  # type: ignore[arg-type]


def represent(cap: Capture, x: Any, outer: list[Any]) -> str:
    """`repr` of a container's element; `outer` are the containers around it."""
    x = cap.realize(x)
    as_container = kind(plain(x)).display is not None and not _has_own_text(x, repr)
    return shown(cap, x, outer) if as_container else as_python(text(cap, x, repr))


def shown(cap: Capture, x: Any, outer: Sequence[Any] = ()) -> str:
    """`repr` of a container, or of the payload of an object that inherits its `__repr__`."""
    name, inside = type_of(x).__name__, [*outer, x]
    x = plain(x)
    if any(inside[-1] is o for o in outer):
        marks: dict[type, str] = {list: "[...]", dict: "{...}", set: f"{name}(...)", collections.deque: "[...]"}
        return marks.get(type_of(x), "...")
    return kind(x).display(cap, x, name, inside)  # type: ignore[misc]


def _view(cap: Capture, x: ViewV, name: str, inside: list[Any]) -> str:
    return f"{name}([{', '.join(represent(cap, item, inside) for item in elements(cap, x))}])"


def _tuple(cap: Capture, x: TupleV, name: str, inside: list[Any]) -> str:
    parts = [represent(cap, item, inside) for item in cap.items(x)]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _set(cap: Capture, x: SetV, name: str, inside: list[Any]) -> str:
    note_order(x.items)  # which a text shows, whoever asks for it
    parts = [represent(cap, key_value(cap, k), inside) for k in x.members]
    bare = f"{{{', '.join(parts)}}}" if parts else ""
    return bare if name == "set" and parts else f"{name}({bare})"


def _list(cap: Capture, x: ListV, name: str, inside: list[Any]) -> str:
    bare = f"[{', '.join(represent(cap, item, inside) for item in cap.items(x))}]"
    limit = f", maxlen={x.extra}" if x.extra is not None else ""
    return bare if x.cls is list else f"{name}({bare}{limit})"


def _mapping(cap: Capture, x: DictV, name: str, inside: list[Any]) -> str:
    parts = [(represent(cap, key_value(cap, k), inside), represent(cap, v, inside)) for k, v in x.items.items()]
    bare = "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if x.cls is dict:
        return bare
    if x.cls is collections.defaultdict:
        return f"{name}({represent(cap, x.factory or Const(None), inside)}, {bare})"
    if x.cls is collections.OrderedDict:
        return _ordered(parts, name, bare)
    raise Break("leaves", f"repr() of a {name}")


def _ordered(parts: list[tuple[str, str]], name: str, bare: str) -> str:
    """Python 3.12 changed how an OrderedDict is shown."""
    if not parts:
        return f"{name}()"
    pairs = ", ".join(f"({k}, {v})" for k, v in parts)
    return f"{name}({bare})" if repr(collections.OrderedDict(a=1)) == "OrderedDict({'a': 1})" else f"{name}([{pairs}])"


# --- text % values

SPEC = re.compile(r"%(?:\((?P<name>[^()]*)\))?(?P<shape>[#0\- +]*\d*(?:\.\d*)?)[hlL]?(?P<kind>[a-zA-Z%])")
SHOWN: dict[str, Any] = {"s": str, "r": repr, "a": ascii}


def percent(cap: Capture, a: Value, b: Value) -> Any:
    """`text % values` where some value is no constant: piece by piece."""
    if not is_exactly(a, str, bytes) or node_of(b) is not None or is_library_object(b) or is_constant(b):
        return NotImplemented
    hosted = host_functions.percent(cap, a, b)
    if hosted is not None:
        return hosted
    if is_changing(b):
        return NotImplemented
    if type(a.value) is bytes:
        raise Break("operator", "bytes % values that only exist at run time")
    specs, plain_text = list(SPEC.finditer(a.value)), SPEC.split(a.value)[::SPEC.groups + 1]
    wanted = sum(spec["name"] is None and spec["kind"] != "%" for spec in specs)
    named = any(spec["name"] is not None for spec in specs)
    values = cap.items(b) if type_of(b) is tuple else [] if named else [b]
    if "%" in "".join(plain_text) or wanted != len(values):
        raise Break("operator", "text % values whose number or form does not fit")
    rest = iter(values)
    pieces = [_piece(cap, spec, b, rest) for spec in specs]
    return Const("".join(x for pair in zip(plain_text, [*pieces, ""]) for x in pair))


def _piece(cap: Capture, spec: re.Match[str], values: Value, rest: Iterator[Value]) -> str:
    """What one `%` of the text becomes."""
    if spec["kind"] == "%":
        return "%"
    value = next(rest) if spec["name"] is None else subscript(cap, values, Const(spec["name"]))
    how, kind = SHOWN.get(spec["kind"]), spec["kind"]
    if how is not None:
        value, kind = text(cap, value, how), "s"
    return as_python(fold(cap, lambda v: f"%{spec['shape']}{kind}" % (v,), value))


CONTAINER_OPS["mod", Const] = CONTAINER_OPS["imod", Const] = percent
define(TupleV, Kind(text=_of_tuple, display=_tuple))
define(ObjectV, Kind(text=_by_method))
define(PartialV, Kind(text=_of_partial))
define(MethodV, Kind(text=_of_method))
for _cls, _display in ((ListV, _list), (DictV, _mapping), (SetV, _set), (ViewV, _view)):
    define(_cls, Kind(text=_of_container, display=_display))
for _kind, _text in (*((cls, _of_array) for cls in (ArrayV, LaterV, LibraryV, NumberV)),
                     *((cls, _of_changing) for cls in host_functions.CHANGING)):
    define(_kind, Kind(text=_text))
