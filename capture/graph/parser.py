"""Reads a printed Graph back: `parse(str(graph), references(graph), graph.consts)` is that graph.

The text is Python in form (see `printer`), so expressions go through `ast`; nothing is executed
but literals, the constructors named below, and look-ups of dotted names in modules already
imported. `where` and the placeholders' Sources are not in the text and come back empty.

    >>> g = parse("def graph(x: f32[2]):\\n    sin = jax.numpy.sin(x)  # f32[2]\\n    return (sin,)")
    >>> g.calls[0].target.__name__
    'sin'

`same(a, b)` says whether two Graphs print, and mean, the same.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from dynacomp.capture.graph.avals import _SHORT, Aval
from dynacomp.capture.graph.graph import (
    CALL_FUNCTION,
    CALL_GRAPH,
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Closure,
    Graph,
    Node,
    Tree,
    closures_in,
    nodes_in,
)
from dynacomp.capture.graph.printer import Printer, lookup, size_key

_LONG = {short: name for name, short in _SHORT.items()}
_HEADER = re.compile(r"def (\w+)\((.*)\):$")
_BODY = re.compile(r"(?:(\w+) = |return )(.*?)(?:  # (.*))?$")


class GraphSyntaxError(ValueError):
    """The text is not a printed Graph; says which line, and what was expected there."""


@dataclass
class Parser:
    """One Graph's reading: what names mean so far.

    targets: more names of targets (Ops) besides dotted names.
    """

    refs: Mapping[str, Any]
    consts: Mapping[str, Any]
    targets: Mapping[str, Any]
    nodes: dict[str, Node] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)

    def dim(self, text: str) -> Any:
        """A size: an int, or one of the references, looked up by its text."""
        if text.isdigit():
            return int(text)
        found = self.refs.get(size_key(text))
        if found is None:
            raise GraphSyntaxError(f"no size is called {text!r}: are these that Graph.s references?")
        return found

    def aval(self, text: str | None) -> Any:
        """`f32[n,3]*`, `(f32[2], i32[])` or None."""
        if text is None or text == "None":
            return None
        if text.startswith("("):
            return tuple(self.aval(t) for t in split(text[1:-1]))
        found = re.fullmatch(r"([^\[]+)\[(.*)\](\*?)", text)
        if found is None:
            raise GraphSyntaxError(f"{text!r} is not an Aval, such as f32[2,n]")
        name, dims, weak = found.groups()
        return Aval(tuple(map(self.dim, split(dims))), dtype_of(name, self.refs), bool(weak))

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        row = _VALUES.get(type(node))
        if row is None:
            raise GraphSyntaxError(f"{ast.unparse(node)!r} has no meaning in a Graph")
        return row(self, node)

    def name(self, node: ast.Name) -> Any:
        known = ChainMap(self.nodes, _CONSTANTS)
        return known[node.id] if node.id in known else self.dim(node.id)

    def attribute(self, node: ast.Attribute) -> Any:
        if (found := lookup(ast.unparse(node))) is None:
            raise GraphSyntaxError(f"nothing is called {ast.unparse(node)!r}; is its module imported?")
        return found

    def subscript(self, node: ast.Subscript) -> Any:
        """`refs['name']`, or a Closure: `graph_name[captured]`."""
        base, key = ast.unparse(node.value), self.value(node.slice)
        if base == "refs":
            return self.refs[key]
        return Closure(self.graphs[base], key if isinstance(key, tuple) else (key,))

    def construct(self, node: ast.Call) -> Any:
        """A constructor inside an argument: scalars, dtypes, slices, named tuples, sizes."""
        kind = ast.unparse(node.func)
        if kind in _SIZES:
            return self.dim(ast.unparse(node))
        args = [self.value(a) for a in node.args]
        kwargs = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        if kind == "size":
            return self.dim(args[0])
        make = _CONSTRUCTORS.get(kind) or lookup(kind)
        if make is None:
            raise GraphSyntaxError(f"nothing is called {kind!r}; is its module imported?")
        return make(*args, **kwargs)

    def arithmetic(self, node: ast.expr) -> Any:
        """A size's expression, or a number with a sign."""
        if any(isinstance(n, ast.Name) and n.id not in _CONSTANTS for n in ast.walk(node)):
            return self.dim(ast.unparse(node))
        if isinstance(node, ast.UnaryOp):
            return _SIGNS[type(node.op)](self.value(node.operand))
        left, right = self.value(node.left), self.value(node.right)  # type: ignore[attr-defined]
        return left + right if isinstance(node.op, ast.Add) else left - right  # type: ignore[attr-defined]

    def call(self, name: str, text: str, aval: Any) -> Node:
        """`target(args, key=value)`, or `consts['name']`."""
        node = expression(text)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "consts":
            return Node(GET_ATTR, name, self.value(node.slice), aval=aval)
        if not isinstance(node, ast.Call):
            raise GraphSyntaxError(f"{text!r} is not a call")
        args = tuple(map(self.value, node.args))
        kwargs = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        op = CALL_GRAPH if any(True for _ in closures_in((args, kwargs))) else CALL_FUNCTION
        return Node(op, name, self.target(node.func), args, kwargs, aval)

    def target(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        name = ast.unparse(node)
        found = self.targets.get(name) or self.targets.get(name.rstrip("_")) or lookup(name)
        if found is None:
            raise GraphSyntaxError(f"no target is called {name!r}; pass it in `targets` or import its module")
        return found

    def graph(self, lines: list[str]) -> Graph:
        """The Graph at the head of `lines` (indentation removed), inner `def`s included."""
        header = _HEADER.match(lines[0])
        if header is None:
            raise GraphSyntaxError(f"{lines[0]!r} is not `def name(x: f32[2]):`")
        places = [self.placeholder(p) for p in split(header.group(2))]
        rest = [self.line(n) for n in self.statements([x.removeprefix("    ") for x in lines[1:]])]
        used = {n.target: self.consts[n.target] for n in rest if n.op == GET_ATTR}
        return Graph((*places, *rest), used, header.group(1))

    def statements(self, lines: list[str]) -> Iterator[str]:
        """The lines of this graph's own nodes; inner graphs are read on the way."""
        at = 0
        while at < len(lines):
            end = at + 1
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            if lines[at].startswith("def "):
                inner = replace(self, nodes={}, graphs={}).graph(lines[at:end])
                self.graphs[inner.name] = inner
            else:
                yield lines[at]
            at = end

    def placeholder(self, text: str) -> Node:
        name, aval = text.split(": ", 1)
        return self.nodes.setdefault(name, Node(PLACEHOLDER, name, aval=self.aval(aval)))

    def line(self, text: str) -> Node:
        found = _BODY.match(text)
        if found is None:
            raise GraphSyntaxError(f"{text!r} is not `name = call(...)  # aval` nor `return ...`")
        name, body, aval = found.groups()
        if name is None:
            return Node(OUTPUT, "output", args=(self.value(expression(body)),), aval=self.aval(aval))
        self.nodes[name] = self.call(name, body, self.aval(aval))
        return self.nodes[name]


def expression(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as e:
        raise GraphSyntaxError(f"{text!r} is not an expression: {e.msg}") from e


def dtype_of(name: str, refs: Mapping[str, Any]) -> Any:
    """A dtype by its short or NumPy name; extended dtypes (keys) are found among the refs."""
    long = _LONG.get(name, name)
    try:
        return np.dtype(getattr(ml_dtypes, long, long))
    except TypeError:
        found = [r for r in refs.values() if str(r) == name]
        if not found:
            raise GraphSyntaxError(f"{name!r} is no dtype; pass it in `refs`") from None
        return found[0]


def split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes; no empty parts."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in (*parts, text[start:].strip()) if p]


_CONSTANTS: dict[str, Any] = {"nan": float("nan"), "inf": float("inf"), "Ellipsis": ...}
_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
_SIZES = frozenset({"floor", "Mod", "Max", "Min", "floordiv", "mod", "max", "min"})
_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "dtype": np.dtype,
    "slice": slice,
    "tree": Tree,
    "signed": lambda closure, signature: replace(closure, signature=signature),
}
_VALUES: dict[type, Callable[[Parser, Any], Any]] = {
    ast.Constant: lambda p, n: n.value,
    ast.Name: Parser.name,
    ast.Attribute: Parser.attribute,
    ast.Subscript: Parser.subscript,
    ast.Call: Parser.construct,
    ast.BinOp: Parser.arithmetic,
    ast.UnaryOp: Parser.arithmetic,
    ast.Tuple: lambda p, n: tuple(map(p.value, n.elts)),
    ast.List: lambda p, n: list(map(p.value, n.elts)),
    ast.Dict: lambda p, n: {p.value(k): p.value(v) for k, v in zip(n.keys, n.values)},
}


def parse(text: str, refs: Mapping[str, Any] | None = None, consts: Mapping[str, Any] | None = None,
          targets: Mapping[str, Any] | None = None) -> Graph:
    """The Graph that printed as `text`.

    refs: `references(graph)`, its symbolic sizes among them. consts: the arrays of its `get_attr` nodes
    (inner graphs' too). targets: Ops by name. Raises GraphSyntaxError.
    """
    lines = [x for x in text.splitlines() if x.strip()]
    return Parser(refs or {}, consts or {}, targets or {}).graph(lines)


def same(a: Graph, b: Graph) -> bool:
    """True when two Graphs print the same, refer to the same objects, and call the same targets."""
    one, two = Printer(), Printer()
    if one.graph(a) != two.graph(b) or list(one.refs) != list(two.refs):
        return False
    return all(one.refs[k] is two.refs[k] or one.refs[k] == two.refs[k] for k in one.refs) and all(
        x.op == y.op and x.name == y.name and (x.target is y.target or x.op in (PLACEHOLDER, GET_ATTR))
        and [n.name for n in nodes_in((x.args, x.kwargs))] == [n.name for n in nodes_in((y.args, y.kwargs))]
        for x, y in zip(a.nodes, b.nodes))

