// Vectors for generated kernels: lanes of one scalar type, masks, loads, stores, reductions.
//
// A value in a kernel is a plain scalar (`float`, `bool`, ...) or a register of lanes
// (`vec<float, 16>`, a GCC/Clang vector; booleans are `mask<...>`). Every operation here and in
// ops.h and math.h is one template that serves both, so generated code reads the same inside and
// outside a vector loop.  Memory holds `bf16` and `f16`; registers hold them as `float`.
//
//   lanes tags:  full<N>  all N lanes;  part<N>{n}  the first n lanes (a loop's tail);
//                some<M>{m}  the lanes where the mask m holds
//
// AVX2, AVX-512 and NEON all come from the compiler's vector extensions; only moves.h and registers.h name
// instructions.
#pragma once
#include <stdint.h>

#define DC_INLINE inline __attribute__((always_inline))

namespace dynacomp {

#if defined(__AVX512F__)
#define DC_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define DC_VECTOR_BYTES 32
#else
#define DC_VECTOR_BYTES 16
#endif
constexpr int kVectorBytes = DC_VECTOR_BYTES;

// ---- types ------------------------------------------------------------------------------------

struct bf16 { uint16_t bits; };  // storage only: registers hold float
struct f16 { uint16_t bits; };

template <class T, int N> struct vec_of { typedef T type __attribute__((vector_size(sizeof(T) * N))); };
template <class T> struct vec_of<T, 1> { typedef T type; };
template <class T, int N> using vec = typename vec_of<T, N>::type;

template <int Bytes> struct ints;
template <> struct ints<1> { typedef int8_t s; typedef uint8_t u; };
template <> struct ints<2> { typedef int16_t s; typedef uint16_t u; };
template <> struct ints<4> { typedef int32_t s; typedef uint32_t u; };
template <> struct ints<8> { typedef int64_t s; typedef uint64_t u; };

template <class T> struct is_scalar { static constexpr bool value = false; };
#define DC_SCALAR(T) template <> struct is_scalar<T> { static constexpr bool value = true; };
DC_SCALAR(bool) DC_SCALAR(int8_t) DC_SCALAR(int16_t) DC_SCALAR(int32_t) DC_SCALAR(int64_t)
DC_SCALAR(uint8_t) DC_SCALAR(uint16_t) DC_SCALAR(uint32_t) DC_SCALAR(uint64_t)
DC_SCALAR(float) DC_SCALAR(double)
#undef DC_SCALAR

template <class T> struct bare { typedef T type; };
template <class T> struct bare<T&> { typedef T type; };
template <class T> struct bare<const T> { typedef T type; };
template <class T> struct bare<const T&> { typedef T type; };

template <class A, class B> struct same_type { static constexpr bool value = false; };
template <class A> struct same_type<A, A> { static constexpr bool value = true; };
template <bool C, class A, class B> struct either { typedef A type; };
template <class A, class B> struct either<false, A, B> { typedef B type; };

// lane<V>: the scalar type, the number of lanes, and the vectors of equally wide integers.
template <class V, bool Scalar = is_scalar<V>::value> struct lane {
  typedef typename bare<decltype((*(V*)nullptr)[0])>::type type;
  static constexpr int count = sizeof(V) / sizeof(type);
  typedef vec<typename ints<sizeof(type)>::s, count> sints;
  typedef vec<typename ints<sizeof(type)>::u, count> uints;
  template <class U> using as = vec<U, count>;
};
template <class V> struct lane<V, true> {
  typedef V type;
  static constexpr int count = 1;
  typedef typename ints<sizeof(V)>::s sints;
  typedef typename ints<sizeof(V)>::u uints;
  template <class U> using as = U;
};
template <class V> using elem = typename lane<V>::type;

template <class V> constexpr bool is_float =
    same_type<elem<V>, float>::value || same_type<elem<V>, double>::value;
template <class V> constexpr bool is_signed = elem<V>(-1) < elem<V>(0);
template <class V> constexpr bool is_double = sizeof(elem<V>) == 8;

// What is read in one branch of a choice. Where g++ makes the rows around it lanes once more, it turns such branches
// into masked loads, and g++ 12 gets some of them wrong: rows of three, of which it knows that there are three, were 0.
#define DC_BRANCH(...) ({ asm volatile(""); __VA_ARGS__; })

}  // namespace dynacomp
#include "registers.h"
namespace dynacomp {

// ---- lanes tags -------------------------------------------------------------------------------

template <int N> struct full {
  static constexpr int lanes = N;
  DC_INLINE constexpr int count() const { return N; }
};
template <int N> struct part {
  static constexpr int lanes = N;
  int n;
  DC_INLINE int count() const { return n; }
};
template <class M> struct some {
  static constexpr int lanes = lane<M>::count;
  M m;
};
typedef full<1> one;

// ---- masks ------------------------------------------------------------------------------------

// A vector of booleans: M is a vector of signed integers, each lane 0 or -1.
template <class M> struct mask { M m; };
template <class T> struct is_mask { static constexpr bool value = false; };
template <class M> struct is_mask<mask<M>> { static constexpr bool value = true; };
template <class V, bool Most> struct extreme;  // a fold in flight, see extremes.h
template <class T> struct is_fold { static constexpr bool value = false; };
template <class V, bool Most> struct is_fold<extreme<V, Most>> { static constexpr bool value = true; };
template <class V> concept Number = !is_mask<V>::value && !is_fold<V>::value;  // scalars and lanes, bool included

template <class V> DC_INLINE V splat_raw(elem<V> x) {
  if constexpr (is_scalar<V>::value) return x;
  else return V{} + x;
}
template <class T, int N> DC_INLINE vec<T, N> splat(T x) {
  if constexpr (N == 1) {
    return x;
  } else {
    return x - vec<T, N>{};  // not a sum: -0.0 stays what it is
  }
}
template <int S, int N> DC_INLINE auto splat_bool(bool x) {
  typedef vec<typename ints<S>::s, N> M;
  return mask<M>{M{} - (typename ints<S>::s)x};
}

// The mask as signed integers as wide as the lanes of V.
template <class V, class M> DC_INLINE typename lane<V>::sints widen_mask(mask<M> c) {
  typedef typename lane<V>::sints R;
  if constexpr (sizeof(elem<M>) == sizeof(elem<R>)) return (R)c.m;
  else return __builtin_convertvector(c.m, R);
}

template <class V> DC_INLINE V select(bool c, V a, V b) { return c ? a : b; }
template <class M, Number V> DC_INLINE V select(mask<M> c, V a, V b) {
  return widen_mask<V>(c) ? a : b;
}
template <class M, class A, class B> DC_INLINE auto select(mask<M> c, mask<A> a, mask<B> b) {
  return mask<M>{(c.m & widen_mask<M>(a)) | (~c.m & widen_mask<M>(b))};
}

DC_INLINE bool at(bool b, int) { return b; }
template <class M> DC_INLINE bool at(mask<M> c, int l) { return c.m[l] != 0; }
template <class V> DC_INLINE auto at(V v, int l) {
  if constexpr (is_scalar<V>::value) return v;
  else return v[l];
}

template <class M> DC_INLINE bool any_lane(mask<M> c) { return any_bit(c.m); }
DC_INLINE bool any_lane(bool c) { return c; }

template <class V, class E> DC_INLINE void put_lane(V& v, int l, E x) { v[l] = x; }
template <class M> DC_INLINE void put_lane(mask<M>& v, int l, bool x) { v.m[l] = -(elem<M>)x; }
template <class R, class V> DC_INLINE R same_lanes(V v) { return v; }
template <class R, class M> DC_INLINE R same_lanes(mask<M> v) {
  typedef decltype(R{}.m) W;
  return R{widen_mask<W>(v)};
}

// 0, 1, 2, ...: as constants, for a loop over lanes is compiled lane by lane.
template <class T> inline constexpr T counting[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

// The first `count` lanes, as a raw mask for vectors V.
template <class V, class L> DC_INLINE auto lanes_below(L lanes) {
  typedef typename lane<V>::sints M;
  M index;
  __builtin_memcpy(&index, counting<elem<M>>, sizeof(M));
  return mask<M>{index < splat<elem<M>, lane<V>::count>((elem<M>)lanes.count())};
}

// ---- halves -----------------------------------------------------------------------------------

template <class To, class From> DC_INLINE To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "bits_as keeps the width");
  if constexpr (is_scalar<From>::value || is_scalar<To>::value) return __builtin_bit_cast(To, x);
  else return (To)x;
}
#if defined(__AVX2__) && !defined(__clang__)
// Eight numbers of a byte or two as wide as an int, in one instruction each, which g++ does not find.
typedef char sixteen_bytes __attribute__((vector_size(16)));
typedef short eight_shorts __attribute__((vector_size(16)));
template <class To, class V> constexpr bool widens_by_eight =
    lane<V>::count == 8 && !is_float<V> && sizeof(elem<V>) < 4 && sizeof(To) == 4 && !is_float<vec<To, 8>>;
