"""Attention as one node: `softmax(scale * q k^T + bias) v`, however einsums, masks and dimensions of one spell it.

    product(q, k), times or over a number, plus a bias, where(mask, scores, very negative), softmax, product with v

is found from the last product inwards. Each dimension of more than one element carries a label through transposes,
reshapes that move ones, and conversions, so that only what is contracted with what counts. The weights go: they are
never in memory (`kernels/attention.h`). Sums are taken in another order, as in a softmax of blocks, so this is no pass
for "exact" numerics.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import OUTPUT, PLACEHOLDER, Builder, Graph, Node, node_at, nodes_in
from dynacomp.lowering.passes.core import as_node, dead_code, merge_common, substituted, users_of
from dynacomp.lowering.passes.triangles import Form, forms, is_lower
from dynacomp.lowering.primitives.attention import ATTENTION
from dynacomp.lowering.primitives.exact import evaluated
from dynacomp.lowering.primitives.ops import OPS, has_effects, is_call
from dynacomp.lowering.sizes.indexing import total

Labels = tuple[Any, ...]  # of a node's dimensions; None for those of one element
DTYPES = ("float32", "bfloat16", "float16")
FAR = -1e30  # what a mask puts in place of a score: added to a bias nothing but such numbers are what is left
BEYOND = -1e3  # a score that hardly any other falls below: what has it need not be looked at
MOST_EVALUATED = 1 << 22  # elements of a mask that is looked at while compiling
MOST_DEPTH = 512  # columns of q, k, v that the kernel's blocks are made for


@dataclass(frozen=True)
class Seen:
    """A node and the labels of its dimensions."""

    node: Node
    labels: Labels

    @property
    def sizes(self) -> dict[Any, Any]:
        return {lab: n for lab, n in zip(self.labels, self.node.aval.shape) if lab is not None}


@dataclass(eq=False)
class Found:
    """What is known of one attention while it is walked. covered: nodes that go with it. Labels of dimensions: "q"
    queries, "k" keys, "g" heads of queries that share keys, ("b", n) batch, "d" and "w" columns."""

    product: Node
    weights: Seen
    values: Seen
    key: Any
    covered: set[Node] = field(default_factory=set)
    scale: float = 1.0
    bias: Seen | None = None
    mask: Seen | None = None
    keep: bool = True  # where the mask is so, scores count
    fill: float = -math.inf
    queries: Seen | None = None
    keys: Seen | None = None
    precision: Any = None
    batch: tuple[Any, ...] = ()


def fuse_attention(graph: Graph) -> Graph:
    """`graph` with each attention as one node, where the kernel takes it and nothing else reads its weights."""
    names = [getattr(n.target, "name", "") for n in graph.calls]
    if names.count("dot_general") < 2 or "exp" not in names:
        return graph
    graph = dead_code(graph)  # what nobody reads reads nothing
    users, known = users_of(graph), forms(graph)
    found = {n: f for n in graph.calls if (f := attention_at(n)) is not None and is_closed(f, users) and applies(f)}
    causal = {n: f.mask is not None and f.fill <= BEYOND and is_causal(graph, f.mask, f, known)
              for n, f in found.items()}
    make = lambda n: lambda builder, new: written(builder, found[n], causal[n], new)
    taken = {n: make(n) for n, f in found.items() if causal[n] or is_sum(f)}
    return merge_common(substituted(graph, taken)) if taken else graph  # layers of one mask have one bias


def attention_at(node: Node) -> Found | None:
    """The attention whose last product is `node`."""
    if node.target is not OPS["dot_general"]:
        return None
    for side in (0, 1):
        found = _from_product(node, side)
        if found is not None and _softmax(found) and found.queries is not None:
            return found
    return None


def is_closed(found: Found, users: dict[Node, list[Node]]) -> bool:
    """Whether nothing outside reads what goes."""
    inside = found.covered | {found.product}
    return all(u in inside for n in found.covered for u in users[n])


def applies(found: Found) -> bool:
    """Whether the kernel takes it, and is worth it: operands of one dtype, products of one precision, few batch
    dimensions, and enough scores that not having them in memory counts."""
    assert found.queries and found.keys
    operands = (found.queries.node, found.keys.node, found.values.node, found.product)
    dtypes = {str(n.aval.dtype) for n in operands}
    columns = [total([found.queries.sizes.get("d", 1)]), total([found.values.sizes.get("w", 1)])]
    if found.precision != found.product.kwargs.get("precision"):
        return False
    rows = found.weights.sizes
    return (len(dtypes) == 1 and dtypes <= set(DTYPES) and len(found.batch) <= 2 and max(columns) <= MOST_DEPTH
            and is_worth(total([rows.get(lab, 1) for lab in (*found.batch, "g")]), total([rows.get("q", 1)]),
                         total([rows[found.key]])))


def is_sum(found: Found) -> bool:
    """Whether one array says it that is added to the scores: no bias under a mask that lets something of it through."""
    return found.bias is None or found.mask is None or found.fill <= FAR


def is_worth(heads: int, queries: int, keys: int) -> bool:
    """Measured against the unfused steps (AVX-512, one thread): 1.0 to 1.5 times as fast from 2^14 scores on, causal 2
    times; below, and for one query at a time, down to 0.7 times."""
    return queries >= 4 and heads * queries * keys >= 1 << 14


# --- walking inwards


def _from_product(node: Node, side: int) -> Found | None:
    """The product seen as weights (operand `side`) times values, its dimensions labelled."""
    weights, values = node.args[side], node.args[1 - side]
    contracted, batch = (dims[::1 if side == 0 else -1] for dims in node.kwargs["dimension_numbers"])
    if len(contracted[0]) != 1 or weights is values:
        return None
    labels: list[Any] = [("b", batch[0].index(d)) if d in batch[0] else "g" for d in range(len(weights.aval.shape))]
    labels[contracted[0][0]] = "k"
    rows = [d for d, n in enumerate(weights.aval.shape) if labels[d] == "g" and n != 1]
    if rows:  # the last of them are the queries
        labels[rows[-1]] = "q"
    inner: list[Any] = ["w"] * len(values.aval.shape)
    for place, d in enumerate(batch[1]):
        inner[d] = ("b", place)
    inner[contracted[1][0]] = "k"
    one, other = _labelled(weights, labels), _labelled(values, inner)
    if one is None or other is None or "k" not in one.labels:
        return None
    return Found(node, one, other, "k")


def _labelled(node: Node, labels: Sequence[Any]) -> Seen | None:
    """With None for dimensions of one element; None where two others have one label."""
    kept = tuple(None if n == 1 else lab for lab, n in zip(labels, node.aval.shape))
    solid = [lab for lab in kept if lab is not None]
    return Seen(node, kept) if len(set(solid)) == len(solid) else None


def bare(seen: Seen, covered: set[Node]) -> Seen:
    """What is under conversions between floats, transposes, and reshapes that only move ones."""
    while True:
        node, labels = seen.node, seen.labels
        name = getattr(node.target, "name", "")
        below = node_at(node)
        if below is None or name not in ("transpose", "reshape", "convert_element_type", "broadcast_in_dim"):
            return seen
        if name == "broadcast_in_dim" and len(solid_sizes(node)) != len(solid_sizes(below)):
            return seen
        if name == "transpose":
            order = node.kwargs["permutation"]
            labels = tuple(labels[order.index(d)] for d in range(len(order)))
        elif name in ("reshape", "broadcast_in_dim"):
            solid = [(lab, n) for lab, n in zip(labels, node.aval.shape) if n != 1]
            if [n for _, n in solid] != solid_sizes(below):
                return seen
            rest = iter(lab for lab, _ in solid)
            labels = tuple(None if n == 1 else next(rest) for n in below.aval.shape)
        elif str(below.aval.dtype) not in DTYPES or str(node.aval.dtype) not in DTYPES:
            return seen
        covered.add(node)
        seen = Seen(below, labels)


def solid_sizes(node: Node) -> list[Any]:
    """The sizes of a node's dimensions of more than one element."""
    return [n for n in node.aval.shape if n != 1]


