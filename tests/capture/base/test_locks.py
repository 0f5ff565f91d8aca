"""`base.locks`: a forked child and a finalizer get the lock that another holds."""

import os
import signal
import threading

import pytest

from dynacomp.capture.base.locks import ForkedLock


@pytest.mark.filterwarnings("ignore")
def test_a_child_gets_the_lock_that_a_thread_of_its_parent_holds():
    lock, held, done = ForkedLock(), threading.Event(), threading.Event()

    def hold():
        with lock():
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        with lock():
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    holder.join()
    assert status == 0


@pytest.mark.filterwarnings("ignore")
def test_a_child_that_was_forked_inside_leaves_it():
    lock = ForkedLock()
    with lock():
        child = os.fork()
    if child == 0:
        with lock():
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_whoever_has_it_gets_it_again():
    lock = ForkedLock()
    with lock(), lock():
        assert not acquired_elsewhere(lock)
    assert acquired_elsewhere(lock)


def acquired_elsewhere(lock):
    found = []
    thread = threading.Thread(target=lambda: found.append(lock().acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]
