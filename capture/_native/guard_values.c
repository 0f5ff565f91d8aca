/* Steps that read a value into a register. None runs user code: attributes come out of instance
 * dicts, slots and the classes' own tables, never through `__getattr__`, properties or `__eq__`.
 * A value that is not there fails the guard. */
#include "native.h"

#include <structmember.h>

#include <stddef.h>
#include <string.h>

static int put(Step *s, Run *run, PyObject *owned)
{
    if (owned == NULL) {
        return 0;
    }
    dc_set_register(run, s->dst, owned);
    return 1;
}

static PyObject *quiet_owned(PyObject *owned)
{
    if (owned == NULL) {
        PyErr_Clear();
    }
    return owned;
}

static int eval_local(Step *s, Run *run, const Call *call)
{
    return s->n >= 0 && s->n < call->nlocals && put(s, run, Py_XNewRef(call->locals[s->n]));
}

static int eval_closure(Step *s, Run *run, const Call *call)
{
    PyObject *cells = call->func->func_closure;
    if (cells == NULL || s->n < 0 || s->n >= PyTuple_GET_SIZE(cells)) {
        return 0;
    }
    return put(s, run, Py_XNewRef(PyCell_GET(PyTuple_GET_ITEM(cells, s->n))));
}

static int eval_cell(Step *s, Run *run, const Call *call)
{
    PyObject *cells = call->func->func_closure;
    if (cells == NULL || s->n < 0 || s->n >= PyTuple_GET_SIZE(cells)) {
        return 0;
    }
    return put(s, run, Py_NewRef(PyTuple_GET_ITEM(cells, s->n)));
}

static int eval_handled(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *handled = PyErr_GetHandledException();
    return put(s, run, handled ? handled : Py_NewRef(Py_None));
}

static int eval_thread_ident(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, quiet_owned(PyLong_FromUnsignedLong(PyThread_get_thread_ident())));
}

static int eval_trace_ref(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *trace = quiet_owned(PyObject_CallOneArg(dc_jax()->get_state, dc_jax()->trace_state));
    PyObject *ref = trace ? quiet_owned(PyObject_GetAttrString(trace, "_weakref")) : NULL;
    Py_XDECREF(trace);
    return put(s, run, ref);
}

static int finish_trace_ref(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    return dc_jax() ? 0 : -1;
}

static PyObject *named(PyObject *dict, Step *s)
{
    PyObject *key = dc_held(s);
    return key && dict && PyDict_Check(dict) ? dc_dict_get(dict, key, s->hash, &s->at) : NULL;
}

static int eval_global(Step *s, Run *run, const Call *call)
{
    return put(s, run, named(call->func->func_globals, s));
}

/* Classes and modules are referred to weakly: one that a function made or imported afresh dies with its last user. */
static int finish_const(Step *s, Builder *b)
{
    bool dies = PyType_Check(s->refs[0]) || PyModule_Check(s->refs[0]);
    return dies ? dc_finish_weakly(s, b) : 0;
}

static int eval_const(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, Py_XNewRef(dc_held(s)));
}

static int eval_attr(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, dc_instance_get(run->regs[s->src], s->refs[0], s->hash, &s->at));
}

/* A member of __slots__, as its descriptor reads it. refs: 0 its class, weakly (the descriptor keeps it); ext:
 * where the member is. */
static int finish_slot(Step *s, Builder *b)
{
    PyObject *descriptor = s->refs[0];
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "slot: expected the descriptor of a __slots__ member, got %R", descriptor);
        return -1;
    }
    PyMemberDef *member = s->ext = PyMem_Malloc(sizeof *member);
    if (member == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *member = *((PyMemberDescrObject *)descriptor)->d_member;
    Py_SETREF(s->refs[0], Py_NewRef(PyDescr_TYPE(descriptor)));
    return dc_finish_weakly(s, b);
}

static bool has_slot(Step *s, PyObject *obj)
{
    PyObject *cls = dc_held(s);
    return cls != NULL && PyObject_TypeCheck(obj, (PyTypeObject *)cls);
}

static PyObject *in_slot(Step *s, PyObject *obj)
{
    return quiet_owned(PyMember_GetOne((const char *)obj, s->ext));
}

