"""Numbers of Python's that a library asks something while JAX traces it: `if self.rate == 0.0`.

An array stands in a Graph for a number that changes from call to call, and under a trace that cannot say. Where capture
has found that it is asked, a node `Answering` stands between the two: what it gives JAX's tracers compares as the
number does, and so does what Python's arithmetic makes of it and of plain numbers. The answers are those that capture
has given, and guards. Arrays answer for themselves.

    >>> import jax
    >>> number = Answering("t", {("gt", "t", 0.5): True})
    >>> jax.make_jaxpr(lambda t: t * 2 if number(t) > 0.5 else t)(0.7)
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from jax._src.core import Tracer

PLAIN = (int, float, bool)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
Expression = Any  # a number's name, a plain number, or (operator, left, right) of such
Asked = Callable[[Expression], bool | None]


class Answering:
    """The target of a node. name: the number's, in expressions. truths: what capture has answered, by what was asked:
    (operator, left, right), or an expression whose own truth was wanted."""

    __name__ = "answering"

    def __init__(self, name: str, truths: dict[Expression, bool] | None = None) -> None:
        self.name, self.truths = name, {} if truths is None else truths

    def __call__(self, number: Any) -> Any:
        return answering(number, self.truths.get, self.name) if isinstance(number, Tracer) else number


def answering(tracer: Any, asked: Asked, expression: Expression) -> Any:
    """A tracer of the same array that has what it compares decided by `asked`, which may give None: then it is left to
    JAX."""
    cls = _class(type(tracer))  # type: ignore[arg-type]
    made = object.__new__(cls)
    for base in cls.__mro__[1:]:
        for name in vars(base).get("__slots__", ()):
            if name != "__weakref__" and hasattr(tracer, name):
                setattr(made, name, getattr(tracer, name))
    vars(made).update(getattr(tracer, "__dict__", {})) if hasattr(made, "__dict__") else None
    made._asked, made._expression = asked, expression
    return made


@functools.cache
def _class(base: Any) -> Any:
    """A class of tracers that answer, as these are otherwise."""
    table: dict[str, Any] = {"__slots__": ("_asked", "_expression"), "__hash__": None, "__bool__": _truth(base)}
    table |= {name: _comparison(op, getattr(base, name)) for op in COMPARISONS for name in [f"__{op.__name__}__"]}
    for op in ARITHMETIC:
        table |= {name: _arithmetic(op, getattr(base, name), swapped=name.startswith("__r"))
                  for name in (f"__{op.__name__}__", f"__r{op.__name__}__")}
    return type(base)(f"Answering{base.__name__}", (base,), table)


def _expression(other: Any) -> Expression | None:
    """What stands for an operand in an expression; None where that is no number that is known."""
    return other if type(other) in PLAIN else getattr(other, "_expression", None) if isinstance(other, Tracer) else None


def _truth(base: Any) -> Callable[[Any], bool]:
    def truth(self: Any) -> bool:
        answer = self._asked(self._expression)
        return base.__bool__(self) if answer is None else answer  # type: ignore[no-any-return]

    return truth


def _comparison(op: Any, plain: Any) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        known = _expression(other)
        answer = None if known is None else self._asked((op.__name__, self._expression, known))
        return plain(self, other) if answer is None else answer

    return compare


def _arithmetic(op: Any, plain: Any, swapped: bool) -> Callable[[Any, Any], Any]:
    def compute(self: Any, other: Any) -> Any:
        result, known = plain(self, other), _expression(other)
        if known is None or not isinstance(result, Tracer):
            return result
        pair = (known, self._expression) if swapped else (self._expression, known)
        return answering(result, self._asked, (op.__name__, *pair))

    return compute