def _softmax(found: Found) -> bool:
    """Walks from the weights through `exp(x - max(x)) / sum(...)` and what makes the scores."""
    whole = bare(found.weights, found.covered)
    if not is_call(whole.node, "div") or not _both_nodes(whole.node):
        return False
    powers = bare(Seen(whole.node.args[0], whole.labels), found.covered)
    summed = Seen(whole.node.args[1], whole.labels)
    if not is_call(powers.node, "exp") or _folded(summed, "reduce_sum", found) != powers:
        return False
    moved = bare(Seen(powers.node.args[0], powers.labels), found.covered)
    if not is_call(moved.node, "sub") or not _both_nodes(moved.node):
        return False
    scores = bare(Seen(moved.node.args[0], moved.labels), found.covered)
    found.covered |= {whole.node, powers.node, moved.node}
    most = _folded(Seen(moved.node.args[1], moved.labels), "reduce_max", found)
    return most == scores and _scores(scores, found, 0)


def _folded(seen: Seen, fold: str, found: Found) -> Seen | None:
    """What `seen`, an array that is spread over the keys, is the fold of along them."""
    seen = bare(seen, found.covered)
    if is_call(seen.node, "broadcast_in_dim") and (below := node_at(seen.node)):
        found.covered.add(seen.node)
        dims = seen.node.kwargs["broadcast_dimensions"]
        labels = tuple(None if n == 1 else seen.labels[d] for d, n in zip(dims, below.aval.shape))
        seen = bare(Seen(below, labels), found.covered)
    if is_call(seen.node, "max") and not node_at(seen.node) and (below := node_at(seen.node, 1)):
        if seen.node.args[0] != -np.inf:
            return None
        found.covered.add(seen.node)
        seen = bare(Seen(below, seen.labels), found.covered)
    if not is_call(seen.node, fold) or len(seen.node.kwargs["axes"]) != 1 or found.key in seen.labels:
        return None
    found.covered.add(seen.node)
    axis = seen.node.kwargs["axes"][0]
    return bare(Seen(seen.node.args[0], (*seen.labels[:axis], found.key, *seen.labels[axis:])), found.covered)


