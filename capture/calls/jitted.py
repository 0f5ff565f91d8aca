"""What a call of `jax.jit(f)` that existed before does beside calling `f`.

Its function is entered as if the jit were not there, so that what surrounds it is fused with it. Five things are done
as JAX does them: numbers become arrays, on the way in and out (`called`); each array of the result is a new one (see
`Other`); dicts have their keys in order (see `tree_order`); the function has trees of its own, made anew of the leaves;
and what else it does to the program's objects happens when JAX traces it, not in each call. The last two show only
where the function changes something that is older than the call: the first time, capture starts over and gives it
copies; if something still changes, Python makes the call.

    @jax.jit
    def step(params, x):
        params["w"] = params["w"] - x  # the caller's dict stays as it is
        return params
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.errors import Break, Restart
from dynacomp.capture.bodies.placement import is_staged, jit_places
from dynacomp.capture.calls.tree_order import comes_back_otherwise
from dynacomp.capture.graph.avals import another
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Builder, Node
from dynacomp.capture.symbolic.effects import Jitted
from dynacomp.capture.symbolic.libraries import is_library
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.undo_log import Watch
from dynacomp.capture.tracing.lowered_args import has_numerics, lower_arg
from dynacomp.capture.tracing.onlookers import holds_user_code
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, peek, stands_for
from dynacomp.capture.values.questions import is_container, is_graph_array, is_object, is_value
from dynacomp.capture.values.value import MutableV, Value, children
from dynacomp.capture.wrapping.builder import JITTED, inside_compiled, wrap
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.ndarrays import is_jax_array


def inside(cap: Capture, fn: Const) -> Value | None:
    """The function inside `jax.jit(f)`, or inside a compiled function of ours, where it is to be entered."""
    obj = peek(fn)
    ours = isinstance(obj, CompiledFunction)
    if ours and not has_numerics(cap, obj):
        raise Break("call", "a function that was compiled with other numerics")
    wrapped = getattr(obj, "__wrapped__", None) if ours or type(obj) is JITTED and not jit_places(obj) else None
    if wrapped is None:
        return None
    inner = _inner(cap, obj, fn.source)
    return inner if ours or not is_library(wrapped) or holds_user_code(wrapped) else None


def _inner(cap: Capture, obj: Any, source: S.Source | None) -> Value:
    if source is None:
        return from_python(cap, obj.__wrapped__)
    return inside_compiled(cap, obj, source) if isinstance(obj, CompiledFunction) else wrap(
        cap, obj.__wrapped__, S.Attr(source, "__wrapped__"))


def called(cap: Capture, obj: Any, inner: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What `obj(*args, **kwargs)` returns, by a call of `inner`, its function, where it is `jax.jit(f)`."""
    if type(obj) is not JITTED:
        return cap.call(inner, args, kwargs)
    wrapped: Any = vars(obj)["__wrapped__"]
    key = getattr(wrapped, "__code__", wrapped)
    apart, watch = key in cap.lessons.apart, Watch()
    cap.effects.watches.append(watch)
    cap.effects.jitted.append(Jitted(len(cap.bodies), _builder(cap).nodes))
    around = cap.libraries.copied
    try:
        given = _taken(cap, obj, args, kwargs, apart)
        before = cap.effects.jitted[-1].before = len(_builder(cap).nodes)
        cap.effects.jitted[-1].given.update(_places(cap, obj, *given))
        cap.libraries.copied = _copied(obj, *given)
        result = cap.call(inner, *given)
    finally:
        cap.effects.watches.pop()
        cap.effects.jitted.pop()
        cap.libraries.copied = around
    if watch.changed:
        if apart:
            raise Break("effect", "what a function does to outer objects when jax.jit traces it")
        cap.lessons.apart.add(key)
        raise Restart
    anew = isinstance(result, MutableV) and watch.is_older(result) or comes_back_otherwise(cap, result)
    return _given(cap, obj, result, before, anew)


