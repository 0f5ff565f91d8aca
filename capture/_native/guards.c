/* GuardProgram: the guards of one entry, as steps over registers.
 *
 * A step either reads a value into a register (`("local", 0, 1)`: register 0 gets argument 1) or
 * checks one (`("is_type", 0, dict)`). Kinds of steps are rows of the tables in guard_*.c; this
 * file parses them and evaluates them. Evaluation may be interrupted by a garbage collection that
 * runs anything: what is being evaluated is let go of only when it has ended.
 */
#include "native.h"

#include <string.h>

/* ---- parsing ---- */

static const StepKind *const kind_tables[] = {dc_value_kinds, dc_check_kinds, dc_array_kinds,
                                              dc_size_kinds,  dc_number_kinds, dc_function_kinds,
                                              dc_registry_kinds, dc_suspended_kinds, dc_iterator_kinds,
                                              dc_unnoticed_kinds, dc_within_kinds, dc_layout_kinds};

static const StepKind *find_kind(PyObject *name)
{
    for (size_t t = 0; t < sizeof kind_tables / sizeof *kind_tables; t++) {
        for (const StepKind *kind = kind_tables[t]; kind->name; kind++) {
            if (PyUnicode_CompareWithASCIIString(name, kind->name) == 0) {
                return kind;
            }
        }
    }
    return NULL;
}

static int parse_index(PyObject *value, int *index, int *count)
{
    long i = PyLong_Check(value) ? PyLong_AsLong(value) : -1;
    if (i < 0 || i >= MAX_REGISTERS) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "a register is an int below %d, got %R", MAX_REGISTERS, value);
        }
        return -1;
    }
    *index = (int)i;
    *count = *index >= *count ? *index + 1 : *count;
    return 0;
}

static int parse_source(PyObject *value, int *index, Builder *builder)
{
    int count = 0;
    if (parse_index(value, index, &count) < 0) {
        return -1;
    }
    if (!builder->written[*index]) {
        PyErr_Format(PyExc_ValueError, "register %d is read before a step writes it", *index);
        return -1;
    }
    return 0;
}

static int parse_name(Step *step, int slot, PyObject *value)
{
    if (!PyUnicode_CheckExact(value)) {
        PyErr_Format(PyExc_TypeError, "an attribute's name is a str, got %R", value);
        return -1;
    }
    step->refs[slot] = Py_NewRef(value);
    PyUnicode_InternInPlace(&step->refs[slot]);
    step->hash = PyObject_Hash(step->refs[slot]);
    return 0;
}

static int parse_operands(Step *step, PyObject *spec, Builder *builder)
{
    int slot = 0;
    Py_ssize_t at = 1;
    for (const char *o = step->kind->operands; *o; o++, at++) {
        if (at >= PyTuple_GET_SIZE(spec)) {
            if (*o == 'O' || *o == 'N') {
                continue;
            }
            PyErr_Format(PyExc_TypeError, "guard step %R: too few operands", spec);
            return -1;
        }
        PyObject *value = PyTuple_GET_ITEM(spec, at);
        int bad = 0;
        switch (*o) {
        case 'd': bad = parse_index(value, &step->dst, &builder->nregs); break;
        case 's': bad = parse_source(value, &step->src, builder); break;
        case 'z': bad = parse_index(value, &step->dst, &builder->nsizes); break;
        case 'u': bad = parse_name(step, slot++, value); break;
        case 'o':
        case 'O': step->refs[slot++] = Py_NewRef(value); break;
        default: step->n = PyNumber_AsSsize_t(value, PyExc_OverflowError);
                 bad = step->n == -1 && PyErr_Occurred();
        }
        if (bad) {
            return -1;
        }
    }
    if (at < PyTuple_GET_SIZE(spec)) {
        PyErr_Format(PyExc_TypeError, "guard step %R: too many operands", spec);
        return -1;
    }
    bool *marks = *step->kind->operands == 'z' ? builder->sized : builder->written;
    if (*step->kind->operands == 'd' || *step->kind->operands == 'z') {
        marks[step->dst] = true;
    }
    return 0;
}

static int parse_step(Step *step, PyObject *spec, Builder *builder)
{
    if (!PyTuple_CheckExact(spec) || PyTuple_GET_SIZE(spec) == 0 ||
        !PyUnicode_Check(PyTuple_GET_ITEM(spec, 0))) {
        PyErr_Format(PyExc_TypeError, "a guard step is a tuple that begins with its kind, got %R", spec);
        return -1;
    }
    step->kind = find_kind(PyTuple_GET_ITEM(spec, 0));
    if (step->kind == NULL) {
        PyErr_Format(PyExc_ValueError, "there is no kind of guard step named %R", PyTuple_GET_ITEM(spec, 0));
        return -1;
    }
    step->eval = step->kind->eval;
    step->at = -1;
    if (parse_operands(step, spec, builder) < 0) {
        return -1;
    }
    return step->kind->finish ? step->kind->finish(step, builder) : 0;
}

