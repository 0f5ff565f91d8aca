"""Ops that only move elements: each position of the result reads one of the operand, and nothing is computed."""

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax import lax

from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.rules.layout import LAYOUT, whole_steps
from dynacomp.lowering.sizes.symbols import symbol
from tests.lowering.closed import same_as_eager, scheduled

I = symbol("i")
X = np.arange(24, dtype=np.float32).reshape(4, 6)
MOVES = {
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x[:1], (3, 4, 6), (1, 2)),
    "reshape": lambda x: x.reshape(3, 8) + x.reshape(24)[:8],
    "transpose": lambda x: x.T.reshape(2, 3, 4).transpose(2, 0, 1),
    "slice": lambda x: x[1:4:2, ::3],
    "rev": lambda x: lax.rev(x, (0, 1)) + x[:, ::-1],
    "pad": lambda x: lax.pad(x, np.float32(7), [(1, 2, 0), (-1, 3, 2)]),
    "concatenate": lambda x: jnp.concatenate([x, x[:, :1] * 2, x[:, 2:]], 1),
    "iota": lambda x: x + lax.broadcasted_iota(np.float32, x.shape, 1),
}


def kernels(function, *args):
    return "".join(text(s.kernel) for s in scheduled(function, *args).steps)


@pytest.mark.parametrize("name", MOVES)
def test_moves(name):
    assert name in LAYOUT
    same_as_eager(MOVES[name], X)


@pytest.mark.parametrize(("low", "high", "inner"), [
    (0, 0, 0), (2, 0, 0), (0, 2, 0), (-1, -1, 0), (0, 0, 1), (1, 1, 2), (-2, 3, 1), (3, -2, 2)])
@pytest.mark.parametrize("n", [2, 5])
def test_paddings(low, high, inner, n):
    same_as_eager(lambda x: lax.pad(x, np.int32(-3), [(low, high, inner)]), np.arange(1, n + 1, dtype=np.int32))


def test_moves_that_compose_are_one_read():
    made = kernels(lambda x: x.T[::-1, 1:].T * 2, X)
    assert made.count("p0[") == 1 and "select" not in made and " if " not in made


def test_pads_ask_only_where_they_can_be_outside():
    asks = {name: kernels(lambda x, c=config: lax.pad(x, np.float32(0), c), X) for name, config in {
        "low": [(3, 0, 0), (0, 0, 0)], "high": [(0, 3, 0), (0, 0, 0)], "cut": [(-1, -1, 0), (0, 0, 0)]}.items()}
    assert "ge(" in asks["low"] and "lt(" not in asks["low"]
    assert "lt(" in asks["high"] and "ge(" not in asks["high"]
    assert " if " not in asks["cut"]


@pytest.mark.parametrize(("position", "step", "apart"), [
    (4 * I + 3, 4, (I, 3)), (4 * I + 9, 4, (I + 2, 1)), (4 * I - 1, 4, (I - 1, 3)), (8 * I, 4, (2 * I, 0)),
    (6 * I, 4, None), (I, 2, None)])
def test_positions_with_one_remainder(position, step, apart):
    assert whole_steps(sympy.expand(position), step) == apart


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32"])
def test_counted_positions_of_every_dtype(dtype):
    same_as_eager(lambda: lax.iota(dtype, 300))
    assert ("convert(" in kernels(lambda: lax.iota(dtype, 300))) == dtype.startswith("float")
