"""Exception groups as Python: what `except*` and the methods of groups do, for the machine to enter.

CPython does these in C. A naked exception that an `except*` clause matches is wrapped in a group; what
no clause handled and what the clauses raised is put together again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GROUPS = "catching ExceptionGroup with except* is not allowed. Use except instead."
CLASSES = "catching classes that do not inherit from BaseException is not allowed"


def match(error: Any, kinds: Any) -> tuple[Any, Any]:
    """What an `except* kinds` clause takes of `error`, and what it leaves; None for nothing."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and BaseException in kind.__mro__):
            raise TypeError(CLASSES)
        if BaseExceptionGroup in kind.__mro__:
            raise TypeError(GROUPS)
    if error is None:
        return None, None
    if is_one(error, kinds):
        return (error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", (error,))), None
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)
    return None, error


def is_one(error: Any, kinds: Any) -> bool:
    """Whether `except kinds` catches `error`: classes are not asked what they think."""
    return any(kind in type(error).__mro__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def to_raise(original: Any, errors: list) -> Any:
    """What is raised at the end of `except*` clauses that left or raised `errors`; None for nothing."""
    if not errors:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return errors[-1]
    found = [e for e in errors if e is not None]
    raised = [e for e in found if not has_same_origin(e, original)]
    rest = projection(original, [e for e in found if has_same_origin(e, original)])
    if rest is not None:
        if not raised:
            return rest
        raised.append(rest)
    if not raised:
        return None
    return BaseExceptionGroup("", raised) if len(raised) > 1 else raised[0]


def has_same_origin(a: Any, b: Any) -> bool:
    """Whether `a` is a part of `b` that was never raised by itself."""
    return (a.__traceback__ is b.__traceback__ and a.__cause__ is b.__cause__ and a.__context__ is b.__context__
            and getattr(a, "__notes__", None) is getattr(b, "__notes__", None))


def projection(group: Any, parts: list) -> Any:
    """The part of `group` with the leaves of `parts`, in the shape of the group."""
    kept: list = []
    for part in parts:
        leaves(part, kept)
    return divide(group, lambda e: not isinstance(e, BaseExceptionGroup) and any(e is leaf for leaf in kept))[0]


def leaves(error: Any, found: list) -> None:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            leaves(inner, found)
    else:
        found.append(error)


def divide(error: Any, wanted: Callable[[Any], bool]) -> tuple[Any, Any]:
    """(the part of `error` that is wanted, the rest)."""
    if wanted(error):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    halves = [divide(inner, wanted) for inner in error.exceptions]
    return (subset(error, [a for a, _ in halves if a is not None]),
            subset(error, [b for _, b in halves if b is not None]))


def subset(group: Any, errors: list) -> Any:
    """A group like `group` with `errors`; None when there are none."""
    if not errors:
        return None
    made = group.derive(errors)
    if not isinstance(made, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    made.__traceback__ = group.__traceback__
    made.__context__ = group.__context__
    made.__cause__ = group.__cause__
    if hasattr(group, "__notes__"):
        made.__notes__ = list(group.__notes__)
    return made


def predicate(condition: Any) -> Callable[[Any], bool]:
    """The argument of `split` and `subgroup` as a function."""
    if isinstance(condition, (type, tuple)):
        for kind in condition if isinstance(condition, tuple) else (condition,):
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise TypeError("expected a function, exception type or tuple of exception types")
        return lambda error: is_one(error, condition)
    if not callable(condition):
        raise TypeError("expected a function, exception type or tuple of exception types")
    return condition


def split(self: Any, condition: Any) -> tuple[Any, Any]:
    """`group.split(condition)`."""
    return divide(self, predicate(condition))


def subgroup(self: Any, condition: Any) -> Any:
    """`group.subgroup(condition)`."""
    return divide(self, predicate(condition))[0]


def derive(self: Any, errors: Any) -> Any:
    """`group.derive(errors)`, where no class overrides it."""
    return BaseExceptionGroup(self.message, errors)


def checked(cls: type, message: Any, errors: Any) -> tuple[type, tuple]:
    """The class that `cls(message, errors)` makes and its exceptions, or the error that it raises."""
    if not isinstance(message, str):
        raise TypeError(f"BaseExceptionGroup.__new__() argument 1 must be str, not {type(message).__name__}")
    if not hasattr(errors, "__getitem__") or not hasattr(errors, "__len__"):
        raise TypeError("second argument (exceptions) must be a sequence")
    found = tuple(errors)
    if not found:
        raise ValueError("second argument (exceptions) must be a non-empty sequence")
    for n, error in enumerate(found):
        if not isinstance(error, BaseException):
            raise ValueError(f"Item {n} of second argument (exceptions) is not an exception")
    plain = all(isinstance(error, Exception) for error in found)
    if cls is BaseExceptionGroup:
        return (ExceptionGroup if plain else cls), found
    if not plain and issubclass(cls, Exception):
        what = "an ExceptionGroup" if cls is ExceptionGroup else repr(cls.__name__)
        raise TypeError(f"Cannot nest BaseExceptions in {what}")
    return cls, found
