/* CompiledFunction: the callable that `dynacomp.jit` returns.
 *
 * It behaves as the function that it wraps (attributes, docstring, signature, methods, pickle). A
 * call binds its arguments, finds an entry whose guards hold, and runs it; for a direct entry no
 * Python frame is made. Whatever cannot be bound, or is to run plainly, is simply passed on. */
#include "native.h"

#include <stddef.h>
#include <structmember.h>
#include <time.h>

/* ---- calling ---- */

typedef struct {
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
    PyObject **owned; /* the same arguments, where they may be handed over */
} Passed;

static PyObject *pass_on(CompiledFunction *self, const Passed *p)
{
    if (p->owned) {
        return dc_call_handing(self->fn, p->owned, PyVectorcall_NARGS(p->nargsf));
    }
    return PyObject_Vectorcall(self->fn, p->args, p->nargsf, p->kwnames);
}

static PyObject *call_plain(CompiledFunction *self, const Passed *p)
{
    dc_counters.plain++;
    dc_thread.paused++;
    PyObject *result = pass_on(self, p);
    dc_thread.paused--;
    return result;
}

typedef struct {
    PyObject *current;
    PyCodeObject *bypass;
} Saved;

static Saved activate(CompiledFunction *self, PyCodeObject *bypass)
{
    Saved saved = {dc_thread.current, dc_thread.bypass};
    dc_thread.current = (PyObject *)self;
    dc_thread.bypass = bypass;
    dc_enter();
    return saved;
}

static void deactivate(Saved saved)
{
    dc_leave();
    dc_thread.current = saved.current;
    dc_thread.bypass = saved.bypass;
}

/* The function's own frame runs plainly, what it calls is captured. */
static PyObject *call_active(CompiledFunction *self, const Passed *p, PyCodeObject *code)
{
    Saved saved = activate(self, code);
    PyObject *result = pass_on(self, p);
    deactivate(saved);
    return result;
}

static PyObject *run_code(CompiledFunction *self, const Answer *answer, const Call *call)
{
    Saved saved = activate(self, NULL);
    PyObject *result = dc_entry_run(answer->entry, call, answer->inputs);
    deactivate(saved);
    Py_DECREF(answer->entry);
    return result;
}

static PyObject *call_bound(CompiledFunction *self, const Call *call, CodeState *state, const Passed *p)
{
    Answer answer = dc_resolve(call, state, self->on_miss ? self->on_miss : dc_on_miss, self->key);
    switch (answer.verdict) {
    case RUN_CODE: {
        PyObject *result = run_code(self, &answer, call);
        return dc_is_to_run_plainly(result) ? call_plain(self, p) : result;
    }
    case RUN_PLAIN: return call_plain(self, p);
    case RUN_PLAIN_ACTIVE: return call_active(self, p, (PyCodeObject *)call->func->func_code);
    case DONE: break;
    }
    return answer.result;
}

static bool is_woken(CodeState *state, PyObject *bound_self, const Passed *p)
{
    Py_ssize_t n = PyVectorcall_NARGS(p->nargsf) + (p->kwnames ? PyTuple_GET_SIZE(p->kwnames) : 0);
    return dc_is_woken(state, &bound_self, 1) || dc_is_woken(state, p->args, n);
}

static PyObject *call_captured(CompiledFunction *self, PyFunctionObject *func, PyObject *bound_self,
                               CodeState *state, const Passed *p)
{
    PyCodeObject *code = state->code;
    if (state->flags & CODE_SKIP_RECURSIVE) {
        return call_plain(self, p);
    }
    if (state->flags & CODE_SKIP || (state->rest && !is_woken(state, bound_self, p))) {
        state->rest -= state->rest > 0;
        return call_active(self, p, code);
    }
    Bound bound;
    int status = dc_bind(&bound, func, bound_self, p->args, PyVectorcall_NARGS(p->nargsf), p->kwnames);
    if (status == 0) { /* CPython raises the TypeError */
        dc_counters.unbound++;
        return pass_on(self, p);
    }
    if (status < 0) {
        return NULL;
    }
    Call call = {bound.locals, bound.n, func, bound.owned ? bound.owned : p->owned};
    PyObject *result = call_bound(self, &call, state, p);
    dc_bound_clear(&bound);
    return result;
}

