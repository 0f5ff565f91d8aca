/* Inputs: checked against what was compiled for, awaited, laid out row by row, their pointers read. */
#include "launch.h"

#include <math.h>

static int is_known_sharding(Program *p, PyObject *sharding)
{
    for (int k = 0; k < SHARDINGS; k++)
        if (p->known[k] == sharding)
            return 1;
    return 0;
}

/* An attribute that may be missing where JAX has changed: 1, 0, or -1 for any other exception (Ctrl-C). */
static int attribute(PyObject *of, PyObject *name, PyObject **found)
{
    *found = PyObject_GetAttr(of, name);
    if (*found)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    PyErr_Clear();
    return 0;
}

/* Whether a sharding plainly is the program's device; -1 with an exception. */
static int is_here(Program *p, PyObject *sharding)
{
    if (Py_TYPE(sharding) != Py_TYPE(p->sharding))
        return 0;
    PyObject *device;
    int here = attribute(sharding, jax.device, &device);
    if (here > 0)
        here = device == PyList_GET_ITEM(p->devices, 0);
    Py_XDECREF(device);
    return here;
}

/* A sharding that input i did not have in the last call. Arrays come with as many objects as there are operations
   that made them: each input remembers its own, beside the few that are remembered for all. Of one that is not
   plainly this device Python says whether it is one CPU device, or raises. */
static int accept_sharding(Program *p, Py_ssize_t i, PyObject *sharding, PyObject *x)
{
    int known = is_known_sharding(p, sharding) ? 1 : is_here(p, sharding);
    if (known < 0)
        return -1;
    if (!known) {
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

/* Whether a shape is a tuple of ints that fits the slot, whose `dims` it becomes then. */
static int take_shape(slot_t *slot, PyObject *shape)
{
    if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) != slot->rank)
        return 0;
    for (Py_ssize_t d = 0; d < slot->rank; d++) {
        PyObject *dim = PyTuple_GET_ITEM(shape, d);
        int overflow = 0;
        int64_t value = PyLong_CheckExact(dim) ? PyLong_AsLongLongAndOverflow(dim, &overflow) : -1;
        if (value < 0 || overflow || (slot->wanted[d] != ANY && slot->wanted[d] != value))
            return 0;
        slot->dims[d] = value;
    }
    return 1;
}

/* Whether an aval is plainly of the dtype and the dimensions that were compiled for; -1 with an exception. */
static int fits(slot_t *slot, PyObject *aval)
{
    PyObject *dtype, *shape = NULL;
    int fit = attribute(aval, jax.dtype, &dtype);
    if (fit > 0)
        fit = dtype == slot->dtype ? attribute(aval, jax.shape, &shape) : 0;
    if (fit > 0)
        fit = take_shape(slot, shape);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return fit;
}

/* An aval that is not the slot's: check it, learn its dimensions. Python is asked where it does not plainly fit. */
static int check_aval(Program *p, Py_ssize_t i, PyObject *x, PyObject *aval)
{
    slot_t *slot = &p->slots[i];
    Py_CLEAR(slot->aval);
    int fit = fits(slot, aval);
    if (fit < 0)
        return -1;
    if (!fit) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *shape = index ? PyObject_CallFunctionObjArgs(p->check, index, x, NULL) : NULL;
        Py_XDECREF(index);
        if (!shape)
            return -1;
        int taken = take_shape(slot, shape);
        Py_DECREF(shape);
        if (!taken) {
            PyErr_Format(PyExc_TypeError, "the shape of input %zd is no tuple of ints that fits", i);
            return -1;
        }
    }
    Py_XSETREF(slot->aval, Py_NewRef(aval)); /* another thread may have been here meanwhile */
    return 0;
}

/* Input i, whose elements need not lie in the order of its dimensions, as an array whose elements do: 1 if that is
   another one, 0, or -1. It must have been awaited: of a deleted array JAX can't say the layout (it crashes). */
static int take_row_major(call_t *call, Py_ssize_t i)
{
    slot_t *slot = &call->program->slots[i];
    PyObject *x = PyList_GET_ITEM(call->arrays, i);
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
    if (!arranged)
        return 0;
    int other = arranged != x;
    return PyList_SetItem(call->arrays, i, arranged) ? -1 : other; /* takes the reference */
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
    for (const reads_t *read = p->reads + slot->first_read, *end = read + slot->n_reads; read < end; read++)
        call->sizes[read->index] = slot->dims[read->dim];
    if (slot->empty)
        call->inputs[i] = &call->numbers[i];
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
    return 0;
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

/* In place of the pending exception that of the first deleted array, as operations of JAX raise it, if there is one. */
static void name_deleted(call_t *call)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    for (Py_ssize_t i = 0; i < call->program->n_inputs && !PyErr_Occurred(); i++)
        Py_XDECREF(PyObject_CallOneArg(call->program->accept, PyList_GET_ITEM(call->arrays, i)));
    if (!PyErr_Occurred()) {
        PyErr_Restore(type, error, trace);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

/* Raises JAX's own errors: for arrays that were deleted, or whose computation failed. */
static int await_inputs(call_t *call)
{
    PyObject *done = ask(jax.await_all, call->arrays);
    Py_XDECREF(done);
    if (!done)
        name_deleted(call);
    return done ? 0 : -1;
}

int read_pointers(call_t *call)
{
    Py_ssize_t n = call->program->n_inputs;
    int moved = 0;
    if (n && await_inputs(call))
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int other = call->program->slots[i].flat ? 0 : take_row_major(call, i);
        if (other < 0)
            return -1;
        moved |= other;
    }
    if (moved && await_inputs(call))
        return -1;
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
