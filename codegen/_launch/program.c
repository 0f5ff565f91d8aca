/* Program: native code as a Python callable; launch.h says what a call does. */
#include "launch.h"

#include <stdlib.h>
#include <structmember.h>

static int take_arena(call_t *call)
{
    Program *p = call->program;
    call->arena_bytes = call->plan->arena;
    if (!call->arena_bytes)
        return 0;
    for (int k = 0; k < ARENAS; k++) {
        if (p->arenas[k] && p->arena_bytes[k] == call->arena_bytes) {
            call->arena = p->arenas[k];
            p->arenas[k] = NULL;
            return 0;
        }
    }
    call->arena = block_take(call->arena_bytes);
    if (!call->arena)
        no_memory(call->arena_bytes);
    return call->arena ? 0 : -1;
}

static void give_arena(call_t *call)
{
    Program *p = call->program;
    if (!call->arena)
        return;
    for (int k = 0; k < ARENAS; k++) {
        if (!p->arenas[k]) {
            p->arenas[k] = call->arena;
            p->arena_bytes[k] = call->arena_bytes;
            return;
        }
    }
    block_give(call->arena, call->arena_bytes);
}

static int run_native(call_t *call)
{
    Program *p = call->program;
    runtime_t rt = {pool_parallel_for, NULL, p->threads};
    int status;
    Py_BEGIN_ALLOW_THREADS
    if (p->threads > 1) {
        rt.pool = pool_for(p->threads);
        if (!rt.pool)
            rt.threads = 1;
    }
    uint64_t before = flush_subnormals();
    status = p->run(&rt, call->inputs, call->outputs, call->sizes, call->arena, p->consts);
    restore_subnormals(before);
    Py_END_ALLOW_THREADS
    if (status) {
        PyErr_SetString(jax.error, "RESOURCE_EXHAUSTED: Out of memory for the scratch of a compiled kernel.");
        return -1;
    }
    return PyErr_CheckSignals();
}

static int call_prepare(call_t *call, Program *p)
{
    memset(call, 0, offsetof(call_t, stack));
    call->program = p;
    size_t pointers = (size_t)(2 * p->n_inputs + 2 * p->n_outputs);
    void **memory = pointers <= STACK_POINTERS ? call->stack : PyMem_Malloc(pointers * sizeof(void *));
    call->sizes = p->n_sizes <= STACK_SIZES ? call->stack_sizes : PyMem_Malloc((size_t)p->n_sizes * sizeof(int64_t));
    if (memory)
        memset(memory, 0, pointers * sizeof(void *));
    call->inputs = memory;
    call->arrays = PyList_New(p->n_inputs);
    if (!memory || !call->sizes || !call->arrays) {
        PyErr_NoMemory();
        return -1;
    }
    call->outputs = memory + p->n_inputs;
    call->made = (PyObject **)(call->outputs + p->n_outputs);
    call->numbers = (int64_t *)(call->made + p->n_outputs);
    return 0;
}

static void call_clear(call_t *call)
{
    give_arena(call);
    for (Py_ssize_t k = 0; call->made && k < call->program->n_outputs; k++)
        Py_XDECREF(call->made[k]);
    Py_XDECREF(call->arrays);
    Py_XDECREF(call->plan);
    if (call->inputs != call->stack)
        PyMem_Free(call->inputs);
    if (call->sizes != call->stack_sizes)
        PyMem_Free(call->sizes);
}

static PyObject *Program_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Program *p = (Program *)self;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    PyObject *results = NULL;
    call_t call;
    if (nargs != p->n_inputs || (kwnames && PyTuple_GET_SIZE(kwnames)))
        return PyErr_Format(PyExc_TypeError, "this compiled program takes %zd positional arguments, got %zd%s",
                            p->n_inputs, nargs, kwnames ? " and keywords" : "");
    if (call_prepare(&call, p))
        goto done;
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (take_input(&call, i, args[i]))
            goto done;
    call.plan = find_plan(p, call.sizes);
    if (!call.plan || read_pointers(&call) || take_outputs(&call) || take_arena(&call) || run_native(&call))
        goto done;
    results = wrap_outputs(&call);
    if (results && delete_donated(&call))
        Py_CLEAR(results);
