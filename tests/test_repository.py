"""What the README and the Makefile promise: the quickstart runs, the named targets and files exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dynacomp
from dynacomp import options

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.medium
def test_the_quickstart_does_what_its_comments_say(tmp_path):
    program = tmp_path / "quickstart.py"
    checks = "print(jnp.max(jnp.abs(w - jnp.arange(8.0))) < 0.05, dynacomp.stats()['graphs'] > 0)"
    program.write_text(re.search(r"```python\n(.*?)```", README, re.S).group(1) + checks)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                          env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d+ steps, loss", done.stdout) and done.stdout.endswith("True True\n"), done.stdout


def test_every_target_and_file_that_the_documents_name_exists():
    makefile = (ROOT / "Makefile").read_text()
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        for target in re.findall(r"\bmake ([a-z][a-z-]*)", text):
            assert re.search(rf"^{target}:", makefile, re.M), target
        folders = "examples|benchmarks|tests|dynacomp|capture|lowering|codegen|kernels"
        for file in re.findall(rf"\b((?:{folders})/[\w/]+\.(?:py|c|h))\b", text):
            assert (ROOT / file).exists(), file


def rows_of_things_to_add():
    """The table of CONTRIBUTING: what to add, what to write, an example, the commit that shows it."""
    told = (ROOT / "CONTRIBUTING.md").read_text().split("| to add |")[1].split("\n\n")[0]
    return [re.split(r" \| ", line.strip("| ")) for line in told.splitlines()[2:]]


def test_what_the_table_of_things_to_add_names_is_there():
    stages = ("dynacomp", "capture", "lowering", "codegen", "kernels")
    files = [path for stage in stages for kind in ("py", "c", "h") for path in (ROOT / stage).rglob(f"*.{kind}")]
    known = set(re.findall(r"\w+", "\n".join(path.read_text() for path in files)))
    rows = rows_of_things_to_add()
    assert len(rows) > 10
    for _, write, example, commit in rows:
        for place in re.findall(r"`([a-z_]+/[\w./]*)`", write + example):
            assert (ROOT / place).exists(), place
        for name in re.findall(r"`@?\"?(\w+)[^/`]*`", write.replace("MyV", "") + example):
            assert name in known or not name, name
        found = subprocess.run(["git", "cat-file", "-t", commit], cwd=ROOT, capture_output=True, text=True)
        assert found.stdout == "commit\n" or not has_history(), commit


def has_history():
    told = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    return told.stdout == "false\n"


def test_every_variable_and_option_is_in_the_readme():
    variables = re.findall(r"\| `([A-Z_]+)` \|", options.__doc__)
    assert {"DYNACOMP_LOG", "CXX"} <= set(variables)
    for name in (*variables, *options.TOPICS, *options.MODES, *options.Options.__dataclass_fields__):
        assert name in README, name


def test_every_name_that_the_readme_uses_is_public():
    for name in set(re.findall(r"\bdynacomp\.([a-z_]+)\(", README)):
        assert name in dynacomp.__all__, name


def test_pythons_lists_only_interpreters_that_work():
    done = subprocess.run([ROOT / ".ci" / "pythons"], capture_output=True, text=True, check=True)
    listed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in listed
    for version, python in listed.items():
        told = subprocess.run([python, "-V"], capture_output=True, text=True, check=True)
        assert told.stdout.startswith(f"Python {version}.")


def test_pythons_says_what_to_do_where_there_is_none(tmp_path):
    for tool in ("bash", "env", "ls"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    done = subprocess.run([ROOT / ".ci" / "pythons", "first"], capture_output=True, text=True,
                          env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode == 1 and "set PYTHON=" in done.stderr


@pytest.mark.parametrize("script", [".ci/run", ".ci/pythons"])
def test_scripts_parse_and_are_executable(script):
    subprocess.run(["bash", "-n", ROOT / script], check=True)
    assert os.access(ROOT / script, os.X_OK)
