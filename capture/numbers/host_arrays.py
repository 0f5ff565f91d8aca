"""NumPy arrays made of numbers that change: NumPy computes them in each call, before the program runs.

`np.arange(n) / n` of a symbolic size is an `NdArrayV` with a recipe: a host expression (`sources.Host`) that guards
and replacement code evaluate, as they do for numbers (see `host_functions`). The capture has this call's array, so
that NumPy says itself what it makes of it; dtype and rank are guarded, the shape is made of symbolic sizes of its own.
What is stored into such an array is part of its recipe from then on. JAX gets it as an input of the Graph.

Where something needs the content while capturing (iteration, a view that is written, a view that leaves the call),
the numbers become constants as ever: `must_be_known`.

A NumPy array that the call is given (`given_arrays`) may be an argument of such a recipe like a number: `xb / 255.0`
and `table[labels]` are computed in each call, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeGuard

import jax
import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.sizes import canonical, is_symbolic
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.applied import FIRST, Applied, Given, quiet_below
from dynacomp.capture.numbers.given_arrays import is_data
from dynacomp.capture.numbers.graph_inputs import add_input, symbolic_dims
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NdArrayV, NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.questions import is_made_array, is_scalar, is_size
from dynacomp.capture.values.value import Value, children

MOST = 16  # numbers and arrays that one recipe is made of, see `_native/guard_numbers.c`


# --- what changes


def is_hosted(value: Any) -> TypeGuard[NdArrayV]:
    """Whether `value` is an array that NumPy makes in each call."""
    return is_made_array(value) and value.recipe is not None


def changing(cap: Capture, value: Value) -> Iterator[Value]:
    """The numbers and arrays in it that change from call to call."""
    value = cap.realize(value)
    if kind(value).rebuild is not None:
        for item in children(value):
            yield from changing(cap, item)
    elif is_number(value) or is_hosted(value) or is_data(cap, value):
        yield value


def is_number(value: Value) -> bool:
    """A number that changes, or a list of such (see `given_lists`)."""
    if is_size(value):
        return is_symbolic(canonical(value.expr))
    return is_scalar(value) and (
        type(value.hint) in (int, float, bool, list) or dynamic_scalars.is_numpy_number(value.hint))


def must_be_known(value: Value) -> None:
    """Its content is needed while capturing: what it is made of becomes constants, in the next attempt."""
    if is_hosted(value):
        raise NeedsConcrete(ScalarV(None, source=value.recipe))


class Call:
    """A call of NumPy's with things that change among its arguments. `constant` gives the others as they are."""

    def __init__(self, cap: Capture, fn: Callable[..., Any], args: list[Value], kwargs: dict[str, Value],
                 constant: Callable[[Value], Any]) -> None:
        self.cap, self.fn, self.constant = cap, fn, constant
        self.places: dict[S.Source, Given] = {}
        self.data: list[ArrayV] = []
        self.constants: list[int] = []  # which arrays of this capture are copied as they are
        self.stored = False  # whether it writes into one
        self.first: Any = cap.realize(args[0]) if args else None
        self.args, self.kwargs = [self.tree(v) for v in args], {k: self.tree(v) for k, v in kwargs.items()}
        if len(self.places) > MOST:
            self.refuse()

    def tree(self, value: Value) -> Any:
        """A Value as part of the recipe: constants are copied."""
        value = self.cap.realize(value)
        rebuild = kind(value).rebuild
        if rebuild is not None:
            return rebuild(value, [self.tree(v) for v in children(value)])
        if is_number(value) or is_hosted(value):
            source = value.recipe if is_made_array(value) else self.asked(as_scalar(self.cap, value).source)
            return self.places.setdefault(source, Given(len(self.places)))  # type: ignore[arg-type]
        if is_data(self.cap, value):
            return self.of_data(value)  # type: ignore[arg-type]
        self.constants.append(id(value))
        found = self.constant(value)
        return found.copy() if isinstance(found, np.ndarray) else found

    def of_data(self, value: ArrayV) -> Given:
        assert value.source is not None
        self.data.append(value)
        self.cap.numbers.changing[value.source] = value.real
        return self.places.setdefault(value.source, Given(len(self.places)))

    def asked(self, source: Any) -> Any:
        """The same number as guards may ask for it: see `dynamic_scalars.strict`."""
        try:
            return dynamic_scalars.strict(self.cap, source)[0]
        except ArithmeticError:
            raise NeedsConcrete(ScalarV(None, source=source)) from None

    def recipe(self, **how: Any) -> S.Host:
        made = Applied(self.fn, self.args, self.kwargs, **how)
        return S.Host(repr(made), tuple(self.places), made)

    def refuse(self) -> NoReturn:
        """It is made of constants, in the next attempt; Python makes it, where it is made of data."""
        raise NeedsConcrete(ScalarV(None, source=S.Host("numpy", tuple(self.places), self.fn)))

    def result(self, found: Any, of_array: Callable[[Any], Any]) -> Value:
        """The Value of what it returned; `of_array` makes that of an array."""
        if type(found) in (tuple, list):
            if any(np.shape(v.real)[:1] == (len(found),) and self.cap.root.policy.changes_often(S.Dim(v.source, 0))
                   for v in self.data if v.source is not None):
                self.refuse()  # it has as many parts as the data has rows, another number in each call
            return self.parts(found, of_array, self.recipe())
        return Const(None) if found is None else self.part(found, of_array, self.recipe(quiet_below=quiet_below(found)))

    def parts(self, found: Any, of_array: Callable[[Any], Any], whole: S.Host) -> Value:
        """The Value of what is at `whole`, or of a tuple or list with so many parts."""
        if type(found) not in (tuple, list):
            return self.part(found, of_array, whole)
        self.cap.guards.add("eq", S.Host("parts", (whole,), len), len(found))
        parts = [self.part(x, of_array, part_of(whole, i, x)) for i, x in enumerate(found)]
        return TupleV(parts) if type(found) is tuple else ListV(parts)

    def part(self, found: Any, of_array: Callable[[Any], Any], recipe: S.Host) -> Value:
        if type(found) is np.ndarray:
            if id(found) in self.cap.known.ndarrays:
                return self.cap.known.ndarrays[id(found)]
            value = of_array(found)
            value.recipe = recipe
            self.cap.guards.add("ndarray", recipe, (None,) * found.ndim, found.dtype)
            return value
        if type(found) in (int, float, bool, str) or dynamic_scalars.is_numpy_number(found):
            self.cap.guards.add("is_type", recipe, type(found))
            return size_values.counted(self.cap, ScalarV(found, source=recipe))  # type: ignore[return-value]
        self.refuse()

    def store(self, value: Any) -> None:
        """The call writes into the array `value`: that is part of what `value` is from then on."""
        place = self.place_of(value)
        if place is None or self.stored or value.base is not None or is_viewed(self.cap, value) or self.cap.bodies:
            self.refuse()
        self.stored = True
        value.recipe = self.recipe(changes=place)
        self.cap.guards.add("ndarray", value.recipe, (None,) * value.array.ndim, value.array.dtype)


    def place_of(self, value: Any) -> int | None:
        """Which of the things that change `value` is, an array of this capture; FIRST, where it is the first argument,
        made of constants so far, and stands nowhere else."""
        if not is_made_array(value) or value.recipe is not None:
            given = self.places.get(value.recipe) if is_made_array(value) else None  # type: ignore[arg-type]
            return given.index if given is not None else None
        return FIRST if value is self.first and self.constants.count(id(value)) == 1 else None


