// Hyperbolic functions and their inverses: floats by the exponentials and logarithms of math.h, within 3 ULP;
// doubles by the C library, lane by lane. Included by math.h.
#pragma once

namespace dynacomp {

// ---- by exponentials --------------------------------------------------------------------------

// e^a / 2 of float a >= 0, finite as long as it is a number.
template <class V> DC_INLINE V half_exp(V a) {
  typename lane<V>::sints power;
  V n, r = reduce_exp(a, n, power);
  V p = 0.5f * (exp_rest(r) * r * r + r + 1.0f);
  return scale_normal(a, p, power, 0.0f, 89.415985f);
}
template <class V> DC_INLINE V sinh_float(V x) {
  V a = abs(x), h = half_exp(a), z = a * a;
  V near = a + a * z * poly(z, 2.80628026e-6, 0.000198381020, 0.00833333968, 0.166666666);
  return copysign(a < 1.0f ? near : (V)(h - 0.25f / h), x);
}
template <class V> DC_INLINE V cosh_float(V x) {
  V h = half_exp(abs(x));
  return h + 0.25f / h;
}

// ---- by logarithms ----------------------------------------------------------------------------

// Where a square would overflow, 1 is too little to count: the logarithm of 2 a.
template <class V> DC_INLINE V asinh_float(V x) {
  V a = abs(x);
  const auto far = a > 1e9f;
  V r = log1p(far ? a : (V)(a + a * a / (1.0f + sqrt((V)(a * a + 1.0f)))));
  return copysign(far ? (V)(r + 0.693147181f) : r, x);
}
template <class V> DC_INLINE V acosh_float(V x) {
  const auto far = x > 1e9f;
  V t = x - 1.0f, r = log1p(far ? x : (V)(t + sqrt((V)(t * (x + 1.0f)))));
  r = far ? (V)(r + 0.693147181f) : r;
  return x < 1.0f ? (V)(V{} + __builtin_nanf("")) : r;
}
template <class V> DC_INLINE V atanh_float(V x) {
  V a = abs(x);
  return copysign((V)(0.5f * log1p((V)(2.0f * a / (1.0f - a)))), x);
}

// ---- the functions ----------------------------------------------------------------------------

// Subnormal numbers, where arithmetic takes them for 0, are flushed as XLA flushes them.
#define DC_HYPERBOLIC(NAME, AT_ZERO)                                                                \
  template <class V> inline V NAME(V x) {                                                           \
    V r;                                                                                            \
    if constexpr (is_double<V>) r = map_lanes(x, [](auto a) { return __builtin_##NAME(a); });       \
    else r = NAME##_float(x);                                                                       \
    return x == 0 ? AT_ZERO : r;                                                                    \
  }
DC_HYPERBOLIC(sinh, flushed(x))
DC_HYPERBOLIC(asinh, flushed(x))
DC_HYPERBOLIC(atanh, flushed(x))
DC_HYPERBOLIC(cosh, (V)(V{} + (elem<V>)1))
DC_HYPERBOLIC(acosh, (V)(V{} + (elem<V>)__builtin_nan("")))
#undef DC_HYPERBOLIC

}  // namespace dynacomp
