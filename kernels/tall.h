// Tall products: many rows of A, whose depth lies together, against a few columns: heads of few classes, of colours.
// Vectors over the columns would be mostly empty, so they run along the depth: the columns are copied to lines, and
// several rows are summed up with all of them at once (see dots.h). Included by gemm.h.
#pragma once

namespace dynacomp {
namespace tile {

constexpr int64_t tall_rows = 64;  // that pay for copying the columns

template <class T>
inline bool is_tall(int64_t m, int64_t n, int64_t k, int64_t a_depth) {
    return n > 1 && n <= few_lines<T> && m >= tall_rows && a_depth == 1 && k >= lanes<T> &&
           k <= 2 * long_chain * lanes<T>;
}

// Rows [first, last) of one product; `lines`: the columns of B, k apart.
template <class T, int K, class C>
void tall_block(const T* a, int64_t a_row, const T* lines, int64_t k, int64_t first, int64_t last, C* out) {
    constexpr int P = sums_at_once<T> / K;
    const Piece whole{0, 0, k};
    auto tile = [&](auto rows, int64_t i) {
        constexpr int count = decltype(rows)::value;
        T sums[count * K];
        dot_tile<T, count, K>(a + i * a_row, a_row, lines, k, &whole, 1, sums);
        for (int s = 0; s < count * K; s++) out[i * K + s] = narrow<C>(sums[s]);
    };
    int64_t i = first;
    for (; i + P <= last; i += P) tile(std::integral_constant<int, P>{}, i);
    if (i < last && last - first >= P) return tile(std::integral_constant<int, P>{}, last - P);
    for (; i < last; i++) tile(std::integral_constant<int, 1>{}, i);
}

template <class T, class B, class C>
void tall_product(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, int64_t k, const T* a,
                  int64_t a_batch, int64_t a_row, const B* b, int64_t b_batch, int64_t b_depth, int64_t b_col, C* out) {
    const int64_t workers = double(batch) * double(m) * double(n * k) < parallel_work ? 1 : larger(1, rt->threads);
    const int64_t height = larger(tall_rows, ceil_quotient(m, ceil_quotient(4 * workers, batch)));
    const int64_t parts = ceil_quotient(m, height), tasks = batch * parts;
    parallel(rt, tasks, workers == 1 ? tasks : 1, [&](int64_t begin, int64_t end) {
        T* lines = (T*)scratch<1>(n * k * int64_t(sizeof(T)));
        for (int64_t task = begin; task < end; task++) {
            const int64_t e = task / parts, first = task % parts * height;
            const B* columns = b + e * b_batch;
            if (task == begin || first == 0)
                for (int64_t j = 0; j < n; j++)
                    for (int64_t p = 0; p < k; p++) lines[j * k + p] = widen<T>(columns[p * b_depth + j * b_col]);
            with_features<few_lines<T>>(n, [&](auto count) {
                tall_block<T, count.value>(a + e * a_batch, a_row, lines, k, first, smaller(first + height, m),
                                             out + e * m * n);
            });
        }
    });
}

}  // namespace tile
}  // namespace dynacomp
