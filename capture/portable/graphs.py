"""Captured Graphs as data, and again in another process: node by node, with what their text does not say.

A Graph whose arrays JAX traces needs its nodes there: what JAX derives of it is traced anew. Functions and structures
in it are written as those in guards are (see `references`), arrays by their content, sizes by their terms.

    data = write(writer, graph)     # Unportable: it holds an object of this process alone
    graph = read(reader, data)      # its sizes belong to a scope of its own
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import eval_context
from jax._src.lax.lax import _convert_element_type

from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.graph.avals import ARRAY_TYPE, Aval
from dynacomp.capture.graph.graph import PLACEHOLDER, Closure, Graph, Node, Tree
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import SYMBOL, Atom, Size, extreme
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.references import LARGEST, Reader, Writer

OURS = "dynacomp."
Data = tuple[Any, ...]


def write(w: Writer, graph: Graph) -> Data:
    nodes = [_node(w, node) for node in graph.nodes]
    return graph.name, nodes, [(key, _written(w, const)) for key, const in graph.consts.items()]


def _node(w: Writer, node: Node) -> Data:
    """Avals of inputs alone: those of results are found when the Graph is traced."""
    aval = _aval(w, node.aval) if node.op == PLACEHOLDER else None
    target = node.target if type(node.target) is str else None
    call = None if target is not None or node.target is None or node.op == PLACEHOLDER else _written(w, node.target)
    return node.op, node.name, target, call, _written(w, node.args), _written(w, dict(node.kwargs)), aval, node.where


def _aval(w: Writer, aval: Aval) -> Data:
    if type(aval) is not Aval:
        raise Unportable("a Python number that a Graph is given")
    return _written(w, aval.shape), w.write(aval.dtype), aval.weak_type


def _written(w: Writer, value: Any) -> Data:
    """An argument of a node."""
    row = ROWS.get(type(value))
    if row is not None:
        return row(w, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return "fields", w.write(type(value)), _every(w, value)
    if isinstance(value, np.generic):
        return "scalar", value.dtype.name, value.tobytes()
    if isinstance(value, enum.Enum):
        return "enum", w.write(type(value)), value.name
    home = type(value).__module__
    if type(value) is types.FunctionType and value.__module__.startswith(OURS):
        return "function", value.__module__, own_name(value)
    if home.startswith(OURS):
        return "of ours", home, type(value).__qualname__, _written(w, vars(value))
    return "other", w.write(value)


def own_name(fn: types.FunctionType) -> str:
    """Under which our module has a function, which may show itself under another name."""
    name = fn.__code__.co_name
    if vars(sys.modules[fn.__module__]).get(name) is not fn:
        raise Unportable(f"{fn.__qualname__}, which capture has made")
    return name


def _every(w: Writer, values: Any) -> list[Data]:
    return [_written(w, v) for v in values]


def _array(w: Writer, array: jax.Array) -> Data:
    if array.nbytes > LARGEST or array.committed or len(array.devices()) > 1 or (
            array.devices() != {jax.local_devices()[0]}) or jnp.issubdtype(array.dtype, jax.dtypes.extended):
        raise Unportable(f"an array of {array.dtype} in a Graph")
    return "array", np.asarray(array).tobytes(), array.shape, array.dtype.name, array.weak_type


def _size(w: Writer, size: Size) -> Data:
    return "size", [([(_atom(w, size.scope, atom), power) for atom, power in mono], k) for mono, k in size.terms]


def _atom(w: Writer, scope: Scope, atom: Atom) -> Data:
    if atom.op != SYMBOL:
        return atom.op, _every(w, atom.args)
    name = atom.args[0]
    return SYMBOL, [name, scope.least[name], scope.most.get(name)]


def _signature(w: Writer, found: inspect.Signature) -> Data:
    """Annotations apart, which nobody compiles."""
    return "signature", [(q.name, int(q.kind), _written(w, q.default)) for q in found.parameters.values()]


ROWS: dict[type, Callable[[Writer, Any], Data]] = {
    Node: lambda w, node: ("node", node.name),
    Closure: lambda w, made: ("closure", write(w, made.graph), _written(w, made.captured), _written(w, made.signature)),
    Tree: lambda w, tree: ("filled", w.write(tree.treedef), _written(w, tree.leaves), tree.given),
    tuple: lambda w, items: ("is", items) if is_literal(items) else ("tuple", _every(w, items)),
    list: lambda w, items: ("list", _every(w, items)),
    dict: lambda w, table: ("dict", _every(w, table), _every(w, table.values())),
    slice: lambda w, part: ("slice", _every(w, (part.start, part.stop, part.step))),
    Size: _size, ARRAY_TYPE: _array, inspect.Signature: _signature,
    functools.partial: lambda w, made: (  # type: ignore[dict-item]
        "partial", _written(w, made.func), _written(w, made.args), _written(w, made.keywords)),
}


# --- reading


def read(r: Reader, data: Data) -> Graph:
    return Reading(r, Scope()).graph(*data)


class Reading:
    """A Graph that is read. nodes: those that are there, by name."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self.reader, self.scope = reader, scope
        self.nodes: dict[str, Node] = {}

    def graph(self, name: str, nodes: list[Data], consts: list[Data]) -> Graph:
        found = tuple(self.node(*data) for data in nodes)
        return Graph(found, {key: self.value(data) for key, data in consts}, name)

    def node(self, op: str, name: str, target: str | None, call: Any, args: Data, kwargs: Data, aval: Any,
             where: Any) -> Node:
        made = Node(op, name, target if call is None else self.value(call), self.value(args), self.value(kwargs),
                    aval and self.aval(*aval), where)
        return self.nodes.setdefault(name, made)

    def aval(self, shape: Data, dtype: Data, weak: bool) -> Aval:
        return Aval(self.value(shape), self.reader.read(dtype), weak)

    def value(self, data: Data) -> Any:
        return READ[data[0]](self, *data[1:])

    def every(self, data: list[Data]) -> list[Any]:
        return [self.value(d) for d in data]

    def closure(self, graph: Data, captured: Data, signature: Data) -> Closure:
        return Closure(Reading(self.reader, self.scope).graph(*graph), self.value(captured), self.value(signature))

    def size(self, terms: list[Any]) -> Any:
        total: Any = 0
        for mono, k in terms:
            for atom, power in mono:
                k = k * self.atom(*atom) ** power
            total = total + k
        return total

    def atom(self, op: str, args: list[Any]) -> Any:
        if op == SYMBOL:
            name, least, most = args
            found = self.scope.symbol(name, least=least)
            self.scope.bound(name, least, most)
            return found
        a, b = self.every(args)
        return extreme(op, a, b) if op in ("min", "max") else a // b


