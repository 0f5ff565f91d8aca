"""Numbers that change and that a library asks something, while capture traces it: what `graph.answering` answers.

The number is known in this call: the answer is what Python says of it, and a guard, as it is where the program itself
compares (see `dynamic_scalars.decided`): one Graph serves all numbers of which it is the same. Only where a trace has
failed for want of an answer, for a comparison that stays an array needs none.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from jax._src.core import Tracer

from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.answering import Answering, answering
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import Value

Questions = Mapping[Any, tuple[Answering, ScalarV]]  # by Node, what stands there for which number


def asked(cap: Capture, found: Any, node: Any, questions: Questions) -> Any:
    """The tracer that a library is given for a Node, which answers if it is of a number that is asked."""
    if node not in questions or not isinstance(found, Tracer):
        return found
    target, value = questions[node]
    truths = target.truths

    def answer(expression: Any) -> bool:
        if expression not in truths:
            truths[expression] = _answer(cap, value, expression, {t.name: v for t, v in questions.values()})
        return truths[expression]

    return answering(found, answer, target.name)


def _answer(cap: Capture, value: ScalarV, expression: Any, numbers: Mapping[str, Value]) -> bool:
    """What Python says of an expression, guarded; NeedsConcrete where it might raise, or said something else too
    often."""
    try:
        found: Any = _value(numbers, expression)
        found = dynamic_scalars.as_bool(cap, found) if is_scalar(found) else found
        return dynamic_scalars.decided(cap, found) if is_scalar(found) else bool(found.value)
    except Break:
        raise NeedsConcrete(value) from None


def _value(numbers: Mapping[str, Value], expression: Any) -> Value:
    if type(expression) is not tuple:
        return numbers[expression] if type(expression) is str else Const(expression)
    name, left, right = expression
    found = dynamic_scalars.binary(getattr(operator, name), _value(numbers, left), _value(numbers, right))
    assert found is not None  # both are numbers
    return found
