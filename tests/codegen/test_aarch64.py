"""NEON: generated code cross-compiled for aarch64 and run under qemu, where both tools are installed."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen.compiler import FLAGS
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.kernels.templates import HEADERS
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

CXX, QEMU = "aarch64-linux-gnu-g++", "qemu-aarch64"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (shutil.which(CXX) and shutil.which(QEMU)),
                                                   reason=f"needs {CXX} and {QEMU}")]
MAIN = """
#include <stdio.h>
#include <stdlib.h>
static void serial(void*, int64_t n, int64_t, void (*body)(void*, int64_t, int64_t), void* ctx) { body(ctx, 0, n); }
int main() {
  static const int64_t in_bytes[] = {INPUTS}, out_bytes[] = {OUTPUTS};
  void *in[8], *out[8];
  int k = 0;
  for (int64_t b : in_bytes) { in[k] = malloc(b); if (fread(in[k++], 1, b, stdin) != (size_t)b) return 2; }
  k = 0;
  for (int64_t b : out_bytes) out[k++] = malloc(b);
  dynacomp_runtime rt = {serial, nullptr, 1};
  if (dynacomp_run(&rt, in, out, nullptr, malloc(1 << 24), nullptr)) return 3;
  k = 0;
  for (int64_t b : out_bytes) if (fwrite(out[k++], 1, b, stdout) != (size_t)b) return 4;
}
"""


def layer(x, g):
    y = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g
    return jax.nn.softmax(jax.nn.gelu(y) + jnp.sin(3 * y)), jnp.argmax(y, -1), y.sum(0), y.T > 0, jnp.cumsum(y, 1)


def test_neon(tmp_path):
    x, g = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((37, 53), (53,)))
    want = [np.asarray(w) for w in layer(x, g)]
    plan = schedule(lower_function(layer, x, g))
    assert not plan.consts and not plan.sizes
    inputs, outputs = (", ".join(str(a.nbytes) for a in arrays) for arrays in ((x, g), want))
    source = tmp_path / "main.cc"
    source.write_text(unit_source(plan, False) + MAIN.replace("INPUTS", inputs).replace("OUTPUTS", outputs))
    flags = [f for f in FLAGS if f not in ("-shared", "-fPIC")]
    subprocess.run([CXX, *flags, "-Werror", "-static", f"-I{HEADERS}", "-o", tmp_path / "main", source], check=True)
    raw = subprocess.run([QEMU, tmp_path / "main"], input=x.tobytes() + g.tobytes(), stdout=subprocess.PIPE,
                         check=True).stdout
    assert len(raw) == sum(w.nbytes for w in want)
    for w in want:
        got, raw = np.frombuffer(raw[:w.nbytes], w.dtype).reshape(w.shape), raw[w.nbytes:]
        np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5)
