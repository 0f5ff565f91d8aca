"""`sys.modules`: a dict to which every import adds. Its keys are guarded one by one, where the program asks for one.

    sys.modules["warnings"]      # guard: sys.modules['warnings'] is warnings
    "numba" in sys.modules       # guard: 'numba' not in sys.modules
"""

from __future__ import annotations

import sys
from typing import Any

from dynacomp.capture.base.errors import Raised
from dynacomp.capture.calls.calls import BUILTIN_METHODS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.builder import WRAPPERS, wrap


class RegistryV(OpaqueV):
    """Such a dict."""


def _dict(cap: Capture, obj: Any, source: S.Source) -> Value:
    if obj is not sys.modules:
        return OTHERS(cap, obj, source)
    cap.guards.add("is_type", source, type(obj))
    return RegistryV(obj, source=source)


def find(cap: Capture, registry: RegistryV, key: Value) -> Value | None:
    """What is there under `key`, guarded; None where nothing is."""
    name, source = as_python(key), registry.source
    assert source is not None
    if name in registry.obj:
        return wrap(cap, registry.obj[name], S.Key(source, name))
    cap.guards.add("missing_key", source, name)
    return None


def _getitem(cap: Capture, registry: RegistryV, key: Value) -> Value:
    found = find(cap, registry, key)
    if found is None:
        raise Raised(Const(KeyError(as_python(key))))
    return found


def _get(cap: Capture, registry: RegistryV, key: Value, default: Value = Const(None)) -> Value:
    return find(cap, registry, key) or default


def _contains(cap: Capture, registry: RegistryV, key: Value) -> bool:
    return find(cap, registry, key) is not None


OTHERS, WRAPPERS[dict] = WRAPPERS[dict], _dict
define(RegistryV, Kind(contains=_contains, getitem=_getitem))
BUILTIN_METHODS[RegistryV, "__getitem__"], BUILTIN_METHODS[RegistryV, "get"] = _getitem, _get
