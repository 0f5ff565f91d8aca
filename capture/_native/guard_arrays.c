/* Steps over arrays: jax's ArrayImpl, its tracers and numpy's ndarray, and Python scalars of any value.
 *
 * JAX interns avals, so the aval of an array that passed before is the very object that passed:
 * the last few accepted avals and shardings are remembered by identity (and kept alive, so that an
 * identity cannot be taken over), which answers nearly every call. An aval is immutable and holds
 * shape, dtype and weak type; where the array lives is in its sharding, asked separately. */
#include "native.h"

#include <string.h>

enum { DTYPE, SHARDING, AVALS, SHARDINGS = AVALS + 4, MEMO = 4 }; /* slots of refs: 2 + 4 + 4 */

typedef struct {
    int ndim;
    int64_t dims[]; /* -1: any */
} Shape;

static Shape *parse_shape(PyObject *dims)
{
    if (!PyTuple_Check(dims)) {
        PyErr_Format(PyExc_TypeError, "a guarded shape is a tuple of int and None, got %R", dims);
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(dims);
    Shape *shape = PyMem_Malloc(sizeof(Shape) + (size_t)n * sizeof(int64_t));
    if (shape == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    shape->ndim = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *dim = PyTuple_GET_ITEM(dims, i);
        shape->dims[i] = dim == Py_None ? -1 : PyLong_AsLongLong(dim);
        if (shape->dims[i] < 0 && dim != Py_None) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "a dimension is not negative, got %R", dims);
            }
            PyMem_Free(shape);
            return NULL;
        }
    }
    return shape;
}

static bool dim_matches(PyObject *dim, int64_t expected)
{
    if (!PyLong_Check(dim)) {
        return false;
    }
    int64_t size = PyLong_AsLongLong(dim);
    return expected == -1 ? size >= 0 : size == expected;
}

static bool shape_matches(const Shape *shape, PyObject *dims)
{
    if (!dims || !PyTuple_Check(dims) || PyTuple_GET_SIZE(dims) != shape->ndim) {
        return false;
    }
    for (int i = 0; i < shape->ndim; i++) {
        if (!dim_matches(PyTuple_GET_ITEM(dims, i), shape->dims[i])) {
            return false;
        }
    }
    return true;
}

static bool equal(PyObject *a, PyObject *b)
{
    return a == b || (a && b && PyObject_RichCompareBool(a, b, Py_EQ) == 1);
}

/* True, False or None (any) as 1, 0 or -1; -2 with an exception. */
static int parse_maybe(PyObject *value)
{
    return !value || value == Py_None ? -1 : PyObject_IsTrue(value) < 0 ? -2 : PyObject_IsTrue(value);
}

/* ---- names that are looked up on avals ---- */

static PyObject *name_shape, *name_dtype, *name_weak_type, *name_aval, *name_primal, *name_is_deleted;

static bool intern_names(void)
{
    if (name_weak_type == NULL) {
        name_shape = PyUnicode_InternFromString("shape");
        name_dtype = PyUnicode_InternFromString("dtype");
        name_weak_type = PyUnicode_InternFromString("weak_type");
        name_aval = PyUnicode_InternFromString("aval");
        name_primal = PyUnicode_InternFromString("primal");
        name_is_deleted = PyUnicode_InternFromString("is_deleted");
    }
    return name_shape && name_dtype && name_weak_type && name_aval && name_primal && name_is_deleted;
}

/* ---- jax arrays ---- */

static int as_sharding(Step *s, PyObject *where) /* a Sharding, a Device, or None for anywhere */
{
    const JaxApi *jax = dc_jax();
    if (!where || where == Py_None) {
        return 0;
    }
    int known = PyObject_IsInstance(where, jax->sharding_type);
    if (known == 1) {
        s->refs[SHARDING] = Py_NewRef(where);
        return 0;
    }
    known = known < 0 ? known : PyObject_IsInstance(where, jax->device_type);
    if (known == 1) {
        s->refs[SHARDING] = PyObject_CallOneArg(jax->single_device_sharding, where);
        return s->refs[SHARDING] ? 0 : -1;
    }
    if (known == 0) {
        PyErr_Format(PyExc_TypeError, "array: expected a Sharding, a Device or None, got %R", where);
    }
    return -1;
}