done:
    call_clear(&call);
    return results;
}

/* ---- making and unmaking a Program ---- */

static int Program_traverse(PyObject *self, visitproc visit, void *arg)
{
    Program *p = (Program *)self;
    PyObject *held[] = {p->dict, p->keep, p->check, p->convert, p->accept, p->arrange, p->plan, p->stock,
                        p->sharding, p->devices, p->plans};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_VISIT(held[k]);
    return 0;
}
static int Program_clear(PyObject *self)
{
    Program *p = (Program *)self;
    Py_CLEAR(p->dict);
    return 0;
}
static void Program_dealloc(PyObject *self)
{
    Program *p = (Program *)self;
    PyObject_GC_UnTrack(self);
    if (p->weakrefs)
        PyObject_ClearWeakRefs(self);
    for (Py_ssize_t i = 0; p->slots && i < p->n_inputs; i++) {
        Py_XDECREF(p->slots[i].aval);
        Py_XDECREF(p->slots[i].layout);
        Py_XDECREF(p->slots[i].number);
        Py_XDECREF(p->slots[i].sharding);
        Py_XDECREF(p->slots[i].dtype);
        PyMem_Free(p->slots[i].wanted);
        PyMem_Free(p->slots[i].dims);
    }
    for (int k = 0; k < ARENAS; k++)
        if (p->arenas[k])
            block_give(p->arenas[k], p->arena_bytes[k]);
    for (int k = 0; k < SHARDINGS; k++)
        Py_XDECREF(p->known[k]);
    PyMem_Free(p->slots);
    PyMem_Free(p->reads);
    PyMem_Free(p->consts);
    PyObject *held[] = {p->dict, p->check, p->convert, p->accept, p->arrange, p->plan, p->stock,
                        p->sharding, p->devices, p->plans, p->keep};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_XDECREF(held[k]);
    Py_TYPE(self)->tp_free(self);
}

/* What an input was compiled for: its dtype and dimensions. */
static int fill_slot(slot_t *slot, PyObject *input)
{
    PyObject *dims;
    if (!PyArg_ParseTuple(input, "OO!", &slot->dtype, &PyTuple_Type, &dims)) {
        slot->dtype = NULL;
        return -1;
    }
    Py_INCREF(slot->dtype);
    slot->rank = PyTuple_GET_SIZE(dims);
    slot->flat = slot->rank < 2;
    slot->wanted = PyMem_Calloc((size_t)slot->rank + 1, sizeof(int64_t));
    slot->dims = PyMem_Calloc((size_t)slot->rank + 1, sizeof(int64_t));
    if (!slot->wanted || !slot->dims) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t d = 0; d < slot->rank; d++) {
        slot->wanted[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(dims, d));
        slot->empty |= slot->wanted[d] == 0;
    }
    slot->flat |= slot->empty;
    return PyErr_Occurred() ? -1 : 0;
}

static int by_input(const void *a, const void *b)
{
    return ((const reads_t *)a)->input - ((const reads_t *)b)->input;
}

/* Which dimensions the sizes are, those of each input together. */
static int fill_reads(Program *p, PyObject *reads)
{
    for (Py_ssize_t r = 0; r < p->n_sizes; r++) {
        reads_t *read = &p->reads[r];
        read->index = (int)r;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(reads, r), "ii", &read->input, &read->dim))
            return -1;
        if (read->input < 0 || read->input >= p->n_inputs || read->dim < 0 ||
            read->dim >= p->slots[read->input].rank) {
            PyErr_SetString(PyExc_ValueError, "a size is read from a dimension that no input has");
            return -1;
        }
    }
    qsort(p->reads, (size_t)p->n_sizes, sizeof(reads_t), by_input);
    for (Py_ssize_t r = p->n_sizes - 1; r >= 0; r--) {
        slot_t *slot = &p->slots[p->reads[r].input];
        slot->first_read = (int)r;
        slot->n_reads++;
    }
    return 0;
}

