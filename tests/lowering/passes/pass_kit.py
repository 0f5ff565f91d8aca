"""What the tests of passes share."""

from dynacomp.capture.graph.graph import Graph


def names(graph: Graph) -> list[str]:
    """The Ops that a Graph calls, in order."""
    return [getattr(n.target, "name", "getitem") for n in graph.calls]
