import builtins
from unittest import mock

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.tampered import NAMES, builtins_replaced


@pytest.mark.parametrize("name", ["len", "int", "isinstance", "KeyError", "next", "all", "map"])
def test_replaced_builtins_are_noticed(name):
    with mock.patch.dict(vars(builtins), {name: None}):
        there = builtins_replaced()
    assert there and not builtins_replaced()


def test_the_program_sees_its_own():
    @dynacomp.jit
    def f(x, items):
        return x * len(items)

    x, items, real = jnp.float32(3), [1, 2], len
    before = dynacomp.stats()["frames_eager"].get("builtins", 0)
    with mock.patch.object(builtins, "len", lambda xs: 7 if xs is items else real(xs)):
        assert float(f(x, items)) == 21
    assert dynacomp.stats()["frames_eager"]["builtins"] > before
    assert float(f(x, items)) == 6


def test_what_is_first_called_meanwhile_is_compiled_later():
    compiled = dynacomp.jit(lambda xs: [*xs, None])
    dynacomp.reset()
    with mock.patch.object(builtins, "int", mock.MagicMock()):
        assert compiled(["a"]) == ["a", None]
    assert [compiled([f"{n}"]) for n in range(9)] == [[f"{n}", None] for n in range(9)]
    told = dynacomp.stats()
    assert told["frames_captured"] <= 2 and told["frames_eager"] == {"builtins": 1}, told


def test_what_only_prints_may_be_replaced():
    assert "print" not in NAMES and "len" in NAMES
    with mock.patch.object(builtins, "print", lambda *args: None):
        assert not builtins_replaced()
