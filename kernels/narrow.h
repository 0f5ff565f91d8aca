// Convolutions with few features whose channels lie together: the last layer of a U-Net or a decoder, a small network's.
// Vectors over the features would be mostly empty, so they run along the channels, or along the taps of a line and their
// channels where these lie together as well:
//
//     out[o, feature] = sum over lines of taps of (lhs[o + line, (tap, channel)] * rhs[feature, line, (tap, channel)])
//
// Several neighbours and all features are summed up at once (see dots.h), from the image where it lies.
#pragma once
#include "dots.h"
#include "phase.h"

namespace dynacomp {
namespace tile {

// Whether neighbouring taps of a line are neighbours in memory, with their channels.
inline bool are_together(const Conv& v, const Axis& a) { return v.lhs[4] == v.c && a.off_step == 1; }

template <class T>
inline bool is_narrow(const Conv& v) {
    const int64_t taps = v.kernel[0] * v.kernel[1] * v.kernel[2];
    const bool is_whole = v.lhs[4] == v.c && v.rhs_dilation[2] == 1 && v.lhs_dilation[2] == 1;
    const int64_t shortest = is_whole ? v.kernel[2] * v.c : v.c;  // of a phase, which may have one tap
    return v.groups == 1 && v.batch_groups == 1 && v.lhs[1] == 1 && v.k <= few_lines<T> && shortest >= lanes<T> &&
           taps * v.c <= 2 * long_chain * lanes<T>;
}

// The outputs of an axis all of whose taps lie inside.
inline Range whole_outputs(const Axis& a) {
    const int64_t reach = a.off0 + larger(0, a.taps - 1) * a.off_step, room = a.size - 1 - reach;
    const int64_t first = a.off0 < 0 ? ceil_quotient(-a.off0, a.stride) : 0;
    const int64_t last = room < 0 ? 0 : smaller(a.outs, room / a.stride + 1);
    return {smaller(first, a.outs), larger(smaller(first, a.outs), last)};
}

// One line of outputs, of one phase of the last dimension: the axes, and where it begins in memory.
template <class T>
struct NarrowLine {
    const Conv& v;
    Axis axis[3];
    int64_t x[3];  // of the first output's first tap; x[2] is that of the axis
    const T *lhs, *weights;  // the image; [feature][tap][channel]
    T* out;                  // the first output
    Piece* pieces;
    int64_t taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
};

// Lists the pieces of an output whose taps in the line are these; how many.
template <class T>
int64_t list_pieces(const NarrowLine<T>& l, Range along) {
    const Range planes = taps_inside(l.axis[0], l.x[0]), lines = taps_inside(l.axis[1], l.x[1]);
    const int64_t step = are_together(l.v, l.axis[2]) ? along.high - along.low : 1;
    int64_t count = 0;
    for (int64_t z = planes.low; z < planes.high; z++)
        for (int64_t y = lines.low; y < lines.high; y++)
            for (int64_t x = along.low; x < along.high; x += step)
                l.pieces[count++] = {z * l.axis[0].off_step * l.v.lhs[2] + y * l.axis[1].off_step * l.v.lhs[3] +
                                       x * l.axis[2].off_step * l.v.lhs[4],
                                   ((z * l.axis[1].taps + y) * l.axis[2].taps + x) * l.v.c,
                                   step * l.v.c};
    return count;
}

// P neighbours from output `at` on, from pieces that were listed for them.
template <class T, int P, int K>
inline void narrow_tile(const NarrowLine<T>& l, int64_t at, int64_t count) {
    const int64_t pace = l.axis[2].stride * l.v.lhs[4], next = l.axis[2].out_step * l.v.res[4];
    const int64_t from = l.x[0] * l.v.lhs[2] + l.x[1] * l.v.lhs[3] + l.x[2] * l.v.lhs[4] + at * pace;
    T sums[P * K];
    dot_tile<T, P, K>(l.lhs + from, pace, l.weights, l.taps() * l.v.c, l.pieces, count, sums);
    for (int p = 0; p < P; p++)
        for (int k = 0; k < K; k++) l.out[(at + p) * next + k * l.v.res[1]] = sums[p * K + k];
}

template <class T, int K>
void narrow_line(const NarrowLine<T>& l) {
    constexpr int P = sums_at_once<T> / K;
    const Axis& a = l.axis[2];
    const Range whole = whole_outputs(a);
    auto alone = [&](int64_t at) {
        narrow_tile<T, 1, K>(l, at, list_pieces(l, taps_inside(a, a.off0 + at * a.stride)));
    };
    for (int64_t at = 0; at < whole.low; at++) alone(at);
    for (int64_t at = whole.high; at < a.outs; at++) alone(at);
    const int64_t count = list_pieces(l, {0, a.taps});
    int64_t at = whole.low;
    for (; at + P <= whole.high; at += P) narrow_tile<T, P, K>(l, at, count);
    if (at < whole.high && whole.high - whole.low >= P) return narrow_tile<T, P, K>(l, whole.high - P, count);
    for (; at < whole.high; at++) narrow_tile<T, 1, K>(l, at, count);
}

// The weights of one phase as [feature][tap][channel].
template <class T>
void pack_phase(const Conv& v, const Axis (&a)[3], const T* rhs, T* to) {
    for (int64_t k = 0; k < v.k; k++)
        for (int64_t z = 0; z < a[0].taps; z++)
            for (int64_t y = 0; y < a[1].taps; y++)
                for (int64_t x = 0; x < a[2].taps; x++, to += v.c) {
                    const T* from = rhs + k * v.rhs[0] + (a[0].tap0 + z * a[0].tap_step) * v.rhs[2] +
                                    (a[1].tap0 + y * a[1].tap_step) * v.rhs[3] +
                                    (a[2].tap0 + x * a[2].tap_step) * v.rhs[4];
                    for (int64_t c = 0; c < v.c; c++) to[c] = from[c * v.rhs[1]];
                }
}

// The convolution, if it is one of these.
template <class T>
bool narrow_features(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out) {
    if (!is_narrow<T>(v)) return false;
    const int64_t ph[3] = {phases(v, 0), phases(v, 1), phases(v, 2)};
    const int64_t taps = v.kernel[0] * v.kernel[1] * v.kernel[2], size = v.k * taps * v.c;  // a phase has some of them
    T* weights = (T*)scratch<4>(ph[0] * ph[1] * ph[2] * size * int64_t(sizeof(T)));
    for (int64_t p = 0; p < ph[0] * ph[1] * ph[2]; p++)
        pack_phase(v, {axis(v, 0, p / (ph[1] * ph[2])), axis(v, 1, p / ph[2] % ph[1]), axis(v, 2, p % ph[2])}, rhs,
                   weights + p * size);
    const double work = double(v.n * v.out[0] * v.out[1] * v.out[2]) * double(size);
    const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads);
    const int64_t tasks = v.n * v.out[0] * v.out[1] * ph[2];
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        Piece* pieces = (Piece*)scratch<2>(taps * int64_t(sizeof(Piece)));
        for (int64_t task = begin; task < end; task++) {
            const int64_t px = task % ph[2], y = task / ph[2] % v.out[1], z = task / (ph[2] * v.out[1]) % v.out[0];
            const int64_t image = task / (ph[2] * v.out[1] * v.out[0]), pz = z % ph[0], py = y % ph[1];
            const Axis a = axis(v, 0, pz), b = axis(v, 1, py), c = axis(v, 2, px);
            const NarrowLine<T> line{v, {a, b, c},
                                     {z / ph[0] * a.stride + a.off0, y / ph[1] * b.stride + b.off0, c.off0},
                                     lhs + image * v.lhs[0], weights + ((pz * ph[1] + py) * ph[2] + px) * size,
                                     out + image * v.res[0] + z * v.res[2] + y * v.res[3] + px * v.res[4], pieces};
            with_features<few_lines<T>>(v.k, [&](auto features) { narrow_line<T, features.value>(line); });
        }
    });
    return true;
}

}  // namespace tile
}  // namespace dynacomp
