// Discrete Fourier transforms of lengths known when the code is compiled, over up to three trailing dimensions.
//
// `transform` does as many lines as a register has lanes, in step: a length is taken apart into its factors, eights
// and fours first (decimation in time, one recursion per factor). Lanes are neighbours in memory wherever the
// dimension is not the last one. A line of the last dimension is two such transforms where its length is a product
// of two that fill registers: of N1 x N2 numbers first the columns, times roots of unity, then the rows. Where it is
// not, lines are turned, so that lanes are lines. Real numbers are taken for complex ones, half as many. Roots of
// unity are computed in double once a process.
#pragma once
#include <math.h>

#include "tile.h"

namespace dynacomp {
namespace tile {

template <class T> struct Complex {
    T re, im;
};
template <class T> Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T, class R> Complex<T> operator*(Complex<T> a, Complex<R> b) {  // b may be one number for all lanes
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> Complex<T> conjugate(Complex<T> a) { return {a.re, -a.im}; }
template <class T> Complex<T> swapped(Complex<T> a) { return {a.im, a.re}; }
template <class T> Complex<T> turned(Complex<T> a) { return {a.im, -a.re}; }  // times -i

inline Complex<double> root_of_unity(int64_t k, int64_t n) {  // e^(-2 pi i k / n)
    const double angle = -6.283185307179586476925286766559 * double(k % n) / double(n);
    return {cos(angle), sin(angle)};
}

template <class T, int64_t N> struct Roots {
    Complex<T> at[N];
    Roots() {
        for (int64_t k = 0; k < N; k++) {
            const Complex<double> root = root_of_unity(k, N);
            at[k] = {T(root.re), T(root.im)};
        }
    }
};

// ---- registers of pairs -------------------------------------------------------------------------

template <class T, int... l>
inline Complex<Vector<T>> unwoven(Vector<T> a, Vector<T> b, std::integer_sequence<int, l...>) {
    return {__builtin_shufflevector(a, b, (2 * l)...), __builtin_shufflevector(a, b, (2 * l + 1)...)};
}
template <class T> inline Complex<Vector<T>> load_pairs(const Complex<T>* from) {
    const auto* half = (const Vector<T>*)from;
    return unwoven<T>(half[0], half[1], std::make_integer_sequence<int, lanes<T>>{});
}
template <class T, int... l>
inline void store_woven(Complex<T>* to, Complex<Vector<T>> x, std::integer_sequence<int, l...>) {
    constexpr int W = lanes<T>;
    auto* half = (Vector<T>*)to;
    half[0] = __builtin_shufflevector(x.re, x.im, (l / 2 + l % 2 * W)...);
    half[1] = __builtin_shufflevector(x.re, x.im, (W / 2 + l / 2 + l % 2 * W)...);
}
template <class T> inline void store_pairs(Complex<T>* to, Complex<Vector<T>> x) {
    store_woven<T>(to, x, std::make_integer_sequence<int, lanes<T>>{});
}
// `count` lanes, each `apart` from the last.
template <class T> inline Complex<Vector<T>> load_few(const Complex<T>* from, int64_t apart, int64_t count) {
    alignas(64) Complex<T> all[lanes<T>] = {};
    for (int64_t l = 0; l < count; l++) all[l] = from[l * apart];
    return load_pairs(all);
}
template <class T> inline void store_few(Complex<T>* to, int64_t apart, int64_t count, Complex<Vector<T>> x) {
    alignas(64) Complex<T> all[lanes<T>];
    store_pairs(all, x);
    for (int64_t l = 0; l < count; l++) to[l * apart] = all[l];
}

// ---- lines in step ------------------------------------------------------------------------------

constexpr int64_t factor_of(int64_t n) {
    if (tile_rows == 8 && n % 8 == 0 && n != 16) return 8;
    if (n % 4 == 0) return 4;
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0) return p;
    return n;
}

template <class V> inline void quarter(Complex<V>& a, Complex<V>& b, Complex<V>& c, Complex<V>& d) {
    const Complex<V> even = a + c, odd = b + d, left = a - c, right = turned(b - d);
    a = even + odd, c = even - odd, b = left + right, d = left - right;
}

// The transform of p numbers, in place; roots[k * turn] are those of p.
template <class V, int64_t p, class R> inline void butterfly(Complex<V> (&x)[p], const Complex<R>* roots, int64_t turn) {
    if constexpr (p == 1) {
        return;
    } else if constexpr (p == 2) {
        const Complex<V> sum = x[0] + x[1];
        x[1] = x[0] - x[1], x[0] = sum;
    } else if constexpr (p == 4) {
        quarter(x[0], x[1], x[2], x[3]);
    } else if constexpr (p == 8) {
        const R h = R(0.70710678118654752440);
        quarter(x[0], x[2], x[4], x[6]);
        quarter(x[1], x[3], x[5], x[7]);
        const Complex<V> odd[4] = {x[1], {(x[3].re + x[3].im) * h, (x[3].im - x[3].re) * h}, turned(x[5]),
                                   {(x[7].im - x[7].re) * h, (x[7].re + x[7].im) * -h}};
        const Complex<V> even[4] = {x[0], x[2], x[4], x[6]};
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) x[r] = even[r] + odd[r], x[r + 4] = even[r] - odd[r];
    } else {  // an odd prime: what stands for k and p - k shares its products
        constexpr int64_t half = p / 2;
        Complex<V> sums[half], differences[half], out[p];
        out[0] = x[0];
#pragma GCC unroll 4
        for (int64_t j = 0; j < half; j++) {
            sums[j] = x[j + 1] + x[p - 1 - j], differences[j] = x[j + 1] - x[p - 1 - j];
            out[0] = out[0] + sums[j];
        }
#pragma GCC unroll 4
        for (int64_t r = 1; r <= half; r++) {
            Complex<V> a = x[0], b = {V{}, V{}};
#pragma GCC unroll 4
            for (int64_t j = 0; j < half; j++) {
                const Complex<R> root = roots[(j + 1) * r % p * turn];
                a.re += sums[j].re * root.re, a.im += sums[j].im * root.re;
                b.re -= differences[j].im * root.im, b.im += differences[j].re * root.im;
            }
            out[r] = a + b, out[p - r] = a - b;
        }
#pragma GCC unroll 8
        for (int64_t r = 0; r < p; r++) x[r] = out[r];
    }
}

// load(k) gives the elements k of the lines, store(k, x) takes those of the results; `work` holds n.
template <class V, int64_t n, int64_t all, class R, class Load, class Store>
void transform(Load load, int64_t first, int64_t stride, Complex<V>* work, const Complex<R>* roots, Store store) {
    constexpr int64_t p = factor_of(n), m = n / p, turn = all / n;
    Complex<V> x[p];
    if constexpr (m == 1) {
#pragma GCC unroll 8
        for (int64_t q = 0; q < p; q++) x[q] = load(first + q * stride);
        butterfly<V, p>(x, roots, all / p);
#pragma GCC unroll 8
        for (int64_t r = 0; r < p; r++) store(r, x[r]);
    } else {
        for (int64_t q = 0; q < p; q++)
            transform<V, m, all>(load, first + q * stride, stride * p, work + q * m, roots,
                                 [to = work + q * m](int64_t k, Complex<V> y) { to[k] = y; });
#pragma GCC unroll 8
        for (int64_t q = 0; q < p; q++) x[q] = work[q * m];
        butterfly<V, p>(x, roots, all / p);
#pragma GCC unroll 8
        for (int64_t r = 0; r < p; r++) store(r * m, x[r]);
        for (int64_t k = 1; k < m; k++) {
            x[0] = work[k];
#pragma GCC unroll 8
            for (int64_t q = 1; q < p; q++) x[q] = work[q * m + k] * roots[q * k * turn];
            butterfly<V, p>(x, roots, all / p);
#pragma GCC unroll 8
            for (int64_t r = 0; r < p; r++) store(k + r * m, x[r]);
        }
    }
}

template <class T, int64_t N, class Load, class Store> void transform_all(Load load, Store store) {
    using V = Vector<T>;
    static const Roots<T, N> roots;
    transform<V, N, N>(load, 0, 1, (Complex<V>*)scratch<0>(N * int64_t(sizeof(Complex<V>))), roots.at, store);
}

// A transform back is one forth of numbers whose parts are swapped.
template <bool inverse, class V> inline Complex<V> facing(Complex<V> x) {
    if constexpr (inverse) return swapped(x);
    else return x;
}
template <bool inverse, class V, class T> inline Complex<V> scaled(Complex<V> x, T by) {
    if constexpr (inverse) return {x.im * by, x.re * by};
    else return x;
}

// ---- dimensions ---------------------------------------------------------------------------------

// One dimension of N elements, `inner` apart, in place: lanes are neighbours as far as there are some.
template <class T, int64_t N, bool inverse>
void fft_axis(const dynacomp_runtime* rt, int64_t outer, int64_t inner, Complex<T>* x) {
    constexpr int64_t W = lanes<T>;
    const int64_t groups = ceil_quotient(inner, W);
    parallel(rt, outer * groups, grain_of(1 << 15, 4.0 * double(N * W)), [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; g++) {
            Complex<T>* at = x + g / groups * N * inner + g % groups * W;
            const int64_t count = smaller(W, inner - g % groups * W);
            const T scale = T(1) / T(N);
            if (count == W)
                transform_all<T, N>([=](int64_t k) { return facing<inverse>(load_pairs(at + k * inner)); },
                                    [=](int64_t k, Complex<Vector<T>> v) {
                                        store_pairs(at + k * inner, scaled<inverse>(v, scale));
                                    });
            else
                transform_all<T, N>([=](int64_t k) { return facing<inverse>(load_few(at + k * inner, 1, count)); },
                                    [=](int64_t k, Complex<Vector<T>> v) {
                                        store_few(at + k * inner, 1, count, scaled<inverse>(v, scale));
                                    });
        }
    });
}

