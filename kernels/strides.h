// Lanes that lie a small constant step apart: whole registers are loaded or stored, and shuffled.
//
//   strided<S>(p, lanes)   p[0], p[S], p[2S], ...   for S in 2..4, and -1 (lanes from behind)
//   zip(p, a, b, lanes)    a[0], b[0], a[1], b[1], ... to p
//
// Memory before the first element and behind the last is not touched. A tail moves lane by lane.
#pragma once

namespace dynacomp {

template <int... l> struct numbers {};
template <int N, int... l> struct numbers_below : numbers_below<N - 1, N - 1, l...> {};
template <int... l> struct numbers_below<0, l...> { typedef numbers<l...> type; };

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
template <int S, class T, int N> DC_INLINE auto strided(const T* p, part<N> k) {
  return gather(p, k, [](int l) { return l * S; });
}

template <int From, class V, int... l> DC_INLINE V zipped(V a, V b, numbers<l...>) {
  return __builtin_shufflevector(a, b, (From + l / 2 + l % 2 * (int)sizeof...(l))...);
}
template <class T, class V, int N> DC_INLINE void zip(T* p, V a, V b, full<N> k) {
  constexpr typename numbers_below<N>::type lanes;
  store(p, zipped<0>(a, b, lanes), k);
  store(p + N, zipped<N / 2>(a, b, lanes), k);
}
template <class T, class V, int N> DC_INLINE void zip(T* p, V a, V b, part<N> k) {
  scatter(p, a, k, [](int l) { return 2 * l; });
  scatter(p + 1, b, k, [](int l) { return 2 * l; });
}

}  // namespace dynacomp
