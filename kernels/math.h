// Elementary functions on scalars and lanes, float and double, within 4 ULP in the normal range.
//
// exp, log, sin, cos, tanh and their kin are polynomials (Chebyshev fits of the named remainder on
// the reduced range) without branches, so they vectorise. What is rarely hot, as powers of doubles, calls the C
// library lane by lane (`DC_LIBM`), as does a range that reduction cannot hold. Error functions of doubles are in
// error.h, inverse trigonometric functions and powers in inverse.h, hyperbolic functions in hyperbolic.h.
#pragma once
#include "ops.h"

namespace dynacomp {

// ---- tools ------------------------------------------------------------------------------------

// Horner: c0 is the highest coefficient.
template <class V> DC_INLINE V poly(V, elem<V> c0) { return V{} + c0; }
template <class V> DC_INLINE V horner(V, V acc) { return acc; }
template <class V, class... C> DC_INLINE V horner(V x, V acc, double c, C... rest) {
  return horner(x, (V)(acc * x + (elem<V>)c), rest...);
}
template <class V, class... C> DC_INLINE V poly(V x, double c0, double c1, C... rest) {
  return horner(x, (V)(x * (elem<V>)c0 + (elem<V>)c1), rest...);
}

// A function of doubles for floats, half of the lanes at a time (their doubles fill one register).
template <class F, class V, class... W> DC_INLINE V via_double(F f, V x, W... more) {
  if constexpr (is_scalar<V>::value) return (V)f((double)x, (double)more...);
  else
    return joined(floated(f(doubled(low_half(x)), doubled(low_half(more))...)),
                  floated(f(doubled(high_half(x)), doubled(high_half(more))...)));
}

// 2^n for whole n in the normal exponent range.
template <class V> DC_INLINE V power_of_two(V n) {
  typedef typename lane<V>::sints S;
  constexpr int mantissa = is_double<V> ? 52 : 23;
  constexpr elem<S> bias = is_double<V> ? 1023 : 127;
  S e = convert_lanes<elem<S>>(n);
  return bits_as<V>((S)((e + bias) << mantissa));
}

// ---- remainders -------------------------------------------------------------------------------

// float: a quotient below 2^28 is known well enough in double, its whole part times b exactly.
template <class V> inline V rem(V a, V b) {
  if constexpr (!is_float<V> || is_double<V> || is_scalar<V>::value) return rem_each(a, b);
  else {
    V q = abs((V)(a / b));
    auto far = truth<V>((q >= 268435456.0f) | (q != q) | (abs(b) == __builtin_inff()));
    if (__builtin_expect(any_lane(far), 0)) return rem_each(a, b);
    return via_double([](auto x, auto y) {
      typedef decltype(x) D;
      D u = abs(x), w = abs(y);
      return copysign((D)(u - floor((D)(u / w)) * w), x);
    }, a, b);
  }
}

// ---- exp --------------------------------------------------------------------------------------

// x = n ln2 + r; returns r, and sets n and `power`, n where the exponent of a float is: adding a large number rounds
// to a whole one, in the low bits. ln2 is split so that n * high is exact.
template <class V, class S> DC_INLINE V reduce_exp(V x, V& n, S& power) {
  if constexpr (is_double<V>) {
    V t = x * 1.44269504088896340736 + 6755399441055744.0;  // 1.5 * 2^52
    power = bits_as<S>(t) << 52;
    n = t - 6755399441055744.0;
    return (x - n * 0.69314718036912381649) - n * 1.9082149292705877e-10;
  } else {
    V t = x * 1.44269504f + 12582912.0f;               // 1.5 * 2^23
    power = bits_as<S>(t) << 23;
    n = t - 12582912.0f;
    return (x - n * 0.693359375f) + n * 2.12194440e-4f;
  }
}
// (e^r - 1 - r) / r^2
template <class V> DC_INLINE V exp_rest(V r) {
  if constexpr (is_double<V>)
    return poly(r, 1.4885301240720206e-9, 2.5105513541847085e-8, 2.7577304682878589e-7,
                2.7557254685728803e-6, 2.4801563126356264e-5, 0.0001984126987538548,
                0.0013888888901673902, 0.0083333333333259731, 0.041666666666639078,
                0.16666666666666671, 0.5);
  else
    return poly(r, 0.00139263919, 0.008363345811, 0.04166655336, 0.1666657599, 0.5);
}
template <class V> DC_INLINE V clamp_exp(V x) {
  elem<V> low = is_double<V> ? (elem<V>)-746 : (elem<V>)-104, high = is_double<V> ? (elem<V>)710 : (elem<V>)89;
  V a = x < low ? (V)(V{} + low) : x;
  return a > high ? (V)(V{} + high) : a;
}
// p * 2^n in two steps, so that results below the normal range round once.
template <class V> DC_INLINE V scale(V p, V n) {
  V half = floor((V)(n * (elem<V>)0.5));
  return (p * power_of_two(half)) * power_of_two((V)(n - half));
}
// p * 2^n by adding n to the exponent of p, which is near 1; results below the normal range become 0, as
// XLA flushes them. Outside (low, high) the value is 0 or infinity whatever p and n are.
template <class V, class S> DC_INLINE V scale_normal(V x, V p, S power, elem<V> low, elem<V> high) {
  V y = bits_as<V>((S)(bits_as<S>(p) + power));
  y = x < low ? V{} : y;
  return x > high ? (V)(V{} + (elem<V>)__builtin_inf()) : y;
}
template <class V> DC_INLINE V exp(V x) {
  typename lane<V>::sints power;
  V n, r = reduce_exp(x, n, power);
  V p = exp_rest(r) * r * r + r + (elem<V>)1;
  if constexpr (is_double<V>) return scale_normal(x, p, power, -708.3964185322641, 709.782712893384);
  else return scale_normal(x, p, power, -87.33654f, 88.72283f);
}
template <class V> DC_INLINE V exp2(V x) {
  constexpr elem<V> low = is_double<V> ? -1080 : -152, high = is_double<V> ? 1025 : 129;
  V a = x < low ? (V)(V{} + low) : x;
  a = a > high ? (V)(V{} + high) : a;
  V n = round_even(a);
  V r = (a - n) * (elem<V>)0.693147180559945309417;
  return scale((V)(exp_rest(r) * r * r + r + (elem<V>)1), n);
}
template <class V> DC_INLINE V expm1(V x) {
  typename lane<V>::sints power;
  V n, r = reduce_exp(clamp_exp(x), n, power);
  V m = exp_rest(r) * r * r + r;                       // e^r - 1
  V t = power_of_two((V)(n > (elem<V>)1 ? (V)(n - (elem<V>)1) : (V)(n < (elem<V>)-60 ? (V)(V{} - (elem<V>)60) : n)));
  V two = n > (elem<V>)1 ? (V)(V{} + (elem<V>)2) : (V)(V{} + (elem<V>)1);
  V y = (t * m + (t - (elem<V>)1 / two)) * two;
  return x == 0 ? x : y;
}
template <class V> DC_INLINE V logistic(V x) {
  V e = exp((V)-abs(x));
  V top = x < 0 ? e : (V)(V{} + (elem<V>)1);
  return top / ((elem<V>)1 + e);
}

// ---- log --------------------------------------------------------------------------------------

// log of positive normal or subnormal m * 2^e with m in [sqrt(1/2), sqrt(2)): 2 atanh(f / (2 + f)).
template <class V> DC_INLINE V log_poly(V f) {
  V s = f / ((elem<V>)2 + f), z = s * s;
  V rest;
  if constexpr (is_double<V>)
    rest = poly(z, 0.14623956608211924, 0.15331112587960163, 0.18182907497671218, 0.22222210881932927,
                0.28571428627528796, 0.3999999999989607, 0.66666666666666698);
  else
    rest = poly(z, 0.2958568077, 0.3998865394, 0.6666668535);
  V half = (elem<V>)0.5 * f * f;
  return f - (half - s * (half + rest * z));           // 2 s = f - s f, without losing the low bits
}
template <class V> DC_INLINE V log(V x) {
  typedef typename lane<V>::sints S;
  constexpr int mantissa = is_double<V> ? 52 : 23;
  constexpr elem<V> smallest = is_double<V> ? (elem<V>)2.2250738585072014e-308 : (elem<V>)1.17549435e-38f;
  constexpr elem<V> lift = is_double<V> ? (elem<V>)18014398509481984.0 : (elem<V>)33554432.0f;  // 2^54, 2^25
  auto sub = x < smallest;
  V y = sub ? (V)(x * lift) : x;
  constexpr elem<S> root = is_double<V> ? (elem<S>)0x3fe6a09e667f3bcdLL : (elem<S>)0x3f3504f3;
  S b = bits_as<S>(y);
  S e = (b - root) >> mantissa;
  V m = bits_as<V>((S)(b - (e << mantissa)));
  V n = convert_lanes<elem<V>>(e);
  n = sub ? (V)(n - (is_double<V> ? (elem<V>)54 : (elem<V>)25)) : n;
  V p = log_poly((V)(m - (elem<V>)1));
  V r;
  if constexpr (is_double<V>) r = n * 0.69314718036912381649 + (p + n * 1.9082149292705877e-10);
  else r = n * 0.693359375f + (p - n * 2.12194440e-4f);
  V inf = V{} + (elem<V>)__builtin_inf(), nan = V{} + (elem<V>)__builtin_nan("");
  r = x == inf ? x : r;
  r = x == 0 ? (V)-inf : r;
  r = x < 0 ? nan : r;
  return x != x ? x : r;
}
// float: what rounding 1 + x lost goes into the polynomial, so that small x come through it alone.
template <class V> DC_INLINE V log1p_float(V x) {
  typedef typename lane<V>::sints S;
  V u = x + 1.0f;
  S b = bits_as<S>(u), e = (b - 0x3f3504f3) >> 23;
  S most = e > 60 ? S{} + 60 : e;                      // beyond it nothing was lost
  V m = bits_as<V>((S)(b - (e << 23))), unit = bits_as<V>((S)(0x3f800000 - (most << 23)));
  V p = log_poly((V)((m - 1.0f) + (x - (u - 1.0f)) * unit)), n = convert_lanes<float>(e);
  V r = n * 0.693359375f + (p - n * 2.12194440e-4f);
  r = x == __builtin_inff() ? x : r;
  return x < -1.0f ? (V)(V{} + __builtin_nanf("")) : x == -1.0f ? (V)(V{} - __builtin_inff()) : r;
}
template <class V> DC_INLINE V log1p_double(V x) {
  V u = x + 1.0;
  V c = (x - (u - 1.0)) / u;                           // what rounding u lost
  V r = u == 1.0 ? x : (V)(log(u) + c);
  r = x == __builtin_inf() ? x : r;
  return x == -1.0 ? (V)(V{} - __builtin_inf()) : r;
}
template <class V> DC_INLINE V log1p(V x) {
  V r;
  if constexpr (is_double<V>) r = log1p_double(x);
  else r = log1p_float(x);
  return x == 0 ? flushed(x) : r;
}

// ---- roots, and what follows from them ---------------------------------------------------------

template <class V> DC_INLINE V sqrt(V x) {
  return map_lanes(x, [](auto a) {
    if constexpr (sizeof(a) == 8) return __builtin_sqrt(a);
    else return __builtin_sqrtf(a);
  });
}
template <class V> DC_INLINE V rsqrt(V x) { return (elem<V>)1 / sqrt(x); }

}  // namespace dynacomp
#include "error.h"
#include "hyperbolic.h"
#include "inverse.h"
namespace dynacomp {

// What the C library computes of one number.
#define DC_LIBM(NAME)                                                                               \
  DC_INLINE float NAME##_one(float x) { return __builtin_##NAME##f(x); }                            \
  DC_INLINE double NAME##_one(double x) { return __builtin_##NAME(x); }
DC_LIBM(sin) DC_LIBM(cos) DC_LIBM(tan) DC_LIBM(lgamma)
#undef DC_LIBM

// ---- sin and cos ------------------------------------------------------------------------------

template <class V> DC_INLINE V sin_poly(V r) {
  V z = r * r, p;
  if constexpr (is_double<V>)
    p = poly(z, -7.5865436341018051e-13, 1.6058529011960855e-10, -2.5052106215978873e-8,
             2.7557319219291696e-6, -0.00019841269841265004, 0.0083333333333333315, -0.16666666666666667);
  else
    p = poly(z, -0.0001958724932, 0.008332745297, -0.1666666465);
  return r + r * z * p;
}
template <class V> DC_INLINE V cos_poly(V r) {
  V z = r * r, p;
  if constexpr (is_double<V>)
    p = poly(z, 4.7457865678597795e-14, -1.1470459438155717e-11, 2.0876755781924196e-9,
             -2.7557319221376432e-7, 2.4801587301584612e-5, -0.0013888888888888888, 0.041666666666666667);
  else
    p = poly(z, 2.454729917e-5, -0.001388830006, 0.04166666464);
  return ((elem<V>)1 - (elem<V>)0.5 * z) + z * z * p;
}
// x - n pi/2 with n whole, |result| <= pi/4, for |x| below trig_limit: pi/2 comes in pieces of 33 bits, whose
// products with n are exact.
template <class V> constexpr elem<V> trig_limit = is_double<V> ? (elem<V>)1e6 : (elem<V>)1e5;
template <class V> DC_INLINE V reduce_trig(V x, V& n) {
  if constexpr (is_double<V>) {
    n = round_even((V)(x * 0.63661977236758134308));
    V r = x - n * 1.5707963267341256;
    V w = n * 6.077100506303966e-11;
    V t = r - w;
    return t - ((n * 2.0222662487959507e-21) - ((r - t) - w));
  } else {
    n = round_even((V)(x * 0.636619772f));
    V k = n;
    auto f = [](auto d, auto m) { return d - m * 1.57079632679489661923; };
    if constexpr (is_scalar<V>::value) return (V)f((double)x, (double)k);
    else return via_double(f, x, k);
  }
}
template <class V> DC_INLINE V sin_or_cos(V x, int shift) {
  typedef typename lane<V>::sints S;
  V n, r = reduce_trig(x, n);
  S q = convert_lanes<elem<S>>(n) + (elem<S>)shift;
  V y = (q & 1) != 0 ? cos_poly(r) : sin_poly(r);
  return (q & 2) != 0 ? (V)-y : y;
}
template <class V> inline V sin(V x) {
  auto big = truth<V>((abs(x) > trig_limit<V>) | (x != x));
  if (__builtin_expect(any_lane(big), 0)) return map_lanes(x, [](auto a) { return sin_one(a); });
  V y = sin_or_cos(x, 0);
  return x == 0 ? x : y;
}
template <class V> inline V cos(V x) {
  auto big = truth<V>((abs(x) > trig_limit<V>) | (x != x));
  if (__builtin_expect(any_lane(big), 0)) return map_lanes(x, [](auto a) { return cos_one(a); });
  return sin_or_cos(x, 1);
}

template <class V> DC_INLINE V tan_wide(V x) {
  typedef typename lane<V>::sints S;
  V n, r = reduce_trig(x, n), s = sin_poly(r), c = cos_poly(r);
  auto odd = (convert_lanes<elem<S>>(n) & 1) != 0;
  return (odd ? (V)-c : s) / (odd ? s : c);
}
template <class V> inline V tan(V x) {
  auto big = truth<V>((abs(x) > trig_limit<V>) | (x != x));
  if (__builtin_expect(any_lane(big), 0)) return map_lanes(x, [](auto a) { return tan_one(a); });
  if constexpr (is_double<V>) return x == 0 ? x : tan_wide(x);
  else return x == 0 ? x : via_double([](auto d) { return tan_wide(d); }, x);
}

// ---- tanh and erf -----------------------------------------------------------------------------

// e^x - 1 for float |x| < 80, exact to its own last place where that is near 0.
template <class V> DC_INLINE V expm1_inside(V x) {
  typename lane<V>::sints power;
  V n, r = reduce_exp(x, n, power), t = bits_as<V>((decltype(power))(power + 0x3f800000));
  return t * (exp_rest(r) * r * r + r) + (t - 1.0f);
}
template <class V> inline V tanh(V x) {
  V a = abs(x), y;
  if constexpr (is_double<V>) {
    V z = x * x;
    V p = poly(z, -2.4424285339101859e-6, 1.2218007185389717e-5, -3.708900691142223e-5, 9.6045559608451097e-5,
               -0.00023889103794129632, 0.0005899821894368315, -0.0014558284581819985, 0.0035921275135816554,
               -0.0088632355001895727, 0.021869488535147985, -0.053968253968236191, 0.13333333333333321,
               -0.33333333333333333);
    V far = (elem<V>)1 - (elem<V>)2 / (exp((V)(a + a)) + (elem<V>)1);
    y = a < (elem<V>)0.6 ? (V)(a + a * z * p) : far;
  } else {
    V m = expm1_inside((V)(2.0f * (a > 10.0f ? (V)(V{} + 10.0f) : a)));
    y = m / (m + 2.0f);
  }
  return x == 0 ? x : copysign(y, x);
}
// float: 1 - exp of a polynomial that is -log(1 - erf).
template <class V> inline V erf(V x) {
  if constexpr (is_double<V>) return erf_double(x);
  else {
    V a = abs(x);
    a = a > 4.0f ? (V)(V{} + 4.0f) : a;
    V q = a * poly(a, -9.256271425e-6, 0.0001176413248, -0.000632836937, 0.001667027778, -0.0001603963664,
                   -0.01915306375, 0.1027778305, 0.636619382, 1.128379172);
    return copysign((V)-expm1_inside((V)-q), x);
  }
}
// float: exp(x^2) erfc(x) (1 + 2x) is a polynomial of (x - 2) / (x + 2); x^2 is a float square that is exact
// plus a rest, as its error would be that of the result.
template <class V> inline V erfc(V x) {
  if constexpr (is_double<V>) return erfc_double(x);
  else {
    typedef typename lane<V>::uints U;
    V a = abs(x);
    a = a > 11.0f ? (V)(V{} + 11.0f) : a;
    V t = (a - 2.0f) / (a + 2.0f);
    V p = poly(t, 3.718407405e-5, -0.0003430815712, -0.001251800072, 0.001254531226, 0.008631618867,
               -0.008039214899, -0.05420286626, 0.1640525960, -0.1660315700, -0.09276388022, 1.276978395);
    V high = bits_as<V>((U)(bits_as<U>(a) & 0xfffff000u)), square = high * high;
    typename lane<V>::sints power;
    V n, r = reduce_exp((V)-square, n, power) + (high - a) * (high + a);
    V e = exp_rest(r) * r * r + r + 1.0f;
    V tail = scale_normal((V)-square, e, power, -87.33654f, 88.0f) * p / (1.0f + 2.0f * a);
    V z = x * x;
    V near = 1.0f - x * poly(z, 0.00471799005, -0.0267571843, 0.112828228, -0.376126086, 1.12837917);
    V y = a < 0.5f ? near : x < 0.0f ? (V)(2.0f - tail) : tail;
    return x != x ? x : y;
  }
}

// ---- special functions -------------------------------------------------------------

// Digamma and lgamma: reflect to positive x, recur up to a number from which few terms of the asymptotic series are
// enough. float: in double, without branches.
inline double digamma_one(double x) {
  if (x <= 0 && __builtin_floor(x) == x) return __builtin_nan("");
  double shift = 0;
  if (x < 0) {
    const double pi = 3.14159265358979323846, frac = x - __builtin_rint(x);
    shift = -pi / __builtin_tan(pi * frac);
    x = 1 - x;
  }
  for (; x < 10; x += 1) shift -= 1 / x;
  const double w = 1 / (x * x);
  const double series = w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132 -
                             w * (691.0 / 32760 - w / 12))))));
  return shift + __builtin_log(x) - 0.5 / x - series;
}
// sin and cos of pi x, without their signs, for double.
template <class V> DC_INLINE void sin_cos_pi(V x, V& s, V& c) {
  V frac = abs((V)(x - round_even(x)));
  auto far = frac > 0.25;
  V r = 3.14159265358979323846 * (far ? (V)(0.5 - frac) : frac);
  V a = sin_poly(r), b = cos_poly(r);
  s = far ? b : a;
  c = far ? a : b;
}
template <class V> DC_INLINE V digamma_wide(V x) {
  V y = x < 0.0 ? (V)(1.0 - x) : x;
  V s, c, p = V{} + 1.0, q = V{};                      // the sum of 1 / (y + k) for k < 7 is q / p
  for (int k = 0; k < 7; ++k) {
    V f = y + (double)k;
    q = q * f + p;
    p = p * f;
  }
  sin_cos_pi(x, s, c);
  auto low = y < 7.0;
  V z = low ? (V)(y + 7.0) : y, u = 1.0 / z, w = u * u;
  V series = w * poly(w, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
  V turn = 3.14159265358979323846 * c / s;             // pi cot(pi x), where its sign is that of x - rint(x)
  turn = x < round_even(x) ? (V)-turn : turn;
  V r = log(z) - 0.5 * u - series - (low ? (V)(q / p) : V{}) - (x < 0.0 ? turn : V{});
  r = ((x <= 0.0) & (floor(x) == x)) ? (V)(V{} + __builtin_nan("")) : r;
  return x == __builtin_inf() ? x : r;
}
template <class V> inline V digamma(V x) {
  if constexpr (is_double<V>) return map_lanes(x, [](auto a) { return digamma_one(a); });
  else return via_double([](auto d) { return digamma_wide(d); }, x);
}
template <class V> DC_INLINE V lgamma_wide(V x) {
  V y = x < 0.0 ? (V)(1.0 - x) : x;
  auto low = y < 8.0;
  V s, c, p = V{} + 1.0;                               // gamma(y + 8) / gamma(y)
  for (int k = 0; k < 8; ++k) p = p * (y + (double)k);
  sin_cos_pi(x, s, c);
  V z = low ? (V)(y + 8.0) : y, u = 1.0 / z, w = u * u;
  V series = u * poly(w, 1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
  V stirling = (z - 0.5) * log(z) - z + 0.91893853320467274178 + series;
  p = low ? p : (V)(V{} + 1.0);
  p = x < 0.0 ? (V)(3.14159265358979323846 * p / s) : p;
  V r = log(p) - stirling;
  r = x < 0.0 ? r : ((x == 1.0) | (x == 2.0)) ? V{} : (V)-r;
  V inf = V{} + __builtin_inf();
  return (((x <= 0.0) & (floor(x) == x)) | (abs(x) == inf)) ? inf : r;
}
template <class V> inline V lgamma(V x) {
  V inf = V{} + (elem<V>)__builtin_inf();
  if constexpr (is_double<V>) return x == 0 ? inf : map_lanes(x, [](auto a) { return lgamma_one(a); });
  else return x == 0 ? inf : via_double([](auto d) { return lgamma_wide(d); }, x);
}

// float: erf_inv(x) / x is a polynomial of w = -log(1 - x^2), or of sqrt(w) near the ends.
template <class V> inline V erf_inv(V x) {
  if constexpr (is_double<V>) return erf_inv_double(x);
  else {
    V w = -log((V)((1.0f - x) * (1.0f + x)));
    V near = poly((V)(w - 2.5f), -8.93192597e-9, 2.33359672e-8, 4.681313481e-7, -3.463985268e-6,
                  -4.972419689e-6, 0.0002183493862, -0.001252726392, -0.004177392875, 0.2466402791, 1.50140936);
    V far = poly((V)(sqrt(w) - 3.1f), -0.0001196603303, -6.115884105e-5, 0.001239344618, -0.002853534534,
                 0.004167270937, -0.005666075343, 0.007452651186, 1.003354268, 2.93323185);
    V y = x * (w < 5.0f ? near : far);
    V a = abs(x), inf = V{} + __builtin_inff();
    return a == 1.0f ? copysign(inf, x) : y;
  }
}

}  // namespace dynacomp
