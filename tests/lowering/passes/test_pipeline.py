"""`lowering.passes.pipeline`: the passes one after another."""

from __future__ import annotations

import jax
import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.passes.pipeline import PASSES, optimise
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.passes.pass_kit import names

SHAPE, F32 = (4, 5), np.dtype("float32")


def test_passes_are_idempotent():
    graph = optimise(lower_function(lambda x: jax.nn.gelu(x) / 2 + jax.nn.softmax(x), Aval((3, 4), F32)))
    for one in PASSES:
        assert names(one(graph)) == names(graph), one.__name__


def test_lowered_text(golden):
    graph = optimise(lower_function(jax.grad(lambda x: jax.nn.log_softmax(x)[0, 1]), Aval(SHAPE, F32)))
    golden("log_softmax_grad.txt", f"{graph}\n")
