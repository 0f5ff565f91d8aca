"""The house rules that a machine can hold: who imports whom, no cycles, docstrings, nothing unfinished.

The law, from DESIGN.md: kernels and capture import nothing of ours; lowering the data types of
capture; codegen those of capture and lowering, and kernels; dynacomp may import all.
"""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parent.parent
LAW = {
    "kernels": set(),
    "capture": set(),
    "lowering": {"capture"},
    "codegen": {"capture", "lowering", "kernels"},
    "dynacomp": {"capture", "lowering", "codegen", "kernels"},
}
NATIVE = {"dynacomp.capture._native", "dynacomp.codegen._launch"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented yet)\b")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "dynacomp" else ("dynacomp", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(p): p for stage in LAW for p in sorted((ROOT / stage).rglob("*.py"))}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Each module, parsed: by the worker that runs these tests, not by each that collects them."""
    return {name: ast.parse(path.read_text(), str(path)) for name, path in FILES.items()}


def stage_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAW else "dynacomp"


def imported(name: str, node: ast.AST) -> list[str]:
    """The modules of ours that the import statement `node` in module `name` brings in."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    else:
        package = name.split(".") if FILES[name].name == "__init__.py" else name.split(".")[:-1]
        up = package[:len(package) - node.level + 1] if node.level else []
        base = ".".join([*up, *([node.module] if node.module else [])])
        inner = [f"{base}.{alias.name}" for alias in node.names]
        found = [i if i in FILES or i in NATIVE else base for i in inner]
    return [m for m in found if m.split(".")[0] == "dynacomp" and m != name]


def imports_in(name: str, root: ast.AST) -> list[tuple[str, int]]:
    return [(module, node.lineno) for node in ast.walk(root)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for module in imported(name, node)]


def functions(root: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(root) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_imports_keep_the_law_and_stand_at_the_top():
    against = [f"{FILES[name]}:{line}: {stage_of(name)} must not import {module}"
               for name, tree in trees().items() for module, line in imports_in(name, tree)
               if stage_of(module) != stage_of(name) and stage_of(module) not in LAW[stage_of(name)]]
    inside = [f"{FILES[name]}:{line}: {module} is imported inside {function.name}()"
              for name, tree in trees().items() for function in functions(tree)
              for module, line in imports_in(name, function)]
    assert not against + inside, "\n".join(against + inside)


def listed(stage: str) -> list[str]:
    """The rooms and modules of a stage, in the order that its `__init__` lists them."""
    return re.findall(r"^    (\w+)  ", ast.get_docstring(trees()[f"dynacomp.{stage}"], clean=False), re.M)


ROOMS = {stage: listed(stage) for stage in ("capture", "lowering", "codegen")}
ROOM = 20  # modules


@pytest.mark.parametrize("stage", ROOMS)
def test_the_map_of_a_stage_lists_its_rooms_and_modules(stage):
    there = {p.name for p in (ROOT / stage).iterdir() if (p / "__init__.py").exists()}
    there |= {p.stem for p in (ROOT / stage).glob("*.py")} - {"__init__"}
    assert set(ROOMS[stage]) == there and len(ROOMS[stage]) == len(there)


@pytest.mark.parametrize("folder", sorted({p.parent for p in FILES.values()}, key=str), ids=lambda p: p.name)
def test_a_room_lists_its_modules_and_is_small(folder):
    modules = {p.stem for p in folder.glob("*.py")} - {"__init__"}
    stage = folder.relative_to(ROOT).parts[0]
    assert len(modules) <= ROOM
    if folder.parent != ROOT:
        assert set(listed(module_name(folder / "__init__.py").removeprefix("dynacomp."))) == modules, stage


def test_every_folder_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {n for n, path in FILES.items() if path.name == "__init__.py"}
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("stage", [s for s in ROOMS if s != "codegen"])
def test_no_room_imports_upwards(stage):
    order = {f"dynacomp.{stage}.{room}": i for i, room in enumerate(ROOMS[stage])}
    room_of = lambda module: ".".join(module.split(".")[:3])
    upwards = [f"{FILES[name]}:{line}: {room_of(name)} must not import {module}"
               for name, tree in trees().items() if room_of(name) in order for module, line in imports_in(name, tree)
               if module not in NATIVE and order.get(room_of(module), 0) > order[room_of(name)]]
    assert not upwards, "\n".join(upwards)


def test_a_module_says_what_it_is_and_is_finished():
    silent = [str(FILES[name]) for name, tree in trees().items() if not ast.get_docstring(tree)]
    assert not silent, f"without a docstring: {silent}"
    unfinished = [f"{path}:{i}: {line}" for path in FILES.values()
                  for i, line in enumerate(path.read_text().splitlines(), 1) if UNFINISHED.search(line)]
    assert not unfinished, "\n".join(unfinished)


def handlers(*but: str) -> list[tuple[str, ast.ExceptHandler]]:
    """Every `except`, with its place."""
    return [(f"{FILES[name]}:{node.lineno}", node) for name, tree in trees().items() if name not in but
            for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]


def test_no_broad_except_is_silent():
    silent = [place for place, node in handlers()
              if _is_broad(node.type) and all(isinstance(s, (ast.Pass, ast.Continue)) for s in node.body)]
    assert not silent, f"these handlers swallow every error: {silent}"


def _is_broad(caught: ast.expr | None) -> bool:
    return caught is None or {"Exception", "BaseException"} & _caught(caught)


def _caught(caught: ast.expr) -> set[str]:
    """The names of the classes in an `except` clause, those in `ours(...)` too."""
    return {n.id for n in ast.walk(caught) if isinstance(n, ast.Name)}


def test_a_broad_except_is_for_ours_alone():
    """A signal handler's TimeoutError is an OSError and an Exception, and the program's: `capture.base.interrupts`."""
    broad = {"Exception", "BaseException", "OSError", "RuntimeError"}
    greedy = [place for place, node in handlers("dynacomp.capture.bytecode.drivers")
              if (node.type is None or broad & _caught(node.type))
              and not (isinstance(node.type, ast.Call) and ast.unparse(node.type.func) == "ours")
              and ast.unparse(node.body[-1]) != "raise"]
    assert not greedy, f"write `except ours(...)`: {greedy}"
    hidden = [f"{FILES[name]}:{node.lineno}" for name, tree in trees().items() for node in ast.walk(tree)
              if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress") and broad & _caught(node)]
    assert not hidden, f"write `with suppressing(...)`: {hidden}"


def test_no_cache_keeps_the_programs_objects_alive():
    """`functools.cache` on a class or a function would; `capture.base.remembered` does not."""
    kept = [f"{FILES[name]}:{f.lineno}: {f.name}" for name, tree in trees().items() for f in functions(tree)
            if {"functools.cache", "cache"} & {ast.unparse(d).split("(")[0] for d in f.decorator_list}
            for a in f.args.args if a.annotation
            and re.search(r"\btype\b|FunctionType|CodeType", ast.unparse(a.annotation))]
    assert not kept, f"use dynacomp.capture.base.remembered: {kept}"


def test_no_import_cycles():
    graph = networkx.DiGraph((name, module) for name, tree in trees().items()
                             for module, _ in imports_in(name, tree) if module in FILES)
    cycles = [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert not cycles


def test_the_stages_install_inside_dynacomp_only(tmp_path):
    stages = sorted(LAW.keys() - {"dynacomp"})
    program = f"""import importlib, importlib.util
