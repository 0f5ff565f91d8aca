"""Which frames the hook looks at."""

import types

from dynacomp import filters


def test_files_of_pure_libraries_are_theirs_wherever_they_lie(monkeypatch):
    package = types.ModuleType("optax")
    package.__path__ = ["/checkout/optax"]
    script = types.ModuleType("diffrax")  # of the program, which has no packages
    script.__file__ = "/home/me/diffrax.py"
    monkeypatch.setitem(filters.sys.modules, "optax", package)
    monkeypatch.setitem(filters.sys.modules, "diffrax", script)
    is_library = filters.is_library_file.__wrapped__
    assert is_library("/checkout/optax/_src/base.py")
    assert not any(map(is_library, ("/checkout/train.py", "/checkout/optax.py", "/home/me/diffrax.py", "train.py")))
