"""`lowering.sizes.dims`: JAX's symbolic sizes and SymPy's mean the same."""

from __future__ import annotations

import pytest
import sympy

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.lowering.sizes.dims import SymbolicShapeError, map_dims, read_sizes, substitute, to_size, to_sympy
from dynacomp.lowering.sizes.symbols import size

SCOPE = Scope()
N, M = SCOPE.symbol("N", 7), SCOPE.symbol("m", 3)
EXPRESSIONS = [N, 3 * N, N * M + 1, N**2 - M, N // 2, (N + M) // 3, N % 4, (N * M) % (M + 1),
               2 * (N // 2) - N + 5, 1 // (5 + N % 4), -1 // (5 + N % 4), (M - N) // (1 + N % 2)]


@pytest.mark.parametrize("dim", EXPRESSIONS, ids=str)
def test_values_agree(dim):
    expr = to_sympy(dim)
    for n, m in ((1, 1), (7, 3), (12, 5)):
        sizes = {"N": n, "m": m}
        assert substitute(expr, sizes) == substitute(dim, sizes) == evaluate(dim, sizes)


@pytest.mark.parametrize("dim", EXPRESSIONS, ids=str)
def test_there_and_back(dim):
    assert to_sympy(to_size(to_sympy(dim), SCOPE)) == to_sympy(dim)


def test_names_that_sympy_knows_are_symbols_here():
    assert to_sympy(N) == size("N") and to_sympy(SCOPE.symbol("S", 4)) == size("S")


def test_ints_stay_ints():
    assert to_sympy(4) == 4 and type(to_sympy(4)) is int and type(to_size(4, SCOPE)) is int
    assert type(substitute(3 * size("k"), {"k": 2})) is int
    assert not is_symbolic(4) and not is_symbolic(size("k")) and is_symbolic(N)


def test_fractions_are_no_sizes():
    with pytest.raises(SymbolicShapeError, match="no polynomial"):
        to_size(sympy.sqrt(size("k")), SCOPE)


def test_parameters():
    params = {"shape": (N, 2, [M]), "mode": "clip", "none": None}
    assert map_dims(params, to_sympy) == {"shape": (size("N"), 2, [size("m")]), "mode": "clip", "none": None}


def test_sizes_are_read_off_shapes():
    avals = [Aval((size("a") * 2, size("b")), None), Aval((size("a"),), None)]
    assert read_sizes(avals, [(6, 5), (3,)]) == {"a": 3, "b": 5}
