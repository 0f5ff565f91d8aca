"""`codegen.triton.host`: Programs of launches in Triton's interpreter."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.call import launch_call
from dynacomp.codegen.triton.host import HostProgram, host_engine
from dynacomp.codegen.triton.source import HEADER, triton_launches
from dynacomp.codegen.triton.steps import plan
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

from .triton_kit import doubled


def test_a_call_leaves_what_it_was_given() -> None:
    kernel = doubled()
    [launch] = triton_launches(kernel)
    call = launch_call(launch, f"{HEADER}\n{launch.source}", {kernel.sizes[0]: 5})
    given = {"x": np.arange(5, dtype=np.float32), "out": np.full(5, 7, np.float32)}
    found = host_engine(call, given)
    assert found.keys() == {"out"} and found["out"].tolist() == [0, 2, 4, 6, 8]
    assert given["x"].tolist() == [0, 1, 2, 3, 4] and given["out"].tolist() == [7] * 5
    assert host_engine(dataclasses.replace(call), {"x": given["x"]})["out"].tolist() == [0, 2, 4, 6, 8]


def test_a_program_of_weak_and_strong_results() -> None:
    fn = lambda x, k: (x.sum(0), k * 2)
    args = jnp.ones((3, 4)), jax.lax.convert_element_type(jnp.float32(3), jnp.float32)
    program = HostProgram(plan(schedule(lower_function(fn, *args)), False))
    total, twice = program(*args)
    assert total.tolist() == [3.0] * 4 and twice.tolist() == 6.0
    assert isinstance(total, jax.Array) and not total.weak_type
    assert program.kernels and not program.externs and program.backend == "triton"
