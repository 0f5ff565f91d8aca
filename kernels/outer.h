// Convolutions whose images lie side by side in memory (as do the features of weights and output):
// what the gradient for the weights of a channels-last convolution is. Each output position is
//
//     out[images x features] = sum over (channel, tap) inside of lhs[images] (outer product) rhs[features]
//
// and both factors are contiguous, so that nothing is packed: register tiles read them in place, along
// runs of taps of the last dimension that are inside the image (what is outside costs nothing).
#pragma once
#include "phase.h"

namespace dynacomp {
namespace tile {

// `count` depths from (a, b) on, evenly spaced.
struct Run {
    int64_t a, b, count;
};

// c (MR x NV vectors, row stride ldc) = or += the sum over all runs of outer products of MR elements
// from a and NV vectors from b; within a run they are lda and ldb apart.
template <class T, int MR, int NV>
__attribute__((noinline)) void multiply_runs(const Run* runs, int64_t count, const T* a, int64_t lda, const T* b,
                                             int64_t ldb, T* c, int64_t ldc, bool add) {
    using V = Vector<T>;
    V sum[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sum[i][v] = V{};
    for (int64_t r = 0; r < count; r++) {
        const T *x = a + runs[r].a, *y = b + runs[r].b;
        for (int64_t p = 0; p < runs[r].count; p++, x += lda, y += ldb) {
            V column[NV];
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) column[v] = *(const V*)(y + v * lanes<T>);
#pragma GCC unroll 16
            for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
                for (int v = 0; v < NV; v++) sum[i][v] += x[i] * column[v];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            V* to = (V*)(c + i * ldc + v * lanes<T>);
            *to = add ? *to + sum[i][v] : sum[i][v];
        }
}

// The runs of one position, listed block by block of at most `outer_depth` depths.
constexpr int64_t outer_depth = 128;
struct Runs {
    Run list[outer_depth];
    int64_t count = 0, depth = 0;
};

// Adds depths to the block and calls flush() whenever it is full.
template <class F>
inline void add_run(Runs& block, Run run, int64_t lda, int64_t ldb, F&& flush) {
    while (run.count > 0) {
        if (block.depth == outer_depth) flush();
        const int64_t some = smaller(run.count, outer_depth - block.depth);
        Run* last = block.count ? &block.list[block.count - 1] : nullptr;
        if (last && last->a + last->count * lda == run.a && last->b + last->count * ldb == run.b)
            last->count += some;
        else
            block.list[block.count++] = {run.a, run.b, some};
        block.depth += some;
        run = {run.a + some * lda, run.b + some * ldb, run.count - some};
    }
}

// Images [0, rows) and features [0, cols) of one position, whose coordinates are `s`.
template <class T>
void outer_position(const Phase& f, const T* lhs, const T* rhs, T* out, const Split& s, int64_t rows, int64_t cols) {
    const Conv& v = *f.conv;
    const Axis *z = &f.axis[0], *y = &f.axis[1], *x = &f.axis[2];
    const Position p = position(f, s);
    const int64_t lda = x->off_step * v.lhs[4], ldb = x->tap_step * v.rhs[4];
    Runs block;
    bool add = false;
    auto flush = [&] {
        for (int64_t j = 0; j < cols; j += tile_columns<T>)
            with_width<T>(smaller(tile_columns<T>, cols - j), [&](auto vectors) {
                int64_t i = 0;
                auto step = [&](auto size) {
                    constexpr int MR = decltype(size)::value;
                    for (; i + MR <= rows; i += MR)
                        multiply_runs<T, MR, decltype(vectors)::value>(block.list, block.count, lhs + i, lda, rhs + j, ldb,
                                                                       out + p.out + i * v.res[0] + j, v.res[0], add);
                };
                step(std::integral_constant<int, tile_rows>{});
                step(std::integral_constant<int, 4>{});
                step(std::integral_constant<int, 2>{});
                step(std::integral_constant<int, 1>{});
            });
        add = true;
        block.count = block.depth = 0;
    };
    // Taps of the last dimension that are inside: u with 0 <= at + u * off_step < size.
    const int64_t at = p.x[2], step = x->off_step;
    const int64_t low = at < 0 ? ceil_quotient(-at, step) : 0;
    const int64_t high = at >= x->size ? 0 : smaller(x->taps, (x->size - 1 - at) / step + 1);
    for (int64_t c = 0; c < f.channels; c++)
        for (int64_t t = 0; t < z->taps; t++)
            for (int64_t u = 0; u < y->taps; u++) {
                const Depth q = depth(f, {c, {t, u, 0}});
                if (inside(f, p, q, 0) && inside(f, p, q, 1))
                    add_run(block, {p.in + q.in + low * lda, q.weight + low * ldb, high - low}, lda, ldb, flush);
            }
    if (block.depth > 0 || !add) flush();
}

// The whole convolution, or false where memory does not lie that way.
template <class T>
bool outer_products(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out) {
    const int64_t groups = v.groups * v.batch_groups, images = v.n / v.batch_groups, features = v.k / groups;
    const bool side_by_side = v.lhs[0] == 1 && v.rhs[0] == 1 && v.res[1] == 1;
    if (!side_by_side || images < 4 || features % lanes<T>) return false;
    const int64_t channels = v.c / v.groups, spatial = v.out[0] * v.out[1] * v.out[2];
    const int64_t ph[3] = {phases(v, 0), phases(v, 1), phases(v, 2)};
    const double work = double(images) * double(v.k) * double(spatial) * double(channels) *
                        double(v.kernel[0] * v.kernel[1] * v.kernel[2]);
    const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads), units = groups * spatial;
    const Grid g = grid(images, features, ceil_quotient(tasks_for(work, workers), units), tile_rows, tile_columns<T>);
    const int64_t height = ceil_quotient(ceil_quotient(images, tile_rows), g.rows) * tile_rows;
    const int64_t width = ceil_quotient(ceil_quotient(features, tile_columns<T>), g.cols) * tile_columns<T>;
    const int64_t tasks = units * g.rows * g.cols;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t first, int64_t last) {
        for (int64_t task = first; task < last; task++) {
            const int64_t i = task / g.cols % g.rows * height, j = task % g.cols * width;
            const int64_t u = task / (g.rows * g.cols);
            const int64_t group = u / spatial, place = u % spatial;
            const Split o = split(place, 1, false, v.out);
            Phase f{{axis(v, 0, o.x[0] % ph[0]), axis(v, 1, o.x[1] % ph[1]), axis(v, 2, o.x[2] % ph[2])},
                    images, channels, features, &v, true, false, false};
            if (i >= images || j >= features) continue;
            const int64_t left = v.batch_groups > 1 ? group * images * v.lhs[0] : group * channels * v.lhs[1];
            const int64_t k = group * features + j;
            outer_position(f, lhs + left + i, rhs + k, out + k + i * v.res[0],
                           {0, {o.x[0] / ph[0], o.x[1] / ph[1], o.x[2] / ph[2]}}, smaller(height, images - i),
                           smaller(width, features - j));
        }
    });
    return true;
}

}  // namespace tile
}  // namespace dynacomp
