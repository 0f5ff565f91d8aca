"""Values as node arguments, and node arguments as real objects under a trace.

`lower_arg(cap, value)` gives what may stand in a Graph's node (Nodes, constants, containers,
`Tree`), and two things that become so later: `Standin` (a user function, captured when JAX calls
it) and `LibraryArg` (a library object that only exists under a trace, such as `x.at[0]`).
`lowered_parts.rebuild` makes the real object of either.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import entries, fields, module_name, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bodies.hidden_tracers import is_drawn_from
from dynacomp.capture.bodies.lossy_trees import has_lost, put_together
from dynacomp.capture.bodies.subgraphs import Standin, localise, place_of
from dynacomp.capture.bodies.treedef_contents import (
    in_structure,
    kept_by_libraries,
    sizes_out_of_sight,
    taken_apart,
    unread,
)
from dynacomp.capture.graph.avals import aval_of, weak
from dynacomp.capture.graph.graph import Tree, is_node, map_parts
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.capture.hosting.hosted import as_real, exists
from dynacomp.capture.hosting.library_reads import by_content, hosted_by_content
from dynacomp.capture.hosting.made_anew import by_structure, library_object
from dynacomp.capture.hosting.rebuilt import LibraryArg, OfClass, WithAttributes, WithCells, WithFields, is_library_arg
from dynacomp.capture.numbers import host_arrays, size_values
from dynacomp.capture.numbers.dynamic_scalars import TEXTS, pinned
from dynacomp.capture.numbers.given_arrays import is_constant
from dynacomp.capture.numbers.graph_inputs import scalar_node
from dynacomp.capture.symbolic.libraries import (
    has_user_call,
    is_compiled,
    is_host,
    is_library,
    is_ours,
    is_pure_module,
    is_user_function,
    module_of,
)
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import differs_since
from dynacomp.capture.tracing.failures import is_entered
from dynacomp.capture.tracing.lowered_parts import OBJECT_CALLS
from dynacomp.capture.tracing.settings import maker
from dynacomp.capture.values.callables import BuiltinMethodV, FunctionV, MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NeedsConcrete, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_known_literal, is_open, peek
from dynacomp.capture.values.containers import DictV, ListV, SetV, SliceV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_made_array,
    is_object,
    is_sequence,
    is_slice,
    is_value,
    type_name,
)
from dynacomp.capture.values.value import Value, as_python, is_changing
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.builder import entries_of, inside_compiled, items_of
from dynacomp.capture.wrapping.builtin_subclasses import SCALARS, SPECIAL, inherits, is_number, payload_base
from dynacomp.capture.wrapping.class_prototypes import is_made
from dynacomp.capture.wrapping.constants import const_array
from dynacomp.capture.wrapping.pytree_shells import Looked, Memo, Unseen, attributes, fixed_fields, shell

LIKE_ARRAYS = {"shape", "dtype", "ndim"}  # attributes by which JAX tells what it is given
CONVERTED = (*LIKE_ARRAYS, "aval", "__array__", "__jax_array__", "__array_interface__", "__dlpack__", "__len__",
             "__iter__", "__getitem__", "__index__", "__int__", "__float__", "__complex__", "__bool__", "__getattr__",
             "__getattribute__")  # by which it, or NumPy, makes an array of an object
SHOWN = {"__repr__", "__str__", "__format__", "__getnewargs__"}  # methods of numbers that JAX never calls
MAX_LITERAL = 4096  # elements of a NumPy array that a Graph spells out
# How JAX and its libraries call the parameters that are functions.
FUNCTIONS = {"fun", "f", "fn", "func", "function", "body_fun", "cond_fun", "true_fun", "false_fun"}


def lower_arg(cap: Capture, value: Value) -> Any:
    argument = kind(value).argument
    if argument is None:
        raise Break("argument", f"an object of {type_name(value)} passed to a library")
    return argument(cap, value)


def lower_function(cap: Capture, value: Value) -> Any:
    """`lower_arg` of what a transformation will call: a model is its `__call__`, not its arrays."""
    if is_object(value) and has_user_call(value.cls):
        return Standin(cap, value)
    return lower_arg(cap, value)


def lower_arguments(cap: Capture, fn: Any, args: Sequence[Value], kwargs: dict[str, Value], most: int = 0) -> tuple:
    """The arguments as a node holds them. most: how many from the first are taken by names (see `onlookers`)."""
    names = [*parameter_names(fn), *[""] * len(args)] if isinstance(fn, types.FunctionType) else [""] * len(args)

    def lower(name: str, value: Value, place: int = len(args)) -> Any:
        cap.libraries.by_name = place < most
        return (lower_function if name in FUNCTIONS else lower_arg)(cap, value)

    named = cap.libraries.by_name
    before, cap.libraries.blind = cap.libraries.blind, hands_on(fn, args)
    try:
        lowered = tuple(map(lower, names, args, range(len(args)))), {k: lower(k, v) for k, v in kwargs.items()}
    finally:
        cap.libraries.blind, cap.libraries.by_name = before, named
    return as_real(lowered) if is_host(fn) else lowered


def hands_on(fn: Any, args: Sequence[Value]) -> bool:
    """Whether a call is that of a function which JAX has made of the program's (by `jax.custom_jvp`, as a decorator):
    it hands that one objects which are no trees, and looks into none."""
    made = getattr(args[0], "make", None) if args and module_of(fn) == OBJECT_CALLS else fn
    if isinstance(made, WithCells):
        return module_of(made.fn).partition(".")[0] == "jax"  # type: ignore[union-attr]
    return isinstance(made.obj if isinstance(made, WithAttributes) else made, (jax.custom_jvp, jax.custom_vjp))


@remembered
def parameter_names(fn: types.FunctionType) -> tuple[str, ...]:
    return tuple(inspect.signature(fn).parameters)


def _scalar(cap: Capture, value: ScalarV) -> Any:
    constant = pinned(cap, value)
    if constant is not None:
        return constant.value
    if type(value.hint) in TEXTS:
        raise NeedsConcrete(value)
    return localise(cap, scalar_node(cap, value))


def _number(cap: Capture, value: NumberV) -> Any:
    node = localise(cap, value.node)
    return node if value.aval == aval_of(value.kind()) else LibraryArg(weak, (node, value.kind), {})


def has_numerics(cap: Capture, compiled: Any) -> bool:
    """Whether one of our compiled functions keeps the numerics contract that the program at hand does."""
    return getattr(compiled.key, "numerics", "") == getattr(cap.options, "numerics", "")


def _const(cap: Capture, value: Const) -> Any:
    obj = peek(value)
    if is_user_function(obj) or is_entered(cap, obj) or is_compiled(obj) and has_numerics(cap, obj):
        return Standin(cap, value)
    if value.source is not None and is_open(value) and is_ours(obj) and has_numerics(cap, obj):
        return lower_arg(cap, inside_compiled(cap, obj, value.source))
    if hosted_by_content(cap, value):
        return peek(value)
    anew = by_structure(cap, value)
    return value.value if anew is None else lower_arg(cap, anew)


def _array(cap: Capture, value: ArrayV) -> Any:
    """A Node; a NumPy array that is a constant JAX gets as it is, once it has wanted to look at one."""
    if cap.lessons.shown_arrays and is_constant(cap, value):
        return _ndarray(cap, value)
    node = localise(cap, value.node)
    if isinstance(value.real, np.ndarray):
        cap.libraries.numpys[node] = value, value.real
    else:
        cap.libraries.handed[node] = value
    return node


def _ndarray(cap: Capture, value: Value) -> Any:
    """As it is now; small ones JAX gets as NumPy arrays, whose content it may look at."""
    if host_arrays.is_hosted(value):
        made, array = host_arrays.node(cap, value), value.array
    else:
        array = ndarrays.plain(cap, value).copy()
        if 0 < array.size <= MAX_LITERAL and array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            return LibraryArg(np.array, (array.tolist(),), {"dtype": array.dtype.name})
        made = const_array(cap, array).node  # type: ignore[attr-defined]
    node = localise(cap, made)
    cap.libraries.numpys[node] = value, array
    return node


def _tuple(cap: Capture, value: TupleV) -> Any:
    items = [lower_arg(cap, i) for i in items_of(cap, value)]
    return tuple(items) if value.cls is tuple else tuple.__new__(value.cls, items)


def _list(cap: Capture, value: ListV) -> Any:
    items = [lower_arg(cap, i) for i in items_of(cap, value)]
    return items if value.cls is list else LibraryArg(value.cls, (items, value.extra), {})


def _dict(cap: Capture, value: DictV) -> Any:
    items = entries_of(cap, value, lambda v: lower_arg(cap, v), cap.libraries.by_name)
    if value.cls is dict:
        return items
    factory = () if value.factory is None else (as_python(value.factory),)
    return LibraryArg(functools.partial(value.cls, *factory), (items,), {})


def _object(cap: Capture, value: ObjectV) -> Any:
    """A pytree object by its leaves; a list, number, ... of the user's class by its content; an object
    without arrays as itself."""
    if is_host(value.cls) and exists(value):
        _refuse_drawn(value)
        if by_content(cap, value.real, value.source):
            return value.real
    anew = library_object(cap, value)
    if anew is not None:
        return lower_arg(cap, anew)
    if cap.libraries.blind and is_closed(value):
        cap.libraries.unread[id(value.real)] = value.real, value
        return value.real
    if is_plain_number(cap, value):
        return lower_arg(cap, value.payload)
    memo, built, flat = _shell_of(cap, value)
    if value.payload is not None and jax.tree_util.all_leaves([built]):
        return _with_payload(cap, value)
    leaves, treedef = flat or taken_apart(jax.tree.flatten, built)
    jaxs = cap.libraries.unasked
    if payload_base(value.cls) is None and (
            in_structure(treedef, (ArrayV, NumberV, PartialV)) or not jaxs and kept_by_libraries(treedef, Const)
            or has_lost(built, put_together(treedef, leaves))):
        return _by_attributes(cap, value)
    fixed_fields(cap, memo, leaves, unread(treedef) if jaxs else (), sizes_out_of_sight(treedef))
    if len(leaves) == 1 and leaves[0] is built:
        if callable(built) and not is_host(value.cls):
            return Standin(cap, value)
        differs = any(_may_differ(v) for v, _ in memo.values())
        if exists(value) and not (differs and is_library(value.cls) and not is_host(value.cls)):
            _refuse_drawn(value)
            if differs:  # the program's functions read it: bodies find its Value, others `guard_reads`
                cap.libraries.unread[id(value.real)] = value.real, value
            return value.real
        if jaxs and _is_handed_on(cap, value):
            bare = HandedOn()
            cap.libraries.unread[id(bare)] = bare, value
            return bare
        raise Break("argument", f"an object of {value.cls.__qualname__} passed to a library")
    return Tree(treedef, tuple(v if is_symbolic(v) else lower_arg(cap, v if is_value(v) else Const(v)) for v in leaves))


def _refuse_drawn(value: ObjectV) -> None:
    """A library would draw from it while the call is traced, and again where it runs."""
    if is_drawn_from(value.real):
        raise Break("argument", f"an object of {value.cls.__qualname__} around an iterator or a generator of random "
                                "numbers, passed to a library")


class HandedOn:
    """What JAX hands on in place of an object that the call has made: it keeps nothing of that one."""


def _is_handed_on(cap: Capture, value: ObjectV) -> bool:
    """Whether JAX, which may hash it, only hands on an object that the call has made, as `vmap` does along no axis."""
    return value.payload is None and value.cls.__hash__ in (None, object.__hash__) and not is_made(cap, value.cls) and (
        _is_opaque_to_jax(value.cls, attributes(cap, value).keys()))


def _may_differ(value: Value) -> bool:
    """Whether another call may have something else there: no guard holds its value."""
    if is_slice(value):
        return any(_may_differ(v) or is_changing(v) for v in (value.start, value.stop, value.step))
    return is_graph_array(value) or is_graph_number(value) or is_made_array(value)


def _shell_of(cap: Capture, value: ObjectV) -> tuple[Memo, Any, Any]:
    """Its shell, and this taken apart where nobody had to look at all that is beside the items of a container."""
    if value.payload is not None:
        memo = Memo(defers=True)
        built = shell(cap, value, memo)
        try:
            leaves, treedef = jax.tree.flatten(built)
            looked = bool(memo.seen) or any(type(x) is Unseen for x in leaves) or in_structure(treedef, Unseen)
        except Looked:
            looked = True
        except ours(Exception):  # an Unseen would not do, maybe
            looked = True
        if not looked:
            return memo, built, (leaves, treedef)
    memo = Memo()
    return memo, shell(cap, value, memo), None


def _by_attributes(cap: Capture, value: ObjectV) -> Any:
    """The object, made under the trace of its attributes. Break where one of these holds it."""
    outer = cap.libraries.taken_apart
    if any(value is other for other in outer):
        raise Break("argument", f"an object of {value.cls.__qualname__}, which holds itself, passed to a library")
    outer.append(value)
    try:
        return lower_arg(cap, of_attributes(cap, value))
    finally:
        outer.pop()


def of_attributes(cap: Capture, value: ObjectV, called: bool = False) -> LibraryV:
    """The same for whom it is called: what it keeps beside its leaves is captured. `called`: what those objects of
    libraries keep, too, that it may call (`eqx.filter_jit` of a method is one in a Partial)."""
    found = attributes(cap, value)
    parts = [of_attributes(cap, v, called) if called and is_object(v) and _is_called(v) else v for v in found.values()]
    return LibraryV(WithFields(value.cls, tuple(found)), tuple(parts))


def _is_called(value: ObjectV) -> bool:
    return value.payload is None and is_pure_module(module_name(value.cls)) and any(
        "__call__" in entries(base) for base in mro(value.cls))


def is_closed(value: ObjectV) -> bool:
    """Whether JAX sees nothing of an object but that it is one: the program's own functions, to which it comes, read
    its attributes, and these are guarded there."""
    return exists(value) and value.payload is None and not callable(value.real) and (
        jax.tree_util.all_leaves([value.real]) and _is_opaque_to_jax(value.cls, fields(value.real).keys()))


def _is_opaque_to_jax(cls: type, names: Collection[str]) -> bool:
    """The same of objects with attributes of these names that are leaves."""
    return not is_library(cls) and LIKE_ARRAYS.isdisjoint(names) and not any(
        name in entries(c) for c in mro(cls) if c is not object for name in CONVERTED)


def is_plain_number(cap: Capture, value: ObjectV) -> bool:
    """Whether JAX takes a number of a subclass as it takes the plain one, as also its own that carry a dtype
    (`TypedFloat`): it hands them to derivative rules in place of Python's."""
    if not is_number(value) or not inherits(value.cls, *(n for n in SPECIAL if n not in SHOWN)):
        return False
    base: Any = payload_base(value.cls)
    if attributes(cap, value).keys() & LIKE_ARRAYS:
        return is_pure_module(module_name(value.cls)) and exists(value) and aval_of(value.real) == aval_of(base())
    return jax.tree_util.all_leaves([base.__new__(value.cls)])


