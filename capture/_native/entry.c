/* Entry: guards, and what runs when they hold.
 *
 * A *direct* entry calls a compiled program with the values of its input registers and builds the
 * result from a template: no Python frame. A *code* entry runs a replacement code object that takes
 * the frame's locals, all positional, over the same globals and closure; one that has `inputs` takes the values of these
 * registers in one more argument, a tuple.
 *
 * An entry becomes invalid, and lets go of all that it holds, when an object dies that its guards
 * hold weakly. A call that is under way keeps what it uses.
 */
#include "native.h"

#include <stddef.h>
#include <structmember.h>

void dc_entry_invalidate(Entry *self)
{
    if (!self->valid) {
        return;
    }
    self->valid = false;
    dc_counters.invalidated++;
    Py_INCREF(self); /* letting go may run code that drops the entry itself */
    Template *template_ = self->template_;
    self->template_ = NULL;
    Py_CLEAR(self->program);
    Py_CLEAR(self->fn_code);
    Py_CLEAR(self->info);
    dc_template_free(template_);
    dc_guards_kill(self->guards);
    Py_DECREF(self);
}

/* ---- running ---- */

static PyObject *call_program(PyObject *program, const Entry *e, const Run *run)
{
    if (e->identity_inputs) {
        return PyObject_Vectorcall(program, run->regs, (size_t)e->ninputs, NULL);
    }
    PyObject *small[64], **args = small;
    int n = e->ninputs + e->nsizes, filled = e->ninputs;
    if (n > 64 && (args = PyMem_Malloc(sizeof *args * (size_t)n)) == NULL) {
        return PyErr_NoMemory();
    }
    for (int i = 0; i < e->ninputs; i++) {
        args[i] = run->regs[e->inputs[i]];
    }
    for (; filled < n; filled++) {
        args[filled] = PyLong_FromLongLong(run->sizes[e->sizes[filled - e->ninputs]]);
        if (args[filled] == NULL) {
            break;
        }
    }
    PyObject *result = filled == n ? PyObject_Vectorcall(program, args, (size_t)n, NULL) : NULL;
    for (int i = e->ninputs; i < filled; i++) {
        Py_DECREF(args[i]);
    }
    if (args != small) {
        PyMem_Free(args);
    }
    return result;
}

PyObject *dc_entry_launch(Entry *self, const Run *run)
{
    dc_counters.direct++;
    PyObject *program = Py_NewRef(self->program); /* an entry may die while it runs */
    Template *template_ = dc_template_keep(self->template_);
    dc_thread.paused++;
    PyObject *result = call_program(program, self, run);
    if (result && template_) {
        Py_SETREF(result, dc_template_build(template_, result, run));
    }
    dc_thread.paused--;
    dc_template_free(template_);
    Py_DECREF(program);
    return result;
}

void dc_entry_mark(const Entry *self, bool *wanted)
{
    for (int i = 0; i < self->ninputs; i++) {
        wanted[self->inputs[i]] = true;
    }
    dc_template_mark(self->template_, wanted);
}

/* The values of a code entry's input registers; NULL with no exception: it has none. */
PyObject *dc_entry_inputs(const Entry *self, const Run *run)
{
    PyObject *inputs = self->ninputs ? PyTuple_New(self->ninputs) : NULL;
    for (int i = 0; inputs && i < self->ninputs; i++) {
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(run->regs[self->inputs[i]]));
    }
    return inputs;
}

PyObject *dc_entry_run(Entry *self, const Call *call, PyObject *inputs)
{
    dc_counters.code++;
    PyCodeObject *code = (PyCodeObject *)Py_XNewRef(self->fn_code);
    if (code == NULL) {
        PyErr_SetString(PyExc_SystemError, "dynacomp: a compiled entry died between its guards and its run");
        Py_XDECREF(inputs);
        return NULL;
    }
    bool passes_on = self->returns_tail;
    Call lent = *call;
    if (self->may_restart) {
        lent.owned = NULL;
    }
    PyObject *result = dc_call_code(code, &lent, inputs);
    Py_DECREF(code);
    return passes_on ? result : dc_follow(result);
}

PyObject *dc_run_plainly;

/* Whether a program gave up before anything had happened, so that the call runs as plain Python instead; if so, the
 * exception by which it said that is gone. */
bool dc_is_to_run_plainly(const PyObject *result)
{
    if (result || !PyErr_ExceptionMatches(dc_run_plainly)) {
        return false;
    }
    PyErr_Clear();
    return true;
}

/* ---- the Python object ---- */

static int parse_indices(PyObject *seq, const GuardProgram *guards, char kind, int **out, int *count)
{
    PyObject *items = PySequence_Tuple(seq);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    *out = PyMem_Calloc((size_t)n + 1, sizeof(int));
    int bad = *out == NULL;
    for (Py_ssize_t i = 0; i < n && !bad; i++) {
        long index = PyLong_AsLong(PyTuple_GET_ITEM(items, i));
        bad = index < 0 || index >= MAX_REGISTERS || !dc_guards_write(guards, kind, (int)index);
        (*out)[i] = (int)index;
    }
    *count = (int)n;
    if (bad && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "Entry: its guards do not write all the %s in %R",
                     kind == 'd' ? "registers" : "sizes", seq);
    }
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static bool is_identity(const Entry *e)
{
    for (int i = 0; i < e->ninputs; i++) {
        if (e->inputs[i] != i) {
            return false;
        }
    }
    return e->nsizes == 0;
}

