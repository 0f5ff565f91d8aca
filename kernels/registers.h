// What a whole register can do that compilers do not find in the vector extensions.
//
//   low_half(v), high_half(v), joined(a, b)   halves, without a way through memory (a load of what two stores
//                                             wrote waits until both have left for the cache)
//   any_bit(m)                                whether any lane of an integer vector differs from 0
//   rounded<R>(v)                             to whole numbers, where `rounds<V>`: one instruction
//   in_register(v)                            v, which is not read from memory again where it is used several times
//   doubled(v), floated(d)                    half a register of floats, as a register of doubles, and back
#pragma once

namespace dynacomp {

// ---- halves -----------------------------------------------------------------------------------

template <int... l> struct numbers {};
template <int N, int... l> struct numbers_below : numbers_below<N - 1, N - 1, l...> {};
template <int... l> struct numbers_below<0, l...> { typedef numbers<l...> type; };

template <class V> using half_of = vec<elem<V>, lane<V>::count / 2>;

template <int From, class V, int... l> DC_INLINE auto lanes_from(V v, numbers<l...>) {
  if constexpr (sizeof...(l) == 1) return v[From];
  else return __builtin_shufflevector(v, v, (From + l)...);
}
template <class V> DC_INLINE auto low_half(V v) {
  return lanes_from<0>(v, typename numbers_below<lane<V>::count / 2>::type{});
}
template <class V> DC_INLINE auto high_half(V v) {
  return lanes_from<lane<V>::count / 2>(v, typename numbers_below<lane<V>::count / 2>::type{});
}
template <class H, int... l> DC_INLINE auto joined_lanes(H a, H b, numbers<l...>) {
  if constexpr (sizeof...(l) == 2) return vec<H, 2>{a, b};
  else return __builtin_shufflevector(a, b, l...);
}
template <class H> DC_INLINE auto joined(H a, H b) {
  return joined_lanes(a, b, typename numbers_below<lane<H>::count * 2>::type{});
}

// ---- questions --------------------------------------------------------------------------------

template <class M> DC_INLINE bool any_bit(M m) {
  if constexpr (sizeof(M) < 8) {
    bool r = false;
    for (int l = 0; l < lane<M>::count; ++l) r |= m[l] != 0;
    return r;
  } else if constexpr (sizeof(M) == 8) {
    return ((vec<int64_t, 1>)m) != 0;
#ifdef __AVX__
  } else if constexpr (sizeof(M) == 32) {
    return !__builtin_ia32_ptestz256((vec<long long, 4>)m, (vec<long long, 4>)m);
#endif
  } else if constexpr (sizeof(M) == 16) {
    const auto words = (vec<int64_t, 2>)m;
    return (words[0] | words[1]) != 0;
  } else {
    const auto words = (vec<int64_t, sizeof(M) / 8>)m;
    return any_bit(low_half(words) | high_half(words));
  }
}

template <class V> DC_INLINE V in_register(V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) >= 16 && sizeof(V) <= 64) asm("" : "+v"(v));
#elif defined(__AVX2__)
  if constexpr (sizeof(V) >= 16 && sizeof(V) <= 32) asm("" : "+x"(v));
#elif defined(__aarch64__)
  if constexpr (sizeof(V) == 16) asm("" : "+w"(v));
#endif
  return v;
}

// ---- rounding ---------------------------------------------------------------------------------

enum rounding { TO_EVEN = 8, DOWN = 9, UP = 10, TOWARDS_ZERO = 11 };  // as the instructions number them, no exceptions

template <class V> struct rounder { static constexpr bool exists = false; };
#define DC_ROUNDER(T, N, CALL)                                                                       \
  template <> struct rounder<vec<T, N>> {                                                            \
    static constexpr bool exists = true;                                                             \
    template <int R> static DC_INLINE vec<T, N> round(vec<T, N> v) { return CALL; }                  \
  };
#ifdef __AVX512F__
DC_ROUNDER(float, 16, __builtin_ia32_rndscaleps_mask(v, R, v, (uint16_t)-1, 4))
DC_ROUNDER(double, 8, __builtin_ia32_rndscalepd_mask(v, R, v, (uint8_t)-1, 4))
#endif
#ifdef __AVX__
DC_ROUNDER(float, 8, __builtin_ia32_roundps256(v, R))
DC_ROUNDER(double, 4, __builtin_ia32_roundpd256(v, R))
#endif
#ifdef __SSE4_1__
DC_ROUNDER(float, 4, __builtin_ia32_roundps(v, R))
DC_ROUNDER(double, 2, __builtin_ia32_roundpd(v, R))
#endif
#undef DC_ROUNDER
template <class V> constexpr bool rounds = rounder<V>::exists;
template <int R, class V> DC_INLINE V rounded(V v) { return rounder<V>::template round<R>(v); }

// ---- floats and doubles -----------------------------------------------------------------------

template <class H> DC_INLINE auto doubled(H v) {
#ifdef __AVX512F__
  if constexpr (lane<H>::count == 8) return __builtin_ia32_cvtps2pd512_mask(v, vec<double, 8>{}, (uint8_t)-1, 4);
  else
#endif
    return __builtin_convertvector(v, vec<double, lane<H>::count>);
}
template <class D> DC_INLINE auto floated(D v) { return __builtin_convertvector(v, vec<float, lane<D>::count>); }

}  // namespace dynacomp
