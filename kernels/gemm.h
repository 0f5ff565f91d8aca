// Matrix products: out[b, i, j] = sum over p of a[b, i, p] * b[b, p, j], for any strides.
//
// The work is cut into blocks of rows x columns, one or more per thread, without any exchange
// between them. Inside a block: columns by columns_block, depth by depth_block; a panel of B is
// packed into this thread's scratch (or read in place where that is as quick), then register tiles
// sweep over the rows of A. Skinny products (few rows, or few columns: the roles are swapped) read B as it lies
// instead, see skinny.h; many rows against few columns see tall.h.
//
// Numbers of one byte are multiplied four at a time where the machine can (see bytes.h), else as floats, of which it
// multiplies more at once than integers: the sums of depth_block products are exact (255 * 255 * 256 < 2^24), and are
// added up as integers.
#pragma once
#include "tile.h"

namespace dynacomp {
namespace tile {

constexpr int64_t depth_block = 256, columns_block = 512, rows_block = 480;
constexpr int64_t near = 1024;               // bytes between rows that share no part of a cache
constexpr double parallel_work = 1 << 20;    // multiply-adds worth waking a thread for
constexpr double fetch_work = 44;            // multiply-adds in the time that an element takes from core to core
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
            narrow_run(row, cols, to);
        else
            for (int64_t c = 0; c < cols; c++) to[c * out.sj] = narrow<C>(row[c]);
    }
}

}  // namespace tile
}  // namespace dynacomp
#include "bytes.h"
#include "skinny.h"
#include "tall.h"
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
    const int64_t lines = b.sj == 1 && b.si * int64_t(sizeof(B)) > near ? 8 : depth;  // as they lie, not panel by panel
    T* packed_b = (T*)scratch<0>(depth * width * int64_t(sizeof(T)));
    T* packed_a = a_direct ? nullptr : (T*)scratch<1>((height + tile_rows) * depth * int64_t(sizeof(T)));
    for (int64_t j0 = at.col0; j0 < at.col1; j0 += width)
        for (int64_t p = 0; p < k; p += depth) {
            const int64_t kc = smaller(depth, k - p), j1 = smaller(j0 + width, at.col1);
            auto direct = [&](int64_t j) { return b_direct && j + NR <= j1; };
            for (int64_t q = 0; q < kc; q += lines)
                for (int64_t j = j0; j < j1; j += NR)
                    if (!direct(j))
                        pack<T>(b.at(p + q, j), b.si, b.sj, smaller(lines, kc - q), smaller(NR, j1 - j), NR,
                                packed_b + (j - j0) * kc + q * NR, NR);
            for (int64_t i0 = at.row0; i0 < at.row1; i0 += height) {
                const int64_t i1 = smaller(i0 + height, at.row1);
                if (!a_direct && a_rows)
                    for (int64_t i = i0; i < i1; i++) widen_run(a.at(i, p), kc, packed_a + (i - i0) * kc);
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

// How many tasks to cut `work` into: four for each worker, or fewer where they would be small.
inline int64_t tasks_for(double work, int64_t workers) {
    if (workers == 1) return 1;
    return larger(workers, smaller(4 * workers, int64_t(work / task_work)));
}

// How many (row blocks, column blocks) make `tasks` blocks whose largest costs least, in elements. `apart` is what an
// element costs that lies in another core's cache: whatever reads the result goes by rows, so columns cut are apart.
struct Grid {
    int64_t rows, cols;
};
inline Grid grid(int64_t m, int64_t n, int64_t tasks, int64_t row_unit, int64_t col_unit, double apart = 0) {
    Grid best{1, 1};
    double least = 1e300;
    for (int64_t r = 1; r <= tasks; r++) {
        int64_t c = tasks / r;
        double height = double(ceil_quotient(ceil_quotient(m, row_unit), r) * row_unit);
        double width = double(ceil_quotient(ceil_quotient(n, col_unit), c) * col_unit);
        double cost = height * width + 2 * width * double(row_unit) + height * double(row_unit) / 4;
        cost += height * width * apart * double(c - 1) / double(c);
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
    if constexpr (std::is_same_v<T, A> && std::is_floating_point_v<T>)
        if (is_tall<T>(m, n, k, a_depth))
            return tall_product(rt, batch, m, n, k, a, a_batch, a_row, b, b_batch, b_depth, b_col, out);
    auto run = [&](auto left, int64_t left_batch, auto right, int64_t right_batch, Matrix<C> to, int64_t rows,
                   int64_t cols) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(right.data)>>;
        const Way chosen = way<T, Element>(rows, cols, k, right);
        const bool in_blocks = chosen == Way::blocks;
        const double columns = double(in_blocks ? larger(cols, lanes<T>) : cols);  // whole registers
        const double work = double(batch) * double(rows) * columns * double(larger(k, 8));
        const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads);
        const int64_t row_unit = in_blocks ? tile_rows : rows;
        const int64_t col_unit = chosen == Way::dots ? 1 : tile_columns<T>;
        const Grid g = grid(rows, cols, ceil_quotient(tasks_for(work, workers), batch), row_unit, col_unit,
                            fetch_work / double(larger(k, 1)));
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
                if constexpr (std::is_same_v<T, Element> || widens<T, Element>)
                    if (!in_blocks) {
                        chosen == Way::dots ? dots<T>(x, y, z, k, at) : streams<T>(x, y, z, k, at);
                        continue;
                    }
                if constexpr (by_four<A, B, C>)
                    byte_block(x, y, z, k, at);
                else
                    block<T>(x, y, z, k, at);
            }
        };
        parallel(rt, tasks, workers == 1 ? tasks : 1, body);
    };
    const Matrix<const A> left{a, a_row, a_depth};
    const Matrix<const B> right{b, b_depth, b_col};
    const Matrix<C> to{out, n, 1};
    if (n <= group && m > n && (k >= 32 || a_row == 1))
        run(right.transposed(), b_batch, left.transposed(), a_batch, to.transposed(), n, m);
    else
        run(left, a_batch, right, b_batch, to, m, n);
}

}  // namespace dynacomp
