// What a C++ function of the user's gets for each array: `Array<const T>` to read, `Array<T>` to write.
//
// Elements lie in row-major order. `size()` is how many there are, `rows()` and `columns()` see the array
// as a matrix of its last dimension. A scalar has rank 0. T is `float16` or `bfloat16` for narrow floats (rounded.h).
#pragma once
#include "rounded.h"
#include "runtime.h"
#include "tile.h"

namespace dynacomp {

constexpr int most_dimensions = 8;

template <class T>
struct Array {
  T* data;
  int rank;
  int64_t shape[most_dimensions];

  int64_t size() const {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= shape[d];
    return n;
  }
  int64_t columns() const { return rank ? shape[rank - 1] : 1; }
  int64_t rows() const { return columns() ? size() / columns() : 0; }
  T& operator[](int64_t i) const { return data[i]; }
};

}  // namespace dynacomp
