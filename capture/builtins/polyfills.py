"""C functions of the standard library by their twins in Python, which the machine enters.

`heapq` and `bisect` are written in Python and replaced by C at import. Here their Python is loaded
once more with the C part out of sight: comparisons in it are entered, in the same order. What has no
twin in the library stands here, and so does what a function of the library does beneath a cache of its own.
"""

from __future__ import annotations

import _bisect
import _collections  # type: ignore[import-not-found]
import _heapq  # type: ignore[import-not-found]
import importlib.util
import inspect
import itertools
import operator
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from dynacomp.capture.arithmetic.operators import fold
from dynacomp.capture.base import itertools_py, namespaces_py
from dynacomp.capture.base.errors import Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.calls.calls import BUILTINS, BY_TYPE, call
from dynacomp.capture.kinds.attrs import CONST_METHODS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.immutability import ALIASES


def twin(name: str, accelerator: str) -> types.ModuleType:
    """A second copy of the library's module `name`, made as if its C part did not exist."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    module, kept = importlib.util.module_from_spec(spec), sys.modules.get(accelerator)
    sys.modules[accelerator] = None  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(accelerator)
        if kept is not None:
            sys.modules[accelerator] = kept
    return module


def count_elements(mapping: Any, iterable: Iterable) -> None:
    """How often each element occurs, added to what `mapping` says: the heart of `collections.Counter`."""
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def shadowed_dict(cls: type) -> Any:
    """What hides the instances' dictionaries in a class, for `inspect.getattr_static`: later Pythons cache it by weak
    references to all its bases."""
    for base in type.__dict__["__mro__"].__get__(cls):
        held = type.__dict__["__dict__"].__get__(base).get("__dict__", inspect._sentinel)  # type: ignore[attr-defined]
        own = type(held) is types.GetSetDescriptorType and held.__name__ == "__dict__" and held.__objclass__ is base
        if held is not inspect._sentinel and not own:  # type: ignore[attr-defined]
            return held
    return inspect._sentinel  # type: ignore[attr-defined]


def _enter(fn: Callable) -> Callable:
    return lambda cap, *args, **kwargs: call(cap, Const(fn), list(args), kwargs)


def _pairs(accelerator: types.ModuleType, python: types.ModuleType) -> dict[Any, Callable]:
    return {real: getattr(python, name) for name, real in vars(accelerator).items()
            if isinstance(real, types.BuiltinFunctionType) and hasattr(python, name)}


TWINS: dict[Any, Callable] = {
    **itertools_py.EQUIVALENTS, **namespaces_py.TWINS,
    **_pairs(_heapq, twin("heapq", "_heapq")), **_pairs(_bisect, twin("bisect", "_bisect")),
    _collections._count_elements: count_elements, inspect._shadowed_dict: shadowed_dict,  # type: ignore[attr-defined]
}
BUILTINS.update({real: _enter(python) for real, python in TWINS.items()})


def _of_list(real: Any, python: Callable) -> Callable:
    """A function on a heap, which C takes for a list alone: of another object it raises at once."""
    entered = _enter(python)

    def checked(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        is_list = not args or issubclass(type_of(args[0]), list)
        return entered(cap, *args, **kwargs) if is_list else fold(cap, real, *args)
    return checked


BUILTINS.update({real: _of_list(real, python) for real, python in TWINS.items()
                 if getattr(real, "__module__", "") == "_heapq"})


def _generic(cap: Capture, alias: Const, *args: Value, **kwargs: Value) -> Value:
    """`list[int](...)`: the class is called; only objects with a dictionary remember the alias."""
    origin: Any = alias.value.__origin__
    made = call(cap, Const(origin), list(args), kwargs)
    if getattr(origin, "__dictoffset__", 0):
        cap.call(Const(setattr), [made, Const("__orig_class__"), alias])
    return made


def _substitute(cap: Capture, pattern: Const, repl: Value, string: Value, count: Value = Const(0)) -> Value:
    """`pattern.sub(repl, string)`; a function `repl` is called on each match, from left to right."""
    if is_const(repl) and not callable(repl.value):
        return fold(cap, re.Pattern.sub, pattern, repl, string, count)
    text, most = as_python(string), as_python(fold(cap, operator.index, count))
    try:
        matches = pattern.value.finditer(text)
    except ours(TypeError) as error:
        raise Raised(Const(error)) from None
    parts, at = [], 0
    for match in itertools.islice(matches, max(most, 0) if most else None):
        found = as_python(cap.call(repl, [Const(match)]))
        parts += [text[at:match.start()], text[:0] if found is None else found]
        at = match.end()
    return fold(cap, text[:0].join, Const((*parts, text[at:])))


BY_TYPE.update(dict.fromkeys(ALIASES, _generic))
CONST_METHODS[re.Pattern, "sub"] = _substitute
