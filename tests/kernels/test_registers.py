"""What registers.h asks of a whole register: the same answers on every instruction set."""

import importlib.util
import subprocess

import pytest

from dynacomp.kernels.templates import HEADERS
from tests.kernels.test_portable import COMMANDS, X86

PROGRAM = r"""
#include <stdio.h>
#include "math.h"
using namespace dynacomp;

template <class T, int N> int check_halves() {
  vec<T, N> v;
  for (int l = 0; l < N; ++l) v[l] = (T)(l + 1);
  const auto low = low_half(v), high = high_half(v);
  const vec<T, N> both = joined(low, high), turned = joined(high, low);
  for (int l = 0; l < N; ++l) {
    if (both[l] != v[l] || turned[l] != v[(l + N / 2) % N]) return printf("halves: %d of %d, %zu\n", l, N, sizeof(T));
    if (at(l < N / 2 ? low : high, l % (N / 2)) != v[l]) return printf("half: %d of %d, %zu\n", l, N, sizeof(T));
  }
  vec<T, N> none{};
  if (any_bit(none)) return printf("a bit of none: %d, %zu\n", N, sizeof(T));
  for (int l = 0; l < N; ++l) {
    none[l] = (T)1;
    if (!any_bit(none)) return printf("no bit: %d of %d, %zu\n", l, N, sizeof(T));
    none[l] = (T)0;
  }
  return 0;
}

template <class T, int N> int check_rounding() {
  const T big = sizeof(T) == 8 ? (T)4503599627370497.0 : (T)8388609.0, inf = (T)__builtin_inf();
  const T samples[] = {0, (T)-0.0, (T)0.5, (T)-0.5, (T)1.5, (T)-1.5, (T)2.5, (T)-2.5, (T)0.49999997, (T)-0.3, (T)7,
                       big, -big, inf, -inf, (T)1e-40};
  for (T x : samples) {
    const vec<T, N> v = splat<T, N>(x);
    const T wanted[] = {(T)__builtin_rint(x), (T)__builtin_floor(x), (T)__builtin_ceil(x), (T)__builtin_trunc(x)};
    const vec<T, N> got[] = {round_even(v), floor(v), ceil(v), trunc(v)};
    for (int k = 0; k < 4; ++k)
      for (int l = 0; l < N; ++l)
        if (got[k][l] != wanted[k] || __builtin_signbit(got[k][l]) != __builtin_signbit(wanted[k]))
          return printf("rounding %d of %g: %g\n", k, (double)x, (double)got[k][l]);
    if (at(floor(splat<T, N>((T)__builtin_nan(""))), N - 1) == 0) return printf("NaN\n");
  }
  return 0;
}

template <int N> int check_doubles() {
  vec<float, N> v, w;
  for (int l = 0; l < N; ++l) v[l] = 1.0f + (float)l / 3, w[l] = (float)l;
  const vec<float, N> r = via_double([](auto a, auto b) { return a * a + b; }, v, w);
  for (int l = 0; l < N; ++l)
    if (r[l] != (float)((double)v[l] * v[l] + w[l])) return printf("doubles: %d of %d\n", l, N);
  return 0;
}

int main() {
  constexpr int N = kVectorBytes / 4;
  return check_halves<float, N>() || check_halves<double, N / 2>() ||
         check_halves<int64_t, 2>() || check_halves<uint16_t, 2 * N>() || check_halves<int8_t, 4 * N>() ||
         check_halves<int8_t, 4>() || check_halves<float, 4>() || check_rounding<float, N>() ||
         check_rounding<float, 4>() || check_rounding<double, N / 2>() || check_rounding<double, 2>() ||
         check_doubles<N>() || check_doubles<4>();
}
"""


@pytest.mark.parametrize("target", COMMANDS)
def test_every_lane(tmp_path, target):
    if target == "clang" and importlib.util.find_spec("ziglang") is None or target != "clang" and not X86:
        pytest.skip(f"cannot compile for {target} here")
    source, program = tmp_path / "registers.cc", tmp_path / "registers"
    source.write_text(PROGRAM)
    command = [x for x in COMMANDS[target] if x not in ("-shared", "-fPIC")]
    ran = subprocess.run([*command, f"-I{HEADERS}", str(source), "-o", str(program)], capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
