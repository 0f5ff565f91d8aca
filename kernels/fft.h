// Discrete Fourier transforms of lengths known when the code is compiled, over up to three trailing dimensions.
//
// A length is taken apart into its factors, fours first (decimation in time, one recursion per factor); its
// roots of unity are computed in double once a process. Lines are gathered into scratch, so that any
// dimension can be transformed, and spread over threads.
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
template <class T> Complex<T> operator*(Complex<T> a, Complex<T> b) {
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

template <class T, int64_t n, int64_t all>
void transform(const Complex<T>* in, int64_t stride, Complex<T>* out, const Complex<T>* roots) {
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

// Every line of length N: read(line, k) gives its elements, write(line, k, value) takes the result's.
template <class T, int64_t N, class Read, class Write>
void each_line(const dynacomp_runtime* rt, int64_t lines, bool inverse, Read read, Write write) {
    static const Roots<T, N> roots;
    parallel(rt, lines, grain_of(1 << 15, 20.0 * double(N)), [&](int64_t begin, int64_t end) {
        dynacomp::scratch<Complex<T>> line(2 * N);
        if (!line.data) return;
        Complex<T>*in = line.data, *out = line.data + N;
        for (int64_t l = begin; l < end; l++) {
            for (int64_t k = 0; k < N; k++) in[k] = read(l, k);
            if (inverse)
                for (int64_t k = 0; k < N; k++) in[k].im = -in[k].im;
            transform<T, N, N>(in, 1, out, roots.at);
            const T scale = inverse ? T(1) / T(N) : T(1);
            for (int64_t k = 0; k < N; k++) write(l, k, {out[k].re * scale, inverse ? -out[k].im * scale : out[k].im});
        }
    });
}

// One dimension of N elements, `inner` apart, in place.
template <class T, int64_t N>
void fft_axis(const dynacomp_runtime* rt, int64_t lines, int64_t inner, bool inverse, Complex<T>* x) {
    auto at = [=](int64_t l, int64_t k) { return x + (l / inner * N + k) * inner + l % inner; };
    each_line<T, N>(rt, lines, inverse, [=](int64_t l, int64_t k) { return *at(l, k); },
                    [=](int64_t l, int64_t k, Complex<T> v) { *at(l, k) = v; });
}

// The last dimension of real numbers to its first N / 2 + 1 coefficients, and back.
template <class T, int64_t N> void fft_real(const dynacomp_runtime* rt, int64_t lines, const T* in, Complex<T>* out) {
    constexpr int64_t half = N / 2 + 1;
    each_line<T, N>(rt, lines, false, [=](int64_t l, int64_t k) { return Complex<T>{in[l * N + k], T(0)}; },
                    [=](int64_t l, int64_t k, Complex<T> v) { if (k < half) out[l * half + k] = v; });
}
template <class T, int64_t N> void fft_back(const dynacomp_runtime* rt, int64_t lines, const Complex<T>* in, T* out) {
    constexpr int64_t half = N / 2 + 1;
    auto read = [=](int64_t l, int64_t k) {
        Complex<T> v = in[l * half + (k < half ? k : N - k)];
        if (k >= half) v.im = -v.im;
        if (k == 0 || 2 * k == N) v.im = T(0);
        return v;
    };
    each_line<T, N>(rt, lines, true, read, [=](int64_t l, int64_t k, Complex<T> v) { out[l * N + k] = v.re; });
}

}  // namespace tile
}  // namespace dynacomp