static int eval_slot(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *obj = run->regs[s->src];
    return has_slot(s, obj) && put(s, run, in_slot(s, obj));
}

static int eval_empty_slot(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *obj = run->regs[s->src];
    if (!has_slot(s, obj)) {
        return 0;
    }
    PyObject *found = in_slot(s, obj);
    Py_XDECREF(found);
    return found == NULL;
}

static int eval_dict(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, dc_instance_dict(run->regs[s->src]));
}

/* Types that live in modules: looked up once. A row of builtin_attrs without a type names one. */
enum { PARTIAL, DEFAULTDICT, DEQUE, EXCEPTION, THREAD_LOCAL, CLASS, N_IMPORTED };
static const char *const imported_names[N_IMPORTED][2] = {{"functools", "partial"},
                                                          {"collections", "defaultdict"},
                                                          {"collections", "deque"},
                                                          {"builtins", "BaseException"},
                                                          {"_thread", "_local"},
                                                          {"builtins", "type"}};
static PyTypeObject *imported[N_IMPORTED];

static int import_types(void)
{
    for (int i = 0; i < N_IMPORTED; i++) {
        if (imported[i] == NULL) {
            PyObject *module = PyImport_ImportModule(imported_names[i][0]);
            imported[i] = module ? (PyTypeObject *)PyObject_GetAttrString(module, imported_names[i][1]) : NULL;
            Py_XDECREF(module);
        }
        if (imported[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static int finish_thread_dict(Step *s, Builder *b)
{
    DC_UNUSED(b);
    s->refs[0] = PyUnicode_InternFromString("__dict__");
    return s->refs[0] ? import_types() : -1;
}

/* A thread local object has a dictionary for each thread (made now, if this thread is new to it). */
static int eval_thread_dict(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *obj = run->regs[s->src];
    PyTypeObject *local = imported[THREAD_LOCAL];
    return PyObject_TypeCheck(obj, local) && put(s, run, quiet_owned(local->tp_getattro(obj, s->refs[0])));
}

/* What a context variable has in this context, or the literal that stands for nothing. */
static int eval_contextual(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *variable = run->regs[s->src], *found = NULL;
    if (!PyContextVar_CheckExact(variable) || PyContextVar_Get(variable, s->refs[0], &found) < 0) {
        PyErr_Clear();
        return 0;
    }
    return put(s, run, found);
}

static int eval_referent(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *ref = run->regs[s->src], *found = NULL;
    if (!PyWeakref_CheckRefExact(ref)) {
        return 0;
    }
#if PY_VERSION_HEX >= 0x030D0000
    if (PyWeakref_GetRef(ref, &found) < 0) {
        PyErr_Clear();
    } else if (found == NULL) {
        found = Py_NewRef(Py_None);
    }
#else
    found = Py_XNewRef(PyWeakref_GET_OBJECT(ref)); /* None, where it is gone */
#endif
    return put(s, run, found);
}

static int eval_item(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *seq = run->regs[s->src];
    bool tuple = PyTuple_Check(seq);
    if (imported[DEQUE] != NULL && PyObject_TypeCheck(seq, imported[DEQUE])) { /* past what a subclass overrides */
        return put(s, run, quiet_owned(imported[DEQUE]->tp_as_sequence->sq_item(seq, s->n)));
    }
    if (!tuple && !PyList_Check(seq)) {
        return 0;
    }
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(seq) : PyList_GET_SIZE(seq);
    Py_ssize_t i = s->n < 0 ? s->n + n : s->n;
    if (i < 0 || i >= n) {
        return 0;
    }
    return put(s, run, Py_NewRef(tuple ? PyTuple_GET_ITEM(seq, i) : PyList_GET_ITEM(seq, i)));
}

/* A key that is an object is referred to weakly too: the dict alone decides how long it lives. */
static int finish_key(Step *s, Builder *b)
{
    s->hash = PyObject_Hash(s->refs[0]);
    return s->hash == -1 ? -1 : dc_finish_weakly(s, b);
}

static int eval_key(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, named(run->regs[s->src], s));
}

/* refs[0] the key, n its hash: nobody asks it */
static int eval_known_key(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    s->hash = (Py_hash_t)s->n;
    return put(s, run, named(run->regs[s->src], s));
}

static int eval_type(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, Py_NewRef((PyObject *)Py_TYPE(run->regs[s->src])));
}

/* The number or string inside an instance of a subclass of int, float, complex, str or bytes. */
static PyObject *plain(PyObject *obj)
{
    if (PyLong_Check(obj)) {
        return PyLong_Type.tp_as_number->nb_int(obj);
    }
    if (PyFloat_Check(obj)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(obj));
    }
    if (PyUnicode_Check(obj)) {
        return PyUnicode_FromObject(obj);
    }
    if (PyBytes_Check(obj)) {
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(obj), PyBytes_GET_SIZE(obj));
    }
    return PyComplex_Check(obj) ? PyComplex_FromCComplex(((PyComplexObject *)obj)->cval) : NULL;
}

