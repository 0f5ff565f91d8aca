/* Generators, coroutines and async generators that stand still: what their frames hold, and changing it.
 *
 * The drivers of captured generators (see capture/bytecode/drivers.py) keep their state in local variables. Guards
 * read those here, compiled code that has gone on with a generator stores there what it has come to.
 * A generator that runs, or has ended, has nothing to see.
 *
 *   suspended(gen)                     (its code, has it not started), or None
 *   suspended_local(gen, slot)         a local, cell or free variable; slot GLOBALS: the globals
 *   suspended_delegate(gen)            what a `yield from` or `await` of it waits for
 *   set_suspended_local, set_suspended_delegate(gen, ..., value)
 */
#include "native.h"

#include <string.h>

enum { GLOBALS = -1 };

static PyObject *read_slot(PyObject *gen, Py_ssize_t slot) /* new reference, or NULL without an exception */
{
    SuspendedView view;
    if (!dc_suspended_view(gen, &view)) {
        return NULL;
    }
    if (slot == GLOBALS) {
        return Py_NewRef(view.globals);
    }
    return slot >= 0 && slot < view.nslots ? Py_XNewRef(view.slots[slot]) : NULL;
}

static PyObject *read_delegate(PyObject *gen)
{
    SuspendedView view;
    return dc_suspended_view(gen, &view) && view.top ? Py_NewRef(*view.top) : NULL;
}

/* ---- for Python ---- */

PyObject *dc_suspended(PyObject *module, PyObject *gen)
{
    DC_UNUSED(module);
    SuspendedView view;
    if (!dc_suspended_view(gen, &view)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(OO)", view.code, view.created ? Py_True : Py_False);
}

static PyObject *or_error(PyObject *found)
{
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a generator that runs, has ended, or holds nothing there");
    }
    return found;
}

PyObject *dc_suspended_local(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *gen;
    Py_ssize_t slot;
    return PyArg_ParseTuple(args, "On:suspended_local", &gen, &slot) ? or_error(read_slot(gen, slot)) : NULL;
}

PyObject *dc_suspended_delegate(PyObject *module, PyObject *gen)
{
    DC_UNUSED(module);
    return or_error(read_delegate(gen));
}

static PyObject *replace(PyObject **place, PyObject *value)
{
    if (place == NULL) {
        return or_error(NULL);
    }
    PyObject *old = *place;
    *place = Py_NewRef(value);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

PyObject *dc_set_suspended_local(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *gen, *value;
    Py_ssize_t slot;
    if (!PyArg_ParseTuple(args, "OnO:set_suspended_local", &gen, &slot, &value)) {
        return NULL;
    }
    SuspendedView view;
    bool there = dc_suspended_view(gen, &view) && slot >= 0 && slot < view.nslots;
    return replace(there ? view.slots + slot : NULL, value);
}

PyObject *dc_set_suspended_delegate(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *gen, *value;
    if (!PyArg_ParseTuple(args, "OO:set_suspended_delegate", &gen, &value)) {
        return NULL;
    }
    SuspendedView view;
    return replace(dc_suspended_view(gen, &view) ? view.top : NULL, value);
}

/* ---- guards ---- */

/* ("suspended", src, code, key, slot): src stands still in `code`, whose local `slot` is the int `key`; or it
 * has not started, where `key` is None. */
static int finish_suspended(Step *s, Builder *b)
{
    if (!PyCode_Check(s->refs[0]) || (s->refs[1] != Py_None && !PyLong_CheckExact(s->refs[1]))) {
        PyErr_SetString(PyExc_TypeError, "suspended: expected a code object, and an int or None");
        return -1;
    }
    bool weak;
    if (dc_hold(s, 2, s->refs[0], b, &weak) < 0) {
        return -1;
    }
    s->flag = weak;
    Py_CLEAR(s->refs[0]);
    return 0;
}

static int eval_suspended(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    SuspendedView view;
    if (!dc_suspended_view(run->regs[s->src], &view) ||
        !dc_held_is(s->refs[2], s->flag, (PyObject *)view.code)) {
        return 0;
    }
    if (s->refs[1] == Py_None || view.created) {
        return s->refs[1] == Py_None && view.created;
    }
    PyObject *key = s->n >= 0 && s->n < view.nslots ? view.slots[s->n] : NULL;
    return key && dc_const_equal(s->refs[1], key);
}

static int eval_has_ended(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return dc_generator_has_ended(run->regs[s->src]);
}

static int eval_origins_untracked(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(s);
    DC_UNUSED(run);
    DC_UNUSED(call);
    return PyThreadState_Get()->coroutine_origin_tracking_depth == 0;
}

static int put(Step *s, Run *run, PyObject *owned)
{
    if (owned == NULL) {
        return 0;
    }
    dc_set_register(run, s->dst, owned);
    return 1;
}

static int eval_suspended_local(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, read_slot(run->regs[s->src], s->n));
}

static int eval_suspended_delegate(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, read_delegate(run->regs[s->src]));
}

const StepKind dc_suspended_kinds[] = {
    {"suspended", "soon", eval_suspended, finish_suspended},
    {"origins_untracked", "", eval_origins_untracked, NULL},
    {"has_ended", "s", eval_has_ended, NULL},
    {"suspended_local", "dsn", eval_suspended_local, NULL},
    {"suspended_delegate", "ds", eval_suspended_delegate, NULL},
    {NULL, NULL, NULL, NULL},
};