static int adopt_guards(Entry *self, PyObject *guards)
{
    if (((GuardProgram *)guards)->owner) {
        PyErr_SetString(PyExc_ValueError, "Entry: these guards already belong to another entry");
        return -1;
    }
    self->guards = (GuardProgram *)Py_NewRef(guards);
    self->guards->owner = self;
    self->valid = !self->guards->dead;
    return 0;
}

static int adopt_code(Entry *self, PyObject *fn_code)
{
    self->fn_code = (PyCodeObject *)Py_NewRef(fn_code);
    CodeState *state = dc_code_state_make(self->fn_code);
    if (state == NULL) {
        return -1;
    }
    state->flags |= CODE_SKIP | CODE_OURS; /* what we made is never captured again */
    return 0;
}

static int entry_parse(Entry *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "fn_code", "program", "inputs", "sizes", "template", "key", "info", "returns_tail",
                            "may_restart", "operations", NULL};
    PyObject *guards, *fn_code = Py_None, *program = Py_None, *inputs = NULL, *sizes = NULL;
    PyObject *template_ = Py_None, *key = Py_None, *info = Py_None;
    int returns_tail = 0, may_restart = 0;
    unsigned operations = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OOOOOOOppI:Entry", names, &GuardProgram_Type, &guards,
                                     &fn_code, &program, &inputs, &sizes, &template_, &key, &info,
                                     &returns_tail, &may_restart, &operations)) {
        return -1;
    }
    self->returns_tail = returns_tail;
    self->may_restart = may_restart;
    self->operations = operations;
    if ((fn_code == Py_None) == (program == Py_None) || (fn_code != Py_None && !PyCode_Check(fn_code))) {
        PyErr_SetString(PyExc_TypeError, "Entry: give either a program or a code object to run");
        return -1;
    }
    if (adopt_guards(self, guards) < 0) {
        return -1;
    }
    self->key = key == Py_None ? NULL : Py_NewRef(key);
    self->info = Py_NewRef(info);
    if ((inputs && parse_indices(inputs, self->guards, 'd', &self->inputs, &self->ninputs) < 0) ||
        (sizes && parse_indices(sizes, self->guards, 'z', &self->sizes, &self->nsizes) < 0)) {
        return -1;
    }
    if (fn_code != Py_None) {
        return adopt_code(self, fn_code);
    }
    self->program = Py_NewRef(program);
    self->identity_inputs = is_identity(self);
    if (template_ != Py_None) {
        self->template_ = dc_template_parse(template_, self->guards->nregs);
        return self->template_ ? 0 : -1;
    }
    return 0;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self && entry_parse(self, args, kwargs) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->guards);
    Py_VISIT(self->program);
    Py_VISIT(self->fn_code);
    Py_VISIT(self->key);
    Py_VISIT(self->info);
    return dc_template_traverse(self->template_, visit, arg);
}

static int entry_clear(Entry *self)
{
    if (self->guards) {
        self->guards->owner = NULL;
    }
    self->valid = false;
    Template *template_ = self->template_;
    self->template_ = NULL;
    Py_CLEAR(self->guards);
    Py_CLEAR(self->program);
    Py_CLEAR(self->fn_code);
    Py_CLEAR(self->key);
    Py_CLEAR(self->info);
    dc_template_free(template_);
    return 0;
}

static void entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weaklist) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    entry_clear(self);
    PyMem_Free(self->inputs);
    PyMem_Free(self->sizes);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *get_hits(Entry *self, void *closure)
{
    DC_UNUSED(closure);
    return PyLong_FromUnsignedLongLong(self->hits);
}

static PyObject *get_valid(Entry *self, void *closure)
{
    DC_UNUSED(closure);
    return PyBool_FromLong(self->valid);
}

static PyGetSetDef entry_getset[] = {
    {"hits", (getter)get_hits, NULL, "How often this entry has run.", NULL},
    {"valid", (getter)get_valid, NULL, "False once something that the guards hold weakly has died.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef entry_members[] = {
    {"guards", T_OBJECT, offsetof(Entry, guards), READONLY, "The GuardProgram."},
    {"program", T_OBJECT, offsetof(Entry, program), READONLY, "What a direct entry calls, or None."},
    {"fn_code", T_OBJECT, offsetof(Entry, fn_code), READONLY, "What a code entry runs, or None."},
    {"key", T_OBJECT, offsetof(Entry, key), READONLY, "The options that it was compiled for."},
    {"info", T_OBJECT, offsetof(Entry, info), 0, "Whatever Python attaches."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.Entry",
    .tp_doc = "Entry(guards, fn_code=None, program=None, inputs=(), sizes=(), template=None, key=None, "
              "info=None, returns_tail=False, may_restart=False)\n\nWhat to run in place of a frame when its guards hold.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_weaklistoffset = offsetof(Entry, weaklist),
    .tp_getset = entry_getset,
    .tp_members = entry_members,
};
