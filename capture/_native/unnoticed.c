/* Whether nothing tells that an object has died: neither it nor what it holds has a finalizer or a weak reference to it
 * now. Numbers, text, arrays (which may die early), and containers, functions and objects of Python's classes of such.
 * Nothing of the program's runs.
 *
 *   unnoticed(obj)         asked while capturing (see reconstruct/unnoticed.py)
 *   ("unnoticed", src)     the same as a guard
 */
#include "native.h"

enum { MOST_LOOKED_AT = 256 }; /* objects, in each call */

static destructor plain_dealloc; /* how instances of classes die that a `class` statement has made */

static bool is_literal(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) || PyUnicode_CheckExact(x) || x == Py_None ||
           PyComplex_CheckExact(x) || PyBytes_CheckExact(x) || x == Py_Ellipsis || x == Py_NotImplemented;
}

/* What a NumPy array of objects holds, or a subclass does, is not known. */
static bool is_array(PyObject *x)
{
    const JaxApi *jax = dc_jax();
    const NumpyApi *numpy = dc_numpy();
    if (jax == NULL || numpy == NULL) {
        PyErr_Clear();
        return false;
    }
    if (!Py_IS_TYPE(x, numpy->ndarray)) {
        return Py_IS_TYPE(x, jax->array_type) ||
               (PyType_IsSubtype(Py_TYPE(x), numpy->generic) && !Py_TYPE(x)->tp_dictoffset);
    }
    PyObject *dtype = PyObject_GetAttrString(x, "dtype");
    PyObject *objects = dtype ? PyObject_GetAttrString(dtype, "hasobject") : NULL;
    bool found = objects == Py_False;
    Py_XDECREF(dtype);
    Py_XDECREF(objects);
    PyErr_Clear();
    return found;
}

/* Whether the death of such an object does nothing but let go of what it holds. */
static bool dies_quietly(PyTypeObject *cls)
{
    if (cls == &PyTuple_Type || cls == &PyList_Type || cls == &PyDict_Type || cls == &PySet_Type ||
        cls == &PyFrozenSet_Type || cls == &PyODict_Type || cls == &PyCell_Type || cls == &PyMethod_Type ||
        cls == &PyBaseObject_Type) {
        return true;
    }
    if (plain_dealloc == NULL) {
        PyObject *made = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Plain");
        plain_dealloc = made ? ((PyTypeObject *)made)->tp_dealloc : NULL;
        Py_XDECREF(made);
        PyErr_Clear();
    }
    if (cls->tp_dealloc != plain_dealloc || cls->tp_finalize || cls->tp_del) {
        return false;
    }
    while (cls->tp_dealloc == plain_dealloc) {
        cls = cls->tp_base;
    }
    return cls == &PyBaseObject_Type || cls == &PyTuple_Type || cls == &PyList_Type || cls == &PyDict_Type ||
           cls == &PySet_Type || cls == &PyLong_Type || cls == &PyFloat_Type || cls == &PyUnicode_Type;
}

static bool has_weak_references(PyObject *x)
{
    return PyType_SUPPORTS_WEAKREFS(Py_TYPE(x)) && *PyObject_GET_WEAKREFS_LISTPTR(x) != NULL;
}

static int noticed(PyObject *x, void *left);

static int noticed_function(PyFunctionObject *fn, void *left)
{
    PyObject *held[] = {fn->func_closure, fn->func_defaults, fn->func_kwdefaults, fn->func_dict};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        if (held[i] && noticed(held[i], left)) {
            return 1;
        }
    }
    return 0;
}

/* A visitproc: 1 where something may tell that the object has died. */
static int noticed(PyObject *x, void *left)
{
    if (is_literal(x) || PyModule_CheckExact(x) || PyType_Check(x)) {
        return --*(int *)left < 0;
    }
    if (--*(int *)left < 0) {
        return 1;
    }
    if (PyFunction_Check(x)) {
        return has_weak_references(x) || noticed_function((PyFunctionObject *)x, left);
    }
    if (dies_quietly(Py_TYPE(x))) {
        return has_weak_references(x) || (Py_TYPE(x)->tp_traverse && Py_TYPE(x)->tp_traverse(x, noticed, left));
    }
    return !is_array(x);
}

static bool asked(PyObject *x)
{
    int left = MOST_LOOKED_AT;
    return !PyType_Check(x) && !noticed(x, &left);
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
