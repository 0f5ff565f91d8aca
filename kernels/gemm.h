// Matrix products: out[b, i, j] = sum over p of a[b, i, p] * b[b, p, j], for any strides.
//
// The work is cut into blocks of rows x columns, one or more per thread, without any exchange
// between them. Inside a block: columns by columns_block, depth by depth_block; a panel of B is
// packed into this thread's scratch (or read in place where that is as quick), then register tiles
// sweep over the rows of A. Skinny products (few rows, or few columns: the roles are swapped) with
// contiguous depth are dot products instead.
//
// Numbers of one byte are multiplied four at a time where the machine can (see bytes.h), else as floats, of which it
// multiplies more at once than integers: the sums of depth_block products are exact (255 * 255 * 256 < 2^24), and are
// added up as integers.
#pragma once
#include "tile.h"

namespace dynacomp {
namespace tile {

constexpr int64_t depth_block = 256, columns_block = 512, rows_block = 480;
constexpr int64_t skinny = 4;               // so few rows or columns are done as dot products ...
constexpr int64_t deep = 32;                 // ... of so many elements: adding up a dot product's lanes costs as much
constexpr int64_t near = 1024;               // bytes between rows that share no part of a cache
constexpr double parallel_work = 1 << 19;   // multiply-adds worth waking a thread for
constexpr double task_work = 1 << 22;       // multiply-adds of a task: small enough to even out late threads

template <class T>
struct Matrix {  // element (i, j) at data[i * si + j * sj]
    T* data;
    int64_t si, sj;
    T* at(int64_t i, int64_t j) const { return data + i * si + j * sj; }
    Matrix transposed() const { return {data, sj, si}; }
};

struct Block {
    int64_t row0, row1, col0, col1;
};

// rows x N elements: the number is known, so that a row is one move.
template <int N, class T>
void copy_rows(const T* from, int64_t ld, int64_t rows, T* to, int64_t ldo) {
    for (int64_t r = 0; r < rows; r++) __builtin_memcpy(to + r * ldo, from + r * ld, N * sizeof(T));
}

// Stores `rows` x `cols` sums (row stride ld) at (i, j).
template <class T, class C>
void store(T* sums, int64_t ld, int64_t rows, int64_t cols, Matrix<C> out, int64_t i, int64_t j, bool add) {
    if constexpr (std::is_same_v<T, C>)
        if (!add && out.sj == 1) {
            if (cols == 1) return copy_rows<1>(sums, ld, rows, out.at(i, j), out.si);
            if (cols == 2) return copy_rows<2>(sums, ld, rows, out.at(i, j), out.si);
            if (cols == 3) return copy_rows<3>(sums, ld, rows, out.at(i, j), out.si);
            if (cols == 4) return copy_rows<4>(sums, ld, rows, out.at(i, j), out.si);
        }
    for (int64_t r = 0; r < rows; r++) {
        T* row = sums + r * ld;
        C* to = out.at(i + r, j);
        if constexpr (std::is_integral_v<C> && !std::is_same_v<T, C>) {  // unsigned: they wrap
            using Whole = std::conditional_t<std::is_integral_v<T>, T, int32_t>;
            for (int64_t c = 0; c < cols; c++) {
                const C sum = C(Whole(row[c]));
                to[c * out.sj] = add ? C(std::make_unsigned_t<C>(to[c * out.sj]) + std::make_unsigned_t<C>(sum)) : sum;
            }
            continue;
        }
        if (add)
            for (int64_t c = 0; c < cols; c++) row[c] += T(widen<T>(to[c * out.sj]));
        if (out.sj == 1)
            for (int64_t c = 0; c < cols; c++) to[c] = narrow<C>(row[c]);
        else
            for (int64_t c = 0; c < cols; c++) to[c * out.sj] = narrow<C>(row[c]);
    }
}

}  // namespace tile
}  // namespace dynacomp
#include "bytes.h"
namespace dynacomp {
namespace tile {

// All row tiles of one panel of columns.
template <class T, int NV, class C>
void sweep(Panel<T> a, const T* b, int64_t ldb, int64_t k, Matrix<C> out, int64_t i, int64_t rows, int64_t j,
           int64_t cols, bool add) {
    if constexpr (std::is_same_v<T, C>)
        if (out.sj == 1 && cols == NV * lanes<T>) {
            multiply_rows<T, NV>(rows, k, a, b, ldb, out.at(i, j), out.si, add);
            return;
        }
    alignas(64) T sums[tile_rows * NV * lanes<T>];
    for (int64_t r = 0; r < rows; r += tile_rows) {
        int64_t count = smaller(tile_rows, rows - r);
        multiply_rows<T, NV>(count, k, a.below(r), b, ldb, sums, NV * lanes<T>, false);
        store(sums, NV * lanes<T>, count, cols, out, i + r, j, add);
    }
}

// One block by register tiles.
template <class T, class A, class B, class C>
void block(Matrix<const A> a, Matrix<const B> b, Matrix<C> out, int64_t k, Block at) {
    constexpr int NR = tile_columns<T>;
    constexpr bool in_place = std::is_same_v<T, C> || std::is_integral_v<C>;  // sums may wait in `out`
    if (k == 0) {
        T zero[1];
        for (int64_t i = at.row0; i < at.row1; i++)
            for (int64_t j = at.col0; j < at.col1; j++) {
                zero[0] = T(0);
                store(zero, 1, 1, 1, out, i, j, false);
            }
        return;
    }
    const int64_t rows = at.row1 - at.row0;
    const int64_t depth = in_place ? ceil_quotient(k, ceil_quotient(k, depth_block)) : k;
    const int64_t width = in_place ? columns_block : larger(NR, columns_block * depth_block / larger(k, 1) / NR * NR);
    const int64_t height = in_place ? rows_block : larger(tile_rows * 4, rows_block * depth_block / larger(k, 1));
    const bool a_direct = std::is_same_v<T, A> && (a.sj == 1 || a.si == 1);
    const bool a_rows = a.sj == 1;  // they are widened as they lie
    const int64_t sweeps = b.si * int64_t(sizeof(B)) <= near ? 4 : 2;  // fewer over a panel do not pay for packing it
    const bool b_direct = std::is_same_v<T, B> && b.sj == 1 && rows <= sweeps * tile_rows;
    T* packed_b = (T*)scratch<0>(depth * width * int64_t(sizeof(T)));
    T* packed_a = a_direct ? nullptr : (T*)scratch<1>((height + tile_rows) * depth * int64_t(sizeof(T)));
    for (int64_t j0 = at.col0; j0 < at.col1; j0 += width)
        for (int64_t p = 0; p < k; p += depth) {
            const int64_t kc = smaller(depth, k - p), j1 = smaller(j0 + width, at.col1);
            auto direct = [&](int64_t j) { return b_direct && j + NR <= j1; };
            for (int64_t j = j0; j < j1; j += NR)
                if (!direct(j))
                    pack<T>(b.at(p, j), b.si, b.sj, kc, smaller(NR, j1 - j), NR, packed_b + (j - j0) * kc, NR);
            for (int64_t i0 = at.row0; i0 < at.row1; i0 += height) {
                const int64_t i1 = smaller(i0 + height, at.row1);
                if (!a_direct && a_rows)
                    for (int64_t i = i0; i < i1; i++)
                        for (int64_t q = 0; q < kc; q++) packed_a[(i - i0) * kc + q] = widen<T>(*a.at(i, p + q));
                else if (!a_direct)
                    for (int64_t i = i0; i < i1; i += tile_rows)
                        pack<T>(a.at(i, p), a.sj, a.si, kc, smaller(tile_rows, i1 - i), smaller(tile_rows, i1 - i),
                                packed_a + (i - i0) * kc, tile_rows);
                for (int64_t j = j0; j < j1; j += NR) {
                    const int64_t cols = smaller(NR, j1 - j);
                    const T* panel = packed_b + (j - j0) * kc;
                    int64_t ldb = NR;
                    if constexpr (std::is_same_v<T, B>)
                        if (direct(j)) panel = b.at(p, j), ldb = b.si;
                    auto run = [&](Panel<T> rows_of_a, int64_t i, int64_t count) {
                        with_width<T>(cols, [&](auto vectors) {
                            sweep<T, decltype(vectors)::value>(rows_of_a, panel, ldb, kc, out, i, count, j, cols,
                                                               p > 0);
                        });
                    };
                    if constexpr (std::is_same_v<T, A>)
                        if (a_direct) {
                            run({a.at(i0, p), a.sj == 1 ? a.si : a.sj, a.sj == 1}, i0, i1 - i0);
                            continue;
                        }
                    if (a_rows) {
                        run({packed_a, kc, true}, i0, i1 - i0);
                        continue;
                    }
                    for (int64_t i = i0; i < i1; i += tile_rows)
                        run({packed_a + (i - i0) * kc, tile_rows, false}, i, smaller(tile_rows, i1 - i));
                }
            }
        }
}

// Half the lanes onto the other half, again and again, until all hold the sum.
template <class T, int d = lanes<T> / 2>
inline T sum_of_lanes(Vector<T> x) {
    if constexpr (d == 0)
        return x[0];
    else {
        Vector<T> low = x, high = x;
        exchange<T, d>(low, high, std::make_integer_sequence<int, lanes<T>>{});
        return sum_of_lanes<T, d / 2>(low + high);
    }
}

// sums[r] += the sum of x[r * ldx + p] * y[p] for R rows x, several vectors at a time.
template <class T, int R>
inline void dot_rows(const T* x, int64_t ldx, const T* y, int64_t k, T* sums) {
    using V = Vector<T>;
    constexpr int W = lanes<T>, U = R == 1 ? 4 : 2;
    V sum[R][U] = {};
    int64_t p = 0;
    for (; p + U * W <= k; p += U * W)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
            const V line = *(const V*)(y + p + u * W);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) sum[r][u] += *(const V*)(x + r * ldx + p + u * W) * line;
        }
    for (; p + W <= k; p += W)
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) sum[r][0] += *(const V*)(x + r * ldx + p) * *(const V*)(y + p);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
        V all = sum[r][0] + sum[r][1];
        if constexpr (U == 4) all += sum[r][2] + sum[r][3];
        T rest = sum_of_lanes<T>(all);
        for (int64_t q = p; q < k; q++) rest += x[r * ldx + q] * y[q];
        sums[r] += rest;
    }
}

