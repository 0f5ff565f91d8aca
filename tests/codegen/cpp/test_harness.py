"""JAX's own harness of primitives through the compiler: every primitive with every dtype, against eager JAX.

The entries of one primitive, one for each dtype, make one function, which is compiled once and called with two draws.
"""

import random
from collections import defaultdict

import jax
import numpy as np
import pytest

import dynacomp
from dynacomp.lowering.primitives.translate import unwrap
from tests.lowering.closed import untied

harnesses = pytest.importorskip("jax._src.internal_test_util.test_harnesses")

ENTRIES = defaultdict(lambda: defaultdict(list))
for _h in harnesses.all_harnesses:
    if _h.filter("cpu"):
        ENTRIES[_h.group_name][str(np.dtype(_h.dtype)) if getattr(_h, "dtype", None) else ""].append(_h)

# What XLA does in the midst of the compiled code.
SEAMS = {"device_put", "fft", "rng_bit_generator", "scatter_max", "scatter_min", "scatter_mul",
         "select_and_scatter_add", "triangular_solve"}
CLOSE = {1: 2e-1, 2: 2e-2, 4: 2e-5, 8: 1e-12}
QUICK = ("clamp", "cumsum", "reduce_window_max")


def one_for_each_dtype(group, draw=random.choice):
    return [draw(found) for _, found in sorted(ENTRIES[group].items())]


def compare(got, want, name):
    """The same bits, or floats that are close by their precision and the size of the result's numbers."""
    a, b = np.asarray(unwrap(got)), np.asarray(unwrap(want))
    assert (a.dtype, a.shape) == (b.dtype, b.shape), name
    if a.tobytes() == b.tobytes():
        return
    whole = a.dtype.kind in "biu"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    close = 0 if whole else CLOSE[a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)]
    a, b = a.astype(wide), b.astype(wide)
    scale = np.abs(b[np.isfinite(b)]).max(initial=1)
    np.testing.assert_allclose(a, b, rtol=close, atol=close * scale / 10, err_msg=name)


def check(group):
    entries = one_for_each_dtype(group, random.Random(group).choice)
    dynacomp.reset()

    def all_of_them(*args):
        return [entry.dyn_fun(*given) for entry, given in zip(entries, args)]

    compiled = dynacomp.jit(all_of_them)
    for seed in (0, 1, 0):
        args = [entry.dyn_args_maker(np.random.RandomState(seed)) for entry in entries]
        for entry, given, got, want in zip(entries, args, compiled(*args), all_of_them(*args), strict=True):
            for a, b in zip(*(untied(group, given, jax.tree.leaves(x)) for x in (got, want)), strict=True):
                compare(a, b, entry.fullname)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"]
    assert group in SEAMS or set(stats["regions"]) <= {"cpp"} and not stats["externs"]


@pytest.mark.parametrize("group", QUICK)
def test_a_sample(group):
    check(group)


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(ENTRIES))
def test_every_dtype(group):
    check(group)
