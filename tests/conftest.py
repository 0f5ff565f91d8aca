"""What every test shares: quiet, deterministic JAX, one cache of compiled code, golden files.

`golden(name, text)` compares `text` with the file `golden/<name>` beside the test, and rewrites
that file under `pytest --update-golden`.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("DYNACOMP_CACHE_DIR", str(ROOT / "build" / "test-cache"))


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request):
    """A function (name, text) that compares with, or updates, the golden file of that name."""

    def check(name: str, text: str) -> None:
        file = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"{file} is missing: run pytest --update-golden and read what it writes"
        assert text == file.read_text(), f"{file} differs: if the new text is right, pytest --update-golden"

    return check
