"""What is read of a class, and of an instance, without running code of the program.

A metaclass may answer `cls.__module__` itself, a class that is being made has no MRO yet, and the namespace
that a class was made of may have had keys of any kind, whose `__eq__` every look-up asks.

    >>> module_name(bool), mro(bool)
    ('builtins', (<class 'bool'>, <class 'int'>, <class 'object'>))
"""

from __future__ import annotations

import contextlib
import threading
import types
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.remembered import reference

_MODULE, _MRO, _DICT = (type.__dict__[name] for name in ("__module__", "__mro__", "__dict__"))


def module_name(cls: type) -> str:
    """The module that a class says it is of; "" where that is no string."""
    found = _MODULE.__get__(cls)
    return found if type(found) is str else ""


def full_name(cls: type) -> str:
    """What a class says that it is, its module first."""
    return f"{module_name(cls)}.{type.__getattribute__(cls, '__qualname__')}"


def mro(cls: type) -> tuple[type, ...]:
    """The classes in which an attribute is looked up; () while `cls` is being made."""
    return _MRO.__get__(cls) or ()


def name_of(obj: Any, attribute: str = "__name__") -> Any:
    """What a function, or an object that is called like one, says that its name is; "" where it says nothing. A class
    that answers for what is not there (`__getattr__`: a Flax module sets itself up then) is not asked."""
    if any("__getattr__" in _DICT.__get__(base) for base in mro(type(obj))):
        return own_dict(obj).get(attribute, "")
    return getattr(obj, attribute, "")


def has_dict(cls: type) -> bool:
    """Whether instances have a dictionary (a thread local object: one in each thread)."""
    return bool(cls.__dictoffset__) or issubclass(cls, threading.local)


def fields(obj: Any) -> dict[str, Any]:
    """The entries of an instance's dictionary and its slots that are filled."""
    found = dict(own_dict(obj))
    for name, member in slots(type(obj)):
        with contextlib.suppress(AttributeError):
            found[name] = member.__get__(obj)
    return found


def slots(cls: type) -> list[tuple[str, types.MemberDescriptorType]]:
    """The slots of instances, those of base classes too."""
    return [(name, member) for base in mro(cls) for name, member in vars(base).items()
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__"]


def own_dict(obj: Any) -> dict[str, Any]:
    """The instance's dictionary, past any `__getattr__` that the class may have; empty when it has none."""
    base = threading.local if issubclass(type(obj), threading.local) else object
    try:
        return base.__getattribute__(obj, "__dict__")
    except AttributeError:
        return {}
    except TypeError:  # of asyncio.Task, where a class beside it has the descriptor
        raise Break("attribute", f"the __dict__ of a {type(obj).__qualname__}, which cannot be read") from None


def entries(cls: type) -> Any:
    """The class's own dictionary; Break where to look something up in it would run code of the program."""
    if id(cls) not in _NAMED:
        _see_names(cls)
    return _DICT.__get__(cls)


_NAMED: dict[int, Any] = {}  # classes all of whose entries were seen to have names


def _see_names(cls: type) -> None:
    """Only the namespace that a class is made of can have other keys: what is stored later has a name."""
    if not all(type(key) is str for key in _DICT.__get__(cls)):
        raise Break("attribute", f"a class {cls.__qualname__} made of a namespace whose keys are not all strings")
    _NAMED[id(cls)] = reference(cls, _NAMED)