PyObject *dc_timer;
unsigned dc_untimed;

enum { UNTOLD = 16 };

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Takes `result`; gives it back once Python knows how long it took, NULL where that raises. */
static PyObject *told(PyObject *tell, PyObject *result, long long start, unsigned long long operations)
{
    dc_thread.paused++;
    PyObject *answer = PyObject_CallFunction(tell, "OLK", result, start, operations);
    dc_thread.paused--;
    if (answer == NULL) {
        Py_CLEAR(result);
    }
    Py_XDECREF(answer);
    return result;
}

/* A call about which Python is asked how to run it, and told how long it took. */
static PyObject *call_timed(CompiledFunction *self, PyFunctionObject *func, PyObject *bound_self, CodeState *state,
                            const Passed *p)
{
    state->untimed = UNTOLD; /* if the call raises; else Python says */
    PyObject *tell, *timer = Py_NewRef(dc_timer);
    PyObject *args[] = {(PyObject *)state->code, self->key ? self->key : Py_None};
    PyObject *answer = dc_call_paused(timer, args, 2, NULL), *result = NULL;
    Py_DECREF(timer);
    int plain;
    if (answer == Py_None) {
        result = call_captured(self, func, bound_self, state, p);
    }
    else if (answer && PyArg_ParseTuple(answer, "Op:timer", &tell, &plain)) {
        unsigned long long operations = dc_counters.operations;
        long long start = now();
        result = plain ? call_plain(self, p) : call_captured(self, func, bound_self, state, p);
        result = result ? told(tell, result, start, dc_counters.operations - operations) : NULL;
    }
    Py_XDECREF(answer);
    return result;
}

/* A call that no compiled function makes. */
static PyObject *call_outermost(CompiledFunction *self, PyFunctionObject *func, PyObject *bound_self, CodeState *state,
                                const Passed *p)
{
    if (state->aside) {
        state->aside--;
        return call_plain(self, p);
    }
    return state->untimed && --state->untimed == 0 && dc_timer ? call_timed(self, func, bound_self, state, p)
                                                               : call_captured(self, func, bound_self, state, p);
}

static PyObject *call_code(CompiledFunction *self, PyFunctionObject *func, PyObject *bound_self, PyCodeObject *code,
                           const Passed *p)
{
    if (dc_lines_are_watched(PyThreadState_Get(), code)) {
        dc_counters.traced++;
        return pass_on(self, p);
    }
    CodeState *state = dc_code_state_make(code);
    if (state == NULL) {
        return NULL;
    }
    return dc_thread.current ? call_captured(self, func, bound_self, state, p)
                             : call_outermost(self, func, bound_self, state, p);
}

static PyObject *call_passed(CompiledFunction *self, const Passed *passed)
{
    dc_counters.calls++;
    dc_counters.outer += dc_thread.current == NULL;
    if (!dc_enabled || dc_thread.paused) {
        return pass_on(self, passed);
    }
    PyObject *bound_self, *fn = Py_NewRef(self->fn);
    PyFunctionObject *func = dc_function_of(fn, &bound_self);
    PyObject *result = NULL;
    if (func) {
        PyCodeObject *code = (PyCodeObject *)Py_NewRef(func->func_code);
        Py_INCREF(self);
        result = call_code(self, func, bound_self, code, passed);
        Py_DECREF(self);
        Py_DECREF(code);
    }
    Py_DECREF(fn);
    return result;
}

static PyObject *compiled_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Passed passed = {args, nargsf, kwnames, NULL};
    return call_passed((CompiledFunction *)callable, &passed);
}

PyObject *dc_call_compiled(PyObject *callable, PyObject **slots, Py_ssize_t n)
{
    Passed passed = {slots, (size_t)n, NULL, slots};
    return call_passed((CompiledFunction *)callable, &passed);
}

/* ---- being a function ---- */

PyObject *dc_methods;