// Work on one register of lines of length n, in rough cycles.
constexpr int64_t work_of(int64_t n) {
    int64_t each = 2;
    for (int64_t rest = n; rest > 1; rest /= factor_of(rest)) {
        const int64_t p = factor_of(rest);
        each += p == 8 ? 9 : p == 4 ? 6 : p + 2;
    }
    return n * each;
}
// N = N1 * N2, as columns of N1 and rows of N2 that leave the least lanes empty; N1 is 1 where there are none.
template <class T> constexpr int64_t work_of_two(int64_t first, int64_t second) {
    return ceil_quotient(second, lanes<T>) * work_of(first) + ceil_quotient(first, lanes<T>) * work_of(second) +
           8 * ceil_quotient(first * second, lanes<T>);
}
template <class T> constexpr int64_t first_of_two(int64_t n) {
    int64_t best = 1;
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            for (int64_t q : {p, n / p})
                if (best == 1 || work_of_two<T>(q, n / q) < work_of_two<T>(best, n / best)) best = q;
    return best;
}

// Columns of N1 and rows of N2, whose lanes are neighbours first, rows after that.
template <class T, int64_t N1, int64_t N2> struct Turns {  // e^(-2 pi i k j / N) at [k, j], as far as lanes go
    static constexpr int64_t width = N2 < lanes<T> ? lanes<T> : N2, height = N1 < lanes<T> ? lanes<T> : N1;
    T re[N1 * width], im[N1 * width];
    Turns() {
        for (int64_t k = 0; k < N1; k++)
            for (int64_t j = 0; j < width; j++) {
                const Complex<double> root = root_of_unity(k * j, N1 * N2);
                re[k * width + j] = T(root.re), im[k * width + j] = T(root.im);
            }
    }
};

