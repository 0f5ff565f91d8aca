// Vectors, and how floats of 16 bits lie in memory: what every template reads and writes elements with.
//
//   Vector<T>, lanes<T>                  one register of the widest kind, at any address
//   widen<T>(x), narrow<S>(x)            one element as the type that we compute in, and back (to nearest even)
//   wide_lanes<T>(p)                     a register of elements, widened
//   widen_run(from, n, to), narrow_run   contiguous elements
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "calls.h"

namespace dynacomp::tile {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int lanes = vector_bytes / int(sizeof(T));

// Storage types of the narrow floats; `widen` reads any element as the type that we compute in.
struct bfloat16 {
    uint16_t bits;
};
#if defined(__aarch64__)
struct float16 {
    __fp16 value;
};
#else
struct float16 {
    _Float16 value;
};
#endif

template <class T, class S>
inline T widen(S x) {
    return T(x);
}
template <class T>
inline T widen(bfloat16 x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return T(f);
}
template <class T>
inline T widen(float16 x) {
    return T(x.value);
}

// The inverse of widen, rounding to nearest even.
template <class S, class T>
inline S narrow(T x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        float f = float(x);
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        return bfloat16{uint16_t(f != f ? 0x7fc0 | (bits >> 16 & 0x8000) : rounded)};
    } else if constexpr (std::is_same_v<S, float16>) {
        return float16{decltype(float16::value)(x)};
    } else {
        return S(x);
    }
}

template <class T, class S>
constexpr bool widens = std::is_same_v<T, float> && (std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>);

template <class T, class U>
struct HalfOf {  // as many elements of another type as a Vector<T> has
    typedef U type __attribute__((vector_size(lanes<T> * sizeof(U)), aligned(sizeof(U)), may_alias));
};

// Where conversions of whole registers are one instruction that compilers do not find (for aarch64 they do).
#if defined(__F16C__) && !defined(__clang__)
typedef short Halves __attribute__((vector_size(lanes<float> * 2), aligned(2), may_alias));
#ifdef __AVX512F__
inline Vector<float> floats_of(Halves h) {
    return __builtin_ia32_vcvtph2ps512_mask(h, Vector<float>{}, (uint16_t)-1, 4);
}
inline Halves halves_of(Vector<float> x) {
    return (Halves)__builtin_ia32_vcvtps2ph512_mask(x, 0, Halves{}, (uint16_t)-1);
}
#else
inline Vector<float> floats_of(Halves h) { return __builtin_ia32_vcvtph2ps256(h); }
inline Halves halves_of(Vector<float> x) { return (Halves)__builtin_ia32_vcvtps2ph256(x, 0); }
#endif
#elif defined(__F16C__)
typedef HalfOf<float, decltype(float16::value)>::type Halves;
inline Vector<float> floats_of(Halves h) { return __builtin_convertvector(h, Vector<float>); }
inline Halves halves_of(Vector<float> x) { return __builtin_convertvector(x, Halves); }
#else
#define DC_HALVES_ONE_BY_ONE
#endif

// 16 bits in the low half of 32: one instruction too, which g++ does not find for half a register.
inline HalfOf<float, uint32_t>::type extended(HalfOf<float, uint16_t>::type h) {
    typedef HalfOf<float, uint32_t>::type Bits;
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__clang__)
    typedef short Eight __attribute__((vector_size(16)));
    return (Bits)__builtin_ia32_pmovzxwd256((Eight)h);
#else
    return __builtin_convertvector(h, Bits);
#endif
}

template <class T, class S>
inline Vector<T> wide_lanes(const S* p) {
    if constexpr (std::is_same_v<T, S>) {
        return *(const Vector<T>*)p;
    } else if constexpr (std::is_same_v<T, float> && std::is_same_v<S, bfloat16>) {
        return (Vector<T>)(extended(*(const typename HalfOf<T, uint16_t>::type*)p) << 16);
#ifndef DC_HALVES_ONE_BY_ONE
    } else if constexpr (std::is_same_v<T, float> && std::is_same_v<S, float16>) {
        return floats_of(*(const Halves*)p);
#endif
    } else {
        Vector<T> x;
        for (int l = 0; l < lanes<T>; l++) x[l] = widen<T>(p[l]);
        return x;
    }
}

template <class T, class S>
inline void widen_run(const S* from, int64_t n, T* to) {
    int64_t i = 0;
    if constexpr (widens<T, S>)
        for (; i + lanes<T> <= n; i += lanes<T>) *(Vector<T>*)(to + i) = wide_lanes<T>(from + i);
    for (; i < n; i++) to[i] = widen<T>(from[i]);
}

template <class T, class S>
inline void narrow_run(const T* from, int64_t n, S* to) {
    int64_t i = 0;
#ifndef DC_HALVES_ONE_BY_ONE
    if constexpr (std::is_same_v<T, float> && std::is_same_v<S, float16>)
        for (; i + lanes<T> <= n; i += lanes<T>) *(Halves*)(to + i) = halves_of(*(const Vector<T>*)(from + i));
#endif
    for (; i < n; i++) to[i] = narrow<S>(from[i]);
}

}  // namespace dynacomp::tile
