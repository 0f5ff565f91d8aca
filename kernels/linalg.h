// Small matrices, many of them: Cholesky and LU factors, triangular solves, one matrix after the other
// without blocks, batches spread over threads.
//
// Matrices are row-major and contiguous. Arithmetic and failures are LAPACK's: a Cholesky factor of a matrix
// that is not positive is NaN everywhere, an LU factor of a singular one has a zero on its diagonal.
#pragma once
#include "tile.h"

namespace dynacomp {
namespace tile {

inline float conjugate(float x) { return x; }
inline double conjugate(double x) { return x; }
inline complex64 conjugate(complex64 x) { return ~x; }
inline complex128 conjugate(complex128 x) { return ~x; }
template <class T> auto real_of(T x) { return __real__ x; }
template <class T> auto size_of(T x) {  // by which LAPACK picks pivots
    auto re = __real__ x, im = __imag__ x;
    return (re < 0 ? -re : re) + (im < 0 ? -im : im);
}

constexpr double matrix_work = 1 << 15;  // multiply-adds worth waking a thread for
constexpr int64_t small_matrix = 32;     // larger ones want blocks: LAPACK's (lapack.h)

// The order of rows after all swaps.
inline void permute(int32_t* order, int64_t rows, const int32_t* pivots, int64_t steps) {
    for (int64_t i = 0; i < rows; i++) order[i] = int32_t(i);
    for (int64_t i = 0; i < steps; i++) {
        const int32_t other = pivots[i], held = order[i];
        order[i] = order[other];
        order[other] = held;
    }
}

// The lower factor in place; what is above the diagonal stays. False where a pivot is not positive.
template <class T> bool cholesky_one(T* a, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        auto pivot = real_of(a[j * n + j]);
        for (int64_t k = 0; k < j; k++) pivot -= real_of(a[j * n + k] * conjugate(a[j * n + k]));
        if (!(pivot > 0)) return false;
        pivot = sizeof(pivot) == 4 ? __builtin_sqrtf(float(pivot)) : __builtin_sqrt(double(pivot));
        a[j * n + j] = pivot;
        for (int64_t i = j + 1; i < n; i++) {
            T sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) sum -= a[i * n + k] * conjugate(a[j * n + k]);
            a[i * n + j] = sum / pivot;
        }
    }
    return true;
}

// Both factors in place, with the row that each step swapped in.
template <class T> void lu_one(T* a, int64_t m, int64_t n, int32_t* pivots) {
    for (int64_t j = 0; j < (m < n ? m : n); j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < m; i++)
            if (size_of(a[i * n + j]) > size_of(a[best * n + j])) best = i;
        pivots[j] = int32_t(best);
        if (a[best * n + j] == T(0)) continue;
        if (best != j)
            for (int64_t k = 0; k < n; k++) {
                T held = a[j * n + k];
                a[j * n + k] = a[best * n + k];
                a[best * n + k] = held;
            }
        for (int64_t i = j + 1; i < m; i++) {
            const T factor = a[i * n + j] /= a[j * n + j];
            for (int64_t k = j + 1; k < n; k++) a[i * n + k] -= factor * a[j * n + k];
        }
    }
}

template <class T> struct Triangle {  // op(A), of which one half counts
    const T* data;
    int64_t n;
    bool lower, transposed, conjugated, unit;
    bool is_lower() const { return lower != transposed; }
    T at(int64_t i, int64_t j) const {
        const T x = transposed ? data[j * n + i] : data[i * n + j];
        return conjugated ? conjugate(x) : x;
    }
};

// op(A) X = B in place, B of n rows.
template <class T> void solve_left(const Triangle<T>& a, T* b, int64_t columns) {
    for (int64_t s = 0; s < a.n; s++) {
        const int64_t i = a.is_lower() ? s : a.n - 1 - s;
        T* row = b + i * columns;
        for (int64_t t = 0; t < s; t++) {
            const int64_t k = a.is_lower() ? t : a.n - 1 - t;
            const T factor = a.at(i, k);
            for (int64_t c = 0; c < columns; c++) row[c] -= factor * b[k * columns + c];
        }
        if (!a.unit) {
            const T pivot = a.at(i, i);
            for (int64_t c = 0; c < columns; c++) row[c] /= pivot;
        }
    }
}

// X op(A) = B in place, B of n columns: op(A)^T X^T = B^T, so that the rows of B are lanes.
template <class T> void solve_right(const Triangle<T>& a, T* b, int64_t rows) {
    T* turned = (T*)scratch<0>(rows * a.n * int64_t(sizeof(T)));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < a.n; j++) turned[j * rows + r] = b[r * a.n + j];
    solve_left(Triangle<T>{a.data, a.n, a.lower, !a.transposed, a.conjugated, a.unit}, turned, rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < a.n; j++) b[r * a.n + j] = turned[j * rows + r];
}

}  // namespace tile

template <class T> void cholesky(const dynacomp_runtime* rt, int64_t batch, int64_t n, const T* in, T* out) {
    parallel(rt, batch, grain_of(tile::matrix_work, double(n * n * n)), [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; e++) {
            T* a = out + e * n * n;
            __builtin_memcpy(a, in + e * n * n, uint64_t(n * n) * sizeof(T));
            if (!tile::cholesky_one(a, n))
                for (int64_t i = 0; i < n * n; i++) {
                    a[i] = T(__builtin_nan(""));
                    if constexpr (sizeof(T) == 2 * sizeof(__real__ a[i])) __imag__ a[i] = __builtin_nan("");
                }
        }
    });
}

template <class T>
void lu(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, const T* in, T* out, int32_t* pivots,
        int32_t* permutation) {
    const int64_t steps = m < n ? m : n;
    parallel(rt, batch, grain_of(tile::matrix_work, double(m * n * n)), [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; e++) {
            __builtin_memcpy(out + e * m * n, in + e * m * n, uint64_t(m * n) * sizeof(T));
            tile::lu_one(out + e * m * n, m, n, pivots + e * steps);
            tile::permute(permutation + e * m, m, pivots + e * steps, steps);
        }
    });
}

// `left`: op(A) X = B with B of rows x columns, else X op(A) = B.
template <class T>
void triangular_solve(const dynacomp_runtime* rt, int64_t batch, int64_t rows, int64_t columns, bool left, bool lower,
                      bool transposed, bool conjugated, bool unit, const T* a, const T* b, T* out) {
    const int64_t n = left ? rows : columns;
    parallel(rt, batch, grain_of(tile::matrix_work, double(n * rows * columns)), [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; e++) {
            T* x = out + e * rows * columns;
            __builtin_memcpy(x, b + e * rows * columns, uint64_t(rows * columns) * sizeof(T));
            const tile::Triangle<T> triangle{a + e * n * n, n, lower, transposed, conjugated, unit};
            if (left)
                tile::solve_left(triangle, x, columns);
            else
                tile::solve_right(triangle, x, rows);
        }
    });
}

}  // namespace dynacomp
