// Convolutions whose channels lie together, line by line: what most networks begin with. A block of lines of the image is
// copied once with its padding; then each line of taps, with its channels, is a row of a matrix as it lies there, and
// neighbouring outputs are rows `stride` elements further on. (The general way copies an element for every tap.)
//
//     out[o, feature] = sum over lines of taps of (copy[o * stride + line, (tap, channel)] * rhs[(...), feature])
#pragma once
#include "dots.h"
#include "phase.h"

namespace dynacomp {
namespace tile {

constexpr int64_t copied_bytes = 1 << 17, line_outputs = 8;  // of a block of lines; of a line: fewer fill no tile
constexpr int64_t weight_bytes = 1 << 19;  // more do not stay near while block after block goes through them

template <class T>
inline bool is_by_lines(const Conv& v) {
    const int64_t taps = v.kernel[0] * v.kernel[1] * v.kernel[2];
    for (int d = 0; d < 3; d++)
        if (v.lhs_dilation[d] != 1) return false;
    return v.groups == 1 && v.batch_groups == 1 && (v.lhs[1] == 1 || v.c == 1) && v.lhs[4] == v.c && v.res[1] == 1 &&
           v.rhs_dilation[2] == 1 && v.out[2] >= line_outputs && taps > 1 && v.k > few_lines<T> &&
           taps * v.c * v.k * int64_t(sizeof(T)) <= weight_bytes;
}

// c (MR x NV vectors, row stride ldc) = or += the pieces of MR lines `pace` apart times panels of B in their order.
template <class T, int MR, int NV>
__attribute__((noinline)) void multiply_pieces(const T* x, int64_t pace, const T* b, const Piece* pieces, int64_t count,
                                               T* c, int64_t ldc, bool add) {
    using V = Vector<T>;
    V sum[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sum[i][v] = V{};
    for (const Piece* one = pieces; one < pieces + count; one++) {
        const T* a = x + one->x;
        for (int64_t p = 0; p < one->length; p++, a++, b += tile_columns<T>) {
            V column[NV];
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) column[v] = *(const V*)(b + v * lanes<T>);
#pragma GCC unroll 16
            for (int i = 0; i < MR; i++) {
                const T scalar = a[i * pace];
#pragma GCC unroll 4
                for (int v = 0; v < NV; v++) sum[i][v] += scalar * column[v];
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            V* out = (V*)(c + i * ldc + v * lanes<T>);
            *out = add ? *out + sum[i][v] : sum[i][v];
        }
}

// What a task makes: lines [first, last) of one plane of one image, and how a copied line lies.
template <class T>
struct LineBlock {
    const Conv& v;
    int64_t image, plane, first, last;
    int64_t width() const { return ((v.out[2] - 1) * v.stride[2] + v.kernel[2]) * v.c; }
    int64_t height() const { return (last - first - 1) * v.stride[1] + (v.kernel[1] - 1) * v.rhs_dilation[1] + 1; }
};

// The lines that the block's outputs read, plane of taps after plane, with their padding.
template <class T>
void copy_padded(const LineBlock<T>& at, const T* lhs, T* to) {
    const Conv& v = at.v;
    const int64_t width = at.width(), before = smaller(width, larger(0, v.pad[2] * v.c));
    const int64_t skipped = larger(0, -v.pad[2] * v.c);
    const int64_t inside = larger(0, smaller(width - before, v.in[2] * v.c - skipped));
    for (int64_t z = 0; z < v.kernel[0]; z++)
        for (int64_t y = 0; y < at.height(); y++, to += width) {
            const int64_t from_z = at.plane * v.stride[0] + z * v.rhs_dilation[0] - v.pad[0];
            const int64_t from_y = at.first * v.stride[1] + y - v.pad[1];
            const bool exists = uint64_t(from_z) < uint64_t(v.in[0]) && uint64_t(from_y) < uint64_t(v.in[1]);
            const int64_t kept = exists ? inside : 0;
            const T* line = lhs + at.image * v.lhs[0] + from_z * v.lhs[2] + from_y * v.lhs[3] + skipped;
            for (int64_t x = 0; x < (kept ? before : 0); x++) to[x] = T(0);
            if (kept) __builtin_memcpy(to + before, line, size_t(kept) * sizeof(T));
            for (int64_t x = kept ? before + kept : 0; x < width; x++) to[x] = T(0);
        }
}

// The lines of taps, cut so that no chain of products is long; how many pieces.
template <class T>
int64_t list_tap_lines(const LineBlock<T>& at, Piece* to) {
    const Conv& v = at.v;
    const int64_t all = v.kernel[2] * v.c, step = ceil_quotient(all, ceil_quotient(all, long_chain));
    int64_t count = 0;
    for (int64_t z = 0; z < v.kernel[0]; z++)
        for (int64_t y = 0; y < v.kernel[1]; y++)
            for (int64_t q = 0; q < all; q += step)
                to[count++] = {(z * at.height() + y * v.rhs_dilation[1]) * at.width() + q,
                               (z * v.kernel[1] + y) * all + q, smaller(step, all - q)};
    return count;
}

// One line of outputs, of one panel of features: `sums` or the sums so far plus the pieces' products.
template <class T, int NV>
void multiply_line(const LineBlock<T>& at, const T* line, const T* panel, const Piece* pieces, int64_t count, T* to,
                   int64_t next, bool add) {
    const int64_t pace = at.v.stride[2] * at.v.c;
    int64_t x = 0;
    auto step = [&](auto size) {
        constexpr int rows = decltype(size)::value;
        for (; x + rows <= at.v.out[2]; x += rows)
            multiply_pieces<T, rows, NV>(line + x * pace, pace, panel, pieces, count, to + x * next, next, add);
    };
    step(std::integral_constant<int, tile_rows>{});
    step(std::integral_constant<int, 4>{});
    step(std::integral_constant<int, 2>{});
    step(std::integral_constant<int, 1>{});
}

// The block's outputs of the features [j, j + cols).
template <class T, int NV>
void multiply_block(const LineBlock<T>& at, const T* copy, const T* panel, const Piece* pieces, int64_t count, T* out,
                    int64_t j, int64_t cols) {
    const Conv& v = at.v;
    constexpr int64_t width = NV * lanes<T>;
    const bool direct = cols == width;
    T* sums = direct ? nullptr : (T*)scratch<3>((at.last - at.first) * v.out[2] * width * int64_t(sizeof(T)));
    T* plane = out + at.image * v.res[0] + at.plane * v.res[2] + j;
    for (int64_t first = 0, depth = 0, end; first < count; first = end, depth = 0) {
        for (end = first; end < count && (end == first || depth + pieces[end].length <= long_chain); end++)
            depth += pieces[end].length;
        for (int64_t y = at.first; y < at.last; y++) {
            T* to = direct ? plane + y * v.res[3] : sums + (y - at.first) * v.out[2] * width;
            multiply_line<T, NV>(at, copy + (y - at.first) * v.stride[1] * at.width(),
                                 panel + pieces[first].y * tile_columns<T>, pieces + first, end - first, to,
                                 direct ? v.res[4] : width, first > 0);
        }
    }
    for (int64_t y = at.first; y < at.last && !direct; y++)
        for (int64_t x = 0; x < v.out[2]; x++)
            __builtin_memcpy(plane + y * v.res[3] + x * v.res[4], sums + ((y - at.first) * v.out[2] + x) * width,
                             size_t(cols) * sizeof(T));
}

// weights[panel of features][tap, channel][tile_columns]; zeros behind the last feature.
template <class T>
void pack_panels(const Conv& v, const T* rhs, T* to) {
    constexpr int NR = tile_columns<T>;
    for (int64_t j = 0; j < v.k; j += NR)
        for (int64_t z = 0; z < v.kernel[0]; z++)
            for (int64_t y = 0; y < v.kernel[1]; y++)
                for (int64_t x = 0; x < v.kernel[2]; x++, to += v.c * NR)
                    pack<T>(rhs + j * v.rhs[0] + z * v.rhs[2] + y * v.rhs[3] + x * v.rhs[4], v.rhs[1], v.rhs[0], v.c,
                            smaller(NR, v.k - j), NR, to, NR);
}

// The convolution, if it is one of these.
template <class T>
bool line_convolution(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out) {
    if (!is_by_lines<T>(v)) return false;
    constexpr int NR = tile_columns<T>;
    const int64_t depth = v.kernel[0] * v.kernel[1] * v.kernel[2] * v.c, panels = ceil_quotient(v.k, NR);
    T* weights = (T*)scratch<4>(panels * depth * NR * int64_t(sizeof(T)));
    pack_panels(v, rhs, weights);
    const double work = double(v.n * v.out[0] * v.out[1] * v.out[2]) * double(v.k * depth);
    const int64_t workers = work < parallel_work ? 1 : larger(1, rt->threads), planes = v.n * v.out[0];
    const int64_t line_bytes = LineBlock<T>{v, 0, 0, 0, 1}.width() * v.kernel[0] * int64_t(sizeof(T)) * v.stride[1];
    const int64_t wanted = ceil_quotient(v.out[1] * planes, workers == 1 ? planes : larger(planes, 4 * workers));
    const int64_t fit = larger(v.kernel[1], copied_bytes / larger(1, line_bytes));
    const int64_t height = larger(1, smaller(wanted, fit));
    const int64_t parts = ceil_quotient(v.out[1], height), tasks = planes * parts;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            const int64_t p = task / parts, first = task % parts * height;
            const LineBlock<T> at{v, p / v.out[0], p % v.out[0], first, smaller(first + height, v.out[1])};
            const int64_t pieces_most = v.kernel[0] * v.kernel[1] * ceil_quotient(v.kernel[2] * v.c, long_chain);
            Piece* pieces = (Piece*)scratch<2>(pieces_most * int64_t(sizeof(Piece)));
            T* copy = (T*)scratch<1>(at.width() * at.height() * v.kernel[0] * int64_t(sizeof(T)));
            copy_padded(at, lhs, copy);
            const int64_t count = list_tap_lines(at, pieces);
            for (int64_t j = 0; j < v.k; j += NR)
                with_width<T>(smaller(NR, v.k - j), [&](auto vectors) {
                    multiply_block<T, decltype(vectors)::value>(at, copy, weights + j * depth, pieces, count, out, j,
                                                                smaller(NR, v.k - j));
                });
        }
    });
    return true;
}

}  // namespace tile
}  // namespace dynacomp
