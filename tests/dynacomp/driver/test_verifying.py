"""Forms of a region are looked at before and after each pass: what is wrong is said, and what a pass must keep."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder
from dynacomp.capture.graph.verifier import GraphError
from dynacomp.driver.verifying import check_kept, is_primitive, traced_outputs, verify
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function

F32 = np.dtype(np.float32)
VEC = Aval((3,), F32)


def captured(fn=jnp.sin, aval=VEC):
    builder = Builder("captured")
    x = builder.placeholder("x", VEC)
    return builder.finish((builder.call(fn, (x,), {}, aval), 7))


def lowered(fn=lambda x: jnp.sin(x) * 2, *avals):
    return lower_function(fn, *(avals or (VEC,)))


def test_both_kinds_of_graphs_are_known_and_well_formed():
    assert is_primitive(lowered()) and not is_primitive(captured())
    for form in (lowered(), captured(), optimise(lowered())):
        verify(form)
        check_kept(form, form)


def test_a_wrong_aval_is_found():
    wrong = lowered()
    node = wrong.calls[0]
    nodes = tuple(replace(n, aval=Aval((4,), F32)) if n is node else n for n in wrong.nodes)
    with pytest.raises(GraphError):
        verify(replace(wrong, nodes=nodes))
    with pytest.raises(GraphError):
        verify(replace(captured(), nodes=captured().nodes[1:]))


@pytest.mark.parametrize(("after", "words"), [
    (lambda: lowered(lambda x, y: x, VEC, VEC), "2 inputs of 1"), (lambda: lowered(lambda x: (x, x)), "2 outputs of 1"),
    (lambda: lowered(lambda x: x[:2]), "output 0 was"), (lambda: lowered(lambda x: x.astype(int)), "output 0 was"),
    (lambda: lowered(lambda x: x, Aval((3,), np.dtype(np.int32))), "input 0 was"), (lambda: None, "returned None"),
])
def test_a_pass_keeps_inputs_and_outputs(after, words):
    with pytest.raises(GraphError, match=words):
        check_kept(lowered(), after())


def test_the_outputs_of_a_captured_graph_are_those_that_jax_finds():
    assert traced_outputs(captured(lambda x: jax.lax.top_k(x, 2)[0], Aval((9,), F32))) == [Aval((2,), F32), 7]
