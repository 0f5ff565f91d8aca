"""What the lowered arguments of a call hold: Nodes, sizes, stand-ins, what libraries have made; and the call with the
sizes at hand.

`rebuild(arg, env)` makes the real object, with `env` giving each Node's tracer.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax._src.core import trace_ctx

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.subgraphs import Standin
from dynacomp.capture.bodies.treedef_contents import in_structure
from dynacomp.capture.graph.avals import as_struct, weak
from dynacomp.capture.graph.graph import Node, Tree, map_parts
from dynacomp.capture.graph.graph_sizes import aval as aval_with_sizes
from dynacomp.capture.graph.graph_sizes import sizes_in
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.sizes import Size, canonical, is_symbolic, names
from dynacomp.capture.hosting.hearing import overhearing
from dynacomp.capture.hosting.rebuilt import LibraryArg, is_library_arg
from dynacomp.capture.symbolic.libraries import module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.handed_on import always_anew
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.immutability import TREEDEF

OBJECT_CALLS = "dynacomp.capture.calls.calls"  # where the function lives that calls a library's object


def given_sizes(lowered: Any) -> list[Size]:
    """The Sizes that a call is given, also in the cells of functions, as numbers."""
    return [*of_class(Size, map(canonical, of_class(Size, parts(lowered))))]


def lowered_sizes(lowered: Any) -> list[Size]:
    """The Sizes that a call depends on: those that it is given, and those of its arrays."""
    arrays = map(canonical, sizes_in(*(n.aval for n in leaf_nodes(lowered))))
    return [*given_sizes(lowered), *of_class(Size, arrays)]


def has_sizes(lowered: Any) -> bool:
    return any(True for _ in lowered_sizes(lowered))


def sizes_as_numbers(arg: Any) -> Any:
    """The arguments with each Size as an array of JAX; those of slices stay."""
    return _with_sizes(arg, lambda size: LibraryArg(as_number, (size,), {}), slices=False)


def _with_sizes(arg: Any, put: Any, slices: bool = True) -> Any:
    """Lowered arguments with `put(size)` in the place of each Size."""
    again = lambda v: _with_sizes(v, put, slices)
    if is_symbolic(arg):
        return put(arg)
    if is_library_arg(arg):
        return arg if not has_sizes(arg) else LibraryArg(arg.make, again(arg.args), again(arg.kwargs))
    return arg if isinstance(arg, slice) and not slices else map_parts(arg, again)


def as_number(size: Any) -> Any:
    """A size as the weakly typed array that JAX makes of an int."""
    return weak(size.dimension_as_value() if type(size) is Size else size, int)


def called_by(fn: Any, lowered: tuple) -> Any:
    """What runs: a library's object, where `fn` only calls its first argument."""
    return _made_by(lowered[0][0] if lowered[0] and module_of(fn) == OBJECT_CALLS else fn)


def _made_by(first: Any) -> Any:
    """What has made an argument, or its class, where that is known; else the argument."""
    return first.make if is_library_arg(first) else first.treedef.node_data()[0] if isinstance(
        first, Tree) and first.treedef.node_data() else first


def _owner(fn: Any, args: Any) -> Any:
    """The argument of which a function gives, or calls, what it has; the operand of an operator that a call has made,
    whose class has the operator's method. None where it is of no argument."""
    if args and (fn is getattr or fn is operator.getitem or module_of(fn) == OBJECT_CALLS):
        return args[0]
    made = args if module_of(fn) == "_operator" else ()
    return next((a for a in made if is_library_arg(a) and a.make is not np.array), None)


def maker_of(fn: Any, lowered: tuple) -> Any:
    """The same, where it is part of what a call has made, of that: of `hk.transform(f).apply` it is `hk.transform`; a
    Node, where it is an array's (`x.at[0].set`)."""
    called, owner = fn, _owner(fn, lowered[0])
    while owner is not None:
        called, owner = owner, _owner(owner.make, owner.args) if is_library_arg(owner) else None
    return _made_by(called)


def spells_arrays(lowered: Any) -> bool:
    """Whether the call is given NumPy arrays that the Graph spells out: as they are."""
    return any(made.make is np.array for made in library_args(lowered))


def may_be_asked(lowered: Any) -> bool:
    """Whether a call may run once more with the sizes at hand: no function of the program's would run."""
    return not any(True for _ in standins_in(lowered))


def fails_now(cap: Capture, fn: Any, lowered: Any) -> bool:
    """Whether the call fails with the sizes at hand, too, as far as it may be asked."""
    return may_be_asked(lowered) and run_now(cap, fn, lowered, lambda given, made: None) is None