def _with_payload(cap: Capture, value: ObjectV) -> Any:
    number = payload_base(value.cls) in SCALARS
    if not inherits(value.cls, *SPECIAL) or attributes(cap, value).keys() & LIKE_ARRAYS or (
            attributes(cap, value) and not number):
        if exists(value) and _holds_literals(cap, value.payload):
            return value.real
        raise Break("argument", f"an object of {value.cls.__qualname__} passed to a library")
    if number:
        return lower_arg(cap, value.payload)
    return LibraryArg(OfClass(value.cls), (lower_arg(cap, value.payload),), {})


def _holds_literals(cap: Capture, payload: Value | None) -> bool:
    """Whether a list or tuple that nobody has changed holds constants alone, which are guarded now."""
    return is_sequence(payload) and not getattr(payload, "dirty", False) and all(
        is_known_literal(v) for v in items_of(cap, payload))


def _library(cap: Capture, value: LibraryV) -> Any:
    if value.node is not None:
        return localise(cap, value.node)
    place = place_of(cap)
    if place not in value.lowered:
        if value.once:
            raise Break("effect_in_body", "what is left of a function that changes outer objects, or prints")
        value.lowered[place] = _as_made(cap, value, place) or LibraryArg(
            maker(value), *lower_arguments(cap, value.make, value.args, value.kwargs))
    return value.lowered[place]