template <class T, int64_t N, bool inverse>
void fft_line(const dynacomp_runtime* rt, const Complex<T>* in, Complex<T>* out, T scale) {
    using V = Vector<T>;
    constexpr int64_t W = lanes<T>, N1 = first_of_two<T>(N), N2 = N / N1;
    using Table = Turns<T, N1, N2>;
    constexpr int64_t width = Table::width, held = Table::height * width;
    static const Table turns;
    T* re = (T*)scratch<1>(2 * held * int64_t(sizeof(T)));
    T* im = re + held;
    auto columns = [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; g++) {
            const int64_t j = N2 < W ? 0 : smaller(g * W, N2 - W);
            auto store = [=](int64_t k, Complex<V> x) {
                const int64_t at = k * width + j;
                x = x * Complex<V>{*(const V*)(turns.re + at), *(const V*)(turns.im + at)};
                *(V*)(re + at) = x.re, *(V*)(im + at) = x.im;
            };
            auto load = [=](int64_t k) {
                if constexpr (N2 < W) return facing<inverse>(load_few(in + k * N2, 1, N2));
                else return facing<inverse>(load_pairs(in + k * N2 + j));
            };
            transform_all<T, N1>(load, store);
        }
    };
    auto rows = [&](int64_t begin, int64_t end) {
        T* lines = (T*)scratch<2>(2 * N2 * W * int64_t(sizeof(T)));
        for (int64_t g = begin; g < end; g++) {
            const int64_t i = N1 < W ? 0 : smaller(g * W, N1 - W);
            transpose_strip<T>(re + i * width, width, N2, lines, W);
            transpose_strip<T>(im + i * width, width, N2, lines + N2 * W, W);
            auto load = [=](int64_t k) {
                return Complex<V>{*(const V*)(lines + k * W), *(const V*)(lines + (N2 + k) * W)};
            };
            auto store = [=](int64_t k, Complex<V> x) {
                if constexpr (N1 < W) store_few(out + k * N1, 1, N1, scaled<inverse>(x, scale));
                else store_pairs(out + k * N1 + i, scaled<inverse>(x, scale));
            };
            transform_all<T, N2>(load, store);
        }
    };
    const int64_t wide = ceil_quotient(N2, W), high = ceil_quotient(N1, W);
    if (rt) {
        parallel(rt, wide, ceil_quotient(wide, 8), columns);
        parallel(rt, high, ceil_quotient(high, 8), rows);
    } else {
        columns(0, wide);
        rows(0, high);
    }
}

