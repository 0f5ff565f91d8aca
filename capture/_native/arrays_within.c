/* ("no_array", src): neither the value nor what is in it is an array of JAX's, a tracer, or an object of one of the given
 * classes (functions of JAX's).
 *
 * What it holds is asked of the way that the garbage collector asks, so iterators, bound methods and instances of any
 * class are seen through, and nothing of the program's runs. Of large things only a part is looked at.
 *
 *   ("no_array", 0, (PjitFunction,))    asked of what Python is to run, see stretched.py
 */
#include "native.h"

enum { DEEP = 6, NEAR = 2, WIDE = 50, MOST_LOOKED_AT = 512, MOST_OF_ARGUMENTS = 64 };

typedef struct {
    const PyTypeObject *array, *tracer;
    PyObject *classes;
    int left, deep, wide; /* how many more objects, levels, parts of the object at hand */
    bool found;
} Look;

static bool computes(const Look *look, PyTypeObject *cls)
{
    for (Py_ssize_t i = 0; look->classes && i < PyTuple_GET_SIZE(look->classes); i++) {
        if (PyTuple_GET_ITEM(look->classes, i) == (PyObject *)cls) {
            return true;
        }
    }
    return cls == look->array || PyType_IsSubtype(cls, (PyTypeObject *)look->tracer);
}

/* A program's function has a frame of its own when it runs; what a class or a module holds is no content. */
static bool is_program(PyObject *x) { return PyFunction_Check(x) || PyType_Check(x) || PyModule_Check(x); }

/* A visitproc: 1 where the look at the parts of an object ends. */
static int look_at(PyObject *x, void *arg)
{
    Look *look = arg;
    if (look->wide-- <= 0 || look->left-- <= 0) {
        return 1;
    }
    if (computes(look, Py_TYPE(x))) {
        look->found = true;
    } else if (look->deep > 0 && PyObject_IS_GC(x) && Py_TYPE(x)->tp_traverse && !is_program(x)) {
        int wide = look->wide;
        look->deep--;
        look->wide = WIDE;
        Py_TYPE(x)->tp_traverse(x, look_at, look);
        look->deep++;
        look->wide = wide;
    }
    return look->found;
}

/* Whether an array is among values, or near at hand within one of them (in a list, an attribute). */
bool dc_array_among(PyObject *const *values, Py_ssize_t n)
{
    const JaxApi *jax = dc_jax();
    if (jax == NULL) {
        PyErr_Clear();
        return false;
    }
    Look look = {jax->array_type, jax->tracer_type, NULL, MOST_OF_ARGUMENTS, NEAR, WIDE, false};
    for (Py_ssize_t i = 0; i < n && !look.found; i++) {
        if (values[i]) {
            look_at(values[i], &look);
        }
    }
    return look.found;
}

static int finish_no_array(Step *s, Builder *b)
{
    DC_UNUSED(b);
    if (PyTuple_CheckExact(s->refs[0])) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "no_array: expected a tuple of classes, got %R", s->refs[0]);
    return -1;
}

static int eval_no_array(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    const JaxApi *jax = dc_jax();
    if (jax == NULL) {
        PyErr_Clear();
        return 0;
    }
    Look look = {jax->array_type, jax->tracer_type, s->refs[0], MOST_LOOKED_AT, DEEP, WIDE, false};
    look_at(run->regs[s->src], &look);
    return !look.found;
}

const StepKind dc_within_kinds[] = {
    {"no_array", "so", eval_no_array, finish_no_array},
    {NULL, NULL, NULL, NULL},
};