template <class V> DC_INLINE auto eight_ints(V x) {
  if constexpr (sizeof(x) == 8) {
    const vec<uint64_t, 2> low = {bits_as<uint64_t>(x), 0};
    if constexpr (is_signed<V>) return __builtin_ia32_pmovsxbd256((sixteen_bytes)low);
    else return __builtin_ia32_pmovzxbd256((sixteen_bytes)low);
  } else {
    if constexpr (is_signed<V>) return __builtin_ia32_pmovsxwd256((eight_shorts)x);
    else return __builtin_ia32_pmovzxwd256((eight_shorts)x);
  }
}
#else
template <class To, class V> constexpr bool widens_by_eight = false;
template <class V> V eight_ints(V x);
#endif

// Whole numbers double or halve their width step by step: more at once g++ does lane by lane.
template <class To, class V> DC_INLINE auto convert_lanes(V x) {
  typedef typename lane<V>::template as<To> R;
  constexpr int from = sizeof(elem<V>), to = sizeof(To);
  if constexpr (is_scalar<V>::value) return (R)x;
  else if constexpr (widens_by_eight<To, V>) return (R)eight_ints(x);
  else if constexpr (!is_float<V> && !is_float<R> && (to > 2 * from || from > 2 * to)) {
    typedef ints<(to > from ? 2 * from : from / 2)> I;
    typedef typename either<is_signed<V>, typename I::s, typename I::u>::type step;
    return convert_lanes<To>(__builtin_convertvector(x, typename lane<V>::template as<step>));
  } else return __builtin_convertvector(x, R);
}

