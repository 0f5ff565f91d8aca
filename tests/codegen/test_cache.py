"""The on-disk cache under hostile conditions: each time the code still runs, with one notice."""

import logging
import os
import resource
import stat
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen import cache, scratch
from dynacomp.codegen.compiler import Compiler, find
from dynacomp.codegen.cpp import backend
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function
from tests.codegen.cpp_kit import softmax_schedule

X = jnp.array([[1.0, 2.0, 3.0]])


def run(folder, **options):
    plan = softmax_schedule()
    program = backend.compile(plan, plan.output_avals, {"cache_dir": folder, **options})
    np.testing.assert_allclose(program(X)[0].sum(), 1, rtol=1e-6)
    return program


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Nothing built earlier in this process or with the installation helps, and every notice is told again."""
    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "none")
    scratch.private_folder.cache_clear()


def notices(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "dynacomp"]


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    """Not even while the process lives: one that is killed cannot clean up."""
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    run(tmp_path / "cache")
    assert not list((tmp_path / "tmp").iterdir())


def test_second_time_comes_from_the_cache(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert not run(folder).cached
    assert run(folder).cached
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["truncate", "garble", "empty", "foreign_mode"])
def test_damaged_entries_are_built_again(tmp_path, damage):
    run(tmp_path)
    (library,) = tmp_path.glob("*.so")
    content = library.read_bytes()
    # A new file each time: the old one is mapped by this process.
    library.unlink()
    damaged = {"truncate": content[:1000], "garble": content[:-8] + b"damaged!", "empty": b""}
    library.write_bytes(damaged.get(damage, content))
    if damage == "foreign_mode":
        library.chmod(0o777)
    scratch.private_folder.cache_clear()
    assert not run(tmp_path).cached
    assert run(tmp_path).cached


def test_what_was_sealed_for_another_name_is_not_trusted(tmp_path):
    """A whole file of ours, copied over another: its code gives other answers."""
    mine, other = tmp_path / "a.so", tmp_path / "b.so"
    cache.publish(b"code", mine)
    assert (cache.content(mine), cache.verified(tmp_path, "a")) == (b"code", mine)
    other.write_bytes(mine.read_bytes())
    assert (cache.content(other), cache.verified(tmp_path, "b")) == (None, None)


def test_folder_that_is_a_file(tmp_path, caplog):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    with caplog.at_level(logging.WARNING, "dynacomp"):
        run(folder)
        scratch.private_folder.cache_clear()
        run(folder)
    assert len(set(notices(caplog))) == 1 and "cannot be used" in notices(caplog)[0]


def test_read_only_folder(tmp_path, caplog, monkeypatch):
    """Root may write anywhere, so the refusal comes from the call that makes files."""
    real = cache.tempfile.mkstemp

    def refuse(*args, **kwargs):
        if kwargs.get("dir") == tmp_path:
            raise PermissionError(13, "Permission denied")
        return real(*args, **kwargs)

    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    with caplog.at_level(logging.WARNING, "dynacomp"):
        run(tmp_path)
    assert "Permission denied" in notices(caplog)[0]


def test_full_disk(tmp_path):
    """With a file-size limit nothing can be kept; a notice says so and nothing half-written stays."""
    script = f"""
import resource, signal, sys
sys.path.insert(0, {os.getcwd()!r})
from dynacomp.codegen import cache
from tests.codegen import test_cache
real = cache.publish
def limited(*args):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    try:
        return real(*args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
cache.publish = limited
from pathlib import Path
test_cache.run(Path({str(tmp_path)!r}))
"""
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be used") == 1 and "File too large" in done.stderr
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.so"))


def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        cache.secure(tmp_path)


def test_open_folder_is_closed(tmp_path):
    tmp_path.chmod(0o777)
    cache.secure(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.slow
def test_many_processes_build_one_key(tmp_path):
    script = f"""
import sys
sys.path.insert(0, {os.getcwd()!r})
from pathlib import Path
from tests.codegen.test_cache import run
run(Path({str(tmp_path)!r}))
"""
    started = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(3)]
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    assert run(tmp_path).cached and not list(tmp_path.glob("*.part"))


PRODUCTS = (lambda x, w: jnp.tanh(x @ w), lambda x, w: jnp.sin(x @ w) + x.sum(), lambda x, w: (x @ w) @ w,
            lambda x, w: jnp.sort(x @ w))


def product(folder, fn, n=40, dtype="float32", **options):
    x, w = (jnp.linspace(-1, 1, m * n).reshape(m, n).astype(dtype) for m in (30, n))
    plan = schedule(lower_function(fn, x, w))
    program = backend.compile(plan, plan.output_avals, {"cache_dir": folder, **options})
    np.testing.assert_allclose(np.asarray(program(x, w)[0], float), np.asarray(fn(x, w), float), rtol=2e-2, atol=1e-2)
    return program


def test_a_template_is_compiled_once_for_all_that_call_it(tmp_path, monkeypatch):
    """One object for each set of types and each kind of numerics, whatever the program and its sizes."""
    made = []
    real = Compiler.build
    find(())

    def build(self, source, out, exact, jobs, parts, objects, *rest):
        made.append((len(parts), len(objects)))
        real(self, source, out, exact, jobs, parts, objects, *rest)

    monkeypatch.setattr(Compiler, "build", build)
    for n in (40, 48):
        for fn in PRODUCTS:
            assert not product(tmp_path, fn, n).cached
    assert made == [(1, 0), (0, 1), (0, 1), (1, 1), (0, 1), (0, 1), (0, 1), (0, 2)]
    product(tmp_path, PRODUCTS[0], numerics="exact")
    product(tmp_path, PRODUCTS[0], dtype="float16")
    assert made[8:] == [(1, 0), (1, 0)]
    assert len(list(tmp_path.glob("*.o"))) == 4


def test_damaged_objects_are_made_again(tmp_path):
    product(tmp_path, PRODUCTS[0])
    (object_file,) = tmp_path.glob("*.o")
    content = object_file.read_bytes()
    damages = (content[:1000], 0o600), (content[:-8] + b"damaged!", 0o600), (content, 0o777)  # of others, maybe
    for n, (damaged, mode) in zip((40, 48, 56), damages):
        object_file.write_bytes(damaged)
        object_file.chmod(mode)
        product(tmp_path, PRODUCTS[1], n)
        assert object_file.read_bytes() == content and not object_file.stat().st_mode & 0o022


def test_objects_serve_where_the_folder_cannot(tmp_path):
    """Then they last as long as the process."""
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    product(folder, PRODUCTS[0])
    product(folder, PRODUCTS[1])
    assert len(list(scratch.private_folder().glob("*.o"))) == 1
