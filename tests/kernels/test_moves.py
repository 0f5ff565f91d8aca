"""Loads and stores of some lanes: the right lanes, and not one byte beyond them, on every instruction set."""

import importlib.util
import subprocess

import pytest

from dynacomp.kernels.templates import HEADERS
from tests.kernels.test_portable import COMMANDS, X86

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "ops.h"
using namespace dynacomp;

static char* edge;  // the first byte of a page that nobody may touch

template <class T, int N> int check() {
  typedef vec<T, N> V;
  typedef typename lane<V>::sints M;
  T* end = (T*)edge;
  for (int n = 0; n <= N; ++n) {
    T* p = end - n;
    for (int l = 0; l < n; ++l) p[l] = (T)(l + 1);
    V r = load(p, part<N>{n});
    for (int l = 0; l < N; ++l)
      if (r[l] != (l < n ? (T)(l + 1) : (T)0)) return printf("load %d of %d, %zu bytes\n", n, N, sizeof(T));
    store(p, (V)(r + (T)1), part<N>{n});
    for (int l = 0; l < n; ++l)
      if (p[l] != (T)(l + 2)) return printf("store %d of %d, %zu bytes\n", n, N, sizeof(T));
    M odd;
    for (int l = 0; l < N; ++l) odd[l] = l % 2 ? -1 : 0;
    V other = splat<T, N>((T)7);
    V picked = masked_load(p, part<N>{n}, mask<M>{odd}, other);
    for (int l = 0; l < n; ++l)
      if (picked[l] != (l % 2 ? (T)(l + 2) : (T)7)) return printf("masked load %d of %d\n", l, n);
    masked_store(p, other, part<N>{n}, mask<M>{odd});
    for (int l = 0; l < n; ++l)
      if (p[l] != (l % 2 ? (T)7 : (T)(l + 2))) return printf("masked store %d of %d\n", l, n);
  }
  return 0;
}

template <class T, int N, int S> int check_stride() {
  constexpr int span = (S < 0 ? -S : S) * (N - 1) + 1;
  T* first = (T*)edge - span;
  for (int l = 0; l < span; ++l) first[l] = (T)(l + 1);
  T* p = S < 0 ? (T*)edge - 1 : first;
  for (int n = 1; n <= N; ++n) {
    const T* ends = S < 0 ? p : (T*)edge - (S * (n - 1) + 1);
    auto r = strided<S>(ends, part<N>{n});
    for (int l = 0; l < n; ++l)
      if (r[l] != ends[l * S]) return printf("stride %d: %d of %d, %zu bytes\n", S, l, n, sizeof(T));
  }
  auto r = strided<S>(p, full<N>{});
  for (int l = 0; l < N; ++l)
    if (r[l] != p[l * S]) return printf("stride %d: %d, %zu bytes\n", S, l, sizeof(T));
  return 0;
}

template <class T, int N, int S> int check_spread() {
  constexpr int span = (S < 0 ? -S : S) * (N - 1) + 1;
  T* first = (T*)edge - span;
  T* p = S < 0 ? (T*)edge - 1 : first;
  for (int n = 1; n <= N; ++n) {
    for (int l = 0; l < span; ++l) first[l] = (T)(l + 1);
    auto r = n < N ? spread<S>(p, part<N>{n}) : spread<S>(p, full<N>{});
    for (int l = 0; l < n; ++l)
      if (r[l] != p[l * S]) return printf("spread %d: %d of %d, %zu bytes\n", S, l, n, sizeof(T));
    r = r + (T)1;
    if (n < N) spread_to<S>(p, part<N>{n}, r); else spread_to<S>(p, full<N>{}, r);
    for (int l = 0; l < span; ++l)
      if (first[l] != (T)(l + 1) + (T)((&first[l] - p) % S == 0 && (&first[l] - p) / S < n))
        return printf("spread to %d: %d of %d, %zu bytes\n", S, l, n, sizeof(T));
  }
  return 0;
}

template <class T, int N, class... W> int check_zip(W... more) {
  constexpr int S = sizeof...(W);
  const vec<T, N> v[] = {more...};
  for (int n = 1; n <= N; ++n) {
    T* p = (T*)edge - S * n;
    if (n == N) zip(p, full<N>{}, more...); else zip(p, part<N>{n}, more...);
    for (int l = 0; l < S * n; ++l)
      if (p[l] != v[l % S][l / S]) return printf("zip %d: %d of %d, %zu bytes\n", S, l, n, sizeof(T));
  }
  return 0;
}

