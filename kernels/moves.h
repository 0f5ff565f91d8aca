// Loads and stores of some lanes of a vector: memory of the other lanes is not touched.
//
//   read_some<N>(p, m)      p[l] where lane l of the mask m holds, 0 elsewhere
//   write_some<N>(p, v, m)  v[l] to p[l] where lane l of m holds
//
// m has integer lanes, 0 or -1, as wide as the elements.  AVX-512 (and AVX2, for elements of 4 and 8
// bytes) moves a register under a mask in one instruction; elsewhere lanes move one by one.  The
// compilers' built-in functions are named here, since <immintrin.h> would double the time that a
// small kernel takes to compile; g++ and clang call them the same, and differ in the pointers they take.
#pragma once
#include <stdint.h>

namespace dynacomp {

// mover<W, B>: W bytes of elements of B bytes in one instruction, where `exists`.
template <int W, int B> struct mover { static constexpr bool exists = false; };

struct place {  // an address as whatever pointer a built-in function wants
  const void* p;
  template <class U> DC_INLINE operator U*() const { return (U*)p; }
};

#define DC_MOVER(W, B, ELEMENT, BITS, COLLECT, LOAD, STORE)                                         \
  template <> struct mover<W, B> {                                                                  \
    static constexpr bool exists = true;                                                            \
    typedef ELEMENT reg __attribute__((vector_size(W)));                                            \
    static DC_INLINE reg read(const void* p, reg m) {                                               \
      return LOAD(place{p}, reg{}, (BITS)COLLECT(m));                                               \
    }                                                                                               \
    static DC_INLINE void write(void* p, reg v, reg m) {                                            \
      STORE(place{p}, v, (BITS)COLLECT(m));                                                         \
    }                                                                                               \
  };
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define DC_MOVERS(W, SUFFIX)                                                                         \
  DC_MOVER(W, 1, char, uint##SUFFIX##_bytes, __builtin_ia32_cvtb2mask##SUFFIX,                       \
           __builtin_ia32_loaddquqi##SUFFIX##_mask, __builtin_ia32_storedquqi##SUFFIX##_mask)        \
  DC_MOVER(W, 2, short, uint##SUFFIX##_halves, __builtin_ia32_cvtw2mask##SUFFIX,                     \
           __builtin_ia32_loaddquhi##SUFFIX##_mask, __builtin_ia32_storedquhi##SUFFIX##_mask)        \
  DC_MOVER(W, 4, int, uint##SUFFIX##_words, __builtin_ia32_cvtd2mask##SUFFIX,                        \
           __builtin_ia32_loaddqusi##SUFFIX##_mask, __builtin_ia32_storedqusi##SUFFIX##_mask)        \
  DC_MOVER(W, 8, long long, uint8_t, __builtin_ia32_cvtq2mask##SUFFIX,                               \
           __builtin_ia32_loaddqudi##SUFFIX##_mask, __builtin_ia32_storedqudi##SUFFIX##_mask)
typedef uint64_t uint512_bytes;
typedef uint32_t uint512_halves, uint256_bytes;
typedef uint16_t uint512_words, uint256_halves, uint128_bytes;
typedef uint8_t uint256_words, uint128_halves, uint128_words;
DC_MOVERS(64, 512) DC_MOVERS(32, 256) DC_MOVERS(16, 128)
#undef DC_MOVERS
#elif defined(__AVX2__)
#define DC_MASKED_MOVER(W, B, ELEMENT, LOAD, STORE)                                                 \
  template <> struct mover<W, B> {                                                                  \
    static constexpr bool exists = true;                                                            \
    typedef ELEMENT reg __attribute__((vector_size(W)));                                            \
    static DC_INLINE reg read(const void* p, reg m) { return LOAD(place{p}, m); }                     \
    static DC_INLINE void write(void* p, reg v, reg m) { STORE(place{p}, m, v); }                   \
  };
DC_MASKED_MOVER(32, 4, int, __builtin_ia32_maskloadd256, __builtin_ia32_maskstored256)
DC_MASKED_MOVER(32, 8, long long, __builtin_ia32_maskloadq256, __builtin_ia32_maskstoreq256)
DC_MASKED_MOVER(16, 4, int, __builtin_ia32_maskloadd, __builtin_ia32_maskstored)
DC_MASKED_MOVER(16, 8, long long, __builtin_ia32_maskloadq, __builtin_ia32_maskstoreq)
#undef DC_MASKED_MOVER
#endif
#undef DC_MOVER

// The widest mover for N elements of T: the vector itself, or the registers that it consists of.
template <class T, int N> constexpr int mover_bytes() {
  constexpr int all = (int)sizeof(T) * N;
  if (all % 64 == 0 && mover<64, sizeof(T)>::exists) return 64;
  if (all % 32 == 0 && mover<32, sizeof(T)>::exists) return 32;
  if (all % 16 == 0 && mover<16, sizeof(T)>::exists) return 16;
  return 0;
}

template <int N, class T, class M> DC_INLINE vec<T, N> read_some(const T* p, M m) {
  constexpr int W = mover_bytes<T, N>();
  vec<T, N> r{};
  if constexpr (W == 0) {
    for (int l = 0; l < N; ++l)
      if (m[l]) r[l] = p[l];
  } else {
    typedef mover<W, sizeof(T)> Move;
    for (int k = 0; k < (int)sizeof(r); k += W) {
      typename Move::reg lanes;
      __builtin_memcpy(&lanes, (const char*)&m + k, W);
      lanes = Move::read((const char*)p + k, lanes);
      __builtin_memcpy((char*)&r + k, &lanes, W);
    }
  }
  return r;
}

template <int N, class T, class V, class M> DC_INLINE void write_some(T* p, V v, M m) {
  constexpr int W = mover_bytes<T, N>();
  if constexpr (W == 0) {
    for (int l = 0; l < N; ++l)
      if (m[l]) p[l] = v[l];
  } else {
    typedef mover<W, sizeof(T)> Move;
    for (int k = 0; k < (int)sizeof(v); k += W) {
      typename Move::reg lanes, held;
      __builtin_memcpy(&held, (const char*)&v + k, W);
      __builtin_memcpy(&lanes, (const char*)&m + k, W);
      Move::write((char*)p + k, held, lanes);
    }
  }
}

}  // namespace dynacomp