// float (any value) to the nearest bfloat16, ties to even, in the high half of 32 bits (the low half is rubbish); NaN
// stays a quiet NaN with its sign.
template <class V> DC_INLINE auto bf16_above(V x) {
  typedef typename lane<V>::uints U;
  U b = bits_as<U>(x);
  return (U)(x != x ? (U)(b | 0x400000u) : (U)(b + 0x7fffu + ((b >> 16) & 1u)));
}
template <class V> DC_INLINE auto to_bf16(V x) {
  typedef typename lane<V>::uints U;
  return convert_lanes<uint16_t>((U)(bf16_above(x) >> 16));
}
template <class V> DC_INLINE auto from_bf16(V h) {
  auto b = convert_lanes<uint32_t>(h);
  return bits_as<typename lane<V>::template as<float>>((decltype(b))(b << 16));
}

#ifdef __F16C__
// Eight floats to IEEE halves and back, or more, in one instruction each.
template <class V> constexpr bool by_eight = lane<V>::count % 8 == 0;
#ifdef __clang__
template <class V> DC_INLINE auto halves_of(V x) {
  constexpr int N = lane<V>::count;
  return (vec<uint16_t, N>)__builtin_convertvector(x, vec<_Float16, N>);
}
template <class V> DC_INLINE auto floats_of(V h) {
  constexpr int N = lane<V>::count;
  return __builtin_convertvector((vec<_Float16, N>)h, vec<float, N>);
}
#else
typedef short eight_halves __attribute__((vector_size(16)));
template <class V> DC_INLINE vec<uint16_t, lane<V>::count> halves_of(V x) {
  constexpr int N = lane<V>::count;
  if constexpr (N == 8) {
    return (vec<uint16_t, 8>)__builtin_ia32_vcvtps2ph256(x, 0);
#ifdef __AVX512F__
  } else if constexpr (N == 16) {
    typedef short sixteen __attribute__((vector_size(32)));
    return (vec<uint16_t, 16>)__builtin_ia32_vcvtps2ph512_mask(x, 0, sixteen{}, (uint16_t)-1);
#endif
  } else {
    return joined(halves_of(low_half(x)), halves_of(high_half(x)));
  }
}
template <class V> DC_INLINE vec<float, lane<V>::count> floats_of(V h) {
  constexpr int N = lane<V>::count;
  if constexpr (N == 8) {
    return __builtin_ia32_vcvtph2ps256((eight_halves)h);
#ifdef __AVX512F__
  } else if constexpr (N == 16) {
    typedef short sixteen __attribute__((vector_size(32)));
    return __builtin_ia32_vcvtph2ps512_mask((sixteen)h, vec<float, 16>{}, (uint16_t)-1, 4);
#endif
  } else {
    return joined(floats_of(low_half(h)), floats_of(high_half(h)));
  }
}
#endif
#else
template <class V> constexpr bool by_eight = false;
template <class V> V halves_of(V x);
template <class V> V floats_of(V x);
#endif

