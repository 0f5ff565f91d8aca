"""`graph.size_evaluation`: what an expression of sizes is, in Python and as the postfix program of guards."""

import pytest

from dynacomp.capture.graph.size_evaluation import evaluate, postfix, run
from dynacomp.capture.graph.size_scope import Scope

SCOPE = Scope()
N, M = SCOPE.symbol("n", 8), SCOPE.symbol("m", 5)


@pytest.mark.parametrize("of", [
    lambda n, m: n * n - m, lambda n, m: 3 * n * m + 7, lambda n, m: (n + m) // 3, lambda n, m: n // m * m - n,
    lambda n, m: (n * n + 1) // (m + 2) * 4, lambda n, m: n % 3 + m, lambda n, m: -n * m * m, lambda n, m: n - n])
def test_both_are_pythons_arithmetic(of):
    expr = of(N, M)
    for n, m in ((8, 5), (1, 1), (17, 4), (64, 9)):
        assert evaluate(expr, {"n": n, "m": m}) == of(n, m) == run(postfix(expr), {"n": n, "m": m})


def test_numbers_and_what_is_not_known():
    assert evaluate(7, {}) == 7 and postfix(7) == (("int", 7),)
    assert evaluate(N + 1, {}) is None and evaluate((N + M) // 2, {"n": 3}) is None


def test_what_was_found_equal_to_others_has_their_value():
    scope = Scope()
    n, m = scope.symbol("n", 5), scope.symbol("m", 5)
    assert evaluate(m + 1, {"n": 3}) is None
    with scope.decides():
        assert n == m
    assert evaluate(m + 1, {"n": 3}) == 4 and evaluate((m + 7) // 2, {"n": 3}) == 5