/* ---- evaluation ---- */

void dc_set_register(Run *run, int dst, PyObject *owned)
{
    Py_XSETREF(run->regs[dst], owned);
}

bool dc_run_init(Run *run, const GuardProgram *guards)
{
    run->nregs = guards->nregs;
    run->regs = run->inline_regs;
    run->sizes = run->inline_sizes;
    if (guards->nregs > RUN_INLINE_REGS || guards->nsizes > RUN_INLINE_SIZES) {
        size_t bytes = sizeof(PyObject *) * (size_t)guards->nregs + sizeof(int64_t) * (size_t)guards->nsizes;
        run->regs = PyMem_Malloc(bytes);
        if (run->regs == NULL) {
            run->regs = run->inline_regs;
            run->nregs = 0;
            return false;
        }
        run->sizes = (int64_t *)(run->regs + guards->nregs);
    }
    memset(run->regs, 0, sizeof(PyObject *) * (size_t)guards->nregs);
    return true;
}

void dc_run_clear(Run *run)
{
    for (int i = 0; i < run->nregs; i++) {
        Py_CLEAR(run->regs[i]);
    }
    run->nregs = 0;
    if (run->regs != run->inline_regs) {
        PyMem_Free(run->regs);
        run->regs = run->inline_regs;
    }
}

static void drop_refs(GuardProgram *guards)
{
    dc_unsettle(guards);
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        for (int r = 0; r < STEP_REFS; r++) {
            Py_CLEAR(guards->steps[i].refs[r]);
        }
    }
}

void dc_guards_kill(GuardProgram *guards)
{
    guards->dead = true;
    if (guards->running == 0) {
        drop_refs(guards);
    }
}

static Py_ssize_t first_failure(GuardProgram *guards, const Call *call, Run *run)
{
    Step *step = guards->steps;
    for (Py_ssize_t i = 0; i < guards->nsteps; i++, step++) {
        if (!step->eval(step, run, call)) {
            return i;
        }
    }
    return guards->dead ? 0 : -1;
}

static Py_ssize_t evaluate(GuardProgram *guards, const Call *call, Run *run, bool all)
{
    if (guards->dead || !dc_run_init(run, guards)) {
        run->nregs = 0;
        run->regs = run->inline_regs;
        return 0;
    }
    guards->running++;
    Py_ssize_t failed = all ? UNSURE : dc_settled_eval(guards, call, run);
    if (failed == UNSURE) {
        failed = first_failure(guards, call, run);
        if (failed == -1 && !all && guards->running == 1) {
            dc_settle(guards, run);
        }
    }
    if (--guards->running == 0 && guards->dead) {
        drop_refs(guards); /* something died while we looked */
    }
    if (failed != -1) {
        dc_run_clear(run);
    }
    return failed;
}

/* -1 where all hold: the registers that the entry takes then live until dc_run_clear. Else the index of a failing step;
 * with an exception pending where one came from outside (see guard_numbers.c). */
Py_ssize_t dc_guards_eval(GuardProgram *guards, const Call *call, Run *run) { return evaluate(guards, call, run, false); }

/* The same with all registers, and the first step that fails. */
Py_ssize_t dc_guards_ask(GuardProgram *guards, const Call *call, Run *run) { return evaluate(guards, call, run, true); }

bool dc_guards_write(const GuardProgram *guards, char kind, int dst)
{
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        if (*guards->steps[i].kind->operands == kind && guards->steps[i].dst == dst) {
            return true;
        }
    }
    return false;
}

/* ---- the Python object ---- */

static int guards_traverse(GuardProgram *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->nsteps; i++) {
        for (int r = 0; r < STEP_REFS; r++) {
            Py_VISIT(self->steps[i].refs[r]);
        }
    }
    Py_VISIT(self->on_death);
    return 0;
}

static int guards_clear(GuardProgram *self)
{
    dc_guards_kill(self);
    return 0;
}

static void guards_dealloc(GuardProgram *self)
{
    PyObject_GC_UnTrack(self);
    dc_on_death_forget(self->on_death);
    guards_clear(self);
    for (Py_ssize_t i = 0; i < self->nsteps; i++) {
        PyMem_Free(self->steps[i].ext);
    }
    PyMem_Free(self->steps);
    Py_CLEAR(self->on_death);
    PyObject_GC_Del(self);
}