def part_of(whole: S.Host, i: int, found: Any) -> S.Host:
    """One of several results."""
    taken = Applied(operator.getitem, (Given(0), i), {}, quiet_below=quiet_below(found))
    return S.Host(repr(taken), (whole,), taken)


def is_viewed(cap: Capture, value: NdArrayV) -> bool:
    """Whether another array shows its memory."""
    return any(is_made_array(other) and other.base is value for other in cap.known.ndarrays.values())


# --- what is asked of them


def dims(cap: Capture, value: NdArrayV) -> list[Value]:
    """The sizes of an array with a recipe."""
    assert value.recipe is not None
    return [size_values.of_expr(cap, d) for d in _shape(cap, value)]


def _shape(cap: Capture, value: NdArrayV) -> tuple[Any, ...]:
    assert value.recipe is not None
    shape = symbolic_dims(cap, value.array, value.recipe)
    cap.guards.add("ndarray", value.recipe, tuple(d if isinstance(d, int) else None for d in shape),
                   value.array.dtype)
    cap.sizes.real_shapes[value.recipe] = value.array.shape
    return shape


def length(cap: Capture, value: NdArrayV) -> int:
    """How many parts it has along its first axis: from now on this entry serves this number of parts only."""
    return size_values.known(cap, dims(cap, value)[0]).value


def attribute(cap: Capture, value: NdArrayV, name: str) -> Value | None:
    """What its recipe says of it without its content; None for any other attribute."""
    if name == "shape":
        return TupleV(dims(cap, value))
    if name in ("size", "nbytes"):
        each = value.array.itemsize if name == "nbytes" else 1
        return size_values.of_expr(cap, math.prod(_shape(cap, value), start=each))
    return Const(getattr(value.array, name)) if name in ("ndim", "dtype", "itemsize") else None


def node(cap: Capture, value: NdArrayV) -> Any:
    """The input of the Graph that brings it there, as JAX takes NumPy arrays."""
    assert value.recipe is not None
    known = cap.numbers.scalar_nodes.get(value.recipe)
    if known is None:
        aval = Aval(_shape(cap, value), jax.dtypes.canonicalize_dtype(value.array.dtype))
        known = cap.numbers.scalar_nodes[value.recipe] = add_input(cap, value.recipe, aval)
    return known