for stage in {stages}:
    importlib.import_module(f"dynacomp.{{stage}}")
    print(stage, importlib.util.find_spec(stage))"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{stage} None" for stage in stages], done.stdout + done.stderr


def test_only_options_reads_the_environment():
    reads = re.compile(r"\b(os\.environ|getenv)\b")
    found = [str(path) for name, path in FILES.items()
             if name != "dynacomp.options" and reads.search(path.read_text())]
    assert not found, f"read the environment in dynacomp/options.py and pass Options on: {found}"


def test_jax_jit_is_bound_at_import():
    """A program may put `dynacomp.jit` in its place: what dynacomp itself compiles is not the program's."""
    late = {f"{name}:{node.lineno}" for name, tree in trees().items() for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "jax.jit"}
    assert not late


def test_no_text_is_evaluated():
    """Sizes are expression trees: no printed size, and no other expression, is read back by `eval`, or by SymPy."""
    found = [f"{name}:{node.lineno}" for name, tree in trees().items() for node in ast.walk(tree)
             if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                 "eval", "sympy.parse_expr", "sympy.S", "jax.export.symbolic_shape", "export.symbolic_shape")
             or isinstance(node, ast.Call) and ast.unparse(node.func) == "sympy.sympify" and isinstance(
                 node.args[0], (ast.Constant, ast.JoinedStr)) and type(getattr(node.args[0], "value", "")) is str]
    assert not found
