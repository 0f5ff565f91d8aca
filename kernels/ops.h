// Arithmetic of generated kernels: one function per row of the scalar table, on scalars and lanes.
//
// Semantics are XLA's: integers wrap (compile with -fwrapv), x/0 is all ones, x rem 0 is x, shifts
// by the width or more give 0 (or the sign), max and min return NaN when either is NaN, float to
// integer truncates and saturates. Masks and bool order False < True.
#pragma once
#include "vec.h"

namespace dynacomp {

// A comparison's raw result (vector of 0/-1, or bool) as the value that kernels pass around.
template <class V, class R> DC_INLINE auto truth(R r) {
  if constexpr (is_scalar<V>::value) return (bool)r;
  else return mask<typename lane<V>::sints>{(typename lane<V>::sints)r};
}

template <class V> DC_INLINE auto nonzero(V v) { return truth<V>(v != 0); }
// Of a half held as float: subnormals are no zeros.
template <class V> DC_INLINE auto nonzero_half(V v) {
  typedef typename lane<V>::uints U;
  return truth<V>((U)(bits_as<U>(v) << 1) != 0);
}

// ---- arithmetic -------------------------------------------------------------------------------

template <class V> DC_INLINE V add(V a, V b) { return a + b; }
template <class V> DC_INLINE V sub(V a, V b) { return a - b; }
template <class V> DC_INLINE V mul(V a, V b) { return a * b; }
template <class V> DC_INLINE V neg(V a) { return -a; }

template <class V> DC_INLINE V div(V a, V b) {
  if constexpr (is_float<V>) return a / b;
  else {
    auto zero = b == 0;
    V safe = zero ? (V)(V{} + (elem<V>)1) : b;
    if constexpr (is_signed<V>) {
      auto minus = safe == -1;
      V q = a / (V)(minus ? (V)(V{} + (elem<V>)1) : safe);
      return zero ? (V)(V{} - (elem<V>)1) : (V)(minus ? (V)-a : q);
    } else {
      return zero ? (V)(V{} - (elem<V>)1) : (V)(a / safe);
    }
  }
}

// By a constant, far from overflow: times its reciprocal, then what that misses, which a fused multiply-add knows to
// the last bit. What is no number then was none, or infinite, before.
template <class V> DC_INLINE V div_by(V x, elem<V> c) {
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(DYNACOMP_EXACT)
  if (c < 0) return -div_by(x, -c);
  const elem<V> r = 1 / c;
  V q = x * r;
  V miss = q * c - x;
  V y = q - miss * r;
  return y != y ? q : y;
#else
  return x / c;
#endif
}

template <class V, class F> DC_INLINE V map_lanes(V x, F f) {
  if constexpr (is_scalar<V>::value) return f(x);
  else {
    V r;
    for (int l = 0; l < lane<V>::count; ++l) r[l] = f(x[l]);
    return r;
  }
}
template <class V, class F> DC_INLINE V map_lanes(V x, V y, F f) {
  if constexpr (is_scalar<V>::value) return f(x, y);
  else {
    V r;
    for (int l = 0; l < lane<V>::count; ++l) r[l] = f(x[l], y[l]);
    return r;
  }
}

DC_INLINE float fmod_one(float a, float b) { return __builtin_fmodf(a, b); }
DC_INLINE double fmod_one(double a, double b) { return __builtin_fmod(a, b); }

template <class V> DC_INLINE V rem_each(V a, V b) {  // floats lane by lane
  if constexpr (is_float<V>) return map_lanes(a, b, [](auto x, auto y) { return fmod_one(x, y); });
  else {
    auto bad = b == 0;
    if constexpr (is_signed<V>) bad = bad | (b == -1);
    V safe = bad ? (V)(V{} + (elem<V>)1) : b;
    V r = a % safe;
    return b == 0 ? a : (V)(bad ? V{} : r);
  }
}

template <class V> DC_INLINE V abs(V a) {
  if constexpr (is_float<V>) {
    typedef typename lane<V>::uints U;
    return bits_as<V>((U)((bits_as<U>(a) << 1) >> 1));
  } else if constexpr (is_signed<V>) {
    return a < 0 ? (V)-a : a;
  } else {
    return a;
  }
}
// |x| with the sign of s.
template <class V> DC_INLINE V copysign(V x, V s) {
  typedef typename lane<V>::uints U;
  U top = U{} + ((elem<U>)1 << (8 * sizeof(elem<U>) - 1));
  return bits_as<V>((U)((bits_as<U>(x) & ~top) | (bits_as<U>(s) & top)));
}
// Zero or a subnormal number, as arithmetic leaves it: subnormals are zero where the thread flushes them, and compare
// equal to zero there.
template <class V> DC_INLINE V flushed(V x) { return x + x; }
template <class V> DC_INLINE V sign(V a) {
  V unit = V{} + (elem<V>)1;
  if constexpr (is_float<V>) return a > 0 ? unit : (V)(a < 0 ? (V)-unit : flushed(a));
  else if constexpr (is_signed<V>) return a > 0 ? unit : (V)(a < 0 ? (V)-unit : V{});
  else return a != 0 ? unit : V{};
}

// NaN wins. Where zero does, subnormals that are flushed included, it has the sign bit of both (max), or of either (min).
template <class V, class R> DC_INLINE V signed_zero(R bits) {
  typedef typename lane<V>::uints U;
  U top = U{} + ((elem<U>)1 << (8 * sizeof(elem<U>) - 1));
  return bits_as<V>((U)(bits & top));
}
template <Number V> DC_INLINE V max(V a, V b) {
  if constexpr (is_float<V>) {
    typedef typename lane<V>::uints U;
    V r = a > b ? a : b;
    r = r == 0 ? signed_zero<V>((U)(bits_as<U>(a) & bits_as<U>(b))) : r;
    return a != a ? a : r;
  } else {
    return a > b ? a : b;
  }
}
template <Number V> DC_INLINE V min(V a, V b) {
  if constexpr (is_float<V>) {
    typedef typename lane<V>::uints U;
    V r = a < b ? a : b;
    r = r == 0 ? signed_zero<V>((U)(bits_as<U>(a) | bits_as<U>(b))) : r;
    return a != a ? a : r;
  } else {
    return a < b ? a : b;
  }
}
DC_INLINE bool max(bool a, bool b) { return a | b; }
DC_INLINE bool min(bool a, bool b) { return a & b; }

// Subnormals are equal to zero, and yet have neighbours of their own.
template <class V> DC_INLINE V nextafter(V a, V b) {
  typedef typename lane<V>::sints S;
  constexpr elem<S> top = (elem<S>)((elem<S>)1 << (8 * sizeof(elem<S>) - 1));
  S ia = bits_as<S>(a), ib = bits_as<S>(b);
  S step = (a < b) == (ia >= 0) ? (S)(ia + 1) : (S)(ia - 1);
  S moved = (ia & (elem<S>)~top) == 0 ? (S)((ib & top) | 1) : step;
  S kept = a == b ? ib : moved;
  return ((a != a) | (b != b)) ? (V)(a + b) : bits_as<V>(kept);
}

DC_INLINE uint16_t next_half(uint16_t a, uint16_t b) {  // bits of two unequal non-NaN halves
  if ((a & 0x7fff) == 0) return (b & 0x8000) | 1;
  auto order = [](uint16_t h) { return h & 0x8000 ? -(int)(h & 0x7fff) : (int)h; };
  return ((order(a) < order(b)) == !(a & 0x8000)) ? a + 1 : a - 1;
}
template <class V> DC_INLINE V nextafter_bf16(V a, V b) {
  return map_lanes(a, b, [](float x, float y) {
    return x != x || y != y ? x + y : x == y ? y : from_bf16(next_half(to_bf16(x), to_bf16(y)));
  });
}
template <class V> DC_INLINE V nextafter_f16(V a, V b) {
  return map_lanes(a, b, [](float x, float y) {
    return x != x || y != y ? x + y : x == y ? y : from_f16(next_half(to_f16(x), to_f16(y)));
  });
}

// ---- rounding ---------------------------------------------------------------------------------

// Adding and taking away 2^23 (2^52) rounds to even; larger values are whole already.
template <class V> DC_INLINE V round_even(V x) {
  if constexpr (rounds<V>) return rounded<TO_EVEN>(x);
  elem<V> big = is_double<V> ? (elem<V>)4503599627370496.0 : (elem<V>)8388608.0;
  V a = abs(x), m = V{} + big;
  V r = a + m;  // no -ffast-math: the compiler keeps both additions
  r = r - m;
  return a < big ? copysign(r, x) : x;
}
template <class V> DC_INLINE V floor(V x) {
  if constexpr (rounds<V>) return rounded<DOWN>(x);
  V r = round_even(x);
  return copysign(r > x ? (V)(r - (elem<V>)1) : r, x);
}
template <class V> DC_INLINE V ceil(V x) {
  if constexpr (rounds<V>) return rounded<UP>(x);
  V r = round_even(x);
  return copysign(r < x ? (V)(r + (elem<V>)1) : r, x);
}
template <class V> DC_INLINE V trunc(V x) {
  if constexpr (rounds<V>) return rounded<TOWARDS_ZERO>(x);
  return copysign(floor(abs(x)), x);
}
template <class V> DC_INLINE V round_away(V x) {
  V w = trunc(x);
  V d = abs((V)(x - w));
  return copysign(d >= (elem<V>)0.5 ? (V)(abs(w) + (elem<V>)1) : abs(w), x);
}
template <class V> DC_INLINE auto is_finite(V x) {
  return truth<V>(abs(x) < (elem<V>)__builtin_inf());
}

// ---- comparison -------------------------------------------------------------------------------

#define DC_COMPARE(NAME, OP, BOOLEAN)                                                               \
  template <Number V> DC_INLINE auto NAME(V a, V b) { return truth<V>(a OP b); }                     \
  DC_INLINE bool NAME(bool a, bool b) { return BOOLEAN(a, b); }                                     \
  template <class A, class B> DC_INLINE mask<A> NAME(mask<A> x, mask<B> y) {                        \
    A a = x.m, b = widen_mask<A>(y);                                                                \
    return {BOOLEAN(a, b)};                                                                         \
  }
#define DC_EQ(a, b) (decltype(a))(a == b)
#define DC_NE(a, b) (decltype(a))(a ^ b)
#define DC_LT(a, b) (decltype(a))(b & (a ^ b))
#define DC_GT(a, b) (decltype(a))(a & (a ^ b))
#define DC_LE(a, b) (decltype(a))((a == b) | b)
#define DC_GE(a, b) (decltype(a))((a == b) | a)
DC_COMPARE(eq, ==, DC_EQ)
DC_COMPARE(ne, !=, DC_NE)
DC_COMPARE(lt, <, DC_LT)
DC_COMPARE(le, <=, DC_LE)
DC_COMPARE(gt, >, DC_GT)
DC_COMPARE(ge, >=, DC_GE)
#undef DC_COMPARE

// ---- bits -------------------------------------------------------------------------------------

#define DC_LOGIC(NAME, OP)                                                                          \
  template <Number V> DC_INLINE V NAME(V a, V b) { return a OP b; }                                  \
  template <class A, class B> DC_INLINE mask<A> NAME(mask<A> a, mask<B> b) {                        \
    return {(A)(a.m OP widen_mask<A>(b))};                                                          \
  }
DC_LOGIC(bit_and, &)
DC_LOGIC(bit_or, |)
DC_LOGIC(bit_xor, ^)
#undef DC_LOGIC
template <Number V> DC_INLINE V bit_not(V a) { return ~a; }
DC_INLINE bool bit_not(bool a) { return !a; }
template <class M> DC_INLINE mask<M> bit_not(mask<M> a) { return {~a.m}; }
template <class A, class B> DC_INLINE mask<A> max(mask<A> a, mask<B> b) { return bit_or(a, b); }
template <class A, class B> DC_INLINE mask<A> min(mask<A> a, mask<B> b) { return bit_and(a, b); }

template <class V> DC_INLINE V shift_left(V x, V n) {
  typedef typename lane<V>::uints U;
  constexpr elem<U> width = 8 * sizeof(elem<V>);
  U k = bits_as<U>(n);
  U r = (U)(bits_as<U>(x) << (U)(k & (elem<U>)(width - 1)));
  return k >= width ? V{} : bits_as<V>(r);
}
template <class V> DC_INLINE V shift_right_logical(V x, V n) {
  typedef typename lane<V>::uints U;
  constexpr elem<U> width = 8 * sizeof(elem<V>);
  U k = bits_as<U>(n);
  U r = (U)(bits_as<U>(x) >> (U)(k & (elem<U>)(width - 1)));
  return k >= width ? V{} : bits_as<V>(r);
}
template <class V> DC_INLINE V shift_right_arithmetic(V x, V n) {
  typedef typename lane<V>::uints U;
  typedef typename lane<V>::sints S;
  constexpr elem<U> width = 8 * sizeof(elem<V>);
  U k = bits_as<U>(n), most = U{} + (elem<U>)(width - 1);
  U clipped = k >= width ? most : k;
  return bits_as<V>((S)(bits_as<S>(x) >> bits_as<S>(clipped)));
}
// In lanes: counts of two bits, of four, of eight, and the bytes' sum in the highest.
template <class V> DC_INLINE V population_count(V x) {
  typedef typename lane<V>::uints U;
  typedef elem<U> E;
  if constexpr (is_scalar<V>::value) {
    return (V)__builtin_popcountll((unsigned long long)(U)x);
  } else {
    constexpr int width = 8 * sizeof(E);
    constexpr E all = (E)~(E)0, pairs = all / 3, fours = all / 5, eights = all / 17, ones = all / 255;
    U u = bits_as<U>(x);
    u = u - ((u >> 1) & pairs);
    u = (u & fours) + ((u >> 2) & fours);
    u = (u + (u >> 4)) & eights;
    return bits_as<V>((U)((u * ones) >> (width - 8)));
  }
}
template <class V> DC_INLINE V clz(V x) {
  return map_lanes(x, [](auto a) {
    auto u = (typename ints<sizeof(a)>::u)a;
    constexpr int width = 8 * sizeof(a);
    return (decltype(a))(u ? __builtin_clzll((unsigned long long)u) - (64 - width) : width);
  });
}

// ---- dtypes -----------------------------------------------------------------------------------

template <class I> constexpr I lowest_int = is_signed<I> ? (I)((I)1 << (8 * sizeof(I) - 1)) : (I)0;
template <class I> constexpr I highest_int = (I)~lowest_int<I>;

// Float to integer: truncate, saturate, NaN to 0.
template <class I, class F> DC_INLINE I saturate(F x) {
  constexpr F above = (F)(is_signed<I> ? 1 : 2) * (F)((uint64_t)1 << (8 * sizeof(I) - 1));
  if (x != x) return 0;
  if (x >= above) return highest_int<I>;
  if (x < (F)lowest_int<I>) return lowest_int<I>;
  return (I)x;
}
template <class V> DC_INLINE auto to_int32(V x) {  // the common case, without a branch per lane
  typedef typename lane<V>::template as<int32_t> R;
  typedef typename lane<V>::template as<elem<V>> F;
  auto high = mask<typename lane<F>::sints>{x >= (elem<V>)2147483648.0};
  auto low = mask<typename lane<F>::sints>{x < (elem<V>)-2147483648.0};
  auto nan = mask<typename lane<F>::sints>{x != x};
  F safe = select(bit_or(bit_or(high, low), nan), F{}, x);
  R r = __builtin_convertvector(safe, R);
  r = select(high, (R)(R{} + (int32_t)0x7fffffff), r);
  return select(low, (R)(R{} - (int32_t)0x7fffffff - 1), r);
}

template <class T, class V> DC_INLINE auto to_small_int(V x) {  // 8 or 16 bits, without a branch per lane either
  auto r = to_int32(x);
  typedef decltype(r) R;
  r = select(mask<R>{r > (int32_t)highest_int<T>}, (R)(R{} + (int32_t)highest_int<T>), r);
  r = select(mask<R>{r < (int32_t)lowest_int<T>}, (R)(R{} + (int32_t)lowest_int<T>), r);
  return convert_lanes<T>(r);
}

template <class T, Number V> DC_INLINE auto convert(V x) {
  typedef elem<V> E;
  if constexpr (same_type<T, E>::value) return x;
  else if constexpr (same_type<T, bool>::value) return truth<V>(x != 0);
  else if constexpr (is_float<V> && !is_float<T>) {
    if constexpr (same_type<T, int32_t>::value && !is_scalar<V>::value) return to_int32(x);
    else if constexpr (is_scalar<V>::value) return saturate<T>(x);
    else if constexpr (sizeof(T) < 4) return to_small_int<T>(x);
    else {
      typename lane<V>::template as<T> r;
      for (int l = 0; l < lane<V>::count; ++l) r[l] = saturate<T>(x[l]);
      return r;
    }
  } else if constexpr (is_float<vec<T, 2>> && sizeof(E) < 4 && !is_scalar<V>::value) {
    return convert_lanes<T>(convert_lanes<int32_t>(x));  // g++ goes from bytes to floats lane by lane
  } else return convert_lanes<T>(x);
}
template <class T, class M> DC_INLINE auto convert(mask<M> x) {
  if constexpr (same_type<T, bool>::value) return x;
  else {
    typedef vec<typename ints<sizeof(T)>::s, lane<M>::count> S;
    S m = widen_mask<S>(x) & 1;
    return convert_lanes<T>(m);
  }
}
template <class T> DC_INLINE auto convert(bool x) { return (T)x; }

// The value rounded to a half type, still held as float.
template <class V> DC_INLINE V round_bf16(V x) {
  typedef typename lane<V>::uints U;
  return bits_as<V>((U)(bf16_above(x) & 0xffff0000u));
}
template <class V> DC_INLINE auto round_f16(V x) { return from_f16(to_f16(x)); }

// Same bits, another type of the same width (registers; halves by their stored bits).
template <class T, class V> DC_INLINE auto bitcast(V x) {
  return bits_as<typename lane<V>::template as<T>>(x);
}

// ---- argmax and argmin ------------------------------------------------------------------------

// Does (value, here) beat (best, position)? NaN beats all; among equals the lowest position wins.
// Lanes of bools may come as masks of another width than those that hold the best.
template <class C, class V, class W, class P>
DC_INLINE auto wins(C ahead, C same, V v, P here, W best, P position) {
  auto first = lt(here, position);
  auto tie = bit_and(same, first);
  if constexpr (is_mask<V>::value) {
    return bit_or(ahead, tie);
  } else if constexpr (is_float<V>) {
    auto nan = ne(v, v), had = ne(best, best);
    return bit_or(bit_and(bit_not(had), bit_or(bit_or(ahead, nan), tie)), bit_and(bit_and(had, nan), first));
  } else {
    return bit_or(ahead, tie);
  }
}
template <class V, class W, class P> DC_INLINE auto wins_argmax(V v, P here, W best, P position) {
  return wins(gt(v, best), eq(v, best), v, here, best, position);
}
template <class V, class W, class P> DC_INLINE auto wins_argmin(V v, P here, W best, P position) {
  return wins(lt(v, best), eq(v, best), v, here, best, position);
}
// The position of the best of all lanes: found in halves, or for bools lane after lane.
#define DC_COLLECT(NAME)                                                                            \
  template <Number V, class P> DC_INLINE auto collect_##NAME(V best, P position) {                  \
    if constexpr (is_scalar<V>::value) {                                                            \
      return position;                                                                              \
    } else {                                                                                        \
      const auto b = low_half(best), c = high_half(best);                                           \
      const auto p = low_half(position), q = high_half(position);                                   \
      const auto later = wins_##NAME(c, q, b, p);                                                   \
      return collect_##NAME(select(later, c, b), select(later, q, p));                              \
    }                                                                                               \
  }                                                                                                 \
  template <class M, class P> DC_INLINE auto collect_##NAME(mask<M> best, P position) {             \
    auto b = at(best, 0);                                                                           \
    auto p = at(position, 0);                                                                       \
    for (int l = 1; l < lane<P>::count; ++l)                                                        \
      if (wins_##NAME(at(best, l), at(position, l), b, p)) b = at(best, l), p = at(position, l);    \
    return p;                                                                                       \
  }
