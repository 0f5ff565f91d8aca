"""Patterns: plain functions of arrays, found in primitive Graphs, and rewritten by other such functions.

A pattern has no shapes: it is traced at those of the graph that it is sought in. First at small sizes, for
each rank and dtype there (or those of `example`), as a *skeleton* whose operations, and nothing else, must
fit; then at the very arrays that its arguments were bound to, and now every operation, parameter, constant,
shape and dtype must be the same (operands of commutative operations in either order).

    >>> import jax, jax.numpy as jnp, numpy as np
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> graph = lower_function(lambda x, y: jnp.exp(x) * jnp.exp(y), np.ones(3, np.float32), np.ones(3, np.float32))
    >>> print(rewrite(graph, lambda a, b: jnp.exp(a) * jnp.exp(b), lambda a, b: jnp.exp2(a + b)))
    def graph(x0: f32[3], x1: f32[3]):
        add = add(x0, x1)  # f32[3]
        exp2 = exp2(add)  # f32[3]
        return (exp2,)  # (f32[3],)
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import sympy

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Builder, Graph, Node, is_node, nodes_in
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.passes.core import copied, dead_code, merge_common, substituted, users_of, value_key
from dynacomp.lowering.passes.fold import fold_constants
from dynacomp.lowering.passes.simplify import simplify
from dynacomp.lowering.primitives.ops import OPS, has_effects
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.dims import map_aval, to_size
from dynacomp.lowering.sizes.symbols import size as symbol

COMMUTATIVE = frozenset("add mul max min and or xor eq ne".split())
SIZES = ((6, 10, 14, 22, 26), (8, 16, 32, 64, 128))
"""Of a skeleton's dimensions: no two of them broadcast, nor are they 1; a quotient by a power of two is a product."""
LIKELY = 97  # an unknown size
Bound = Mapping[Node, Any]
Where = Callable[["Match"], bool]


class PatternError(TypeError):
    """A pattern, or what shall replace it, is no function of arrays that gives one array."""


@dataclass(frozen=True, eq=False)
class Match:
    """A place of `graph` that a pattern fits.

    inputs: what the pattern's arguments are there (Nodes, or NumPy scalars). output: the Node that it computes.
    nodes: all that it covers, `output` among them. shared: whether something else reads a value from within.
    """

    graph: Graph
    inputs: tuple[Any, ...]
    output: Node
    nodes: frozenset[Node]
    shared: bool

    @property
    def avals(self) -> tuple[Aval, ...]:
        """The shape and dtype of each input; sizes may be SymPy expressions."""
        return tuple(map(_aval, self.inputs))


def rewrite(graph: Graph, pattern: Callable[..., Any], replacement: Callable[..., Any], *,
            where: Where | None = None, example: Sequence[Any] | None = None) -> Graph:
    """`graph` with `replacement` at each place where `pattern` fits and `where(match)` holds.

    Both take the same arrays and return one, of one shape and dtype (PatternError). Places do not overlap: those
    nearer to the outputs come first. What was put in is not looked at again.
    """
    chosen: dict[Node, Match] = {}
    covered: set[Node] = set()
    for match in find(graph, pattern, example=example):
        if match.output not in covered and (where is None or where(match)):
            chosen[match.output] = match
            covered |= match.nodes
    if not chosen:
        return graph
    make = lambda match: lambda builder, new: _replaced(builder, match, replacement, new)
    return substituted(graph, {node: make(match) for node, match in chosen.items()})


def find(graph: Graph, pattern: Callable[..., Any], *, example: Sequence[Any] | None = None) -> Iterator[Match]:
    """Every place that the pattern fits, those nearer to the outputs first; they may overlap.

    example: arrays (or ShapeDtypeStructs) of the ranks that the arguments have, where they are not all of one shape.
    """
    graph = dead_code(graph)  # what nobody reads reads nothing
    skeletons = list(_skeletons(graph, pattern, example))
    users = users_of(graph)
    for node in reversed(graph.calls):
        seen: set[Any] = set()
        for how, skeleton in skeletons:
            for bound in _fits(skeleton.output[0], node, {}, False, graph, skeleton):
                inputs = tuple(bound.get(p) for p in skeleton.placeholders)
                if any(i is None for i in inputs) or value_key(inputs) in seen:
                    continue
                seen.add(value_key(inputs))
                match = _exact(graph, node, pattern, inputs, how, users)
                if match is not None:
                    yield match


