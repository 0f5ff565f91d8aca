// Large matrices, and decompositions of any size, by LAPACK: the routines that JAX calls on CPUs, with the same
// arguments, so that results are the same to the bit.
//
// `dynacomp_lapack` holds their addresses, one row for each routine and a column for each element type. Whoever
// loads the library fills it in (kernels/lapack.py): they are SciPy's, as JAX's own.
// LAPACK's matrices have their columns one after the other; ours, row-major, are transposed on the way in and out.
#pragma once
#include "linalg.h"

extern "C" {
__attribute__((weak, visibility("default"))) void* dynacomp_lapack[36];
}

namespace dynacomp {
namespace lapack {

using tile::complex128;
using tile::complex64;

enum Routine { potrf, getrf, trsm, geqrf, orgqr, gesdd, syevd, geev, gtsv };

template <class T> struct Element;
template <> struct Element<float> { static constexpr int column = 0; using Real = float; using Complex = complex64; };
template <> struct Element<double> { static constexpr int column = 1; using Real = double; using Complex = complex128; };
template <> struct Element<complex64> { static constexpr int column = 2; using Real = float; using Complex = complex64; };
template <> struct Element<complex128> {
    static constexpr int column = 3;
    using Real = double;
    using Complex = complex128;
};
template <class T> constexpr bool is_complex = Element<T>::column >= 2;
template <class T> using Real = typename Element<T>::Real;
template <class T> using Complex = typename Element<T>::Complex;

template <class T> bool has(Routine routine) { return dynacomp_lapack[4 * routine + Element<T>::column] != nullptr; }

template <class T, class... A> void call(Routine routine, A... arguments) {
    ((void (*)(A...))dynacomp_lapack[4 * routine + Element<T>::column])(arguments...);
}

template <class T> void fill_nan(T* data, int64_t n) {
    T nan = T(__builtin_nan(""));
    if constexpr (is_complex<T>) __imag__ nan = __builtin_nan("");
    for (int64_t i = 0; i < n; i++) data[i] = nan;
}

// out[j, i] = in[i, j]: a register of rows at a time where elements fit into lanes.
template <class T> void transpose(const T* in, T* out, int64_t rows, int64_t columns) {
    if (rows == 1 || columns == 1) {
        __builtin_memcpy(out, in, uint64_t(rows * columns) * sizeof(T));
        return;
    }
    int64_t i = 0;
    if constexpr (sizeof(T) <= 8) {
        using Lane = std::conditional_t<sizeof(T) == 8, double, float>;
        for (constexpr int W = tile::lanes<Lane>; i + W <= rows; i += W)
            tile::transpose_strip<Lane>((const Lane*)in + i * columns, columns, columns, (Lane*)out + i, rows);
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) out[j * rows + i] = in[i * columns + j];
}

// `body(e)` for each matrix of a batch; `cost`: multiply-adds of one. Routines that have threads of their own
// (OpenBLAS's, for all but little work) are called by one thread: several, each with such threads, wait for each other.
template <class F> void each(const dynacomp_runtime* rt, int64_t batch, double cost, bool threaded, F&& body) {
    auto run = [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; e++) body(e);
    };
    if (threaded) run(0, batch);
    else parallel(rt, batch, grain_of(tile::matrix_work, cost), run);
}
constexpr int64_t factor_alone = 40000;  // elements of a matrix for whose Cholesky or LU factor OpenBLAS takes no threads
constexpr int64_t few_rows = 48;  // for whose QR factors and eigenvectors it takes none worth mention

// What a routine asks for in its first element of `work`.
template <class T> int asked(T work) { return int(__real__ work) > 1 ? int(__real__ work) : 1; }

}  // namespace lapack

// As `cholesky`, which takes small matrices.
template <class T> void cholesky_any(const dynacomp_runtime* rt, int64_t batch, int64_t n, const T* in, T* out) {
    using namespace lapack;
    if (n <= tile::small_matrix || !has<T>(potrf)) return cholesky(rt, batch, n, in, out);
    each(rt, batch, double(n * n * n), n * n >= factor_alone, [&](int64_t e) {
        scratch<T> a(n * n);
        if (!a.data) return;
        const int size = int(n);
        int info = 0;
        transpose(in + e * n * n, a.data, n, n);
        call<T>(potrf, "L", &size, a.data, &size, &info);
        transpose(a.data, out + e * n * n, n, n);
        if (info) fill_nan(out + e * n * n, n * n);
    });
}