DC_COLLECT(argmax) DC_COLLECT(argmin)
#undef DC_COLLECT

// ---- folds ------------------------------------------------------------------------------------

// acc with value folded in; lanes beyond a tail keep acc.
template <Number V, int N> DC_INLINE V keep(V, V next, full<N>) { return next; }
template <Number V, int N> DC_INLINE V keep(V acc, V next, part<N> k) {
  return select(lanes_below<V>(k), next, acc);
}
template <class A, class B, int N> DC_INLINE mask<A> keep(mask<A>, mask<B> next, full<N>) {
  return {widen_mask<A>(next)};
}
template <class A, class B, int N> DC_INLINE mask<A> keep(mask<A> acc, mask<B> next, part<N> k) {
  return select(lanes_below<A>(k), mask<A>{widen_mask<A>(next)}, acc);
}

// All lanes of v folded by f, in halves.
template <Number V, class F> DC_INLINE elem<V> fold_lanes(V v, F f) {
  if constexpr (is_scalar<V>::value) return v;
  else return fold_lanes((half_of<V>)f(low_half(v), high_half(v)), f);
}
// Floats as doubles, a register of them for each half: wider lanes than a register's g++ keeps in memory.
template <class V> struct wide {
  typedef decltype(doubled(low_half(V{}))) half;
  half low, high;
};
template <Number V> DC_INLINE auto widened(V v) {
  if constexpr (is_scalar<V>::value) return (double)v;
  else if constexpr (is_double<V>) return v;
  else return wide<V>{doubled(low_half(v)), doubled(high_half(v))};
}
template <class V> DC_INLINE wide<V> operator+(wide<V> a, wide<V> b) { return {a.low + b.low, a.high + b.high}; }
// Back to T, which is float or double.
template <class T, class V> DC_INLINE auto narrowed(V v) {
  if constexpr (is_scalar<V>::value) return (T)v;
  else return v;
}
template <class T, class V> DC_INLINE V narrowed(wide<V> v) { return joined(floated(v.low), floated(v.high)); }
template <class V> DC_INLINE V in_one(V v) { return v; }  // the sum in one register
template <class V> DC_INLINE auto in_one(wide<V> v) { return v.low + v.high; }

template <class M, class F> DC_INLINE bool fold_lanes(mask<M> v, F f) {
  bool r = v.m[0] != 0;
  for (int l = 1; l < lane<M>::count; ++l) r = f(r, v.m[l] != 0);
  return r;
}

// Inclusive prefix of v by f, log2(N) shuffles; lanes shifted in hold `identity`.
template <int K, class V> DC_INLINE V shift_in(V v, V identity) {
  constexpr int N = lane<V>::count;
  typename lane<V>::sints index;
  for (int l = 0; l < N; ++l) index[l] = (elem<typename lane<V>::sints>)(l < K ? N + l : l - K);
#if defined(__clang__)
  V r;
  for (int l = 0; l < N; ++l) r[l] = l < K ? identity[l] : v[l - K];
  return r;
#else
  return __builtin_shuffle(v, identity, index);
#endif
}
template <int K = 1, class V, class F> DC_INLINE V prefix(V v, V identity, F f) {
  if constexpr (K >= lane<V>::count) return v;
  else return prefix<K * 2>((V)f(shift_in<K>(v, identity), v), identity, f);
}

}  // namespace dynacomp
#include "extremes.h"