// One block with few rows and contiguous depth.
template <class T, class C>
void dots(Matrix<const T> a, Matrix<const T> b, Matrix<C> out, int64_t k, Block at) {
    const int64_t rows = at.row1 - at.row0;
    T* lines = (T*)scratch<1>(larger(rows * k, 1) * int64_t(sizeof(T)));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = 0; p < k; p++) lines[i * k + p] = *a.at(at.row0 + i, p);
    constexpr int64_t piece = long_chain * 2 * lanes<T>;
    for (int64_t j = at.col0; j < at.col1; j++) {
        T sums[skinny] = {};
        for (int64_t p = 0; p < k; p += piece) {
            const int64_t depth = smaller(piece, k - p);
            if (rows == 1) dot_rows<T, 1>(lines + p, k, b.at(p, j), depth, sums);
            if (rows == 2) dot_rows<T, 2>(lines + p, k, b.at(p, j), depth, sums);
            if (rows == 3) dot_rows<T, 3>(lines + p, k, b.at(p, j), depth, sums);
            if (rows == 4) dot_rows<T, 4>(lines + p, k, b.at(p, j), depth, sums);
        }
        store(sums, 1, rows, 1, out, at.row0, j, false);
    }
}

// sums (stride ld) += A[rows, depth] * B[depth, width], one product at a time: the edges of `stream`.
template <class T>
__attribute__((noinline)) void stream_edge(Matrix<const T> a, const T* b, int64_t ldb, int64_t rows, int64_t depth,
                                           int64_t width, T* sums, int64_t ld) {
    for (int64_t p = 0; p < depth; p++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < width; j++) sums[r * ld + j] += *a.at(r, p) * b[p * ldb + j];
}