def _copied(obj: Any, args: list[Value], kwargs: dict[str, Value]) -> tuple[Value, ...]:
    """What a library's function has as trees of its own, because `jax.jit` calls it: `jax.jit(jax.grad(loss))`."""
    info = obj._jit_info
    alone = is_library(obj.__wrapped__) and not (info.static_argnums or info.static_argnames)
    return (*args, *kwargs.values()) if alone else ()


def entered(cap: Capture, obj: Any, run: Callable[[], Value]) -> Value:
    """What `run()` gives, which enters a function of a library, where that is one by `jax.jit`."""
    before = len(_builder(cap).nodes)
    result = run()
    return _given(cap, obj, result, before) if type(obj) is JITTED else result


def _given(cap: Capture, obj: Any, result: Value, before: int, anew: bool = False) -> Value:
    """The result of a function as JAX gives it, `before` so many Nodes: see `all_arrays`."""
    made = set(_builder(cap).nodes[before:])
    told: Any = obj._jit_info
    if not anew and not _holds_others(result, Other(cap, made)) or told.inline is True and is_staged(cap):
        return OPERATIONS.all_arrays(cap, result, anew) if anew or _holds_others(result) else result
    return OPERATIONS.all_arrays(cap, result, anew, Other(cap, made))


def _builder(cap: Capture) -> Builder:
    return cap.bodies[-1].builder if cap.bodies else cap.graph.builder


class Other:
    """Which arrays of a function's result eager JAX has as other ones: what is older than the call, and what is
    there twice. `made`: the Nodes of the call."""

    def __init__(self, cap: Capture, made: set[Node]) -> None:
        self.cap, self.left = cap, {n for n in made if n.op not in (PLACEHOLDER, GET_ATTR)}

    def __call__(self, v: Value) -> bool:
        if not is_jax_array(v):
            return False
        own = v.real is None and v.origin is None and v.node in self.left
        self.left.discard(v.node)
        return not own

    def copy(self, v: ArrayV) -> ArrayV:
        """A new array. It costs nothing where it does not leave the Graph."""
        return ArrayV(emit_node(self.cap, another, ((lower_arg(self.cap, v),), {}), v.aval, "copy"), v.aval)


def _taken(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value],
           anew: bool) -> tuple[list[Value], dict[str, Value]]:
    """The arguments that the function gets: all that are not static hold arrays, no numbers. anew: in other trees."""
    info = obj._jit_info
    fixed, names = {n + len(args) if n < 0 else n for n in info.static_argnums}, info.static_argnames

    def taken(static: bool, value: Value) -> Value:
        other = not static and (anew or comes_back_otherwise(cap, value))
        return value if static or not (other or _holds_others(value)) else OPERATIONS.all_arrays(cap, value, other)

    named = {k: kwargs[k] for k in (*sorted(kwargs.keys() - {*names}), *(k for k in kwargs if k in names))}
    return [taken(n in fixed, v) for n, v in enumerate(args)], {k: taken(k in names, v) for k, v in named.items()}


def _places(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Iterator[Any]:
    """The Nodes in the arguments that are not static, and the Sources of what holds others that nobody has read."""
    info = obj._jit_info
    fixed = {n + len(args) if n < 0 else n for n in info.static_argnums}
    todo = [v for n, v in enumerate(args) if n not in fixed] + [
        v for name, v in kwargs.items() if name not in info.static_argnames]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if not is_value(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if is_graph_array(value):
            yield value.node
        elif value.source is not None:
            yield value.source
        todo += [*children(value), *(value.attrs.values() if is_object(value) else ())]


def _holds_others(value: Value, other: Callable[[Value], bool] = lambda v: False) -> bool:
    """Whether that may be, or hold, anything but arrays of JAX which are no `other` ones."""
    if is_container(value):
        return any(not is_value(x) or _holds_others(x, other) for x in children(value))
    return other(value) or not (is_jax_array(value) or stands_for(value, None))
