"""Temporary folders: gone with the block, and those of killed processes with the next one that needs a folder."""

import os
import signal
import subprocess
import sys

import pytest

from dynacomp.codegen import scratch


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    scratch._sweep.cache_clear()
    scratch.private_folder.cache_clear()
    yield tmp_path
    scratch._sweep.cache_clear()
    scratch.private_folder.cache_clear()


def worker(place):
    """A process that works in its two folders until it is told to end or killed."""
    program = f"""
import sys, tempfile
tempfile.tempdir = {str(place)!r}
from dynacomp.codegen.scratch import private_folder, scratch
with scratch() as folder:
    for own in (folder, private_folder()):
        (own / "file").write_text("half-done")
    print(flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process


def test_gone_with_the_block(place):
    with pytest.raises(KeyError), scratch.scratch() as folder:
        (folder / "file").write_text("x")
        raise KeyError
    assert not list(place.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next(place):
    dead, alive = worker(place), worker(place)
    for process in (dead, alive):
        process.stdout.readline()
    held = set(place.iterdir())
    assert len(held) == 4
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    with scratch.scratch() as mine:
        left = set(place.iterdir()) - {mine}
        assert len(left) == 2 and left < held and all(p.joinpath("file").exists() for p in left)
    alive.communicate()
    assert alive.returncode == 0 and not list(place.iterdir())


def test_other_folders_stay(place):
    others = {place / "dynacomp-notes", place / f"{scratch.PREFIX}of_mine_that_i_keep", place / "dynacomp-scratch"}
    for folder in others:
        folder.mkdir()
    (place / f"{scratch.PREFIX}abcd1234").symlink_to(place / "dynacomp-notes")
    with scratch.scratch():
        pass
    assert others < set(place.iterdir())


def test_a_forked_child_leaves_its_parents_folder(place):
    mine = scratch.private_folder()
    child = os.fork()
    if child == 0:
        os._exit(scratch.private_folder() == mine)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.exists() and scratch.private_folder() == mine