namespace lapack {

template <class T> void factor(int64_t m, int64_t n, const T* in, T* out, int32_t* pivots, int32_t* permutation) {
    scratch<T> a(m * n);
    if (!a.data) return;
    const int rows = int(m), columns = int(n);
    int info = 0;
    transpose(in, a.data, m, n);
    call<T>(getrf, &rows, &columns, a.data, &rows, pivots, &info);
    transpose(a.data, out, n, m);
    for (int64_t i = 0; i < least(m, n); i++) pivots[i]--;
    tile::permute(permutation, m, pivots, least(m, n));
}

template <class T> bool has_nan(const T* data, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= data[i] != data[i];
    return found;
}

}  // namespace lapack

// As `lu`; which rows LAPACK swaps where it meets NaN is for LAPACK to say.
template <class T>
void lu_any(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, const T* in, T* out, int32_t* pivots,
            int32_t* permutation) {
    using namespace lapack;
    const int64_t steps = least(m, n);
    const bool small = (m <= tile::small_matrix && n <= tile::small_matrix) || steps == 0 || !has<T>(getrf);
    if (small) lu(rt, batch, m, n, in, out, pivots, permutation);
    if (!has<T>(getrf)) return;
    each(rt, batch, double(m * n * (small ? 1 : n)), m * n >= factor_alone, [&](int64_t e) {
        if (!small || has_nan(out + e * m * n, m * n))
            factor(m, n, in + e * m * n, out + e * m * n, pivots + e * steps, permutation + e * m);
    });
}

template <class T>
void triangular_solve_any(const dynacomp_runtime* rt, int64_t batch, int64_t rows, int64_t columns, bool left,
                          bool lower, bool transposed, bool conjugated, bool unit, const T* a, const T* b, T* out) {
    using namespace lapack;
    const int64_t n = left ? rows : columns;
    const bool wide = batch > 1 && rows * columns > n;  // threads of ours beat those of one matrix
    const int64_t small = wide ? 2 * tile::small_matrix : tile::small_matrix;
    if (n <= small || rows * columns == 0 || !has<T>(trsm))
        return triangular_solve(rt, batch, rows, columns, left, lower, transposed, conjugated, unit, a, b, out);
    each(rt, batch, double(n * rows * columns), rows * columns > n, [&](int64_t e) {
        scratch<T> triangle(n * n), x(rows * columns);
        if (!triangle.data || !x.data) return;
        const int m = int(rows), k = int(columns), size = int(n);
        T one = T(1);
        transpose(a + e * n * n, triangle.data, n, n);
        if (is_complex<T> && conjugated && !transposed)
            for (int64_t i = 0; i < n * n; i++) triangle.data[i] = tile::conjugate(triangle.data[i]);
        transpose(b + e * rows * columns, x.data, rows, columns);
        call<T>(trsm, left ? "L" : "R", lower ? "L" : "U", !transposed ? "N" : conjugated ? "C" : "T",
                unit ? "U" : "N", &m, &k, &one, triangle.data, &size, x.data, &m);
        transpose(x.data, out + e * rows * columns, columns, rows);
    });
}

// The factor R with the reflectors below it, and their scales.
template <class T>
void qr_factor(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, const T* in, T* out, T* taus) {
    using namespace lapack;
    if (m == 0 || n == 0) return;
    const int rows = int(m), columns = int(n), query = -1;
    T wanted = 0, none = 0;
    int info = 0;
    call<T>(geqrf, &rows, &columns, &none, &rows, &none, &wanted, &query, &info);
    const int size = asked(wanted);
    each(rt, batch, double(m * n * n), most(m, n) > few_rows, [&](int64_t e) {
        scratch<T> a(m * n), work(size);
        if (!a.data || !work.data) return;
        int failed = 0;
        transpose(in + e * m * n, a.data, m, n);
        call<T>(geqrf, &rows, &columns, a.data, &rows, taus + e * least(m, n), work.data, &size, &failed);
        transpose(a.data, out + e * m * n, n, m);
    });
}

// The first n columns of the product of k reflectors.
template <class T>
void reflectors(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, int64_t k, const T* in, const T* taus,
                T* out) {
    using namespace lapack;
    if (m == 0 || n == 0) return;
    const int rows = int(m), columns = int(n), count = int(k), query = -1;
    T wanted = 0, none = 0;
    int info = 0;
    call<T>(orgqr, &rows, &columns, &count, &none, &rows, &none, &wanted, &query, &info);
    const int size = asked(wanted);
    each(rt, batch, double(m * n * n), most(m, n) > few_rows, [&](int64_t e) {
        scratch<T> a(m * n), work(size);
        if (!a.data || !work.data) return;
        int failed = 0;
        transpose(in + e * m * n, a.data, m, n);
        call<T>(orgqr, &rows, &columns, &count, a.data, &rows, taus + e * k, work.data, &size, &failed);
        transpose(a.data, out + e * m * n, n, m);
    });
}

