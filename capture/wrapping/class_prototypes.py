"""Specimens: real objects of the capture's own, for what the program's classes are made of.

A class that the captured code makes does not exist yet, but classes are what attributes are looked up in. So the
capture makes one of its own at once, the *specimen*: with the same bases, and for each entry of the namespace the
object itself (a literal, a class), a stand-in (a function with the same face, which refuses to run), or a Placeholder.
Instances are ObjectVs of that class, MRO, `super()` and isinstance are Python's. `cap.known.made` says what each of
these objects is for the program: a Value, or the Recipe by which replacement code makes the real one, for each call.

    class Local(Base):           # specimen: class Local(Base), with a stand-in `scale`, a Placeholder `weights`
        weights = jnp.ones(3)
        def scale(self): ...

Nothing outside changes a specimen, so no guard speaks of it, and no constant of compiled code is one: `leak` finds
those that are, and the graph breaks where the class is made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
from bytecode import Bytecode, Instr

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import entries, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import VERSION
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const, is_const, is_known_literal, stands_for
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.questions import is_library_object, is_made_function, is_object, is_plain_tuple
from dynacomp.capture.values.value import NotConstant, Value, existing, is_constant, type_of

HOOKS = ("__get__", "__set__", "__delete__", "__set_name__")


class Placeholder:
    """Stands in a specimen for what only exists when the code runs."""

    def __repr__(self) -> str:
        raise Break("leaves", "the text of what only exists when the code runs")


@dataclass(eq=False)
class Recipe:
    """An object that `make(*args, **kwargs)` makes of these Values: a property."""

    obj: Any
    value: Const
    make: Callable[..., Any]
    args: tuple[Value, ...]
    kwargs: dict[str, Value]
    cls: Any = None  # the ClassRecipe of what has changed it since: a dataclass its Field


@dataclass(eq=False)
class ClassRecipe:
    """A class: what a class statement makes it of, and what is done to it since: an attribute is stored (DELETED:
    it goes), a function of the standard library or of JAX called with it (and these arguments)."""

    obj: type
    value: Const
    step: int  # of the outermost frame
    name: str
    bases: tuple[Value, ...]
    namespace: dict[str, Value]
    steps: list[tuple[Any, Any]] = field(default_factory=list)
    shows: bool = False  # a class of the program's can tell that it exists
    make: Any = None  # what is called with the name, the bases and the namespace; None: `type`
    held: list[Any] = field(default_factory=list)  # what JAX takes its objects apart with, while capturing

    @property
    def cls(self) -> ClassRecipe:
        return self


@dataclass(eq=False)
class Inside:
    """What only a class has, and can be read nowhere else when the class is made."""

    obj: Any
    cls: ClassRecipe


def is_made(cap: Capture, obj: Any) -> bool:
    """Whether an object is the capture's own."""
    return id(obj) in cap.known.made


def made_class(cap: Capture, cls: Any) -> ClassRecipe | None:
    """The recipe of a class that the captured code makes; None for one that exists."""
    found = cap.known.made.get(id(cls))
    return found if isinstance(found, ClassRecipe) else None


def makes_classes(cap: Capture) -> bool:
    """Whether the captured code has made a class."""
    return any(True for _ in of_class(ClassRecipe, cap.known.made.values()))


def keep_inside(cap: Capture, cls: ClassRecipe, obj: Any) -> None:
    cap.known.made[id(obj)] = Inside(obj, cls)


def shown_classes(cap: Capture) -> list[ClassRecipe]:
    """The classes that are made whether anything refers to them or not: `__subclasses__()` may tell."""
    return [r for r in of_class(ClassRecipe, cap.known.made.values()) if r.shows]


def subclasses(cap: Capture, cls: type) -> list[type]:
    """The classes made of one that the captured code makes."""
    return [r.obj for r in of_class(ClassRecipe, cap.known.made.values()) if any(
        stands_for(base, cls) for base in r.bases)]


