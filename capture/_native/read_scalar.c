/* Python's numbers out of arrays of one element, read where they lie.
 *
 *   read_bool(x), read_int(x), read_float(x)    what bool(x), int(x) and float(x) give
 *
 * JAX makes a NumPy array of its array first, and asks that: 12 microseconds, of which this takes one. What is no
 * array of JAX without dimensions, of that very kind of number, or has no memory that can be read (it was deleted, it
 * lies on another device), is asked as Python asks it, errors included.
 */
#include "native.h"

#include <string.h>

typedef PyObject *(*Reader)(const Py_buffer *);

static char code_of(const Py_buffer *view)
{
    size_t n = view->format ? strlen(view->format) : 0;
    return n ? view->format[n - 1] : 'B'; /* behind the byte order, which is the machine's */
}

static PyObject *bool_in(const Py_buffer *view)
{
    return code_of(view) == '?' && view->itemsize == 1 ? PyBool_FromLong(*(const uint8_t *)view->buf != 0) : NULL;
}

static PyObject *int_in(const Py_buffer *view)
{
    bool negative = strchr("bhilq", code_of(view)) != NULL;
    if (!negative && !strchr("BHILQ", code_of(view))) {
        return NULL;
    }
    switch (view->itemsize) {
#define READ(S, U) \
    negative ? PyLong_FromLongLong(*(const S *)view->buf) : PyLong_FromUnsignedLongLong(*(const U *)view->buf)
    case 1: return READ(int8_t, uint8_t);
    case 2: return READ(int16_t, uint16_t);
    case 4: return READ(int32_t, uint32_t);
    case 8: return READ(int64_t, uint64_t);
#undef READ
    default: return NULL;
    }
}

static PyObject *float_in(const Py_buffer *view)
{
    if (code_of(view) == 'f' && view->itemsize == 4) {
        return PyFloat_FromDouble((double)*(const float *)view->buf);
    }
    return code_of(view) == 'd' && view->itemsize == 8 ? PyFloat_FromDouble(*(const double *)view->buf) : NULL;
}

static PyObject *read_as(PyObject *x, PyTypeObject *kind, Reader read)
{
    const JaxApi *jax = dc_jax();
    PyObject *found = NULL;
    Py_buffer view;
    if (jax && Py_IS_TYPE(x, jax->array_type) && !PyObject_GetBuffer(x, &view, PyBUF_FORMAT | PyBUF_STRIDES)) {
        found = view.ndim == 0 ? read(&view) : NULL;
        PyBuffer_Release(&view);
    }
    if (found) {
        return found;
    }
    PyErr_Clear();
    return PyObject_CallOneArg((PyObject *)kind, x);
}

PyObject *dc_read_bool(PyObject *Py_UNUSED(module), PyObject *x) { return read_as(x, &PyBool_Type, bool_in); }

PyObject *dc_read_int(PyObject *Py_UNUSED(module), PyObject *x) { return read_as(x, &PyLong_Type, int_in); }

PyObject *dc_read_float(PyObject *Py_UNUSED(module), PyObject *x) { return read_as(x, &PyFloat_Type, float_in); }
