// What a convolution is, cut into phases, positions and depth: the bookkeeping of conv.h and depthwise.h.
#pragma once
#include "gemm.h"

namespace dynacomp {

namespace tile {

// One spatial dimension of one phase. Output m (< outs) is at out0 + m * out_step; its tap u (< taps)
// is kernel element tap0 + u * tap_step and reads lhs element m * stride + off0 + u * off_step.
struct Axis {
    int64_t outs, out0, out_step, taps, tap0, tap_step, off0, off_step, stride, size;
};

inline int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

// How many phases a dimension has, and the Axis of one of them.
inline int64_t phases(const Conv& v, int d) {
    return v.lhs_dilation[d] / common_divisor(v.stride[d], v.lhs_dilation[d]);
}
inline Axis axis(const Conv& v, int d, int64_t phase) {
    const int64_t period = phases(v, d), dilation = v.lhs_dilation[d];
    Axis a{};
    a.outs = v.out[d] > phase ? (v.out[d] - phase - 1) / period + 1 : 0;
    a.out0 = phase, a.out_step = period;
    a.tap_step = dilation / common_divisor(v.rhs_dilation[d], dilation);
    a.off_step = v.rhs_dilation[d] * a.tap_step / dilation;
    a.stride = v.stride[d] * period / dilation;
    a.size = v.in[d];
    for (int64_t t = 0; t < smaller(a.tap_step, v.kernel[d]); t++) {
        const int64_t at = v.stride[d] * phase + t * v.rhs_dilation[d] - v.pad[d];
        if (at % dilation) continue;
        a.tap0 = t, a.off0 = at / dilation, a.taps = (v.kernel[d] - t - 1) / a.tap_step + 1;
        break;
    }
    return a;
}

// The taps [low, high) of an axis that read inside the image when offset 0 is at x.
struct Range {
    int64_t low, high;
};
inline Range taps_inside(const Axis& a, int64_t x) {
    const int64_t low = x < 0 ? ceil_quotient(-x, a.off_step) : 0;
    const int64_t high = x < a.size ? (a.size - 1 - x) / a.off_step + 1 : 0;
    return {low, larger(low, smaller(high, a.taps))};
}

// One group of one phase, and which order its positions and its depth are counted in.
struct Phase {
    Axis axis[3];
    int64_t images, channels, features;
    const Conv* conv;
    bool image_inner, channel_inner;
    bool position_vectors;  // else the vectors run over features
    int64_t positions() const { return images * axis[0].outs * axis[1].outs * axis[2].outs; }
    int64_t depth() const { return channels * axis[0].taps * axis[1].taps * axis[2].taps; }
};

struct Position {
    int32_t x[3];     // lhs coordinates of offset 0
    int64_t in, out;  // offsets in memory
};
struct Depth {
    int32_t d[3];  // offset of the tap in lhs coordinates
    int64_t in, weight;
};

struct Split {
    int64_t outer, x[3];
};
// Coordinates of `index` among (outer, sizes...), or (sizes..., outer) when outer counts fastest.
inline Split split(int64_t index, int64_t outer, bool inner, const int64_t (&sizes)[3]) {
    Split s{};
    if (inner) s.outer = index % outer, index /= outer;
    for (int d = 2; d >= 0; d--) s.x[d] = index % sizes[d], index /= sizes[d];
    if (!inner) s.outer = index;
    return s;
}

// The coordinates of the next index.
inline void advance(Split& s, int64_t outer, bool inner, const int64_t (&sizes)[3]) {
    if (inner) {
        if (++s.outer < outer) return;
        s.outer = 0;
    }
    for (int d = 2; d >= 0; d--) {
        if (++s.x[d] < sizes[d]) return;
        s.x[d] = 0;
    }
    if (!inner) s.outer++;
}

inline Position position(const Phase& f, const Split& s) {
    const Conv& v = *f.conv;
    Position p{{}, s.outer * v.lhs[0], s.outer * v.res[0]};
    for (int d = 0; d < 3; d++) {
        const Axis& a = f.axis[d];
        p.x[d] = int32_t(s.x[d] * a.stride + a.off0);
        p.in += p.x[d] * v.lhs[2 + d];
        p.out += (a.out0 + s.x[d] * a.out_step) * v.res[2 + d];
    }
    return p;
}

inline Depth depth(const Phase& f, const Split& s) {
    const Conv& v = *f.conv;
    Depth q{{}, s.outer * v.lhs[1], s.outer * v.rhs[1]};
    for (int d = 0; d < 3; d++) {
        const Axis& a = f.axis[d];
        q.d[d] = int32_t(s.x[d] * a.off_step);
        q.in += q.d[d] * v.lhs[2 + d];
        q.weight += (a.tap0 + s.x[d] * a.tap_step) * v.rhs[2 + d];
    }
    return q;
}

// Tables of the positions or depths [begin, begin + count).
inline void list_positions(const Phase& f, int64_t begin, int64_t count, Position* to) {
    const int64_t sizes[3] = {f.axis[0].outs, f.axis[1].outs, f.axis[2].outs};
    Split s = split(begin, f.images, f.image_inner, sizes);
    for (int64_t i = 0; i < count; i++, advance(s, f.images, f.image_inner, sizes)) to[i] = position(f, s);
}
inline void list_depths(const Phase& f, int64_t begin, int64_t count, Depth* to) {
    const int64_t sizes[3] = {f.axis[0].taps, f.axis[1].taps, f.axis[2].taps};
    Split s = split(begin, f.channels, f.channel_inner, sizes);
    for (int64_t i = 0; i < count; i++, advance(s, f.channels, f.channel_inner, sizes)) to[i] = depth(f, s);
}

inline bool inside(const Phase& f, const Position& p, const Depth& q, int d) {
    return uint32_t(p.x[d] + q.d[d]) < uint64_t(f.axis[d].size);
}

}  // namespace tile
}  // namespace dynacomp
