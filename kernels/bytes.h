// Products of bytes four at a time, where the machine has an instruction for it: a word of four unsigned bytes times a
// word of four signed ones, added to a word of a sum.
//
// Bytes of the other sign are moved by 128, and what that adds is taken off at the start of the sums:
//
//     x = a + oa (unsigned),  y = b - ob (signed),  oa, ob = 0 or 128
//     sum a b = sum x y + ob * sum x - oa * (sum y + ob * k)
//
// Words wrap, so every sum is exact as long as that of one depth block fits in 32 bits.
#pragma once
#include "tile.h"

namespace dynacomp::tile {

#if defined(__AVX512VNNI__) && !defined(__clang__)
#define DC_FOUR_BYTES 1
inline Vector<int32_t> add_four(Vector<int32_t> sum, Vector<int32_t> x, Vector<int32_t> y) {
    typedef int words __attribute__((vector_size(64)));
    return (Vector<int32_t>)__builtin_ia32_vpdpbusd_v16si((words)sum, (words)x, (words)y);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__) && !defined(__clang__)
#define DC_FOUR_BYTES 1
inline Vector<int32_t> add_four(Vector<int32_t> sum, Vector<int32_t> x, Vector<int32_t> y) {
    typedef int words __attribute__((vector_size(32)));
    return (Vector<int32_t>)__builtin_ia32_vpdpbusd_v8si((words)sum, (words)x, (words)y);
}
#endif

#ifdef DC_FOUR_BYTES
template <class A, class B, class C>
constexpr bool by_four = std::is_integral_v<C> && std::is_integral_v<A> && std::is_integral_v<B> && sizeof(A) == 1 &&
                         sizeof(B) == 1;

constexpr int64_t bytes_depth = 1024, bytes_width = 256;  // a block of B is 256 KiB
constexpr int byte_columns = tile_columns<int32_t>;

// out[q * ldo + c] = the bytes in[(4 q + 0 .. 3) * sp + c * sc] with their top bits turned where `turn` says so; zeros
// from `depth` and `count` on.
template <class S>
void pack_words(const S* in, int64_t sp, int64_t sc, int64_t depth, int64_t count, int64_t padded, uint8_t turn,
                uint32_t* out, int64_t ldo) {
    const uint32_t turns = turn * 0x01010101u;
    const uint8_t* bytes = (const uint8_t*)in;
    if (sp == 1 && padded == 1 && depth % 4 == 0 && ldo == 1) {  // a row as it lies
        for (int64_t q = 0; q < depth / 4; q++) {
            uint32_t word;
            __builtin_memcpy(&word, bytes + 4 * q, 4);
            out[q] = word ^ turns;
        }
        return;
    }
    for (int64_t q = 0; 4 * q < depth; q++) {
        const uint8_t* from = bytes + 4 * q * sp;
        uint32_t* to = out + q * ldo;
        const int64_t rest = depth - 4 * q;
        if (rest >= 4 && sc == 1)
            for (int64_t c = 0; c < count; c++)
                to[c] = (uint32_t(from[c]) | uint32_t(from[sp + c]) << 8 | uint32_t(from[2 * sp + c]) << 16 |
                         uint32_t(from[3 * sp + c]) << 24) ^ turns;
        else if (rest >= 4 && sp == 1)
            for (int64_t c = 0; c < count; c++) {
                uint32_t word;
                __builtin_memcpy(&word, from + c * sc, 4);
                to[c] = word ^ turns;
            }
        else
            for (int64_t c = 0; c < count; c++) {
                uint32_t word = 0;
                for (int64_t s = 0; s < smaller(rest, 4); s++) word |= uint32_t(from[s * sp + c * sc]) << (8 * s);
                to[c] = word ^ turns;
            }
        for (int64_t c = count; c < padded; c++) to[c] = turns;
    }
}

// sums[i, j] = rows[i] + columns[j] + sum over q of four products each.
template <int MR, int NV>
inline void multiply_words(int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, const int32_t* rows,
                           const int32_t* columns, int32_t* sums) {
    using V = Vector<int32_t>;
    constexpr int W = lanes<int32_t>;
    V sum[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sum[i][v] = *(const V*)(columns + v * W) + rows[i];
    for (int64_t q = 0; q < depth; q++) {
        V column[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) column[v] = *(const V*)(b + q * byte_columns + v * W);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            const V word = V{} + int32_t(a[i * lda + q]);
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sum[i][v] = add_four(sum[i][v], word, column[v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) *(V*)(sums + i * byte_columns + v * W) = sum[i][v];
}

template <int NV>
void multiply_word_rows(int64_t count, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b,
                        const int32_t* rows, const int32_t* columns, int32_t* sums) {
    auto step = [&](auto size) {
        constexpr int MR = decltype(size)::value;
        for (; count >= MR; count -= MR, a += MR * lda, rows += MR, sums += MR * byte_columns)
            multiply_words<MR, NV>(depth, a, lda, b, rows, columns, sums);
    };
    step(std::integral_constant<int, tile_rows>{});
    step(std::integral_constant<int, 2>{});
    step(std::integral_constant<int, 1>{});
}

// terms[c] += factor * the sum of the signed bytes of the words in column c of a panel.
inline void add_column_sums(const uint32_t* panel, int64_t words, int32_t factor, int32_t* terms) {
    using V = Vector<int32_t>;
    constexpr int W = lanes<int32_t>;
    const V ones = V{} + 0x01010101;
    V sum[tile_vectors] = {};
    for (int64_t q = 0; q < words; q++)
#pragma GCC unroll 4
        for (int v = 0; v < tile_vectors; v++)
            sum[v] = add_four(sum[v], ones, *(const V*)(panel + q * byte_columns + v * W));
    for (int v = 0; v < tile_vectors; v++) *(V*)(terms + v * W) += factor * sum[v];
}

// The sum of the unsigned bytes of a line of words.
inline int32_t sum_of_bytes(const uint32_t* line, int64_t words) {
    using V = Vector<int32_t>;
    constexpr int W = lanes<int32_t>;
    V sum{};
    int64_t q = 0;
    for (; q + W <= words; q += W) sum = add_four(sum, *(const V*)(line + q), V{} + 0x01010101);
    int32_t all = 0;
    for (int l = 0; l < W; l++) all += sum[l];
    for (; q < words; q++)
        for (int s = 0; s < 4; s++) all += uint8_t(line[q] >> (8 * s));
    return all;
}

// One block of a product of bytes.
template <class A, class B, class C>
void byte_block(Matrix<const A> a, Matrix<const B> b, Matrix<C> out, int64_t k, Block at) {
    constexpr int NR = byte_columns;
    constexpr bool turn_a = std::is_signed_v<A>, turn_b = !std::is_signed_v<B>;
    constexpr int32_t oa = turn_a ? 128 : 0, ob = turn_b ? 128 : 0;
    const int64_t rows = at.row1 - at.row0, height = smaller(rows, rows_block);
    const int64_t depth = ceil_quotient(larger(k, 1), ceil_quotient(larger(k, 1), bytes_depth)), words = (depth + 3) / 4;
    uint32_t* packed_b = (uint32_t*)scratch<0>(words * bytes_width * 4);
    uint32_t* packed_a = (uint32_t*)scratch<1>((words * height + 2 * height + bytes_width) * 4);
    int32_t* row_terms = (int32_t*)(packed_a + words * height);
    int32_t* column_terms = row_terms + height;
    alignas(64) int32_t sums[tile_rows * NR];
    for (int64_t j0 = at.col0; j0 < at.col1; j0 += bytes_width)
        for (int64_t p = 0; p == 0 || p < k; p += depth) {
            const int64_t kc = smaller(depth, k - p), kw = (kc + 3) / 4, j1 = smaller(j0 + bytes_width, at.col1);
            for (int64_t j = j0; j < j1; j += NR) {
                uint32_t* panel = packed_b + (j - j0) * kw;
                pack_words(b.at(p, j), b.si, b.sj, kc, smaller(NR, j1 - j), NR, turn_b ? 0x80 : 0, panel, NR);
                int32_t* terms = column_terms + (j - j0);
                for (int c = 0; c < NR; c++) terms[c] = turn_a ? -oa * ob * int32_t(4 * kw) : 0;
                if (turn_a) add_column_sums(panel, kw, -oa, terms);
            }
            for (int64_t i0 = at.row0; i0 < at.row1; i0 += height) {
                const int64_t i1 = smaller(i0 + height, at.row1);
                for (int64_t i = i0; i < i1; i++) {
                    uint32_t* line = packed_a + (i - i0) * kw;
                    pack_words(a.at(i, p), a.sj, 0, kc, 1, 1, turn_a ? 0x80 : 0, line, 1);
                    row_terms[i - i0] = turn_b ? ob * sum_of_bytes(line, kw) : 0;
                }
                for (int64_t j = j0; j < j1; j += NR) {
                    const int64_t cols = smaller(NR, j1 - j);
                    const uint32_t* panel = packed_b + (j - j0) * kw;
                    for (int64_t i = i0; i < i1; i += tile_rows) {
                        const int64_t count = smaller(tile_rows, i1 - i);
                        with_width<int32_t>(cols, [&](auto vectors) {
                            multiply_word_rows<decltype(vectors)::value>(count, kw, packed_a + (i - i0) * kw, kw, panel,
                                                                         row_terms + (i - i0), column_terms + (j - j0),
                                                                         sums);
                        });
                        store(sums, NR, count, cols, out, i, j, p > 0);
                    }
                }
            }
        }
}
#else
template <class A, class B, class C>
constexpr bool by_four = false;
#endif

}  // namespace dynacomp::tile