// float to the nearest IEEE half, ties to even: the subnormal range by adding a magic number.
template <class V> DC_INLINE auto to_f16_by_bits(V x) {
  typedef typename lane<V>::uints U;
  U b = bits_as<U>(x);
  U sign = (b >> 16) & 0x8000u;
  U a = b & 0x7fffffffu;
  V magic = V{} + 0.5f;
  U small = bits_as<U>((V)(bits_as<V>(a) + magic)) - 0x3f000000u;
  U normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  U nan = (((b >> 13) & 0x3ffu) | 0x7e00u);
  U big = (a > 0x7f800000u ? nan : (U)(U{} + 0x7c00u));
  U r = a >= 0x47800000u ? big : (a < 0x38800000u ? small : normal);
  return convert_lanes<uint16_t>((U)(r | sign));
}
template <class V> DC_INLINE auto from_f16_by_bits(V h) {
  auto w = convert_lanes<uint32_t>(h);
  typedef decltype(w) U;
  typedef typename lane<V>::template as<float> F;
  U sign = (w & 0x8000u) << 16;
  U a = w & 0x7fffu;
  U normal = (a << 13) + 0x38000000u;
  U special = (a << 13) + 0x70000000u;
  F small = convert_lanes<float>(a) * 5.9604644775390625e-08f;  // 2^-24
  U r = a >= 0x7c00u ? special : (a < 0x400u ? bits_as<U>(small) : normal);
  return bits_as<F>((U)(r | sign));
}
template <class V> DC_INLINE auto to_f16(V x) {
  if constexpr (by_eight<V>) return halves_of(x);
  else return to_f16_by_bits(x);
}
template <class V> DC_INLINE auto from_f16(V h) {
  if constexpr (by_eight<V>) return floats_of(h);
  else return from_f16_by_bits(h);
}

