"""Where in a frame something lies, and what follows from it behind a graph break."""

import doctest

import jax.numpy as jnp

import dynacomp
from dynacomp.capture.values.sources import At, Attr, Closure, Global, Item, Local
from dynacomp.driver import frame_places

ROWS = Local(0, "rows")
CELLS = ("seen",)


def test_the_examples():
    shown = {"Item": Item, "Attr": Attr, "Local": Local, "Closure": Closure, **vars(frame_places)}
    assert not doctest.testmod(frame_places, extraglobs=shown).failed


def test_under_a_key_that_changes_in_a_container_of_the_frame():
    key = Local(1, "key")
    held = At("at", (ROWS, key), None)
    assert frame_places.under_a_key(Item(held, 0), CELLS)
    assert frame_places.under_a_key(At("at", (Closure(0, "seen"), key), None), CELLS)
    assert not frame_places.under_a_key(At("at", (Closure(0, "seen"), key), None), ())
    assert not frame_places.under_a_key(At("at", (Attr(ROWS, "held"), key), None), CELLS)
    assert not frame_places.under_a_key(Item(ROWS, 0), CELLS)
    assert not frame_places.under_a_size(held)


def test_numbers_in_cells_that_a_broken_frame_has_filled_are_inputs():
    def program(x, n):
        rate = n * 0.5 + float(x.sum())
        return (lambda v: v * rate)(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    captured = []
    for n in range(10):
        assert repr(compiled(jnp.arange(3.0), n)) == repr(program(jnp.arange(3.0), n))
        captured.append(dynacomp.stats()["frames_captured"])
    assert captured[3] == captured[9] and not dynacomp.stats()["frames_eager"]


def test_what_a_program_keeps():
    assert frame_places.kept(Attr(Global("MODEL"), "seen")) and not frame_places.kept(Item(Global("MODEL"), 0))
    assert not frame_places.kept(ROWS)