def _as_made(cap: Capture, value: LibraryV, place: tuple[int, ...]) -> LibraryArg | None:
    """What a library has made around the body at hand, where something that it was made of has changed since: made of
    functions as they were when the library ran them (`pull` of `jax.vjp`)."""
    ran = any(s.pinned for made in value.lowered.values() for s in of_class(Standin, _given(made)))
    if not ran or not differs_since(cap, value):
        return None
    around = (value.lowered.get(place[:n]) for n in reversed(range(len(place))))
    known = next((made for made in around if made is not None), None)
    if known is None:
        raise Break("effect_in_body", "what a library has made, elsewhere, of what has changed since")
    return _seen_inside(cap, known)


def _given(made: LibraryArg) -> Iterator[Any]:
    yield from made.args
    yield from made.kwargs.values()


def _seen_inside(cap: Capture, arg: Any) -> Any:
    """A lowered argument of a call around the body at hand, there."""
    if is_node(arg):
        return localise(cap, arg)
    if is_library_arg(arg):
        return LibraryArg(arg.make, _seen_inside(cap, arg.args), _seen_inside(cap, arg.kwargs))
    return map_parts(arg, lambda part: _seen_inside(cap, part))


for _cls, _argument in (
    (ArrayV, _array), (NdArrayV, _ndarray), (Const, _const), (ScalarV, _scalar), (NumberV, _number), (TupleV, _tuple),
    (ListV, _list), (DictV, _dict), (ObjectV, _object), (LibraryV, _library),
    *((cls, Standin) for cls in (FunctionV, MethodV, PartialV, BuiltinMethodV)),
):
    define(_cls, Kind(argument=_argument))  # type: ignore[arg-type]
define(SizeV, Kind(argument=size_values.argument))
define(SetV, Kind(argument=lambda cap, v: v.cls(v.items)))
define(SliceV, Kind(argument=lambda cap, v: slice(*(lower_arg(cap, p) for p in (v.start, v.stop, v.step)))))