# --- from a function to Graphs


def traced(fn: Callable[..., Any], avals: Sequence[Aval], tidy: bool = False, size: int | None = None) -> Graph:
    """The primitive Graph of a function of arrays that returns one. tidy: as the passes leave it. size: what unknown
    sizes are taken for where JAX compares them (what is compared with a graph may be of any; a replacement may not)."""
    scope = Scope()
    for name in sorted({s.name for a in avals for d in a.shape for s in getattr(d, "free_symbols", ())}):
        scope.symbol(name, size)
    given = [map_aval(a, functools.partial(to_size, scope=scope)) for a in avals]
    graph = lower_function(fn, *given, name=getattr(fn, "__name__", "pattern"))
    if len(graph.output) != 1:
        raise PatternError(f"{_label(fn)} is to return one array; it returns {len(graph.output)}")
    return dead_code(merge_common(simplify(fold_constants(graph)))) if tidy else dead_code(graph)


def _skeletons(graph: Graph, fn: Callable[..., Any], example: Sequence[Any] | None) -> Iterator[tuple[bool, Graph]]:
    """(tidy, Graph) for each rank, dtype and choice of unknown sizes that may occur in `graph`, each form once."""
    seen = set()
    failure: Exception | None = None
    for avals, tidy in itertools.product(_examples(graph, fn, example), (False, True)):
        try:
            made = traced(fn, avals, tidy, LIKELY)
        except PatternError:
            raise
        except ours(Exception) as error:  # it takes no arrays of this rank or dtype
            failure = error
            continue
        form = tuple((getattr(n.target, "name", n.op), tuple(x.name for x in nodes_in(n.args))) for n in made.nodes)
        if form not in seen and made.calls:
            seen.add(form)
            yield tidy, made
    if not seen and failure is not None and example is not None:
        raise PatternError(f"{_label(fn)} cannot be traced: {type(failure).__name__}: {failure}") from failure


def _examples(graph: Graph, fn: Callable[..., Any], example: Sequence[Any] | None) -> Iterator[tuple[Aval, ...]]:
    avals = [a for n in graph.nodes[:-1] for a in (n.aval if isinstance(n.aval, tuple) else (n.aval,))]
    dtypes = list(dict.fromkeys(a.dtype for a in avals))
    symbolic = any(isinstance(d, sympy.Expr) for a in avals for d in a.shape)
    if example is None:
        ranks = sorted({len(a.shape) for a in avals if len(a.shape) <= len(SIZES[0])})
        shapes = dict.fromkeys(sizes[:rank] for rank in ranks for sizes in SIZES)
        count = _arguments(fn)
        plain = [(Aval(s, d),) * count for s in shapes for d in dtypes]
    else:
        given = tuple(map(aval_of, example))
        floats = [d for d in dtypes if jnp.issubdtype(d, jnp.floating)]
        plain = [tuple(replace(a, dtype=d) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in given)
                 for d in floats] or [given]
    for avals_of in plain:
        sizes = sorted({d for a in avals_of for d in a.shape}) if symbolic else []
        for unknown in itertools.chain.from_iterable(itertools.combinations(sizes, k) for k in range(len(sizes) + 1)):
            yield tuple(Aval(tuple(symbol(f"size{d}") if d in unknown else d for d in a.shape), a.dtype)
                        for a in avals_of)


def _arguments(fn: Callable[..., Any]) -> int:
    kinds = [p.kind for p in inspect.signature(fn).parameters.values() if p.default is p.empty]
    if any(k not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds):
        raise PatternError(f"{_label(fn)} is to take arrays by position")
    return len(kinds)


def _label(fn: Any, role: str = "pattern") -> str:
    return f"the {role} {getattr(fn, '__qualname__', fn)!r}"


# --- matching


