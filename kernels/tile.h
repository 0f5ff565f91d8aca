// Register tiles, packing and scratch: what matmul and convolution share.
//
// A tile multiplies a panel of MR rows of A by NV vectors of columns of B and keeps the MR x NV
// sums in registers. Panels of B are always depth x columns with contiguous columns; panels of A
// are read either row by row (`rows`: element (i, p) at data[i * ld + p]) or packed / transposed
// (element (i, p) at data[i + p * ld]); both are one load per element, broadcast.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "storage.h"

namespace dynacomp::tile {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int tile_rows = 8;  // 32 vector registers
#else
constexpr int tile_rows = 6;  // 16
#endif
constexpr int tile_vectors = 2;

template <class T>
constexpr int tile_columns = lanes<T>* tile_vectors;

constexpr int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

// A buffer of this thread that lives on between calls (fresh pages cost more than small products).
// One per slot and thread; contents are lost at the next call with the same slot.
template <int slot>
inline void* scratch(int64_t bytes) {
    struct Buffer {
        void* data = nullptr;
        int64_t size = 0;
        ~Buffer() { std::free(data); }
    };
    static thread_local Buffer buffer;
    if (buffer.size < bytes) {
        std::free(buffer.data);
        buffer.size = 0;
        int64_t size = (bytes + 4095) / 4096 * 4096;
        buffer.data = std::aligned_alloc(64, size_t(size));
        if (!buffer.data) throw std::bad_alloc();
        buffer.size = size;
    }
    return buffer.data;
}

constexpr int64_t long_chain = 128;  // products added one to the other: longer sums are sums of sums, which round less

// c (MR x NV vectors, row stride ldc) = or += A panel (MR x k) times B panel (k x NV vectors), plus `part` if `parts`.
template <class T, int MR, int NV, bool rows, bool parts = false>
__attribute__((noinline)) void multiply(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                                        int64_t ldc, bool add, [[maybe_unused]] const T* part = nullptr) {
    using V = Vector<T>;
    V sum[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sum[i][v] = V{};
    for (int64_t p = 0; p < k; p++) {
        V column[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) column[v] = *(const V*)(b + v * lanes<T>);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            T scalar = rows ? a[i * lda] : a[i];
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sum[i][v] += scalar * column[v];
        }
        a += rows ? 1 : lda;
        b += ldb;
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            V* out = (V*)(c + i * ldc + v * lanes<T>);
            if constexpr (parts) sum[i][v] += *(const V*)(part + (i * NV + v) * lanes<T>);
            *out = add ? *out + sum[i][v] : sum[i][v];
        }
}

template <class T>
struct Panel {
    const T* data;
    int64_t ld;
    bool rows;
    Panel below(int64_t i) const { return {data + (rows ? i * ld : i), ld, rows}; }
    const T* from(int64_t p) const { return data + (rows ? p : p * ld); }
};

// The same for any depth, in chains; those before the last are summed beside c, whose rows may meet in the cache.
template <class T, int MR, int NV, bool rows>
void multiply_chains(int64_t k, Panel<T> a, const T* b, int64_t ldb, T* c, int64_t ldc, bool add) {
    if (k <= long_chain) return multiply<T, MR, NV, rows>(k, a.data, a.ld, b, ldb, c, ldc, add);
    constexpr int64_t width = NV * lanes<T>;
    alignas(64) T sums[MR * width];
    const int64_t steps = ceil_quotient(k, ceil_quotient(k, long_chain));
    int64_t p = 0;
    for (; p + steps < k; p += steps)
        multiply<T, MR, NV, rows>(steps, a.from(p), a.ld, b + p * ldb, ldb, sums, width, p > 0);
    multiply<T, MR, NV, rows, true>(k - p, a.from(p), a.ld, b + p * ldb, ldb, c, ldc, add, sums);
}

// The same for any number of rows: whole tiles, then 4, 2, 1.
template <class T, int NV>
void multiply_rows(int64_t rows, int64_t k, Panel<T> a, const T* b, int64_t ldb, T* c, int64_t ldc, bool add) {
    auto step = [&](auto size) {
        constexpr int count = decltype(size)::value;
        for (; rows >= count; rows -= count) {
            if (a.rows)
                multiply_chains<T, count, NV, true>(k, a, b, ldb, c, ldc, add);
            else
                multiply_chains<T, count, NV, false>(k, a, b, ldb, c, ldc, add);
            a = a.below(count);
            c += count * ldc;
        }
    };
    step(std::integral_constant<int, tile_rows>{});
    step(std::integral_constant<int, 4>{});
    step(std::integral_constant<int, 2>{});
    step(std::integral_constant<int, 1>{});
}

// Calls run(number of vectors that `columns` need, as a type).
template <class T, class F>
void with_width(int64_t columns, F&& run) {
    if (columns > lanes<T>)
        run(std::integral_constant<int, tile_vectors>{});
    else
        run(std::integral_constant<int, 1>{});
}

template <class T, int d, int... l>
inline void exchange(Vector<T>& low, Vector<T>& high, std::integer_sequence<int, l...>) {
    constexpr int W = sizeof...(l);
    Vector<T> a = low, b = high;
    low = __builtin_shufflevector(a, b, ((l & d) ? W + l - d : l)...);
    high = __builtin_shufflevector(a, b, ((l & d) ? W + l : l + d)...);
}

// Transposes lanes x lanes elements in registers: swaps, bit by bit, row index and lane index.
template <class T, int d = 1>
inline void transpose_square(Vector<T> (&r)[lanes<T>]) {
    if constexpr (d < lanes<T>) {
#pragma GCC unroll 32
        for (int i = 0; i < lanes<T>; i++)
            if (!(i & d)) exchange<T, d>(r[i], r[i + d], std::make_integer_sequence<int, lanes<T>>{});
        transpose_square<T, 2 * d>(r);
    }
}

// out[p * ldo + c] = in[p + c * ldi] for p < depth, c < lanes.
template <class T>
__attribute__((noinline)) void transpose_strip(const T* in, int64_t ldi, int64_t depth, T* out, int64_t ldo) {
    constexpr int W = lanes<T>;
    int64_t p = 0;
    for (; p + W <= depth; p += W) {
        Vector<T> r[W];
#pragma GCC unroll 32
        for (int c = 0; c < W; c++) r[c] = *(const Vector<T>*)(in + p + c * ldi);
        transpose_square<T>(r);
#pragma GCC unroll 32
        for (int c = 0; c < W; c++) *(Vector<T>*)(out + (p + c) * ldo) = r[c];
    }
    for (; p < depth; p++)
        for (int c = 0; c < W; c++) out[p * ldo + c] = in[p + c * ldi];
}

// to[0 .. tile_columns) = from[...]: one line of a full panel.
template <class T, class S>
inline void copy_line(const S* from, T* to) {
    if constexpr (std::is_same_v<T, S>) {
#pragma GCC unroll 4
        for (int v = 0; v < tile_vectors; v++)
            *(Vector<T>*)(to + v * lanes<T>) = *(const Vector<T>*)(from + v * lanes<T>);
    } else {
        widen_run(from, tile_columns<T>, to);
    }
}

// out[p * ldo + c] = in[p * sp + c * sc] for p < depth, c < count; zeros for count <= c < padded.
template <class T, class S>
void pack(const S* in, int64_t sp, int64_t sc, int64_t depth, int64_t count, int64_t padded, T* out, int64_t ldo) {
    if (sc == 1 && count == tile_columns<T>) {
        for (int64_t p = 0; p < depth; p++) copy_line(in + p * sp, out + p * ldo);
        return;
    }
    int64_t c = 0;
    if constexpr (std::is_same_v<T, S>)
        if (sp == 1)
            for (; c + lanes<T> <= count; c += lanes<T>) transpose_strip<T>(in + c * sc, sc, depth, out + c, ldo);
    if (c == padded) return;
    for (int64_t p = 0; p < depth; p++) {
        const S* from = in + p * sp;
        T* to = out + p * ldo;
        if (sc == 1 && c < count)
            widen_run(from + c, count - c, to + c);
        else
            for (int64_t q = c; q < count; q++) to[q] = widen<T>(from[q * sc]);
        for (int64_t q = larger(c, count); q < padded; q++) to[q] = T(0);
    }
}

}  // namespace dynacomp::tile
