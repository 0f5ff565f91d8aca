/* Inputs: checked against what was compiled for, laid out row by row, awaited, their pointers read. */
#include "launch.h"

#include <math.h>

static int is_known_sharding(Program *p, PyObject *sharding)
{
    for (int k = 0; k < SHARDINGS; k++)
        if (p->known[k] == sharding)
            return 1;
    return 0;
}

/* A sharding that input i did not have in the last call. Arrays come with as many objects as there are operations
   that made them: each input remembers its own, beside the few that are remembered for all. Of one that is seen
   for the first time Python says whether it is one CPU device, or raises. */
static int accept_sharding(Program *p, Py_ssize_t i, PyObject *sharding, PyObject *x)
{
    if (!is_known_sharding(p, sharding)) {
        PyObject *ok = PyObject_CallOneArg(p->accept, x);
        if (!ok)
            return -1;
        Py_DECREF(ok);
        Py_INCREF(sharding);
        Py_XSETREF(p->known[p->turn++ % SHARDINGS], sharding);
    }
    Py_INCREF(sharding);
    Py_XSETREF(p->slots[i].sharding, sharding);
    return 0;
}

/* Slow path of an aval that is not the slot's: check it, learn its dimensions. */
static int check_aval(Program *p, Py_ssize_t i, PyObject *x, PyObject *aval)
{
    PyObject *index = PyLong_FromSsize_t(i);
    PyObject *dims = index ? PyObject_CallFunctionObjArgs(p->check, index, x, NULL) : NULL;
    Py_XDECREF(index);
    if (!dims)
        return -1;
    int64_t *values = p->slots[i].dims;
    for (Py_ssize_t r = 0; r < p->n_sizes; r++) {
        if (p->reads[r].input != i)
            continue;
        PyObject *dim = PySequence_GetItem(dims, p->reads[r].dim);
        values[p->reads[r].index] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
        if (PyErr_Occurred()) {
            Py_DECREF(dims);
            return -1;
        }
    }
    Py_ssize_t rank = PySequence_Size(dims);
    Py_DECREF(dims);
    if (rank < 0)
        return -1;
    p->slots[i].flat = rank < 2;
    Py_CLEAR(p->slots[i].layout);
    Py_INCREF(aval);
    Py_XSETREF(p->slots[i].aval, aval);
    return 0;
}

/* Input i, whose elements need not lie in the order of its dimensions, as an array whose elements do. */
static int take_row_major(call_t *call, Py_ssize_t i, PyObject *x)
{
    slot_t *slot = &call->program->slots[i];
    PyObject *layout = ask(jax.layout, x);
    if (!layout)
        return -1;
    PyObject *known = Py_XNewRef(slot->layout);
    int same = known ? PyObject_RichCompareBool(layout, known, Py_EQ) : 0;
    Py_XDECREF(known);
    PyObject *arranged = same ? NULL : PyObject_CallOneArg(call->program->arrange, x);
    if (same < 0 || (!same && !arranged)) {
        Py_DECREF(layout);
        Py_XDECREF(arranged);
        return -1;
    }
    if (arranged == x)
        Py_XSETREF(slot->layout, Py_NewRef(layout));
    Py_DECREF(layout);
    if (arranged)
        return PyList_SetItem(call->arrays, i, arranged); /* takes the reference */
    return 0;
}

/* ---- numbers of Python ---- */

/* The bytes of a Python number in a slot's dtype; 0 where NumPy shall say what becomes of it. */
static int write_number(char kind, PyObject *given, int64_t *to)
{
    if (PyFloat_CheckExact(given)) {
        double wide = PyFloat_AS_DOUBLE(given);
        float narrow = (float)wide;
        if (kind != 'd' && (kind != 'f' || (isinf(narrow) && !isinf(wide))))
            return 0;
        memcpy(to, kind == 'd' ? (void *)&wide : (void *)&narrow, kind == 'd' ? sizeof wide : sizeof narrow);
        return 1;
    }
    if (kind == '?' && PyBool_Check(given)) {
        *(uint8_t *)to = given == Py_True;
        return 1;
    }
    if (!PyLong_CheckExact(given) || (kind != 'i' && kind != 'l'))
        return 0;
    int overflow;
    int64_t whole = PyLong_AsLongLongAndOverflow(given, &overflow);
    int32_t half = (int32_t)whole;
    if (overflow || (kind == 'i' && half != whole))
        return 0;
    memcpy(to, kind == 'i' ? (void *)&half : (void *)&whole, kind == 'i' ? sizeof half : sizeof whole);
    return 1;
}

