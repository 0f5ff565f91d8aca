// Convolutions with few features, channels last: the last layer of a U-Net or a decoder. Vectors over
// the features would be mostly empty, so they run over (tap, feature):
//
//     y[position of lhs, (tap, feature)] = sum over channels of lhs[position, channel] * rhs[feature, channel, tap]
//     out[o, feature] = sum over taps of y[o + tap - pad, (tap, feature)]
//
// The product reads the image where it lies, line by line; the second sum is short.
#pragma once
#include "phase.h"

namespace dynacomp {
namespace tile {

constexpr int64_t narrow_most = 3;  // features: from four on the second sum costs what the first saves

// Whether that takes at most half the work, in vectors, of a product over (channel, tap) for each position.
template <class T>
inline bool is_narrow(const Conv& v) {
    const int64_t plane = v.kernel[1] * v.kernel[2], taps = v.kernel[0] * plane;
    for (int d = 0; d < 3; d++)
        if (v.stride[d] != 1 || v.lhs_dilation[d] != 1) return false;
    return v.groups == 1 && v.batch_groups == 1 && v.lhs[1] == 1 && v.res[1] == 1 && v.k <= narrow_most && v.c >= 8 &&
           v.c <= depth_block && 2 * (v.kernel[0] * ceil_quotient(plane * v.k, lanes<T>) * v.c + taps * v.k) <= taps * v.c;
}

// What a task makes: lines [first, last) of one plane of one image.
struct Lines {
    int64_t image, plane, first, last;
};

// to[x, k] += from[x, k] for `count` x.
template <class T>
inline void add_taps(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t count, int64_t features) {
    auto all = [&](auto n) {
        for (int64_t x = 0; x < count; x++, to += to_step, from += from_step)
            for (int64_t k = 0; k < n; k++) to[k] += from[k];
    };
    switch (features) {
        case 1: return all(std::integral_constant<int64_t, 1>{});
        case 2: return all(std::integral_constant<int64_t, 2>{});
        default: return all(std::integral_constant<int64_t, narrow_most>{});
    }
}

// y of one line of the image: sums[x * width + (tap, feature)], from weights packed as panels.
template <class T>
inline void line_products(const Conv& v, const T* line, const T* weights, int64_t columns, T* sums, int64_t width) {
    constexpr int NR = tile_columns<T>;
    for (int64_t j = 0; j < columns; j += NR)
        with_width<T>(smaller(NR, columns - j), [&](auto vectors) {
            constexpr int NV = decltype(vectors)::value;
            sweep<T, NV>(Panel<T>{line, v.lhs[4], true}, weights + j * v.c, NR, v.c, Matrix<T>{sums, width, 1}, 0, v.in[2], j,
                         NV * lanes<T>, false);
        });
}

template <class T>
void narrow_lines(const Conv& v, const T* lhs, const T* weights, T* out, int64_t width, const Lines& at) {
    const int64_t columns = v.kernel[1] * v.kernel[2] * v.k;
    T* sums = (T*)scratch<1>(larger(1, v.in[2]) * width * int64_t(sizeof(T)));
    T* plane = out + at.image * v.res[0] + at.plane * v.res[2];
    for (int64_t y = at.first; y < at.last; y++)
        for (int64_t x = 0; x < v.out[2]; x++)
            for (int64_t k = 0; k < v.k; k++) plane[y * v.res[3] + x * v.res[4] + k] = T(0);
    for (int64_t z = 0; z < v.kernel[0]; z++) {
        const int64_t from_plane = at.plane + z * v.rhs_dilation[0] - v.pad[0];
        if (uint64_t(from_plane) >= uint64_t(v.in[0])) continue;
        const int64_t low = larger(0, at.first - v.pad[1]);
        const int64_t high = smaller(v.in[1], at.last + (v.kernel[1] - 1) * v.rhs_dilation[1] - v.pad[1]);
        for (int64_t line = low; line < high; line++) {
            line_products(v, lhs + at.image * v.lhs[0] + from_plane * v.lhs[2] + line * v.lhs[3], weights + z * v.c * width,
                          columns, sums, width);
            for (int64_t t = 0; t < v.kernel[1] * v.kernel[2]; t++) {
                const int64_t y = line + v.pad[1] - t / v.kernel[2] * v.rhs_dilation[1];
                const int64_t shift = t % v.kernel[2] * v.rhs_dilation[2] - v.pad[2];
                const int64_t x0 = larger(0, -shift), x1 = smaller(v.out[2], v.in[2] - shift);
                if (y < at.first || y >= at.last || x0 >= x1) continue;
                add_taps(plane + y * v.res[3] + x0 * v.res[4], v.res[4], sums + (x0 + shift) * width + t * v.k, width, x1 - x0,
                         v.k);
            }
        }
    }
}

// weights[panel of plane z][c][tile_columns]; zeros behind the last column.
template <class T>
inline void pack_taps(const Conv& v, const T* rhs, int64_t width, T* to) {
    constexpr int NR = tile_columns<T>;
    const int64_t columns = v.kernel[1] * v.kernel[2] * v.k;
    for (int64_t z = 0; z < v.kernel[0]; z++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t t = j / v.k, k = j % v.k;
            const T* from = rhs + k * v.rhs[0] + z * v.rhs[2] + t / v.kernel[2] * v.rhs[3] + t % v.kernel[2] * v.rhs[4];
            T* column = to + z * v.c * width + j / NR * NR * v.c + j % NR;
            for (int64_t c = 0; c < v.c; c++) column[c * NR] = j < columns ? from[c * v.rhs[1]] : T(0);
        }
}

// The convolution, if it is one of these.
template <class T>
bool narrow_features(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out) {
    if (!is_narrow<T>(v)) return false;
    const int64_t width = ceil_quotient(v.kernel[1] * v.kernel[2] * v.k, tile_columns<T>) * tile_columns<T>;
    T* weights = (T*)scratch<4>(v.kernel[0] * v.c * width * int64_t(sizeof(T)));
    pack_taps(v, rhs, width, weights);
    const double work = double(v.n * v.in[0] * v.in[1] * v.in[2]) * double(v.c * v.kernel[0] * width);
    const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads), planes = v.n * v.out[0];
    const int64_t halo = larger(1, (v.kernel[1] - 1) * v.rhs_dilation[1]);  // of lines that two neighbours make
    const int64_t parts = larger(1, smaller(ceil_quotient(2 * workers, planes), v.out[1] / (2 * halo)));
    const int64_t height = ceil_quotient(v.out[1], parts), tasks = planes * parts;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            const int64_t p = task / parts, first = task % parts * height;
            narrow_lines(v, lhs, weights, out, width, {p / v.out[0], p % v.out[0], first, smaller(first + height, v.out[1])});
        }
    });
    return true;
}

}  // namespace tile
}  // namespace dynacomp
