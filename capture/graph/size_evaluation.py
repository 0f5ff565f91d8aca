"""The value of a size: evaluated in Python, and as the postfix program that guards run.

    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> scope = Scope()
    >>> n, m = scope.symbol("n", 8), scope.symbol("m", 5)
    >>> evaluate(n * n - m, {"n": 3, "m": 2})
    7
    >>> postfix(n - 1)
    (('int', -1), ('size', 'n'), 'add')
    >>> run(postfix(n - 1), {"n": 3})
    2
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from dynacomp.capture.graph.sizes import EXTREMES, FLOORDIV, SYMBOL, Atom, Expr, Size


def evaluate(expr: Expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression; None where a symbol has none. One that was found equal to others, for which they
    stand in what was made since, has theirs: JAX's caches keep what was traced before."""
    if type(expr) is not Size:
        return expr
    total = 0
    for mono, k in expr.terms:
        for atom, power in mono:
            found = _evaluate_atom(expr.scope, atom, values)
            if found is None:
                return None
            k = k * found ** power
        total = total + k
    return total


def _evaluate_atom(scope: Any, atom: Atom, values: Mapping[str, Any]) -> Any:
    if atom.op == SYMBOL:
        found = values.get(atom.args[0])
        return evaluate(scope.equal[atom], values) if found is None and atom in scope.equal else found
    a, b = (evaluate(x, values) for x in atom.args)
    if a is None or b is None:
        return None
    return a // b if atom.op == FLOORDIV else EXTREMES[atom.op](a, b)


def postfix(expr: Expr) -> tuple[Any, ...]:
    """An expression as the postfix program that guards evaluate: ("size", name), ("int", n), operators."""
    if type(expr) is not Size:
        return (("int", expr),)
    steps: list[Any] = []
    for place, (mono, k) in enumerate(expr.terms):
        factors: list[tuple[Any, ...]] = [_postfix_atom(atom) for atom, power in mono for _ in range(power)]
        if k != 1 or not factors:
            factors.append((("int", k),))
        for i, factor in enumerate(factors):
            steps += [*factor, "mul"] if i else factor
        steps += ["add"] if place else []
    return tuple(steps)


def _postfix_atom(atom: Atom) -> tuple[Any, ...]:
    if atom.op == SYMBOL:
        return (("size", atom.args[0]),)
    return (*postfix(atom.args[0]), *postfix(atom.args[1]), atom.op)


def run(program: tuple[Any, ...], values: Mapping[str, int]) -> int:
    """The value of a postfix program, which is data: no Scope goes with it to another process."""
    stack: list[int] = []
    for step in program:
        if type(step) is tuple:
            stack.append(values[step[1]] if step[0] == SYMBOL else step[1])
        else:
            last = stack.pop()
            stack.append(OPERATORS[step](stack.pop(), last))
    return stack.pop()


OPERATORS = {"add": operator.add, "mul": operator.mul, FLOORDIV: operator.floordiv, **EXTREMES}