def _own(module: str, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), sys.modules[module])


def _read_own(r: Reading, module: str, name: str, attributes: Data) -> Any:
    made = object.__new__(_own(module, name))
    vars(made).update(r.value(attributes))
    return made


def _read_array(r: Reading, content: bytes, shape: tuple[int, ...], dtype: str, weak: bool) -> jax.Array:
    with eval_context():
        found = jnp.asarray(np.frombuffer(content, np.dtype(dtype)).reshape(shape))
        return _convert_element_type(found, np.dtype(dtype), weak_type=True) if weak else found


def _read_signature(r: Reading, parameters: list[Any]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect._ParameterKind(kind), default=r.value(default))
                              for name, kind, default in parameters])


READ: dict[str, Callable[..., Any]] = {
    "node": lambda r, name: r.nodes[name],
    "is": lambda r, value: value,
    "other": lambda r, data: r.reader.read(data),
    "tuple": lambda r, items: tuple(r.every(items)),
    "list": lambda r, items: r.every(items),
    "dict": lambda r, keys, values: dict(zip(r.every(keys), r.every(values))),
    "slice": lambda r, parts: slice(*r.every(parts)),
    "fields": lambda r, cls, items: tuple.__new__(r.reader.read(cls), r.every(items)),
    "scalar": lambda r, dtype, content: np.frombuffer(content, np.dtype(dtype))[0],
    "enum": lambda r, cls, name: r.reader.read(cls)[name],
    "function": lambda r, module, name: _own(module, name), "of ours": _read_own,
    "filled": lambda r, treedef, leaves, given: Tree(r.reader.read(treedef), r.value(leaves), given),
    "partial": lambda r, fn, args, kwargs: functools.partial(r.value(fn), *r.value(args), **r.value(kwargs)),
    "closure": Reading.closure, "size": Reading.size, "array": _read_array, "signature": _read_signature,
}