def _scores(seen: Seen, found: Found, stage: int) -> bool:
    """From the softmax's operand to the first product: a mask, a bias, numbers, in this order from outside."""
    node = seen.node
    found.covered.add(node)
    if is_call(node, "dot_general"):
        return _first_product(seen, found)
    rule = _STEPS.get(getattr(node.target, "name", ""))
    return rule is not None and stage <= rule[0] and rule[1](seen, found, rule[0])


def _masked(seen: Seen, found: Found, stage: int) -> bool:
    which, cases = node_at(seen.node), seen.node.args[1:]
    fills = [c for c in cases if isinstance(c, np.generic)]
    if len(cases) != 2 or len(fills) != 1 or not float(fills[0]) < math.inf or which is None or found.mask:
        return False
    found.fill, found.keep = float(fills[0]), isinstance(cases[0], np.generic)
    found.mask = Seen(which, seen.labels)
    return _scores(bare(Seen(cases[found.keep], seen.labels), found.covered), found, stage + 1)


def _biased(seen: Seen, found: Found, stage: int) -> bool:
    if not _both_nodes(seen.node):
        return False
    covered = set(found.covered)
    for side in (0, 1):
        found.bias = Seen(seen.node.args[1 - side], seen.labels)
        if _scores(bare(Seen(seen.node.args[side], seen.labels), found.covered), found, stage + 1):
            return True
        found.covered.clear()
        found.covered |= covered
        found.scale = 1.0
    return False


def _scaled(seen: Seen, found: Found, stage: int) -> bool:
    numbers = [a for a in seen.node.args if isinstance(a, np.generic)]
    inverse = is_call(seen.node, "div")
    if len(numbers) != 1 or inverse and not isinstance(seen.node.args[1], np.generic) or not np.isfinite(numbers[0]):
        return False
    found.scale *= 1 / float(numbers[0]) if inverse else float(numbers[0])
    below = next(of_class(Node, seen.node.args))
    return _scores(bare(Seen(below, seen.labels), found.covered), found, stage)


_STEPS: dict[str, tuple[int, Callable[[Seen, Found, int], bool]]] = {
    "select_n": (0, _masked), "add": (1, _biased), "mul": (2, _scaled), "div": (2, _scaled)}


