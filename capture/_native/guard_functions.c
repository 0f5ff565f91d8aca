/* Steps that check what functions are made of: their code and their defaults. Nothing here asks a function anything; a
 * function whose code was swapped is another one to whoever has looked into it. */
#include "native.h"

/* ("plain_function", register, code): a function with this code, and without defaults. */
static int finish_plain(Step *s, Builder *b)
{
    bool weak;
    if (dc_hold(s, 1, s->refs[0], b, &weak) < 0) {
        return -1;
    }
    s->flag = weak;
    Py_CLEAR(s->refs[0]);
    return 0;
}

static int eval_plain(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyFunctionObject *fn = (PyFunctionObject *)run->regs[s->src];
    return Py_IS_TYPE((PyObject *)fn, &PyFunction_Type) && dc_held_is(s->refs[1], s->flag, fn->func_code) &&
           fn->func_defaults == NULL && fn->func_kwdefaults == NULL;
}

/* ("functions_unchanged", functions): each has the code and the defaults that it had when the guard was made.
 * refs: 0 weak references to the functions, 1 what keeps `Parts` alive; ext: what each function had. */
typedef struct {
    PyObject *code, *defaults, *kwdefaults;
} Parts;

static Parts parts_of(PyObject *fn)
{
    PyFunctionObject *f = (PyFunctionObject *)fn;
    return (Parts){f->func_code, f->func_defaults, f->func_kwdefaults};
}

static int keep(PyObject *list, PyObject *part) { return part ? PyList_Append(list, part) : 0; }

static int note_function(Step *s, Py_ssize_t i, PyObject *fn, Builder *b)
{
    if (!PyFunction_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "functions_unchanged: expected functions, got %R", fn);
        return -1;
    }
    bool weak;
    PyObject *ref = dc_holder(fn, b, &weak);
    if (ref == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(s->refs[0], i, ref); /* every function can be referred to weakly */
    Parts *parts = (Parts *)s->ext + i;
    *parts = parts_of(fn);
    return keep(s->refs[1], parts->code) || keep(s->refs[1], parts->defaults) || keep(s->refs[1], parts->kwdefaults);
}

static int finish_functions(Step *s, Builder *b)
{
    PyObject *functions = PySequence_Tuple(s->refs[0]);
    Py_CLEAR(s->refs[0]);
    if (functions == NULL) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(functions);
    s->refs[0] = PyTuple_New(n);
    s->refs[1] = PyList_New(0);
    s->ext = PyMem_Calloc((size_t)n + 1, sizeof(Parts));
    int bad = s->refs[0] && s->refs[1] && s->ext ? 0 : -1;
    if (bad && !PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n && !bad; i++) {
        bad = note_function(s, i, PyTuple_GET_ITEM(functions, i), b);
    }
    Py_DECREF(functions);
    return bad ? -1 : 0;
}

static int eval_functions(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(run);
    DC_UNUSED(call);
    const Parts *parts = s->ext;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->refs[0]); i++) {
        PyObject *fn = ((PyWeakReference *)PyTuple_GET_ITEM(s->refs[0], i))->wr_object;
        if (!PyFunction_Check(fn)) { /* it has died */
            return 0;
        }
        Parts now = parts_of(fn);
        if (now.code != parts[i].code || now.defaults != parts[i].defaults || now.kwdefaults != parts[i].kwdefaults) {
            return 0;
        }
    }
    return 1;
}

const StepKind dc_function_kinds[] = {
    {"plain_function", "so", eval_plain, finish_plain},
    {"functions_unchanged", "o", eval_functions, finish_functions},
    {NULL, NULL, NULL, NULL},
};

/* The code of each function that a dict holds, in order. */
PyObject *dc_codes_in(PyObject *module, PyObject *table)
{
    DC_UNUSED(module);
    if (!PyDict_Check(table)) {
        PyErr_SetString(PyExc_TypeError, "codes_in: expected a dict");
        return NULL;
    }
    PyObject *found = PyList_New(0), *value;
    Py_ssize_t at = 0;
    while (found && PyDict_Next(table, &at, NULL, &value)) {
        if (Py_IS_TYPE(value, &PyFunction_Type) && PyList_Append(found, ((PyFunctionObject *)value)->func_code) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}
