// The error function, its complement and its inverse for doubles, without branches but for rare ranges, so that they
// vectorise: fits in mpmath of the named functions on the named ranges. Those for floats are in math.h, which includes
// this.
#pragma once

namespace dynacomp {

// erf(x) / x below 1, of the square.
template <class D> DC_INLINE D erf_inside(D z) {
  return poly(z, 5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07,
              1.6461000484121368e-06, -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379,
              0.0052239776248180145, -0.026866170645076792, 0.11283791670954879, -0.3761263890318375,
              1.1283791670955126);
}
// erfc(a) of 1/2 and more: exp(a^2) erfc(a) (1 + 2a) is a polynomial of (a - 4) / (a + 4). The square is one of half of
// the digits, which is exact, plus a rest, as its error would be that of the result.
template <class D> DC_INLINE D erfc_outside(D a) {
  typedef typename lane<D>::uints U;
  const D t = (a - 4.0) / (a + 4.0);
  const D p = poly(t, -1.0584315800092537e-08, -1.2307439672359532e-08, 1.0597059762801646e-07, 6.724741028727314e-08,
                   -8.228929299321569e-07, 2.9930534208115295e-07, 5.708855199403216e-06, -1.122457422226363e-05,
                   -2.4399065923152382e-05, 0.0001506224355538403, -0.00019925669365832713, -0.00075777343482625,
                   0.005031969972671415, -0.01619773404021866, 0.03716751553844642, -0.0663303658134497,
                   0.09373283499827546, -0.10103906603626016, 0.06809705425469505, 0.015379652102619127,
                   -0.13962111684056253, 1.2329951186255526);
  const D high = bits_as<D>((U)(bits_as<U>(a) & 0xfffffffff8000000u)), square = high * high;
  typename lane<D>::sints power;
  D n, r = reduce_exp((D)-square, n, power);
  r = r + (high - a) * (high + a);
  const D e = exp_rest(r) * r * r + r + 1.0;
  return scale_normal((D)-square, e, power, -708.3964185322641, 1.0) * p / (1.0 + 2.0 * a);
}
template <class D> DC_INLINE D erf_double(D x) {
  D a = abs(x);
  a = a > 6.0 ? (D)(D{} + 6.0) : a;
  return copysign(a < 1.0 ? (D)(a * erf_inside((D)(a * a))) : (D)(1.0 - erfc_outside(a)), x);
}
template <class D> DC_INLINE D erfc_double(D x) {
  D a = abs(x);
  a = a > 28.0 ? (D)(D{} + 28.0) : a;
  const D tail = erfc_outside(a), near = 1.0 - x * erf_inside((D)(x * x));
  const D y = a < 0.5 ? near : x < 0.0 ? (D)(2.0 - tail) : tail;
  return x != x ? x : y;
}

// erf_inv(x) / x is a polynomial of w = -log(1 - x^2), or of its root near the ends (as Giles divides it, 2012).
template <class D> DC_INLINE D erf_inv_ends(D w, D near) {
  const D root = sqrt(w), s = root - 3.25, t = root - 5.0;
  const D middle = poly(s, -1.5102695423335065e-08, 6.969241977629694e-10, 1.3104351499972014e-07, -2.713451105439456e-07,
                        -2.7004219280868947e-08, 1.4987130784186127e-06, -3.986084395214756e-06,
                        2.9257291901789823e-06, 1.2465167157087251e-05, -4.731898412011245e-05, 6.828708654753377e-05,
                        2.4031257015092525e-05, -0.00035503780975963814, 0.0009532893637435638,
                        -0.0016882755357337071, 0.0024914420969817607, -0.003751208508215561, 0.00537091455357168,
                        1.0052589676941652, 3.0838856104922208);
  const D far = poly(t, -1.918091774542798e-11, 4.3048487408966284e-11, 6.423126815999182e-11, -4.382047227258543e-10,
                     1.3258001981211816e-09, -3.470432849622866e-09, 7.811719086478096e-09, -1.5255684421519878e-08,
                     2.9024253116751683e-08, -6.755597673306262e-08, 2.2905092414135343e-07, -9.930294249997827e-07,
                     4.52605288407062e-06, -1.968177069629507e-05, 7.599527806304326e-05, -0.00021503011982808927,
                     -0.00013871931837892897, 1.0103004648645453, 4.849906401408584);
  return w < 6.25 ? near : w < 16.0 ? middle : far;
}
template <class D> DC_INLINE D erf_inv_double(D x) {
  const D w = -log((D)((1.0 - x) * (1.0 + x))), v = w - 3.125;
  D p = poly(v, 3.240704459379902e-21, -1.113483769832702e-21, -3.4996044354754177e-19, 1.150022252066253e-18,
             1.557432024623325e-17, -1.3016928016796445e-16, -4.0282154327661744e-17, 6.596407712420834e-15,
             -4.001237735091896e-14, -8.118399443074353e-14, 2.6304834740560442e-12, -1.2976885526532075e-11,
             -5.414287198084716e-11, 1.0512181539804126e-09, -4.11266082002324e-09, -2.9070382262927266e-08,
             4.234788173782339e-07, -1.3654691850603575e-06, -1.3882523394405316e-05, 0.00018673420802464837,
             -0.000740702534154477, -0.00603367087142785, 0.2401581824255883, 1.6536545626831027);
  if (__builtin_expect(any_lane(truth<D>(!(w < 6.25))), 0)) p = erf_inv_ends(w, p);
  const D y = x * p, inf = D{} + __builtin_inf();
  return abs(x) == 1.0 ? copysign(inf, x) : y;
}

}  // namespace dynacomp
