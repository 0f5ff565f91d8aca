// Convolution: out[n, k, o] = sum over c, t of lhs[n, c, o * stride + t * rhs_dilation - pad] * rhs[k, c, t]
// (where lhs_dilation is 1; zeros outside), any strides in memory, up to three spatial dimensions.
//
// Dilated inputs are first cut into phases: outputs whose position has the same remainder see the
// same subset of taps, as an ordinary convolution (`Axis`). A phase is then a matrix product of
// X [positions x depth] and W [features x depth], where positions are (image, o) and depth is
// (channel, tap), each in the order that suits memory. Blocks of X are packed just before use and
// never kept. The vectors run over positions or over features, whichever the output stores together.
// One channel per group needs no product: depthwise.h. Images side by side need no packing: outer.h; channels side by
// side, a copy of the image alone: lines.h. Few features fill no vectors: narrow.h. Those are tried first (`CONV_WAYS` in
// templates.py), where they may fit.
#pragma once
#include "depthwise.h"
#include "lines.h"
#include "narrow.h"
#include "outer.h"
#include "phase.h"

namespace dynacomp {
namespace tile {

// Neighbours that are evenly spaced in memory, and the part of them that is inside the image.
struct Stretch {
    int64_t first, length;
    int64_t unit, skip;  // element e is (skip + e) / unit steps along the last dimension (unit 0: never moves)
    int64_t low, high;   // the elements inside
};

// Sets low and high for a stretch whose step 0 is at coordinate x of the last dimension.
inline void clip(Stretch& s, bool rows_inside, int64_t x, int64_t step, int64_t size) {
    s.low = 0;
    s.high = rows_inside && (s.unit != 0 || uint64_t(x) < uint64_t(size)) ? s.length : 0;
    if (s.high == 0 || s.unit == 0) return;
    if (x < 0) s.low = smaller(s.length, ((step == 1 ? -x : ceil_quotient(-x, step)) * s.unit - s.skip));
    const int64_t steps = x >= size ? 0 : step == 1 ? size - x : (size - 1 - x) / step + 1;
    s.low = larger(0, s.low);
    s.high = larger(s.low, smaller(s.length, steps * s.unit - s.skip));
}

// to[0 .. length) = the stretch's elements, `pace` apart in memory; zeros outside the image.
template <class T, class S>
inline void copy(const Stretch& s, const S* from, int64_t pace, T* to) {
    if (pace == 1 && s.length == tile_columns<T> && s.high - s.low == tile_columns<T>) {  // a full panel
        copy_line(from, to);
        return;
    }
    for (int64_t e = 0; e < s.low; e++) to[e] = T(0);
    if (pace == 1 && s.low < s.high)
        widen_run(from + s.low, s.high - s.low, to + s.low);
    else
        for (int64_t e = s.low; e < s.high; e++) to[e] = widen<T>(from[e * pace]);
    for (int64_t e = s.high; e < s.length; e++) to[e] = T(0);
}

// to[q * ld + i] = X[i, q], position by position (at most 32) within each depth.
template <class T, class S>
void pack_columns(const Phase& f, const S* lhs, const Position* at, int64_t count, int64_t padded, const Depth* taps,
                  int64_t depth, T* to, int64_t ld) {
    const Axis& a = f.axis[2];
    const int64_t step = f.image_inner ? 0 : a.stride, pace = f.image_inner ? f.conv->lhs[0] : a.stride * f.conv->lhs[4];
    Stretch parts[32];
    int parts_count = 0;
    bool even = true, inside_all = false;
    for (int64_t i = 0; i < count; i++) {
        const bool spaced = i > 0 && at[i].in == at[i - 1].in + pace;
        even = even && (spaced || i == 0);
        if (spaced && at[i].x[0] == at[i - 1].x[0] && at[i].x[1] == at[i - 1].x[1] && at[i].x[2] == at[i - 1].x[2] + step)
            parts[parts_count - 1].length++;
        else
            parts[parts_count++] = {i, 1, step ? 1 : 0, 0, 0, 0};
    }
    for (int64_t q = 0; q < depth; q++, to += ld) {
        const Depth& tap = taps[q];
        if (q == 0 || tap.d[2] != taps[q - 1].d[2] || tap.d[1] != taps[q - 1].d[1] || tap.d[0] != taps[q - 1].d[0]) {
            inside_all = true;
            for (int r = 0; r < parts_count; r++) {
                const Position& p = at[parts[r].first];
                clip(parts[r], inside(f, p, tap, 0) && inside(f, p, tap, 1), p.x[2] + tap.d[2], a.stride, a.size);
                inside_all = inside_all && parts[r].high - parts[r].low == parts[r].length;
            }
        }
        const S* from = lhs + tap.in;
        if (even && inside_all && pace == 1 && count == tile_columns<T>) {
            copy_line(from + at[0].in, to);
            continue;
        }
        for (int r = 0; r < parts_count; r++) copy(parts[r], from + at[parts[r].first].in, pace, to + parts[r].first);
        for (int64_t i = count; i < padded; i++) to[i] = T(0);
    }
}

// The stretches of depth indices [begin, begin + depth) of the phase; how far apart their elements are.
struct Stretches {
    int64_t count, pace;
};
inline Stretches stretches(const Phase& f, int64_t begin, int64_t depth, Stretch* to) {
    const Conv& v = *f.conv;
    const Axis& last = f.axis[2];
    int64_t length = last.taps, unit = 1, pace = v.lhs[4] * last.off_step;
    if (f.channel_inner) {
        const bool merged = last.off_step == 1 && v.lhs[4] == f.channels && v.lhs[1] == 1;
        length = merged ? f.channels * last.taps : f.channels;
        unit = merged ? f.channels : 0;
        pace = v.lhs[1];
    }
    int64_t count = 0;
    for (int64_t q = 0; q < depth; count++) {
        const int64_t done = (begin + q) % length;
        to[count] = {q, smaller(length - done, depth - q), unit, unit ? done % unit : 0, 0, 0};
        q += to[count].length;
    }
    return {count, pace};
}

// to[i * ld + q] = X[i, q], stretch by stretch of depth within each position.
template <class T, class S>
void pack_rows(const Phase& f, const S* lhs, const Position* at, int64_t count, const Depth* taps, Stretch* parts,
               const Stretches& all, T* to, int64_t ld) {
    const Axis& a = f.axis[2];
    for (int64_t i = 0; i < count; i++, to += ld)
        for (int64_t s = 0; s < all.count; s++) {
            const Depth& tap = taps[parts[s].first];
            clip(parts[s], inside(f, at[i], tap, 0) && inside(f, at[i], tap, 1), at[i].x[2] + tap.d[2], a.off_step, a.size);
            copy(parts[s], lhs + at[i].in + tap.in, all.pace, to + parts[s].first);
        }
}

// to[q * ld + j] = W[j, q] for j < count, zeros up to `padded`.
template <class T, class S>
void pack_weights(const S* rhs, int64_t feature_stride, int64_t count, int64_t padded, const Depth* taps, int64_t depth,
                  T* to, int64_t ld) {
    if (feature_stride == 1 && count == tile_columns<T>) {
        for (int64_t q = 0; q < depth; q++) copy_line(rhs + taps[q].weight, to + q * ld);
        return;
    }
    for (int64_t q = 0; q < depth;) {
        int64_t end = q + 1;
        while (end < depth && taps[end].weight == taps[end - 1].weight + 1) end++;
        if (end - q < lanes<T> && feature_stride != 1) {
            for (; q < end; q++)
                for (int64_t j = 0; j < padded; j++)
                    to[q * ld + j] = j < count ? widen<T>(rhs[taps[q].weight + j * feature_stride]) : T(0);
            continue;
        }
        pack<T>(rhs + taps[q].weight, 1, feature_stride, end - q, count, padded, to + q * ld, ld);
        q = end;
    }
}

// Where sums go: element (position i, feature j) at data[i * position + j * feature].
template <class T>
struct Target {
    T* data;
    int64_t position, feature;
};

// Scratch of one block of positions.
struct Tables {
    Position* at;
    Depth* taps;
    Stretch* parts;
};
inline Tables tables(int64_t positions) {
    const int64_t a = positions * int64_t(sizeof(Position)), b = depth_block * int64_t(sizeof(Depth));
    char* memory = (char*)scratch<2>(a + b + depth_block * int64_t(sizeof(Stretch)));
    return {(Position*)memory, (Depth*)(memory + a), (Stretch*)(memory + a + b)};
}

// Adds one depth block; vectors over features (target.feature == 1).
template <class T, class A, class B>
void features_inner(const Phase& f, const A* lhs, const B* rhs, int64_t feature_stride, const Tables& t, int64_t rows,
                    int64_t cols, int64_t begin, int64_t depth, Target<T> out) {
    constexpr int NR = tile_columns<T>, height = 4 * tile_rows;
    const int64_t panels = ceil_quotient(cols, NR);
    T* weights = (T*)scratch<0>(panels * NR * depth * int64_t(sizeof(T)));
    for (int64_t j = 0; j < cols; j += NR)
        pack_weights<T>(rhs + j * feature_stride, feature_stride, smaller(NR, cols - j), NR, t.taps, depth,
                        weights + j * depth, NR);
    T* lines = (T*)scratch<1>(height * depth * int64_t(sizeof(T)));
    const Stretches parts = stretches(f, begin, depth, t.parts);
    const bool by_rows = parts.count * 8 <= depth || (f.axis[2].outs < 8 && !f.image_inner);
    for (int64_t i = 0; i < rows; i += height) {
        const int64_t count = smaller(height, rows - i);
        if (by_rows)
            pack_rows(f, lhs, t.at + i, count, t.taps, t.parts, parts, lines, depth);
        else
            pack_columns(f, lhs, t.at + i, count, count, t.taps, depth, lines, height);
        const Panel<T> panel{lines, by_rows ? depth : height, by_rows};
        for (int64_t j = 0; j < cols; j += NR)
            with_width<T>(smaller(NR, cols - j), [&](auto vectors) {
                constexpr int NV = decltype(vectors)::value;
                sweep<T, NV>(panel, weights + j * depth, NR, depth, Matrix<T>{out.data, out.position, 1}, i, count, j,
                             smaller(NR, cols - j), begin > 0);
            });
    }
}

// Adds one depth block; vectors over positions (target.position == 1).
template <class T, class A, class B>
void positions_inner(const Phase& f, const A* lhs, const B* rhs, int64_t feature_stride, const Tables& t,
                     int64_t positions, int64_t features, int64_t begin, int64_t depth, Target<T> out) {
    constexpr int NR = tile_columns<T>;
    T* weights = (T*)scratch<0>(ceil_quotient(features, tile_rows) * tile_rows * depth * int64_t(sizeof(T)));
    for (int64_t k = 0; k < features; k += tile_rows) {
        const int64_t count = smaller(tile_rows, features - k);
        pack_weights<T>(rhs + k * feature_stride, feature_stride, count, count, t.taps, depth, weights + k * depth,
                        tile_rows);
    }
    T* columns = (T*)scratch<1>(NR * depth * int64_t(sizeof(T)));
    for (int64_t j = 0; j < positions; j += NR) {
        const int64_t cols = smaller(NR, positions - j);
        pack_columns(f, lhs, t.at + j, cols, NR, t.taps, depth, columns, NR);
        with_width<T>(cols, [&](auto vectors) {
            constexpr int NV = decltype(vectors)::value;
            for (int64_t k = 0; k < features; k += tile_rows)
                sweep<T, NV>(Panel<T>{weights + k * depth, tile_rows, false}, columns, NR, depth,
                             Matrix<T>{out.data, out.feature, 1}, k, smaller(tile_rows, features - k), j, cols, begin > 0);
        });
    }
}

// Copies sums of a block to where its positions and features lie in memory.
template <class T, class C>
void scatter(const Target<T>& from, const Position* at, int64_t positions, int64_t features, int64_t feature_stride,
             C* out) {
    if (from.feature == 1)
        for (int64_t i = 0; i < positions; i++)
            for (int64_t k = 0; k < features; k++)
                out[at[i].out + k * feature_stride] = narrow<C>(from.data[i * from.position + k]);
    else
        for (int64_t i = 0, end; i < positions; i = end) {
            for (end = i + 1; end < positions && at[end].out == at[end - 1].out + 1;) end++;
            for (int64_t k = 0; k < features; k++)
                for (int64_t j = i; j < end; j++)
                    out[at[i].out + j - i + k * feature_stride] = narrow<C>(from.data[j + k * from.feature]);
        }
}

// Positions [begin, end) of all features from `rhs` on: block by block, each summed up over depth
// where it belongs, or (other types, scattered outputs) in scratch and copied from there.
template <class T, class A, class B, class C>
void convolve(const Phase& f, const A* lhs, const B* rhs, C* out, int64_t begin, int64_t end, int64_t features) {
    const Conv& v = *f.conv;
    const int64_t depth_all = f.depth(), step = ceil_quotient(depth_all, larger(1, ceil_quotient(depth_all, depth_block)));
    const int64_t most = smaller(end - begin, larger(tile_columns<T>, smaller(4096, (1 << 18) / features)));
    const Tables t = tables(most);
    for (; begin < end; begin += most) {
        const int64_t count = smaller(most, end - begin);
        list_positions(f, begin, count, t.at);
        const int64_t pace = count > 1 ? t.at[1].out - t.at[0].out : 1;
        bool direct = std::is_same_v<T, C> && depth_all > 0 && (f.position_vectors ? pace == 1 : v.res[1] == 1);
        for (int64_t i = 1; i < count && direct; i++) direct = t.at[i].out == t.at[i - 1].out + pace;
        Target<T> to{nullptr, f.position_vectors ? 1 : features, f.position_vectors ? count : 1};
        if constexpr (std::is_same_v<T, C>)
            if (direct) to = {out + t.at[0].out, pace, v.res[1]};
        if (!direct) to.data = (T*)scratch<3>(count * features * int64_t(sizeof(T)));
        for (int64_t q = 0; q < depth_all; q += step) {
            const int64_t depth_here = smaller(step, depth_all - q);
            list_depths(f, q, depth_here, t.taps);
            if (f.position_vectors)
                positions_inner<T>(f, lhs, rhs, v.rhs[0], t, count, features, q, depth_here, to);
            else
                features_inner<T>(f, lhs, rhs, v.rhs[0], t, count, features, q, depth_here, to);
        }
        if (direct) continue;
        if (depth_all == 0)
            for (int64_t x = 0; x < count * features; x++) to.data[x] = T(0);
        scatter(to, t.at, count, features, v.res[1], out);
    }
}

}  // namespace tile

template <class T, class A, class B, class C>
void convolution(const dynacomp_runtime* rt, const Conv& v, const A* lhs, const B* rhs, C* out) {
    using namespace tile;
    const int64_t groups = v.groups * v.batch_groups, images = v.n / v.batch_groups;
    const int64_t channels = v.c / v.groups, features = v.k / groups;
    const int64_t ph[3] = {phases(v, 0), phases(v, 1), phases(v, 2)};
    const int64_t spatial = v.out[0] * v.out[1] * v.out[2];
    const bool apart = v.lhs[0] != 1 && spatial >= 1024;  // one image after the other
    const int64_t units = ph[0] * ph[1] * ph[2] * groups * (apart ? images : 1);
    const int64_t positions = (apart ? 1 : images) * ceil_quotient(spatial, ph[0] * ph[1] * ph[2]);
    const double work = double(images) * double(v.k) * double(spatial) * double(channels) *
                        double(v.kernel[0] * v.kernel[1] * v.kernel[2]);
    const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads);
    const Grid g = grid(positions, features, units >= 4 * workers ? 1 : ceil_quotient(2 * workers, units), 16, 16);
    const int64_t width = ceil_quotient(ceil_quotient(features, 16), g.cols) * 16;
    const int64_t tasks = units * g.rows * g.cols;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t first, int64_t last) {
        for (int64_t task = first; task < last; task++) {
            int64_t u = task;
            const int64_t col = u % g.cols, row = (u /= g.cols) % g.rows;
            u /= g.rows;
            const int64_t image = apart ? u % images : 0;
            if (apart) u /= images;
            const int64_t group = u % groups;
            u /= groups;
            Phase f{{axis(v, 0, u / (ph[1] * ph[2])), axis(v, 1, u / ph[2] % ph[1]), axis(v, 2, u % ph[2])},
                    apart ? 1 : images, channels, features, &v, v.lhs[0] == 1 && images > 1, true, false};
            const Axis& x = f.axis[2];
            f.position_vectors = !f.image_inner && x.outs > 4 && x.outs >= x.taps && v.res[1] != 1;
            f.channel_inner = f.position_vectors || v.lhs[1] == 1 || x.taps <= 8;
            const int64_t height = ceil_quotient(ceil_quotient(f.positions(), 16), g.rows) * 16;
            const int64_t begin = row * height, end = smaller(begin + height, f.positions());
            const int64_t k = col * width, some = smaller(width, features - k);
            if (begin >= end || some <= 0) continue;
            const int64_t left = v.batch_groups > 1 ? group * images * v.lhs[0] : group * channels * v.lhs[1];
            convolve<T>(f, lhs + left + image * v.lhs[0], rhs + (group * features + k) * v.rhs[0],
                        out + image * v.res[0] + (group * features + k) * v.res[1], begin, end, some);
        }
    });
}

}  // namespace dynacomp
