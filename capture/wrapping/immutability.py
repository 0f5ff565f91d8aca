"""What never changes: which objects that are known by their identity alone may be looked into while capturing.

Classes, modules and enums count: what is read of them is guarded elsewhere. Of a class in C nothing is
known but what stands here: a `SimpleNamespace` or an `array.array` may have other content at the next call.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import enum
import operator
import types
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import entries, module_name, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import LITERALS, is_literal, leaves
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.symbolic.libraries import is_pure_module

HEAP, IMMUTABLE_TYPE, NO_INSTANCES = 1 << 9, 1 << 8, 1 << 7  # Py_TPFLAGS_*

# Modules whose objects never change.
MODULES = ("typing", "typing_extensions", "fractions", "datetime", "pathlib", "ipaddress", "uuid", "numbers",
           "re", "zoneinfo", "ml_dtypes")
ALIASES = (types.GenericAlias, type(collections.abc.Callable[[], None]))  # `list[int]`
# Classes in C whose instances never change, or whose parts are guarded where they are read (functions).
CLASSES = (*LITERALS, tuple, frozenset, range, slice, property, classmethod, staticmethod, types.FunctionType,
           types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, types.WrapperDescriptorType,
           types.MethodWrapperType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
           types.MemberDescriptorType, types.CodeType, types.UnionType, operator.itemgetter, operator.attrgetter,
           operator.methodcaller, np.ufunc, decimal.Decimal, *ALIASES)

TREEDEF: Any = jax.tree_util.PyTreeDef

# Classes whose instances show what another object holds.
SHOWING = (memoryview, types.MappingProxyType)


@remembered
def is_python_class(cls: type) -> bool:
    """A class made by a `class` statement: C can make heap types too, with methods of their own in C."""
    flags = cls.__flags__
    if not mro(cls):
        raise Break("attribute", "a class that is being made")
    return bool(flags & HEAP) and not flags & (IMMUTABLE_TYPE | NO_INSTANCES) and not any(
        b.__flags__ & HEAP and id(b) not in CONTAINERS and _has_own_c_code(b) for b in mro(cls))


CONTAINERS = frozenset(map(id, (collections.deque, collections.defaultdict)))  # modelled: see `builtin_subclasses`
IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


def _has_own_c_code(cls: type) -> bool:
    found = entries(cls)
    return isinstance(found.get("__new__"), types.BuiltinFunctionType) or any(
        isinstance(raw, IN_C) and raw.__objclass__ is cls for raw in found.values())


def is_changeable(obj: Any) -> bool:
    """An object known by its identity alone, whose content may be another one at the next call.

        >>> is_changeable(range(3)), is_changeable(types.SimpleNamespace())
        (False, True)
    """
    cls: Any = type(obj)
    if cls in CLASSES or issubclass(cls, (type, types.ModuleType, enum.Enum, np.generic, np.dtype)):
        return False
    if issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields") and all(type(x) in LITERALS for x in obj):
        return False  # `sys.version_info` and its like
    if issubclass(cls, (datetime.datetime, datetime.time)) and obj.tzinfo is not None:
        return is_python_class(type(obj.tzinfo))  # whose methods the C code calls
    return module_name(cls) not in MODULES and not is_pure_module(module_name(cls))


def says_literals(treedef: Any) -> bool:
    """Whether all that a structure says beside classes is literals: no arrays, Values or sizes hide in it."""
    data = treedef.node_data()
    if data is None:
        return True
    held = tuple(data[1]) if type(data[1]) is list else data[1]
    return (is_literal(held) or isinstance(held, type)) and all(map(says_literals, treedef.children()))


def says_constants(treedef: Any) -> bool:
    """Whether all that a structure says is literals, classes, and objects of pure libraries that are compared by
    identity and never change (`equinox._module._Missing`, in each Equinox module): to compare it runs no code of the
    program, and one that is equal says the same."""
    data = treedef.node_data()
    if data is None:
        return True
    held = tuple(data[1]) if type(data[1]) is list else data[1]
    return (isinstance(held, type) or all(map(_is_constant, leaves(held)))) and all(
        map(says_constants, treedef.children()))


def _is_constant(obj: Any) -> bool:
    cls = type(obj)
    return cls in LITERALS or is_pure_module(module_name(cls)) and cls.__eq__ is object.__eq__