/* Keeps `x`, which a number in this slot was converted to: it stands for the next ones where arrays are awaited. */
static int keep_number(slot_t *slot, PyObject *x)
{
    PyObject *dtype = PyObject_GetAttrString(x, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "char") : NULL;
    Py_XDECREF(dtype);
    const char *kind = name ? PyUnicode_AsUTF8(name) : NULL;
    slot->kind = kind ? *kind : 0;
    Py_XDECREF(name);
    if (!kind)
        return -1;
    Py_XSETREF(slot->number, Py_NewRef(x));
    return 0;
}

static int is_number(PyObject *x) { return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x); }

/* Input i as a checked jax Array in call->arrays. */
int take_input(call_t *call, Py_ssize_t i, PyObject *given)
{
    Program *p = call->program;
    slot_t *slot = &p->slots[i];
    PyObject *x;
    if (slot->number && write_number(slot->kind, given, &call->numbers[i])) {
        PyList_SET_ITEM(call->arrays, i, Py_NewRef(slot->number));
        call->inputs[i] = &call->numbers[i];
        return 0;
    }
    if (Py_TYPE(given) == jax.array) {
        x = Py_NewRef(given);
    } else {
        PyObject *index = PyLong_FromSsize_t(i);
        x = index ? PyObject_CallFunctionObjArgs(p->convert, index, given, NULL) : NULL;
        Py_XDECREF(index);
        if (!x)
            return -1;
    }
    PyList_SET_ITEM(call->arrays, i, x);
    PyObject *aval = ask(jax.aval, x);
    if (!aval)
        return -1;
    int status = aval == slot->aval ? 0 : check_aval(p, i, x, aval);
    Py_DECREF(aval);
    if (status)
        return -1;
    for (Py_ssize_t r = 0; r < p->n_sizes; r++)
        if (p->reads[r].input == i)
            call->sizes[p->reads[r].index] = slot->dims[p->reads[r].index];
    PyObject *sharding = ask(jax.sharding, x);
    if (!sharding)
        return -1;
    status = sharding == slot->sharding ? 0 : accept_sharding(p, i, sharding, x);
    Py_DECREF(sharding);
    if (status)
        return -1;
    PyObject *committed = ask(jax.committed, x);
    if (!committed)
        return -1;
    call->committed |= committed == Py_True;
    Py_DECREF(committed);
    if (is_number(given) && !slot->donated && !slot->number)
        return keep_number(slot, x);
    return slot->flat ? 0 : take_row_major(call, i, x);
}

int read_pointer(PyObject *array, void **pointer)
{
    PyObject *address = ask(jax.pointer, array);
    if (!address)
        return -1;
    *pointer = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return *pointer || !PyErr_Occurred() ? 0 : -1;
}

int read_pointers(call_t *call)
{
    Py_ssize_t n = call->program->n_inputs;
    if (n == 0)
        return 0;
    PyObject *done = ask(jax.await_all, call->arrays);
    if (!done)
        return -1;
    Py_DECREF(done);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!call->inputs[i] && read_pointer(PyList_GET_ITEM(call->arrays, i), &call->inputs[i]))
            return -1;
    return 0;
}

int delete_donated(call_t *call)
{
    Program *p = call->program;
    for (Py_ssize_t i = 0; p->donates && i < p->n_inputs; i++) {
        if (!p->slots[i].donated)
            continue;
        PyObject *done = ask(jax.delete, PyList_GET_ITEM(call->arrays, i));
        if (!done)
            return -1;
        Py_DECREF(done);
    }
    return 0;
}
