// Attention: out = softmax(scale * q k^T + bias, causal) v, without the matrix of weights.
//
// For a block of queries the keys go by in blocks: scores by register tiles, a running maximum and
// sum per query (what was summed before is scaled when the maximum grows), and the weighted values
// added up by register tiles. Scores, maxima and sums are float whatever the operands are.
#pragma once
#include "dots.h"
#include "gemm.h"

namespace dynacomp {

namespace tile {

constexpr int64_t query_block = 64, key_block = 256;

// exp of x <= 0 (below -87.3 it is 0), NaN stays: 2^n times a polynomial on [-ln2/2, ln2/2], 1 ULP.
inline Vector<float> exponential(Vector<float> x) {
    using V = Vector<float>;
    typedef int32_t I __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    const V shifted = x * 1.44269504f + magic, n = shifted - magic;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const I power = ((I)shifted + (127 - 0x4b400000)) << 23;
    return (V)((I)(p * (V)power) & ~(I)(x < -87.3f));
}

// What is known of a query after some of its keys.
struct Running {
    float maximum, sum;
};

// Turns a row of scores into weights exp(score - maximum) and returns the factor that brings what
// was summed before to the new maximum. `count` is padded with -inf to whole vectors.
inline float weigh(float* row, int64_t count, Running& known) {
    using V = Vector<float>;
    constexpr int W = lanes<float>;
    V most = V{} + known.maximum, sum = {};
    for (int64_t j = 0; j < count; j += W) {
        const V x = *(V*)(row + j);
        most = x > most ? x : most;
    }
    const float top = folded_lanes<float>(most, [](V a, V b) { return (V)(a > b ? a : b); });
    const float base = top == -__builtin_inff() ? 0.0f : top;  // all masked so far: weights 0, not NaN
    for (int64_t j = 0; j < count; j += W) {
        const V w = exponential(*(V*)(row + j) - base);
        *(V*)(row + j) = w;
        sum += w;
    }
    const bool first = known.maximum == -__builtin_inff();
    const float factor = first ? 0.0f : exponential(V{} + (known.maximum - base))[0];
    known = {top, known.sum * factor + sum_of_lanes<float>(sum)};
    return factor;
}

// row = scale * row + bias, or where that marks hidden keys the fill.
template <class B>
void add_bias(const Attention& v, float* row, int64_t count, const B* bias, int64_t step) {
    const float scale = float(v.scale), fill = float(v.fill);
    if (!v.marks)
        for (int64_t c = 0; c < count; c++) row[c] = row[c] * scale + widen<float>(bias[c * step]);
    else
        for (int64_t c = 0; c < count; c++) {
            const float add = widen<float>(bias[c * step]), sum = row[c] * scale + add;
            row[c] = add == -__builtin_inff() ? fill : sum;
        }
}

// Scales scores of queries [i, i + rows) against keys [j, j + count), adds the bias, masks.
template <class B>
void mask(const Attention& v, float* scores, int64_t rows, int64_t count, int64_t i, int64_t j, const B* bias) {
    const int64_t padded = ceil_quotient(count, lanes<float>) * lanes<float>, step = v.bias[4];
    for (int64_t r = 0; r < rows; r++) {
        float* row = scores + r * key_block;
        const float scale = float(v.scale);
        const B* line = bias + (bias ? (i + r) * v.bias[3] + j * step : 0);
        if (!bias)
            for (int64_t c = 0; c < count; c++) row[c] *= scale;
        else if (step == 1)  // the compiler's vectors
            add_bias(v, row, count, line, 1);
        else
            add_bias(v, row, count, line, step);
        const int64_t seen = v.causal ? larger(0, smaller(count, i + r + 1 - j)) : count;
        for (int64_t c = seen; c < padded; c++) row[c] = -__builtin_inff();
    }
}

// c[rows, columns] (stride ldc) = a[rows, k] * packed panels of b[k, columns].
inline void multiply_panels(Panel<float> a, const float* panels, int64_t rows, int64_t columns, int64_t k, float* c,
                            int64_t ldc) {
    constexpr int NR = tile_columns<float>;
    for (int64_t j = 0; j < columns; j += NR)
        with_width<float>(columns - j, [&](auto vectors) {
            multiply_rows<float, decltype(vectors)::value>(rows, k, a, panels + j * k, NR, c + j, ldc, false);
        });
}

// pack of b[k, columns] into panels for multiply_panels.
template <class S>
void pack_panels(const S* in, int64_t row_stride, int64_t column_stride, int64_t k, int64_t columns, float* to) {
    constexpr int NR = tile_columns<float>;
    for (int64_t j = 0; j < columns; j += NR)
        pack<float>(in + j * column_stride, row_stride, column_stride, k, smaller(NR, columns - j), NR, to + j * k, NR);
}

// The same by dot products with keys that are not packed.
inline void score_dots(const float* queries, const float* keys, int64_t key_stride, int64_t rows, int64_t count,
                       int64_t depth, float* scores) {
    for (int64_t c = 0; c < count; c++)
        for (int64_t r = 0; r < rows; r++) {
            float sum = 0;
            dot_rows<float, float, 1>(queries + r * depth, depth, keys + c * key_stride, depth, &sum);
            scores[r * key_block + c] = sum;
        }
}

// What hidden keys [j, keys) add to a query whose scores are no larger than what they are filled with.
template <class S>
void add_hidden(const Attention& v, const S* values, int64_t j, float* sums, Running& known) {
    const float fill = float(v.fill);
    if (known.maximum > fill + 104.0f || j >= v.keys) return;  // exp(-104) is 0
    const float top = known.maximum > fill ? known.maximum : fill;
    const float factor = exponential(Vector<float>{} + (known.maximum - top))[0];
    const float weight = exponential(Vector<float>{} + (fill - top))[0];
    known = {top, known.sum * factor + weight * float(v.keys - j)};
    for (int64_t c = 0; c < v.width; c++) {
        float sum = 0;
        for (int64_t k = j; k < v.keys; k++) sum += widen<float>(values[k * v.v[3] + c * v.v[4]]);
        sums[c] = sums[c] * factor + weight * sum;
    }
}

// Queries [first, last) of one head.
template <class S, class B>
void attend(const Attention& v, const S* q, const S* k, const S* values, const B* bias, S* out, int64_t first,
            int64_t last) {
    constexpr int NR = tile_columns<float>, rows_at_once = 32;
    const int64_t count = last - first, ldo = ceil_quotient(v.width, NR) * NR;
    const auto floats = [](void* p) { return (float*)p; };
    float* keys = floats(scratch<0>(v.depth * key_block * 4));
    float* weighted = floats(scratch<1>(ldo * key_block * 4));
    float* scores = floats(scratch<2>(rows_at_once * key_block * 4));
    float* sums = floats(scratch<3>(count * (ldo + 2) * 4));
    Running* known = (Running*)(sums + count * ldo);
    float* queries = floats(scratch<4>(count * v.depth * 4));
    pack<float>(q + first * v.q[3], v.q[3], v.q[4], count, v.depth, v.depth, queries, v.depth);
    for (int64_t i = 0; i < count; i++) known[i] = {-__builtin_inff(), 0.0f};
    for (int64_t x = 0; x < count * ldo; x++) sums[x] = 0.0f;
    const bool floating = std::is_same_v<S, float>;
    const bool dots = floating && count <= 4 && v.k[4] == 1;  // so few queries are not worth packing the keys
    const bool in_place = floating && v.v[4] == 1 && v.width % NR == 0;
    const int64_t end = v.causal ? smaller(v.keys, last) : v.keys;
    for (int64_t j = 0; j < end; j += key_block) {
        const int64_t width = smaller(key_block, end - j);
        if (!dots) pack_panels(k + j * v.k[3], v.k[4], v.k[3], v.depth, width, keys);
        if (!in_place) pack_panels(values + j * v.v[3], v.v[3], v.v[4], width, v.width, weighted);
        for (int64_t i = 0; i < count; i += rows_at_once) {
            const int64_t rows = smaller(rows_at_once, count - i);
            const int64_t seen = v.causal ? smaller(width, first + i + rows - j) : width;
            if (seen <= 0) continue;
            if (dots)
                score_dots(queries, (const float*)(const void*)(k + j * v.k[3]), v.k[3], rows, seen, v.depth, scores);
            else
                multiply_panels({queries + i * v.depth, v.depth, true}, keys, rows, seen, v.depth, scores, key_block);
            mask(v, scores, rows, seen, first + i, j, bias);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t padded = ceil_quotient(seen, lanes<float>) * lanes<float>;
                const float factor = weigh(scores + r * key_block, padded, known[i + r]);
                if (factor != 1.0f && j > 0)
                    for (int64_t c = 0; c < ldo; c++) sums[(i + r) * ldo + c] *= factor;
            }
            for (int64_t c = 0; c < v.width; c += NR)  // panels are `width` deep, of which `seen` count
                with_width<float>(v.width - c, [&](auto vectors) {
                    const float* panel = weighted + c * width;
                    if (in_place) panel = (const float*)(const void*)(values + j * v.v[3] + c);
                    multiply_rows<float, decltype(vectors)::value>(rows, seen, {scores, key_block, true}, panel,
                                                                   in_place ? v.v[3] : NR, sums + i * ldo + c, ldo, true);
                });
        }
    }
    if (v.causal && v.fill != -__builtin_inf())
        for (int64_t i = 0; i < count; i++) add_hidden(v, values, first + i + 1, sums + i * ldo, known[i]);
    for (int64_t i = 0; i < count; i++) {
        S* line = out + (first + i) * v.out[3];
        if (v.out[4] == 1)
            for (int64_t c = 0; c < v.width; c++) line[c] = narrow<S>(sums[i * ldo + c] / known[i].sum);
        else
            for (int64_t c = 0; c < v.width; c++) line[c * v.out[4]] = narrow<S>(sums[i * ldo + c] / known[i].sum);
    }
}

}  // namespace tile

