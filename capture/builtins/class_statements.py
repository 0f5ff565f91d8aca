"""Class statements, and `type(name, bases, namespace)`: the body runs on the symbolic machine, and a specimen is made.

The steps are those of Python: the body fills the namespace, `type` makes the class and fills the `__class__` cell,
then the `__init_subclass__` of its bases is entered. A metaclass that makes classes in its own way (not in that of
`type` or ABCMeta) is left to Python, and so is a base that is no class. `property` and its like are rows here: what
they make, `class_prototypes` calls a Recipe.
"""

from __future__ import annotations

import abc
import builtins
import functools
from typing import Any

from dynacomp.capture._native import hide_subclass
from dynacomp.capture.arithmetic.arrays import class_of_array
from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.builtins import enum_classes, special_classes
from dynacomp.capture.builtins.builtin_rows import class_of, row
from dynacomp.capture.kinds.attrs import CONST_METHODS, has_attribute
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture, execute, new_frame
from dynacomp.capture.symbolic.side_effects import changing_outside, mutating
from dynacomp.capture.values.callables import FunctionV, SuperV
from dynacomp.capture.values.constant import Const, holds, is_const, object_of
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import (
    is_cell,
    is_dict,
    is_graph_array,
    is_list,
    is_made_function,
    is_object,
    is_tuple,
)
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping import class_prototypes
from dynacomp.capture.wrapping.class_attrs import resolve
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe, Recipe
from dynacomp.capture.wrapping.keyed_tables import settled

PLAIN = ("__module__", "__qualname__", "__doc__")  # what `type` itself reads in a namespace
MAKING = ("__prepare__", "__new__", "__init__", "mro", "__setattr__")  # what Python asks a metaclass for a class
ASKED = "__isabstractmethod__"  # by ABCMeta, of what stands in a namespace
OBJECT_HOOK = vars(object)["__init_subclass__"]
SPECIAL: tuple[tuple[Any, Any], ...] = (  # whose classes something else makes than `type`
    (special_classes.is_special, special_classes.new_class), (enum_classes.is_enum, enum_classes.new_class))


@row(builtins.__build_class__)
def build_class(cap: Capture, body: Value, name: Value, /, *bases: Value, **kwargs: Value) -> Value:
    """What a class statement calls."""
    if not is_made_function(body):
        raise Break("call", "builtins.__build_class__ of another callable")
    special = next((make for fits, make in SPECIAL if fits(bases, kwargs)), None)
    namespace = DictV({})
    metaclass = type if special else _metaclass(cap, bases, kwargs.pop("metaclass", Const(type)))
    if special is enum_classes.new_class:
        enum_classes.check_body(body.code)
    _run(cap, body, namespace)
    if special is not None:
        return special(cap, as_python(name), bases, _entries(cap, namespace))
    return new_class(cap, metaclass, as_python(name), bases, _entries(cap, namespace), kwargs)


def _metaclass(cap: Capture, bases: tuple[Value, ...], given: Value) -> type:
    """The metaclass of a class with these bases, one of those that make it as is told here."""
    found = object_of(given)
    for base in bases:
        if not holds(base, type):
            raise Break("call", "builtins.__build_class__ with a base that is no class")
        if is_pure_module(module_name(base.value)):
            raise Break("call", f"a subclass of {base.value.__qualname__}, which is a library's")
        of_base = type(base.value)  # type: ignore[attr-defined]
        found = of_base if holds(Const(found), type) and issubclass(of_base, found) else found
    asked = (found, *(type(base.value) for base in bases))  # type: ignore[attr-defined]
    if not all(holds(Const(one), type) and _is_plain(cap, one) for one in asked):
        raise Break("call", "builtins.__build_class__ with a metaclass")
    return found


