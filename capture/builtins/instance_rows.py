"""`isinstance` and `issubclass`: of arrays that do not exist yet, and by checks that metaclasses write in Python.

A metaclass's own `__instancecheck__` or `__subclasscheck__` (jaxtyping's annotations have one) is entered like any
other code; an ABC of the program with a `__subclasshook__` is asked in Python, which may know its answer.
"""

from __future__ import annotations

import abc
import operator
import types
import weakref
from typing import Any

import jax

from dynacomp.capture.arithmetic.operators import fold, truth
from dynacomp.capture.base.classes import module_name, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.placement import is_tracer
from dynacomp.capture.builtins.builtin_rows import class_of, row
from dynacomp.capture.calls.calls import CONST_METHODS
from dynacomp.capture.calls.class_checks import checked, tells_its_class
from dynacomp.capture.graph.avals import ARRAY_TYPE, KEY_TYPE
from dynacomp.capture.symbolic.libraries import is_pure_module, is_steady_module, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, holds, is_const, is_exactly, is_open, peek, stands_for
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_object, is_tuple, says_its_class
from dynacomp.capture.values.standing import ClassOfTracedV
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.class_attrs import lookup
from dynacomp.capture.wrapping.immutability import is_changeable


@row(isinstance)
def _isinstance(cap: Capture, x: Value, kinds: Value) -> Value:
    settled = _settled(cap, x, kinds) if is_exactly(kinds, type) else None
    if settled is not None:
        return Const(settled)
    if is_object(kinds):
        return cap.call(cap.getattr(kinds, "__instancecheck__"), [x])
    place = _place(cap, x, kinds)
    if place in cap.known.instances:
        return Const(cap.known.instances[place][0])
    several = _alternatives(cap, kinds)
    if any(map(_own_check, several)):
        return Const(any(_is_instance(cap, x, kind) for kind in several))
    answer = _by_class(cap, x, kinds)
    if place is not None and is_exactly(answer, bool) and all(map(_asks_the_class, several)):
        cap.known.instances[place] = answer.value, (class_of(x), kinds)
    return answer


def _settled(cap: Capture, x: Value, cls: Const) -> bool | None:
    """What `type` says of an object whose class does not tell another `__class__`; None where it has to be asked."""
    if says_its_class(x) or tells_its_class(cap, class_of(x)):
        return None
    return cls.value in mro(class_of(x))


def _place(cap: Capture, x: Value, kinds: Value) -> tuple[object, ...] | None:
    """Where the answer is kept, which is that for all objects of the class: the classes by identity, and what has
    been registered with abstract ones. None where an object may say otherwise, or the classes are not all known."""
    if says_its_class(x) or is_const(x) and x.source is not None and is_changeable(peek(x)):
        return None
    asked = [kinds] if is_exactly(kinds, tuple) else _alternatives(cap, kinds)
    if any(type(k) is not Const or is_open(k) for k in asked) or tells_its_class(cap, class_of(x)):
        return None
    return (id(class_of(x)), abc.get_cache_token(), *(id(k.value) for k in asked))  # type: ignore[attr-defined]


def _asks_the_class(kind: Value) -> bool:
    """Whether nothing but the class of an object tells whether it is one of `kind`."""
    return holds(kind, type) and lookup(type(kind.value), "__instancecheck__")[0] in (type, abc.ABCMeta)


def _by_class(cap: Capture, x: Value, kinds: Value) -> Value:
    """What `type.__instancecheck__` says."""
    _no_hook(cap, kinds)
    if is_object(x) and tells_its_class(cap, x.cls):
        return Const(any(_says_it_is(cap, x, kind) for kind in _alternatives(cap, kinds)))
    return _denied(cap, class_of(x), kinds, _by_type(cap, x, kinds))


def _by_type(cap: Capture, x: Value, kinds: Value) -> Value:
    row = kind(x).is_instance
    found = None if row is None else row(cap, x, kinds)
    if found is not None:
        return found  # type: ignore[no-any-return]
    cls = class_of(x)
    return fold(cap, lambda classes: _is_instance_of(cls, classes), kinds)


def _object_is_instance(cap: Capture, x: ObjectV, kinds: Value) -> Value | None:
    return None if x.real is None else fold(cap, lambda classes: _is_a(x.real, classes), kinds)


