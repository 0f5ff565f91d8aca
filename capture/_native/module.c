/* The module `dynacomp.capture._native`: its functions, and the types behind them. */
#include "native.h"

static PyObject *set_callback_slot(PyObject **slot, PyObject *value)
{
    PyObject *old = *slot;
    if (value != Py_None && !PyCallable_Check(value)) {
        PyErr_Format(PyExc_TypeError, "expected a callable or None, got %R", value);
        return NULL;
    }
    *slot = value == Py_None ? NULL : Py_NewRef(value);
    if (old == NULL) {
        Py_RETURN_NONE;
    }
    return old;
}

static PyObject *set_callback(PyObject *m, PyObject *value)
{
    DC_UNUSED(m);
    return set_callback_slot(&dc_on_miss, value);
}

static PyObject *set_filter(PyObject *m, PyObject *value)
{
    DC_UNUSED(m);
    return set_callback_slot(&dc_filter, value);
}

static PyObject *set_methods(PyObject *m, PyObject *methods)
{
    DC_UNUSED(m);
    if (!PyDict_Check(methods)) {
        PyErr_Format(PyExc_TypeError, "expected a dict, got %R", methods);
        return NULL;
    }
    Py_XSETREF(dc_methods, Py_NewRef(methods));
    Py_RETURN_NONE;
}

static PyObject *set_timer(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *timer;
    unsigned first;
    return PyArg_ParseTuple(args, "OI:set_timer", &timer, &first) ? (dc_untimed = first, set_callback_slot(&dc_timer, timer))
                                                                  : NULL;
}

static PyObject *set_enabled(PyObject *m, PyObject *value)
{
    DC_UNUSED(m);
    int on = PyObject_IsTrue(value);
    bool was = dc_enabled;
    if (on < 0) {
        return NULL;
    }
    dc_enabled = on;
    dc_stance++;
    return PyBool_FromLong(was);
}

static PyObject *py_enter(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    dc_enter();
    Py_RETURN_NONE;
}

static PyObject *py_leave(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    if (dc_thread.depth == 0) {
        PyErr_SetString(PyExc_RuntimeError, "leave() without enter() in this thread");
        return NULL;
    }
    dc_leave();
    Py_RETURN_NONE;
}

/* In C, since no signal handler can raise between two steps of it. */
static PyObject *run_watched(PyObject *m, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(m);
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "run_watched(fn, watcher)");
        return NULL;
    }
    PyObject *old = dc_thread.watcher;
    dc_thread.watcher = Py_NewRef(args[1]);
    dc_enter();
    PyObject *result = dc_call_paused(args[0], NULL, 0, NULL);
    dc_leave();
    PyObject *heard = dc_thread.watcher == args[1] ? Py_True : Py_False;
    Py_XDECREF(dc_thread.watcher);
    dc_thread.watcher = old;
    return result ? Py_BuildValue("(NO)", result, heard) : NULL;
}

static PyObject *is_active(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    return PyBool_FromLong(dc_thread.depth > 0 && dc_thread.paused == 0);
}

static PyObject *py_current(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    return Py_NewRef(dc_thread.current ? dc_thread.current : Py_None);
}

static PyObject *run_eager(PyObject *m, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(m);
    if (nargs < 1 || nargs > 3 || (nargs > 1 && !PyTuple_Check(args[1])) ||
        (nargs > 2 && args[2] != Py_None && !PyDict_Check(args[2]))) {
        PyErr_SetString(PyExc_TypeError, "run_eager(fn, args: tuple = (), kwargs: dict | None = None)");
        return NULL;
    }
    PyObject *empty = nargs > 1 ? Py_NewRef(args[1]) : PyTuple_New(0);
    if (empty == NULL) {
        return NULL;
    }
    dc_thread.paused++;
    PyObject *result = PyObject_Call(args[0], empty, nargs > 2 && args[2] != Py_None ? args[2] : NULL);
    dc_thread.paused--;
    Py_DECREF(empty);
    return result;
}

/* ---- the cache ---- */

