"""Values for objects that are born during the capture: constants, and results of library calls.

`from_python(cap, obj)` is `wrap` for objects that have no Source. Array Values may stand where
arrays would (a library's pytree filled with Values), real arrays become constants of the Graph.
"""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import fields
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.graph.avals import ARRAY_TYPE, aval_of
from dynacomp.capture.graph.descriptions import DESCRIPTIONS, as_called, is_size_of, says_sizes_of
from dynacomp.capture.graph.sizes import Size
from dynacomp.capture.numbers.size_values import of_expr
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.callables import MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.sources import KeyObject, Root
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import is_plain_instance, remember, wrap
from dynacomp.capture.wrapping.builtin_subclasses import MUTABLE, content, is_bare_named_tuple, payload_base


def from_python(cap: Capture, obj: Any) -> Value:
    """The Value of a new object."""
    if is_value(obj):
        return obj
    known = cap.known.objects.get(id(obj))
    if known is not None:
        return known
    row = _ROWS.get(type(obj))
    if row is not None:
        return row(cap, obj)
    if id(obj) in cap.known.shells:
        return cap.known.shells[id(obj)][0]
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        bare = is_bare_named_tuple(type(obj))
        return TupleV([from_python(cap, x) for x in obj], type(obj)) if bare else _object(cap, obj)
    if isinstance(obj, jax.tree_util.Partial):
        tree: Any
        leaves, tree = jax.tree.flatten(obj)
        return LibraryV(tree.unflatten, (TupleV([from_python(cap, x) for x in leaves]),))
    if isinstance(obj, (jax.Array, np.ndarray)):
        return const_array(cap, obj)
    if is_plain_instance(obj) and _holds_values(cap, obj):
        return _object(cap, obj)
    return Const(obj)


def opened(cap: Capture, value: Const) -> Value:
    """A constant whose class is written in Python, looked into: its attributes are guarded from here on."""
    obj = value.value
    if not is_plain_instance(obj):
        return value
    root = KeyObject if cap.guards.knows(obj) else Root
    return wrap(cap, obj, value.source or root(obj, f"<{type(obj).__qualname__}>"))


def new_tree(cap: Capture, made: Any) -> Value:
    """The Value of a tree all of whose nodes have just been made."""
    nodes: list[Any] = []

    def note(node: Any) -> bool:
        nodes.append(node)
        return False

    jax.tree.flatten(made, is_leaf=note)
    for node in reversed(nodes):
        if id(node) not in cap.known.objects and _has_python_class(node) and not jax.tree_util.all_leaves([node]):
            _object(cap, node)
    return from_python(cap, made)


def _has_python_class(obj: Any) -> bool:
    return not is_value(obj) and (is_plain_instance(obj) or payload_base(type(obj)) in MUTABLE)


def const_array(cap: Capture, obj: Any) -> Value:
    """A concrete array that the captured code holds as a constant."""
    if issubclass(type(obj), jax.core.Tracer) and cap.libraries.tracing:
        return _array_of_trace(cap, obj)
    builder = cap.bodies[0].outer if cap.bodies else cap.graph.builder
    aval = aval_of(obj)
    node = builder.const(obj, aval)
    cap.graph.owner[node] = 0
    return ArrayV(node, aval, real=obj)


def _array_of_trace(cap: Capture, tracer: Any) -> Value:
    """A tracer where JAX does not look for leaves, in an object that a library hands to a body: the array, or the
    number that changes, that it stands for while the library's call is tried out."""
    number, stands = cap.libraries.passing.get(id(tracer)), cap.libraries.stands.get(id(tracer))
    if number is not None:
        return number[1]
    if stands is None:
        raise Break("opaque", "an array that a library computes while it traces, out of sight in an object")
    return ArrayV(stands[1], aval_of(tracer))


def _holds_values(cap: Capture, obj: Any) -> bool:
    return any(isinstance(x, (Value, jax.Array)) for x in jax.tree.leaves(obj)) or _has_value_inside(cap, obj, {})


