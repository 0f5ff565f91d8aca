"""`lowering.primitives.ops`: JAX's own harness of primitives, every group sampled, against eager JAX."""

from __future__ import annotations

import random
from collections import defaultdict

import jax
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.ops import DEFAULTS, OPS, abstract, infer
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import lower_function, unwrap
from dynacomp.lowering.sizes.symbols import size
from tests.lowering.closed import agree, untied

harnesses = pytest.importorskip("jax._src.internal_test_util.test_harnesses")

BY_GROUP = defaultdict(list)
for _h in harnesses.all_harnesses:
    BY_GROUP[_h.group_name].append(_h)

# What XLA alone does: no row in the closed set, one `extern` node.
EXTERN = {
    "rng_bit_generator", "device_put",
}


def same_bits_or_close(a, b):
    a, b = np.asarray(unwrap(a)), np.asarray(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.tobytes() != b.tobytes():
        agree(a, b)


def check(harness):
    """Lower one harness, run it before and after the passes; returns the lowered Graph."""
    args = harness.dyn_args_maker(np.random.RandomState(0))
    want, flat = jax.tree.leaves(harness.dyn_fun(*args)), list(map(unwrap, jax.tree.leaves(args)))
    graph = lower_function(harness.dyn_fun, *args)
    better = optimise(graph)
    for one in (graph, better):
        verify(one, infer)
        found = run(one, *flat)
        for a, b in zip(*(untied(harness.group_name, args, x) for x in (found, want)), strict=True):
            same_bits_or_close(a, b)
    return better


def usable(group):
    return [h for h in BY_GROUP[group] if h.filter("cpu")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("group", sorted(BY_GROUP))
def test_harness(group):
    usually = usable(group)
    graph = check(random.Random(group).choice(usually))
    if group not in EXTERN:
        assert OPS["extern"] not in {n.target for n in graph.calls}


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(BY_GROUP))
def test_harness_widely(group):
    for harness in random.Random(group).sample(usable(group), min(25, len(usable(group)))):
        check(harness)


def test_calling_an_op_is_eager_jax():
    assert OPS["add"](np.float32(1), np.float32(2)) == 3.0
    assert OPS["select_n"](np.array([True, False]), np.float32(1), np.float32(2)).tolist() == [2.0, 1.0]


def test_ops_of_several_results_give_tuples():
    words = np.arange(4, dtype=np.uint32)
    assert isinstance(OPS["threefry2x32"](words, words, words, words), tuple)


def test_defaults_are_of_ops():
    assert set(DEFAULTS) <= set(OPS) | {"log2"}


def test_abstract_with_symbolic_sizes():
    n, m = size("n"), size("m")
    x, y = Aval((n, 4), np.dtype("float32")), Aval((4, m), np.dtype("float32"))
    out = abstract(OPS["dot_general"], (x, y), {
        "dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": None})
    assert out == Aval((n, m), np.dtype("float32"))
    many = abstract(OPS["iota_2x32_shape"], (), {"shape": (n, 2)})
    assert many == (Aval((n, 2), np.dtype("uint32")),) * 2


def test_iota_2x32_counts_in_rows():
    high, low = OPS["iota_2x32_shape"](shape=(2, 3))
    assert low.tolist() == [[0, 1, 2], [3, 4, 5]] and not high.any()


def test_what_was_inferred_of_like_calls_is_not_given_for_others():
    def added(*args):
        return infer(Node("call_function", "a", OPS["add"], args, {}))

    one = {name: np.dtype(name).type(1) for name in ("float32", "int32", "float64")}
    for _ in range(2):
        assert added(one["float32"], one["float32"]).dtype == np.float32
        assert added(one["int32"], one["int32"]).dtype == np.int32
        assert infer(Node("call_function", "s", OPS["reduce_sum"], (
            Node("placeholder", "x", aval=Aval((2, 3), np.dtype("float32"))),),
            {"axes": (0,)})).shape == (3,)
    with pytest.raises(TypeError):
        added(one["float32"], one["int32"])