def _opaque_is_instance(cap: Capture, x: OpaqueV, kinds: Value) -> None:
    if type(x.obj) in weakref.ProxyTypes:
        raise Break("opaque", "isinstance() of a weak proxy, which tells the class of what it stands for")


define(Const, Kind(is_instance=lambda cap, x, kinds: fold(cap, _is_a, x, kinds)))
define(ObjectV, Kind(is_instance=_object_is_instance))
define(ArrayV, Kind(is_instance=lambda cap, x, kinds: Const(_array_isinstance(cap, x, as_python(kinds)))))
define(OpaqueV, Kind(is_instance=_opaque_is_instance))


def _says_it_is(cap: Capture, x: ObjectV, kind: Value) -> bool:
    """isinstance of an object that tells its class: it is asked where its type does not settle it."""
    wanted = as_python(kind)
    if x.cls is wanted or type(wanted) is type and wanted in mro(x.cls):
        return True
    told = cap.getattr(x, "__class__")
    found = [x.cls] if type(wanted) is not type else []
    if is_const(told) and issubclass(type(told.value), type):
        found.append(told.value)
    return any(truth(cap, _denied(cap, cls, kind, fold(cap, issubclass, Const(cls), kind))) for cls in found)


def _denied(cap: Capture, cls: type, kinds: Value, answer: Value) -> Value:
    """The answer; where it is no, an abstract base class may say yes once the class is registered with it, and in
    another process either may be otherwise."""
    bases = [k.value for k in of_class(Const, _alternatives(cap, kinds)) if issubclass(type(k.value), abc.ABCMeta)]
    if bases and not all(is_steady_module(module_name(c)) for c in (cls, *bases)):
        if stands_for(answer, False):
            cap.guards.add("abc_token", None, abc.get_cache_token())
        for base in bases:
            if (id(cls), id(base)) not in cap.known.abstract:
                cap.known.abstract[id(cls), id(base)] = cls, base, issubclass(cls, base)
    return answer


@row(type.__instancecheck__)
def _instancecheck(cap: Capture, cls: Value, x: Value) -> Value:
    settled = _settled(cap, x, cls) if holds(cls, type) else None
    return _by_class(cap, x, cls) if settled is None else Const(settled)


def _is_a(obj: Any, kinds: Any) -> bool:
    """isinstance, which asks no metaclass of the program's."""
    return type.__instancecheck__(kinds, obj) if _own_check(Const(kinds)) else isinstance(obj, kinds)


def _alternatives(cap: Capture, kinds: Value) -> list[Value]:
    """The classes of `A`, `(A, B)` and `A | B`."""
    if is_exactly(kinds, type):
        return [kinds]
    if is_tuple(kinds):
        return [kind for item in cap.items(kinds) for kind in _alternatives(cap, item)]
    if holds(kinds, (tuple, types.UnionType)):
        found = kinds.value if isinstance(kinds.value, tuple) else kinds.value.__args__
        return [kind for item in found for kind in _alternatives(cap, Const(item))]
    return [kinds]


def _own_check(kind: Value, name: str = "__instancecheck__") -> types.FunctionType | None:
    """The check that the program's (or a library's) metaclass defines in Python, if any."""
    if not holds(kind, type):
        return None
    owner, raw = lookup(type(kind.value), name)
    native = owner in (type, abc.ABCMeta) or owner is None or is_pure_module(module_name(owner))
    return None if native or not isinstance(raw, types.FunctionType) else raw


def _no_hook(cap: Capture, kinds: Value) -> None:
    """Break where an ABC of the program decides in Python which classes are its subclasses."""
    for cls in _alternatives(cap, kinds):
        if is_const(cls) and issubclass(type(cls.value), abc.ABCMeta):
            hooks = lookup(cls.value, "__subclasshook__")[1], _own_check(cls, "__subclasscheck__")
            if any(map(_in_python, hooks)):
                raise Break("call", f"the __subclasshook__ or __subclasscheck__ of {cls.value.__qualname__}")


def _in_python(hook: Any) -> bool:
    """Whether a method is the program's: the standard library's answers do not change."""
    function = getattr(hook, "__func__", hook)
    return isinstance(function, types.FunctionType) and not is_steady_module(module_of(function))