def _first_product(seen: Seen, found: Found) -> bool:
    """Labels the operands of the first product by those of the scores."""
    node = seen.node
    contracted, batch = node.kwargs["dimension_numbers"]
    if len(contracted[0]) != 1 or found.key not in seen.labels:
        return False
    outs = list(seen.labels)
    sides = []
    for side in (0, 1):
        labels: list[Any] = [None] * len(node.args[side].aval.shape)
        labels[contracted[side][0]] = "d"
        for place, d in enumerate(batch[side]):
            labels[d] = outs[place]
        free = [d for d in range(len(labels)) if d not in (*contracted[side], *batch[side])]
        start = len(batch[0]) + (0 if side == 0 else len(outs) - len(batch[0]) - len(free))
        for place, d in enumerate(free):
            labels[d] = outs[start + place]
        sides.append(_labelled(node.args[side], labels))
    shared = {lab for lab in outs[:len(batch[0])] if lab is not None}
    wanted = {lab for lab in found.weights.labels if isinstance(lab, tuple)}
    with_key = [s is not None and found.key in s.labels for s in sides]
    if None in sides or with_key.count(True) != 1 or shared != wanted:
        return False
    keys, queries = sides[with_key.index(True)], sides[with_key.index(False)]
    if keys is None or not {"q", "g"}.isdisjoint(keys.labels):
        return False
    found.keys, found.queries = keys, queries
    found.batch = tuple(lab for lab in outs[:len(batch[0])] if lab is not None)
    found.precision = node.kwargs.get("precision")
    return True


def _both_nodes(node: Node) -> bool:
    return len([*of_class(Node, node.args)]) == len(node.args)


def is_causal(graph: Graph, mask: Seen, found: Found, known: dict[Node, Form]) -> bool:
    """Whether the mask, made of nothing but positions, lets query i see the keys up to i: from what is `known` of it,
    whatever the sizes are, or by computing it."""
    below = narrow(mask)
    solid = [lab for lab in below.labels if lab is not None]
    if below.node in known and {"q", found.key} <= set(solid):
        return is_lower(known[below.node], below.labels.index("q"), below.labels.index(found.key), found.keep)
    if solid != ["q", found.key]:
        return False
    sizes = below.node.aval.shape
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) > MOST_EVALUATED:
        return False
    before = set(_ancestors(below.node))
    if any(n.op == PLACEHOLDER or has_effects(n) for n in before):
        return False
    ordered = [n for n in graph.nodes if n in before]
    only = Graph((*ordered, Node(OUTPUT, "output", args=((below.node,),))), graph.consts)
    value = np.asarray(evaluated(only)[0]).reshape(solid_sizes(below.node))
    return bool(((value if found.keep else ~value) == np.tril(np.ones(value.shape, bool))).all())


def narrow(seen: Seen) -> Seen:
    """An array before it was spread."""
    while is_call(seen.node, "broadcast_in_dim") and (inner := node_at(seen.node)):
        dims = seen.node.kwargs["broadcast_dimensions"]
        seen = Seen(inner, tuple(None if n == 1 else seen.labels[d] for d, n in zip(dims, inner.aval.shape)))
    return seen


def _ancestors(node: Node) -> Iterator[Node]:
    seen, todo = {node}, [node]
    while todo:
        one = todo.pop()
        yield one
        new = [n for n in nodes_in((one.args, dict(one.kwargs))) if n not in seen]
        seen.update(new)
        todo += new


# --- writing the node