// Up to as many lines as a register has lanes, turned: lanes are lines.
template <class T, int64_t N, bool inverse>
void fft_turned(int64_t count, const Complex<T>* in, int64_t from, Complex<T>* out, int64_t to, T scale) {
    using V = Vector<T>;
    constexpr int64_t W = lanes<T>, width = ceil_quotient(N, W) * W, held = W * width;
    T* rows = (T*)scratch<1>(4 * held * int64_t(sizeof(T)));  // both parts, and both turned
    T* upright = rows + 2 * held;
    for (int64_t l = 0; l < count; l++)
        for (int64_t k = 0; k < width; k += W) {
            const Complex<T>* at = in + l * from + k;
            const Complex<V> x = k + W <= N ? load_pairs(at) : load_few(at, 1, N - k);
            *(V*)(rows + l * width + k) = x.re, *(V*)(rows + held + l * width + k) = x.im;
        }
    for (int part = 0; part < 2; part++) transpose_strip<T>(rows + part * held, width, N, upright + part * held, W);
    auto load = [=](int64_t k) {
        return facing<inverse>(Complex<V>{*(const V*)(upright + k * W), *(const V*)(upright + held + k * W)});
    };
    auto store = [=](int64_t k, Complex<V> x) {
        x = scaled<inverse>(x, scale);
        *(V*)(upright + k * W) = x.re, *(V*)(upright + held + k * W) = x.im;
    };
    transform_all<T, N>(load, store);
    for (int part = 0; part < 2; part++)
        for (int64_t k = 0; k < width; k += W)
            transpose_strip<T>(upright + part * held + k * W, W, W, rows + part * held + k, width);
    for (int64_t l = 0; l < count; l++)
        for (int64_t k = 0; k < N; k += W) {
            const T* at = rows + l * width + k;
            const Complex<V> x = {*(const V*)at, *(const V*)(at + held)};
            if (k + W <= N) store_pairs(out + l * to + k, x);
            else store_few(out + l * to + k, 1, N - k, x);
        }
}

