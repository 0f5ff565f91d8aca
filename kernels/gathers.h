// Lanes from anywhere in memory, at offsets that stand in a register.
//
//   gather_at(p, lanes, offsets)                        p[offsets[l]]
//   masked_gather_at(p, lanes, mask, offsets, other)    the same where the mask holds, elsewhere `other`
//
// Offsets are int32. x86 has an instruction for elements of 4 and 8 bytes, which spares taking the offsets out of their
// register one by one; it is named here as g++ does. Lanes beyond the tail are not touched.
#pragma once

namespace dynacomp {

// gatherer<B, N>: N elements of B bytes in one instruction, where `exists`; lanes whose mask is 0 are those of `other`.
template <int B, int N> struct gatherer { static constexpr bool exists = false; };

#if defined(__AVX2__) && !defined(__clang__)
#define DC_GATHERER(B, N, ELEMENT, OFFSETS, MASK, CALL)                                             \
  template <> struct gatherer<B, N> {                                                               \
    static constexpr bool exists = true;                                                            \
    typedef ELEMENT reg __attribute__((vector_size(B * N)));                                        \
    typedef int offsets_reg __attribute__((vector_size(OFFSETS)));                                  \
    static DC_INLINE reg read(const void* p, offsets_reg at, reg m, reg other) {                    \
      return CALL(other, place{p}, at, MASK(m), B);                                                 \
    }                                                                                               \
  };
#define DC_SAME(m) m
DC_GATHERER(4, 8, int, 32, DC_SAME, __builtin_ia32_gathersiv8si)
DC_GATHERER(4, 4, int, 16, DC_SAME, __builtin_ia32_gathersiv4si)
DC_GATHERER(8, 4, long long, 16, DC_SAME, __builtin_ia32_gathersiv4di)
#if defined(__AVX512F__) && defined(__AVX512DQ__)
DC_GATHERER(4, 16, int, 64, (uint16_t)__builtin_ia32_cvtd2mask512, __builtin_ia32_gathersiv16si)
DC_GATHERER(8, 8, long long, 32, (uint8_t)__builtin_ia32_cvtq2mask512, __builtin_ia32_gathersiv8di)
#endif
#undef DC_SAME
#undef DC_GATHERER
#endif

template <class T, int N> constexpr bool gathers =
    gatherer<sizeof(T), N>::exists && is_scalar<T>::value && !same_type<T, bool>::value;

template <class T, int N, class M, class V>
DC_INLINE V gathered(const T* p, vec<int32_t, N> offsets, M m, V other) {
  typedef gatherer<sizeof(T), N> Gather;
  typedef typename Gather::reg R;
  return (V)Gather::read(p, (typename Gather::offsets_reg)offsets, (R)m, (R)other);
}

template <class T, class L> DC_INLINE auto gather_at(const T* p, L k, vec<int32_t, L::lanes> offsets) {
  if constexpr (gathers<T, L::lanes>) {
    typedef vec<T, L::lanes> V;
    typedef typename lane<V>::sints M;
    if constexpr (same_type<L, full<L::lanes>>::value) return gathered<T, L::lanes>(p, offsets, M{} - 1, V{});
    else return gathered<T, L::lanes>(p, offsets, lanes_below<V>(k).m, V{});
  } else {
    return gather(p, k, [&](int l) { return (int64_t)offsets[l]; });
  }
}
template <class T, class L, class C, class V>
DC_INLINE V masked_gather_at(const T* p, L k, C c, vec<int32_t, L::lanes> offsets, V other) {
  if constexpr (gathers<T, L::lanes> && !same_type<C, bool>::value && sizeof(V) == sizeof(T) * L::lanes) {
    return gathered<T, L::lanes>(p, offsets, widen_mask<V>(mask<decltype(chosen(c, k).m)>{chosen(c, k).m}), other);
  } else {
    return masked_gather(p, k, c, [&](int l) { return (int64_t)offsets[l]; }, other);
  }
}

}  // namespace dynacomp
