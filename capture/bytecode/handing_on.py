"""Classes whose code only hands on what their objects hold, when JAX takes these apart and puts them together: a number
that nobody looks at may be any.

    def tree_flatten(self): return (self.x,), (self.n, self.names)    # hands on
    def tree_flatten(self): return (self.x,), (self.n // 2,)          # computes

    @classmethod
    def tree_unflatten(cls, aux, children): return cls(*children, *aux)     # as the `__init__` of the class does

What code may do, and what it may call, is listed; of anything else nobody knows.
"""

from __future__ import annotations

import builtins
import dis
import operator
import sys
import types
from typing import Any

from dynacomp.capture.base.classes import entries, mro

OPERATIONS = frozenset("""
    RESUME CACHE NOP PRECALL PUSH_NULL POP_TOP COPY SWAP KW_NAMES EXTENDED_ARG COPY_FREE_VARS MAKE_CELL
    LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_CONST
    LOAD_GLOBAL LOAD_DEREF LOAD_CLOSURE LOAD_ATTR LOAD_METHOD LOAD_SUPER_ATTR STORE_ATTR
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP LIST_EXTEND LIST_APPEND DICT_MERGE DICT_UPDATE LIST_TO_TUPLE
    CALL_INTRINSIC_1 UNPACK_SEQUENCE UNPACK_EX BINARY_SUBSCR CALL CALL_KW CALL_FUNCTION_EX RETURN_VALUE RETURN_CONST
""".split())
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR")
GLOBALS = ("LOAD_GLOBAL", "LOAD_DEREF")
METHODS = frozenset({"items", "keys", "values"})  # of what an object holds
BUILT_IN = (tuple, list, dict, zip, object, super, setattr)
OF_OBJECT = tuple(entries(object)[name] for name in ("__init__", "__setattr__", "__new__"))


def hands_on(cls: type, flatten: Any, unflatten: Any) -> bool:
    """Whether that holds of a class which JAX takes apart, and puts together, by these functions."""
    if type(flatten) is operator.methodcaller:  # JAX's own, of the name of the method
        flatten = _found(cls, flatten.__reduce__()[1][0])  # type: ignore[index]
    return not _has_own(cls, "__getattribute__", "__getattr__", "__setattr__") and _Reading(cls).is_handing_on(
        flatten) and _Reading(cls).is_handing_on(unflatten)


def _found(cls: type, name: str) -> Any:
    """What the class has under a name, as it stands there."""
    return next((entries(base)[name] for base in mro(cls) if name in entries(base)), None)


def _has_own(cls: type, *names: str) -> bool:
    """Frozen dataclasses have some that refuse; their `__init__` goes around them."""
    return any(name in entries(base) and not _is_frozen(base) for base in mro(cls)[:-1] for name in names)


def _is_frozen(cls: type) -> bool:
    params = entries(cls).get("__dataclass_params__")
    return params is not None and params.frozen


class _Reading:
    """The code that was read so far of a class."""

    def __init__(self, cls: type) -> None:
        self.cls, self.read = cls, set[types.CodeType]()

    def is_handing_on(self, fn: Any) -> bool:
        """Whether a function does no more, nor what it calls."""
        of_class = isinstance(fn, classmethod) or getattr(fn, "__self__", None) is self.cls
        fn = getattr(fn, "__func__", fn)
        if not isinstance(fn, types.FunctionType):
            return False
        if fn.__code__ in self.read:
            return True
        self.read.add(fn.__code__)
        code = [i for i in dis.get_instructions(fn.__code__) if i.opname not in ("CACHE", "EXTENDED_ARG")]
        return all(i.opname in OPERATIONS for i in code) and all(
            self.is_known(fn, code, n, of_class) for n in range(len(code)))

    def is_known(self, fn: types.FunctionType, code: list[dis.Instruction], n: int, of_class: bool) -> bool:
        """Whether what an instruction reads, or may call, is known. of_class: the function's first argument is the
        class."""
        at = code[n]
        if at.opname in GLOBALS:
            return self.may_call(_read(fn, at))
        if at.opname == "PUSH_NULL":
            return of_class and _callee(code, n) == fn.__code__.co_varnames[0] and self.may_call(self.cls)
        if at.opname == "BINARY_SUBSCR":
            return code[n - 1].opname == "LOAD_CONST"
        if at.opname == "CALL_INTRINSIC_1":
            return at.argrepr == "INTRINSIC_LIST_TO_TUPLE"
        if at.opname not in ATTRIBUTES:
            return True
        of_object = code[n - 1].opname in GLOBALS and _read(fn, code[n - 1]) is object
        found = [entries(base)[at.argval] for base in ((object,) if of_object else mro(self.cls))
                 if at.argval in entries(base)]
        if at.opname == "STORE_ATTR":
            return all(_is_slot(one) or not hasattr(one, "__set__") for one in found)
        if not found:  # an attribute of the object alone, or a method of what it holds
            return not _is_method(at) or at.argval in METHODS
        return all(map(self.may_get, found))

    def may_get(self, found: Any) -> bool:
        """Whether an attribute that the class has may be read, and called."""
        if isinstance(found, property):
            return self.is_handing_on(found.fget)
        if isinstance(found, (types.FunctionType, classmethod, staticmethod)):
            return self.is_handing_on(found)
        return not hasattr(found, "__get__") or _is_slot(found) or any(found is own for own in OF_OBJECT)

    def may_call(self, found: Any) -> bool:
        """Whether a global or a variable of a function around may be read, and called."""
        if isinstance(found, types.FunctionType):
            return self.is_handing_on(found)
        if any(found is base for base in mro(self.cls)[:-1]):
            return type(found).__call__ is type.__call__ and all(
                self.may_get(_found(found, name)) for name in ("__init__", "__new__"))
        return any(found is known for known in BUILT_IN)


def _read(fn: types.FunctionType, at: dis.Instruction) -> Any:
    """A global, built-in or variable of a function around; None where it has no value yet."""
    if at.opname == "LOAD_GLOBAL":
        return fn.__globals__.get(at.argval, getattr(builtins, at.argval, None))
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    try:
        return cells[at.argval].cell_contents
    except (KeyError, ValueError):
        return None


def _callee(code: list[dis.Instruction], n: int) -> Any:
    """The name of the variable that a call behind this PUSH_NULL calls; None of what is no variable."""
    at, then = (code[n - 1], None) if sys.version_info >= (3, 13) else (code[n + 1], code[n + 2].opname)
    return at.argval if at.opname == "LOAD_FAST" and then != "LOAD_ATTR" else None


def _is_slot(found: Any) -> bool:
    return isinstance(found, types.MemberDescriptorType)


def _is_method(at: dis.Instruction) -> bool:
    """Whether the attribute is read to be called."""
    return at.opname == "LOAD_METHOD" or at.opname in ATTRIBUTES and "NULL" in at.argrepr
