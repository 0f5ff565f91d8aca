"""Rows for questions about JAX's own state: is somebody tracing, under which trace, which settings hold.

Capture itself traces each call of a library. What these functions would say inside such a trace is
not what the program would hear, so they are asked directly: outside every body the top level
answers, inside a body the transformation that calls it, as in eager JAX. The settings that they
read are guarded by the configuration token of every entry.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import jax
from jax._src import core

from dynacomp.capture.calls.calls import BUILTINS, call
from dynacomp.capture.kinds.operators import fold
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.values import Const, Value, as_python

# `with jax.ensure_compile_time_eval():` computes the same values, only sooner.
BUILTINS[jax.ensure_compile_time_eval] = lambda cap: call(cap, Const(contextlib.nullcontext), [], {})
QUESTIONS = (core.get_opaque_trace_state, core.trace_state_clean, jax.default_backend, jax.device_count,
             jax.local_device_count, jax.devices, jax.local_devices, jax.process_index, jax.process_count)


def ask(question: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """The answer of `question` here and now, as a constant."""
    return fold(cap, functools.partial(question, **{k: as_python(v) for k, v in kwargs.items()}), *args)


BUILTINS.update({q: functools.partial(ask, q) for q in QUESTIONS})
