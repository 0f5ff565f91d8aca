/* Whether nothing tells that an object has died: neither it nor what it holds has a finalizer or a weak reference to it
 * now. Numbers, text, arrays (which may die early), and containers, functions and objects of Python's classes of such.
 * Nothing of the program's runs.
 *
 *   unnoticed(obj, unreferable)    asked while capturing (see reconstruct/unnoticed.py)
 *   ("unnoticed", src)             the same as a guard
 *   ("unreferable", src)           likewise, and none of them can have a weak reference at all
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

/* How many more objects may be looked at, and whether no weak reference to them may ever be made. */
typedef struct {
    int left;
    bool unreferable;
} Look;

static bool may_be_referred_to(PyObject *x, const Look *look)
{
    return look->unreferable ? PyType_SUPPORTS_WEAKREFS(Py_TYPE(x)) : has_weak_references(x);
}

static int noticed(PyObject *x, void *look);

static int noticed_function(PyFunctionObject *fn, void *look)
{
    PyObject *held[] = {fn->func_closure, fn->func_defaults, fn->func_kwdefaults, fn->func_dict};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        if (held[i] && noticed(held[i], look)) {
            return 1;
        }
    }
    return 0;
}

/* A visitproc: 1 where something may tell that the object has died. */
static int noticed(PyObject *x, void *arg)
{
    Look *look = arg;
    if (--look->left < 0) {
        return 1;
    }
    if (is_literal(x) || PyModule_CheckExact(x) || PyType_Check(x)) {
        return 0;
    }
    if (PyFunction_Check(x)) {
        return may_be_referred_to(x, look) || noticed_function((PyFunctionObject *)x, look);
    }
    if (dies_quietly(Py_TYPE(x))) {
        return may_be_referred_to(x, look) || (Py_TYPE(x)->tp_traverse && Py_TYPE(x)->tp_traverse(x, noticed, look));
    }
    return !is_array(x);
}

static bool asked(PyObject *x, bool unreferable)
{
    Look look = {MOST_LOOKED_AT, unreferable};
    return !PyType_Check(x) && !noticed(x, &look);
}

PyObject *dc_unnoticed(PyObject *module, PyObject *args)
{
    PyObject *x;
    int unreferable;
    DC_UNUSED(module);
    if (!PyArg_ParseTuple(args, "Op", &x, &unreferable)) {
        return NULL;
    }
    return PyBool_FromLong(asked(x, unreferable));
}

static int eval_unnoticed(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return asked(run->regs[s->src], false);
}

static int eval_unreferable(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return asked(run->regs[s->src], true);
}

const StepKind dc_unnoticed_kinds[] = {
    {"unnoticed", "s", eval_unnoticed, NULL},
    {"unreferable", "s", eval_unreferable, NULL},
    {NULL, NULL, NULL, NULL},
};
