"""Symbolic sizes as Python ints: arithmetic, and comparisons that become guards.

A `SizeV` pairs JAX's `_DimExpr` with the value in this call. Comparing two decides on the value at
hand and guards the answer: the entry serves all sizes for which the comparison comes out the same.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

from jax.errors import InconclusiveDimensionOperation

from dynacomp.capture.machine import Capture
from dynacomp.capture.values import Const, SizeV, Value

ARITHMETIC = {operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
              operator.iadd, operator.isub, operator.imul, operator.ifloordiv, operator.imod}
COMPARISONS = {operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
               operator.eq: "eq", operator.ne: "ne"}


def arithmetic(op: Any, a: Value, b: Value) -> Value | None:
    """`op` of two ints of which at least one is symbolic; None when it must be concrete."""
    if op not in ARITHMETIC or not (_is_int(a) and _is_int(b)):
        return None
    left, right = _expr(a), _expr(b)
    if op in (operator.floordiv, operator.mod, operator.ifloordiv, operator.imod) and _hint(b) <= 0:
        return None
    expr = op(left, right)
    return Const(expr) if isinstance(expr, int) else SizeV(expr, op(_hint(a), _hint(b)))


def compare(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """A comparison, decided by this call's sizes and guarded; None for other operands."""
    if op not in COMPARISONS or not (_is_int(a) and _is_int(b)):
        return None
    decided = _decided(op, _expr(a), _expr(b))
    if decided is not None:
        return Const(decided)
    answer = op(_hint(a), _hint(b))
    program = (*postfix(_expr(a)), *postfix(_expr(b)), (COMPARISONS[op],))
    cap.guards.add("size_check", None, program if answer else (*program, ("not",)))
    return Const(answer)


def _decided(op: Any, a: Any, b: Any) -> bool | None:
    """The answer where it is the same for all sizes that the entry serves; equality JAX only guesses."""
    if op in (operator.eq, operator.ne):
        return None
    try:
        return op(a, b)
    except InconclusiveDimensionOperation:
        return None


def bound(cap: Capture, name: str, least: int | None, greatest: int | None) -> None:
    """The entry serves these sizes only: guarded, and known to JAX, which decides comparisons by it."""
    for spelt, op, value in ((">=", "ge", least), ("<=", "le", greatest)):
        if value is not None and (name, op, value) not in cap.bounds:
            cap.bounds.add((name, op, value))
            cap.guards.add("size_check", None, (("size", name), ("int", value), (op,)))
            cap.scope._parse_and_process_explicit_constraint(f"{name} {spelt} {value}")
            cap.scope._bounds_cache.clear()


def concrete(cap: Capture, value: SizeV) -> Const:
    """The size as a plain int: from now on this entry serves this size only."""
    cap.guards.add("size_check", None, (*postfix(value.expr), ("int", value.hint), ("eq",)))
    return Const(value.hint)


def _is_int(v: Value) -> bool:
    return isinstance(v, SizeV) or (isinstance(v, Const) and type(v.value) is int)


def _expr(v: Any) -> Any:
    return v.expr if isinstance(v, SizeV) else v.value


def _hint(v: Any) -> int:
    return v.hint if isinstance(v, SizeV) else v.value


_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_CALLS = {"floordiv": "floordiv", "mod": "mod", "max": "max", "min": "min"}


def postfix(expr: Any) -> tuple[tuple[Any, ...], ...]:
    """A size expression as the postfix program that guards evaluate: ("size", name), ("int", n), ops."""
    if isinstance(expr, int):
        return (("int", expr),)
    return tuple(_walk(ast.parse(str(expr), mode="eval").body))


def _walk(node: ast.AST) -> list[tuple[Any, ...]]:
    if isinstance(node, ast.Constant):
        return [("int", node.value)]
    if isinstance(node, ast.Name):
        return [("size", node.id)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [("int", 0), *_walk(node.operand), ("sub",)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return [*_walk(node.left), *_power(node)]
    if isinstance(node, ast.BinOp):
        return [*_walk(node.left), *_walk(node.right), (_BINARY[type(node.op)],)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [*(step for a in node.args for step in _walk(a)), (_CALLS[node.func.id],)]
    raise ValueError(f"size expression {ast.unparse(node)!r} has no guard")


def _power(node: ast.BinOp) -> list[tuple[Any, ...]]:
    assert isinstance(node.right, ast.Constant) and isinstance(node.right.value, int)
    steps: list[tuple[Any, ...]] = []
    for _ in range(node.right.value - 1):
        steps += [*_walk(node.left), ("mul",)]
    return steps
