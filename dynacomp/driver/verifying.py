"""Is a form of a region well formed, and has a pass kept what it must keep?

`verify` takes a captured Graph, a primitive one or a Schedule; `check_inputs` what one is to run on. `check_kept`
holds a pass of the user's to the contract: the same inputs, and outputs of the same shapes and dtypes; what they
compute is the pass's own affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import OUTPUT, Graph, Node, is_node
from dynacomp.capture.graph.verifier import GraphError, faults
from dynacomp.capture.graph.verifier import verify as verify_graph
from dynacomp.driver.pass_list import Form
from dynacomp.lowering.fuse.schedule import KernelStep, Schedule, all_steps
from dynacomp.lowering.kernel_ir.verifier import verify as verify_kernel
from dynacomp.lowering.primitives.ops import infer, op_kind
from dynacomp.lowering.primitives.translate import node_aval, trace

NO_AVAL = "has no Aval"  # an object of a library among a captured Graph's nodes


def is_primitive(graph: Graph) -> bool:
    """Whether a Graph calls primitives, and not the functions that a program called."""
    if not graph.calls:
        return graph.nodes[-1].aval is not None
    return any(map(op_kind, graph.calls))


def verify(form: Form) -> None:
    """GraphError (or the kernels' own error) says what is wrong first, if anything is."""
    if isinstance(form, Schedule):
        for step in of_class(KernelStep, all_steps(form)):
            verify_kernel(step.kernel)
    elif is_primitive(form):
        verify_graph(form, infer)
    else:
        for node, fault in faults(form):
            if fault != NO_AVAL:
                raise GraphError(f"graph {form.name!r}, %{node.name}: {fault}")


def check_inputs(form: Form, given: Sequence[Any]) -> None:
    """TypeError where a form is to run on arrays that are not as many, or of other shapes, than it was made for."""
    names = form.inputs if isinstance(form, Schedule) else [n.name for n in form.placeholders]
    if len(given) != len(names):
        raise TypeError(f"graph {form.name!r} takes {len(names)} inputs ({', '.join(names)}), not {len(given)}")
    sizes: dict[Any, int] = {}
    for name, aval, value in zip(names, _inputs(form), given):
        found = np.shape(value)
        shape = getattr(aval, "shape", found)
        sizes.update((d, n) for d, n in zip(shape, found) if d not in sizes and not isinstance(d, int))
        if tuple(sizes.get(d, d) for d in shape) != found:
            raise TypeError(f"input {name!r} of graph {form.name!r} is {aval}, not an array of shape {found}")


def check_kept(before: Form, after: Form) -> None:
    """GraphError where `after` is not well formed, or takes or gives other arrays than `before`."""
    if type(after) is not type(before):
        raise GraphError(f"a pass over a {type(before).__name__} returned {after!r}")
    verify(after)
    for what, old, new in (("input", _inputs(before), _inputs(after)), ("output", _outputs(before), _outputs(after))):
        if len(old) != len(new):
            raise GraphError(f"a pass has made {len(new)} {what}s of {len(old)}")
        for k, (one, other) in enumerate(zip(old, new)):
            if repr(one) != repr(other):  # symbols of one name are one size
                raise GraphError(f"{what} {k} was {one}, and is {other} after the pass")


def _inputs(form: Form) -> list[Any]:
    if isinstance(form, Schedule):
        return [Aval(tuple(form.buffers[n].shape), form.buffers[n].dtype) for n in form.inputs]
    return [n.aval for n in form.placeholders]


def _outputs(form: Form) -> list[Any]:
    if isinstance(form, Schedule):
        return list(form.output_avals)
    if not is_primitive(form):
        return traced_outputs(form)
    claimed = form.nodes[-1].aval or [n.aval for n in form.output]
    if len(claimed) != len(form.output):
        raise GraphError(f"a pass has made {len(form.output)} outputs of {len(claimed)}")
    return [Aval(n.aval.shape, n.aval.dtype, a.weak_type) for n, a in zip(form.output, claimed, strict=True)]


def traced_outputs(graph: Graph) -> list[Any]:
    """The Avals of a captured Graph's output arrays, as JAX traces them; other outputs as they are."""
    leaves = jax.tree.leaves(graph.output)
    arrays = tuple(of_class(Node, leaves))
    only = Graph((*graph.nodes[:-1], Node(OUTPUT, "output", args=(arrays,))), graph.consts, graph.name)
    closed = trace(lambda *xs: jax.tree.leaves(interpreter.run(only, *xs)), [n.aval for n in graph.placeholders])
    return [*map(node_aval, closed.out_avals), *(x for x in leaves if not is_node(x))]
