// What a generated program gets from its launcher: threads, and folds over them.
//
// `parallel(rt, n, grain, body)` calls body(begin, end) on pieces that cover [0, n), on several
// threads when n > grain; the pieces are at least `grain` long but for the last. Where nothing is
// to gain it is a plain call. Nested and concurrent calls are safe: they run on the calling thread.
#pragma once
#include <stdint.h>

#define DYNACOMP_ABI 1

extern "C" struct dynacomp_runtime {
  void (*parallel_for)(void* pool, int64_t n, int64_t grain,
                       void (*body)(void* ctx, int64_t begin, int64_t end), void* ctx);
  void* pool;
  int threads;
};

namespace dynacomp {

template <class F> inline void parallel(const dynacomp_runtime* rt, int64_t n, int64_t grain, F&& body) {
  if (n <= grain || rt->threads <= 1) {
    if (n > 0) body((int64_t)0, n);
    return;
  }
  auto call = [](void* ctx, int64_t begin, int64_t end) { (*(decltype(&body))ctx)(begin, end); };
  rt->parallel_for(rt->pool, n, grain, call, (void*)&body);
}

// Floor division and modulo for indices (the divisor is positive).
inline int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b < 0);
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace dynacomp
