/* Guards that ask Python.
 *
 * ("abc_token", n): no class has been registered with an abstract base class since `abc.get_cache_token()` was n. What
 * `isinstance` and `issubclass` deny, `ABC.register` may grant later.
 *
 * ("alike", known, asks): the value is `known`, or `asks(known, value)` is True, a function of ours that runs no code of
 * the program's (`wrapping/alike_objects.py`). */
#include "native.h"

static PyObject *get_token; /* abc.get_cache_token, once some guard needs it */

static int finish_token(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    if (get_token == NULL) {
        PyObject *abc = PyImport_ImportModule("abc");
        get_token = abc ? PyObject_GetAttrString(abc, "get_cache_token") : NULL;
        Py_XDECREF(abc);
    }
    return get_token ? 0 : -1;
}

static int eval_token(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(run);
    DC_UNUSED(call);
    PyObject *now = PyObject_CallNoArgs(get_token);
    bool same = now && PyLong_AsSsize_t(now) == s->n;
    Py_XDECREF(now);
    PyErr_Clear();
    return same;
}

static int eval_alike(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *pair[] = {s->refs[0], run->regs[s->src]};
    if (pair[0] == pair[1]) {
        return 1;
    }
    PyObject *found = PyObject_Vectorcall(s->refs[1], pair, 2, NULL);
    if (found == NULL) {
        dc_clear_unless_from_outside();
        return 0;
    }
    bool alike = found == Py_True;
    Py_DECREF(found);
    return alike;
}

const StepKind dc_registry_kinds[] = {
    {"abc_token", "n", eval_token, finish_token},
    {"alike", "soo", eval_alike, NULL},
    {NULL, NULL, NULL, NULL},
};