static PyObject *guards_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", NULL};
    PyObject *steps;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:GuardProgram", names, &steps)) {
        return NULL;
    }
    steps = PySequence_Tuple(steps);
    GuardProgram *self = steps ? PyObject_GC_New(GuardProgram, type) : NULL;
    if (self == NULL) {
        Py_XDECREF(steps);
        return NULL;
    }
    self->nsteps = 0;
    self->nregs = self->nsizes = 0;
    self->owner = NULL;
    self->dead = false;
    self->running = 0;
    self->settled = NULL;
    self->held = 0;
    self->rest = 0;
    Py_ssize_t n = PyTuple_GET_SIZE(steps);
    self->steps = PyMem_Calloc((size_t)n + 1, sizeof(Step));
    self->on_death = dc_on_death_new(self);
    PyObject_GC_Track(self);
    bool ok = self->steps && self->on_death;
    if (self->steps == NULL) {
        PyErr_NoMemory();
    }
    Builder builder = {.nregs = 0, .on_death = self->on_death};
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        self->nsteps = i + 1;
        ok = parse_step(&self->steps[i], PyTuple_GET_ITEM(steps, i), &builder) == 0;
    }
    self->nregs = builder.nregs;
    self->nsizes = builder.nsizes;
    Py_DECREF(steps);
    if (!ok) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

PyFunctionObject *dc_function_of(PyObject *callable, PyObject **self)
{
    *self = NULL;
    if (PyMethod_Check(callable) && PyFunction_Check(PyMethod_GET_FUNCTION(callable))) {
        *self = PyMethod_GET_SELF(callable);
        return (PyFunctionObject *)PyMethod_GET_FUNCTION(callable);
    }
    if (PyFunction_Check(callable)) {
        return (PyFunctionObject *)callable;
    }
    PyErr_Format(PyExc_TypeError, "expected a Python function or a bound method, got %R", callable);
    return NULL;
}

static int parse_call(PyObject *args, Call *call)
{
    PyObject *fn, *locals, *self;
    if (!PyArg_ParseTuple(args, "OO!", &fn, &PyTuple_Type, &locals)) {
        return -1;
    }
    call->func = dc_function_of(fn, &self);
    call->locals = ((PyTupleObject *)locals)->ob_item;
    call->nlocals = PyTuple_GET_SIZE(locals);
    return call->func ? 0 : -1;
}

static PyObject *guards_check(GuardProgram *self, PyObject *args)
{
    Call call;
    Run run;
    if (parse_call(args, &call) < 0) {
        return NULL;
    }
    Py_ssize_t failed = dc_guards_ask(self, &call, &run);
    dc_run_clear(&run);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(failed);
}

static PyObject *guards_registers(GuardProgram *self, PyObject *args)
{
    Call call;
    Run run;
    if (parse_call(args, &call) < 0) {
        return NULL;
    }
    if (dc_guards_ask(self, &call, &run) != -1) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    PyObject *list = PyList_New(run.nregs);
    for (int i = 0; list && i < run.nregs; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(run.regs[i] ? run.regs[i] : Py_None));
    }
    dc_run_clear(&run);
    return list;
}

static Py_ssize_t guards_length(GuardProgram *self) { return self->nsteps; }

static PyObject *guards_get_valid(GuardProgram *self, void *closure)
{
    DC_UNUSED(closure);
    return PyBool_FromLong(!self->dead);
}

static PyMethodDef guards_methods[] = {
    {"check", (PyCFunction)guards_check, METH_VARARGS,
     "check(fn, locals) -> int\n\nThe index of the first step that fails, or -1 where all hold."},
    {"registers", (PyCFunction)guards_registers, METH_VARARGS,
     "registers(fn, locals) -> list | None\n\nThe registers after all steps, or None where one fails."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef guards_getset[] = {
    {"valid", (getter)guards_get_valid, NULL, "False once an object that was held weakly has died.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PySequenceMethods guards_sequence = {.sq_length = (lenfunc)guards_length};

PyTypeObject GuardProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.GuardProgram",
    .tp_doc = "GuardProgram(steps)\n\nGuards as steps over registers, evaluated in C without user code.",
    .tp_basicsize = sizeof(GuardProgram),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guards_new,
    .tp_dealloc = (destructor)guards_dealloc,
    .tp_traverse = (traverseproc)guards_traverse,
    .tp_clear = (inquiry)guards_clear,
    .tp_methods = guards_methods,
    .tp_getset = guards_getset,
    .tp_as_sequence = &guards_sequence,
};
