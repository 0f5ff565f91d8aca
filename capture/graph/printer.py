"""How a Graph prints: as readable Python, one node a line, its Aval in a comment.

Sizes print by name, scalars with their dtypes, enums and named tuples by their public names. What
has no spelling (a jaxpr, a pytree's structure, a closure's signature, a local function) prints as
`refs['name']`; `references(graph)` gives those objects, and with them `parser.parse` reads
the text back. Knows Nodes by their attributes only, so that `graph.py` can import it.

    def graph(x: f32[n,3]):
        sin = jax.numpy.sin(x)  # f32[n,3]
        reduce_sum = reduce_sum(sin, axes=(1,))  # f32[n]
        return (reduce_sum,)
"""

from __future__ import annotations

import dataclasses
import enum
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
from jax.extend.core import Primitive

_PUBLIC = {"jax._src.numpy": "jax.numpy", "jax._src.nn": "jax.nn", "jax._src.lax": "jax.lax",
           "jax._src.random": "jax.random", "_operator": "operator", "jax._src": "jax"}
_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis))


def lookup(name: str) -> Any:
    """The object that a dotted name means among the modules already imported, or None."""
    parts = name.split(".")
    parts[0] = {"np": "numpy"}.get(parts[0], parts[0])
    for cut in range(len(parts) - 1, 0, -1):
        if (module := sys.modules.get(".".join(parts[:cut]))) is not None:
            found: Any = module
            for part in parts[cut:]:
                found = getattr(found, part, None)
            return found
    return None


def dotted_name(value: Any) -> str | None:
    """The name that leads back to a function, class or enum member; None when no name does."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    module = getattr(value, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    shown = [public for private, public in _PUBLIC.items() if module.startswith(private)]
    tries = [f"{m}.{name}" for m in (*shown, module)]
    return next((t for t in tries if lookup(t) is value), None)


def primitive_name(value: Primitive) -> str | None:
    """The name of a primitive of JAX, which operations have as an argument: `jax.lax.ge_p` says what a window takes."""
    name = f"jax.lax.{value.name}_p"
    return name if lookup(name) is value else None


def op_name(target: Any) -> str | None:
    """An Op's name as an identifier (`and` is spelt `and_`); None for other targets."""
    name = getattr(target, "name", None)
    if getattr(target, "kind", None) is None or not isinstance(name, str):
        return None
    return name + "_" * keyword.iskeyword(name)


