"""Which frames the hook looks at: the user's, and those of libraries that are entered.

Everything below a compiled function's graph break passes the hook once; the answer is cached in the
code object.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import CodeType

from dynacomp import capture, codegen, counters, kernels, lowering
from dynacomp.capture.resume import is_resume

FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS  # not a class body or a module
NEVER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def should_capture(code: CodeType) -> bool:
    if is_resume(code):
        return True
    if code.co_flags & FUNCTION != FUNCTION:
        return False
    return not (code.co_filename.startswith("<") or code.co_flags & NEVER or is_library_file(code.co_filename))


@functools.cache
def is_library_file(filename: str) -> bool:
    """True of files of the standard library, of installed packages, and of dynacomp itself."""
    return "site-packages" in filename or filename.startswith((*_OWN, _STDLIB))


def _folder(module: object) -> str:
    return os.path.dirname(getattr(module, "__file__", "") or "") + os.sep


_OWN = tuple({_folder(m) for m in (capture, codegen, counters, kernels, lowering)})
_STDLIB = _folder(functools)