static int fill_slots(Program *p, PyObject *inputs, PyObject *reads, PyObject *donated, PyObject *consts)
{
    p->slots = PyMem_Calloc((size_t)p->n_inputs + 1, sizeof(slot_t));
    p->reads = PyMem_Calloc((size_t)p->n_sizes + 1, sizeof(reads_t));
    p->consts = PyMem_Calloc((size_t)p->n_consts + 1, sizeof(void *));
    if (!p->slots || !p->reads || !p->consts) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < p->n_inputs; i++)
        if (fill_slot(&p->slots[i], PyTuple_GET_ITEM(inputs, i)))
            return -1;
    if (fill_reads(p, reads))
        return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(donated); k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyTuple_GET_ITEM(donated, k));
        if (i < 0 || i >= p->n_inputs) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a donated position is not an input");
            return -1;
        }
        p->slots[i].donated = p->donates = 1;
    }
    for (Py_ssize_t k = 0; k < p->n_consts; k++) {
        p->consts[k] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(consts, k));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"run", "shapes", "inputs", "outputs", "dims", "reads", "donated", "consts", "keep",
                            "check", "convert", "accept", "arrange", "plan", "stock", "sharding", "devices", "threads", NULL};
    PyObject *run, *shapes, *inputs, *reads, *donated, *consts;
    if (!jax.array) {
        PyErr_SetString(PyExc_RuntimeError, "bind() must be called before a Program is made");
        return NULL;
    }
    Program *p = (Program *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!nnO!O!O!OOOOOOOOOi", names, &run, &shapes, &PyTuple_Type,
                                     &inputs, &p->n_outputs, &p->n_dims, &PyTuple_Type, &reads, &PyTuple_Type,
                                     &donated, &PyTuple_Type, &consts, &p->keep, &p->check, &p->convert, &p->accept,
                                     &p->arrange, &p->plan, &p->stock, &p->sharding, &p->devices, &p->threads)) {
        p->keep = p->check = p->convert = p->accept = p->arrange = p->plan = p->stock = p->sharding = p->devices = NULL;
        Py_DECREF(p);
        return NULL;
    }
    PyObject *held[] = {p->keep, p->check, p->convert, p->accept, p->arrange, p->plan, p->stock, p->sharding,
                        p->devices};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_INCREF(held[k]);
    p->vectorcall = Program_call;
    p->n_inputs = PyTuple_GET_SIZE(inputs);
    p->n_sizes = PyTuple_GET_SIZE(reads);
    p->n_consts = PyTuple_GET_SIZE(consts);
    p->run = (run_fn)PyLong_AsVoidPtr(run);
    p->shapes = (shapes_fn)PyLong_AsVoidPtr(shapes);
    p->plans = PyList_New(0);
    if (PyErr_Occurred() || !p->plans || fill_slots(p, inputs, reads, donated, consts)) {
        Py_DECREF(p);
        return NULL;
    }
    return (PyObject *)p;
}

static PyMemberDef Program_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Program, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef Program_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.codegen._launch.Program",
    .tp_doc = "Native code, callable on jax Arrays; made by dynacomp.codegen.program.",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = Program_new,
    .tp_dealloc = Program_dealloc,
    .tp_traverse = Program_traverse,
    .tp_clear = Program_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Program, vectorcall),
    .tp_dictoffset = offsetof(Program, dict),
    .tp_weaklistoffset = offsetof(Program, weakrefs),
    .tp_members = Program_members,
    .tp_getset = Program_getset,
};
