// Stable sorts along one dimension: order-preserving integer keys, radix passes over (key, index)
// pairs, then every operand is gathered by index. Several keys sort from the last to the first.
//
// The order of floats is that of lax.sort on CPUs: all NaNs are equal and come last; -0 and (of types
// that JAX computes in themselves or in float, so not float16) subnormals equal 0.
#pragma once
#include "tile.h"

namespace dynacomp {

namespace tile {

struct Keyed {
    uint64_t key;
    int64_t index;
};

// Maps element bits to an unsigned integer of the same order. Floats: one NaN above all and one
// zero, or (`total`) IEEE's total order, where -NaN < -inf and -0 < 0.
inline uint64_t ordered(uint64_t bits, int width, KeyKind kind, int mantissa, bool total) {
    const uint64_t sign = uint64_t(1) << (width - 1), all = sign | (sign - 1);
    if (kind == KeyKind::unsigned_int) return bits;
    if (kind == KeyKind::signed_int) return bits ^ sign;
    const uint64_t infinity = ((sign - 1) >> mantissa) << mantissa, magnitude = bits & ~sign;
    if (!total && magnitude > infinity) return all;
    const bool flushes = mantissa != 10;
    if (!total && (flushes ? magnitude >> mantissa : magnitude) == 0) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}

inline uint64_t element_bits(const char* at, int bytes) {
    if (bytes == 4) {
        uint32_t x;
        std::memcpy(&x, at, 4);
        return x;
    }
    uint64_t x = 0;
    std::memcpy(&x, at, size_t(bytes));
    return x;
}

struct KeyReader {
    SortOperand of;
    bool total;
    uint64_t operator()(const char* at) const {
        return ordered(element_bits(at, of.bytes), 8 * of.bytes, of.kind, of.mantissa, total);
    }
};

// Stable sort by key of n pairs; `other` has room for n, `counts` for 256. The result is in `pairs`.
inline void radix_sort(Keyed* pairs, Keyed* other, int64_t n, int bytes) {
    if (n <= 48) {
        for (int64_t i = 1; i < n; i++) {
            const Keyed x = pairs[i];
            int64_t j = i;
            for (; j > 0 && pairs[j - 1].key > x.key; j--) pairs[j] = pairs[j - 1];
            pairs[j] = x;
        }
        return;
    }
    Keyed *from = pairs, *to = other;
    int64_t counts[8][256] = {};
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < bytes; b++) counts[b][pairs[i].key >> (8 * b) & 255]++;
    for (int b = 0; b < bytes; b++) {
        int64_t* count = counts[b];
        if (count[from[0].key >> (8 * b) & 255] == n) continue;  // all alike
        int64_t at = 0;
        for (int d = 0; d < 256; d++) {
            const int64_t here = count[d];
            count[d] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++) to[count[from[i].key >> (8 * b) & 255]++] = from[i];
        Keyed* swap = from;
        from = to, to = swap;
    }
    if (from != pairs) std::memcpy(pairs, from, size_t(n) * sizeof(Keyed));
}

template <class T>
void gather(const void* in, void* out, int64_t stride, int64_t n, const Keyed* pairs) {
    for (int64_t i = 0; i < n; i++) {
        T x;
        std::memcpy(&x, (const char*)in + pairs[i].index * stride * int64_t(sizeof(T)), sizeof(T));
        std::memcpy((char*)out + i * stride * int64_t(sizeof(T)), &x, sizeof(T));
    }
}

struct Sixteen {
    uint64_t halves[2];
};

inline void gather_any(const SortOperand& o, int64_t first, int64_t stride, int64_t n, const Keyed* pairs) {
    const void* in = (const char*)o.in + first * o.bytes;
    void* out = (char*)o.out + first * o.bytes;
    if (o.bytes == 1) gather<uint8_t>(in, out, stride, n, pairs);
    if (o.bytes == 2) gather<uint16_t>(in, out, stride, n, pairs);
    if (o.bytes == 4) gather<uint32_t>(in, out, stride, n, pairs);
    if (o.bytes == 8) gather<uint64_t>(in, out, stride, n, pairs);
    if (o.bytes == 16) gather<Sixteen>(in, out, stride, n, pairs);
}

// One row: elements first, first + stride, ... of every operand.
inline void sort_row(const SortOperand* operands, int count, int keys, int64_t first, int64_t n, int64_t stride) {
    Keyed* pairs = (Keyed*)scratch<0>(2 * n * int64_t(sizeof(Keyed)));
    for (int64_t i = 0; i < n; i++) pairs[i].index = i;
    for (int k = keys - 1; k >= 0; k--) {
        const SortOperand& o = operands[k];
        const char* in = (const char*)o.in + first * o.bytes;
        const KeyReader read{o, false};
        for (int64_t i = 0; i < n; i++) pairs[i].key = read(in + pairs[i].index * stride * o.bytes);
        radix_sort(pairs, pairs + n, n, o.bytes);
    }
    for (int k = 0; k < count; k++) gather_any(operands[k], first, stride, n, pairs);
}

// The k largest of a row, largest first, ties in order of index; `pairs` has room for 2 n.
inline void largest_row(const char* in, int64_t n, int64_t k, const KeyReader& read, Keyed* pairs) {
    const auto before = [](const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key > b.key : a.index < b.index; };
    if (k * 8 > n) {
        for (int64_t i = 0; i < n; i++) pairs[i] = {~read(in + i * read.of.bytes), i};
        radix_sort(pairs, pairs + n, n, 8);
        return;
    }
    // A heap whose root comes last among the best k so far.
    int64_t size = 0;
    for (int64_t i = 0; i < n; i++) {
        const Keyed x{read(in + i * read.of.bytes), i};
        int64_t at = 0;
        if (size < k) {
            for (at = size++; at > 0 && before(pairs[(at - 1) / 2], x); at = (at - 1) / 2) pairs[at] = pairs[(at - 1) / 2];
        } else {
            if (!before(x, pairs[0])) continue;
            for (int64_t child; (child = 2 * at + 1) < size; at = child) {
                if (child + 1 < size && before(pairs[child], pairs[child + 1])) child++;
                if (!before(x, pairs[child])) break;
                pairs[at] = pairs[child];
            }
        }
        pairs[at] = x;
    }
    for (int64_t i = 0; i < size; i++) pairs[i].key = ~pairs[i].key;
    // Equal keys must stay in order of index: sort by index first, then stably by key.
    for (int64_t i = 1; i < size && size <= 48; i++) {
        const Keyed x = pairs[i];
        int64_t j = i;
        for (; j > 0 && pairs[j - 1].index > x.index; j--) pairs[j] = pairs[j - 1];
        pairs[j] = x;
    }
    if (size > 48) {
        for (int64_t i = 0; i < size; i++) pairs[i] = {uint64_t(pairs[i].index), int64_t(pairs[i].key)};
        radix_sort(pairs, pairs + k, size, 8);
        for (int64_t i = 0; i < size; i++) pairs[i] = {uint64_t(pairs[i].index), int64_t(pairs[i].key)};
    }
    radix_sort(pairs, pairs + k, size, 8);
}

}  // namespace tile

