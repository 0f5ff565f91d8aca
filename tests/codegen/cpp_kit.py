"""What tests of the C++ backend share: one cache folder, compiled functions, a Schedule built by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.codegen.cpp import backend
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import KernelStep, Schedule
from dynacomp.lowering.kernel_ir.loops import Acc, Apply, Buffer, Kernel, Let, Load, Loop, Ref, Store
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.symbols import size, symbol

CACHE = Path(os.environ.get("DYNACOMP_CACHE_DIR", "/tmp/dynacomp-test-cache"))
F32 = np.dtype("float32")


def compiled(function: Any, *args: Any, **options: Any) -> Any:
    """The Program of `function` at the shapes of `args`."""
    plan = schedule(lower_function(function, *args))
    return backend.compile(plan, plan.output_avals, {"threads": 2, "cache_dir": CACHE, **options})


def softmax_schedule() -> Schedule:
    """softmax over the rows of f32[n, d], both sizes symbolic, with a row of scratch."""
    n, d = size("n"), size("d")
    i0, i1, i2, i3 = map(symbol, ("i0", "i1", "i2", "i3"))

    def x(i: Any) -> Load:
        return Load("x", d * i0 + i, F32)

    def f(name: str, *args: Any) -> Apply:
        return Apply(name, args, F32)

    rows = Loop(i0, n, (
        Loop(i1, d, (), accs=(Acc("m", "max", x(i1), F32),), vector=True),
        Loop(i2, d, (Let("e", f("exp", f("sub", x(i2), Ref("m", F32)))), Store("row", i2, Ref("e", F32))),
             accs=(Acc("s", "sum", Ref("e", F32), F32),), vector=True),
        Loop(i3, d, (Store("out", d * i0 + i3, f("div", Load("row", i3, F32), Ref("s", F32))),), vector=True),
    ), parallel=True)
    kernel = Kernel("softmax", (Buffer("x", (n, d), F32),), (Buffer("out", (n, d), F32),), (rows,), (n, d),
                    (Buffer("row", (d,), F32),))
    buffers = {name: Buffer(name, (n, d), F32) for name in ("x", "out")}
    return Schedule(buffers, ("x",), ("out",), (KernelStep(kernel),), sizes=((n, (0, 0)), (d, (0, 1))),
                    output_avals=(Aval((n, d), F32),))