// Every line of length N, `from` apart in `in`, `to` in `out`; before(line, to) gives where a line is, after(line)
// comes behind it.
template <class T, int64_t N, bool inverse, class Before, class After>
void each_line(const dynacomp_runtime* rt, int64_t lines, Before before, int64_t from, Complex<T>* out, int64_t to,
               T scale, After after) {
    constexpr int64_t W = lanes<T>, first = first_of_two<T>(N), alone = work_of_two<T>(first, N / first);
    constexpr int64_t together = (work_of(N) + 20 * N) * (N * W * int64_t(sizeof(T)) > (1 << 15) ? 2 : 1);
    constexpr bool never_alone = first == 1, always_alone = !never_alone && alone * W <= together;
    if (!never_alone && (always_alone || alone * lines <= together)) {
        if constexpr (!never_alone) {
            auto run = [&](const dynacomp_runtime* inside, int64_t begin, int64_t end) {
                for (int64_t l = begin; l < end; l++) {
                    fft_line<T, N, inverse>(inside, before(l, 1), out + l * to, scale);
                    after(l);
                }
            };
            auto by_lines = [&](int64_t begin, int64_t end) { run(nullptr, begin, end); };
            if (N >= 1 << 14 && lines < rt->threads) run(rt, 0, lines);
            else parallel(rt, lines, grain_of(1 << 15, 2.0 * double(alone)), by_lines);
        }
    } else if constexpr (!always_alone) {
        const int64_t groups = ceil_quotient(lines, W);
        parallel(rt, groups, grain_of(1 << 15, 2.0 * double(together)), [&](int64_t begin, int64_t end) {
            for (int64_t g = begin; g < end; g++) {
                const int64_t count = smaller(W, lines - g * W);
                fft_turned<T, N, inverse>(count, before(g * W, count), from, out + g * W * to, to, scale);
                for (int64_t l = 0; l < count; l++) after(g * W + l);
            }
        });
    }
}

template <class T, int64_t N, bool inverse>
void fft_lines(const dynacomp_runtime* rt, int64_t lines, const Complex<T>* in, Complex<T>* out) {
    each_line<T, N, inverse>(rt, lines, [=](int64_t l, int64_t) { return in + l * N; }, N, out, N, T(1) / T(N),
                             [](int64_t) {});
}

// ---- real numbers -------------------------------------------------------------------------------

template <int64_t N> constexpr int64_t half = N / 2 + 1;

// Numbers k and M - k of a transform of M pairs, as those of 2 * M real numbers, and the other way.
template <class V, class R> inline void untangled(Complex<V>& low, Complex<V>& high, Complex<R> root) {
    const Complex<V> a = low, b = conjugate(high);
    const Complex<V> even = {(a.re + b.re) / 2, (a.im + b.im) / 2}, odd = {(a.im - b.im) / 2, (b.re - a.re) / 2};
    const Complex<V> rest = odd * root;
    low = even + rest, high = conjugate(even - rest);
}
template <class V, class R> inline void tangled(Complex<V>& low, Complex<V>& high, Complex<R> root) {
    const Complex<V> a = low, b = conjugate(high);
    const Complex<V> even = {(a.re + b.re) / 2, (a.im + b.im) / 2}, apart = {(a.re - b.re) / 2, (a.im - b.im) / 2};
    const Complex<V> odd = apart * conjugate(root), rest = {-odd.im, odd.re};
    low = even + rest, high = conjugate(even - rest);
}
template <class T, int... l> inline Vector<T> backwards(Vector<T> x, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(x, x, (lanes<T> - 1 - l)...);
}
template <class T> inline Complex<Vector<T>> backwards(Complex<Vector<T>> x) {
    constexpr std::make_integer_sequence<int, lanes<T>> all;
    return {backwards<T>(x.re, all), backwards<T>(x.im, all)};
}
// Every k in (0, M / 2] and M - k, from `in` to `out`; these may be the same.
template <class T, int64_t M, class Change> void each_two(const Complex<T>* in, Complex<T>* out, Change change) {
    static const Roots<T, 2 * M> roots;
    constexpr int64_t W = lanes<T>;
    int64_t k = 1;
    for (; 2 * (k + W - 1) < M; k += W) {
        const int64_t other = M - k - W + 1;
        Complex<Vector<T>> low = load_pairs(in + k), high = backwards<T>(load_pairs(in + other));
        change(low, high, load_pairs(roots.at + k));
        store_pairs(out + k, low), store_pairs(out + other, backwards<T>(high));
    }
    for (; 2 * k <= M; k++) {
        Complex<T> low = in[k], high = in[M - k];
        change(low, high, roots.at[k]);
        out[M - k] = high, out[k] = low;
    }
}

