"""The conformance suite: every backend, every region, against eager JAX.

A backend is a row of `dynacomp.codegen.backends.BACKENDS`; two interpreters run beside them, of the primitive
Graph and of the Schedule, to tell whose fault a failure is. Where a backend cannot run here (no compiler,
no triton) its tests are skipped with its own reason.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.codegen.backends import BACKENDS
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.specialise import specialise
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.dims import read_sizes
from tests.codegen.conformance import loops
from tests.codegen.conformance.regions import ALL, Region
from tests.lowering.regions import REGIONS as FUSED

EVERY = {**{f"fused_{n}": Region(n, fn, tuple(args)) for n, (fn, args, _) in FUSED.items()}, **ALL,
         **{r.name: r for r in loops.REGIONS}}
CONTESTANTS = ("graph", "schedule", *BACKENDS)


@functools.cache
def lowered(name: str) -> tuple[Any, Any]:
    """The primitive Graph of a region, after the passes, and its Schedule."""
    region = EVERY[name]
    scope = Scope()
    specs = tuple(
        _spec(a, region.symbolic[i] if region.symbolic else "", scope) for i, a in enumerate(region.args)
    )
    graph = optimise(lower_function(region.fn, *specs, name=name))
    return graph, schedule(graph)


def _spec(arg: Any, symbolic: str, scope: Any) -> Any:
    if not symbolic:
        return arg
    dims = zip((d.strip() for d in symbolic.split(",")), np.shape(arg))
    return jax.ShapeDtypeStruct(tuple(n if d.isdigit() else scope.symbol(d, n) for d, n in dims), arg.dtype)


def run_graph(name: str) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        graph, _ = lowered(name)
        sizes = read_sizes([p.aval for p in graph.placeholders], [np.shape(a) for a in args])
        return interpreter.run(specialise(graph, sizes), *args)

    return run


def run_schedule(name: str) -> Callable[..., Any]:
    references = {n: row.reference for n, row in TEMPLATES.items()}
    return lambda *args: schedules.run(lowered(name)[1], args, references)


def program(contestant: str, name: str) -> Callable[..., Any]:
    """What runs a region: an interpreter, or a backend's Program."""
    if contestant in ("graph", "schedule"):
        return {"graph": run_graph, "schedule": run_schedule}[contestant](name)
    return BACKENDS[contestant].compile(*lowered(name), {})


@contextlib.contextmanager
def widths(x64: bool) -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", x64)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.sampled(10, by="name")
@pytest.mark.parametrize("contestant", CONTESTANTS)
@pytest.mark.parametrize("name", EVERY)
def test_conformance(name: str, contestant: str) -> None:
    reason = BACKENDS[contestant].unavailable() if contestant in BACKENDS else None
    if reason:
        pytest.skip(reason)
    region = EVERY[name]
    with widths(region.x64):
        run = program(contestant, name)
        for args in (region.args, *region.more):
            held = tuple(jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args)
            wanted = jax.tree.leaves(region.fn(*held))
            found = run(*held)
            assert len(found) == len(wanted)
            for position, (f, w) in enumerate(zip(found, wanted)):
                same(
                    jnp.asarray(f) if contestant == "graph" else f,
                    w,
                    f"output {position}",
                    contestant in BACKENDS,
                )


def same(found: Any, wanted: Any, where: str, arrays: bool) -> None:
    """Shape, dtype, weak type (of jax Arrays); integers exactly, floats within a few units in the
    last place of the largest value (sums reassociate), NaN and infinities in their places."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (
        where,
        found.shape,
        found.dtype,
        wanted.aval,
    )
    if arrays:
        assert isinstance(found, jax.Array) and found.weak_type == wanted.weak_type, (
            where,
            found.aval,
            wanted.aval,
        )
    f, w = np.asarray(found), np.asarray(wanted)
    if w.dtype.kind in "biu":
        np.testing.assert_array_equal(f, w, where)
        return
    unit = float(jnp.finfo(w.dtype).eps)
    wide = np.complex128 if w.dtype.kind == "c" else np.float64
    f, w = f.astype(wide), w.astype(wide)
    largest = np.max(np.abs(w), where=np.isfinite(w), initial=0)
    np.testing.assert_allclose(f, w, rtol=16 * unit, atol=16 * unit * min(largest, 1e30), err_msg=where)
