"""How much of JAX's own harness of primitives lowers to our kernels, and what does not."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.rules.support import why_not

harnesses = pytest.importorskip("jax._src.internal_test_util.test_harnesses")

def reasons(harness):
    graph = optimise(lower_function(harness.dyn_fun, *harness.dyn_args_maker(np.random.RandomState(0))))
    return [why for node in graph.calls if (why := why_not(node))]


def counted(limit):
    """How many entries there are, and the reasons of those that need XLA; `limit` entries of each group."""
    taken, outside, groups = 0, Counter(), defaultdict(int)
    for harness in harnesses.all_harnesses:
        group = harness.group_name
        if not harness.filter("cpu") or groups[group] >= limit:
            continue
        groups[group] += 1
        taken += 1
        outside.update(sorted(set(reasons(harness)))[:1])
    return taken, outside


def check(limit, share):
    taken, outside = counted(limit)
    found = 1 - sum(outside.values()) / taken
    print(f"\n{found:.2%} of {taken} entries need no XLA; the others:")
    print("\n".join(f"{n:5} {why}" for why, n in outside.most_common()))
    assert found >= share


@pytest.mark.medium
def test_a_sample_of_every_group():
    check(4, 0.9)


@pytest.mark.slow
def test_every_entry():
    check(10**6, 0.99)