def _is_plain(cap: Capture, metaclass: Any) -> bool:
    """Whether a metaclass makes classes as `type` or ABCMeta do, whatever else it says of them (`__instancecheck__`,
    `__call__`)."""
    return metaclass in (type, abc.ABCMeta) or issubclass(metaclass, type) and all(
        resolve(cap, metaclass, name)[0] in (type, abc.ABCMeta) for name in MAKING)


def _run(cap: Capture, body: FunctionV, namespace: DictV) -> None:
    """The body of a class statement."""
    frame = new_frame(body.code, body.globals, cap.globals_source(body.globals), cap.current)
    frame.function, frame.namespace = body, namespace
    frame.cells.update(zip(body.code.co_freevars, body.closure))
    execute(cap, frame)
    cell = frame.result if is_cell(frame.result) else None
    if namespace.items.get("__classcell__") is not cell:
        raise Break("raises", "a class statement that changes its own __classcell__")


def _entries(cap: Capture, namespace: DictV) -> dict[str, Value]:
    if not all(type(name) is str for name in settled(namespace.items)):
        raise Break("call", "a class made of a namespace whose keys are not all strings")
    return {name: cap.realize(value) for name, value in namespace.items.items()}


def type_new(cap: Capture, name: Value, bases: Value, namespace: Value, /, **kwargs: Value) -> Value:
    """`type(name, bases, namespace)`."""
    if not (is_tuple(bases) or is_const(bases) and bases.value == ()) or not (
            is_dict(namespace) and namespace.cls is dict):
        raise Break("call", "type() with other arguments")
    parents = tuple(cap.items(bases)) if is_tuple(bases) else ()
    metaclass = _metaclass(cap, parents, Const(type))
    found = _entries(cap, namespace)
    if "__module__" not in found:
        assert cap.current is not None
        found["__module__"] = Const(cap.current.globals.get("__name__"))
    return new_class(cap, metaclass, as_python(name), parents, found, kwargs)


def new_class(cap: Capture, metaclass: type, name: str, bases: tuple[Value, ...], namespace: dict[str, Value],
              kwargs: dict[str, Value]) -> Value:
    """The class that `type` makes, and `__init_subclass__` then hears of."""
    cell = namespace.pop("__classcell__", None)
    if "__classdictcell__" in namespace or not (cell is None or is_cell(cell)):
        raise Break("call", "a class whose annotations or type parameters are evaluated later")
    parents = tuple(base.value for base in bases)  # type: ignore[attr-defined]
    shows = any(base is not object and not class_prototypes.is_made(cap, base) for base in parents)
    if shows:  # its bases know it
        changing_outside(cap, f"a subclass {name}")
    late = _late_parts(namespace)
    named = {key: v for key, v in namespace.items()
             if is_object(v) and "__set_name__" in class_prototypes.hooks(v)}
    asked = issubclass(metaclass, abc.ABCMeta) and _ask_abstract(cap, namespace)
    made = _specimen(cap, metaclass, name, parents, namespace)
    for key, value in late:
        type.__setattr__(made, key, class_prototypes.known_as(cap, value, as_python(value)))
    late += named.items()
    if asked:  # once they have their attributes
        late.append((abc.update_abstractmethods, ((), {})))
    namespace.update(dict.fromkeys(named, Const(None)))
    recipe = ClassRecipe(made, Const(made), cap.progress.top_step, name, bases, namespace, late, shows)
    value = class_prototypes.add(cap, recipe)
    if is_cell(cell):
        mutating(cap, cell)
        cell.content = value
    _tell_names(cap, value, named)
    _tell_bases(cap, value, kwargs)
    return value


def _ask_abstract(cap: Capture, namespace: dict[str, Value]) -> bool:
    """Lets what stands for objects of the program's be abstract where they say so themselves
    (`functools.singledispatchmethod` of an abstract method); whether there are any."""
    asked = [v for v in namespace.values() if is_object(v) and has_attribute(cap, v, ASKED)]
    for value in asked:
        class_prototypes.stand_in(cap, value).__isabstractmethod__ = truth(cap, cap.getattr(value, ASKED))
    return bool(asked)


