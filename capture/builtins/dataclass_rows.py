"""`@dataclass` on a class that the captured code makes.

The decorator runs on the specimen while capturing, and on the class at each call: it writes methods as text and
executes that. The methods that it gives the specimen are entered like any other. Nobody but the class has them, nor
its `__dataclass_fields__`: where one is to leave, Python makes the class. `field` makes a real Field of stand-ins.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any

from dynacomp.capture._native import hide_subclass
from dynacomp.capture.base.classes import entries
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.builtins.builtin_rows import row
from dynacomp.capture.builtins.class_statements import maker
from dynacomp.capture.builtins.special_classes import opened
from dynacomp.capture.calls.calls import OPENED, as_function, inline
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changing_outside
from dynacomp.capture.values.constant import Const, object_of
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.questions import is_dict, is_made_function
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping import class_prototypes
from dynacomp.capture.wrapping.class_attrs import resolve
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe, Placeholder, Recipe

_process_class: Any = dataclasses._process_class  # type: ignore[attr-defined]
INHERITED = ("__dataclass_fields__", "__dataclass_params__", "__post_init__")  # what it asks the bases for

_make_field = maker(dataclasses.field)


@row(dataclasses.field)
def _field(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """One with metadata is an object like any other (`flax.nnx.data(array)`), but in a class statement."""
    metadata = kwargs.get("metadata")
    if metadata is None:
        return _make_field(cap, *args, **kwargs)
    if not _in_class_statement(cap):
        return inline(cap, as_function(cap, Const(dataclasses.field)), list(args), kwargs)
    known = as_python(metadata)
    if type(known) is not dict or not all(map(is_literal, (*known, *known.values()))):
        raise Break("call", "a dataclass field whose metadata are not constants")
    given = {name: class_prototypes.stand_in(cap, v) for name, v in kwargs.items()}
    obj = dataclasses.field(**{**given, "metadata": known})
    return class_prototypes.add(cap, Recipe(obj, Const(obj), dataclasses.field, args, kwargs))


def _in_class_statement(cap: Capture) -> bool:
    frame = cap.current
    while frame is not None and frame.namespace is None:
        frame = frame.parent
    return frame is not None


@row(_process_class)
def _process(cap: Capture, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """What `dataclass` does to a class."""
    recipe = class_prototypes.made_class(cap, object_of(cls))
    if recipe is None:
        return inline(cap, as_function(cap, Const(_process_class)), [cls, *args], kwargs)
    flags = [as_python(a) for a in args], {name: as_python(v) for name, v in kwargs.items()}
    asked = inspect.signature(_process_class).bind(recipe.obj, *flags[0], **flags[1]).arguments
    slots = bool(asked.get("slots") or asked.get("weakref_slot"))
    if slots and any(is_made_function(v) and "__class__" in v.code.co_freevars for v in recipe.namespace.values()):
        raise Break("call", "a dataclass with slots, another class, whose methods refer to it")
    if any(of_class(Placeholder, entries(recipe.obj).get("__annotations__", {}).values())):
        raise Break("call", "a dataclass whose annotations only exist when the code runs")
    for name in INHERITED:
        resolve(cap, recipe.obj, name)
    changing_outside(cap, f"a dataclass made of {recipe.obj.__qualname__}")
    before = dict(entries(recipe.obj))
    try:
        made = _process_class(recipe.obj, *flags[0], **flags[1])
    except ours(Exception):
        raise Break("raises", "a dataclass that Python refuses") from None
    if slots:
        return _slotted(cap, recipe, made, flags)
    recipe.steps.append((_process_class, flags))
    for name, found in entries(recipe.obj).items():
        if before.get(name, before) is not found:
            _adopt(cap, recipe, name, found)
    cap.known.resolved.clear()
    return cls


def _slotted(cap: Capture, recipe: ClassRecipe, made: type, flags: tuple[list[Any], dict[str, Any]]) -> Value:
    """One with slots is another class, made of the first."""
    hide_subclass(made)
    known: dict[str, Value] = {"cls": recipe.value, "args": Const(tuple(flags[0])), "names": Const(tuple(flags[1])),
                               "values": Const(tuple(flags[1].values())), "fields": Const(()), "classes": Const(())}
    hints = recipe.namespace.get("__annotations__")
    if is_dict(hints):
        known |= {"fields": Const(tuple(hints.items)), "classes": TupleV(list(hints.items.values()))}
    other = ClassRecipe(made, Const(made), recipe.step, recipe.name, (), known, shows=recipe.shows,
                        make=runtime.slotted)
    class_prototypes.add(cap, other)
    for name, found in entries(made).items():
        if type(found) not in (types.MemberDescriptorType, types.GetSetDescriptorType):
            _adopt(cap, other, name, found)
    cap.known.resolved.clear()
    return other.value


def _adopt(cap: Capture, recipe: ClassRecipe, name: str, found: Any) -> None:
    """What the decorator has put into a class."""
    if is_literal(found) or isinstance(found, type) or class_prototypes.is_made(cap, found) or vars(dataclasses).get(
            getattr(found, "__name__", "")) is found:
        return
    class_prototypes.keep_inside(cap, recipe, found)
    if isinstance(found, types.FunctionType):
        wraps = found.__code__ in OPENED
        cap.known.entered[id(found)] = opened(cap, found.__wrapped__ if wraps else found)  # type: ignore[attr-defined]
    elif type(found) is dict:
        for field in found.values():
            known = cap.known.made.get(id(field))
            if isinstance(known, Recipe):
                known.cls = known.cls or recipe
            elif known is None and field.name in entries(recipe.obj).get("__annotations__", {}):
                class_prototypes.keep_inside(cap, recipe, field)
        cap.known.objects[id(found)] = DictV({key: Const(field) for key, field in found.items()})
    elif name != "__dataclass_params__":
        raise Break("call", f"a dataclass with a {name}")
