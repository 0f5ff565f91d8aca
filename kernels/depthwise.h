// Convolutions with few channels and features per group, where a matrix product would be all edge.
//
// Three ways, by what lies together in memory: the groups (`lanes_groups`: each lane is a group), the
// positions (`lanes_positions`: a band of rows is copied, padded, and every tap is a shifted read),
// or the taps (`lanes_taps`: weight gradients, dot products of rows).
#pragma once
#include "phase.h"

namespace dynacomp::tile {

// How one group of an array follows the other, and what a group holds.
struct Groups {
    int64_t count, images, channels, features, lhs, rhs, res;
};
inline Groups groups_of(const Conv& v) {
    const int64_t count = v.groups * v.batch_groups, images = v.n / v.batch_groups, channels = v.c / v.groups;
    const int64_t features = v.k / count, lhs = v.batch_groups > 1 ? images * v.lhs[0] : channels * v.lhs[1];
    return {count, images, channels, features, lhs, features * v.rhs[0], features * v.res[1]};
}

// Sums NV vectors of neighbouring groups at one output position: to = sum over channels and taps.
template <class T, int NV>
void sum_groups(const Conv& v, const Axis (&a)[3], const Groups& g, const T* lhs, const T* rhs, const int64_t (&x)[3],
                T* to) {
    using V = Vector<T>;
    V total[NV] = {};
    Range r[3];
    for (int d = 0; d < 3; d++) r[d] = taps_inside(a[d], x[d]);
    for (int64_t c = 0; c < g.channels; c++)
        for (int64_t u0 = r[0].low; u0 < r[0].high; u0++)
            for (int64_t u1 = r[1].low; u1 < r[1].high; u1++) {
                const T* from = lhs + c * v.lhs[1] + (x[0] + u0 * a[0].off_step) * v.lhs[2] +
                                (x[1] + u1 * a[1].off_step) * v.lhs[3] + x[2] * v.lhs[4];
                const T* weight = rhs + c * v.rhs[1] + (a[0].tap0 + u0 * a[0].tap_step) * v.rhs[2] +
                                  (a[1].tap0 + u1 * a[1].tap_step) * v.rhs[3] + a[2].tap0 * v.rhs[4];
                const int64_t step = a[2].off_step * v.lhs[4], weight_step = a[2].tap_step * v.rhs[4];
                V row[NV] = {};
                for (int64_t u2 = r[2].low; u2 < r[2].high; u2++)
#pragma GCC unroll 4
                    for (int i = 0; i < NV; i++)
                        row[i] += *(const V*)(from + u2 * step + i * lanes<T>) *
                                  *(const V*)(weight + u2 * weight_step + i * lanes<T>);
#pragma GCC unroll 4
                for (int i = 0; i < NV; i++) total[i] += row[i];
            }
    for (int i = 0; i < NV; i++) *(V*)(to + i * lanes<T>) = total[i];
}

template <class T>
void lanes_groups(const dynacomp_runtime* rt, const Conv& v, const Groups& g, const T* lhs, const T* rhs, T* out,
                  int64_t workers) {
    constexpr int W = lanes<T>;
    const int64_t ph[3] = {phases(v, 0), phases(v, 1), phases(v, 2)};
    const int64_t chunks = ceil_quotient(g.count, 4 * W), outputs = g.images * v.out[0] * v.out[1] * v.out[2];
    const int64_t tasks = chunks * outputs;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            const int64_t sizes[3] = {v.out[0], v.out[1], v.out[2]};
            const Split o = split(task / chunks, g.images, false, sizes);
            Axis a[3];
            int64_t x[3], to = o.outer * v.res[0];
            for (int d = 0; d < 3; d++) {
                a[d] = axis(v, d, o.x[d] % ph[d]);
                x[d] = o.x[d] / ph[d] * a[d].stride + a[d].off0;
                to += o.x[d] * v.res[2 + d];
            }
            const int64_t first = task % chunks * 4 * W, last = smaller(first + 4 * W, g.count);
            const T *left = lhs + o.outer * v.lhs[0], *right = rhs;
            int64_t i = first;
            if (last - i == 4 * W) {
                sum_groups<T, 4>(v, a, g, left + i, right + i, x, out + to + i);
                continue;
            }
            for (; i + W <= last; i += W) sum_groups<T, 1>(v, a, g, left + i, right + i, x, out + to + i);
            if (i < last && last >= W) {  // once more the whole last vector: the same values again
                i = last - W;
                sum_groups<T, 1>(v, a, g, left + i, right + i, x, out + to + i);
            }
        }
    });
}