def _exact(graph: Graph, node: Node, fn: Callable[..., Any], inputs: tuple[Any, ...], tidy: bool,
           users: Mapping[Node, list[Node]]) -> Match | None:
    """The match of the pattern on these very inputs, or None."""
    try:
        wanted = traced(fn, list(map(_aval, inputs)), tidy, LIKELY)
    except ours(Exception):
        return None
    start = dict(zip(wanted.placeholders, inputs))
    bound = next(_fits(wanted.output[0], node, start, True, graph, wanted), None)
    if bound is None or not _same_aval(wanted.output[0].aval, node.aval):
        return None
    nodes = frozenset(got for want, got in bound.items() if want.op != PLACEHOLDER and is_node(got))
    inside = [n for n in nodes if n is not node and n.op != GET_ATTR]
    shared = any(u not in nodes for n in inside for u in users[n])
    return Match(graph, inputs, node, nodes, shared)


def _fits(want: Any, got: Any, bound: Bound, exact: bool, graph: Graph, pattern: Graph) -> Iterator[Bound]:
    """Each way in which `got` of `graph` is `want` of `pattern`, with what that binds."""
    if not is_node(want):
        scalars = isinstance(want, np.generic) and isinstance(got, np.generic)
        if scalars and not exact or type(want) is type(got) and value_key(want) == value_key(got):
            yield bound
    elif want in bound:
        if bound[want] is got or value_key(bound[want]) == value_key(got):
            yield bound
    elif want.op == PLACEHOLDER:
        array = isinstance(got, np.generic) or is_node(got) and not isinstance(got.aval, tuple)
        if array and (not exact or _same_aval(want.aval, _aval(got))):
            yield {**bound, want: got}
    elif isinstance(got, np.generic) and _fills(want):
        yield from _fits(want.args[0], got, bound, exact, graph, pattern)
    elif is_node(got) and _alike(want, got, exact, graph, pattern):
        for order in _orders(want, got):
            for inner in _all_fit(want.args, order, bound, exact, graph, pattern):
                yield {**inner, want: got}


def _fills(want: Node) -> bool:
    """Whether it spreads a scalar: scalar constants stay scalars where arrays of one shape are wanted."""
    return want.target is OPS["broadcast_in_dim"] and len(want.kwargs["broadcast_dimensions"]) == 0


def _all_fit(wants: Sequence[Any], gots: Sequence[Any], bound: Bound, exact: bool, graph: Graph,
             pattern: Graph) -> Iterator[Bound]:
    if not wants:
        yield bound
        return
    for inner in _fits(wants[0], gots[0], bound, exact, graph, pattern):
        yield from _all_fit(wants[1:], gots[1:], inner, exact, graph, pattern)


def _orders(want: Node, got: Node) -> Iterator[Sequence[Any]]:
    yield got.args
    if getattr(want.target, "name", "") in COMMUTATIVE and len(got.args) == 2:
        yield got.args[::-1]


def _alike(want: Node, got: Node, exact: bool, graph: Graph, pattern: Graph) -> bool:
    """Whether two nodes are one operation, their operands left aside."""
    if want.op != got.op or len(want.args) != len(got.args) or has_effects(got):
        return False
    if want.op == GET_ATTR:
        return not exact or value_key(np.asarray(pattern.consts[want.target])) == value_key(
            np.asarray(graph.consts[got.target]))
    if want.target is not got.target:
        return False
    same_params = not exact or value_key(dict(want.kwargs)) == value_key(dict(got.kwargs))
    return same_params and (not exact or _same_aval(want.aval, got.aval))


def _same_aval(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(_same_aval, a, b))
    return a.dtype == b.dtype and a.shape == b.shape


def _aval(value: Any) -> Aval:
    return value.aval if is_node(value) else Aval(np.shape(value), value.dtype)


# --- rewriting


def _replaced(builder: Builder, match: Match, replacement: Callable[..., Any], new: Mapping[Node, Any]) -> Any:
    """The replacement's value in the place of a match, at the same line of the user's."""
    made = traced(replacement, match.avals)
    if not _same_aval(made.output[0].aval, match.output.aval):
        raise PatternError(f"{_label(replacement, 'replacement')} makes {made.output[0].aval} of "
                           f"{', '.join(map(str, match.avals))}, "
                           f"where the pattern makes {match.output.aval}")
    inner: dict[Node, Any] = {
        p: new[i] if is_node(i) else i for p, i in zip(made.placeholders, match.inputs)}
    for node in made.nodes[:-1]:
        if node.op != PLACEHOLDER:
            inner[node] = copied(builder, made, replace(node, where=match.output.where), inner)
    return inner[made.output[0]]
