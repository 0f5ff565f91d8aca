// The largest or smallest of many floats: a chain of integers, which is shorter than a chain of `max`.
//
// `max` of ops.h takes several instructions that wait for each other, since NaN wins and the sign of a zero counts.
// As integers floats are in order, zeros too, once the other bits of the negative ones are turned round (`in_order`).
// NaNs are then beyond the infinities, at the end that their sign bit says: those at the end that is looked for win by
// themselves, the others are seen by a second chain that is just as short.
//
//     auto best = running_max(splat<float, 16>(-__builtin_inff()));
//     for (...) best = max(best, load(...));
//     fold_lanes(best, [](auto a, auto b) { return max(a, b); });
#pragma once

namespace dynacomp {

// Floats as integers in the same order, and back: the same operation does both.
template <class V> DC_INLINE auto in_order(typename lane<V>::sints bits) {
  typedef typename lane<V>::sints S;
  constexpr int top = 8 * sizeof(elem<V>) - 1;
  constexpr auto others = (elem<S>)~((elem<typename lane<V>::uints>)1 << top);
  return (S)(bits ^ ((bits >> top) & others));
}

// The best so far, in order, and the number whose bits say whether there was a NaN at the other end: of unsigned
// integers the largest is the NaN with a sign bit that is the least, of signed ones the one without that is the greatest.
template <class V, bool Most> struct extreme {
  typedef typename lane<V>::sints S;
  typedef typename lane<V>::uints U;
  typedef typename either<Most, U, S>::type Other;
  S best;
  Other other;
};

template <class T> DC_INLINE T larger(T a, T b) { return a > b ? a : b; }
template <class T> DC_INLINE T smaller(T a, T b) { return a < b ? a : b; }

template <class V, bool Most> DC_INLINE extreme<V, Most> started(V v) {
  typedef extreme<V, Most> E;
  v = in_register(v);
  auto bits = bits_as<typename E::S>(v);
  return {in_order<V>(bits), bits_as<typename E::Other>(v)};
}
template <class V, bool Most> DC_INLINE extreme<V, Most> joined(extreme<V, Most> a, extreme<V, Most> b) {
  if constexpr (Most) return {larger(a.best, b.best), larger(a.other, b.other)};
  else return {smaller(a.best, b.best), larger(a.other, b.other)};
}

// Lanes of the width that the machine compares at once: others stay floats.
template <class V> constexpr bool has_order =
    is_float<V> && !is_scalar<V>::value && (sizeof(elem<V>) == 4 || kVectorBytes == 64);

template <class V> DC_INLINE auto running_max(V v) {
  if constexpr (has_order<V>) return started<V, true>(v);
  else return v;
}
template <class V> DC_INLINE auto running_min(V v) {
  if constexpr (has_order<V>) return started<V, false>(v);
  else return v;
}

template <class V> DC_INLINE extreme<V, true> max(extreme<V, true> a, V v) { return joined(a, started<V, true>(v)); }
template <class V> DC_INLINE extreme<V, false> min(extreme<V, false> a, V v) { return joined(a, started<V, false>(v)); }
template <class V> DC_INLINE extreme<V, true> max(extreme<V, true> a, extreme<V, true> b) { return joined(a, b); }
template <class V> DC_INLINE extreme<V, false> min(extreme<V, false> a, extreme<V, false> b) { return joined(a, b); }

template <class V, bool Most, int N>
DC_INLINE extreme<V, Most> keep(extreme<V, Most>, extreme<V, Most> next, full<N>) {
  return next;
}
template <class V, bool Most, int N>
DC_INLINE extreme<V, Most> keep(extreme<V, Most> acc, extreme<V, Most> next, part<N> k) {
  return {keep(acc.best, next.best, k), keep(acc.other, next.other, k)};
}

// The floats again.
template <class V> DC_INLINE V settled(V v) { return v; }
template <class V, bool Most> DC_INLINE V settled(extreme<V, Most> e) {
  typedef typename extreme<V, Most>::S S;
  constexpr elem<S> infinity = sizeof(elem<V>) == 4 ? (elem<S>)0x7f800000 : (elem<S>)0x7ff0000000000000;
  constexpr elem<S> sign = (elem<S>)1 << (8 * sizeof(elem<V>) - 1);
  constexpr auto last = (elem<typename extreme<V, Most>::Other>)(Most ? infinity | sign : infinity);
  V best = bits_as<V>(in_order<V>(e.best)), lost = bits_as<V>(e.other);
  best = e.other > last ? lost : best;
  if constexpr (Most) return max(best, best);  // a subnormal number, where the thread flushes them, is a zero
  else return min(best, best);
}
template <class V, bool Most, class F> DC_INLINE elem<V> fold_lanes(extreme<V, Most> e, F) {
  auto most = [](auto a, auto b) { return larger(a, b); };
  auto other = fold_lanes(e.other, most);
  if constexpr (Most) return settled(extreme<elem<V>, Most>{fold_lanes(e.best, most), other});
  else return settled(extreme<elem<V>, Most>{fold_lanes(e.best, [](auto a, auto b) { return smaller(a, b); }), other});
}

}  // namespace dynacomp
