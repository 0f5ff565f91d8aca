"""How a Graph prints: as readable Python, one node a line.

Knows Nodes by their attributes only, so that `graph.py` can import it. `graph_parse.py` reads the
text back.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any


def target_name(target: Any) -> str:
    """A dotted name for a node's target: `jax.numpy.sin`, an Op's name, else its repr."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__qualname__", None)
    if name is None and isinstance(getattr(target, "name", None), str):
        return target.name + ("_" if keyword.iskeyword(target.name) else "")
    if name is None:
        return repr(target)
    module = getattr(target, "__module__", None)
    public = {"jax._src.numpy": "jax.numpy", "_operator": "operator", "builtins": ""}
    for private, shown in public.items():
        if module and module.startswith(private):
            module = shown
    return f"{module}.{name}" if module else str(name)


def value_text(value: Any) -> str:
    """An argument as Python: Nodes by name, Closures as `graph_name[captured]`, the rest by repr."""
    if type(value).__name__ == "Node":
        return value.name
    if type(value).__name__ == "Closure":
        return f"{value.graph.name}[{', '.join(map(value_text, value.captured))}]"
    if type(value) is tuple:
        return "(" + ", ".join(map(value_text, value)) + ("," if len(value) == 1 else "") + ")"
    if type(value) is list:
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({', '.join(value_text(v) for v in (value.start, value.stop, value.step))})"
    return repr(value)


def _call_text(node: Any) -> str:
    args = [value_text(a) for a in node.args]
    args += [f"{k}={value_text(v)}" for k, v in node.kwargs.items()]
    return f"{target_name(node.target)}({', '.join(args)})"


def _inner_graphs(value: Any, found: dict[int, Any]) -> None:
    if type(value).__name__ == "Closure":
        found.setdefault(id(value.graph), value.graph)
    elif isinstance(value, (tuple, list)):
        for v in value:
            _inner_graphs(v, found)
    elif isinstance(value, Mapping):
        for v in value.values():
            _inner_graphs(v, found)


def graph_text(graph: Any, indent: str = "") -> str:
    """The whole Graph as a `def`; bodies of Closures first, as inner functions."""
    params = ", ".join(f"{n.name}: {n.aval}" for n in graph.nodes if n.op == "placeholder")
    lines = [f"{indent}def {graph.name}({params}):"]
    inner = indent + "    "
    for n in graph.nodes:
        bodies: dict[int, Any] = {}
        _inner_graphs((n.args, n.kwargs), bodies)
        lines += [graph_text(body, inner) for body in bodies.values()]
        if n.op == "get_attr":
            lines.append(f"{inner}{n.name} = consts[{n.target!r}]  # {n.aval}")
        elif n.op == "output":
            lines.append(f"{inner}return {value_text(n.args[0])}")
        elif n.op != "placeholder":
            lines.append(f"{inner}{n.name} = {_call_text(n)}  # {n.aval}")
    return "\n".join(lines)
