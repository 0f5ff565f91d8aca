/* `("number", dst, a, op, b)`: what Python's `op` makes of the numbers or strings in registers a and b (-1: of
 * a alone), how many elements a list, set or dict has, the id of any object, or whether it has a dict. Of exact ints, floats, bools and strings only, so that no code
 * of the program runs, and of NumPy's own scalars where that does not warn (they are compared, or asked for their
 * truth); an operation that raises fails the guard. */
#include "native.h"

static PyObject *lt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LT); }
static PyObject *le(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LE); }
static PyObject *gt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GT); }
static PyObject *ge(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GE); }
static PyObject *eq(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_EQ); }
static PyObject *ne(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_NE); }

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

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

static PyObject *has_dict(PyObject *a) /* a partial's: it is made when somebody asks */
{
    PyObject **dict = _PyObject_GetDictPtr(a);
    return PyBool_FromLong(dict && *dict);
}

static PyObject *address(PyObject *a) { return PyLong_FromVoidPtr(a); } /* as `id` makes it */

typedef struct {
    const char *name;
    unaryfunc one;
    binaryfunc two;
    bool quiet; /* of NumPy's scalars: no warning */
} Operator;
static const Operator operators[] = {
    {"add", NULL, PyNumber_Add, false}, {"sub", NULL, PyNumber_Subtract, false},
    {"mul", NULL, PyNumber_Multiply, false}, {"truediv", NULL, PyNumber_TrueDivide, false},
    {"floordiv", NULL, PyNumber_FloorDivide, false}, {"pow", NULL, power, false},
    {"mod", NULL, PyNumber_Remainder, false}, {"lt", NULL, lt, true}, {"le", NULL, le, true},
    {"gt", NULL, gt, true}, {"ge", NULL, ge, true}, {"eq", NULL, eq, true}, {"ne", NULL, ne, true},
    {"neg", PyNumber_Negative, NULL, true}, {"pos", PyNumber_Positive, NULL, true},
    {"abs", PyNumber_Absolute, NULL, true}, {"truth", truth, NULL, true}, {"len", length, NULL, false},
    {"id", address, NULL, false}, {"has_dict", has_dict, NULL, false},
    {NULL, NULL, NULL, false},
};

enum { NUMPY_TOO = 7 }; /* an operator that takes NumPy's scalars */

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

static bool exact(PyObject *x, const Operator *op)
{
    if (PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) || PyUnicode_CheckExact(x) ||
        PyBytes_CheckExact(x) || PyComplex_CheckExact(x) || op->one == address ||
        op->one == has_dict) {
        return true;
    }
    if (op->one == length) { /* of a list, set or dict, past no method of the program's */
        return PyList_CheckExact(x) || PyAnySet_CheckExact(x) || (PyDict_Check(x) && Py_TYPE(x)->tp_as_mapping->mp_length ==
                                                               PyDict_Type.tp_as_mapping->mp_length);
    }
    const NumpyApi *numpy = op->quiet ? dc_numpy() : NULL;
    return numpy && !(Py_TYPE(x)->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyObject_TypeCheck(x, numpy->generic);
}

static int eval_number(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    const Operator *op = &operators[s->flag];
    PyObject *a = run->regs[s->src], *b = s->n < 0 ? a : run->regs[s->n];
    if (!exact(a, op) || !exact(b, op)) {
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

/* `("host", dst, fn, registers)`: what a pure function in C makes of numbers, strings, NumPy arrays and
 * tuples or lists of those, finds in a container, or says of what it looks into; see host_functions.py,
 * host_arrays.py and given_items.py. */
enum { FEW_HOST_ARGS = 16 }; /* these are laid out on the stack; `"".join(parts)` may have any number */

static int finish_host(Step *s, Builder *b)
{
    PyObject *registers = s->refs[1];
    if (!PyCallable_Check(s->refs[0]) || !PyTuple_CheckExact(registers)) {
        PyErr_Format(PyExc_TypeError, "host: expected a callable and a tuple of registers, got %R and %R", s->refs[0],
                     registers);
        return -1;
    }
    s->n = PyTuple_GET_SIZE(registers);
    int *places = s->ext = PyMem_Calloc((size_t)s->n + 1, sizeof(int));
    if (places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < s->n; i++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(registers, i));
        if (place < 0 || place >= MAX_REGISTERS || !b->written[place]) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "host: register %ld is read before a step writes it", place);
            }
            return -1;
        }
        places[i] = (int)place;
    }
    return 0;
}

