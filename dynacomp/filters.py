"""Which frames the hook looks at below a graph break: the program's, wherever its files lie, and those of installed
packages that work with JAX, but for libraries that captured code calls whole.

Everything below a compiled function's graph break passes the hook once; the answer is cached in the code object.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import dynacomp.kernels as kernels
import dynacomp.lowering as lowering
from dynacomp import capture, codegen, counters
from dynacomp.capture import _native
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bytecode.resume import is_resume
from dynacomp.capture.symbolic import libraries

FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS  # not a class body or a module


TYPED = ("<stdin>", "<ipython-input", "<doctest ")  # how the names of files begin that are no files of generated code


def should_capture(code: CodeType) -> bool:
    """The usual filter."""
    file = code.co_filename
    return is_resume(code) or (can_capture(code) and (not file.startswith("<") or file.startswith(TYPED))
                               and not is_library_file(file))


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


def is_library_file(filename: str) -> bool:
    """True of files of the standard library and of dynacomp itself; of the libraries that promise purity, wherever they
    lie, but for their tests: captured code calls their functions whole, which must not be taken to pieces when Python
    calls them; and of installed packages that have nothing to do with JAX, whose frames compute nothing with arrays."""
    if not packages_above(filename):
        pure = [place for name in libraries.pure_names() for place in _places(name) if filename.startswith(place)]
        tests = any(libraries.holds_tests(_dotted(filename.removeprefix(place))) for place in pure)
        return filename.startswith((*_OWN, _STDLIB)) or bool(pure) and not tests
    module = installed_module(filename)
    return filename.startswith(_OWN) or libraries.is_left_alone(module) or not works_with_jax(module)


def _places(name: str) -> list[str]:
    """Where a module's code lies, and that of those below it."""
    module: Any = sys.modules.get(name)
    if hasattr(module, "__path__"):
        return [path + os.sep for path in module.__path__]
    file = getattr(module, "__file__", None)
    return [file] if file and name in libraries.REGISTERED else []  # a script may be called like a known library


def packages_above(filename: str) -> str:
    """The folder of installed packages that a file lies in; "" where it lies in none. Installers leave a `.dist-info`
    of each beside them, wherever they were told to put them (`pip install --target`, Debian's `dist-packages`)."""
    before, site, _ = filename.rpartition("site-packages")
    return before + site or next((folder for folder in sys.path if folder and filename.startswith(folder + os.sep)
                                  and holds_packages(folder)), "")


@functools.cache
def holds_packages(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except ours(OSError):
        return False


def installed_module(filename: str) -> str:
    """The name of a module in an installed package, by its file.

        >>> installed_module("/usr/lib/python3.11/site-packages/flax/nnx/__init__.py")
        'flax.nnx'
    """
    return _dotted(filename.removeprefix(packages_above(filename)))


def _dotted(path: str) -> str:
    return path.strip(os.sep).removesuffix(".py").removesuffix(os.sep + "__init__").replace(os.sep, ".")


@functools.cache
def works_with_jax(module: str) -> bool:
    """Whether any module of the package that `module` belongs to has imported JAX, or something of it."""
    root = module.partition(".")[0]
    if root not in _WITH_JAX and any(map(_has_jax, [
            m for name, m in list(sys.modules.items()) if name == root or name.startswith(root + ".")])):
        _WITH_JAX.add(root)
    return root in _WITH_JAX


_WITH_JAX: set[str] = set()


def _has_jax(module: ModuleType) -> bool:
    return any(_is_jax(v.__name__ if isinstance(v, ModuleType) else v.__module__)
               for v in list(getattr(module, "__dict__", {}).values()) if isinstance(v, (ModuleType, FunctionType)))


def _is_jax(name: Any) -> bool:
    return isinstance(name, str) and name.partition(".")[0] in ("jax", "equinox", "flax", "haiku", "optax")


def _folder(module: object) -> str:
    return os.path.dirname(getattr(module, "__file__", "") or "") + os.sep


_OWN = tuple({_folder(m) for m in (capture, codegen, counters, kernels, lowering)})
_STDLIB = _folder(functools)
