"""Temporary folders: gone with the block, and those of killed processes with the next one that needs a folder."""

import atexit
import multiprocessing
import os

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


def work(told):
    """What a process does that works in its two folders until it is told to end, or killed."""
    atexit._clear()  # what this process clears up when it ends
    with scratch.scratch() as folder:
        for own in (folder, scratch.private_folder()):
            (own / "file").write_text("half-done")
        told.send("works")
        told.recv()
    atexit._run_exitfuncs()


def worker():
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=work, args=(there,))
    process.start()
    assert here.recv() == "works"
    return process, here


def test_gone_with_the_block(place):
    with pytest.raises(KeyError), scratch.scratch() as folder:
        (folder / "file").write_text("x")
        raise KeyError
    assert not list(place.iterdir())


@pytest.mark.filterwarnings("ignore")  # JAX warns of forks
def test_what_a_killed_process_left_is_removed_by_the_next(place):
    (dead, _), (alive, told) = worker(), worker()
    held = set(place.iterdir())
    assert len(held) == 4
    dead.kill()
    dead.join()
    with scratch.scratch() as mine:
        left = set(place.iterdir()) - {mine}
        assert len(left) == 2 and left < held and all(p.joinpath("file").exists() for p in left)
    told.send("end")
    alive.join()
    assert alive.exitcode == 0 and not list(place.iterdir())


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
