/* Whether nothing tells that an object has died: numbers, text, arrays, and tuples, lists and dicts of such, which have
 * neither weak references nor finalizers. Nothing of the program's runs.
 *
 *   unnoticed(obj)         asked while capturing (see reconstruct/unnoticed.py)
 *   ("unnoticed", src)     the same as a guard
 */
#include "native.h"

enum { MOST_LOOKED_AT = 256 }; /* objects, in each call */

static bool is_literal(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) || PyUnicode_CheckExact(x) || x == Py_None ||
           PyComplex_CheckExact(x) || PyBytes_CheckExact(x) || x == Py_Ellipsis || x == Py_NotImplemented;
}

/* Arrays may die early; what a NumPy array of objects holds, or a subclass does, is not known. */
static bool is_array(PyObject *x)
{
    const JaxApi *jax = dc_jax();
    const NumpyApi *numpy = dc_numpy();
    if (jax == NULL || numpy == NULL) {
        PyErr_Clear();
        return false;
    }
    if (!Py_IS_TYPE(x, numpy->ndarray)) {
        return Py_IS_TYPE(x, jax->array_type) || (PyType_IsSubtype(Py_TYPE(x), numpy->generic) && !Py_TYPE(x)->tp_dictoffset);
    }
    PyObject *dtype = PyObject_GetAttrString(x, "dtype");
    PyObject *objects = dtype ? PyObject_GetAttrString(dtype, "hasobject") : NULL;
    bool found = objects == Py_False;
    Py_XDECREF(dtype);
    Py_XDECREF(objects);
    PyErr_Clear();
    return found;
}

/* Also a named tuple, whose class has neither weak references, attributes nor a finalizer. */
static bool is_plain_tuple(PyObject *x)
{
    PyTypeObject *cls = Py_TYPE(x);
    return PyTuple_Check(x) && !cls->tp_weaklistoffset && !cls->tp_dictoffset && !cls->tp_finalize && !cls->tp_del;
}

static bool is_unnoticed(PyObject *x, int *left)
{
    if (--*left < 0) {
        return false;
    }
    if (is_plain_tuple(x)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); i++) {
            if (!is_unnoticed(PyTuple_GET_ITEM(x, i), left)) {
                return false;
            }
        }
        return true;
    }
    if (PyList_CheckExact(x)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); i++) {
            if (!is_unnoticed(PyList_GET_ITEM(x, i), left)) {
                return false;
            }
        }
        return true;
    }
    if (PyDict_CheckExact(x)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, &value);) {
            if (!is_unnoticed(key, left) || !is_unnoticed(value, left)) {
                return false;
            }
        }
        return true;
    }
    return is_literal(x) || PyModule_CheckExact(x) || is_array(x);
}

static bool asked(PyObject *x)
{
    int left = MOST_LOOKED_AT;
    return is_unnoticed(x, &left);
}

PyObject *dc_unnoticed(PyObject *module, PyObject *x)
{
    DC_UNUSED(module);
    return PyBool_FromLong(asked(x));
}

static int eval_unnoticed(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return asked(run->regs[s->src]);
}

const StepKind dc_unnoticed_kinds[] = {
    {"unnoticed", "s", eval_unnoticed, NULL},
    {NULL, NULL, NULL, NULL},
};