template <class S, class B>
void attention(const dynacomp_runtime* rt, const Attention& v, const S* q, const S* k, const S* values, const B* bias,
               S* out) {
    using namespace tile;
    const int64_t heads = v.batch * v.heads * v.group;
    if (heads <= 0 || v.queries <= 0) return;
    const int64_t wanted = ceil_quotient(2 * larger(1, rt->threads), heads);
    const int64_t block = smaller(512, ceil_quotient(ceil_quotient(v.queries, query_block), wanted) * query_block);
    const int64_t blocks = ceil_quotient(v.queries, block), tasks = heads * blocks;
    const double work = double(heads) * double(v.queries) * double(v.keys) * double(v.depth + v.width);
    parallel(rt, tasks, work < parallel_work ? tasks : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            const int64_t head = task / blocks, b = head / v.group / v.heads, h = head / v.group % v.heads;
            const int64_t g = head % v.group;
            const auto at = [&](const int64_t (&strides)[5]) { return b * strides[0] + h * strides[1] + g * strides[2]; };
            const int64_t first = (blocks - 1 - task % blocks) * block;  // the longest causal rows first
            attend(v, q + at(v.q), k + at(v.k), values + at(v.v), bias ? bias + at(v.bias) : bias, out + at(v.out), first,
                   smaller(first + block, v.queries));
        }
    });
}

}  // namespace dynacomp