/* One of the methods that `jax.jit` gives; else NULL, with the error that is set. */
static PyObject *method_of_jit(PyObject *self, PyObject *name)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject *method = PyDict_GetItemWithError(dc_methods, name);
    if (method == NULL && !PyErr_Occurred()) {
        PyErr_Restore(type, error, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return method ? PyMethod_New(method, self) : NULL;
}

static PyObject *compiled_getattro(PyObject *self, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(self, name);
    PyObject *fn = ((CompiledFunction *)self)->fn;
    if (value == NULL && fn && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = PyObject_GetAttr(fn, name);
    }
    if (value == NULL && dc_methods && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        value = method_of_jit(self, name);
    }
    return value;
}

static PyObject *get_doc(CompiledFunction *self, void *closure)
{
    DC_UNUSED(closure);
    return PyObject_GetAttrString(self->fn, "__doc__");
}

static PyObject *compiled_repr(CompiledFunction *self)
{
    return PyUnicode_FromFormat("<dynacomp.jit of %R>", self->fn);
}

static PyObject *compiled_descr_get(PyObject *self, PyObject *obj, PyObject *type)
{
    DC_UNUSED(type);
    return obj == NULL || obj == Py_None ? Py_NewRef(self) : PyMethod_New(self, obj);
}

static PyObject *compiled_reduce(PyObject *self, PyObject *unused)
{
    DC_UNUSED(unused);
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyObject *compiled_copy(PyObject *self, PyObject *memo)
{
    DC_UNUSED(memo);
    return Py_NewRef(self);
}

static PyObject *compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "on_miss", "key", NULL};
    PyObject *fn, *on_miss = Py_None, *key = Py_None, *ignored;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:CompiledFunction", names, &fn, &on_miss, &key) ||
        !dc_function_of(fn, &ignored)) {
        return NULL;
    }
    CompiledFunction *self = (CompiledFunction *)type->tp_alloc(type, 0);
    if (self) {
        self->vectorcall = compiled_vectorcall;
        self->fn = Py_NewRef(fn);
        self->on_miss = on_miss == Py_None ? NULL : Py_NewRef(on_miss);
        self->key = key == Py_None ? NULL : Py_NewRef(key);
    }
    return (PyObject *)self;
}

static int compiled_traverse(CompiledFunction *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->on_miss);
    Py_VISIT(self->key);
    Py_VISIT(self->dict);
    return 0;
}

static int compiled_clear(CompiledFunction *self)
{
    Py_CLEAR(self->on_miss);
    Py_CLEAR(self->key);
    Py_CLEAR(self->dict);
    return 0; /* fn stays, so that a call from a finalizer still finds it; it breaks no cycle by itself */
}

static void compiled_dealloc(CompiledFunction *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weaklist) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    compiled_clear(self);
    Py_CLEAR(self->fn);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef compiled_methods[] = {
    {"__reduce__", compiled_reduce, METH_NOARGS, "Pickles by qualified name, as functions do."},
    {"__copy__", compiled_copy, METH_NOARGS, "Itself, as of functions."},
    {"__deepcopy__", compiled_copy, METH_O, "Itself, as of functions."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef compiled_getset[] = {
    {"__doc__", (getter)get_doc, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef compiled_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(CompiledFunction, fn), READONLY, "The function."},
    {"key", T_OBJECT, offsetof(CompiledFunction, key), READONLY, "The options, by whose identity entries are found."},
    {"on_miss", T_OBJECT, offsetof(CompiledFunction, on_miss), READONLY, "This function's callback, or None."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject CompiledFunction_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.CompiledFunction",
    .tp_basicsize = sizeof(CompiledFunction),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CompiledFunction, vectorcall),
    .tp_weaklistoffset = offsetof(CompiledFunction, weaklist),
    .tp_dictoffset = offsetof(CompiledFunction, dict),
    .tp_getattro = compiled_getattro,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_descr_get = compiled_descr_get,
    .tp_repr = (reprfunc)compiled_repr,
    .tp_methods = compiled_methods,
    .tp_getset = compiled_getset,
    .tp_members = compiled_members,
};
