// Lanes that lie a small constant step apart: whole registers are loaded or stored, and shuffled.
//
//   strided<S>(p, lanes)   p[0], p[S], p[2S], ...   for S in 2..4, and -1 (lanes from behind)
//   spread<S>(p, lanes)    the same for any S: lanes that lie far apart are loaded one by one
//   spread_to<S>(p, lanes, a)   a[0], a[1], ... to p, p + S, ...
//   zip(p, lanes, a, b)    a[0], b[0], a[1], b[1], ... to p; two to four of them
//   zip_run<S>(p, lanes, value)   value(at, some lanes, slot<J>) to p + at, for the S registers of woven lanes in order
//   cycle<T, N, S>(a, b)[slot<J>]   a, b, a, b, ... of S scalars: register J
//
// Memory before the first element and behind the last is not touched. A tail moves under masks, lane by lane where
// the machine has none.
#pragma once

namespace dynacomp {

template <int S, class T, class L> DC_INLINE auto spread(const T* p, L k) {
  if constexpr (gathers<T, L::lanes> && !same_type<L, full<L::lanes>>::value)  // slower, but a tenth of the code
    return gather_at(p, k, affine_lanes<int32_t>(k, 0, S));
  else return gather(p, k, [](int l) { return (int64_t)l * S; });
}
template <int S, class T, class V, class L> DC_INLINE void spread_to(T* p, L k, V v) {
  scatter(p, v, k, [](int l) { return (int64_t)l * S; });
}

// Lane l of a stride is at l * S: in register `register_of`, the last of which ends with the last lane.
template <int S, int N> constexpr int register_of(int l) { return l * S / N < S - 1 ? l * S / N : S - 1; }
template <int S, int N> constexpr int start_of(int j) { return j < S - 1 ? j * N : (N - 1) * S + 1 - N; }

// The lanes of r that are there already, and those in register J.
template <int S, int J, class V, int... l> DC_INLINE V pick(V r, V next, numbers<l...>) {
  constexpr int N = sizeof...(l);
  return __builtin_shufflevector(
      r, next, (register_of<S, N>(l) == J ? N + l * S - start_of<S, N>(J) : J == 1 && l * S < N ? l * S : l)...);
}
template <class V, int... l> DC_INLINE V turned(V v, numbers<l...>) {
  return __builtin_shufflevector(v, v, ((int)sizeof...(l) - 1 - l)...);
}
template <int S, class T, int N> DC_INLINE auto strided(const T* p, full<N> k) {
  constexpr typename numbers_below<N>::type lanes;
  if constexpr (S == -1) {
    return turned(load(p - (N - 1), k), lanes);
  } else {
    auto r = pick<S, 1>(load(p, k), load(p + start_of<S, N>(1), k), lanes);
    if constexpr (S > 2) r = pick<S, 2>(r, load(p + start_of<S, N>(2), k), lanes);
    if constexpr (S > 3) r = pick<S, 3>(r, load(p + start_of<S, N>(3), k), lanes);
    return r;
  }
}
// Register J of a stride of which only the first `span` elements may be touched.
template <int S, int J, class T, int N> DC_INLINE auto spanned(const T* p, part<N>, int span) {
  return load(p + start_of<S, N>(J), part<N>{span - start_of<S, N>(J)});
}
template <int S, class T, int N> DC_INLINE auto strided(const T* p, part<N> k) {
  if constexpr (S > 1 && mover_bytes<T, N>() != 0) {
    constexpr typename numbers_below<N>::type lanes;
    const int span = (k.n - 1) * S + 1;
    auto r = pick<S, 1>(spanned<S, 0>(p, k, span), spanned<S, 1>(p, k, span), lanes);
    if constexpr (S > 2) r = pick<S, 2>(r, spanned<S, 2>(p, k, span), lanes);
    if constexpr (S > 3) r = pick<S, 3>(r, spanned<S, 3>(p, k, span), lanes);
    return r;
  } else {
    return spread<S>(p, k);
  }
}

// Register J of S woven vectors: those before vector K are there already.
template <int S, int J, int K, class V, int... l> DC_INLINE V weave(V r, V next, numbers<l...>) {
  constexpr int N = sizeof...(l);
  return __builtin_shufflevector(
      r, next, ((J * N + l) % S == K ? N + (J * N + l) / S : K == 1 && (J * N + l) % S == 0 ? (J * N + l) / S : l)...);
}
template <int S, int J, class T, class V, int N> DC_INLINE void store_woven(T* p, full<N> k, const V* v) {
  constexpr typename numbers_below<N>::type lanes;
  V r = weave<S, J, 1>(v[0], v[1], lanes);
  if constexpr (S > 2) r = weave<S, J, 2>(r, v[2], lanes);
  if constexpr (S > 3) r = weave<S, J, 3>(r, v[3], lanes);
  store(p + J * N, r, k);
  if constexpr (J + 1 < S) store_woven<S, J + 1>(p, k, v);
}
template <class T, int N, class V, class... W> DC_INLINE void zip(T* p, full<N> k, V a, W... more) {
  const V v[] = {a, more...};
  store_woven<1 + sizeof...(W), 0>(p, k, v);
}
template <class T, int N, class... W> DC_INLINE void zip(T* p, part<N> k, W... all) {
  (scatter(p++, all, k, [](int l) { return l * (int)sizeof...(W); }), ...);
}

template <class T, int N, int S> struct cycle {
  vec<T, N> registers[S];
  template <class... W> DC_INLINE explicit cycle(W... each) {
    const T scalars[] = {(T)each...};
#pragma GCC unroll 64
    for (int l = 0; l < S * N; ++l) registers[l / N][l % N] = scalars[l % S];
  }
  template <int J> DC_INLINE vec<T, N> operator[](slot<J>) const { return registers[J]; }
};
template <int S, int J, class T, class L, class F> DC_INLINE void zip_run_from(T* p, L k, F value) {
  constexpr int N = L::lanes;
  const int left = k.count() * S - J * N;
  if (same_type<L, full<N>>::value || left >= N) store(p + J * N, value(J * N, full<N>{}, slot<J>{}), full<N>{});
  else if (left > 0) store(p + J * N, value(J * N, part<N>{left}, slot<J>{}), part<N>{left});
  if constexpr (J + 1 < S) zip_run_from<S, J + 1>(p, k, value);
}
template <int S, class T, class L, class F> DC_INLINE void zip_run(T* p, L k, F value) { zip_run_from<S, 0>(p, k, value); }

}  // namespace dynacomp
