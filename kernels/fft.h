// Discrete Fourier transforms of lengths known when the code is compiled, over up to three trailing dimensions.
//
// A length is taken apart into its factors, fours first (decimation in time, one recursion per factor); its
// roots of unity are computed in double once a process. Lines are gathered into scratch, so that any
// dimension can be transformed, as many in step as a register has lanes, and spread over threads.
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

template <class T, int64_t N> struct Roots {  // e^(-2 pi i k / N)
    Complex<T> at[N];
    Roots() {
        for (int64_t k = 0; k < N; k++) {
            const double angle = -6.283185307179586476925286766559 * double(k) / double(N);
            at[k] = {T(cos(angle)), T(sin(angle))};
        }
    }
};

constexpr int64_t factor_of(int64_t n) {
    if (n % 4 == 0) return 4;
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0) return p;
    return n;
}

// T: numbers, or registers of those of several lines; R: numbers.
template <class T, int64_t n, int64_t all, class R>
void transform(const Complex<T>* in, int64_t stride, Complex<T>* out, const Complex<R>* roots) {
    if constexpr (n == 1) {
        out[0] = in[0];
        return;
    }
    constexpr int64_t p = n == 1 ? 1 : factor_of(n), m = n / p, turn = all / n;
    if constexpr (m == 1)
        for (int64_t q = 0; q < p; q++) out[q] = in[q * stride];
    else
        for (int64_t q = 0; q < p; q++) transform<T, m, all>(in + q * stride, stride * p, out + q * m, roots);
    for (int64_t k = 0; k < m; k++) {
        Complex<T> part[p];
        for (int64_t q = 0; q < p; q++) part[q] = q && k ? out[q * m + k] * roots[q * k * turn] : out[q * m + k];
        if constexpr (p == 2) {
            out[k] = part[0] + part[1];
            out[k + m] = part[0] - part[1];
        } else if constexpr (p == 4) {
            const Complex<T> a = part[0] + part[2], b = part[0] - part[2], c = part[1] + part[3], d = part[1] - part[3];
            const Complex<T> turned = {d.im, -d.re};
            out[k] = a + c;
            out[k + m] = b + turned;
            out[k + 2 * m] = a - c;
            out[k + 3 * m] = b - turned;
        } else {
            for (int64_t r = 0; r < p; r++) {
                Complex<T> sum = part[0];
                for (int64_t q = 1; q < p; q++) sum = sum + part[q] * roots[q * r % p * (all / p)];
                out[k + r * m] = sum;
            }
        }
    }
}

// How lanes of a register are read and written; a number is a register of one.
template <class T, class V> constexpr int lines_in = int(sizeof(V) / sizeof(T));
template <class T, class V> inline void put(V& v, int l, T x) {
    if constexpr (lines_in<T, V> == 1) v = x;
    else v[l] = x;
}
template <class T, class V> inline T get(const V& v, int l) {
    if constexpr (lines_in<T, V> == 1) return v;
    else return v[l];
}

// As many lines from `first` on as V has lanes; `work` holds two of them.
template <class T, int64_t N, class V, class Read, class Write>
void some_lines(int64_t first, bool inverse, const Complex<T>* roots, Complex<V>* work, Read read, Write write) {
    constexpr int W = lines_in<T, V>;
    Complex<V>*in = work, *out = work + N;
    const T turn = inverse ? T(-1) : T(1), scale = inverse ? T(1) / T(N) : T(1);
    for (int l = 0; l < W; l++) {
        const auto line = read(first + l);
        for (int64_t k = 0; k < N; k++) {
            const Complex<T> x = line(k);
            put<T>(in[k].re, l, x.re), put<T>(in[k].im, l, turn * x.im);
        }
    }
    transform<V, N, N>(in, 1, out, roots);
    for (int l = 0; l < W; l++) {
        const auto line = write(first + l);
        for (int64_t k = 0; k < N; k++)
            line(k, Complex<T>{get<T>(out[k].re, l) * scale, get<T>(out[k].im, l) * (turn * scale)});
    }
}

// Every line of length N: read(line)(k) gives its elements, write(line)(k, value) takes the result's.
template <class T, int64_t N, class Read, class Write>
void each_line(const dynacomp_runtime* rt, int64_t lines, bool inverse, Read read, Write write) {
    static const Roots<T, N> roots;
    using V = Vector<T>;
    parallel(rt, lines, lanes<T> * grain_of(1 << 15, 20.0 * double(N)), [&](int64_t begin, int64_t end) {
        dynacomp::scratch<Complex<V>> held(2 * N);
        if (!held.data) return;
        for (; begin + lanes<T> <= end; begin += lanes<T>)
            some_lines<T, N>(begin, inverse, roots.at, held.data, read, write);
        for (; begin < end; begin++) some_lines<T, N>(begin, inverse, roots.at, (Complex<T>*)held.data, read, write);
    });
}

// One dimension of N elements, `inner` apart, in place.
template <class T, int64_t N>
void fft_axis(const dynacomp_runtime* rt, int64_t lines, int64_t inner, bool inverse, Complex<T>* x) {
    auto start = [=](int64_t l) { return x + l / inner * N * inner + l % inner; };
    each_line<T, N>(rt, lines, inverse,
                    [=](int64_t l) { return [at = start(l), inner](int64_t k) { return at[k * inner]; }; },
                    [=](int64_t l) { return [at = start(l), inner](int64_t k, Complex<T> v) { at[k * inner] = v; }; });
}

template <int64_t N> constexpr int64_t half = N / 2 + 1;

// The last dimension of real numbers to its first N / 2 + 1 coefficients, and back.
template <class T, int64_t N> void fft_real(const dynacomp_runtime* rt, int64_t lines, const T* in, Complex<T>* out) {
    auto read = [=](int64_t l) { return [from = in + l * N](int64_t k) { return Complex<T>{from[k], T(0)}; }; };
    auto write = [=](int64_t l) {
        return [to = out + l * half<N>](int64_t k, Complex<T> v) { if (k < half<N>) to[k] = v; };
    };
    each_line<T, N>(rt, lines, false, read, write);
}
template <class T, int64_t N> void fft_back(const dynacomp_runtime* rt, int64_t lines, const Complex<T>* in, T* out) {
    auto read = [=](int64_t l) {
        return [from = in + l * half<N>](int64_t k) {
            Complex<T> v = from[k < half<N> ? k : N - k];
            if (k >= half<N>) v.im = -v.im;
            if (k == 0 || 2 * k == N) v.im = T(0);
            return v;
        };
    };
    auto write = [=](int64_t l) { return [to = out + l * N](int64_t k, Complex<T> v) { to[k] = v.re; }; };
    each_line<T, N>(rt, lines, true, read, write);
}

}  // namespace tile
}  // namespace dynacomp
