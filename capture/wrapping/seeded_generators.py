"""Generators of random numbers whose seeds, or the sizes that they are asked for, change from call to call.

A generator that was given its seed draws what the seed says: `np.random.default_rng(seed).normal(size=(n, 2))` is a
pure function of `seed` and `n`, which Python computes in each call, before the program runs (see `host_arrays`). Each
draw is a host expression of the state before, and gives the state behind it, too: a tuple that ends in a generator. Who
draws has a copy of that, so that a state stays what it is. Where seeds and sizes are constants, so are the numbers (see
`calls.c_objects`).

A generator that the call is given is in a state that changes from call to call, too: a copy of it draws, and that it
has been drawn from is an effect (see `calls.c_objects`).

    rng = np.random.default_rng(seed)    # state: started("default_rng", seed)
    order = rng.permutation(n)           # state: drawn(state, "permutation", n), of which `order` is the first part
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import random
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynacomp.capture.base.errors import Break
from dynacomp.capture.numbers import dynamic_scalars, host_arrays
from dynacomp.capture.numbers.applied import Applied, Given, arrays_in, written
from dynacomp.capture.numbers.host_arrays import part_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_made_array
from dynacomp.capture.values.standing import GivenGeneratorV, PrivateV
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import ndarrays

MAKERS: dict[str, Any] = {"Random": random.Random, "RandomState": np.random.RandomState,
                          "default_rng": np.random.default_rng}
GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)
OTHERS = {"VERSION", "bit_generator", "bytes", "get_state", "getstate", "randbytes", "seed", "set_state", "setstate",
          "spawn"}  # which draw no numbers
DRAWS = {name for cls in GENERATORS for name in dir(cls) if not name.startswith("_")} - OTHERS | {"_randbelow"}
RESULTS = (type(None), np.ndarray, int, float, str, list)
SEED = np.random.SeedSequence(0)
MOST_DRAWS = 64  # of one generator; behind those the graph breaks, and the generator is Python's


def made(cap: Capture, fn: Callable[..., Any], args: Sequence[Value], kwargs: dict[str, Value]) -> Value | None:
    """The generator that `fn` makes of a seed that changes; None of any other."""
    if fn is np.random.default_rng and [*map(type, args)] in ([PrivateV], [GivenGeneratorV]) and (
            type_of(args[0]) is np.random.Generator):
        return args[0]
    if fn not in MAKERS.values() or not (_changes(cap, args, kwargs) and are_taken(cap, args, kwargs)):
        return None
    call = host_arrays.Call(cap, started, list(args), kwargs, lambda v: ndarrays.plain(cap, v))
    call.args.insert(0, fn.__name__)
    given, named = _now(cap, args, kwargs)
    obj = ndarrays.computed(cap, lambda: fn(*given, **named), (*given, *named.values()), call)
    return PrivateV(type(obj), obj=obj, recipe=call.recipe())


def twin_of(value: GivenGeneratorV) -> PrivateV:
    """A generator in the state in which the call finds this one."""
    found = Applied(taken, [Given(0)], {})
    assert value.source is not None
    return PrivateV(type(value.obj), obj=copied(value.obj), recipe=S.Host(repr(found), (value.source,), found))


def draw(cap: Capture, value: PrivateV, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`value.name(*args)`, where the seed or an argument changes; None where all is known, and where Python's own code
    tells what a method does with things that are not known."""
    changes = value.recipe is not None or value.cls in GENERATORS and _changes(cap, args, kwargs)
    if not changes:
        return None
    in_place = name == "shuffle"
    few = value.recipe is None or value.recipe.size < MOST_DRAWS
    known = few and value.source is None and name in DRAWS and are_taken(cap, args, kwargs)
    if not known or in_place and not (args and is_made_array(args[0])):
        if isinstance(getattr(value.cls, name, None), types.FunctionType) and name in DRAWS and few and (
                in_place or not are_taken(cap, args, kwargs)):
            return None
        raise Break("leaves", f"{value.cls.__name__}.{name} of what changes from call to call")
    call = host_arrays.Call(cap, shuffled if in_place else drawn, args, kwargs, lambda v: ndarrays.plain(cap, v))
    state, own = _place(call, value), call.args
    call.args = [own[0], state, *own[1:]] if in_place else [state, name, *own]
    for data in call.data:
        ndarrays.known_data(cap, data, call.fn)
    generator = copied(value.obj)  # a draw that fails has not happened
    found = _computed(cap, call, getattr(generator, name), *_now(cap, args, kwargs))
    if type(found) not in RESULTS and not dynamic_scalars.is_numpy_number(found):
        raise Break("leaves", f"a {type(found).__name__} that is drawn anew in each call")
    behind = Applied(drawn, [state, name, *own], call.kwargs)
    recipe = S.Host(repr(behind), tuple(call.places), behind)
    result = Const(None) if found is None else call.parts(found, lambda array: ndarrays.of_array(
        cap, array if array.base is None else array.copy("K"), ndarrays.MAX_DATA), part_of(recipe, 0, found))
    value.obj, value.recipe = generator, recipe
    return result


def _computed(cap: Capture, call: host_arrays.Call, method: Callable[..., Any], given: list[Any],
              named: dict[str, Any]) -> Any:
    """What the method gives now; only the first argument of `shuffle` is written."""
    arrays = list(arrays_in((*given, *named.values())))
    changed = written(lambda *a, **k: getattr(copy.deepcopy(method.__self__), method.__name__)(*a, **k),  # type: ignore
                      given, named) if arrays else []
    if changed and call.fn is not shuffled:
        raise Break("leaves", f"{method.__name__} into an array, of what changes from call to call")
    owners = {id(ndarrays.owner_of(array)) for array in changed}
    return ndarrays.computed(cap, lambda: method(*given, **named), (*given, *named.values()), call, owners)