static int eval_plain(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, quiet_owned(plain(run->regs[s->src])));
}

/* ---- attributes of CPython's own types ---- */

typedef struct {
    PyTypeObject *type; /* exact, but for exceptions */
    const char *name;
    size_t offset;      /* where the object keeps it, 0: ask its descriptor */
    bool null_is_none;
} BuiltinAttr;

#define AT(type, field) offsetof(type, field)
static const BuiltinAttr builtin_attrs[] = {
    {&PyFunction_Type, "__code__", AT(PyFunctionObject, func_code), false},
    {&PyFunction_Type, "__globals__", AT(PyFunctionObject, func_globals), false},
    {&PyFunction_Type, "__closure__", AT(PyFunctionObject, func_closure), true},
    {&PyFunction_Type, "__defaults__", AT(PyFunctionObject, func_defaults), true},
    {&PyFunction_Type, "__kwdefaults__", AT(PyFunctionObject, func_kwdefaults), true},
    {&PyFunction_Type, "__name__", AT(PyFunctionObject, func_name), false},
    {&PyFunction_Type, "__qualname__", AT(PyFunctionObject, func_qualname), false},
    {&PyFunction_Type, "__dict__", 0, false},
    {&PyFunction_Type, "__wrapped__", 0, false},
    {&PyFunction_Type, "__annotations__", 0, false},
    {&PyFunction_Type, "__doc__", 0, false},
    {&PyFunction_Type, "__module__", 0, false},
    {&PyFunction_Type, "__type_params__", 0, false}, /* since 3.12 */
    {&PyMethod_Type, "__self__", AT(PyMethodObject, im_self), false},
    {&PyMethod_Type, "__func__", AT(PyMethodObject, im_func), false},
    {&PyCell_Type, "cell_contents", AT(PyCellObject, ob_ref), false},
    {&PyRange_Type, "start", 0, false},
    {&PyRange_Type, "stop", 0, false},
    {&PyRange_Type, "step", 0, false},
    {&PySlice_Type, "start", 0, false},
    {&PySlice_Type, "stop", 0, false},
    {&PySlice_Type, "step", 0, false},
    {&PyProperty_Type, "fget", 0, false},
    {&PyProperty_Type, "fset", 0, false},
    {&PyProperty_Type, "fdel", 0, false},
    {&PyStaticMethod_Type, "__func__", 0, false},
    {&PyClassMethod_Type, "__func__", 0, false},
    {&PyCFunction_Type, "__self__", 0, false},
    {&PyCFunction_Type, "__name__", 0, false},
    {NULL, "func", PARTIAL, false}, /* no type: the offset is a number of imported types */
    {NULL, "args", PARTIAL, false},
    {NULL, "keywords", PARTIAL, false},
    {NULL, "__dict__", PARTIAL, false}, /* one that has none gets it, as where the program asks */
    {NULL, "default_factory", DEFAULTDICT, false},
    {NULL, "maxlen", DEQUE, false},
    {NULL, "args", EXCEPTION, false},
    {NULL, "__traceback__", EXCEPTION, false},
    {NULL, "__context__", EXCEPTION, false},
    {NULL, "__cause__", EXCEPTION, false},
    {NULL, "__suppress_context__", EXCEPTION, false},
    {NULL, "__name__", CLASS, false},
    {NULL, "__qualname__", CLASS, false},
    {NULL, "__mro__", CLASS, false},
    {NULL, "__bases__", CLASS, false},
    {NULL, "__dict__", CLASS, false},
};

