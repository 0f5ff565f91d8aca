// Hyperbolic functions and their inverses by the exponentials and logarithms of math.h, within 3 ULP. Included by math.h.
#pragma once

namespace dynacomp {

// ---- by exponentials --------------------------------------------------------------------------

// e^a / 2 of a >= 0, finite as long as it is a number.
template <class V> DC_INLINE V half_exp(V a) {
  typedef elem<V> T;
  typename lane<V>::sints power;
  V n, r = reduce_exp(a, n, power);
  V p = (T)0.5 * (exp_rest(r) * r * r + r + (T)1);
  return scale_normal(a, p, power, (T)0, is_double<V> ? (T)710.4758600739439 : (T)89.415985f);
}
template <class V> DC_INLINE V sinh_of(V x) {
  typedef elem<V> T;
  V a = abs(x), h = half_exp(a), z = a * a, p;
  if constexpr (is_double<V>)
    p = poly(z, 2.8445264169895285e-15, 7.646625361656657e-13, 1.6059048396350562e-10, 2.505210836405804e-08,
             2.755731922404034e-06, 0.00019841269841269773, 0.008333333333333333, 0.16666666666666666);
  else p = poly(z, 2.80628026e-6, 0.000198381020, 0.00833333968, 0.166666666);
  return copysign(a < (T)1 ? (V)(a + a * z * p) : (V)(h - (T)0.25 / h), x);
}
template <class V> DC_INLINE V cosh_of(V x) {
  V h = half_exp(abs(x));
  return h + (elem<V>)0.25 / h;
}

// ---- by logarithms ----------------------------------------------------------------------------

// Where a square would overflow, 1 is too little to count: the logarithm of 2 a.
template <class V> constexpr elem<V> log_two = (elem<V>)0.693147180559945309417;
template <class V> DC_INLINE V asinh_of(V x) {
  typedef elem<V> T;
  V a = abs(x);
  const auto far = a > (T)1e9;
  V r = log1p(far ? (V)(a - (T)1) : (V)(a + a * a / ((T)1 + sqrt((V)(a * a + (T)1)))));
  return copysign(far ? (V)(r + log_two<V>) : r, x);
}
template <class V> DC_INLINE V acosh_of(V x) {
  typedef elem<V> T;
  const auto far = x > (T)1e9;
  V t = x - (T)1, r = log1p(far ? t : (V)(t + sqrt((V)(t * (x + (T)1)))));
  r = far ? (V)(r + log_two<V>) : r;
  return x < (T)1 ? (V)(V{} + (T)__builtin_nan("")) : r;
}
template <class V> DC_INLINE V atanh_of(V x) {
  typedef elem<V> T;
  V a = abs(x);
  return copysign((V)((T)0.5 * log1p((V)((T)2 * a / ((T)1 - a)))), x);
}

// ---- the functions ----------------------------------------------------------------------------

// Subnormal numbers, where arithmetic takes them for 0, are flushed as XLA flushes them.
#define DC_HYPERBOLIC(NAME, AT_ZERO)                                                                \
  template <class V> inline V NAME(V x) {                                                           \
    V r = NAME##_of(x);                                                                             \
    return x == 0 ? AT_ZERO : r;                                                                    \
  }
DC_HYPERBOLIC(sinh, flushed(x))
DC_HYPERBOLIC(asinh, flushed(x))
DC_HYPERBOLIC(atanh, flushed(x))
DC_HYPERBOLIC(cosh, (V)(V{} + (elem<V>)1))
DC_HYPERBOLIC(acosh, (V)(V{} + (elem<V>)__builtin_nan("")))
#undef DC_HYPERBOLIC

}  // namespace dynacomp