def add(cap: Capture, recipe: Recipe | ClassRecipe) -> Const:
    cap.known.made[id(recipe.obj)] = recipe
    return recipe.value


# --- what stands for a Value


PJIT: Any = type(jax.jit(abs))
REAL = (type, types.FunctionType, types.BuiltinFunctionType, property, classmethod, staticmethod,
        functools.cached_property, CompiledFunction, PJIT)


def stand_in(cap: Capture, value: Value) -> Any:
    """The object that stands for `value` in a specimen."""
    if is_const(value) and (
            is_literal(value.value) or isinstance(value.value, REAL) or is_made(cap, value.value)):
        return value.value
    if is_plain_tuple(value) and is_constant(value) and is_literal(found := _plain(value)):
        return found
    if getattr(value, "real", None) is dataclasses.MISSING:
        return dataclasses.MISSING
    known = cap.known.stood.get(id(value))
    if known is None:
        known = _function(value) if is_made_function(value) else _placeholder(value)
        if is_made_function(value):
            cap.known.entered[id(known)] = cap.known.functions[id(known), None] = value
        cap.known.keep += [value, known]
        cap.known.stood[id(value)], cap.known.made[id(known)], cap.known.objects[id(known)] = known, value, value
    return known


def _plain(value: TupleV) -> Any:
    return tuple(i.value if is_const(i) else i for i in value.items)


def _never(*args: Any) -> Any:
    raise Break("call", "a method, of a class that the captured code makes, that code calls which is not captured")


def _calls_never() -> types.CodeType:
    null = [Instr("PUSH_NULL")]
    load = [Instr("LOAD_CONST", _never)]  # type: ignore[arg-type]
    call = [*([Instr("PRECALL", 0)] if VERSION < (3, 12) else []), Instr("CALL", 0), Instr("RETURN_VALUE")]
    return to_code(Bytecode([Instr("RESUME", 0), *(load + null if VERSION >= (3, 13) else null + load), *call]))


_NEVER = _calls_never()


def _function(fn: FunctionV) -> types.FunctionType:
    """A function with the face of `fn`, and the same parameters."""
    code = fn.code.replace(
        co_code=_NEVER.co_code, co_consts=_NEVER.co_consts, co_names=(), co_linetable=_NEVER.co_linetable,
        co_stacksize=_NEVER.co_stacksize, co_exceptiontable=b"")
    made = types.FunctionType(code, fn.globals, fn.name, None, tuple(types.CellType() for _ in fn.closure))
    made.__qualname__ = fn.qualname
    made.__doc__ = next((c for c in fn.code.co_consts[:1] if isinstance(c, str)), None)
    for name, value in {**fn.special, **fn.attrs}.items():
        if is_known_literal(value):
            setattr(made, name, value.value)
    return made


def _placeholder(value: Value) -> Placeholder:
    found = hooks(value)
    of_program = is_object(value) or is_library_object(value) and isinstance(value.real, PJIT)
    if found and not of_program:
        raise Break("call", f"a class whose namespace has a {type(value).__name__.removesuffix('V').lower()} that "
                            "may be a descriptor")
    return _placeholder_class(found - {"__set_name__"}, _is_unhashable(value))()


def hooks(value: Value) -> frozenset[str]:
    """The methods by which a Value would take part in look-ups of the attribute that it is."""
    try:
        return frozenset(name for base in mro(type_of(value)) for name in HOOKS if name in entries(base))
    except NotConstant:
        return frozenset(HOOKS)


def _is_unhashable(value: Value) -> bool:
    try:
        return type_of(value).__hash__ is None
    except NotConstant:
        return False


@functools.cache
def _placeholder_class(found: frozenset[str], unhashable: bool) -> type[Placeholder]:
    """A class that is taken for a descriptor where Python, or the standard library, looks at a specimen."""
    parts: dict[str, Any] = dict.fromkeys(found, _never)
    return type("Placeholder", (Placeholder,), {**parts, **({"__hash__": None} if unhashable else {})})


