"""Objects of classes in C that the captured code makes of constants: generators of random numbers, byte arrays, text
streams, locks.

What such an object does depends on nothing but what it was made of and what was done to it since. The capture has
one of its own (`PrivateV.obj`) and has Python do to it, at once, whatever the program does: no behaviour of these
classes is told here. Where the object leaves (it is returned, stored, alive at a break) replacement code makes a
copy of it for each call. An object that existed before, or is given what is not known, is Python's, as ever; but a
generator of NumPy that captured code seeds is known from there on, and has its state set when that code ends; so has
one that is drawn from; and one that it makes may have a seed that changes (see `seeded_generators`).

    noise = np.random.RandomState(0).randn(8)      # a constant of the Graph
    text = io.StringIO(); text.write("a")          # no graph break

A class is one row of `CLASSES`.
"""

from __future__ import annotations

import array
import copy
import hashlib
import io
import random
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from dynacomp.capture import _native
from dynacomp.capture.arithmetic.operators import CONTAINER_OPS
from dynacomp.capture.base.classes import has_dict, own_dict
from dynacomp.capture.base.errors import Break, Unbuildable
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bytecode.resume import original_of
from dynacomp.capture.calls.calls import BUILTIN_METHODS, BUILTINS
from dynacomp.capture.calls.instances import instantiate
from dynacomp.capture.kinds.attrs import CYTHON
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.reconstruct.emit_sources import load_source
from dynacomp.capture.reconstruct.runtime import Kept
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.constant import Const, is_known_literal
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.iterators import StreamV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.questions import is_list, is_opaque, is_size
from dynacomp.capture.values.standing import GivenGeneratorV, PrivateV, StateV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping import ndarrays, seeded_generators
from dynacomp.capture.wrapping.builder import WRAPPERS, opaque, remember, wrap
from dynacomp.capture.wrapping.class_attrs import MISSING, lookup
from dynacomp.capture.wrapping.constants import from_python


@dataclass(frozen=True)
class ClassInC:
    """How objects of a class are treated. makers: callables that make one. known: whether these arguments alone say
    what it will be. copy: gives another object in the same state. attributes: names of data."""

    makers: tuple[Any, ...]
    copy: Callable[[Any], Any]
    known: Callable[..., bool] = lambda *args, **kwargs: True
    attributes: tuple[str, ...] = ()


def _seeded(*args: Any, **kwargs: Any) -> bool:
    """Whether a generator of random numbers is given its seed: else it asks the system for one."""
    seeds = [*args, *kwargs.values()]
    return bool(seeds) and seeds[0] is not None


def _stream(stream: Any) -> Any:
    made = type(stream)()
    if stream.closed:
        made.close()
    else:
        made.__setstate__(stream.__getstate__())
    return made


def _random_state(generator: Any) -> Any:
    made = random.Random(0)
    made.setstate(generator.getstate())
    return made


def _lock(lock: Any) -> Any:
    made = threading.Lock()
    if lock.locked():
        made.acquire()
    return made