// sums (R rows, stride width) += R rows of A times B[depth, width], four rows of B at a time.
template <class T, int R>
__attribute__((noinline)) void stream(Matrix<const T> a, const T* b, int64_t ldb, int64_t depth, int64_t width,
                                      T* sums) {
    using V = Vector<T>;
    const int64_t whole = width / lanes<T> * lanes<T>, head = depth % 4;
    if (whole < width) stream_edge(a, b + whole, ldb, R, depth, width - whole, sums + whole, width);
    if (head) stream_edge(a, b, ldb, R, head, whole, sums, width);
    for (int64_t p = head; p < depth; p += 4) {
        const T* line = b + p * ldb;
        V scalar[R][4];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) scalar[r][q] = V{} + *a.at(r, p + q);
        for (int64_t j = 0; j < whole; j += lanes<T>) {
            V x[4];
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) x[q] = *(const V*)(line + q * ldb + j);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                V* sum = (V*)(sums + r * width + j);
                *sum += (scalar[r][0] * x[0] + scalar[r][1] * x[1]) + (scalar[r][2] * x[2] + scalar[r][3] * x[3]);
            }
        }
    }
}

// One block with few rows and contiguous columns: B is read once, row after row.
template <class T, class C>
void streams(Matrix<const T> a, Matrix<const T> b, Matrix<C> out, int64_t k, Block at) {
    const int64_t rows = at.row1 - at.row0, columns = 2048;
    T* sums = (T*)scratch<1>(2 * rows * columns * int64_t(sizeof(T)));
    T* part = sums + rows * columns;  // of one depth block: long sums are sums of sums, which rounds less
    for (int64_t j = at.col0; j < at.col1; j += columns) {
        const int64_t width = smaller(columns, at.col1 - j), size = rows * width;
        for (int64_t x = 0; x < size; x++) sums[x] = T(0);
        for (int64_t p = 0; p < k; p += depth_block) {
            const int64_t depth = smaller(depth_block, k - p);
            const Matrix<const T> left{a.at(at.row0, p), a.si, a.sj};
            for (int64_t x = 0; x < size; x++) part[x] = T(0);
            if (rows == 1) stream<T, 1>(left, b.at(p, j), b.si, depth, width, part);
            if (rows == 2) stream<T, 2>(left, b.at(p, j), b.si, depth, width, part);
            if (rows == 3) stream<T, 3>(left, b.at(p, j), b.si, depth, width, part);
            if (rows == 4) stream<T, 4>(left, b.at(p, j), b.si, depth, width, part);
            for (int64_t x = 0; x < size; x++) sums[x] += part[x];
        }
        store(sums, width, rows, width, out, at.row0, j, false);
    }
}

