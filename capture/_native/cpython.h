/* CPython's insides, for cpython.c and instances.c alone: what differs between its versions is in these two. */
#ifndef DYNACOMP_CPYTHON_H
#define DYNACOMP_CPYTHON_H

#define Py_BUILD_CORE 1
#include "native.h"

#define SINCE(minor) (PY_VERSION_HEX >= 0x03000000 + ((minor) << 16))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* CPython's own headers */
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_object.h"
#if SINCE(12)
#include "internal/pycore_instruments.h"
#include "internal/pycore_interp.h"
#endif
#if SINCE(13)
#include "internal/pycore_setobject.h"
#endif
#pragma GCC diagnostic pop

#endif