LOCK, REENTRANT = type(threading.Lock()), type(threading.RLock())
HASH: Any = type(hashlib.sha256())
HASHES = [getattr(hashlib, name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")]
CLASSES: dict[type, ClassInC] = {
    random.Random: ClassInC((random.Random,), _random_state, _seeded),
    np.random.RandomState: ClassInC((np.random.RandomState,), copy.deepcopy, _seeded),
    np.random.Generator: ClassInC((np.random.default_rng,), copy.deepcopy, _seeded),
    bytearray: ClassInC((bytearray,), bytearray),
    array.array: ClassInC((array.array,), copy.copy, attributes=("typecode", "itemsize")),
    io.StringIO: ClassInC((io.StringIO,), _stream, attributes=("closed", "newlines", "line_buffering")),
    io.BytesIO: ClassInC((io.BytesIO,), _stream, attributes=("closed",)),
    HASH: ClassInC(tuple(HASHES), lambda h: h.copy(), attributes=("name", "digest_size", "block_size")),
    LOCK: ClassInC((threading.Lock,), _lock),
    REENTRANT: ClassInC((REENTRANT,), lambda lock: threading.RLock()),
}
WAITS = ("acquire", "__enter__")  # of a lock: until nobody has it
INDEXED = (bytearray, array.array)  # whose iterators count, and see what is changed meanwhile; whose text is theirs
SHOWING = ("__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__")
COPIED = (random.Random, np.random.RandomState, np.random.Generator, bytearray)  # by `copy.deepcopy`, all of it


def _maker(fn: Any, kind: ClassInC) -> Any:
    def make(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        made = seeded_generators.made(cap, fn, args, kwargs)
        if made is not None:
            return made
        given, named = _given(cap, args, kwargs, f"{fn.__qualname__}()")
        if not kind.known(*given, **named):
            raise Break("call", f"{fn.__qualname__}(), which no argument determines")
        return _run(cap, lambda: fn(*given, **named), args, (*given, *named.values()))
    return make


def is_private(value: Any) -> TypeGuard[PrivateV]:
    """Whether `value` stands for an object in C of which the capture has its own."""
    return isinstance(value, PrivateV)


def call_method(cap: Capture, value: PrivateV, name: str, args: list[Value], kwargs: dict[str, Value],
                raw: Any = None) -> Value:
    """`value.name(*args, **kwargs)`: done to the capture's own object, now. `raw`: the method, where it is not the one
    that the class finds under that name (`super().seed`)."""
    obj, cls = value.obj, value.cls
    raw = lookup(cls, name)[1] if raw is None else raw
    if name in SHOWING and cls not in INDEXED:
        raise Break("leaves", f"{name} of a {cls.__qualname__}")
    if name == "__iter__" and cls in INDEXED:
        return StreamV("getitem", [value], state={"index": 0})
    if any(v.serial < body.serial for v in (value, *args) for body in cap.bodies if is_private(v)):
        raise Break("effect_in_body", f"a {cls.__name__} that is older than the code which may not run")
    drawn = seeded_generators.draw(cap, value, name, args, kwargs)
    if drawn is not None:
        return drawn
    if isinstance(raw, types.FunctionType) and not all(map(is_known_literal, (*args, *kwargs.values()))):
        return cap.call(Const(raw), [value, *args], kwargs)
    if name == "shuffle" and len(args) == 1 and is_list(args[0]) and args[0].cls is list and not kwargs:
        return _shuffle(cap, obj, args[0])
    given, named = _given(cap, args, kwargs, f"{cls.__name__}.{name}")
    if cls is LOCK and name in WAITS and obj.locked() and given[:1] != [False] and named != {"blocking": False}:
        raise Break("call", "a lock that is held already")
    if name == "seed" and not _seeded(*given, **named):
        raise Break("call", f"{cls.__name__}.seed(), which no argument determines")
    return _run(cap, lambda: raw(obj, *given, **named), (value, *args), (*given, *named.values()))


def _row(name: str, raw: Any = None) -> Any:
    """The row of a method, bound or not."""
    def call(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        if not (args and is_private(args[0])):
            raise Break("call", f"{name} of an object in C")
        return call_method(cap, args[0], name, list(args[1:]), kwargs, raw)
    return call


def _shuffle(cap: Capture, generator: Any, items: ListV) -> Value:
    """NumPy's `shuffle` of a list, which moves its elements whatever they are."""
    mutating(cap, items)
    order = list(range(len(items.items)))
    generator.shuffle(order)
    items.items[:] = [items.items[n] for n in order]
    return Const(None)


def _given(cap: Capture, args: Any, kwargs: dict[str, Value], what: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as Python objects; Break where one is not known."""
    for value in (*args, *kwargs.values()):
        if is_size(value) or not (is_private(value) and value.recipe is None or ndarrays.known(cap, value)):
            raise Break("leaves", f"{what} of values that only exist at run time")
    found = [v.obj if is_private(v) else ndarrays.plain(cap, v) for v in (*args, *kwargs.values())]
    return found[:len(args)], dict(zip(kwargs, found[len(args):]))


def _run(cap: Capture, compute: Callable[[], Any], values: Any, given: Any) -> Value:
    """The Value of what Python computes; an object that it gives back is the one it was given."""
    found: list[Any] = []
    before = [(x, list(x)) for x in given if type(x) is list]
    ndarrays.run(cap, lambda: found.append(_unseen(compute)), given)
    if any(x != content for x, content in before):  # which is a copy of the program's
        raise Break("store", "a method of an object in C that changes a list")
    result = found[0]
    for value in values:
        if is_private(value) and value.obj is result:
            return value
    if type(result) in INDEXED and len(result) > ndarrays.MAX_BYTES:
        raise Break("leaves", f"a {type(result).__name__} of {len(result)} elements")
    if type(result) in CLASSES:
        return PrivateV(type(result), obj=result)
    if isinstance(result, (np.generic, np.ndarray)) or type(result) is tuple and not is_literal(result):
        return ndarrays.of_result(cap, result)
    if type(result) is list and all(map(is_literal, result)):
        return ListV([from_python(cap, x) for x in result])
    if is_literal(result):
        return from_python(cap, result)
    raise Break("opaque", f"a {type(result).__qualname__}")


def _unseen(compute: Callable[[], Any]) -> Any:
    """What Python computes, none of whose frames is captured in turn."""
    return _native.run_eager(compute)


def attribute(cap: Capture, value: PrivateV, name: str) -> Value:
    """`value.name`: a method, or data that the row of its class names."""
    raw = lookup(value.cls, name)[1]
    if name == "__class__":
        return Const(value.cls)
    if name in CLASSES[value.cls].attributes or raw is MISSING and not hasattr(value.obj, name):
        return _run(cap, lambda: getattr(value.obj, name), (), ())
    if raw is MISSING or not callable(raw):
        raise Break("attribute", f"{name!r} of a {value.cls.__qualname__}")
    return BuiltinMethodV(value, name)


def copied(cap: Capture, value: PrivateV, deep: bool) -> Value:
    """`copy.copy(value)`, `copy.deepcopy(value)`."""
    if value.cls not in COPIED or not deep and value.cls not in (bytearray, random.Random):
        raise Break("call", f"a copy of a {value.cls.__qualname__}")
    return PrivateV(value.cls, obj=CLASSES[value.cls].copy(value.obj), recipe=value.recipe)


# --- generators that existed before


def _existing(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A generator that the call is given: what it draws is known before the program runs (see `seeded_generators`).
    One with a method of its own is Python's; so is one that the frame has made ahead of a break: numbers that it draws
    are the frame's own, which are expected to change."""
    table = own_dict(obj) if has_dict(type(obj)) else {}
    if not seeded_generators.DRAWS.isdisjoint(table) or _has_made(cap.root.code, source):
        return opaque(cap, obj, source)
    cap.guards.add("is_type", source, type(obj))
    if has_dict(type(obj)):
        cap.guards.add("keys", S.DictOf(source), tuple(table))
    made = GivenGeneratorV(obj, source=source)
    remember(cap, obj, made)
    return made


def _has_made(code: types.CodeType, source: S.Source) -> bool:
    """Whether what a resume function has there is a variable of the function that it goes on with, no parameter."""
    original = original_of(code)
    return code is not original and type(source) is S.Local and source.name in original.co_varnames[
        original.co_argcount + original.co_kwonlyargcount:]


def _attribute_of_existing(cap: Capture, value: GivenGeneratorV, name: str) -> Value:
    if name in seeded_generators.DRAWS and callable(lookup(type(value.obj), name)[1]):
        return BuiltinMethodV(value, name)
    if value.twin is not None:
        raise Break("attribute", f"{name!r} of a {type(value.obj).__name__} that has been drawn from")
    return cap.getattr(OpaqueV(value.obj, source=value.source), name)


def _draw_of_existing(cap: Capture, value: GivenGeneratorV, name: str, args: list[Value],
                      kwargs: dict[str, Value]) -> Value:
    """`value.name(...)`: another draws, whose state it takes over when the captured code ends."""
    known = cap.known.objects.get(id(value.obj), value)
    if is_private(known):  # it has been seeded since
        return call_method(cap, known, name, args, kwargs)
    if isinstance(lookup(type(value.obj), name)[1], types.FunctionType) and (
            name == "shuffle" or not seeded_generators.are_taken(cap, args, kwargs)):
        raise Break("call", f"{name} of what is not known, in Python's own code")  # which has a way for each number
    if value.twin is None:
        if cap.bodies or value.source is None:
            raise Break("effect_in_body", f"{name} of a {type(value.obj).__name__} that is older than the code")
        _tell_apart(cap, value)
        cap.numbers.changing[value.source] = value.obj
        value.twin = seeded_generators.twin_of(value)
        cap.effects.call(seeded_generators.moved, [value, StateV(value.twin)])
    return call_method(cap, value.twin, name, args, kwargs)


def _tell_apart(cap: Capture, value: GivenGeneratorV) -> None:
    """Guards that no other generator which is drawn from has the same state."""
    others = [v for v in cap.known.objects.values() if getattr(v, "twin", None) is not None or is_private(v)]
    bits = seeded_generators.bits_of(value.obj)
    if any(seeded_generators.bits_of(v.real if is_private(v) else v.obj) is bits for v in others):  # type: ignore
        raise Break("identity", "two generators that share their state")
    places = tuple(S.Host("bits_of", (v.source,), seeded_generators.bits_of) for v in (value, *others))
    if others:
        cap.guards.add("all_distinct", None, places, ())


def _argument(cap: Capture, value: GivenGeneratorV) -> Any:
    raise Break("argument", f"a {type(value.obj).__name__} passed to a library")


def _seed(cap: Capture, generator: Value, *args: Value, **kwargs: Value) -> Value:
    """`generator.seed(...)`."""
    if is_private(generator) and all(map(is_known_literal, (*args, *kwargs.values()))):
        return call_method(cap, generator, "seed", list(args), kwargs)
    if not (is_opaque(generator) and type(generator.obj) in SEEDED and generator.source is not None) or (
            getattr(generator, "twin", None) is not None):
        raise Break("call", "seed of an object in C")
    return adopt(cap, generator.obj, generator.source, list(args), kwargs)


def adopt(cap: Capture, real: Any, source: S.Source, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Seeds `real`: what it gives is known now."""
    if cap.bodies or not all(map(is_known_literal, (*args, *kwargs.values()))):
        raise Break("call", f"{type(real).__name__}.seed of what is not known, or in a transformed function")
    value = PrivateV(type(real), obj=_unseen(lambda: type(real)(0)), real=real, source=source)
    result = call_method(cap, value, "seed", args, kwargs)
    remember(cap, real, value)
    now = PrivateV(value.cls, obj=value.obj)  # which is loaded as it is in the end
    cap.effects.call(set_state, [value, now])
    return result


def set_state(args: tuple[Any, Any], kwargs: dict[str, Any]) -> None:
    """Brings a generator (the first) into the state of another."""
    real, other = args
    real.set_state(other.get_state())


def _seed_numpys(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """`np.random.seed(...)`."""
    real = LEGACY._rand
    if type(real) is not np.random.RandomState or type(real._bit_generator) is not np.random.MT19937:
        raise Break("call", "numpy.random.seed of another generator")
    source = S.Attr(S.Root(LEGACY, LEGACY.__name__), "_rand")
    known = wrap(cap, real, source)
    return _seed(cap, known, *args, **kwargs)


LEGACY: Any = np.random.mtrand
SEEDED = (np.random.RandomState,)


def _emit(e: Emitter, v: PrivateV) -> None:
    if v.cls is REENTRANT and v.obj._is_owned():
        raise Unbuildable(v, "a lock that is held")
    if v.recipe is not None:
        e.call(seeded_generators.whole, lambda: load_source(e, v.recipe))
    else:
        e.call(CLASSES[v.cls].copy, lambda: e.call(Kept(v.obj)))
    e.remember(v)


def _bytes(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and is_private(args[0]) and args[0].cls in INDEXED:
        return Const(bytes(args[0].obj))
    return instantiate(cap, bytes, list(args), kwargs)


def _joined(cap: Capture, a: Const, b: Value) -> Any:
    """`b"ab" + bytearray(b"c")`."""
    if type(a.value) is bytes and is_private(b) and b.cls is bytearray:
        return Const(a.value + bytes(b.obj))
    return NotImplemented


def _refused(*_: Any) -> Any:
    """What an instance of a Python class can do, and these cannot."""
    raise Break("call", "an object in C that the captured code has made, where it is not known what it does")


for _cls, _kind in CLASSES.items():
    BUILTINS.update({maker: _maker(maker, _kind) for maker in _kind.makers})
    BUILTIN_METHODS.update({(PrivateV, name): _row(name) for name in dir(_cls)})
    BUILTINS.update({raw: _row(name, raw) for base in _cls.__mro__[:-1] for name, raw in vars(base).items()
                     if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType, CYTHON))})
define(GivenGeneratorV, Kind(getattr=_attribute_of_existing, method=_draw_of_existing, argument=_argument))
define(StateV, Kind(emit=lambda e, v: load_source(e, v.generator.recipe)))
WRAPPERS.update(dict.fromkeys(seeded_generators.GENERATORS, _existing))
BUILTINS[np.random.RandomState.seed] = _seed
BUILTINS[np.random.seed] = _seed_numpys
BUILTINS[bytes] = _bytes
CONTAINER_OPS["add", Const] = _joined
define(PrivateV, Kind(getattr=attribute, emit=_emit, call=_refused, next=_refused, argument=_refused))