def written(builder: Builder, found: Found, causal: bool, new: Any) -> Node:
    """The attention's value, in the shape of the last product."""
    assert found.queries and found.keys
    pad = (None,) * (2 - len(found.batch))
    rows, columns = (*pad, *found.batch, "g", "q"), (*pad, *found.batch, found.key)
    build = _Writer(builder, found.product)
    args = [build.arranged(found.queries, (*rows, "d"), new), build.arranged(found.keys, (*columns, "d"), new),
            build.arranged(found.values, (*columns, "w"), new)]
    bias = None if causal and found.bias is None else build.bias(found, causal, new)
    if bias is not None:
        args.append(build.arranged(bias, (*rows, found.key), {bias.node: bias.node}))
    shape = (*args[0].aval.shape[:4], args[2].aval.shape[3])
    asked = {} if found.precision is None else {"precision": found.precision}
    marks = bias is not None and found.mask is not None and found.bias is None
    params = {"scale": found.scale, "causal": causal, "marks": marks, "fill": found.fill, **asked}
    aval = Aval(shape, found.product.aval.dtype)
    whole = builder.call(ATTENTION, tuple(args), params, (aval,), found.product.where)
    result = build.first(whole, aval)
    return build.restored(result, (*rows, "w"), found)


@dataclass(frozen=True)
class _Writer:
    """Appends nodes at the line of the product that they replace."""

    builder: Builder
    like: Node

    def call(self, name: str, args: tuple[Any, ...], params: dict[str, Any], aval: Aval) -> Node:
        return self.builder.call(OPS[name], args, params, aval, self.like.where)

    def first(self, whole: Node, aval: Aval) -> Node:
        return self.builder.call(operator.getitem, (whole, 0), {}, aval, self.like.where)

    def shaped(self, node: Node, shape: tuple[Any, ...]) -> Node:
        same = node.aval.shape == shape
        return node if same else self.call("reshape", (node,), {"new_sizes": shape}, replace(node.aval, shape=shape))

    def turned(self, node: Node, order: tuple[int, ...]) -> Node:
        shape = tuple(node.aval.shape[d] for d in order)
        aval = replace(node.aval, shape=shape)
        same = order == tuple(range(len(order)))
        return node if same else self.call("transpose", (node,), {"permutation": order}, aval)

    def bias(self, found: Found, causal: bool, new: Any) -> Seen | None:
        """What is added to the scores: the bias, and as much where the mask hides them that they vanish in it; marks
        where there is no bias."""
        given = [None if seen is None else narrow(seen) for seen in (found.bias, None if causal else found.mask)]
        if given[1] is None:
            return None if given[0] is None else Seen(self.node(new[given[0].node]), given[0].labels)
        both = given[0] is not None
        mask = found.mask if both else given[1]
        assert mask is not None
        kept = self.node(new[found.bias.node]) if both and found.bias else None
        fill = np.float32(-np.inf) if kept is None else np.asarray(found.fill, kept.aval.dtype)[()]
        other = np.float32(0) if kept is None else kept
        cases = (fill, other) if found.keep else (other, fill)
        which = self.node(new[mask.node])
        aval = Aval(which.aval.shape, fill.dtype)
        return Seen(self.call("select_n", (which, *cases), {}, aval), mask.labels)

    def node(self, value: Any) -> Node:
        """A value as a Node: constants become `get_attr`s."""
        return as_node(self.builder, value)

    def arranged(self, seen: Seen, wanted: Labels, new: Any) -> Node:
        """The operand with dimensions `wanted`; those that it lacks have one element."""
        ones = [d for d, lab in enumerate(seen.labels) if lab is None]
        order = (*ones, *(seen.labels.index(lab) for lab in wanted if lab is not None and lab in seen.labels))
        turned = self.turned(self.node(new[seen.node]), order)
        return self.shaped(turned, tuple(seen.sizes.get(lab, 1) for lab in wanted))

    def restored(self, result: Node, labels: Labels, found: Found) -> Node:
        """The result in the product's own order of dimensions."""
        side = 0 if found.product.args[0] is found.weights.node else 1
        batch = found.product.kwargs["dimension_numbers"][1][side]
        shared = [found.weights.labels[d] for d in batch]
        owners = (found.weights, ("g", "q")), (found.values, ("w",))
        frees = [[lab for lab in seen.labels if lab in own] for seen, own in owners]
        order = [lab for lab in (*shared, *frees[side], *frees[1 - side]) if lab is not None]
        sizes = dict(zip(labels, result.aval.shape))
        solid = [lab for lab in labels if lab in order]
        flat = self.shaped(result, tuple(sizes[lab] for lab in solid))
        return self.shaped(self.turned(flat, tuple(solid.index(lab) for lab in order)), self.like.aval.shape)
