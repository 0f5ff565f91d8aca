"""`optree`, whose trees are taken apart by C++: rows for its functions in C and for the methods of its tree structures,
put into the tables when the program first calls one. Its functions in Python are entered, and call these.

Like `jax.tree` (see `tree_rows`): a shell of the tree goes through optree itself, and what comes out of it are the
Values that went in. The structure is a constant.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.builtins.builtin_rows import NONE
from dynacomp.capture.builtins.tree_rows import Closed, Shell
from dynacomp.capture.calls.calls import BUILTINS, FIRST_CALLED, call_row
from dynacomp.capture.kinds.attrs import CONST_METHODS
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.folding import fold

# Methods of a structure that only speak of it.
SPEAKING = ("accessors", "broadcast_to_common_suffix", "child", "children", "compose", "entries", "entry", "is_leaf",
            "is_one_level", "is_prefix", "is_suffix", "one_level", "paths")
NO, NOWHERE = Const(False), Const("")


def _asked(fn: Any, parts: Shell, is_leaf: Value, none_is_leaf: Value, namespace: Value) -> Any:
    if parts.closed:
        raise Closed
    try:
        return fn(parts.real, parts.rule(is_leaf), as_python(none_is_leaf), as_python(namespace))
    except (ValueError, TypeError) as error:
        raise Break("raises", type(error).__name__) from None


def _shell(cap: Capture, tree: Value, namespace: Value) -> Shell:
    known = as_python(namespace)
    return Shell(cap, tree, lambda real: sys.modules["optree._C"].is_leaf(real, None, True, known))


def _flatten(fn: Any, cap: Capture, tree: Value, leaf_predicate: Value = NONE, none_is_leaf: Value = NO,
             namespace: Value = NOWHERE) -> Value:
    parts = _shell(cap, tree, namespace)
    *paths, leaves, spec = _asked(fn, parts, leaf_predicate, none_is_leaf, namespace)
    _refuse_custom(spec)
    return TupleV([*(from_python(cap, p) for p in paths), ListV(list(map(parts.value, leaves))), Const(spec)])


def _is_leaf(fn: Any, cap: Capture, obj: Value, leaf_predicate: Value = NONE, none_is_leaf: Value = NO,
             namespace: Value = NOWHERE) -> Value:
    return Const(_asked(fn, _shell(cap, obj, namespace), leaf_predicate, none_is_leaf, namespace))


def _refuse_custom(spec: Any) -> None:
    """Break for nodes of classes that the program has registered, which keep what they like in the structure."""
    if spec.kind.name == "CUSTOM":
        raise Break("call", f"optree on a {spec.type.__qualname__}, a node of the program's own")
    for child in spec.children():
        _refuse_custom(child)


def _unflatten(cap: Capture, spec: Value, leaves: Value) -> Value:
    try:
        return from_python(cap, as_python(spec).unflatten(list(iterate(cap, leaves))))
    except (ValueError, TypeError) as error:
        raise Break("raises", type(error).__name__) from None


def _flatten_up_to(cap: Capture, spec: Value, tree: Value) -> Value:
    parts = _shell(cap, tree, Const(as_python(spec).namespace))
    try:
        return ListV(list(map(parts.value, as_python(spec).flatten_up_to(parts.real))))
    except (ValueError, TypeError) as error:
        raise Break("raises", type(error).__name__) from None


def _opened(row: Any, fn: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    try:
        return call_row(cap, functools.partial(row, fn), fn, list(args), kwargs)
    except Closed:
        raise Break("argument", "a library's object taken apart by optree") from None


def _speak(name: str, cap: Capture, spec: Value, *args: Value) -> Value:
    return fold(cap, getattr(type(as_python(spec)), name), spec, *args)


def _register() -> None:
    native = sys.modules["optree._C"]
    for name, row in (("flatten", _flatten), ("flatten_with_path", _flatten), ("is_leaf", _is_leaf)):
        fn = getattr(native, name)
        BUILTINS[fn] = functools.partial(_opened, row, fn)
    CONST_METHODS.update({(native.PyTreeSpec, name): functools.partial(_speak, name) for name in SPEAKING})
    CONST_METHODS[native.PyTreeSpec, "unflatten"] = _unflatten
    CONST_METHODS[native.PyTreeSpec, "flatten_up_to"] = _flatten_up_to


FIRST_CALLED["optree._C"] = _register
