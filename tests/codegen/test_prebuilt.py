"""What an installation has compiled ahead serves programs with an empty cache, and nothing else does."""

import subprocess

import jax.numpy as jnp
import pytest

from dynacomp.codegen import cache, compiler, prebuilt
from dynacomp.codegen.compiler import find
from dynacomp.codegen.toolchain import toolchain
from dynacomp.kernels import common
from dynacomp.kernels.templates import TEMPLATES
from tests.codegen.test_cache import PRODUCTS, product
from tests.codegen.test_toolchain import another_process

SORT = TEMPLATES["sort"].instances({}, (common.F32,))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An installation whose only template is sort's; what the compiler is run for from now on is in the list."""
    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setattr(prebuilt, "units", lambda: SORT)
    ran, real = [], compiler.run_together
    monkeypatch.setattr(compiler, "run_together", lambda all, *rest: (ran.extend(all), real(all, *rest))[1])
    another_process()
    assert prebuilt.main() == 0
    another_process()
    ran.clear()
    yield ran
    another_process()


def sort(folder):
    return product(folder, lambda x, w: jnp.sort(x, 1) + 1)


def test_a_program_of_an_empty_cache_finds_the_template_and_the_compiler(tmp_path, installed):
    sort(tmp_path / "cache")
    assert len(installed) == 1 and not list((tmp_path / "cache").glob("*.o"))
    product(tmp_path / "cache", PRODUCTS[0])
    assert len(list((tmp_path / "cache").glob("*.o"))) == 1


def test_nothing_is_made_twice_and_what_is_old_goes(tmp_path, installed, capsys):
    folder = tmp_path / "prebuilt"
    files = {f: f.stat().st_mtime_ns for f in folder.iterdir()}
    assert sorted(f.suffix for f in files) == ["", ".o", ".record"]
    assert prebuilt.build(folder) == 0 and {f: f.stat().st_mtime_ns for f in folder.iterdir()} == files
    (folder / "old.o").write_bytes(b"")
    (folder / "old").mkdir()
    (folder / "old" / cache.NOTE).write_bytes(b"")
    prebuilt.build(folder)
    assert set(folder.iterdir()) == set(files) and not installed


@pytest.mark.parametrize("damage", ["garble", "foreign_mode", "foreign_owner"])
def test_what_is_not_the_installations_own_is_not_used(tmp_path, installed, monkeypatch, damage):
    (file,) = (tmp_path / "prebuilt").glob("*.o")
    if damage == "garble":
        file.write_bytes(file.read_bytes()[:-8] + b"damaged!")
    elif damage == "foreign_mode":
        file.chmod(0o666)
    else:
        monkeypatch.setattr(cache, "HEADERS", tmp_path / "headers")
        (tmp_path / "headers").mkdir()
        real = cache.is_trusted
        monkeypatch.setattr(cache, "is_trusted", lambda f, owner=None: owner is None and real(f))
    sort(tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("*.o"))) == 1


def test_the_header_of_every_unit_is_parsed_already(tmp_path, installed):
    request = cache.Request("", False, toolchain((), tmp_path / "found"))
    ahead = cache.header_ahead(request, tmp_path / "prebuilt")
    if "clang" in request.compiler.version:
        assert ahead is None
        return
    sort(tmp_path / "cache")
    (command,) = installed
    assert f"-I{ahead}" in command
    unit = tmp_path / "unit.cc"
    unit.write_text('#include "unit.h"\n')
    done = subprocess.run([*request.compiler.arguments(tmp_path / "unit.o", ahead=ahead), "-c", "-H", str(unit)],
                          capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[0] == f"! {ahead / cache.PARSED}"  # "!": it is used
    assert cache.header_ahead(cache.Request("", True, request.compiler), tmp_path / "prebuilt") is None


@pytest.mark.parametrize("damage", ["cut off", "foreign_mode", "without a note", "refused"])
def test_a_parsed_header_that_cannot_be_used(tmp_path, installed, damage, caplog):
    request = cache.Request("", False, toolchain((), tmp_path / "found"))
    ahead = cache.header_ahead(request, tmp_path / "prebuilt")
    if ahead is None:
        pytest.skip("this compiler has none")
    file = ahead / cache.PARSED
    if damage == "foreign_mode":
        file.chmod(0o666)
    elif damage == "without a note":
        (ahead / cache.NOTE).unlink()
    else:
        file.write_bytes(file.read_bytes()[:1 << 20])
    if damage == "refused":  # what the note cannot tell
        (ahead / cache.NOTE).unlink()
        cache.publish(cache.note_of(ahead), ahead / cache.NOTE)
    assert (cache.header_ahead(request, tmp_path / "prebuilt") is None) == (damage != "refused")
    sort(tmp_path / "cache")
    sort(tmp_path / "another cache")
    tried = [f"-I{ahead}" in command for command in installed]
    assert tried == ([True, False, False] if damage == "refused" else [False, False])
    assert caplog.text.count("cannot be used") == (damage == "refused")


def test_templates_are_compiled_ahead_where_the_header_cannot_be(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise compiler.CompilerError("no such language: c++-header")

    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setattr(prebuilt, "units", lambda: SORT)
    monkeypatch.setattr(compiler.Compiler, "header", refuse)
    assert prebuilt.main() == 0 and len(list((tmp_path / "prebuilt").glob("*.o"))) == 1
    assert "clang" in find(()).version or "not parsed ahead: no such language" in capsys.readouterr().err


def test_another_compilers_are_others(tmp_path, installed):
    request = cache.Request("", False, find(()))
    other = compiler.Compiler(request.compiler.command, request.compiler.flags, "another version")
    names = [f"{cache.Request('', exact, c).key_of(SORT[0])}.o"
             for exact, c in ((False, request.compiler), (True, request.compiler), (False, other))]
    assert [cache.prebuilt(n) is not None for n in names] == [True, False, False]


def test_without_a_compiler_nothing_is_compiled_ahead(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prebuilt, "toolchain", lambda *_: find(("no-such-compiler",)))
    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "prebuilt")
    assert prebuilt.main() == 0 and "nothing is compiled ahead" in capsys.readouterr().err


def test_every_usual_unit_is_one_that_a_call_asks_for():
    assert len(common.units()) >= 10 and all(text.startswith("#include") for text in common.units())
    conv = TEMPLATES["conv"].instances(common.CONV, (common.F32,) * 3)
    assert len(conv) == 5 and set(conv) <= set(common.units())