def annotations_of(cap: Capture, value: DictV) -> dict[str, Any]:
    """A specimen's `__annotations__`, which code of the standard library looks into."""
    made = {name: _annotation(cap, cap.realize(v)) for name, v in value.items.items()}
    return known_as(cap, value, made)


def known_as(cap: Capture, value: Value, obj: Any) -> Any:
    """Lets `obj` stand for a Value."""
    cap.known.keep += [value, obj]
    cap.known.made[id(obj)] = cap.known.objects[id(obj)] = value
    return obj


def _annotation(cap: Capture, value: Value) -> Any:
    if is_const(value):
        return value.value
    real = existing(value)
    if real is None:
        return stand_in(cap, value)
    if value.source is not None:
        cap.guards.add("is", value.source, real)
    return real


# --- what must not have one


def refuse(cap: Capture, values: Iterable[Value], what: str) -> None:
    """Break where code that the machine does not enter would be given a class of the capture's own."""
    if cap.known.made and any(is_const(v) and v.identify is None and is_made(cap, v.value) for v in values):
        raise Break("call", f"{what} of a class that the captured code makes")


def plain_number(cap: Capture, value: Value) -> Value:
    """What JAX takes a number for that is a member of an enumeration of the capture's own."""
    if cap.known.made and is_const(value) and value.identify is None and is_made(cap, value.value):
        for cls in (int, float):
            if issubclass(type(value.value), cls):
                return Const(cls.__pos__(value.value))
    return value


def leak(cap: Capture, roots: Iterable[Any]) -> ClassRecipe | None:
    """A class of the capture's own that can be reached from what is to be shipped."""
    for at in reached(roots) if cap.known.made else ():
        for cls in (at, type(at)):
            if isinstance(found := cap.known.made.get(id(cls)), (ClassRecipe, Inside)):
                return found.cls
        if is_made(cap, at):
            return next(of_class(ClassRecipe, cap.known.made.values()))
    return None


def reached(roots: Iterable[Any]) -> Iterator[Any]:
    """All objects that can be reached from these, where they may have a specimen in them."""
    todo, seen = list(roots), set()
    while todo:
        at = todo.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            todo.extend(_inside(at))


TREEDEF: Any = jax.tree_util.PyTreeDef  # refers to the registry, too, which knows all classes


def _inside(obj: Any) -> Iterable[Any]:
    """The parts of an object, where it may have a specimen in it."""
    if isinstance(obj, (tuple, list, set, frozenset)):
        return obj
    if isinstance(obj, dict):
        return (*obj, *obj.values()) if "__builtins__" not in obj else ()  # the globals of a module
    if isinstance(obj, types.CodeType):
        return obj.co_consts
    if isinstance(obj, functools.partial):
        return obj.func, obj.args, obj.keywords
    if isinstance(obj, types.FunctionType):
        return (*_contents(obj), *(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values())
    if isinstance(obj, types.MethodType):
        return obj.__func__, obj.__self__
    if isinstance(obj, (types.BuiltinMethodType, types.MethodWrapperType)):
        return (obj.__self__,)
    if isinstance(obj, (type, types.ModuleType)):
        return ()
    if isinstance(obj, TREEDEF):
        return (*(obj.node_data() or ()), *obj.children())
    if isinstance(obj, weakref.ref):
        return (obj(),)
    return gc.get_referents(obj)


def _contents(fn: types.FunctionType) -> Iterable[Any]:
    for cell in fn.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


def let_go(cap: Capture) -> None:
    """Empties the specimens, which die when garbage is collected: not so what the program's namespaces had."""
    for recipe in of_class(ClassRecipe, cap.known.made.values()):
        recipe.held.clear()
        for name in [n for n in vars(recipe.obj) if not n.startswith("__")]:
            with contextlib.suppress(AttributeError, TypeError):
                type.__delattr__(recipe.obj, name)


OPERATIONS.let_go = let_go
