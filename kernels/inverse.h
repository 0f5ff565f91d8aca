// Inverse trigonometric functions, cube roots and powers.
//
// floats go through double, half of the lanes at a time, with polynomials (Chebyshev fits of relative error 1e-9 or
// less), so that nearly every result is rounded once. Doubles have polynomials of their own, or go to the C library, lane
// by lane. Included by math.h.
#pragma once

namespace dynacomp {

constexpr double kHalfPi = 1.57079632679489661923, kPi = 3.14159265358979323846;

// ---- inverse tangent --------------------------------------------------------------------------

template <class D> DC_INLINE D atan_inside(D p) {      // of 0 to 1
  return p * poly((D)(p * p), 0.001057607438057242, -0.007030669470424213, 0.021912945865448393, -0.04392841073326746,
                  0.06685281517877424, -0.08785043282362845, 0.1105077127584966, -0.14278576024807985,
                  0.19999558100363982, -0.33333322488911593, 0.9999999995535376);
}
template <class D> DC_INLINE D atan_wide(D x) {
  const D a = abs(x), one = D{} + 1.0;
  const auto far = a > 1.0;
  const D r = atan_inside((D)((far ? one : a) / (far ? a : one)));
  return copysign(far ? (D)(kHalfPi - r) : r, x);
}
// The angle of (x, y), in eight parts; (0, 0) lies on the axis, (inf, inf) between two.
template <class D> DC_INLINE D atan2_wide(D y, D x) {
  typedef typename lane<D>::sints S;
  const D a = abs(y), b = abs(x);
  const auto steep = a > b;
  const D top = steep ? b : a, bottom = steep ? a : b;
  D p = top / bottom;
  p = bottom == 0.0 ? top : top == bottom ? (D)(D{} + 1.0) : p;
  D r = atan_inside(p);
  r = steep ? (D)(kHalfPi - r) : r;
  return copysign(bits_as<S>(x) < 0 ? (D)(kPi - r) : r, y);
}

// ---- inverse sine -----------------------------------------------------------------------------

// asin of s in 0 to 1/2, from it and its square.
template <class D> DC_INLINE D asin_inside(D s, D z) {
  return s * poly(z, 0.0376771383418486, 0.014295256037820107, 0.03185718889411276, 0.04450870949865153,
                  0.07500571381024686, 0.16666657639575913, 1.0000000002307783);
}
// Beyond a half, by the half of the angle: sin(t/2)^2 = (1 - cos t) / 2.
template <class D> DC_INLINE D asin_wide(D x) {
  const D a = abs(x);
  const auto far = a > 0.5;
  const D z = far ? (D)(0.5 - 0.5 * a) : (D)(a * a), r = asin_inside(far ? sqrt(z) : a, z);
  return copysign(far ? (D)(kHalfPi - 2.0 * r) : r, x);
}
template <class D> DC_INLINE D acos_wide(D x) {
  const D a = abs(x);
  const auto far = a > 0.5;
  const D z = far ? (D)(0.5 - 0.5 * a) : (D)(a * a), r = asin_inside(far ? sqrt(z) : a, z);
  return far ? (x < 0.0 ? (D)(kPi - 2.0 * r) : (D)(2.0 * r)) : (D)(kHalfPi - copysign(r, x));
}

// ---- doubles ----------------------------------------------------------------------------------

// What the constants above have lost.
constexpr double kHalfPiRest = 6.123233995736766e-17, kPiRest = 1.2246467991473532e-16;

// Of at most tan(pi / 8), what is beyond turned by an eighth or a quarter.
template <class D> DC_INLINE D atan_double(D x) {
  const D a = abs(x), zero = D{};
  const auto far = a > 2.414213562373095, beyond = a > 0.4142135623730951;
  const D top = far ? (D)(zero - 1.0) : beyond ? (D)(a - 1.0) : a;
  const D bottom = far ? a : beyond ? (D)(a + 1.0) : (D)(zero + 1.0);
  const D p = top / bottom, z = p * p;
  const D turn = far ? (D)(zero + 1.0) : beyond ? (D)(zero + 0.5) : zero;
  const D rest = poly(z, 0.01628357235648259, -0.0345685906686069, 0.045515165635903104, -0.052304374642516874, 0.05878926715756726,
                 -0.066664246872465, 0.07692296363979952, -0.09090908753118594, 0.11111111105147764,
                 -0.14285714285659748, 0.19999999999999804, -0.3333333333333333);
  return copysign((D)(turn * kHalfPi + (p + (p * z * rest + turn * kHalfPiRest))), x);
}
// asin(s) / s - 1 of s in 0 to 1/2, by its square, over that.
template <class D> DC_INLINE D asin_rest(D z) {
  return poly(z, 0.02961201126495512, -0.01924167174674304, 0.019554513336123378, 0.0030448799094556773, 0.009319560794767446,
              0.009621842970100282, 0.011566459612121669, 0.01396378001220357, 0.017352816540325496,
              0.02237215744350722, 0.03038194447553234, 0.044642857142551895, 0.07500000000000118,
              0.16666666666666666);
}
template <class D> DC_INLINE D asin_double(D x) {
  const D a = abs(x);
  const auto far = a > 0.5;
  const D z = far ? (D)(0.5 - 0.5 * a) : (D)(a * a), s = far ? sqrt(z) : a, more = s * z * asin_rest(z);
  return copysign(far ? (D)(kHalfPi - (2.0 * s + (2.0 * more - kHalfPiRest))) : (D)(s + more), x);
}
template <class D> DC_INLINE D acos_double(D x) {
  const D a = abs(x);
  const auto far = a > 0.5;
  const D z = far ? (D)(0.5 - 0.5 * a) : (D)(a * a), s = far ? sqrt(z) : a, more = s * z * asin_rest(z);
  const D outside = x < 0.0 ? (D)(kPi - (2.0 * s + (2.0 * more - kPiRest))) : (D)(2.0 * (s + more));
  return far ? outside : (D)(kHalfPi - (copysign(s, x) + (copysign(more, x) - kHalfPiRest)));
}

// ---- the functions ----------------------------------------------------------------------------

#define DC_INVERSE(NAME)                                                                            \
  template <class V> inline V NAME(V x) {                                                           \
    if constexpr (is_double<V>) return NAME##_double(x);                                            \
    else return via_double([](auto d) { return NAME##_wide(d); }, x);                               \
  }
DC_INVERSE(acos)
namespace unflushed {
DC_INVERSE(atan) DC_INVERSE(asin)
}  // namespace unflushed
#undef DC_INVERSE
// Where subnormal numbers are 0 for arithmetic: XLA gives them back from the one, not from the other.
template <class V> inline V atan(V x) { return x == 0 ? x : unflushed::atan(x); }
template <class V> inline V asin(V x) { return x == 0 ? flushed(x) : unflushed::asin(x); }
template <class V> inline V atan2(V y, V x) {
  if constexpr (is_double<V>) return map_lanes(y, x, [](auto a, auto b) { return __builtin_atan2(a, b); });
  else if constexpr (is_scalar<V>::value) return __builtin_atan2f(y, x);
  else {  // subnormal numbers, which may be 0 for arithmetic but are not for XLA here, go to the C library
    typedef typename lane<V>::uints U;
    const auto subnormal = [](V v) { return (U)((bits_as<U>(v) & 0x7fffffffu) - 1u) < 0x7fffffu; };
    if (__builtin_expect(any_lane(truth<V>(subnormal(y) | subnormal(x))), 0))
      return map_lanes(y, x, [](auto a, auto b) { return __builtin_atan2f(a, b); });
    return via_double([](auto d, auto e) { return atan2_wide(d, e); }, y, x);
  }
}

// ---- cube roots -------------------------------------------------------------------------------

// A third of the bits is a root to 4 %, and each of Halley's steps has three times as many digits.
template <class V> inline V cbrt(V x) {
  if constexpr (is_double<V>) return map_lanes(x, [](auto a) { return __builtin_cbrt(a); });
  else if constexpr (is_scalar<V>::value) return __builtin_cbrtf(x);
  else {
    typedef typename lane<V>::sints S;
    const V a = abs(x);
    const auto odd = truth<V>((a < 1.17549435e-38f) | !(a < __builtin_inff()));  // 0, subnormal, infinite, NaN
    if (__builtin_expect(any_lane(odd), 0)) return map_lanes(x, [](auto e) { return __builtin_cbrtf(e); });
    const S third = convert_lanes<int32_t>((V)(convert_lanes<float>(bits_as<S>(a)) * (1.0f / 3.0f)));
    const V r = via_double([](auto d, auto y) {
      for (int k = 0; k < 2; ++k) {
        auto cube = y * y * y;
        y = y * (cube + 2.0 * d) / (2.0 * cube + d);
      }
      return y;
    }, a, bits_as<V>((S)(third + 0x2a5137a0)));
    return copysign(r, x);
  }
}

// ---- powers -----------------------------------------------------------------------------------

// x^y = 2^(y log2 x), for x = 2^e m, m in [sqrt(1/2), sqrt(2)); no more than 2^127, no less than 2^-127.
template <class D> DC_INLINE D power_wide(D m, D e, D y) {
  typedef typename lane<D>::sints S;
  const D s = (m - 1.0) / (m + 1.0);
  D t = s * poly((D)(s * s), 0.3407120415619086, 0.41167376623771057, 0.5770835660048659, 0.9617966734515485,
                 2.885390081789987);
  t = (t + e) * y;
  t = t < -127.0 ? (D)(D{} - 127.0) : t;
  t = t > 127.0 ? (D)(D{} + 127.0) : t;
  const D shifted = t + 6755399441055744.0;            // 1.5 * 2^52: a whole number in the low bits
  const D r = t - (shifted - 6755399441055744.0);
  const D p = poly(r, 1.5303700711365693e-05, 0.00015469729214118296, 0.0013333478473685416, 0.009618025613318034,
                   0.055504109063258665, 0.24022651213498092, 0.6931471805568324, 0.9999999999595618);
  return bits_as<D>((S)(bits_as<S>(p) + (bits_as<S>(shifted) << 52)));
}
// Lanes with anything odd in them (0, subnormal, infinite or no numbers, results near the ends of the range) go to the
// C library.
template <class V> inline V pow(V x, V y) {
  if constexpr (is_double<V>) return map_lanes(x, y, [](auto a, auto b) { return __builtin_pow(a, b); });
  else if constexpr (is_scalar<V>::value) return __builtin_powf(x, y);
  else {
    typedef typename lane<V>::sints S;
    const V a = abs(x);
    const S b = bits_as<S>(a), e = (b - 0x3f3504f3) >> 23;
    const V r = via_double([](auto m, auto n, auto p) { return power_wide(m, n, p); },
                           bits_as<V>((S)(b - (e << 23))), convert_lanes<float>(e), y);
    const V c = abs(y), smallest = V{} + 1.17549435e-38f, inf = V{} + __builtin_inff();
    const auto plain = (a >= smallest) & (a < inf) & (c >= smallest) & (c < inf) & (r > 1.2e-38f) & (r < 8e37f);
    if (__builtin_expect(any_lane(truth<V>(!plain)), 0))
      return map_lanes(x, y, [](auto base, auto power) { return __builtin_powf(base, power); });
    const V half = y * 0.5f, whole = V{} + __builtin_nanf("");
    const V signed_r = round_even(y) != y ? whole : round_even(half) != half ? (V)-r : r;
    return x < 0.0f ? signed_r : r;
  }
}

}  // namespace dynacomp