def _has_value_inside(cap: Capture, obj: Any, seen: dict[int, Any]) -> bool:
    """Whether a Value is among the attributes, elements and so on of a tree, or a size that changes: its class may not
    give it as a leaf."""
    if is_value(obj) or is_size_of(cap.sizes.scope, obj) or says_sizes_of(cap.sizes.scope, obj):
        return True
    if id(obj) in seen:
        return False
    seen[id(obj)] = obj
    inside: Any = ()
    if type(obj) is dict:
        inside = obj.values()
    elif isinstance(obj, (tuple, list)):
        inside = obj
    elif len(seen) == 1 or is_plain_instance(obj) and not jax.tree_util.all_leaves([obj]):
        inside = fields(obj).values()
    return any(_has_value_inside(cap, x, seen) for x in inside)


def _description(cap: Capture, obj: Any) -> Value:
    """What says how an array is that has a size that changes, which a library keeps: each call makes its own."""
    if not says_sizes_of(cap.sizes.scope, obj):
        return Const(obj)
    called = as_called(obj)
    if called is None:
        raise Break("opaque", f"a {type(obj).__name__} of a size that changes, which a library keeps")
    args, kwargs = called
    return LibraryV(type(obj), tuple(from_python(cap, x) for x in args),
                    {name: from_python(cap, x) for name, x in kwargs.items()}, real=obj)


def _object(cap: Capture, obj: Any) -> Value:
    value = ObjectV(type(obj))
    remember(cap, obj, value)
    base: Any = payload_base(type(obj))
    if base in (tuple, *MUTABLE):
        value.payload = _ROWS[base](cap, content(obj))
    if base in MUTABLE:
        cap.hold(value.payload, value)
    for name, attr in fields(obj).items():
        value.attrs[name] = from_python(cap, attr)
    return value


def _partial(cap: Capture, obj: Any) -> Value:
    return PartialV(from_python(cap, obj.func), [from_python(cap, a) for a in obj.args],
                    {k: from_python(cap, v) for k, v in obj.keywords.items()})


def _tuple(cap: Capture, obj: Any) -> Value:
    """A tuple of constants is itself a constant, one object; one that comes back from a library is the program's."""
    known = cap.known.tuples.get(id(obj))
    if known is not None:
        return known
    items = [from_python(cap, x) for x in obj]
    if not obj or not is_literal(obj):
        return TupleV(items)
    return TupleV(items, real=obj, source=Root(obj, f"<{len(obj)} constants>"))


def _dict(cap: Capture, obj: Any) -> Value:
    factory = getattr(obj, "default_factory", None)
    return DictV({k: from_python(cap, v) for k, v in obj.items()}, type(obj),
                 factory=None if factory is None else from_python(cap, factory))


def _read_only(cap: Capture, obj: Any) -> Value:
    """A read-only dict of an object that never changes, such as a Signature."""
    return DictV({k: from_python(cap, v) for k, v in obj.items()}, type(obj), real=obj, source=Root(obj, "mapping"))


_ROWS: dict[type, Any] = {
    tuple: _tuple,
    list: lambda cap, o: ListV([from_python(cap, x) for x in o]),
    collections.deque: lambda cap, o: ListV([from_python(cap, x) for x in o], collections.deque, extra=o.maxlen),
    dict: _dict,
    collections.OrderedDict: _dict,
    collections.defaultdict: _dict,
    set: lambda cap, o: SetV(set(o), set),
    frozenset: lambda cap, o: SetV(o, frozenset),
    types.MappingProxyType: _read_only,
    types.MethodType: lambda cap, o: MethodV(from_python(cap, o.__func__), from_python(cap, o.__self__)),
    functools.partial: _partial,
    types.CellType: lambda cap, o: CellV(from_python(cap, o.cell_contents)),
    ARRAY_TYPE: const_array,
    Size: lambda cap, o: of_expr(cap, o) if is_size_of(cap.sizes.scope, o) else Const(o),
    **dict.fromkeys(DESCRIPTIONS, _description),
}
