"""The largest and smallest of many floats, looked for in integers: what `max` and `min`, one by one, give."""

import importlib.util
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.kernels.templates import HEADERS
from tests.kernels.test_portable import COMMANDS, X86

PROGRAM = r"""
#include <stdio.h>
#include "math.h"
using namespace dynacomp;

template <class T> bool same(T a, T b) {
  return a != a ? b != b : a == b && __builtin_signbit(a) == __builtin_signbit(b);
}

// Every pair and triple of the samples, in every place of a register, the last one in a tail.
template <class T, int N> int check() {
  const T inf = (T)__builtin_inf(), nan = (T)__builtin_nan(""), tiny = sizeof(T) == 8 ? (T)4.9e-324 : (T)1e-45f;
  const T samples[] = {0, (T)-0.0, 1, -1, (T)1.5, (T)-1.5, inf, -inf, nan, __builtin_copysign(nan, (T)-1), tiny, -tiny,
                       (T)3e38, (T)-3e38};
  int place = 0;
  for (T a : samples) for (T b : samples) for (T c : samples) {
    const T fillers[] = {a, -inf, inf};
    for (T filler : fillers) {
      vec<T, N> v = splat<T, N>(filler), tail = splat<T, N>(nan);
      v[place % N] = b, tail[0] = c;
      place += 7;
      auto most = running_max(splat<T, N>(-inf));
      auto least = running_min(splat<T, N>(inf));
      most = keep(most, max(most, v), full<N>{}), least = keep(least, min(least, v), full<N>{});
      most = keep(most, max(most, tail), part<N>{1}), least = keep(least, min(least, tail), part<N>{1});
      T largest = max((T)-inf, c), smallest = min((T)inf, c);
      for (int l = 0; l < N; ++l) largest = max(largest, (T)v[l]), smallest = min(smallest, (T)v[l]);
      const T found[] = {fold_lanes(most, [](auto x, auto y) { return max(x, y); }),
                         fold_lanes(least, [](auto x, auto y) { return min(x, y); })};
      const bool bad[] = {!same(found[0], largest), !same(found[1], smallest)};
      for (int k = 0; k < 2; ++k)
        if (bad[k])
          return printf("%s of %g, %g, %g: %g\n", k ? "min" : "max", (double)filler, (double)b, (double)c,
                        (double)found[k]);
    }
  }
  return 0;
}

int main() {
  constexpr int N = kVectorBytes / 4;
  return check<float, N>() || check<double, N / 2>() || check<float, 4>() || check<double, 2>();
}
"""


@pytest.mark.parametrize("target", [*COMMANDS, "here"])
def test_as_one_by_one(tmp_path, target):
    if target == "clang" and importlib.util.find_spec("ziglang") is None or target != "clang" and not X86:
        pytest.skip(f"cannot compile for {target} here")
    source, program = tmp_path / "extremes.cc", tmp_path / "extremes"
    source.write_text(PROGRAM)
    command = COMMANDS.get(target) or ["-march=native" if x == "-mavx2" else x for x in COMMANDS["avx2"]]
    command = [x for x in command if x not in ("-shared", "-fPIC")]
    ran = subprocess.run([*command, f"-I{HEADERS}", str(source), "-o", str(program)], capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("length", [17, 64, 300])
def test_rows_as_eager_jax_has_them(dtype, length):
    """Rows of ordinary numbers, some with a NaN of either sign, infinities, zeros of both signs alone."""
    rng = np.random.default_rng(length)
    rows = rng.standard_normal((12, length)).astype(np.float32)
    for row, special in enumerate([np.nan, np.copysign(np.nan, -1), np.inf, -np.inf], 1):
        rows[row, rng.integers(length)] = special
    rows[5], rows[6], rows[7] = 0.0, -0.0, -1.0
    rows[7, rng.integers(length)] = -0.0
    x = jnp.asarray(rows).astype(dtype)

    def both(x):
        return jnp.max(x, 1), jnp.min(x, 1), jnp.max(x * 2 - 1, 1)

    compiled = dynacomp.jit(both, fullgraph=True)
    assert "running_max(" in str([r.source for r in dynacomp.explain(both)(x).regions])
    for got, want in zip(compiled(x), both(x), strict=True):
        got, want = (np.asarray(v.astype(jnp.float32)) for v in (got, want))
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[5:8]), np.signbit(want[5:8]))
