"""Lists that loops have filled with items that are alike: one entry for any length, whatever is done with them all."""

import jax.numpy as jnp
import numpy as np

import dynacomp
from dynacomp.capture.rows.alike_items import interleaved
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.grown_items import Fixed, Leaf, Many
from tests.capture.program_kit import outcome


def test_rows_of_several_arrays_take_turns():
    found = interleaved(jnp.asarray([[1.0], [2.0]]), jnp.asarray([[3.0], [4.0]]))
    assert np.array_equal(found, [[1.0], [3.0], [2.0], [4.0]])


def test_a_shape_says_what_each_of_its_kinds_is():
    shape = Many(tuple, (Leaf(0), Many(list, (Leaf(1, int), Fixed(Const("a"))))))
    said = shape.fold(lambda leaf: leaf.index, lambda fixed: fixed.value.value,
                      lambda many, parts: (many.cls.__name__, *parts))
    assert said == ("tuple", 0, ("list", 1, "a"))
    assert [leaf.index for leaf in shape.leaves()] == [0, 1]
    assert Fixed(Const("a")) == Fixed(Const("a")) != Fixed(Const("b")) and Fixed(Const(1)) != Fixed(Const(1.0))


def program(xs):
    outs = []
    for i in range(xs.shape[0]):
        outs.append((xs[i] * 2, i))
    first, *rest = outs
    total = first[0]
    for h, i in rest:
        total = total + h * i
    return total, len(outs), outs[-1][1]


def test_one_capture_serves_all_lengths():
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for xs in [jnp.ones(n) * n for n in (6, 7, 5, 8, 7)]:
        assert repr(outcome(compiled, (xs,))) == repr(program(xs))
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= 3, stats
