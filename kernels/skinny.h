// Skinny products: few rows of A against a large B, which is read once, where it lies. Included by gemm.h.
//
//   dots      B's depth is contiguous: sums of products of two lines
//   streams   B's columns are contiguous: B row after row, each added to the sums times a number of A
//
// What a token's layers are, or a small batch's: packing B into panels would cost more than the product. A is copied
// to lines of T first; floats of 16 bits in B are widened in registers.
#pragma once
#include "dots.h"

namespace dynacomp {
namespace tile {

constexpr int64_t group = 4;            // rows that are done at once: their numbers and sums fit in registers
constexpr int64_t some = 8, few = 16;   // rows for which this may be worth it: later groups find B in the cache ...
constexpr int64_t together = 256, apart = 2048;  // ... in blocks of so many columns, and for one group of so many

enum class Way { blocks, dots, streams };

// Which is the quickest, by measurements: panels win where B is in the cache anyway, lies close together, or has short
// lines, whose lanes cost more to add up than their products; 16 bits cost panels more than they cost us.
template <class T, class B>
Way way(int64_t rows, int64_t columns, int64_t k, Matrix<const B> b) {
    if constexpr (!std::is_same_v<T, B> && !widens<T, B>) return Way::blocks;
    constexpr bool half = sizeof(B) < sizeof(T);
    if (b.sj == 1 && k > 0) {
        const int64_t bytes = k * columns * int64_t(sizeof(B));
        const bool is_far = b.si * int64_t(sizeof(B)) > near;
        const bool pays = rows <= group || (is_far && rows <= some && bytes >= 1 << 19) ||
                          (is_far && rows <= few && bytes >= 1 << 22);
        return pays ? Way::streams : Way::blocks;
    }
    const bool pays = rows <= group ? k >= (half ? 64 : 128) : rows <= (half ? few : some) && k >= 256;
    return b.si == 1 && pays ? Way::dots : Way::blocks;
}

// Calls run(first row, their number as a type) for all rows, a group at a time.
template <class F>
void by_groups(int64_t rows, F&& run) {
    for (int64_t r = 0; r < rows; r += group) {
        const int64_t count = smaller(group, rows - r);
        if (count == 1) run(r, std::integral_constant<int, 1>{});
        if (count == 2) run(r, std::integral_constant<int, 2>{});
        if (count == 3) run(r, std::integral_constant<int, 3>{});
        if (count == 4) run(r, std::integral_constant<int, 4>{});
    }
}

// The rows of a block of A as lines of T, k apart.
template <class T, class A>
void copy_lines(Matrix<const A> a, int64_t row0, int64_t rows, int64_t k, T* lines) {
    for (int64_t i = 0; i < rows; i++) {
        if (a.sj == 1) {
            widen_run(a.at(row0 + i, 0), k, lines + i * k);
            continue;
        }
        for (int64_t p = 0; p < k; p++) lines[i * k + p] = widen<T>(*a.at(row0 + i, p));
    }
}

// sums[r] += the sum of x[r * ldx + p] * y[p] for R rows x, several vectors at a time.
template <class T, class B, int R>
inline void dot_rows(const T* x, int64_t ldx, const B* y, int64_t k, T* sums) {
    using V = Vector<T>;
    constexpr int W = lanes<T>, U = R == 1 ? 4 : 2;
    V sum[R][U] = {};
    int64_t p = 0;
    for (; p + U * W <= k; p += U * W)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
            const V line = wide_lanes<T>(y + p + u * W);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) sum[r][u] += *(const V*)(x + r * ldx + p + u * W) * line;
        }
    for (; p + W <= k; p += W) {
        const V line = wide_lanes<T>(y + p);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) sum[r][0] += *(const V*)(x + r * ldx + p) * line;
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
        V all = sum[r][0] + sum[r][1];
        if constexpr (U == 4) all += sum[r][2] + sum[r][3];
        T rest = sum_of_lanes<T>(all);
        for (int64_t q = p; q < k; q++) rest += x[r * ldx + q] * widen<T>(y[q]);
        sums[r] += rest;
    }
}