def _place(call: host_arrays.Call, value: PrivateV) -> Any:
    """The state of a generator as an argument of the call: one that changes, or one that is the same in all."""
    if value.recipe is None:
        return State(pickle.dumps(value.obj))
    return call.places.setdefault(value.recipe, Given(len(call.places)))


def _changes(cap: Capture, args: Sequence[Value], kwargs: dict[str, Value]) -> bool:
    return any(True for v in (*args, *kwargs.values()) for _ in host_arrays.changing(cap, v))


def are_taken(cap: Capture, args: Sequence[Value], kwargs: dict[str, Value]) -> bool:
    """Whether all are known before the program runs."""
    return all(ndarrays.takes(cap, v) for v in (*args, *kwargs.values()))


def _now(cap: Capture, args: Sequence[Value], kwargs: dict[str, Value]) -> tuple[list[Any], dict[str, Any]]:
    return [ndarrays.now(cap, v) for v in args], {k: ndarrays.now(cap, v) for k, v in kwargs.items()}


# --- what Python computes in each call


@dataclass(frozen=True)
class State:
    """A generator in a state that all calls find it in, as data."""

    pickled: bytes

    def __repr__(self) -> str:
        return f"state:{hashlib.sha256(self.pickled).hexdigest()[:16]}"


@dataclass(eq=False)
class Line:
    """A generator that is drawn from, with what it has been asked since its start."""

    start: Callable[[], Any]
    generator: Any = None
    log: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Moment:
    """The state of a line's generator behind so many draws. Who draws at the last of its moments moves the generator
    itself, which is nearly always so; at an earlier one, another does again what the log tells."""

    line: Line
    n: int = 0


def reached(state: Any) -> Line:
    """A line whose generator is in that state now."""
    if isinstance(state, State):
        return Line(lambda: pickle.loads(state.pickled), pickle.loads(state.pickled))
    line, n = state[-1].line, state[-1].n
    if len(line.log) != n or line.generator is None and n:
        line, log = Line(line.start), line.log[:n]
        line.generator = line.start()
        for name, args, kwargs in log:
            _asked(line, name, args, kwargs)
    elif line.generator is None:
        line.generator = line.start()
    return line


def _asked(line: Line, name: str, args: Any, kwargs: Any) -> Any:
    before = copy.deepcopy(args) if name == "shuffle" else args  # which changes them
    generator, line.generator = line.generator, None  # where it raises half-way, its state is none of the line's
    found = getattr(generator, name)(*args, **kwargs)
    line.generator = generator
    line.log.append((name, before, kwargs))
    return found


def started(maker: str, /, *args: Any, **kwargs: Any) -> tuple[Any]:
    """The state of a new generator."""
    line = Line(lambda: MAKERS[maker](*args, **kwargs))
    line.generator = line.start()
    return (Moment(line),)


def taken(generator: Any, /) -> tuple[Any]:
    """The state of one that exists, which stays in it."""
    state = snapshot(generator)
    line = Line(lambda: like(generator, state))
    line.generator = line.start()
    return (Moment(line),)


def moved(args: tuple[Any, Any], kwargs: dict[str, Any]) -> None:
    """Brings a generator that exists (the first) into the state to which the other has come."""
    generator, state = args
    restore(generator, snapshot(latest(state)))


def bits_of(generator: Any) -> Any:
    """What holds its state, and may be another's, too."""
    return getattr(generator, "_bit_generator", generator)


def drawn(state: Any, name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """What is drawn, and the state behind that."""
    line = reached(state)
    found = _asked(line, name, copy.deepcopy(args) if name == "shuffle" else args, kwargs)
    return found, Moment(line, len(line.log))  # what a shuffle changes is another expression's


def shuffled(array: Any, state: Any, /, *args: Any, **kwargs: Any) -> None:
    """In place: a copy, of which `Applied.changes` tells."""
    _asked(reached(state), "shuffle", (array, *args), kwargs)


def latest(state: Any) -> Any:
    """A generator in that state, for who only looks at it."""
    return reached(state).generator


def twin(state: Any) -> Any:
    """A generator of one's own in that state."""
    return copied(latest(state))


def whole(state: Any) -> Any:
    """The same for the program: one that spawns others as its own would."""
    return copy.deepcopy(latest(state))


def snapshot(generator: Any) -> Any:
    """Its state alone."""
    if type(generator) is random.Random:
        return generator.getstate()
    if type(generator) is np.random.Generator:
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def restore(generator: Any, state: Any) -> None:
    """Brings a generator into a state that `snapshot` gave."""
    if type(generator) is random.Random:
        generator.setstate(state)
    elif type(generator) is np.random.Generator:
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def like(generator: Any, state: Any) -> Any:
    """One in that state, and otherwise as `generator` is."""
    if type(generator) is random.Random:
        made: Any = random.Random(0)
    else:
        bits = generator._bit_generator
        made = type(generator)(type(bits)(SEED if bits.seed_seq is None else bits.seed_seq))
    restore(made, state)
    return made


def copied(generator: Any) -> Any:
    """Another that draws the same, in a part of `copy.deepcopy`'s time."""
    return like(generator, snapshot(generator))
