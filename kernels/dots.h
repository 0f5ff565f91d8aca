// Sums of products of lines, several at once, lanes along the lines: for products with few columns and convolutions with
// few features, over which vectors would be mostly empty.
//
//   dot_tile       P lines against K lines: P x K sums, each in a register of its own to the end
//   lane_sums      the sums of lanes of as many registers as one has lanes
//   sum_of_lanes   that of one; folded_lanes: the same by another function of two registers
#pragma once
#include "tile.h"

namespace dynacomp::tile {

// Half the lanes onto the other half, again and again, until all hold the result.
template <class T, int d = lanes<T> / 2, class F>
inline T folded_lanes(Vector<T> x, F f) {
    if constexpr (d == 0)
        return x[0];
    else {
        Vector<T> low = x, high = x;
        exchange<T, d>(low, high, std::make_integer_sequence<int, lanes<T>>{});
        return folded_lanes<T, d / 2>(f(low, high), f);
    }
}
template <class T>
inline T sum_of_lanes(Vector<T> x) {
    return folded_lanes<T>(x, [](auto a, auto b) { return a + b; });
}

// Lane l of the result is the sum of the lanes of r[l]; r has as many registers as lanes, and is used up. Two registers
// become one, which holds half sums of the first where bit d of the lane is 0, of the second where it is 1.
template <class T, int d = lanes<T> / 2>
inline Vector<T> lane_sums(Vector<T>* r) {
#pragma GCC unroll 16
    for (int i = 0; i < d; i++) {
        exchange<T, d>(r[i], r[i + d], std::make_integer_sequence<int, lanes<T>>{});
        r[i] += r[i + d];
    }
    if constexpr (d == 1)
        return r[0];
    else
        return lane_sums<T, d / 2>(r);
}

// The last `n` < lanes elements of those before `end`, in the last lanes; zeros before them, whatever lies there (a
// product of what is not asked for may be NaN). whole: whether a register's worth lies before `end`.
template <class T>
inline Vector<T> last_lanes(const T* end, int64_t n, bool whole) {
    constexpr int W = lanes<T>;
    using Small = std::conditional_t<sizeof(T) == 1, int8_t, int16_t>;
    using Bits = std::conditional_t<sizeof(T) == 8, int64_t, std::conditional_t<sizeof(T) == 4, int32_t, Small>>;
    using Mask = typename HalfOf<T, Bits>::type;
    if (whole) {
        Mask kept;
        for (int l = 0; l < W; l++) kept[l] = l < W - n ? 0 : -1;
        return (Vector<T>)((Mask)(*(const Vector<T>*)(end - W)) & kept);
    }
    Vector<T> found{};
    std::memcpy((T*)&found + (W - n), end - n, size_t(n) * sizeof(T));
    return found;
}

// A piece of lines that lies together in both: where it begins, and its elements.
struct Piece {
    int64_t x, y, length;
};

template <class T>
constexpr int few_lines = lanes<T> < 16 ? lanes<T> / 2 : 8;  // with more, vectors over them are full enough
template <class T>
constexpr int sums_at_once = lanes<T> < 8 ? 8 : lanes<T>;  // registers: enough to hide how long one addition takes

// sums[p * K + k] = the sum over all pieces of x[p * step + ...] * y[k * ldy + ...]; P * K <= sums_at_once.
template <class T, int P, int K>
inline void dot_tile(const T* x, int64_t step, const T* y, int64_t ldy, const Piece* pieces, int64_t count, T* sums) {
    using V = Vector<T>;
    constexpr int W = lanes<T>, registers = (P * K + W - 1) / W * W;
    V sum[registers];
#pragma GCC unroll 32
    for (int i = 0; i < registers; i++) sum[i] = V{};
    auto add = [&](auto&& of_x, auto&& of_y) {
        V line[K];
#pragma GCC unroll 8
        for (int k = 0; k < K; k++) line[k] = of_y(y + k * ldy);
#pragma GCC unroll 16
        for (int p = 0; p < P; p++) {
            const V here = of_x(x + p * step);
#pragma GCC unroll 8
            for (int k = 0; k < K; k++) sum[p * K + k] += here * line[k];
        }
    };
    for (const Piece* one = pieces; one < pieces + count; one++) {
        int64_t q = 0;
        for (; q + W <= one->length; q += W)
            add([&](const T* at) { return *(const V*)(at + one->x + q); },
                [&](const T* at) { return *(const V*)(at + one->y + q); });
        if (const int64_t rest = one->length - q; rest > 0) {
            const bool whole = one->length >= W;
            add([&](const T* at) { return last_lanes<T>(at + one->x + one->length, rest, whole); },
                [&](const T* at) { return last_lanes<T>(at + one->y + one->length, rest, whole); });
        }
    }
    alignas(64) T all[registers];
#pragma GCC unroll 2
    for (int i = 0; i < registers; i += W) *(V*)(all + i) = lane_sums<T>(sum + i);
    for (int i = 0; i < P * K; i++) sums[i] = all[i];
}

// Calls run(features as a type), of which there are at most `most`.
template <int most, class F>
void with_features(int64_t features, F&& run) {
    if (features == most)
        run(std::integral_constant<int, most>{});
    else if constexpr (most > 1)
        with_features<most - 1>(features, run);
}

}  // namespace dynacomp::tile