def _is_instance(cap: Capture, x: Value, kind: Value) -> bool:
    check = _own_check(kind)
    if check is None:
        return truth(cap, _by_class(cap, x, kind))
    if (cls := class_of(x)) is as_python(kind):
        return True
    ask = lambda v: Const(truth(cap, cap.call(Const(check), [kind, v])))
    return truth(cap, checked(cap, check, kind, x, cls, ask))


def _is_instance_of(cls: type, classes: Any) -> bool:
    """What `isinstance` says of an object of class `cls`; it refuses what is no class."""
    if isinstance(classes, tuple):
        return any(_is_instance_of(cls, c) for c in classes)
    isinstance(None, classes)  # its words where this is no class
    if isinstance(classes, type) and not isinstance(classes, abc.ABCMeta):
        return classes in mro(cls)
    return issubclass(cls, classes)


def _array_isinstance(cap: Capture, x: ArrayV, classes: Any) -> bool:
    if isinstance(classes, tuple):
        return any(_array_isinstance(cap, x, c) for c in classes)
    if isinstance(classes, type) and issubclass(classes, jax.core.Tracer):
        return is_tracer(cap, x, classes)
    if x.real is not None:
        return _is_a(x.real, classes)
    return classes is jax.Array or issubclass(class_of(x), classes) or (
        isinstance(classes, type) and module_name(classes).startswith("jax") and issubclass(jax.Array, classes))


@row(issubclass)
def _issubclass(cap: Capture, a: Value, b: Value) -> Value:
    if is_object(b):
        return cap.call(cap.getattr(b, "__subclasscheck__"), [a])
    several = _alternatives(cap, b)
    if isinstance(a, ClassOfTracedV):
        return _of_traced(cap, a, several, b)
    if any(_in_python(_own_check(kind, "__subclasscheck__")) for kind in several):
        return Const(any(_is_subclass(cap, a, kind) for kind in several))
    _no_hook(cap, b)
    return _denied(cap, as_python(a), b, fold(cap, issubclass, a, b))


def _of_traced(cap: Capture, a: ClassOfTracedV, kinds: list[Any], all_kinds: Value) -> Value:
    """Of the class of a value that JAX may trace: where its arrays and its tracers do not agree, by which it is."""
    asked = [as_python(kind) for kind in kinds]
    known = [type(k) is type or issubclass(type(k), type) and is_steady_module(module_name(k)) for k in asked]
    if not all(known):
        raise Break("tracer", "the class of a value that a transformation may trace")
    found = {cls: any(issubclass(cls, kind) for kind in asked) for cls in (ARRAY_TYPE, KEY_TYPE, TRACER)}
    certain = len({*found.values()}) == 1 and not any(issubclass(kind, TRACER) for kind in asked)
    array: Any = a.array
    if not certain and is_tracer(cap, array, TRACER):
        return Const(found[TRACER] or any(issubclass(kind, TRACER) and is_tracer(cap, array, kind) for kind in asked))
    answer: Value = Const(found[class_of(array)])
    return _denied(cap, TRACER, all_kinds, _denied(cap, class_of(array), all_kinds, answer))


TRACER = jax.core.Tracer


def _is_subclass(cap: Capture, cls: Value, kind: Value) -> bool:
    check = _own_check(kind, "__subclasscheck__")
    if check is not None and _in_python(check):
        return truth(cap, cap.call(Const(check), [kind, cls]))
    _no_hook(cap, kind)
    return truth(cap, _denied(cap, as_python(cls), kind, fold(cap, issubclass, cls, kind)))


# --- what is below a class


def below(known: tuple[type]) -> list[type]:
    """The classes that name this one as a base and live. Guards give functions tuples, and no classes."""
    return type.__subclasses__(*known)


def _subclasses(cap: Capture, cls: Const) -> Value:
    """`cls.__subclasses__()`, by which registries find what there is: these very classes, in this order, or another
    entry. The list is a new one each time."""
    if "<locals>" in cls.value.__qualname__:
        raise Break("call", f"{cls.value.__qualname__}.__subclasses__")  # a guard that names it would keep it alive
    found, place = below((cls.value,)), S.Host("below", ((cls.value,),), below)
    cap.guards.add("eq", S.Host("len", (place,), len), len(found))
    for i, each in enumerate(found):
        cap.guards.add("is", S.Host("getitem", (place, i), operator.getitem), each)
    return ListV([Const(each) for each in found])


CONST_METHODS.update({(metaclass, "__subclasses__"): _subclasses for metaclass in (type, abc.ABCMeta)})