template <class T, int N> int check_strides() {
  const vec<T, N> a = affine_lanes<T>(full<N>{}, 1, 1), b = a + (T)N, c = b + (T)N, d = c + (T)N;
  if (check_zip<T, N>(a, b) || check_zip<T, N>(a, b, c) || check_zip<T, N>(a, b, c, d)) return 1;
  if (check_spread<T, N, 3>() || check_spread<T, N, 9>() || check_spread<T, N, -7>()) return 1;
  return check_stride<T, N, -1>() || check_stride<T, N, 2>() || check_stride<T, N, 3>() || check_stride<T, N, 4>();
}

// Offsets from the last element back: those of lanes that are not wanted are far outside.
template <class T, int N> int check_gather() {
  T* last = (T*)edge - 1;
  for (int l = 0; l < 4 * N; ++l) last[-l] = (T)(l + 1);
  for (int n = 1; n <= N; ++n) {
    vec<int32_t, N> at;
    vec<typename ints<sizeof(T)>::s, N> odd;
    for (int l = 0; l < N; ++l) at[l] = l < n ? -3 * l : 1 << 28, odd[l] = l % 2 ? -1 : 0;
    auto r = n < N ? gather_at(last, part<N>{n}, at) : gather_at(last, full<N>{}, at);
    for (int l = 0; l < N; ++l)
      if (r[l] != (l < n ? (T)(3 * l + 1) : (T)0)) return printf("gather %d of %d, %zu bytes\n", l, n, sizeof(T));
    for (int l = 0; l < N; l += 2) at[l] = 1 << 28;
    const mask<decltype(odd)> wanted{odd};
    const vec<T, N> other = splat<T, N>((T)7);
    auto picked = n < N ? masked_gather_at(last, part<N>{n}, wanted, at, other)
                        : masked_gather_at(last, full<N>{}, wanted, at, other);
    for (int l = 0; l < n; ++l)
      if (picked[l] != (l % 2 ? (T)(3 * l + 1) : (T)7)) return printf("masked gather %d of %d\n", l, n);
  }
  return 0;
}

int main() {
  char* pages = (char*)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  edge = pages + 4096;
  if (pages == MAP_FAILED || mprotect(edge, 4096, PROT_NONE)) return 2;
  constexpr int N = kVectorBytes / 4;
  return check<float, N>() || check<int32_t, N>() || check<double, N>() || check<double, N / 2>() ||
         check<int64_t, N>() || check<uint16_t, N>() || check<int16_t, 2 * N>() || check<int8_t, N>() ||
         check<uint8_t, 4 * N>() || check_strides<float, N>() || check_strides<double, N / 2>() ||
         check_gather<float, N>() || check_gather<float, N / 2>() || check_gather<int64_t, N / 2>() ||
         check_gather<int32_t, N>() || check_gather<double, N / 2>() || check_gather<uint8_t, N>() ||
         check_strides<int64_t, N / 2>() || check_strides<int16_t, 2 * N>() || check_strides<uint8_t, N>();
}
"""


@pytest.mark.skipif(not X86, reason="the instruction sets are those of x86")
@pytest.mark.parametrize("name", [*COMMANDS, "avx512"])
def test_no_lane_too_many(name, tmp_path):
    avx512 = ("g++", "-O2", "-march=x86-64-v4", *COMMANDS["avx2"][5:])
    command = COMMANDS.get(name, avx512)
    if name == "clang" and importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang")
    source, out = tmp_path / "moves.cc", tmp_path / "moves"
    source.write_text(PROGRAM)
    flags = [*(f for f in command if f not in ("-shared", "-fPIC")), "-Wno-psabi"]
    built = subprocess.run([*flags, "-iquote", HEADERS, source, "-o", out], capture_output=True, text=True)
    assert not built.returncode and not built.stderr, built.stderr
    if name == "avx512" and "avx512vl" not in open("/proc/cpuinfo").read():
        pytest.skip("this machine does not have AVX-512")
    ran = subprocess.run([out], capture_output=True, text=True, timeout=60)
    assert not ran.returncode, ran.stdout or ran.returncode