// A band of rows of the padded input in scratch: line (channel, u0, row), each line split by
// remainder of the column by the stride, so that neighbouring outputs read neighbours.
struct Band {
    int64_t rows, segment, line;  // lines per (channel, u0), elements per remainder and per line
};

template <class T, class A>
void copy_band(const Conv& v, const Axis (&a)[3], const Groups& g, const Band& band, const A* lhs, int64_t x0,
               int64_t x1, T* to) {
    const int64_t stride = a[2].stride, width = band.segment * stride;
    for (int64_t c = 0; c < g.channels; c++)
        for (int64_t u0 = 0; u0 < a[0].taps; u0++)
            for (int64_t r = 0; r < band.rows; r++, to += band.line) {
                for (int64_t i = 0; i < band.line; i++) to[i] = T(0);
                const int64_t y0 = x0 + u0 * a[0].off_step, y1 = x1 + r;
                if (y0 < 0 || y0 >= a[0].size || y1 < 0 || y1 >= a[1].size) continue;
                const A* from = lhs + c * v.lhs[1] + y0 * v.lhs[2] + y1 * v.lhs[3];
                const int64_t begin = larger(0, a[2].off0), end = smaller(a[2].size, a[2].off0 + width);
                if (stride == 1 && v.lhs[4] == 1 && begin < end)
                    widen_run(from + begin, end - begin, to + begin - a[2].off0);
                else
                    for (int64_t x = begin, at = begin - a[2].off0; x < end; x++, at++)
                        to[at % stride * band.segment + at / stride] = widen<T>(from[x * v.lhs[4]]);
            }
}

// Products that are summed one after another, before they go to the total: an error grows with the length of the chain.
constexpr int64_t chain = 32;

