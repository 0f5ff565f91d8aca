"""Opcodes of import statements in functions: modules that are loaded are found in `sys.modules`, guarded."""

from __future__ import annotations

import importlib.util
import sys
import types

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.opcodes.names import load_global
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import holds
from dynacomp.capture.values.value import as_python
from dynacomp.capture.wrapping.builder import wrap


@opcode("IMPORT_NAME")
def _import_name(cap: Capture, f: Frame, i: Instruction) -> None:
    level, names = f.popn(2)
    name, wanted = _absolute(cap, f, i.argval, as_python(level)), as_python(names) or ()
    found = sys.modules.get(name)
    if type(found) is not types.ModuleType:
        raise Break("import", f"import of {name}, which is not loaded")
    late = [n for n in wanted if n not in vars(found)]
    if late and "__path__" in vars(found):
        raise Break("import", f"import of {name}.{late[0]}, which is not loaded")
    for known in (name, name if wanted else name.partition(".")[0]):
        module = wrap(cap, sys.modules[known], S.Key(S.Root(sys.modules, "sys.modules"), known))
    f.push(module)


def _absolute(cap: Capture, f: Frame, name: str, level: int) -> str:
    """The whole name of a module: `from ..a import b` counts from the package that the frame's module is in."""
    if level == 0:
        return name
    package = load_global(cap, f, "__package__")
    if not holds(package, str):
        raise Break("import", f"import of {'.' * level}{name} in a module that does not say its package")
    try:
        return importlib.util.resolve_name("." * level + name, package.value)
    except ImportError:
        raise Break("raises", "ImportError") from None


@opcode("IMPORT_FROM")
def _import_from(cap: Capture, f: Frame, i: Instruction) -> None:
    try:
        f.push(cap.getattr(f.stack[-1], i.argval))
    except Raised:
        raise Break("raises", "ImportError") from None
