/* Equality of constants, to the bit and without user code.
 *
 * Two constants are equal when their types are the same and nothing can tell them apart: NaN equals
 * the same NaN, -0.0 is not 0.0, 1 is not True. Supported: None, Ellipsis, bool, int, float, complex,
 * str, bytes, range, slice, tuple, frozenset, NumPy dtypes and scalars, ml_dtypes scalars.
 */
#include "native.h"

#include <string.h>

static NumpyApi numpy_api;

const NumpyApi *dc_numpy(void)
{
    if (numpy_api.generic) {
        return &numpy_api;
    }
    PyObject *np = PyImport_ImportModule("numpy");
    if (np) {
        numpy_api.ndarray = (PyTypeObject *)PyObject_GetAttrString(np, "ndarray");
        numpy_api.dtype = (PyTypeObject *)PyObject_GetAttrString(np, "dtype");
        numpy_api.generic = (PyTypeObject *)PyObject_GetAttrString(np, "generic");
        Py_DECREF(np);
    }
    if (!numpy_api.ndarray || !numpy_api.dtype || !numpy_api.generic) {
        numpy_api.generic = NULL;
        return NULL;
    }
    return &numpy_api;
}

static bool equal_quietly(PyObject *a, PyObject *b)
{
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) {
        PyErr_Clear();
    }
    return equal > 0;
}

static bool same(PyObject *a, PyObject *b) { return a == b; }

static bool floats(PyObject *a, PyObject *b)
{
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

static bool complexes(PyObject *a, PyObject *b)
{
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

static bool tuples(PyObject *a, PyObject *b)
{
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (PyTuple_GET_SIZE(b) != n) {
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!dc_const_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
            return false;
        }
    }
    return true;
}

static bool slices(PyObject *a, PyObject *b)
{
    PySliceObject *x = (PySliceObject *)a, *y = (PySliceObject *)b;
    return dc_const_equal(x->start, y->start) && dc_const_equal(x->stop, y->stop) &&
           dc_const_equal(x->step, y->step);
}

static bool in_set(PyObject *set, PyObject *element, Py_hash_t hash)
{
    Py_ssize_t at = 0;
    PyObject *other;
    Py_hash_t other_hash;
    while (dc_set_next(set, &at, &other, &other_hash)) {
        if (other_hash == hash && dc_const_equal(element, other)) {
            return true;
        }
    }
    return false;
}

static bool frozensets(PyObject *a, PyObject *b)
{
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) {
        return false;
    }
    Py_ssize_t at = 0;
    PyObject *element;
    Py_hash_t hash;
    while (dc_set_next(a, &at, &element, &hash)) {
        if (!in_set(b, element, hash)) {
            return false;
        }
    }
    return true;
}

typedef struct {
    PyTypeObject *type;
    bool (*equal)(PyObject *, PyObject *);
} ConstKind;

static const ConstKind kinds[] = {
    {&PyLong_Type, equal_quietly}, {&PyFloat_Type, floats},      {&PyUnicode_Type, equal_quietly},
    {&PyBool_Type, same},          {&PyTuple_Type, tuples},      {&PyBytes_Type, equal_quietly},
    {&PyComplex_Type, complexes},  {&PyFrozenSet_Type, frozensets}, {&PySlice_Type, slices},
    {&PyRange_Type, equal_quietly},
};

static const ConstKind *find_kind(PyObject *constant)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (Py_IS_TYPE(constant, kinds[i].type)) {
            return &kinds[i];
        }
    }
    return NULL;
}

static bool is_ml_scalar(PyObject *obj)
{
    return strncmp(Py_TYPE(obj)->tp_name, "ml_dtypes.", 10) == 0 && Py_TYPE(obj)->tp_as_number &&
           Py_TYPE(obj)->tp_as_number->nb_float;
}

static bool ml_scalars(PyObject *a, PyObject *b) /* every one of them is exact as a double */
{
    PyObject *x = PyNumber_Float(a), *y = x ? PyNumber_Float(b) : NULL;
    bool equal = y && floats(x, y);
    Py_XDECREF(x);
    Py_XDECREF(y);
    PyErr_Clear();
    return equal;
}

static bool numpy_scalars(PyObject *a, PyObject *b)
{
    Py_buffer x, y;
    if (PyObject_GetBuffer(a, &x, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return false;
    }
    bool equal = false;
    if (PyObject_GetBuffer(b, &y, PyBUF_SIMPLE) == 0) {
        equal = x.len == y.len && memcmp(x.buf, y.buf, (size_t)x.len) == 0;
        PyBuffer_Release(&y);
    }
    PyErr_Clear();
    PyBuffer_Release(&x);
    return equal;
}

bool dc_const_equal(PyObject *constant, PyObject *value)
{
    if (constant == value) {
        return true;
    }
    if (Py_TYPE(constant) != Py_TYPE(value)) {
        return false;
    }
    const ConstKind *kind = find_kind(constant);
    if (kind) {
        return kind->equal(constant, value);
    }
    if (numpy_api.generic && PyObject_TypeCheck(constant, numpy_api.generic)) {
        return numpy_scalars(constant, value);
    }
    if (numpy_api.dtype && PyObject_TypeCheck(constant, numpy_api.dtype)) {
        return equal_quietly(constant, value);
    }
    return is_ml_scalar(constant) && ml_scalars(constant, value);
}

static bool all_supported(PyObject *iterable)
{
    PyObject *items = PySequence_Tuple(iterable);
    bool ok = items != NULL;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++) {
        ok = dc_const_supported(PyTuple_GET_ITEM(items, i));
    }
    Py_XDECREF(items);
    return ok;
}

static bool numpy_owned(PyObject *obj)
{
    const NumpyApi *np = dc_numpy();
    if (np == NULL) {
        return false;
    }
    if (PyObject_TypeCheck(obj, np->dtype)) {
        return true;
    }
    bool builtin = strncmp(Py_TYPE(obj)->tp_name, "numpy.", 6) == 0;
    return builtin && PyObject_TypeCheck(obj, np->generic) && numpy_scalars(obj, obj);
}

bool dc_const_supported(PyObject *constant)
{
    if (constant == Py_None || constant == Py_Ellipsis || constant == Py_NotImplemented) {
        return true;
    }
    if (PyTuple_CheckExact(constant) || PyFrozenSet_CheckExact(constant)) {
        return all_supported(constant);
    }
    if (PySlice_Check(constant)) {
        PySliceObject *s = (PySliceObject *)constant;
        return dc_const_supported(s->start) && dc_const_supported(s->stop) && dc_const_supported(s->step);
    }
    return find_kind(constant) || is_ml_scalar(constant) || numpy_owned(constant);
}

bool dc_const_is_frozen(PyObject *obj)
{
    if (PyTuple_CheckExact(obj) || PyFrozenSet_CheckExact(obj) || PySlice_Check(obj)) {
        bool frozen = dc_const_supported(obj);
        PyErr_Clear();
        return frozen;
    }
    return obj == Py_None || obj == Py_Ellipsis || obj == Py_NotImplemented || find_kind(obj) != NULL;
}