@dataclass
class Printer:
    """Collects, while printing, the objects that text cannot say (`refs`), one name each."""

    nodes: frozenset[str] = frozenset()
    refs: dict[str, Any] = field(default_factory=dict)

    def ref(self, value: Any) -> str:
        """`refs['name']` for an object, the same for the same object."""
        for name, known in self.refs.items():
            if known is value:
                return f"refs[{name!r}]"
        base = getattr(value, "__name__", None) or type(value).__name__
        base = re.sub(r"\W+", "_", str(base)).strip("_") or "object"
        name = f"{base}_{sum(k.rsplit('_', 1)[0] == base for k in self.refs)}"
        self.refs[name] = value
        return f"refs[{name!r}]"

    def value(self, value: Any) -> str:
        """An argument as Python."""
        for kinds, spell in _SPELLINGS:
            if isinstance(value, kinds):
                return spell(self, value)
        kind = type(value).__name__
        if kind == "Node":
            return value.name
        if kind in _STRUCTURES:
            return _STRUCTURES[kind](self, value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.record(value, [f.name for f in dataclasses.fields(value) if f.init])
        return dotted_name(value) or self.ref(value)

    def items(self, values: Any) -> str:
        return ", ".join(map(self.value, values))

    def size(self, value: Any) -> str:
        """A symbolic size; quoted where a node has the name of one of its symbols."""
        text = str(value)
        return f"size({text!r})" if self.nodes & set(re.findall(r"\w+", text)) else text

    def record(self, value: Any, names: Any) -> str:
        """A named tuple or dataclass, by its fields."""
        kind = dotted_name(type(value))
        if kind is None:
            return self.ref(value)
        return f"{kind}({', '.join(f'{n}={self.value(getattr(value, n))}' for n in names)})"

    def tuple(self, value: tuple) -> str:
        if hasattr(value, "_fields"):
            return self.record(value, value._fields)
        comma = "," if len(value) == 1 else ""
        return f"({self.items(value)}{comma})" if type(value) is tuple else self.ref(value)

    def scalar(self, value: np.generic) -> str:
        """A typed NumPy scalar; its text reads back to the same bits (NaN payloads aside)."""
        if value.dtype.kind in "biufc":
            return repr(value)
        return f"ml_dtypes.{value.dtype}({float(value)!r})" if value.dtype.kind in "Vf" else self.ref(value)

    def closure(self, value: Any) -> str:
        """`graph_name[captured]`, with its signature where it has one."""
        captured = f"{value.graph.name}[{self.tuple(value.captured)}]"
        return captured if value.signature is None else f"signed({captured}, {self.ref(value.signature)})"

    def call(self, node: Any) -> str:
        args = [self.value(a) for a in node.args]
        args += [f"{k}={self.value(v)}" for k, v in node.kwargs.items()]
        known = op_name(node.target) or dotted_name(node.target) or self.ref(node.target)
        return f"{known}({', '.join(args)})"

    def line(self, node: Any) -> str:
        if node.op == "get_attr":
            return f"{node.name} = consts[{node.target!r}]  # {node.aval}"
        if node.op == "output":
            typed = "" if node.aval is None else f"  # {node.aval}"
            return f"return {self.value(node.args[0])}{typed}"
        return f"{node.name} = {self.call(node)}  # {node.aval}"

    def graph(self, graph: Any, indent: str = "") -> str:
        """The whole Graph as a `def`; bodies of Closures first, as inner functions."""
        params = ", ".join(f"{n.name}: {n.aval}" for n in graph.nodes if n.op == "placeholder")
        lines = [f"{indent}def {graph.name}({params}):"]
        inner = indent + "    "
        own = self.nodes = frozenset(n.name for n in graph.nodes)
        for n in graph.nodes:
            lines += [self.graph(body, inner) for body in _inner_graphs((n.args, n.kwargs), {}).values()]
            self.nodes = own
            if n.op != "placeholder":
                lines.append(inner + self.line(n))
        return "\n".join(lines)


_SPELLINGS: tuple[tuple[Any, Callable[[Printer, Any], str]], ...] = (
    (enum.Enum, lambda p, v: f"{dotted_name(type(v))}.{v.name}" if dotted_name(type(v)) else p.ref(v)),
    (np.generic, Printer.scalar),
    (_PLAIN, lambda p, v: repr(v) if type(v) in _PLAIN else p.ref(v)),
    ((float, complex), lambda p, v: repr(v) if type(v) in (float, complex) else p.ref(v)),
    (np.dtype, lambda p, v: f"dtype({str(v)!r})"),
    (tuple, Printer.tuple),
    (list, lambda p, v: f"[{p.items(v)}]" if type(v) is list else p.ref(v)),
    (slice, lambda p, v: f"slice({p.items((v.start, v.stop, v.step))})"),
    (Mapping, lambda p, v: "{" + ", ".join(f"{p.value(k)}: {p.value(x)}" for k, x in v.items()) + "}"
     if type(v) is dict else p.ref(v)),
    (sympy.Expr, Printer.size),
    (Primitive, lambda p, v: primitive_name(v) or p.ref(v)),
)
_STRUCTURES: dict[str, Callable[[Printer, Any], str]] = {
    "Closure": Printer.closure,
    "Tree": lambda p, v: f"tree({p.ref(v.treedef)}, {p.tuple(v.leaves)}{', True' * v.given})",
    "Size": Printer.size,
}


def _inner_graphs(value: Any, found: dict[int, Any]) -> dict[int, Any]:
    """The graphs of the Closures in an argument, each once."""
    if type(value).__name__ == "Closure":
        found.setdefault(id(value.graph), value.graph)
    elif type(value).__name__ == "Tree":
        _inner_graphs(value.leaves, found)
    elif isinstance(value, (tuple, list)):
        for v in value:
            _inner_graphs(v, found)
    elif isinstance(value, Mapping):
        for v in value.values():
            _inner_graphs(v, found)
    return found


def graph_text(graph: Any, indent: str = "") -> str:
    """The whole Graph as Python; see the module's docstring."""
    return Printer().graph(graph, indent)


def references(graph: Any) -> dict[str, Any]:
    """The objects that the Graph's text calls `refs[...]`, and its symbolic sizes by `size_key`."""
    printer = Printer()
    printer.graph(graph)
    return {**printer.refs, **{size_key(str(size)): size for size in _sizes(graph, set())}}


def size_key(text: str) -> str:
    """What a symbolic size that prints as `text` is called among the references."""
    return "size " + text.replace(" ", "")


def _sizes(value: Any, seen: set[int]) -> Iterator[Any]:
    """Every symbolic size in a Graph, in its Avals and arguments. Nodes and graphs are seen once: a Node is an
    argument of others."""
    kind = type(value).__name__
    if kind == "Size" or isinstance(value, sympy.Expr):
        yield value
        return
    inside: Any = ()
    if kind in _PARTS:
        if id(value) in seen:
            return
        seen.add(id(value))
        inside = [getattr(value, name) for name in _PARTS[kind]]
    elif isinstance(value, (tuple, list)):
        inside = value
    elif isinstance(value, Mapping):
        inside = value.values()
    for part in inside:
        yield from _sizes(part, seen)


_PARTS = {"Graph": ("nodes",), "Node": ("args", "kwargs", "aval"), "Aval": ("shape",), "Closure": ("graph",),
          "Tree": ("leaves",), "slice": ("start", "stop", "step")}