static int finish_get(Step *s, Builder *b)
{
    DC_UNUSED(b);
    if (import_types() < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof builtin_attrs / sizeof *builtin_attrs; i++) {
        if (PyUnicode_CompareWithASCIIString(s->refs[0], builtin_attrs[i].name) == 0) {
            s->n = (Py_ssize_t)i; /* rows of one name may follow: eval goes on from here */
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "get: %R is no attribute that can be read without user code", s->refs[0]);
    return -1;
}

/* Exceptions, deques, defaultdicts and `type` have subclasses, which keep these attributes in the same place. */
static bool of_subclasses(const BuiltinAttr *attr) { return attr->type == NULL && attr->offset != PARTIAL; }

static bool belongs(const BuiltinAttr *attr, PyObject *obj)
{
    PyTypeObject *type = attr->type ? attr->type : imported[attr->offset];
    return of_subclasses(attr) ? PyObject_TypeCheck(obj, type) : Py_IS_TYPE(obj, type);
}

static PyObject *read_field(PyTypeObject *type, PyObject *obj, PyObject *name) /* as `type` has it, whatever obj's class says */
{
    PyObject *field = _PyType_Lookup(type, name);
    return field ? quiet_owned(Py_TYPE(field)->tp_descr_get(field, obj, (PyObject *)Py_TYPE(obj))) : NULL;
}

static PyObject *read_builtin(const BuiltinAttr *attr, PyObject *obj, PyObject *name)
{
    if (of_subclasses(attr)) {
        return read_field(imported[attr->offset], obj, name);
    }
    if (attr->type == NULL || attr->offset == 0) {
        return quiet_owned(PyObject_GetAttr(obj, name));
    }
    PyObject *value;
    memcpy(&value, (char *)obj + attr->offset, sizeof value);
    return Py_XNewRef(value ? value : attr->null_is_none ? Py_None : NULL);
}

PyObject **dc_builtin_field(const Step *s, PyObject *obj)
{
    for (size_t i = (size_t)s->n; i < sizeof builtin_attrs / sizeof *builtin_attrs; i++) {
        const BuiltinAttr *attr = &builtin_attrs[i];
        if (attr->type && attr->offset && belongs(attr, obj) && strcmp(attr->name, builtin_attrs[s->n].name) == 0) {
            return (PyObject **)((char *)obj + attr->offset);
        }
    }
    return NULL;
}

static int eval_get(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *obj = run->regs[s->src];
    const char *name = builtin_attrs[s->n].name;
    for (size_t i = (size_t)s->n; i < sizeof builtin_attrs / sizeof *builtin_attrs; i++) {
        const BuiltinAttr *attr = &builtin_attrs[i];
        if (belongs(attr, obj) && strcmp(attr->name, name) == 0) {
            return put(s, run, read_builtin(attr, obj, s->refs[0]));
        }
    }
    return 0;
}

const StepKind dc_value_kinds[] = {
    {"local", "dn", eval_local, NULL},
    {"closure", "dn", eval_closure, NULL},
    {"cell", "dn", eval_cell, NULL},
    {"handled", "d", eval_handled, NULL},
    {"thread_ident", "d", eval_thread_ident, NULL},
    {"trace_ref", "d", eval_trace_ref, finish_trace_ref},
    {"global", "du", eval_global, NULL},
    {"const", "do", eval_const, finish_const},
    {"weak_const", "do", eval_const, dc_finish_weakly},
    {"attr", "dsu", eval_attr, NULL},
    {"slot", "dso", eval_slot, finish_slot},
    {"empty_slot", "so", eval_empty_slot, finish_slot},
    {"dict", "ds", eval_dict, NULL},
    {"plain", "ds", eval_plain, NULL},
    {"thread_dict", "ds", eval_thread_dict, finish_thread_dict},
    {"contextual", "dso", eval_contextual, NULL},
    {"referent", "ds", eval_referent, NULL},
    {"item", "dsn", eval_item, NULL},
    {"key", "dso", eval_key, finish_key},
    {"known_key", "dson", eval_known_key, dc_finish_weakly},
    {"type", "ds", eval_type, NULL},
    {"get", "dsu", eval_get, finish_get},
    {NULL, NULL, NULL, NULL},
};
