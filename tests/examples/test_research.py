"""The examples of research: at most 30 lines each, and they print what they promise."""

import runpy
from pathlib import Path

import pytest

import dynacomp

FOLDER = Path(__file__).parents[2] / "examples" / "research"
SHOWS = {
    "flops.py": ("128 tokens: ", "1024 tokens: ", "dearest op: dot_general"),
    "fuse_swish.py": ("-    logistic = ", "+    tanh = ", "largest difference: "),
    "autocast.py": ("largest difference from f32: 0.0",),
    "custom_kernel.py": ("eager: -1.46", "gradient: 0.73", "('gate", "off by 0.0"),
    "numpy_backend.py": ("'numpy': None", "{'numpy': 1}"),
}


def test_each_is_listed_here_and_short():
    files = {p.name: len(p.read_text().splitlines()) for p in FOLDER.glob("*.py")}
    assert files.keys() == SHOWS.keys() and max(files.values()) <= 30, files


@pytest.mark.parametrize("name", SHOWS)
def test_it_prints_what_it_promises(name, capsys):
    dynacomp.reset()
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    out, errors = capsys.readouterr()
    assert not errors and all(text in out for text in SHOWS[name]), out + errors
