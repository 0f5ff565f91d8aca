"""Class statements whose bases make something else of them: `class P(NamedTuple)`, `class Row(TypedDict)`, `class
Sized(Protocol)`; and calls of `namedtuple` and `NamedTuple`.

The body has run on the symbolic machine (`class_statements`). The specimen is made as Python makes such classes, of
stand-ins for what the body has defined; replacement code does the same for each call. Functions that the making itself
writes (`_replace`) are entered like any other.
"""

from __future__ import annotations

import collections
import types
import typing
from typing import Any

from dynacomp.capture._native import hide_subclass
from dynacomp.capture.base.classes import entries, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.builtins.builtin_rows import row
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const, object_of
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.objects import CellV
from dynacomp.capture.values.value import Value, as_python, is_constant
from dynacomp.capture.wrapping import class_prototypes
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe
from dynacomp.capture.wrapping.constants import from_python

SPECIAL: tuple[Any, ...] = (typing.NamedTuple, typing.TypedDict, typing.Protocol)


def is_special(bases: tuple[Value, ...], kwargs: dict[str, Value]) -> bool:
    """Whether a class of these bases is made here."""
    if len(bases) != 1 or kwargs:
        return False
    return any(object_of(bases[0]) is base for base in SPECIAL)


def new_class(cap: Capture, name: str, bases: tuple[Value, ...], namespace: dict[str, Value]) -> Value:
    """The class that such a statement makes."""
    if "__classcell__" in namespace or "__classdictcell__" in namespace:
        raise Break("call", "such a class whose methods refer to it")
    return _made(cap, runtime.special_class, name, bases, namespace)


@row(collections.namedtuple)
def _named_tuple(cap: Capture, typename: Value, field_names: Value, **kwargs: Value) -> Value:
    """`namedtuple(name, fields)` of constants; it notes the module that calls it."""
    given = {"field_names": field_names, **kwargs}
    if cap.current is None or not all(is_constant(v) and _says(as_python(v)) for v in (typename, *given.values())):
        raise Break("effect", "a named tuple of what is no constant")
    module = kwargs.get("module")
    if module is None or as_python(module) is None:
        given["module"] = Const(cap.current.globals.get("__name__", "__main__"))
    known: dict[str, Value] = {key: Const(tuple(found) if type(found) is list else found)
                               for key, found in ((key, as_python(v)) for key, v in given.items())}
    return _made(cap, runtime.named_tuple, as_python(typename), (), known)


@row(typing.NamedTuple)
def _typed_tuple(cap: Capture, typename: Value, fields: Value, /) -> Value:
    """`NamedTuple(name, [(field, class), ...])` of constants; it notes the module that calls it."""
    if cap.current is None or not is_constant(fields) or not _says(found := tuple(map(tuple, as_python(fields)))):
        raise Break("effect", "a named tuple of what is no constant")
    known: dict[str, Value] = {"fields": Const(found), "module": Const(cap.current.globals.get("__name__", "__main__"))}
    return _made(cap, runtime.typed_tuple, as_python(typename), (), known)


def _says(found: Any) -> bool:
    return is_literal(found) or isinstance(found, type) or type(found) in (list, tuple) and all(map(_says, found))


def _made(cap: Capture, make: Any, name: str, bases: tuple[Value, ...], namespace: dict[str, Value]) -> Value:
    said = make in (runtime.named_tuple, runtime.typed_tuple)
    table = {key: as_python(value) if said else given(cap, key, value) for key, value in namespace.items()}
    return made_by(cap, make, name, bases, namespace, table).value


def made_by(cap: Capture, make: Any, name: str, bases: tuple[Value, ...], namespace: dict[str, Value],
            table: dict[str, Any]) -> ClassRecipe:
    """The class that `make` makes of a namespace, for which `table` stands in the specimen."""
    try:
        made = make(None, name, tuple(as_python(b) for b in bases), tuple(table), tuple(table.values()))
    except ours(Exception):
        raise Break("raises", "a class that Python refuses") from None
    hide_subclass(made)
    recipe = ClassRecipe(made, Const(made), cap.progress.top_step, name, bases, namespace, make=make)
    for key, found in entries(made).items():
        if not any(entries(base).get(key) is found for base in mro(made)[1:]):
            _adopt(cap, recipe, found)
    class_prototypes.add(cap, recipe)
    return recipe


def _adopt(cap: Capture, recipe: ClassRecipe, found: Any) -> None:
    """Lets what the making has written be entered by what it holds: nobody keeps the specimen's."""
    fn = found.__func__ if isinstance(found, classmethod) else found
    if isinstance(fn, types.FunctionType) and not class_prototypes.is_made(cap, fn):
        class_prototypes.keep_inside(cap, recipe, fn)
        cap.known.entered[id(fn)] = opened(cap, fn)


def opened(cap: Capture, fn: types.FunctionType) -> FunctionV:
    """What stands for a function that the making of a class has written."""
    def values(found: Any) -> TupleV | None:
        return None if found is None else TupleV([from_python(cap, x) for x in found])

    cells = [CellV(from_python(cap, cell.cell_contents)) for cell in fn.__closure__ or ()]
    named = fn.__kwdefaults__ and DictV({key: from_python(cap, x) for key, x in fn.__kwdefaults__.items()})
    return FunctionV(fn.__code__, fn.__globals__, fn.__name__, fn.__qualname__, values(fn.__defaults__), named or None,
                     tuple(cells))


def given(cap: Capture, key: str, value: Value) -> Any:
    """What stands in the specimen's namespace."""
    if key in ("__module__", "__qualname__", "__doc__"):
        return as_python(value)
    if key == "__annotations__" and type(value) is DictV:
        return class_prototypes.annotations_of(cap, value)
    return class_prototypes.stand_in(cap, value)
