// The head of XLA's FFI, a C interface that only grows at its ends: enough to read a call's buffers.
#pragma once
#include "array.h"

namespace dynacomp::ffi {

struct Version {
  uint64_t struct_size;
  void* extension;
  int major, minor;
};
struct Metadata {
  uint64_t struct_size;
  Version version;
};
struct Extension {
  uint64_t struct_size;
  int type;
  Extension* next;
  Metadata* metadata;  // where type is `describe`
};
struct Buffer {
  uint64_t struct_size;
  void* extension;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct Values {
  uint64_t struct_size;
  void* extension;
  int64_t size;
  int* types;
  Buffer** values;
};
struct Frame {
  uint64_t struct_size;
  Extension* extension;
  const void* api;
  void* context;
  int stage;
  Values args, results;
};
enum { describe = 1, execute = 3 };

// Whether the call wants the function to run (else it has been answered).
inline bool runs(Frame* frame) {
  if (frame->extension && frame->extension->type == describe) {
    frame->extension->metadata->version.major = 0;
    frame->extension->metadata->version.minor = 1;
    return false;
  }
  return frame->stage == execute;
}

template <class T>
Array<T> array(const Values& values, int64_t k) {
  const Buffer& buffer = *values.values[k];
  Array<T> found{(T*)buffer.data, (int)buffer.rank, {}};
  for (int d = 0; d < found.rank; d++) found.shape[d] = buffer.dims[d];
  return found;
}

}  // namespace dynacomp::ffi
