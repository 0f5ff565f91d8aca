/* ("abc_token", n): no class has been registered with an abstract base class since `abc.get_cache_token()` was n.
 *
 * What `isinstance` and `issubclass` deny, `ABC.register` may grant later. */
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

const StepKind dc_registry_kinds[] = {
    {"abc_token", "n", eval_token, finish_token},
    {NULL, NULL, NULL, NULL},
};
