"""The Value of an object in C that the captured code has made of constants: see `c_objects`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynacomp.capture.symbolic.values import ObjectV


@dataclass(eq=False)
class PrivateV(ObjectV):
    """`obj` is an object of the capture's own, in the state in which the program's is now."""

    obj: Any = None