static PyObject *add_entry(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *code, *entry;
    if (!PyArg_ParseTuple(args, "O!O!:add_entry", &PyCode_Type, &code, &Entry_Type, &entry) ||
        dc_cache_add((PyCodeObject *)code, (Entry *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyCodeObject *as_code(PyObject *obj)
{
    if (!PyCode_Check(obj)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, got %R", obj);
        return NULL;
    }
    return (PyCodeObject *)obj;
}

static PyObject *py_entries(PyObject *m, PyObject *arg)
{
    DC_UNUSED(m);
    PyCodeObject *code = as_code(arg);
    return code ? dc_cache_entries(code) : NULL;
}

static PyObject *py_clear(PyObject *m, PyObject *arg)
{
    DC_UNUSED(m);
    PyCodeObject *code = as_code(arg);
    CodeState *state = code ? dc_code_state(code) : NULL;
    if (state) {
        dc_cache_clear(state);
        state->flags = 0;
        state->rest = state->unasked = state->aside = 0;
    }
    return code ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_reset(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    if (dc_cache_reset() < 0) {
        return NULL;
    }
    dc_counters = (Counters){0};
    Py_RETURN_NONE;
}

static PyObject *mark_skip(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *code;
    int recursive = 0, ours = 0;
    if (!PyArg_ParseTuple(args, "O!|pp:mark_skip", &PyCode_Type, &code, &recursive, &ours)) {
        return NULL;
    }
    CodeState *state = dc_code_state_make((PyCodeObject *)code);
    if (state == NULL) {
        return NULL;
    }
    state->flags |= CODE_SKIP | (recursive ? CODE_SKIP_RECURSIVE : 0) | (ours ? CODE_OURS : 0);
    Py_RETURN_NONE;
}

static PyObject *py_rest(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *code;
    unsigned calls;
    int wakes = 0;
    if (!PyArg_ParseTuple(args, "O!I|p:rest", &PyCode_Type, &code, &calls, &wakes)) {
        return NULL;
    }
    CodeState *state = dc_code_state_make((PyCodeObject *)code);
    if (state == NULL) {
        return NULL;
    }
    state->rest = calls;
    state->wakes = wakes;
    Py_RETURN_NONE;
}

static PyObject *py_array_among(PyObject *m, PyObject *values)
{
    DC_UNUSED(m);
    if (!PyTuple_CheckExact(values)) {
        return PyErr_Format(PyExc_TypeError, "array_among: expected a tuple, got %R", values);
    }
    return PyBool_FromLong(dc_array_among(((PyTupleObject *)values)->ob_item, PyTuple_GET_SIZE(values)));
}

static PyObject *py_ask_later(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *code;
    unsigned calls;
    if (!PyArg_ParseTuple(args, "O!I:ask_later", &PyCode_Type, &code, &calls)) {
        return NULL;
    }
    CodeState *state = dc_code_state_make((PyCodeObject *)code);
    if (state == NULL) {
        return NULL;
    }
    state->unasked = calls;
    state->asked_under = dc_stance;
    Py_RETURN_NONE;
}

static PyObject *py_time_later(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    PyObject *code;
    unsigned calls, aside;
    if (!PyArg_ParseTuple(args, "O!II:time_later", &PyCode_Type, &code, &calls, &aside)) {
        return NULL;
    }
    CodeState *state = dc_code_state_make((PyCodeObject *)code);
    if (state == NULL) {
        return NULL;
    }
    state->untimed = calls;
    state->aside = aside;
    Py_RETURN_NONE;
}

static PyObject *py_hits(PyObject *m, PyObject *arg)
{
    DC_UNUSED(m);
    PyCodeObject *code = as_code(arg);
    CodeState *state = code ? dc_code_state(code) : NULL;
    return code ? PyLong_FromUnsignedLongLong(state ? state->hits : 0) : NULL;
}

static PyObject *is_skipped(PyObject *m, PyObject *arg)
{
    DC_UNUSED(m);
    PyCodeObject *code = as_code(arg);
    CodeState *state = code ? dc_code_state(code) : NULL;
    return code ? PyBool_FromLong(state && (state->flags & CODE_SKIP)) : NULL;
}

static PyObject *py_settle(PyObject *m, PyObject *args)
{
    DC_UNUSED(m);
    int checked = 0;
    unsigned after;
    if (!PyArg_ParseTuple(args, "I|p:settle", &after, &checked)) {
        return NULL;
    }
    PyObject *before = Py_BuildValue("IO", dc_settle_after, dc_settle_checked ? Py_True : Py_False);
    dc_settle_after = after;
    dc_settle_checked = checked;
    return before;
}

/* ---- counters ---- */

#define COUNTER(name) {#name, &dc_counters.name}
static const struct { const char *name; unsigned long long *value; } counter_rows[] = {
    COUNTER(calls), COUNTER(outer), COUNTER(hits), COUNTER(misses), COUNTER(direct), COUNTER(code), COUNTER(plain),
    COUNTER(frames), COUNTER(skipped), COUNTER(traced), COUNTER(rejected),
    COUNTER(invalidated), COUNTER(unbound), COUNTER(deep), COUNTER(operations), COUNTER(settled),
};

static PyObject *py_counters(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof counter_rows / sizeof *counter_rows; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(*counter_rows[i].value);
        if (!value || PyDict_SetItemString(dict, counter_rows[i].name, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *after_fork(PyObject *m, PyObject *unused)
{
    DC_UNUSED(m);
    DC_UNUSED(unused);
    dc_after_fork();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set_callback", set_callback, METH_O,
     "set_callback(on_miss) -> the old one\n\non_miss(fn, code, locals) -> Entry | None | True"},
    {"set_filter", set_filter, METH_O, "set_filter(should_capture) -> the old one\n\nAsked once per code."},
    {"set_methods", set_methods, METH_O,
     "set_methods({name: function})\n\nMethods of compiled functions whose own function has no such attribute."},
    {"set_timer", set_timer, METH_VARARGS,
     "set_timer(timer, first) -> the old one\n\ntimer(code, key) -> (tell, plain) | None, asked about the first-th "
     "outermost call of each code, and then as\n`time_later` says: whether to run it as plain Python, and whom to tell: "
     "tell(result, start, operations), the nanoseconds\nof the monotonic clock when it started and how many operations "
     "were in its Graphs. None: it does not matter."},
    {"set_enabled", set_enabled, METH_O, "set_enabled(on) -> was it on\n\nFalse: everything runs as plain Python."},
    {"enter", py_enter, METH_NOARGS, "Frames of this thread are captured until leave(); nests."},
    {"leave", py_leave, METH_NOARGS, "Ends one enter()."},
    {"run_watched", (PyCFunction)(void (*)(void))run_watched, METH_FASTCALL,
     "run_watched(fn, watcher) -> (result, was all heard)\n\nCalls fn with capture paused; watcher(function) -> bool "
     "is told of each function that starts meanwhile; False: no more of its code. Where the C stack was too deep to "
     "watch on, not all was heard."},
    {"is_active", is_active, METH_NOARGS, "Would a frame that starts now in this thread be captured?"},
    {"current", py_current, METH_NOARGS, "The CompiledFunction that this thread runs by bytecode, or None."},
    {"run_eager", (PyCFunction)(void (*)(void))run_eager, METH_FASTCALL,
     "run_eager(fn, args=(), kwargs=None)\n\nCalls fn with capture paused in this thread."},
    {"add_entry", add_entry, METH_VARARGS, "add_entry(code, entry)\n\nPuts an entry first in code's cache."},
    {"entries", py_entries, METH_O, "entries(code) -> list of valid entries, the last hit first"},
    {"clear", py_clear, METH_O, "clear(code)\n\nForgets code's entries, its skip mark and the filter's answer."},
    {"reset", py_reset, METH_NOARGS, "Clears every code object and the counters."},
    {"settle", py_settle, METH_VARARGS,
     "settle(after, checked=False) -> both as they were\n\nGuards that have held so many times are compared by the places "
     "that they have read (see settled.c); 0: never. checked: however few they are,\nand all are asked one by one as well: "
     "the process ends where that differs."},
    {"hits", py_hits, METH_O, "hits(code)\n\nHow many calls the entries of code have served so far."},
    {"ask_later", py_ask_later, METH_VARARGS,
     "ask_later(code, calls)\n\nThe next so many calls of code that no entry serves run as plain Python, unasked, "
     "unless\n`set_enabled` is called before; what they call may be captured."},
    {"time_later", py_time_later, METH_VARARGS,
     "time_later(code, calls, aside)\n\nThe next `aside` outermost calls of code run as plain Python, with all that they "
     "call;\nthe timer is asked about the calls-th one after them; 0: about none."},
    {"rest", py_rest, METH_VARARGS,
     "rest(code, calls, wakes=False)\n\nThe next so many calls of code run as plain Python; what they call may be "
     "captured. wakes: they end with the first that is given an array."},
    {"array_among", py_array_among, METH_O,
     "array_among(values)\n\nWhether an array of JAX's is in a tuple, or near at hand within one of its items."},
    {"mark_skip", mark_skip, METH_VARARGS,
     "mark_skip(code, recursive=False, ours=False)\n\nDo not capture code; recursive: nor what it calls; "
     "ours: not even after a reset."},
    {"is_skipped", is_skipped, METH_O, "is_skipped(code) -> bool"},
    {"counters", py_counters, METH_NOARGS, "What happened since the last reset, as a dict of ints."},
    {"jax_config_token", dc_jax_config_token, METH_VARARGS,
     "jax_config_token(traces=0)\n\nJAX's configuration in this thread now, for a jax_config guard. traces: 0 when "
     "the guard holds in eager code alone, 1 anywhere, 2 while JAX transforms the caller."},
    {"run_segment", (PyCFunction)(void (*)(void))dc_run_segment, METH_FASTCALL,
     "run_segment(segment, state, sent)\n\nsegment(*state, sent); the elements of state are handed over."},
    {"slice_first", (PyCFunction)(void (*)(void))dc_slice_first, METH_FASTCALL,
     "slice_first(start, size)\n\nThe first element of x[start:], where x has `size` of them."},
    {"slice_length", (PyCFunction)(void (*)(void))dc_slice_length, METH_FASTCALL,
     "slice_length(start, stop, step, size)\n\nHow many elements x[start:stop:step] has, where x has `size` of them."},
    {"suspended", dc_suspended, METH_O,
     "suspended(gen) -> (code, has it not started), or None of what runs, has ended, or is no generator"},
    {"suspended_local", dc_suspended_local, METH_VARARGS,
     "suspended_local(gen, slot)\n\nA local, cell or free variable of a suspended generator; slot -1: its globals."},
    {"suspended_delegate", dc_suspended_delegate, METH_O,
     "suspended_delegate(gen)\n\nWhat its `yield from` or `await` waits for."},
    {"set_suspended_local", dc_set_suspended_local, METH_VARARGS, "set_suspended_local(gen, slot, value)"},
    {"set_suspended_delegate", dc_set_suspended_delegate, METH_VARARGS, "set_suspended_delegate(gen, value)"},
    {"unnoticed", dc_unnoticed, METH_VARARGS,
     "unnoticed(obj, unreferable)\n\nWhether nothing tells that it has died; unreferable: nor could anything."},
    {"unhold", dc_unhold, METH_O, "unhold(x)\n\nThe object that a Held holds; anything else itself."},
    {"own_attribute", (PyCFunction)(void (*)(void))dc_own_attribute, METH_FASTCALL,
     "own_attribute(obj, name)\n\nThe instance's (module's, class's) own entry; KeyError: it has none."},
    {"item", (PyCFunction)(void (*)(void))dc_item, METH_FASTCALL, "item(obj, index)\n\nOf a tuple, list or deque."},
    {"key", (PyCFunction)(void (*)(void))dc_key, METH_FASTCALL, "key(obj, key)\n\nWhat a dict has under a key."},
    {"write_attribute", (PyCFunction)(void (*)(void))dc_write_attribute, METH_FASTCALL,
     "write_attribute(obj, name, value)\n\nPast the class' `__setattr__`."},
    {"set_attribute", (PyCFunction)(void (*)(void))dc_set_attribute, METH_FASTCALL,
     "set_attribute(obj, name, value)\n\nThe same of an object that the call has made, exceptions included."},
    {"own_table", dc_own_table, METH_O, "own_table(obj) -> dict\n\nPast the class' `__getattribute__`."},
    {"arrange", dc_arrange, METH_VARARGS,
     "arrange(obj, names)\n\nPuts the attributes of an instance into this order, where they stand in another."},
    {"dict_of", dc_dict_of, METH_VARARGS, "dict_of(keys, values) -> dict\n\nOf two tuples."},
    {"read_bool", dc_read_bool, METH_O, "read_bool(x)\n\nbool(x), soon for a jax array that is a bool."},
    {"read_int", dc_read_int, METH_O, "read_int(x)\n\nint(x), soon for a jax array that is a whole number."},
    {"read_float", dc_read_float, METH_O, "read_float(x)\n\nfloat(x), soon for a jax array that is a float."},
    {"upcoming", dc_upcoming, METH_VARARGS,
     "upcoming(it, n)\n\nThe item that a built-in iterator gives after n others, as (item,); () at its end."},
    {"iterated", dc_iterated, METH_O, "iterated(it)\n\nThe container that a built-in iterator goes through or a mappingproxy shows, or None."},
    {"set_enumerate", dc_set_enumerate, METH_VARARGS, "set_enumerate(e, n)\n\nMakes n the next number of an enumerate."},
    {"throw", dc_throw, METH_O, "throw(error)\n\nRaises error as generators do: its context stays."},
    {"rethrow", dc_rethrow, METH_O, "rethrow(error)\n\nRaises error as it is."},
    {"known_hashes", dc_known_hashes, METH_O,
     "known_hashes(obj) -> list of (key, hash)\n\nWhat a dict or set remembers of its keys; none is asked."},
    {"known_dict", dc_known_dict, METH_VARARGS,
     "known_dict(keys, hashes, values) -> dict\n\nThree tuples; no key is asked for its hash (but where that is\n"
     "None) or compared."},
    {"set_layout", dc_set_layout, METH_O,
     "set_layout(s) -> bytes\n\nWhich places of its table have elements, and where elements were that are gone."},
    {"frozen_as", dc_frozen_as, METH_VARARGS,
     "frozen_as(elements, layout) -> frozenset\n\nA new one of these, laid out as `set_layout` has told of another."},
    {"lay_out", dc_lay_out, METH_VARARGS,
     "lay_out(s, elements, layout) -> s\n\nMakes it a set of these, laid out as `set_layout` has told of another."},
    {"known_set", dc_known_set, METH_VARARGS, "known_set(elements, hashes) -> set\n\nThe same for a set."},
    {"hide_subclass", dc_hide_subclass, METH_O,
     "hide_subclass(cls)\n\nIts bases do not count it among their subclasses any more."},
    {"codes_in", dc_codes_in, METH_O, "codes_in(table) -> list\n\nThe code of each function that a dict holds."},
    {"_after_fork", after_fork, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynacomp.capture._native",
    .m_doc = "The frame hook, guards, the cache of compiled entries, and the callable that jit returns.",
    .m_size = -1,
    .m_methods = methods,
};

static int watch_forks(PyObject *module)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *watch = os ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
    Py_XDECREF(os);
    PyObject *action = watch ? PyObject_GetAttrString(module, "_after_fork") : NULL;
    PyObject *kwargs = action ? Py_BuildValue("{sO}", "after_in_child", action) : NULL;
    PyObject *empty = kwargs ? PyTuple_New(0) : NULL;
    PyObject *done = empty ? PyObject_Call(watch, empty, kwargs) : NULL;
    Py_XDECREF(watch);
    Py_XDECREF(action);
    Py_XDECREF(kwargs);
    Py_XDECREF(empty);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyMODINIT_FUNC PyInit__native(void)
{
    PyTypeObject *const types[] = {&GuardProgram_Type, &Entry_Type, &CompiledFunction_Type, &Tail_Type, &Held_Type};
    if (PyType_Ready(&OnDeath_Type) < 0 || PyType_Ready(&Parts_Type) < 0 || PyType_Ready(&Stand_Type) < 0 || dc_cache_init() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof types / sizeof *types; i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            Py_CLEAR(module);
        }
    }
    dc_run_plainly = PyErr_NewExceptionWithDoc(
        "dynacomp.capture._native.RunPlainly",
        "Raised by a program of an entry before anything has happened: the call runs as plain Python instead.", NULL, NULL);
    if (module && (PyModule_AddObjectRef(module, "RunPlainly", dc_run_plainly) < 0 || watch_forks(module) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