def _late_parts(namespace: dict[str, Value]) -> list[tuple[Any, Any]]:
    """What `type` reads must have its content when the class is made; a list of slots becomes the attribute after."""
    late = []
    for name in (*PLAIN, "__slots__"):
        value = namespace.get(name)
        if name == "__slots__" and is_list(value):
            late.append((name, value))
            namespace[name] = Const(tuple(as_python(value)))
        elif value is not None and not is_literal(as_python(value)):
            raise Break("call", f"a class whose {name} is not constant")
    return late


def _specimen(cap: Capture, metaclass: type, name: str, parents: tuple[type, ...], namespace: dict[str, Value]) -> type:
    table = {}
    for key, value in namespace.items():
        if key in (*PLAIN, "__slots__"):
            table[key] = as_python(value)
        elif key == "__annotations__" and type(value) is DictV:
            table[key] = class_prototypes.annotations_of(cap, value)
        else:
            table[key] = class_prototypes.stand_in(cap, value)
    try:
        made = runtime.new_class(metaclass, name, parents, tuple(table), tuple(table.values()))
    except Break:
        raise
    except ours(Exception) as error:
        if not runtime.is_quiet(parents):
            raise Break("raises", "a class statement that Python refuses") from None
        raise Raised(Const(error)) from None
    hide_subclass(made)
    return made


def _tell_names(cap: Capture, cls: Const, named: dict[str, ObjectV]) -> None:
    for name, value in named.items():
        try:
            cap.call(cap.special(value, "__set_name__"), [cls, Const(name)])  # type: ignore[arg-type]
        except Raised:
            raise Break("raises", "an exception of __set_name__, to which Python adds something") from None


def _tell_bases(cap: Capture, cls: Const, kwargs: dict[str, Value]) -> None:
    cap.call(cap.getattr(SuperV(cls.value, cls), "__init_subclass__"), [], kwargs)


@row(OBJECT_HOOK)
def _init_subclass(cap: Capture, cls: Value, **kwargs: Value) -> Value:
    """`object.__init_subclass__`, which refuses keyword arguments."""
    try:
        OBJECT_HOOK.__get__(None, as_python(cls))(**dict.fromkeys(kwargs))
    except TypeError as error:
        raise Raised(Const(error)) from None
    return Const(None)


# --- what namespaces are made of


def maker(make: Any) -> Any:
    """The row of a callable whose result keeps what it is given, and does nothing yet."""
    def made(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        if any(is_object(v) and class_prototypes.hooks(v) for v in (*args, *kwargs.values())):
            raise Break("call", f"a {make.__name__} of a descriptor")
        given = [class_prototypes.stand_in(cap, v) for v in args]
        try:
            obj = make(*given, **{name: class_prototypes.stand_in(cap, v) for name, v in kwargs.items()})
        except (TypeError, ValueError):
            raise Break("raises", f"a {make.__name__} that Python refuses") from None
        return class_prototypes.add(cap, Recipe(obj, Const(obj), make, args, kwargs))
    return made


for _make in (property, classmethod, staticmethod, functools.cached_property):
    row(_make)(maker(_make))


def _with(name: str) -> Any:
    """`prop.setter(fn)`."""
    of_class = getattr(property, name)

    def method(cap: Capture, prop: Value, fn: Value) -> Value:
        obj = of_class(as_python(prop), class_prototypes.stand_in(cap, fn))
        return class_prototypes.add(cap, Recipe(obj, Const(obj), of_class, (prop, fn), {}))
    return method


CONST_METHODS.update({(property, name): _with(name) for name in ("getter", "setter", "deleter")})


@row(type)
def _type(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1:
        return class_of_array(cap, args[0]) if is_graph_array(args[0]) else Const(class_of(args[0]))
    if len(args) != 3:
        raise Break("raises", "type() with other arguments")
    return type_new(cap, *args, **kwargs)