/* An array, or several that one of NumPy's functions has returned, or what items are looked up in; None, which is
 * looked for. */
static bool holds_data(PyObject *x)
{
    return PyTuple_CheckExact(x) || PyList_CheckExact(x) || PyDict_Check(x) || PyAnySet_CheckExact(x) ||
           PyRange_Check(x) || x == Py_None || (dc_numpy() && Py_IS_TYPE(x, dc_numpy()->ndarray));
}

/* What functions of ours look into: a generator of random numbers, of which a copy is made (see seeded_generators.py),
 * and what tells sizes (see told_sizes.py). */
static bool is_looked_into(PyObject *x)
{
    static const char *const homes[][2] = {
        {"random", "Random"}, {"numpy.random", "Generator"}, {"numpy.random", "RandomState"},
        {"jax.extend.core", "Jaxpr"}, {"jax.extend.core", "ClosedJaxpr"}, {"jax.core", "ShapedArray"},
        {"jax", "ShapeDtypeStruct"}, {"jax._src.tree_util", "_HashableCallableShim"}};
    enum { KINDS = sizeof homes / sizeof homes[0] };
    static PyObject *kinds[KINDS];
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i] == NULL) {
            PyObject *module = PyImport_ImportModule(homes[i][0]);
            kinds[i] = module ? PyObject_GetAttrString(module, homes[i][1]) : NULL;
            Py_XDECREF(module);
            PyErr_Clear();
        }
        if ((PyObject *)Py_TYPE(x) == kinds[i]) {
            return true;
        }
    }
    return false;
}

/* Whether an exception of class Exception is the program's all the same: a signal handler has raised it. */
static bool raised_by_handler(PyObject *error)
{
    PyObject *module = PyImport_ImportModule("dynacomp.capture.base.interrupts");
    PyObject *told = module ? PyObject_CallMethod(module, "by_handler", "O", error) : NULL;
    bool is = told == Py_True;
    Py_XDECREF(module);
    Py_XDECREF(told);
    if (told == NULL) {
        PyErr_Clear();
    }
    return is;
}

/* What a host function raises fails the guard. What came from outside stays pending, and ends the call: Ctrl-C, or the
 * exception of a signal handler, which Python calls while NumPy's functions in Python run. */
void dc_clear_unless_from_outside(void)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) {
        PyException_SetTraceback(error, trace);
    }
    if (!PyErr_GivenExceptionMatches(type, PyExc_Exception) || raised_by_handler(error)) {
        PyErr_Restore(type, error, trace);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

/* The result; NULL where an argument is of another kind (no exception is set then) or the function raises. */
static PyObject *call_host(const Step *s, const Run *run, PyObject **args)
{
    const int *places = s->ext;
    for (Py_ssize_t i = 0; i < s->n; i++) {
        args[i] = run->regs[places[i]];
        if (!exact(args[i], &operators[NUMPY_TOO]) && !holds_data(args[i]) && !is_looked_into(args[i])) {
            return NULL;
        }
    }
    return PyObject_Vectorcall(s->refs[0], args, (size_t)s->n, NULL);
}

static int eval_host(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *few[FEW_HOST_ARGS];
    PyObject **args = s->n <= FEW_HOST_ARGS ? few : PyMem_Malloc((size_t)s->n * sizeof(PyObject *));
    PyObject *found = args ? call_host(s, run, args) : PyErr_NoMemory();
    if (args != few) {
        PyMem_Free(args);
    }
    if (found == NULL && PyErr_Occurred()) {
        dc_clear_unless_from_outside();
    }
    if (found == NULL) {
        return 0;
    }
    dc_set_register(run, s->dst, found);
    return 1;
}

const StepKind dc_number_kinds[] = {
    {"number", "dson", eval_number, finish_number},
    {"host", "doo", eval_host, finish_host},
    {NULL, NULL, NULL, NULL},
};
