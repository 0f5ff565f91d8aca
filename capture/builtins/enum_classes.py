"""Enumerations that the captured code makes: `class Color(Enum)`, `Enum("Color", "RED GREEN")`.

The specimen is made as Python makes such classes, where nothing of the program's has a say in it: of literals and
`auto()`, methods aside. Its members are constants of the capture's own; replacement code finds those of each call's
class by their names.
"""

from __future__ import annotations

import enum
import operator
from types import CodeType
from typing import Any

from dynacomp.capture.base.classes import module_name, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.builtins import special_classes
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, holds, object_of
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_made_function
from dynacomp.capture.values.value import Value, existing
from dynacomp.capture.wrapping import class_prototypes
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe, Recipe

ASKED = ("__new__", "__init__", "__init_subclass__", "__set_name__", "__eq__", "__hash__", "_missing_",
         "_generate_next_value_", "_ignore_", "_order_")  # what has a say in which members there are
MIXED = (int, str, float)


def is_enum(bases: tuple[Value, ...], kwargs: dict[str, Value]) -> bool:
    """Whether a class of these bases is made here: they end in one of the module `enum`'s own."""
    if not bases or kwargs or not holds(bases[-1], enum.EnumMeta):
        return False
    return module_name(bases[-1].value) == "enum" and all(object_of(base) in MIXED for base in bases[:-1])


def check_body(code: CodeType) -> None:
    """Names that are bound again, and what `auto()` has become, are a matter for the namespace of such classes."""
    stored = [i.argval for i in decode(code).instrs if i.name in ("STORE_NAME", "DELETE_NAME")]
    read = {i.argval for i in decode(code).instrs if i.name == "LOAD_NAME"}
    if len(set(stored)) < len(stored) or read & set(stored) and "auto" in code.co_names:
        raise Break("call", "an enumeration that binds or reads a name again")


def new_class(cap: Capture, name: str, bases: tuple[Value, ...], namespace: dict[str, Value]) -> Value:
    """The class that such a statement makes."""
    if any(n in namespace for n in (*ASKED, "__classcell__", "__classdictcell__")):
        raise Break("call", "an enumeration that says itself what its members are")
    autos = [id(value) for value in namespace.values() if isinstance(value, ObjectV)]
    if len(set(autos)) < len(autos):
        raise Break("call", "two members of an enumeration that are one auto()")
    namespace = dict(namespace)
    table = {key: _given(cap, namespace, key) for key in namespace}
    recipe = special_classes.made_by(cap, runtime.special_class, name, bases, namespace, table)
    for member in recipe.obj.__members__.values():  # type: ignore[attr-defined]
        _adopt(cap, recipe, member)
    for found in own_dict(recipe.obj).values():
        if type(found) is dict:
            cap.known.objects[id(found)] = DictV({key: Const(member) for key, member in found.items()})
        elif type(found) is list:
            cap.known.objects[id(found)] = ListV([Const(item) for item in found])
    return recipe.value


def _given(cap: Capture, namespace: dict[str, Value], key: str) -> Any:
    """What stands for an entry of the namespace in the specimen's."""
    value = namespace[key]
    if isinstance(value, ObjectV) and value.cls is enum.auto:
        if existing(value.attrs.get("value")) is not enum._auto_null:  # type: ignore[attr-defined]
            raise Break("call", "auto() of a value")
        made = enum.auto()
        namespace[key] = class_prototypes.add(cap, Recipe(made, Const(made), enum.auto, (), {}))
        return made
    given = special_classes.given(cap, key, value)
    of_class = is_made_function(value) or isinstance(given, (property, classmethod, staticmethod))
    if is_literal(given) or of_class or key.startswith("__") and key.endswith("__"):
        return given
    raise Break("call", "an enumeration whose members are no constants")


def _adopt(cap: Capture, recipe: ClassRecipe, member: Any) -> None:
    made = Recipe(member, Const(member), operator.getitem, (recipe.value, Const(member._name_)), {})
    class_prototypes.add(cap, made)
