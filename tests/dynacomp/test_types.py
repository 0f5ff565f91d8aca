"""What a type checker sees of dynacomp from outside: `jit` keeps the type of what it compiles."""

import subprocess
import sys
from pathlib import Path

import pytest

import dynacomp

PROGRAM = '''
from collections.abc import Callable
import dynacomp

@dynacomp.jit
def one(x: int, scale: float = 1.0) -> float:
    return x * scale

@dynacomp.jit(fullgraph=True, static_argnums=(0,))
def two(x: str) -> list[str]:
    return [x]

class Model:
    size: int = 3
    def __call__(self, x: float) -> float:
        return x

model = dynacomp.jit(Model())
a: float = one(2, scale=3.0)
b: list[str] = two("a")
c: int = model.size
d: Callable[[float], float] = dynacomp.disable(model)
e: str = dynacomp.__version__
one("not an int")  # ERROR
two(1)  # ERROR
dynacomp.jit(one, dynamic="yes")  # ERROR
'''


def test_the_package_says_that_it_has_types():
    assert (Path(dynacomp.__file__).parent / "py.typed").exists()
    assert dynacomp.__version__.count(".") == 2


@pytest.mark.medium
def test_jit_keeps_the_type_of_its_function(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    typed = Path(__file__).parents[2] / "build/types"
    typed.mkdir(parents=True, exist_ok=True)
    link = typed / "dynacomp"
    if not link.exists():
        link.symlink_to(Path(dynacomp.__file__).parent)
    done = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports",
                           "--no-site-packages",  # JAX's own types take mypy seven times as long
                           "--cache-dir", str(typed / "cache"), str(program)],
                          capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(typed), "PATH": ""})
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    meant = {i for i, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# ERROR")}
    assert wrong == meant, done.stdout + done.stderr
