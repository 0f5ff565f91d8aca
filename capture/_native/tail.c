/* Tail: what replacement code returns when its graph breaks: the function that goes on, its arguments.
 *
 * dc_follow calls it in place of the code that returned it, so a function that breaks a thousand times
 * needs no deeper stack, its tracebacks show one line of it, and what it has deleted is deleted: the
 * arguments are handed over (see `Handed`), not kept by each frame that they came through.
 */
#include "native.h"

#include <stddef.h>

typedef struct {
    PyObject_HEAD
    PyObject *fn, *args;
} Tail;

/* Calls `fn` with slots of ours, whose references go when its frame has its own. */
PyObject *dc_call_handing(PyObject *fn, PyObject **slots, Py_ssize_t n)
{
    Handed outer = dc_thread.handed; /* a finalizer may run before the frame for which that waits */
    dc_thread.handed = (Handed){fn, slots, n};
    PyObject *result = PyObject_Vectorcall(fn, slots, (size_t)n, NULL);
    dc_thread.handed = outer;
    return result;
}

void dc_take_over(Handed *handed)
{
    Handed taken = *handed;
    handed->fn = NULL;
    for (Py_ssize_t i = 0; i < taken.n; i++) {
        Py_CLEAR(taken.slots[i]);
    }
}

static PyObject *call_tail(Tail *tail)
{
    PyObject *fn = Py_NewRef(tail->fn), *args = Py_NewRef(tail->args), *small[32], **slots = small;
    Py_DECREF(tail);
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n > 32 && (slots = PyMem_New(PyObject *, n)) == NULL) {
        Py_DECREF(fn);
        Py_DECREF(args);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        slots[i] = Py_NewRef(PyTuple_GET_ITEM(args, i));
    }
    Py_DECREF(args);
    PyObject *result = dc_call_handing(fn, slots, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_XDECREF(slots[i]);
    }
    if (slots != small) {
        PyMem_Free(slots);
    }
    Py_DECREF(fn);
    return result;
}

PyObject *dc_follow(PyObject *result)
{
    while (result && Py_IS_TYPE(result, &Tail_Type)) {
        result = call_tail((Tail *)result);
    }
    return result;
}

/* ---- the Python object ---- */

static PyObject *tail_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fn, *arguments;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Tail takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!:Tail", &PyFunction_Type, &fn, &PyTuple_Type, &arguments)) {
        return NULL;
    }
    Tail *self = (Tail *)type->tp_alloc(type, 0);
    if (self) {
        self->fn = Py_NewRef(fn);
        self->args = Py_NewRef(arguments);
    }
    return (PyObject *)self;
}

static int tail_traverse(Tail *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->args);
    return 0;
}

static int tail_clear(Tail *self)
{
    Py_CLEAR(self->fn);
    Py_CLEAR(self->args);
    return 0;
}

static void tail_dealloc(Tail *self)
{
    PyObject_GC_UnTrack(self);
    tail_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Tail_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.Tail",
    .tp_doc = "Tail(fn, args)\n\nReturned by replacement code: call fn(*args) in its place.",
    .tp_basicsize = sizeof(Tail),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tail_new,
    .tp_dealloc = (destructor)tail_dealloc,
    .tp_traverse = (traverseproc)tail_traverse,
    .tp_clear = (inquiry)tail_clear,
};