void sort(const dynacomp_runtime* rt, int64_t outer, int64_t n, int64_t inner, const SortOperand* operands,
                 int count, int keys) {
    const int64_t rows = n > 0 ? outer * inner : 0, grain = tile::larger(1, 8192 / tile::larger(1, n));
    parallel(rt, rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++)
            tile::sort_row(operands, count, keys, row / inner * n * inner + row % inner, n, inner);
    });
}

void top_k(const dynacomp_runtime* rt, int64_t rows, int64_t n, int64_t k, const SortOperand& x,
                  int32_t* indices) {
    const tile::KeyReader read{x, true};
    parallel(rt, k > 0 ? rows : 0, tile::larger(1, 8192 / tile::larger(1, n)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
            tile::Keyed* pairs = (tile::Keyed*)tile::scratch<0>(2 * n * int64_t(sizeof(tile::Keyed)));
            const char* in = (const char*)x.in + row * n * x.bytes;
            tile::largest_row(in, n, k, read, pairs);
            for (int64_t i = 0; i < k; i++) {
                indices[row * k + i] = int32_t(pairs[i].index);
                std::memcpy((char*)x.out + (row * k + i) * x.bytes, in + pairs[i].index * x.bytes, size_t(x.bytes));
            }
        }
    });
}

}  // namespace dynacomp