// How many tasks to cut `work` into: four for each worker, or fewer where they would be small.
inline int64_t tasks_for(double work, int64_t workers) {
    if (workers == 1) return 1;
    return larger(workers, smaller(4 * workers, int64_t(work / task_work)));
}

// How many (row blocks, column blocks) make `tasks` blocks whose largest costs least.
struct Grid {
    int64_t rows, cols;
};
inline Grid grid(int64_t m, int64_t n, int64_t tasks, int64_t row_unit, int64_t col_unit) {
    Grid best{1, 1};
    double least = 1e300;
    for (int64_t r = 1; r <= tasks; r++) {
        int64_t c = tasks / r;
        double height = double(ceil_quotient(ceil_quotient(m, row_unit), r) * row_unit);
        double width = double(ceil_quotient(ceil_quotient(n, col_unit), c) * col_unit);
        double cost = height * width + 2 * width * double(row_unit) + height * double(row_unit) / 4;
        if (cost < least) least = cost, best = {r, c};
    }
    return best;
}

}  // namespace tile

template <class T, class A, class B, class C>
void matmul(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, int64_t k, const A* a, int64_t a_batch,
            int64_t a_row, int64_t a_depth, const B* b, int64_t b_batch, int64_t b_depth, int64_t b_col, C* out) {
    using namespace tile;
    if (batch <= 0 || m <= 0 || n <= 0) return;
    auto run = [&](auto left, int64_t left_batch, auto right, int64_t right_batch, Matrix<C> to, int64_t rows,
                   int64_t cols) {
        constexpr bool same = std::is_same_v<A, T> && std::is_same_v<B, T>;
        const bool by_streams = same && rows <= skinny && right.sj == 1 && k > 0;
        const bool by_dots = same && rows <= skinny && k >= deep && right.si == 1 && !by_streams;
        const double columns = double(by_dots || by_streams ? cols : larger(cols, lanes<T>));  // whole registers
        const double work = double(batch) * double(rows) * columns * double(larger(k, 8));
        const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads);
        const int64_t row_unit = tile_rows, col_unit = by_dots ? 1 : tile_columns<T>;
        const Grid g = grid(rows, cols, ceil_quotient(tasks_for(work, workers), batch), row_unit, col_unit);
        const int64_t height = ceil_quotient(ceil_quotient(rows, row_unit), g.rows) * row_unit;
        const int64_t width = ceil_quotient(ceil_quotient(cols, col_unit), g.cols) * col_unit;
        const int64_t tasks = batch * g.rows * g.cols;
        auto body = [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) {
                const int64_t i = t / g.cols % g.rows * height, j = t % g.cols * width, e = t / (g.rows * g.cols);
                const Block at{i, smaller(i + height, rows), j, smaller(j + width, cols)};
                if (at.row0 >= at.row1 || at.col0 >= at.col1) continue;
                auto x = left, y = right;
                x.data += e * left_batch, y.data += e * right_batch;
                const Matrix<C> z{to.data + e * m * n, to.si, to.sj};
                if constexpr (same)
                    if (by_dots) {
                        dots<T>(x, y, z, k, at);
                        continue;
                    }
                if constexpr (same)
                    if (by_streams) {
                        streams<T>(x, y, z, k, at);
                        continue;
                    }
                if constexpr (by_four<A, B, C>)
                    byte_block(x, y, z, k, at);
                else
                    block<T>(x, y, z, k, at);
            }
        };
        parallel(rt, tasks, workers == 1 ? tasks : ceil_quotient(tasks, 4 * workers), body);
    };
    const Matrix<const A> left{a, a_row, a_depth};
    const Matrix<const B> right{b, b_depth, b_col};
    const Matrix<C> to{out, n, 1};
    if (n <= skinny && m > n && (k >= deep || a_row == 1))
        run(right.transposed(), b_batch, left.transposed(), a_batch, to.transposed(), n, m);
    else
        run(left, a_batch, right, b_batch, to, m, n);
}

}  // namespace dynacomp