def one_to_hold(cap: Capture, fn: Any, lowered: Any, found: list[Size]) -> list[Size]:
    """The one symbol of these sizes that lets a call through which has failed, once it is a constant: a batch may still
    be of any size where the length may not. All of them where no single one does, or the call may not be asked."""
    by_name = {name: size.scope for size in found for name in names(size)}
    for name, scope in by_name.items() if len(by_name) > 1 and may_be_asked(lowered) else ():
        values = {other: scope.symbol(other) for other in scope.values} | {name: scope.values[name]}
        known = functools.partial(evaluate, values=values)
        if run_now(cap, fn, lowered, lambda given, made: None, value=known) is not None:
            return [scope.symbol(name)]
    return found


def run_now(cap: Capture, fn: Any, lowered: Any, look: Callable[[list[Any], Any], Any],
            real: dict[Node, Any] | None = None,
            value: Callable[[Size], Any] = lambda size: size.scope.value(size)) -> Any:
    """The jaxpr of a call with the sizes at hand (or such as `value` says), which may be asked; None where it fails.
    `look` sees the tracers that it is given, one for each Node that has no `real` array, and what it gives. What the
    program's functions would do besides, where a library runs them, is refused as in the first trace."""
    real = real or {}
    nodes = [n for n in dict.fromkeys(leaf_nodes(lowered)) if n not in real]
    known = _with_sizes(lowered, value)

    def call(*arrays: Any) -> Any:
        always_anew(trace_ctx.trace)
        args, kwargs = rebuild(known, {**dict(zip(nodes, arrays)), **real})
        made = fn(*args, **kwargs)
        look(list(arrays), made)
        return [x for x in jax.tree.leaves(made) if isinstance(x, jax.Array)]

    try:
        structs = [as_struct(aval_with_sizes(n.aval, value)) for n in nodes]
        return overhearing(cap, lambda: jax.make_jaxpr(call)(*structs))
    except ours(Exception) as error:
        if isinstance(error, Break) and error.kind == "effect":
            raise
        return None


def rebuild(arg: Any, env: dict[Any, Any]) -> Any:
    """The real object of a lowered argument; Standins stand for themselves. What a LibraryArg makes is made once, and
    kept in `env`: one that is made of another, used twice, would take twice as long."""
    row = REBUILT.get(type(arg))
    return map_parts(arg, lambda v: rebuild(v, env)) if row is None else row(arg, env)


def _made(arg: LibraryArg, env: dict[Any, Any]) -> Any:
    if arg not in env:
        env[arg] = arg.make(*rebuild(arg.args, env), **rebuild(arg.kwargs, env))
    return env[arg]


REBUILT: dict[type, Callable[[Any, dict[Any, Any]], Any]] = {
    Node: lambda arg, env: env[arg], Standin: lambda arg, env: arg.function, Size: lambda arg, env: canonical(arg),
    LibraryArg: _made, Tree: lambda arg, env: jax.tree.unflatten(arg.treedef, [rebuild(v, env) for v in arg.leaves]),
}


def parts(arg: Any, seen: set[LibraryArg] | None = None) -> Iterator[Any]:
    """The innermost parts of a lowered argument, also through LibraryArgs (once each), and the structures of trees."""
    seen = set() if seen is None else seen
    if is_library_arg(arg):
        inside: Any = () if arg in seen else (arg.args, arg.kwargs)
        seen.add(arg)
    elif isinstance(arg, Tree):
        inside = (arg.treedef, *arg.leaves)
    elif isinstance(arg, (tuple, list, dict)):
        inside = arg.values() if isinstance(arg, dict) else arg
    elif isinstance(arg, slice):
        inside = (arg.start, arg.stop, arg.step)
    else:
        yield arg
        return
    for part in inside:
        yield from parts(part, seen)


def leaf_nodes(arg: Any) -> Iterator[Node]:
    """The array Nodes that a lowered argument reads."""
    return of_class(Node, parts(arg))


def library_args(arg: Any) -> Iterator[LibraryArg]:
    """What libraries have made in a lowered argument, the innermost first."""
    if is_library_arg(arg):
        yield from library_args((*arg.args, *arg.kwargs.values()))
        yield arg
    elif isinstance(arg, (tuple, list, dict, Tree)):
        for part in arg.values() if isinstance(arg, dict) else arg.leaves if isinstance(arg, Tree) else arg:
            yield from library_args(part)


def standins_in(arg: Any) -> Iterator[Standin]:
    """Every user function inside a lowered argument."""
    return of_class(Standin, parts(arg))


def shows_values(arg: Any) -> bool:
    """Whether a library sees by a lowered argument that it is being captured: a function stands for the program's,
    or the structure of a tree holds Values."""
    return any(isinstance(v, Standin) or isinstance(v, TREEDEF) and in_structure(v, Value) for v in parts(arg))
