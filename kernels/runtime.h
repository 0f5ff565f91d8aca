// What a generated program gets from its launcher: threads, and folds over them.
//
// `parallel(rt, n, grain, body)` calls body(begin, end) on pieces that cover [0, n), on several
// threads when n > grain; the pieces are at least `grain` long but for the last. Where nothing is
// to gain it is a plain call. Nested and concurrent calls are safe: they run on the calling thread.
#pragma once
#include <stdint.h>

#define DYNACOMP_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" struct dynacomp_runtime {
  void (*parallel_for)(void* pool, int64_t n, int64_t grain,
                       void (*body)(void* ctx, int64_t begin, int64_t end), void* ctx);
  void* pool;
  int threads;
};

extern "C" int posix_memalign(void**, __SIZE_TYPE__, __SIZE_TYPE__) noexcept;

namespace dynacomp {

inline void* aligned_or_null(uint64_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, 64, bytes ? bytes : 64) == 0 ? p : nullptr;
}

// Set by whatever runs out of memory, on any thread; a program looks at it once, at its end.
inline int out_of_memory = 0;
inline void report_no_memory() { __atomic_store_n(&out_of_memory, 1, __ATOMIC_RELAXED); }

// The body on [begin, end); an exception (std::bad_alloc of a template) must not cross threads or C. What the body has
// copied is copied once more: nothing else knows where that lies, so that it stays in registers.
template <class F> inline void guarded(void* body, int64_t begin, int64_t end) {
  try {
    F own(*(F*)body);
    own(begin, end);
  } catch (...) {
    report_no_memory();
  }
}

template <class F> inline void parallel(const dynacomp_runtime* rt, int64_t n, int64_t grain, F body) {
  if (n > grain && rt->threads > 1) rt->parallel_for(rt->pool, n, grain, guarded<F>, (void*)&body);
  else if (n > 0) guarded<F>((void*)&body, 0, n);
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
inline int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }


// Iterations that make `enough` cycles, when one takes `each`.
inline int64_t grain_of(double enough, double each) {
  const double n = enough / (each > 0.05 ? each : 0.05);
  return n < 1 ? 1 : n > 1e15 ? (int64_t)1e15 : (int64_t)n;
}
// How long a block of an inner loop of `all` iterations is, so that outer * blocks feeds the threads.
inline int64_t block_of(int64_t outer, int64_t all, int threads) {
  const int64_t wanted = 4 * (int64_t)threads;
  if (outer >= wanted || all <= 1024) return all > 0 ? all : 1;
  const int64_t blocks = ceil_div(wanted, outer > 0 ? outer : 1);
  return most(1024, ceil_div(ceil_div(all, blocks), 64) * 64);
}

// A copy of few elements, one by one, so that arrays on the stack can stay in registers.
template <int64_t n, class T> inline __attribute__((always_inline)) void copy_few(T* to, const T* from) {
#pragma GCC unroll 64
  for (int64_t k = 0; k < n; ++k) to[k] = from[k];
}

// How long the pieces of a lone reduction are: 64 of them at most, and not short.
inline int64_t piece_of(int64_t n) { return most(8192, ceil_div(ceil_div(n, 64), 64) * 64); }

// A kernel's private buffer. Without memory `data` is null and the kernel returns.
template <class T> struct scratch {
  T* data;
  explicit scratch(int64_t n)
      : data((T*)aligned_or_null((uint64_t)n * sizeof(T))) {
    if (!data) report_no_memory();
  }
  ~scratch() { __builtin_free(data); }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
};

}  // namespace dynacomp
