"""Which frames the hook looks at: the user's, and those of libraries that are entered.

Everything below a compiled function's graph break passes the hook once; the answer is cached in the
code object.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType

import dynacomp.kernels as kernels
import dynacomp.lowering as lowering
from dynacomp import capture, codegen, counters
from dynacomp.capture import _native
from dynacomp.capture.bytecode.resume import is_resume
from dynacomp.capture.symbolic import libraries

FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS  # not a class body or a module


def should_capture(code: CodeType) -> bool:
    """The usual filter."""
    return is_resume(code) or (can_capture(code) and not code.co_filename.startswith("<")
                               and not is_library_file(code.co_filename))


def can_capture(code: CodeType) -> bool:
    return code.co_flags & FUNCTION == FUNCTION


@contextlib.contextmanager
def strict(*machinery: ModuleType) -> Iterator[None]:
    """Within the block the hook looks at all code that a compiled function calls, the standard
    library's too, arrays or not: a test of capture by programs that know nothing of it. Left alone
    are dynacomp, installed packages, the import system, and the packages and modules in `machinery`.

        with filters.strict(unittest):
            dynacomp.jit(run_all_tests)()
    """
    own = (*_OWN, *(_folder(m) if hasattr(m, "__path__") else str(m.__file__) for m in machinery), "<frozen importlib")

    def should_capture_strictly(code: CodeType) -> bool:
        file = code.co_filename
        return is_resume(code) or (can_capture(code) and "site-packages" not in file and not file.startswith(own))

    usual = _native.set_filter(should_capture_strictly)
    _native.reset()  # what the usual filter has answered is kept in the code objects
    try:
        yield
    finally:
        _native.set_filter(usual)
        _native.reset()


@functools.cache
def is_library_file(filename: str) -> bool:
    """True of files of the standard library, of installed packages, and of dynacomp itself; and of the libraries that
    promise purity, wherever they lie: captured code calls their functions whole, which must not be taken to pieces when
    Python calls them."""
    pure = [path + os.sep for root in _PURE for path in getattr(sys.modules.get(root), "__path__", ())]
    return "site-packages" in filename or filename.startswith((*_OWN, _STDLIB, *pure))


def _folder(module: object) -> str:
    return os.path.dirname(getattr(module, "__file__", "") or "") + os.sep


_PURE = sorted({name.partition(".")[0] for name in libraries.PURE})
_OWN = tuple({_folder(m) for m in (capture, codegen, counters, kernels, lowering)})
_STDLIB = _folder(functools)