static int finish_array(Step *s, Builder *b)
{
    DC_UNUSED(b);
    PyObject *spec[5];
    memcpy(spec, s->refs, sizeof spec); /* shape, dtype, weak_type, sharding or device, committed */
    memset(s->refs, 0, sizeof spec);
    s->refs[DTYPE] = Py_XNewRef(spec[1]);
    s->flag = (signed char)parse_maybe(spec[2]);
    s->flag2 = (signed char)parse_maybe(spec[4]);
    bool ok = s->flag != -2 && s->flag2 != -2 && dc_jax() && intern_names() &&
              (s->ext = parse_shape(spec[0])) != NULL && as_sharding(s, spec[3]) == 0;
    for (int i = 0; i < 5; i++) {
        Py_XDECREF(spec[i]);
    }
    return ok ? 0 : -1;
}

static bool remembered(PyObject *const *memo, PyObject *value)
{
    return memo[0] == value || memo[1] == value || memo[2] == value || memo[3] == value;
}

static void remember(PyObject **memo, PyObject *value)
{
    PyObject *oldest = memo[MEMO - 1];
    memmove(memo + 1, memo, (MEMO - 1) * sizeof *memo);
    memo[0] = Py_NewRef(value);
    Py_XDECREF(oldest);
}

static bool attr_is(PyObject *obj, PyObject *name, PyObject *expected)
{
    PyObject *value = PyObject_GetAttr(obj, name);
    bool ok = value && equal(value, expected);
    Py_XDECREF(value);
    return ok;
}

static bool aval_matches(const Step *s, PyObject *aval)
{
    if ((PyObject *)Py_TYPE(aval) != dc_jax()->aval_type) {
        return false;
    }
    PyObject *dims = PyObject_GetAttr(aval, name_shape);
    bool ok = shape_matches(s->ext, dims) && attr_is(aval, name_dtype, s->refs[DTYPE]) &&
              (s->flag == -1 || attr_is(aval, name_weak_type, s->flag ? Py_True : Py_False));
    Py_XDECREF(dims);
    return ok;
}

/* The aval of an array or a tracer; new reference. */
static PyObject *aval_of(PyObject *x)
{
    return Py_IS_TYPE(x, dc_jax()->array_type) ? PyObject_CallOneArg(dc_jax()->get_aval, x)
                                               : PyObject_GetAttr(x, name_aval);
}

static bool aval_passes(Step *s, PyObject *array)
{
    PyObject *aval = aval_of(array);
    bool ok = aval && (remembered(s->refs + AVALS, aval) || aval_matches(s, aval));
    if (ok && !remembered(s->refs + AVALS, aval)) {
        remember(s->refs + AVALS, aval);
    }
    Py_XDECREF(aval);
    return ok;
}

static bool sharding_passes(Step *s, PyObject *array)
{
    PyObject *now = PyObject_CallOneArg(dc_jax()->get_sharding, array);
    bool known = now && (now == s->refs[SHARDING] || remembered(s->refs + SHARDINGS, now));
    bool ok = known || (now && Py_TYPE(now) == Py_TYPE(s->refs[SHARDING]) && equal(now, s->refs[SHARDING]));
    if (ok && !known) {
        remember(s->refs + SHARDINGS, now);
    }
    Py_XDECREF(now);
    return ok;
}

static bool committed_passes(const Step *s, PyObject *array)
{
    PyObject *now = PyObject_CallOneArg(dc_jax()->get_committed, array);
    bool ok = now == (s->flag2 ? Py_True : Py_False);
    Py_XDECREF(now);
    return ok;
}