// The transform of 2 * M real numbers from that of M pairs of them, in place.
template <class T, int64_t M> void untangle(Complex<T>* x) {
    const Complex<T> first = x[0];
    each_two<T, M>(x, x, [](auto& low, auto& high, auto root) { untangled(low, high, root); });
    x[0] = {first.re + first.im, T(0)}, x[M] = {first.re - first.im, T(0)};
}
// The other way; what a real line's first and middle coefficient have of an imaginary part counts for nothing.
template <class T, int64_t M> void tangle(const Complex<T>* in, Complex<T>* x) {
    each_two<T, M>(in, x, [](auto& low, auto& high, auto root) { tangled(low, high, root); });
    x[0] = {(in[0].re + in[M].re) / 2, (in[0].re - in[M].re) / 2};
}

// The last dimension of real numbers to its first N / 2 + 1 coefficients, and back.
template <class T, int64_t N> void fft_real(const dynacomp_runtime* rt, int64_t lines, const T* in, Complex<T>* out) {
    if constexpr (N % 2 == 0) {
        each_line<T, N / 2, false>(
            rt, lines, [=](int64_t l, int64_t) { return (const Complex<T>*)(in + l * N); }, N / 2, out, half<N>, T(1),
            [=](int64_t l) { untangle<T, N / 2>(out + l * half<N>); });
    } else {
        dynacomp::scratch<Complex<T>> held(lines * N);
        if (!held.data) return;
        for (int64_t k = 0; k < lines * N; k++) held.data[k] = {in[k], T(0)};
        fft_lines<T, N, false>(rt, lines, held.data, held.data);
        for (int64_t l = 0; l < lines; l++)
            for (int64_t k = 0; k < half<N>; k++) out[l * half<N> + k] = held.data[l * N + k];
    }
}
template <class T, int64_t N> void fft_back(const dynacomp_runtime* rt, int64_t lines, const Complex<T>* in, T* out) {
    if constexpr (N % 2 == 0) {
        each_line<T, N / 2, true>(
            rt, lines,
            [=](int64_t l, int64_t count) {
                auto* held = (Complex<T>*)scratch<3>(count * (N / 2) * int64_t(sizeof(Complex<T>)));
                for (int64_t i = 0; i < count; i++) tangle<T, N / 2>(in + (l + i) * half<N>, held + i * (N / 2));
                return (const Complex<T>*)held;
            },
            N / 2, (Complex<T>*)out, N / 2, T(1) / T(N / 2), [](int64_t) {});
    } else {
        dynacomp::scratch<Complex<T>> held(lines * N);
        if (!held.data) return;
        for (int64_t l = 0; l < lines; l++)
            for (int64_t k = 0; k < N; k++) {
                Complex<T> v = in[l * half<N> + (k < half<N> ? k : N - k)];
                if (k >= half<N>) v.im = -v.im;
                if (k == 0) v.im = T(0);
                held.data[l * N + k] = v;
            }
        fft_lines<T, N, true>(rt, lines, held.data, held.data);
        for (int64_t k = 0; k < lines * N; k++) out[k] = held.data[k].re;
    }
}

}  // namespace tile
}  // namespace dynacomp