// R rows x NV vectors of outputs, every tap a shifted read of the band.
template <class T, int R, int NV>
__attribute__((noinline)) void sum_taps(const T* from, int64_t row, const int64_t* shift, const T* weight,
                                        int64_t taps, T* to) {
    using V = Vector<T>;
    V total[R][NV] = {};
    for (int64_t begin = 0; begin == 0 || begin < taps; begin += chain) {
        V sum[R][NV] = {};
        for (int64_t q = begin; q < smaller(taps, begin + chain); q++) {
            const T* at = from + shift[q];
            const T w = weight[q];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 4
                for (int i = 0; i < NV; i++) sum[r][i] += w * *(const V*)(at + r * row + i * lanes<T>);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int i = 0; i < NV; i++) total[r][i] += sum[r][i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < NV; i++) *(V*)(to + (r * NV + i) * lanes<T>) = total[r][i];
}

// All outputs of one feature in one band; `at` is where output (0, 0) of the band goes.
template <class T, int R, int NV, class C>
void sum_band(const Conv& v, const Axis (&a)[3], const Band& band, const T* from, const int64_t* shift,
              const T* weight, int64_t taps, int64_t rows, C* at) {
    constexpr int W = NV * lanes<T>;
    alignas(64) T sums[R * W];
    const int64_t row_step = a[1].out_step * v.res[3], step = a[2].out_step * v.res[4];
    for (int64_t r = 0; r < rows; r += R)
        for (int64_t x = 0; x < a[2].outs; x += W) {
            sum_taps<T, R, NV>(from + r * a[1].stride * band.line + x, a[1].stride * band.line, shift, weight, taps, sums);
            const int64_t width = smaller(W, a[2].outs - x);
            for (int64_t i = 0; i < smaller(R, rows - r); i++) {
                C* to = at + (r + i) * row_step + x * step;
                if (step == 1)
                    narrow_run(sums + i * W, width, to);
                else
                    for (int64_t j = 0; j < width; j++) to[j * step] = narrow<C>(sums[i * W + j]);
            }
        }
}

template <class T, class A, class B, class C>
void lanes_positions(const dynacomp_runtime* rt, const Conv& v, const Groups& g, const A* lhs, const B* rhs, C* out,
                     int64_t workers) {
    constexpr int rows_at_once = 8;
    const int64_t ph[3] = {phases(v, 0), phases(v, 1), phases(v, 2)};
    const int64_t height = larger(rows_at_once, smaller(v.out[1], (1 << 14) / larger(1, v.out[2] * g.channels)));
    const int64_t bands = ceil_quotient(v.out[1], height), tasks = ph[0] * ph[1] * ph[2] * g.images * g.count * v.out[0] * bands;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            int64_t t = task;
            const int64_t first = t % bands * height, o0 = (t /= bands) % v.out[0];
            const int64_t group = (t /= v.out[0]) % g.count, image = (t /= g.count) % g.images;
            t /= g.images;
            const Axis a[3] = {axis(v, 0, t / (ph[1] * ph[2])), axis(v, 1, t / ph[2] % ph[1]), axis(v, 2, t % ph[2])};
            if (o0 >= a[0].outs || first >= a[1].outs || a[2].outs <= 0) continue;
            const int64_t rows = smaller(height, a[1].outs - first), padded = ceil_quotient(rows, rows_at_once) * rows_at_once;
            const int64_t taps = g.channels * a[0].taps * a[1].taps * a[2].taps;
            Band band;
            band.rows = (padded - 1) * a[1].stride + larger(0, a[1].taps - 1) * a[1].off_step + 1;
            band.segment = a[2].outs + larger(0, a[2].taps - 1) * a[2].off_step / a[2].stride + 1;
            band.line = band.segment * a[2].stride;
            const int64_t size = g.channels * a[0].taps * band.rows * band.line + 4 * lanes<T>;
            T* input = (T*)scratch<1>(size * int64_t(sizeof(T)));
            T* weight = (T*)scratch<0>(larger(1, taps) * int64_t(sizeof(T) + sizeof(int64_t)) + 64);
            int64_t* shift = (int64_t*)((char*)weight + ceil_quotient(taps * int64_t(sizeof(T)), 64) * 64);
            const int64_t x0 = o0 * a[0].stride + a[0].off0, x1 = first * a[1].stride + a[1].off0;
            copy_band(v, a, g, band, lhs + group * g.lhs + image * v.lhs[0], x0, x1, input);
            for (int64_t k = 0; k < g.features; k++) {
                int64_t q = 0;
                for (int64_t c = 0; c < g.channels; c++)
                    for (int64_t u0 = 0; u0 < a[0].taps; u0++)
                        for (int64_t u1 = 0; u1 < a[1].taps; u1++)
                            for (int64_t u2 = 0; u2 < a[2].taps; u2++, q++) {
                                const int64_t at = u2 * a[2].off_step, line = (c * a[0].taps + u0) * band.rows;
                                shift[q] = (line + u1 * a[1].off_step) * band.line + at % a[2].stride * band.segment +
                                           at / a[2].stride;
                                weight[q] = widen<T>(rhs[group * g.rhs + k * v.rhs[0] + c * v.rhs[1] +
                                                         (a[0].tap0 + u0 * a[0].tap_step) * v.rhs[2] +
                                                         (a[1].tap0 + u1 * a[1].tap_step) * v.rhs[3] +
                                                         (a[2].tap0 + u2 * a[2].tap_step) * v.rhs[4]]);
                            }
                C* to = out + group * g.res + k * v.res[1] + image * v.res[0] + a[2].out0 * v.res[4] +
                        (a[0].out0 + o0 * a[0].out_step) * v.res[2] + (a[1].out0 + first * a[1].out_step) * v.res[3];
                if (a[2].outs <= lanes<T>)
                    sum_band<T, 8, 1>(v, a, band, input, shift, weight, taps, rows, to);
                else if (a[2].outs <= 2 * lanes<T>)
                    sum_band<T, 4, 2>(v, a, band, input, shift, weight, taps, rows, to);
                else
                    sum_band<T, 2, 4>(v, a, band, input, shift, weight, taps, rows, to);
            }
        }
    });
}

