"""`graph.size_evaluation`: what an expression of sizes is, in Python and as the postfix program of guards."""

import operator

import pytest

from dynacomp.capture.graph.size_evaluation import evaluate, postfix
from dynacomp.capture.graph.size_scope import Scope

SCOPE = Scope()
N, M = SCOPE.symbol("n", 8), SCOPE.symbol("m", 5)
OPERATORS = {"add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
             "min": min, "max": max}


def run(program, values):
    """The postfix program on a stack, as `guard_sizes.c` runs it."""
    stack = []
    for step in program:
        if isinstance(step, tuple):
            stack.append(values[step[1]] if step[0] == "size" else step[1])
        else:
            right = stack.pop()
            stack.append(OPERATORS[step](stack.pop(), right))
    assert len(stack) == 1
    return stack[0]


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
