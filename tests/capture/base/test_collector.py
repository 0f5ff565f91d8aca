"""collector: the garbage collector looks seldom while a frame is captured, and as before afterwards."""

import gc

import jax.numpy as jnp

import dynacomp
from dynacomp.capture.base.collector import YOUNG, seldom_collecting
from dynacomp.driver import pipeline


def test_thresholds_come_back():
    before = gc.get_threshold()
    with seldom_collecting():
        assert gc.get_threshold() == (YOUNG, *before[1:])
        with seldom_collecting():  # a capture in another thread
            pass
        assert gc.get_threshold() == (YOUNG, *before[1:])
    assert gc.get_threshold() == before
    assert dynacomp.jit(lambda x: x + 1)(jnp.float32(1)) == 2 and gc.get_threshold() == before


def test_what_the_program_sets_stays():
    before = gc.get_threshold()
    try:
        for own in ((0, 10, 10), (2 * YOUNG, 5, 5)):
            gc.set_threshold(*own)
            with seldom_collecting():
                assert gc.get_threshold() == own
        gc.set_threshold(*before)
        with seldom_collecting():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)


def test_compiling_is_covered(monkeypatch):
    seen, plain = [], pipeline.lower

    def lower(graph):
        seen.append(gc.get_threshold()[0])
        return plain(graph)

    monkeypatch.setattr(pipeline, "lower", lower)
    assert dynacomp.jit(lambda x: x * 3)(jnp.float32(1)) == 3 and seen == [YOUNG]
