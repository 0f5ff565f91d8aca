// What generated code calls of the templates: the declarations alone.
//
// The definitions stand in the headers that the lines name. A template is dear to compile, so each is
// compiled once for a machine and set of types (`Template.instance` in templates.py) to an object that
// every program which calls it is linked with; a program's own unit includes this header only.
#pragma once
#include "runtime.h"

namespace dynacomp {

namespace tile {
struct bfloat16;  // tile.h
struct float16;
typedef _Complex float complex64;
typedef _Complex double complex128;
}  // namespace tile

// gemm.h: out[batch, m, n] (contiguous) = a[batch, m, k] * b[batch, k, n], strides in elements. T is
// the type of the sums: float, double or an unsigned integer (integers wrap).
template <class T, class A, class B, class C>
void matmul(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, int64_t k, const A* a, int64_t a_batch,
            int64_t a_row, int64_t a_depth, const B* b, int64_t b_batch, int64_t b_depth, int64_t b_col, C* out);

// conv.h: out, which has elements, = lhs convolved with rhs. T is the type of the sums.
struct Conv {
    int64_t n, c, k;  // images and channels of lhs, features of out
    int64_t in[3], kernel[3], out[3], stride[3], pad[3], lhs_dilation[3], rhs_dilation[3];
    int64_t groups, batch_groups;
    int64_t lhs[5], rhs[5], res[5];  // strides of (n, c, in...), (k, c, kernel...), (n, k, out...)
    bool is_empty() const { return n <= 0 || k <= 0 || out[0] * out[1] * out[2] <= 0; }
};
template <class T, class A, class B, class C>
void convolution(const dynacomp_runtime* rt, const Conv& v, const A* lhs, const B* rhs, C* out);
// narrow.h, depthwise.h, outer.h: the same, where it is one of theirs; false, and nothing is done, where it is not.
namespace tile {
template <class T>
bool narrow_features(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out);
template <class T>
bool line_convolution(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out);
template <class T, class A, class B, class C>
bool depthwise(const dynacomp_runtime* rt, const Conv& v, const A* lhs, const B* rhs, C* out);
template <class T>
bool outer_products(const dynacomp_runtime* rt, const Conv& v, const T* lhs, const T* rhs, T* out);
}  // namespace tile

// attention.h; `bias` may be null; S is the type of q, k, v and out.
struct Attention {
    int64_t batch, heads, group, queries, keys, depth, width;  // q, k have `depth` columns, v and out `width`
    int64_t q[5], k[5], v[5], out[5], bias[5];  // strides of (batch, head, of its group, row, column)
    double scale;
    bool causal;  // query i sees keys <= i
    bool marks;   // a bias of -inf marks what is hidden
    double fill;  // the score of what is hidden
};
template <class S, class B>
void attention(const dynacomp_runtime* rt, const Attention& v, const S* q, const S* k, const S* values, const B* bias,
               S* out);

// sort.h: what a key's bits mean; payload operands only have a size.
enum class KeyKind { unsigned_int, signed_int, floating };
struct SortOperand {
    const void* in;
    void* out;
    int bytes;  // per element
    KeyKind kind;
    int mantissa;  // bits, of floating keys
};
// Sorts each of outer * inner rows of n elements; arrays are [outer, n, inner]. The first `keys`
// operands are compared.
void sort(const dynacomp_runtime* rt, int64_t outer, int64_t n, int64_t inner, const SortOperand* operands, int count,
          int keys);
// values, indices [rows, k] of the k largest of each row of x [rows, n], as lax.top_k.
void top_k(const dynacomp_runtime* rt, int64_t rows, int64_t n, int64_t k, const SortOperand& x, int32_t* indices);

// lapack.h
template <class T> void cholesky_any(const dynacomp_runtime* rt, int64_t batch, int64_t n, const T* in, T* out);
template <class T>
void lu_any(const dynacomp_runtime* rt, int64_t batch, int64_t m, int64_t n, const T* in, T* out, int32_t* pivots,
            int32_t* permutation);
template <class T>
void triangular_solve_any(const dynacomp_runtime* rt, int64_t batch, int64_t rows, int64_t columns, bool left,
                          bool lower, bool transposed, bool conjugated, bool unit, const T* a, const T* b, T* out);

}  // namespace dynacomp
