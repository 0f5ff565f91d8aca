// The narrow floats as C++ functions of the user's see them: numbers that compute as float, and are rounded (to the
// nearest, ties to even) where they are kept. Both sides of `c ? x[i] : T(x[i] * 2)` have to be of one type.
//
//   T sum = 0;
//   for (int64_t i = 0; i < x.size(); i++) sum += x[i] / (T(1) + std::exp(-x[i]));   // T: bfloat16, float, ...
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tile.h"

namespace dynacomp {

template <class S>  // S: how they lie in memory
struct __attribute__((may_alias)) Rounded {
  S kept;

  Rounded() = default;
  template <class V, std::enable_if_t<std::is_arithmetic_v<V>, int> = 0>
  Rounded(V x) : kept(tile::narrow<S>(x)) {}
  operator float() const { return tile::widen<float>(kept); }

  Rounded& operator+=(float x) { return *this = *this + x; }
  Rounded& operator-=(float x) { return *this = *this - x; }
  Rounded& operator*=(float x) { return *this = *this * x; }
  Rounded& operator/=(float x) { return *this = *this / x; }
};

using float16 = Rounded<tile::float16>;
using bfloat16 = Rounded<tile::bfloat16>;

template <class S, int digits_, int max_exponent_>
struct LimitsOfRounded : std::numeric_limits<float> {
  static constexpr int digits = digits_, max_exponent = max_exponent_, min_exponent = 3 - max_exponent_;
  static Rounded<S> max() { return (2 - epsilon()) * __builtin_ldexpf(1, max_exponent - 1); }
  static Rounded<S> lowest() { return -max(); }
  static Rounded<S> min() { return __builtin_ldexpf(1, min_exponent - 1); }
  static Rounded<S> epsilon() { return __builtin_ldexpf(1, 1 - digits); }
  static Rounded<S> infinity() { return __builtin_inff(); }
  static Rounded<S> quiet_NaN() { return __builtin_nanf(""); }
};

}  // namespace dynacomp

template <>
struct std::numeric_limits<dynacomp::float16> : dynacomp::LimitsOfRounded<dynacomp::tile::float16, 11, 16> {};
template <>
struct std::numeric_limits<dynacomp::bfloat16> : dynacomp::LimitsOfRounded<dynacomp::tile::bfloat16, 8, 128> {};
