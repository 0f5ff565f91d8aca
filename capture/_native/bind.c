/* Binding a call's arguments to a function's parameters, as CPython does it.
 *
 * The result is the frame's locals at entry: positional parameters, keyword-only ones, then the
 * `*args` tuple and the `**kwargs` dict where the function has them. A call that does not bind is
 * left to CPython, which raises the TypeError in its own words. A call with exactly the positional
 * arguments needs no copy. */
#include "native.h"

#include <string.h>

void dc_bound_clear(Bound *bound)
{
    if (bound->owned == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; i < bound->n; i++) {
        Py_XDECREF(bound->owned[i]);
    }
    if (bound->owned != bound->inline_locals) {
        PyMem_Free(bound->owned);
    }
    bound->owned = NULL;
}

static int prepare(Bound *b, Py_ssize_t n)
{
    b->n = n;
    b->owned = b->inline_locals;
    if (n > BOUND_INLINE && (b->owned = PyMem_Malloc(sizeof(PyObject *) * (size_t)n)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(b->owned, 0, sizeof(PyObject *) * (size_t)n);
    b->locals = b->owned;
    return 0;
}

static int bind_positional(Bound *b, const PyCodeObject *code, PyObject *self, PyObject *const *args,
                           Py_ssize_t nargs)
{
    Py_ssize_t shift = self != NULL, given = nargs + shift, taken = given;
    if (given > code->co_argcount) {
        if (!(code->co_flags & CO_VARARGS)) {
            return 0;
        }
        taken = code->co_argcount;
    }
    for (Py_ssize_t i = 0; i < taken; i++) {
        b->owned[i] = Py_NewRef(i < shift ? self : args[i - shift]);
    }
    if (code->co_flags & CO_VARARGS) {
        Py_ssize_t slot = code->co_argcount + code->co_kwonlyargcount;
        PyObject *rest = b->owned[slot] = PyTuple_New(given - taken);
        for (Py_ssize_t i = taken; rest && i < given; i++) {
            PyTuple_SET_ITEM(rest, i - taken, Py_NewRef(i < shift ? self : args[i - shift]));
        }
        return rest ? 1 : -1;
    }
    return 1;
}

/* Which parameter a keyword names; -1: none. */
static Py_ssize_t parameter_named(const PyCodeObject *code, PyObject *name)
{
    PyObject *const *names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
    Py_ssize_t n = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < n; i++) {
        if (names[i] == name) {
            return i;
        }
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < n; i++) {
        if (PyUnicode_Compare(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static int bind_keywords(Bound *b, const PyCodeObject *code, PyObject *const *values, PyObject *kwnames)
{
    PyObject *extra = NULL;
    if (code->co_flags & CO_VARKEYWORDS) {
        extra = b->owned[b->n - 1] = PyDict_New();
        if (extra == NULL) {
            return -1;
        }
    }
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t i = PyUnicode_CheckExact(name) ? parameter_named(code, name) : -1;
        if (i < 0 ? !extra || !PyUnicode_CheckExact(name) : b->owned[i] != NULL) {
            return 0;
        }
        if (i >= 0) {
            b->owned[i] = Py_NewRef(values[k]);
        }
        else if (PyDict_SetItem(extra, name, values[k]) < 0) {
            return -1;
        }
    }
    return 1;
}

static int bind_defaults(Bound *b, const PyFunctionObject *fn, const PyCodeObject *code)
{
    Py_ssize_t ndefaults = fn->func_defaults ? PyTuple_GET_SIZE(fn->func_defaults) : 0;
    Py_ssize_t first = code->co_argcount - ndefaults;
    for (Py_ssize_t i = 0; i < code->co_argcount; i++) {
        if (b->owned[i] == NULL) {
            if (i < first) {
                return 0;
            }
            b->owned[i] = Py_NewRef(PyTuple_GET_ITEM(fn->func_defaults, i - first));
        }
    }
    for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (b->owned[i] == NULL) {
            PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
            PyObject *value = fn->func_kwdefaults ? PyDict_GetItemWithError(fn->func_kwdefaults, name) : NULL;
            if (value == NULL) {
                return PyErr_Occurred() ? -1 : 0;
            }
            b->owned[i] = Py_NewRef(value);
        }
    }
    return 1;
}

int dc_bind(Bound *b, PyFunctionObject *fn, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
            PyObject *kwnames)
{
    const PyCodeObject *code = (PyCodeObject *)fn->func_code;
    Py_ssize_t n = dc_code_nlocals(code);
    b->owned = NULL;
    if (!self && (!kwnames || PyTuple_GET_SIZE(kwnames) == 0) && nargs == n && n == code->co_argcount) {
        b->locals = args;
        b->n = n;
        return 1;
    }
    if (prepare(b, n) < 0) {
        return -1;
    }
    int status = bind_positional(b, code, self, args, nargs);
    status = status == 1 ? bind_keywords(b, code, args + nargs, kwnames) : status;
    status = status == 1 ? bind_defaults(b, fn, code) : status;
    if (status != 1) {
        dc_bound_clear(b);
    }
    return status;
}