// ---- memory -----------------------------------------------------------------------------------

}  // namespace dynacomp
#include "moves.h"
namespace dynacomp {

template <int N, class T> DC_INLINE vec<T, N> read_lanes(const T* p, full<N>) {
  vec<T, N> r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
template <int N, class T> DC_INLINE vec<T, N> read_lanes(const T* p, part<N> k) {
  return read_some<N>(p, lanes_below<vec<T, N>>(k).m);
}
template <class M, class T> DC_INLINE auto read_lanes(const T* p, some<M> k) {
  constexpr int N = some<M>::lanes;
  return read_some<N>(p, widen_mask<vec<T, N>>(mask<M>{k.m}));
}
template <int N, class V, class T> DC_INLINE void write_lanes(T* p, V v, full<N>) {
  __builtin_memcpy(p, &v, sizeof(v));
}
template <int N, class V, class T> DC_INLINE void write_lanes(T* p, V v, part<N> k) {
  write_some<N>(p, v, lanes_below<vec<T, N>>(k).m);
}
template <class M, class V, class T> DC_INLINE void write_lanes(T* p, V v, some<M> k) {
  constexpr int N = some<M>::lanes;
  write_some<N>(p, v, widen_mask<vec<T, N>>(mask<M>{k.m}));
}

// What a value of stored type T is in a register, and back. bool is a byte, 0 or 1.
DC_INLINE float from_memory(bf16 x) { return from_bf16(x.bits); }
DC_INLINE float from_memory(f16 x) { return from_f16(x.bits); }
template <class T> DC_INLINE T from_memory(T x) { return x; }

template <class T> struct memory;  // how T is loaded and stored in lanes
template <class T> struct memory {
  template <class L> static DC_INLINE auto load(const T* p, L k) { return read_lanes(p, k); }
  template <class V, class L> static DC_INLINE void store(T* p, V v, L k) { write_lanes(p, v, k); }
  static DC_INLINE void put(T* p, T v) { *p = v; }
  static DC_INLINE T get(const T* p) { return *p; }
  template <int N> using reg = vec<T, N>;
};
template <> struct memory<bool> {
  template <class L> static DC_INLINE auto load(const bool* p, L k) {
    auto bytes = read_lanes((const int8_t*)p, k);
    return mask<decltype(bytes)>{bytes != 0};
  }
  template <class M, class L> static DC_INLINE void store(bool* p, mask<M> v, L k) {
    typedef vec<int8_t, L::lanes> B;
    write_lanes((int8_t*)p, (B)(widen_mask<B>(v) & 1), k);
  }
  static DC_INLINE void put(bool* p, bool v) { *p = v; }
  static DC_INLINE bool get(const bool* p) { return *(const int8_t*)p != 0; }
};
template <> struct memory<bf16> {
  template <class L> static DC_INLINE auto load(const bf16* p, L k) {
    return from_bf16(read_lanes((const uint16_t*)p, k));
  }
  template <class V, class L> static DC_INLINE void store(bf16* p, V v, L k) {
    write_lanes((uint16_t*)p, to_bf16(v), k);
  }
  static DC_INLINE void put(bf16* p, float v) { p->bits = to_bf16(v); }
  static DC_INLINE float get(const bf16* p) { return from_bf16(p->bits); }
};
template <> struct memory<f16> {
  template <class L> static DC_INLINE auto load(const f16* p, L k) {
    return from_f16(read_lanes((const uint16_t*)p, k));
  }
  template <class V, class L> static DC_INLINE void store(f16* p, V v, L k) {
    write_lanes((uint16_t*)p, to_f16(v), k);
  }
  static DC_INLINE void put(f16* p, float v) { p->bits = to_f16(v); }
  static DC_INLINE float get(const f16* p) { return from_f16(p->bits); }
};

template <class T> DC_INLINE auto load(const T* p) { return memory<T>::get(p); }
template <class T, class V> DC_INLINE void store(T* p, V v) { memory<T>::put(p, v); }

// Contiguous lanes at p.
template <class T, class L> DC_INLINE auto load(const T* p, L k) { return memory<T>::load(p, k); }
template <class T, class V, class L> DC_INLINE void store(T* p, V v, L k) { memory<T>::store(p, v, k); }

// Lanes at p[index(l)]; lanes beyond the tail, and those that `active(l)` excludes, are not touched.
template <class T, class L, class F> DC_INLINE auto gather(const T* p, L k, F index) {
  typedef decltype(load(p)) R;
  if constexpr (same_type<R, bool>::value) {
    vec<int8_t, L::lanes> r{};
    for (int l = 0; l < k.count(); ++l) r[l] = -(int8_t)load(p + index(l));
    return mask<decltype(r)>{r};
  } else {
    vec<R, L::lanes> r{};
    for (int l = 0; l < k.count(); ++l) r[l] = load(p + index(l));
    return r;
  }
}
template <class T, class V, class L, class F> DC_INLINE void scatter(T* p, V v, L k, F index) {
  for (int l = 0; l < k.count(); ++l) store(p + index(l), at(v, l));
}

template <class M> DC_INLINE bool all_lanes(mask<M> c) { return !any_lane(mask<M>{~c.m}); }
DC_INLINE bool all_lanes(bool c) { return c; }

// Lanes where the mask holds; elsewhere `other`, and memory is not touched.
template <class T, class L, class C, class F, class V>
DC_INLINE V masked_gather(const T* p, L k, C c, F index, V other) {
  V r = other;
  for (int l = 0; l < k.count(); ++l)
    if (at(c, l)) put_lane(r, l, load(p + index(l)));
  return r;
}
template <class M, int N> DC_INLINE some<M> chosen(mask<M> c, full<N>) { return {c.m}; }
template <class M, int N> DC_INLINE some<M> chosen(mask<M> c, part<N> k) { return {c.m & lanes_below<M>(k).m}; }
template <class T, class L, class C, class V> DC_INLINE V masked_load(const T* p, L k, C c, V other) {
  if constexpr (same_type<C, bool>::value) {
    return c ? same_lanes<V>(load(p, k)) : other;
  } else {
    // Where nothing is wanted of a page that is not there, the machine takes long to find out.
    if (__builtin_expect(!any_lane(c), 0)) return other;
    if constexpr (mover_bytes<T, L::lanes>() == 0) {  // lane by lane: most masks are all or nothing
      if constexpr (same_type<L, full<L::lanes>>::value)
        if (all_lanes(c)) return same_lanes<V>(load(p, k));
    }
    return same_lanes<V>(select(c, same_lanes<V>(load(p, chosen(c, k))), other));
  }
}
template <class T, class V, class L, class M> DC_INLINE void masked_store(T* p, V v, L k, mask<M> c) {
  store(p, v, chosen(c, k));
}
template <class T, class V, class L, class C, class F>
DC_INLINE void masked_scatter(T* p, V v, L k, C c, F index) {
  for (int l = 0; l < k.count(); ++l)
    if (at(c, l)) store(p + index(l), at(v, l));
}
// p[index(l)] = op(p[index(l)], v[l]) lane after lane, so that lanes may meet.
template <class T, class V, class L, class C, class F, class O>
DC_INLINE void update(T* p, V v, L k, C c, F index, O op) {
  for (int l = 0; l < k.count(); ++l)
    if (at(c, l)) store(p + index(l), op(load(p + index(l)), at(v, l)));
}

template <int K> struct slot { static constexpr int value = K; };  // which accumulator of an unrolled loop

}  // namespace dynacomp
#include "gathers.h"
#include "strides.h"
namespace dynacomp {

// One value per lane from a function of the lane's number.
template <class T, class L, class F> DC_INLINE vec<T, L::lanes> per_lane(L, F value) {
  vec<T, L::lanes> r{};
  for (int l = 0; l < L::lanes; ++l) r[l] = value(l);
  return r;
}

// The same of a function that only rises, or only falls, and seldom does: asked at the first and the last lane.
template <class T, class L, class F> DC_INLINE vec<T, L::lanes> steady_lanes(L lanes, F value) {
  const T first = value(0);
  return value(L::lanes - 1) == first ? splat<T, L::lanes>(first) : per_lane<T>(lanes, value);
}

// base + l * step in lane l, wrapping to T.
template <class T, class L> DC_INLINE vec<T, L::lanes> affine_lanes(L, int64_t base, int64_t step) {
  typedef typename ints<sizeof(T)>::u U;
  vec<U, L::lanes> r;
  __builtin_memcpy(&r, counting<U>, sizeof(r));
  return (vec<T, L::lanes>)(r * (U)step + (U)base);
}

// Rows of N elements become columns: halves interleaved with each other, as often as halving N takes.
template <int Half, int N, class V, int... l> DC_INLINE V interleaved(V a, V b, numbers<l...>) {
  return __builtin_shufflevector(a, b, (Half * N / 2 + l / 2 + l % 2 * N)...);
}
template <int N, int Rest, class V> DC_INLINE void transpose_rows(V (&rows)[N]) {
  if constexpr (Rest > 1) {
    constexpr typename numbers_below<N>::type lanes;
    V next[N];
#pragma GCC unroll 16
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = interleaved<0, N>(rows[i], rows[i + N / 2], lanes);
      next[2 * i + 1] = interleaved<1, N>(rows[i], rows[i + N / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) rows[i] = next[i];
    transpose_rows<N, Rest / 2>(rows);
  }
}

// tile[k * Inner + j] = p[j * stride + k]: `rows` runs along memory, `columns` across it. Squares are turned in
// registers of 16 bytes, which every machine interleaves in one instruction.
template <int Outer, int Inner, class T>
inline void fill_tile(T* tile, const T* p, int64_t stride, int64_t rows, int64_t columns) {
  constexpr int N = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
  int64_t j = 0;
  if constexpr (N > 1 && Outer % N == 0) {
    typedef vec<typename ints<sizeof(T)>::u, N> V;
    for (; j + N <= columns; j += N) {
      int64_t k = 0;
      for (; k + N <= rows; k += N) {
        V square[N];
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) __builtin_memcpy(&square[i], p + (j + i) * stride + k, sizeof(V));
        transpose_rows<N, N>(square);
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) __builtin_memcpy(tile + (k + i) * Inner + j, &square[i], sizeof(V));
      }
      for (; k < rows; ++k)
        for (int i = 0; i < N; ++i) tile[k * Inner + j + i] = p[(j + i) * stride + k];
    }
  }
  for (; j < columns; ++j)
    for (int64_t k = 0; k < rows; ++k) tile[k * Inner + j] = p[j * stride + k];
}

// ---- loops ------------------------------------------------------------------------------------

// The lanes for a loop of E elements of B bytes: those of the narrowest register that holds them all. A narrow one
// that is full needs no mask, whose loads wait for what was stored before.
constexpr int narrowest(int bytes, int64_t elements) {
  int lanes = kVectorBytes / bytes;
  while (lanes / 2 >= elements && lanes * bytes > 16) lanes /= 2;
  return lanes;
}
template <int B, int64_t E> constexpr int lanes_for = narrowest(B, E);

// body(i, lanes) over [begin, end): whole vectors, then one tail.
template <int N, class F> DC_INLINE void vector_loop(int64_t begin, int64_t end, F&& body) {
  int64_t i = begin;
  for (; i + N <= end; i += N) body(i, full<N>{});
  if (i < end) body(i, part<N>{(int)(end - i)});
}

// body(i, lanes, slot) over [begin, end) with U accumulators in flight.
template <int N, int U, class F> DC_INLINE void reduce_loop(int64_t begin, int64_t end, F&& body) {
  int64_t i = begin;
  if constexpr (U == 4)
    for (; i + 4 * N <= end; i += 4 * N) {
      body(i, full<N>{}, slot<0>{});
      body(i + N, full<N>{}, slot<1>{});
      body(i + 2 * N, full<N>{}, slot<2>{});
      body(i + 3 * N, full<N>{}, slot<3>{});
    }
  for (; i + N <= end; i += N) body(i, full<N>{}, slot<0>{});
  if (i < end) body(i, part<N>{(int)(end - i)}, slot<0>{});
}

// The end of a loop from 0 that is known when the code is compiled: the body is compiled for those
// registers only, whole ones or a tail, that such a loop has.
template <int64_t E> struct upto {};

template <int N, int64_t E, class F> DC_INLINE void vector_loop(upto<E>, F&& body) {
  constexpr int64_t whole = E / N * N;
  if constexpr (whole > 0)
    for (int64_t i = 0; i < whole; i += N) body(i, full<N>{});
  if constexpr (whole < E) body(whole, part<N>{(int)(E - whole)});
}

template <int N, int U, int64_t E, class F> DC_INLINE void reduce_loop(upto<E>, F&& body) {
  constexpr int64_t whole = E / N * N, steps = U == 4 ? E / (4 * N) * (4 * N) : 0;
  if constexpr (steps > 0)
    for (int64_t i = 0; i < steps; i += 4 * N) {
      body(i, full<N>{}, slot<0>{});
      body(i + N, full<N>{}, slot<1>{});
      body(i + 2 * N, full<N>{}, slot<2>{});
      body(i + 3 * N, full<N>{}, slot<3>{});
    }
  if constexpr (steps < whole)
    for (int64_t i = steps; i < whole; i += N) body(i, full<N>{}, slot<0>{});
  if constexpr (whole < E) body(whole, part<N>{(int)(E - whole)}, slot<0>{});
}

}  // namespace dynacomp
