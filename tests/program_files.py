"""Folders of files that register programs when they are imported."""

import importlib
import pkgutil
from types import ModuleType


def import_all(package: ModuleType) -> list[str]:
    """Imports every file of a package, in the order of their names; returns those whose library is not installed."""
    missing = []
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        try:
            importlib.import_module(f"{package.__name__}.{module}")
        except ImportError as error:
            if str(error.name).startswith(("tests", "dynacomp")):
                raise
            missing.append(f"{module} ({error.name})")
    return missing