// One block with few rows and contiguous depth.
template <class T, class A, class B, class C>
void dots(Matrix<const A> a, Matrix<const B> b, Matrix<C> out, int64_t k, Block at) {
    const int64_t rows = at.row1 - at.row0;
    T* lines = (T*)scratch<1>(larger(rows * k, 1) * int64_t(sizeof(T)));
    copy_lines(a, at.row0, rows, k, lines);
    constexpr int64_t piece = long_chain * 2 * lanes<T>;
    for (int64_t j = at.col0; j < at.col1; j++) {
        T sums[few] = {};
        for (int64_t p = 0; p < k; p += piece)
            by_groups(rows, [&](int64_t r, auto count) {
                dot_rows<T, B, count.value>(lines + r * k + p, k, b.at(p, j), smaller(piece, k - p), sums + r);
            });
        store(sums, 1, rows, 1, out, at.row0, j, false);
    }
}

// sums (stride ld) += A[rows, depth] * B[depth, width], one product at a time: the edges of `stream`.
template <class T, class B>
__attribute__((noinline)) void stream_edge(const T* a, int64_t lda, const B* b, int64_t ldb, int64_t rows,
                                           int64_t depth, int64_t width, T* sums, int64_t ld) {
    for (int64_t p = 0; p < depth; p++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < width; j++) sums[r * ld + j] += a[r * lda + p] * widen<T>(b[p * ldb + j]);
}

// sums (R rows, stride width) += R rows of A times B[depth, width], four rows of B at a time.
template <class T, class B, int R>
__attribute__((noinline)) void stream(const T* a, int64_t lda, const B* b, int64_t ldb, int64_t depth, int64_t width,
                                      T* sums) {
    using V = Vector<T>;
    const int64_t whole = width / lanes<T> * lanes<T>, head = depth % 4;
    if (whole < width) stream_edge(a, lda, b + whole, ldb, R, depth, width - whole, sums + whole, width);
    if (head) stream_edge(a, lda, b, ldb, R, head, whole, sums, width);
    for (int64_t p = head; p < depth; p += 4) {
        const B* line = b + p * ldb;
        V scalar[R][4];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) scalar[r][q] = V{} + a[r * lda + p + q];
        for (int64_t j = 0; j < whole; j += lanes<T>) {
            V x[4];
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) x[q] = wide_lanes<T>(line + q * ldb + j);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                V* sum = (V*)(sums + r * width + j);
                *sum += (scalar[r][0] * x[0] + scalar[r][1] * x[1]) + (scalar[r][2] * x[2] + scalar[r][3] * x[3]);
            }
        }
    }
}

// One block with few rows and contiguous columns.
template <class T, class A, class B, class C>
void streams(Matrix<const A> a, Matrix<const B> b, Matrix<C> out, int64_t k, Block at) {
    const int64_t rows = at.row1 - at.row0, columns = rows > group ? together : apart;
    T* lines = (T*)scratch<1>((rows * k + (rows + group) * columns) * int64_t(sizeof(T)));
    T* sums = lines + rows * k;
    T* part = sums + rows * columns;  // of one depth block: long sums are sums of sums, which rounds less
    copy_lines(a, at.row0, rows, k, lines);
    for (int64_t j = at.col0; j < at.col1; j += columns) {
        const int64_t width = smaller(columns, at.col1 - j);
        for (int64_t x = 0; x < rows * width; x++) sums[x] = T(0);
        for (int64_t p = 0; p < k; p += depth_block)
            by_groups(rows, [&](int64_t r, auto count) {
                for (int64_t x = 0; x < count * width; x++) part[x] = T(0);
                const int64_t depth = smaller(depth_block, k - p);
                stream<T, B, count.value>(lines + r * k + p, k, b.at(p, j), b.si, depth, width, part);
                for (int64_t x = 0; x < count * width; x++) sums[r * width + x] += part[x];
            });
        store(sums, width, rows, width, out, at.row0, j, false);
    }
}

}  // namespace tile
}  // namespace dynacomp
