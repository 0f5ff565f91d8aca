/* `("number", dst, a, op, b)`: what Python's `op` makes of the numbers or strings in registers a and b (-1: of
 * a alone). Of exact ints, floats, bools and strings only, so that no code of the program runs; an operation
 * that raises fails the guard. */
#include "native.h"

static PyObject *lt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LT); }
static PyObject *le(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LE); }
static PyObject *gt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GT); }
static PyObject *ge(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GE); }
static PyObject *eq(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_EQ); }
static PyObject *ne(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_NE); }

static PyObject *truth(PyObject *a)
{
    int is = PyObject_IsTrue(a);
    return is < 0 ? NULL : PyBool_FromLong(is);
}

static PyObject *length(PyObject *a)
{
    Py_ssize_t n = PyObject_Size(a);
    return n < 0 ? NULL : PyLong_FromSsize_t(n);
}

typedef struct {
    const char *name;
    unaryfunc one;
    binaryfunc two;
} Operator;
static const Operator operators[] = {
    {"add", NULL, PyNumber_Add}, {"sub", NULL, PyNumber_Subtract}, {"mul", NULL, PyNumber_Multiply},
    {"truediv", NULL, PyNumber_TrueDivide}, {"floordiv", NULL, PyNumber_FloorDivide},
    {"mod", NULL, PyNumber_Remainder}, {"lt", NULL, lt}, {"le", NULL, le}, {"gt", NULL, gt}, {"ge", NULL, ge},
    {"eq", NULL, eq}, {"ne", NULL, ne}, {"neg", PyNumber_Negative, NULL}, {"pos", PyNumber_Positive, NULL},
    {"abs", PyNumber_Absolute, NULL}, {"truth", truth, NULL}, {"len", length, NULL}, {NULL, NULL, NULL},
};

static int finish_number(Step *s, Builder *b)
{
    const Operator *op = operators;
    while (op->name && PyUnicode_CompareWithASCIIString(s->refs[0], op->name) != 0) {
        op++;
    }
    bool two = op->two != NULL;
    if (op->name == NULL || (two && (s->n < 0 || s->n >= MAX_REGISTERS || !b->written[s->n]))) {
        PyErr_Format(PyExc_ValueError, "number: no operator %R of registers %d and %zd", s->refs[0], s->src, s->n);
        return -1;
    }
    s->n = two ? s->n : -1;
    s->flag = (signed char)(op - operators);
    return 0;
}

static bool exact(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) || PyUnicode_CheckExact(x);
}

static int eval_number(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    const Operator *op = &operators[s->flag];
    PyObject *a = run->regs[s->src], *b = s->n < 0 ? a : run->regs[s->n];
    if (!exact(a) || !exact(b)) {
        return 0;
    }
    PyObject *found = op->two ? op->two(a, b) : op->one(a);
    if (found == NULL) {
        PyErr_Clear();
        return 0;
    }
    dc_set_register(run, s->dst, found);
    return 1;
}

const StepKind dc_number_kinds[] = {
    {"number", "dson", eval_number, finish_number},
    {NULL, NULL, NULL, NULL},
};