// Sum of x[i] * y[i]: whole vectors go into `sum`, the rest is returned.
template <class T>
inline T dot_into(Vector<T>& sum, const T* x, const T* y, int64_t count) {
    int64_t i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) sum += *(const Vector<T>*)(x + i) * *(const Vector<T>*)(y + i);
    T rest = 0;
    for (; i < count; i++) rest += x[i] * y[i];
    return rest;
}

// Weight gradients: few outputs, many taps, which lie together in lhs and rhs.
template <class T>
void lanes_taps(const dynacomp_runtime* rt, const Conv& v, const Groups& g, const T* lhs, const T* rhs, T* out,
                int64_t workers) {
    const int64_t outputs = g.images * v.out[0] * v.out[1] * v.out[2];
    parallel(rt, g.count, workers == 1 ? g.count : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin * outputs; task < end * outputs; task++) {
            const int64_t sizes[3] = {v.out[0], v.out[1], v.out[2]}, group = task / outputs;
            const Split o = split(task % outputs, g.images, false, sizes);
            Range r[3];
            int64_t x[3];
            for (int d = 0; d < 3; d++) {
                x[d] = o.x[d] * v.stride[d] - v.pad[d];
                r[d] = taps_inside(axis(v, d, 0), x[d]);
            }
            T total = 0;
            for (int64_t c = 0; c < g.channels; c++) {
                Vector<T> sum = {};
                T rest = 0;
                for (int64_t u0 = r[0].low; u0 < r[0].high; u0++)
                    for (int64_t u1 = r[1].low; u1 < r[1].high; u1++)
                        rest += dot_into<T>(sum,
                                            lhs + group * g.lhs + o.outer * v.lhs[0] + c * v.lhs[1] +
                                                (x[0] + u0 * v.rhs_dilation[0]) * v.lhs[2] +
                                                (x[1] + u1 * v.rhs_dilation[1]) * v.lhs[3] + x[2] + r[2].low,
                                            rhs + group * g.rhs + c * v.rhs[1] + u0 * v.rhs[2] + u1 * v.rhs[3] + r[2].low,
                                            r[2].high - r[2].low);
                for (int i = 0; i < lanes<T>; i++) rest += sum[i];
                total += rest;
            }
            out[group * g.res + o.outer * v.res[0] + o.x[0] * v.res[2] + o.x[1] * v.res[3] + o.x[2] * v.res[4]] = total;
        }
    });
}

// Runs the convolution if one of the three ways fits it; false if none does.
template <class T, class A, class B, class C>
bool depthwise(const dynacomp_runtime* rt, const Conv& v, const A* lhs, const B* rhs, C* out) {
    constexpr bool same = std::is_same_v<A, T> && std::is_same_v<B, T> && std::is_same_v<C, T>;
    const Groups g = groups_of(v);
    if (g.features > 4 || (g.count == 1 && v.out[2] <= 4)) return false;
    const int64_t taps = v.kernel[0] * v.kernel[1] * v.kernel[2];
    const double work = double(g.images) * double(v.k) * double(v.out[0] * v.out[1] * v.out[2]) * double(g.channels * taps);
    const int64_t workers = work < parallel_work / 8 ? 1 : larger(1, rt->threads);
    if constexpr (same) {
        if (g.features == 1 && g.lhs == 1 && g.rhs == 1 && g.res == 1 && g.count >= lanes<T>) {
            lanes_groups<T>(rt, v, g, lhs, rhs, out, workers);
            return true;
        }
        const bool plain = v.lhs_dilation[0] * v.lhs_dilation[1] * v.lhs_dilation[2] == 1 && v.rhs_dilation[2] == 1;
        if (g.features == 1 && plain && v.lhs[4] == 1 && v.rhs[4] == 1 && v.out[2] < v.kernel[2]) {
            lanes_taps<T>(rt, v, g, lhs, rhs, out, workers);
            return true;
        }
    }
    if (g.channels * taps > 1024 || v.out[2] < 4) return false;
    lanes_positions<T>(rt, v, g, lhs, rhs, out, workers);
    return true;
}

}  // namespace dynacomp::tile