// Singular values, largest first, and where `u` is given the vectors: all of them (`full`) or as many as values.
template <class T>
void singular(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, bool full, const T* in,
              lapack::Real<T>* s, T* u, T* vt) {
    using namespace lapack;
    const int64_t k = least(m, n), wide = most(m, n), us = u ? (full ? m : k) : 1, vs = u ? (full ? n : k) : 1;
    if (k == 0) {  // the vectors of a matrix without elements are unit vectors
        if (u && us)
            for (int64_t i = 0; i < batch * m * us; i++) u[i] = T(i % (m * us) / us == i % us);
        if (u && vs)
            for (int64_t i = 0; i < batch * vs * n; i++) vt[i] = T(i % (vs * n) / n == i % n);
        return;
    }
    const char* mode = !u ? "N" : full ? "A" : "S";
    const int rows = int(m), columns = int(n), ldu = int(m), ldvt = int(vs), query = -1;
    T wanted = 0, none = 0;
    Real<T> nothing = 0;
    int info = 0, index = 0;
    if constexpr (is_complex<T>)
        call<T>(gesdd, mode, &rows, &columns, &none, &rows, &nothing, &none, &ldu, &none, &ldvt, &wanted, &query,
                &nothing, &index, &info);
    else
        call<T>(gesdd, mode, &rows, &columns, &none, &rows, &nothing, &none, &ldu, &none, &ldvt, &wanted, &query,
                &index, &info);
    const int size = asked(wanted);
    const int64_t real = !is_complex<T> ? 1 : !u ? 7 * k : most(5 * k * k + 5 * k, 2 * wide * k + 2 * k * k + k);
    each(rt, batch, 8.0 * double(m * n * k), most(m, n) > tile::small_matrix, [&](int64_t e) {
        scratch<T> a(m * n), work(size), left(u ? m * us : 1), right(u ? vs * n : 1);
        scratch<Real<T>> more(real);
        scratch<int> indices(8 * k);
        if (!a.data || !work.data || !left.data || !right.data || !more.data || !indices.data) return;
        int failed = 0;
        transpose(in + e * m * n, a.data, m, n);
        if constexpr (is_complex<T>)
            call<T>(gesdd, mode, &rows, &columns, a.data, &rows, s + e * k, left.data, &ldu, right.data, &ldvt,
                    work.data, &size, more.data, indices.data, &failed);
        else
            call<T>(gesdd, mode, &rows, &columns, a.data, &rows, s + e * k, left.data, &ldu, right.data, &ldvt,
                    work.data, &size, indices.data, &failed);
        if (failed) fill_nan(s + e * k, k);
        if (!u) return;
        transpose(left.data, u + e * m * us, us, m);
        transpose(right.data, vt + e * vs * n, n, vs);
        if (failed) fill_nan(u + e * m * us, m * us), fill_nan(vt + e * vs * n, vs * n);
    });
}

// Eigenvectors (in columns) and eigenvalues, smallest first, of matrices of which one half counts.
template <class T>
void symmetric(const dynacomp_runtime* rt, int64_t batch, int64_t n, bool lower, const T* in, T* vectors,
               lapack::Real<T>* values) {
    using namespace lapack;
    if (n == 0) return;
    const int size = int(n), wanted = int(is_complex<T> ? 2 * n + n * n : 1 + 6 * n + 2 * n * n);
    const int real = int(1 + 5 * n + 2 * n * n), index = int(3 + 5 * n);
    each(rt, batch, 8.0 * double(n * n * n), n > few_rows, [&](int64_t e) {
        scratch<T> a(n * n), work(wanted);
        scratch<Real<T>> more(is_complex<T> ? real : 1);
        scratch<int> indices(index);
        if (!a.data || !work.data || !more.data || !indices.data) return;
        int failed = 0;
        transpose(in + e * n * n, a.data, n, n);
        if constexpr (is_complex<T>)
            call<T>(syevd, "V", lower ? "L" : "U", &size, a.data, &size, values + e * n, work.data, &wanted, more.data,
                    &real, indices.data, &index, &failed);
        else
            call<T>(syevd, "V", lower ? "L" : "U", &size, a.data, &size, values + e * n, work.data, &wanted,
                    indices.data, &index, &failed);
        transpose(a.data, vectors + e * n * n, n, n);
        if (failed) fill_nan(vectors + e * n * n, n * n), fill_nan(values + e * n, n);
    });
}