static int eval_array(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    if (!Py_IS_TYPE(x, dc_jax()->array_type)) {
        return 0;
    }
    bool ok = aval_passes(s, x) && (!s->refs[SHARDING] || sharding_passes(s, x)) &&
              (s->flag2 == -1 || committed_passes(s, x));
    if (!ok) {
        PyErr_Clear();
    }
    return ok;
}

/* That an array is there, of those that no kernel reads though the program has computed with them. */
static int eval_undeleted(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *deleted = PyObject_CallMethodNoArgs(run->regs[s->src], name_is_deleted);
    bool ok = deleted == Py_False;
    if (deleted == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(deleted);
    return ok;
}

/* What stands for an array where JAX transforms the caller: it has an aval, and lives nowhere. */
static int eval_tracer(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    bool ok = PyObject_TypeCheck(x, dc_jax()->tracer_type) && aval_passes(s, x);
    if (!ok) {
        PyErr_Clear();
    }
    return ok;
}

/* Whether Python may look at what a tracer holds: those of derivatives have an array inside (`inside_tracers.shows`). */
static int eval_shows(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    const JaxApi *jax = dc_jax();
    PyObject *x = Py_NewRef(run->regs[s->src]);
    while (x && (Py_IS_TYPE(x, jax->derivative_types[0]) || Py_IS_TYPE(x, jax->derivative_types[1]))) {
        Py_SETREF(x, PyObject_GetAttr(x, name_primal));
    }
    bool ok = x && !PyObject_TypeCheck(x, jax->tracer_type);
    if (x == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(x);
    return ok;
}

static int finish_shows(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    return dc_jax() ? 0 : -1;
}

/* ---- numpy arrays ----
 * The head of an ndarray's struct is NumPy's stable ABI; layout_is_known() makes sure. */

typedef struct {
    PyObject_HEAD
    char *data;
    int ndim;
    Py_ssize_t *dims, *strides;
    PyObject *base, *dtype;
    int flags;
} NdArray;
enum { ND_C_CONTIGUOUS = 1 };

static bool layout_is_known(void)
{
    static bool known;
    const NumpyApi *np = known ? NULL : dc_numpy();
    PyObject *probe = np ? PyObject_CallFunction((PyObject *)np->ndarray, "((iii)s)", 3, 5, 7, "int16") : NULL;
    PyObject *dtype = probe ? PyObject_GetAttrString(probe, "dtype") : NULL;
    if (dtype) {
        NdArray *a = (NdArray *)probe;
        known = a->ndim == 3 && a->dims[0] == 3 && a->dims[1] == 5 && a->dims[2] == 7 &&
                a->strides[2] == 2 && a->strides[0] == 70 && a->dtype == dtype &&
                (a->flags & ND_C_CONTIGUOUS);
    }
    Py_XDECREF(dtype);
    Py_XDECREF(probe);
    if (!known && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ImportError, "dynacomp: this NumPy lays out its arrays in an unknown way");
    }
    return known;
}

static int finish_ndarray(Step *s, Builder *b)
{
    DC_UNUSED(b);
    s->flag = (signed char)parse_maybe(s->refs[2]); /* C-contiguous, or None for any */
    if (s->flag == -2 || !layout_is_known() || (s->ext = parse_shape(s->refs[0])) == NULL) {
        return -1;
    }
    return 0;
}

static int eval_ndarray(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    const Shape *shape = s->ext;
    const NdArray *a = (NdArray *)x;
    if (!Py_IS_TYPE(x, dc_numpy()->ndarray) || a->ndim != shape->ndim) {
        return 0;
    }
    for (int i = 0; i < a->ndim; i++) {
        if (shape->dims[i] != -1 && shape->dims[i] != a->dims[i]) {
            return 0;
        }
    }
    if (s->flag != -1 && s->flag != (a->flags & ND_C_CONTIGUOUS)) {
        return 0;
    }
    bool ok = equal(a->dtype, s->refs[1]);
    if (!ok) {
        PyErr_Clear();
    }
    return ok;
}

/* ---- a dimension into a size ---- */

static int64_t jax_dim(PyObject *x, Py_ssize_t axis)
{
    PyObject *aval = aval_of(x);
    PyObject *dims = aval ? PyObject_GetAttr(aval, name_shape) : NULL;
    int64_t size = -1;
    if (dims && PyTuple_Check(dims) && axis >= 0 && axis < PyTuple_GET_SIZE(dims)) {
        size = PyLong_AsLongLong(PyTuple_GET_ITEM(dims, axis));
    }
    Py_XDECREF(dims);
    Py_XDECREF(aval);
    PyErr_Clear();
    return size;
}

static int finish_dim(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    return dc_jax() && intern_names() && layout_is_known() ? 0 : -1;
}

static int eval_dim(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    int64_t size = -1;
    if (Py_IS_TYPE(x, dc_jax()->array_type) || PyObject_TypeCheck(x, dc_jax()->tracer_type)) {
        size = jax_dim(x, s->n);
    }
    else if (Py_IS_TYPE(x, dc_numpy()->ndarray) && s->n >= 0 && s->n < ((NdArray *)x)->ndim) {
        size = ((NdArray *)x)->dims[s->n];
    }
    run->sizes[s->dst] = size;
    return size >= 0;
}

/* ---- Python scalars of any value ---- */

static int finish_scalar(Step *s, Builder *b)
{
    DC_UNUSED(b);
    static const struct { const char *name; PyTypeObject *type; } types[] = {
        {"int", &PyLong_Type}, {"float", &PyFloat_Type}, {"bool", &PyBool_Type}, {"complex", &PyComplex_Type}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (PyUnicode_CompareWithASCIIString(s->refs[0], types[i].name) == 0) {
            Py_SETREF(s->refs[0], Py_NewRef((PyObject *)types[i].type));
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "scalar: expected int, float, bool or complex, got %R", s->refs[0]);
    return -1;
}

static bool fits_int64(PyObject *i, int64_t *value)
{
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(i, &overflow);
    return !overflow;
}

static int eval_scalar(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    int64_t value;
    return (PyObject *)Py_TYPE(x) == s->refs[0] && (!PyLong_CheckExact(x) || fits_int64(x, &value));
}

static int eval_int_size(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *x = run->regs[s->src];
    return PyLong_CheckExact(x) && fits_int64(x, &run->sizes[s->dst]);
}

/* The bytes of a C-contiguous ndarray whose shape and dtype an "ndarray" step has checked. */
static int eval_content(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    const NdArray *a = (NdArray *)run->regs[s->src];
    const char *wanted = PyBytes_AS_STRING(s->refs[0]);
    return !memcmp(a->data, wanted, (size_t)PyBytes_GET_SIZE(s->refs[0]));
}

static int finish_content(Step *s, Builder *b)
{
    DC_UNUSED(b);
    if (!PyBytes_CheckExact(s->refs[0])) {
        PyErr_Format(PyExc_TypeError, "content: expected bytes, got %R", s->refs[0]);
        return -1;
    }
    return 0;
}

const StepKind dc_array_kinds[] = {
    {"array", "soooOO", eval_array, finish_array},
    {"tracer", "soooOO", eval_tracer, finish_array},
    {"shows", "s", eval_shows, finish_shows},
    {"undeleted", "s", eval_undeleted, NULL},
    {"ndarray", "sooO", eval_ndarray, finish_ndarray},
    {"content", "sO", eval_content, finish_content},
    {"dim", "zsn", eval_dim, finish_dim},
    {"scalar", "su", eval_scalar, finish_scalar},
    {"int_size", "zs", eval_int_size, NULL},
    {NULL, NULL, NULL, NULL},
};