namespace lapack {

inline bool finite(float x) { return __builtin_isfinite(x); }
inline bool finite(double x) { return __builtin_isfinite(x); }
inline bool finite(complex64 x) { return finite(__real__ x) && finite(__imag__ x); }
inline bool finite(complex128 x) { return finite(__real__ x) && finite(__imag__ x); }

// Eigenvectors of a real matrix: those of a conjugate pair lie side by side, real and imaginary part.
template <class T> void unpack(int64_t n, const T* imaginary, const T* packed, Complex<T>* out) {
    for (int64_t j = 0; j < n;) {
        const bool alone = imaginary[j] == 0 || imaginary[j] != imaginary[j] || j + 1 == n;
        for (int64_t i = 0; i < n; i++) {
            Complex<T> x = packed[j * n + i];
            if (!alone) __imag__ x = packed[(j + 1) * n + i];
            out[i * n + j] = x;
            if (!alone) out[i * n + j + 1] = tile::conjugate(x);
        }
        j += alone ? 1 : 2;
    }
}

template <class T> struct Eigen {  // of one matrix, and room for it
    int size, work_size;
    const char *left, *right;
    T *a, *vl, *vr, *work;
    Real<T>*first, *second;  // real: the values' parts; complex: room
    int run(Complex<T>* values) {
        int info = 0;
        if constexpr (is_complex<T>)
            call<T>(geev, left, right, &size, a, &size, values, vl, &size, vr, &size, work, &work_size, first, &info);
        else
            call<T>(geev, left, right, &size, a, &size, first, second, vl, &size, vr, &size, work, &work_size, &info);
        return info;
    }
};

}  // namespace lapack

// Eigenvalues, and eigenvectors in columns, left and right, where they are wanted.
template <class T>
void general(const dynacomp_runtime* rt, int64_t batch, int64_t n, const T* in, lapack::Complex<T>* values,
             lapack::Complex<T>* lefts, lapack::Complex<T>* rights) {
    using namespace lapack;
    if (n == 0) return;
    const char *left = lefts ? "V" : "N", *right = rights ? "V" : "N";
    T wanted = 0, none = 0;
    Real<T> nothing = 0;
    Complex<T> value = 0;
    Eigen<T> query{int(n), -1, left, right, &none, &none, &none, &wanted, &nothing, &nothing};
    query.run(&value);
    const int size = asked(wanted);
    each(rt, batch, 25.0 * double(n * n * n), n > tile::small_matrix, [&](int64_t e) {
        scratch<T> a(n * n), vl(lefts ? n * n : 1), vr(rights ? n * n : 1), work(size);
        scratch<Real<T>> room(2 * n);
        if (!a.data || !vl.data || !vr.data || !work.data || !room.data) return;
        transpose(in + e * n * n, a.data, n, n);
        bool ok = true;
        for (int64_t i = 0; i < n * n; i++) ok &= finite(a.data[i]);
        Eigen<T> one{int(n), size, left, right, a.data, vl.data, vr.data, work.data, room.data, room.data + n};
        ok = ok && one.run(values + e * n) == 0;
        if (!ok) fill_nan(values + e * n, n);
        if constexpr (!is_complex<T>)
            for (int64_t i = 0; ok && i < n; i++) {
                __real__ values[e * n + i] = one.first[i];
                __imag__ values[e * n + i] = one.second[i];
            }
        for (int side = 0; side < 2; side++) {
            Complex<T>* out = side ? rights : lefts;
            const T* packed = side ? one.vr : one.vl;
            if (!out) continue;
            if (!ok) fill_nan(out + e * n * n, n * n);
            else if constexpr (is_complex<T>) transpose(packed, out + e * n * n, n, n);
            else unpack(n, one.second, packed, out + e * n * n);
        }
    });
}

// Tridiagonal systems: below, on and above the diagonal (below[0] and above[n - 1] are outside).
template <class T>
void tridiagonal(const dynacomp_runtime* rt, int64_t batch, int64_t n, int64_t columns, const T* below, const T* on,
                 const T* above, const T* b, T* out) {
    using namespace lapack;
    if (n == 0 || columns == 0) return;
    each(rt, batch, 8.0 * double(n * columns), false, [&](int64_t e) {
        scratch<T> parts(3 * n), x(n * columns);
        if (!parts.data || !x.data) return;
        const T* all[] = {below, on, above};
        for (int k = 0; k < 3; k++) __builtin_memcpy(parts.data + k * n, all[k] + e * n, uint64_t(n) * sizeof(T));
        const int size = int(n), count = int(columns);
        int info = 0;
        transpose(b + e * n * columns, x.data, n, columns);
        call<T>(gtsv, &size, &count, parts.data + 1, parts.data + n, parts.data + 2 * n, x.data, &size, &info);
        transpose(x.data, out + e * n * columns, columns, n);
        if (info) fill_nan(out + e * n * columns, n * columns);
    });
}

}  // namespace dynacomp
