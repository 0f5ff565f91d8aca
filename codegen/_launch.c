/* dynacomp.codegen._launch: calls compiled code on jax Arrays, without a Python frame.
 *
 * Program(inputs) -> tuple of jax Arrays:
 *   1. each input's aval is compared by identity with the last one that was checked in its place; a new one
 *      is checked in Python (`check`), which says its dimensions. Sizes come out of these.
 *      An input of two or more dimensions also says how it lies in memory; what is not row-major is laid out
 *      again in Python (`arrange`).
 *   2. the Plan for these sizes (output avals, shapes, bytes, arena) is found, or made in Python (`plan`).
 *   3. all inputs are awaited in one call, their pointers read; these calls raise JAX's own errors.
 *   4. the GIL is released and the native entry runs on the thread pool.
 *   5. outputs, written to Blocks (buffer objects that own their memory), become jax Arrays without a copy.
 * Calls share nothing that changes while the GIL is released: sizes, pointers, arena and Plan are each call's own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

#include "_blocks.h"
#include "_pool.h"

typedef struct {
    void (*parallel_for)(void *, int64_t, int64_t, pool_body, void *);
    void *pool;
    int threads;
} runtime_t;
typedef int (*run_fn)(const runtime_t *, void *const *, void *const *, const int64_t *, void *, const void *const *);
typedef void (*shapes_fn)(const int64_t *, int64_t *);

/* Names and objects of jax that every call uses; set by `bind`. */
static struct {
    PyTypeObject *array;          /* jaxlib's ArrayImpl */
    PyObject *pointer;            /* ArrayImpl.unsafe_buffer_pointer */
    PyObject *await_all;          /* batched_block_until_ready */
    PyObject *put;                /* batched_device_put */
    PyObject *ndarray;            /* numpy.ndarray */
    PyObject *str_aval, *str_sharding, *str_committed, *str_layout, *str_delete;
    PyObject *put_names;          /* ("committed",) */
} jax;

/* ---- Block: memory that numpy views, and jax keeps alive ---- */

typedef struct {
    PyObject_HEAD
    void *data;
    size_t bytes;
} Block;

static int Block_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Block *b = (Block *)self;
    return PyBuffer_FillInfo(view, self, b->data, (Py_ssize_t)b->bytes, 0, flags);
}
static void Block_dealloc(PyObject *self)
{
    Block *b = (Block *)self;
    block_give(b->data, b->bytes);
    Py_TYPE(self)->tp_free(self);
}
static PyBufferProcs Block_procs = {.bf_getbuffer = Block_buffer};
static PyTypeObject BlockType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.codegen._launch.Block",
    .tp_doc = "Memory of one output; a writable buffer of bytes.",
    .tp_basicsize = sizeof(Block),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = Block_dealloc,
    .tp_as_buffer = &Block_procs,
};
static Block *Block_new(size_t bytes)
{
    Block *b = PyObject_New(Block, &BlockType);
    if (!b)
        return NULL;
    b->bytes = bytes;
    b->data = block_take(bytes);
    if (!b->data) {
        Py_DECREF(b);
        return (Block *)PyErr_NoMemory();
    }
    return b;
}

/* ---- Plan: what one set of sizes needs ---- */

typedef struct {
    PyObject *aval, *shape, *dtype;
    size_t bytes;
} output_t;

typedef struct {
    PyObject_VAR_HEAD
    int64_t *sizes;
    Py_ssize_t count;
    size_t arena;
    output_t *outputs;
    Py_ssize_t n_outputs;
} Plan;

static void Plan_dealloc(PyObject *self)
{
    Plan *p = (Plan *)self;
    for (Py_ssize_t k = 0; p->outputs && k < p->n_outputs; k++) {
        Py_XDECREF(p->outputs[k].aval);
        Py_XDECREF(p->outputs[k].shape);
        Py_XDECREF(p->outputs[k].dtype);
    }
    PyMem_Free(p->outputs);
    PyMem_Free(p->sizes);
    Py_TYPE(self)->tp_free(self);
}
static PyTypeObject PlanType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.codegen._launch.Plan",
    .tp_basicsize = sizeof(Plan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = Plan_dealloc,
};

/* ---- Program ---- */

typedef struct {
    PyObject *aval;               /* the last aval that was checked here */
    PyObject *layout;             /* the last layout that was found row-major */
    int64_t *dims;                /* its dimensions that sizes read */
    int donated, flat;            /* flat: fewer than two dimensions, so that only one layout exists */
} slot_t;

typedef struct {
    int input, dim, index;        /* size number `index` is dimension `dim` of input `input` */
} reads_t;

#define ARENAS 8
#define SHARDINGS 8

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dict, *weakrefs;
    run_fn run;
    shapes_fn shapes;
    Py_ssize_t n_inputs, n_sizes, n_outputs, n_dims, n_consts;
    slot_t *slots;
    reads_t *reads;
    const void **consts;
    PyObject *keep;               /* what owns the code and the constants */
    PyObject *check, *convert, *accept, *arrange, *plan;
    PyObject *sharding, *devices; /* of the outputs */
    PyObject *known[SHARDINGS];   /* shardings that were accepted */
    PyObject *plans;              /* list of Plan, the last used first */
    void *arenas[ARENAS];
    size_t arena_bytes[ARENAS];
    int threads, donates;
} Program;

/* What one call holds; everything is released in `call_clear`. */
typedef struct {
    Program *program;
    PyObject *arrays;             /* list of the jax Arrays that are the inputs */
    void **inputs, **outputs;
    int64_t *sizes;
    Block **blocks;
    Plan *plan;
    void *arena;
    size_t arena_bytes;
    int committed;
    void *stack[96];
    int64_t stack_sizes[16];
} call_t;

static int is_known_sharding(Program *p, PyObject *sharding)
{
    for (int k = 0; k < SHARDINGS; k++)
        if (p->known[k] == sharding)
            return 1;
    return 0;
}

/* A sharding seen for the first time: Python says whether it is one CPU device, or raises. */
static int accept_sharding(Program *p, PyObject *sharding, PyObject *x)
{
    static unsigned turn;
    PyObject *ok = PyObject_CallOneArg(p->accept, x);
    if (!ok)
        return -1;
    Py_DECREF(ok);
    Py_INCREF(sharding);
    Py_XSETREF(p->known[turn % SHARDINGS], sharding);
    turn++;
    return 0;
}

/* Slow path of an aval that is not the slot's: check it, learn its dimensions. */
static int check_aval(Program *p, Py_ssize_t i, PyObject *x, PyObject *aval)
{
    PyObject *index = PyLong_FromSsize_t(i);
    PyObject *dims = index ? PyObject_CallFunctionObjArgs(p->check, index, x, NULL) : NULL;
    Py_XDECREF(index);
    if (!dims)
        return -1;
    int64_t *values = p->slots[i].dims;
    for (Py_ssize_t r = 0; r < p->n_sizes; r++) {
        if (p->reads[r].input != i)
            continue;
        PyObject *dim = PySequence_GetItem(dims, p->reads[r].dim);
        values[p->reads[r].index] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
        if (PyErr_Occurred()) {
            Py_DECREF(dims);
            return -1;
        }
    }
    Py_ssize_t rank = PySequence_Size(dims);
    Py_DECREF(dims);
    if (rank < 0)
        return -1;
    p->slots[i].flat = rank < 2;
    Py_CLEAR(p->slots[i].layout);
    Py_INCREF(aval);
    Py_XSETREF(p->slots[i].aval, aval);
    return 0;
}

/* Input i, whose elements need not lie in the order of its dimensions, as an array whose elements do. */
static int take_row_major(call_t *call, Py_ssize_t i, PyObject *x)
{
    slot_t *slot = &call->program->slots[i];
    PyObject *layout = PyObject_GetAttr(x, jax.str_layout);
    if (!layout)
        return -1;
    PyObject *known = Py_XNewRef(slot->layout);
    int same = known ? PyObject_RichCompareBool(layout, known, Py_EQ) : 0;
    Py_XDECREF(known);
    PyObject *arranged = same ? NULL : PyObject_CallOneArg(call->program->arrange, x);
    if (same < 0 || (!same && !arranged)) {
        Py_DECREF(layout);
        Py_XDECREF(arranged);
        return -1;
    }
    if (arranged == x)
        Py_XSETREF(slot->layout, Py_NewRef(layout));
    Py_DECREF(layout);
    if (arranged)
        return PyList_SetItem(call->arrays, i, arranged); /* takes the reference */
    return 0;
}

/* Input i as a checked jax Array in call->arrays. */
static int take_input(call_t *call, Py_ssize_t i, PyObject *given)
{
    Program *p = call->program;
    PyObject *x;
    if (Py_TYPE(given) == jax.array) {
        x = Py_NewRef(given);
    } else {
        PyObject *index = PyLong_FromSsize_t(i);
        x = index ? PyObject_CallFunctionObjArgs(p->convert, index, given, NULL) : NULL;
        Py_XDECREF(index);
        if (!x)
            return -1;
    }
    PyList_SET_ITEM(call->arrays, i, x);
    PyObject *aval = PyObject_GetAttr(x, jax.str_aval);
    if (!aval)
        return -1;
    int status = aval == p->slots[i].aval ? 0 : check_aval(p, i, x, aval);
    Py_DECREF(aval);
    if (status)
        return -1;
    for (Py_ssize_t r = 0; r < p->n_sizes; r++)
        if (p->reads[r].input == i)
            call->sizes[p->reads[r].index] = p->slots[i].dims[p->reads[r].index];
    PyObject *sharding = PyObject_GetAttr(x, jax.str_sharding);
    if (!sharding)
        return -1;
    status = is_known_sharding(p, sharding) ? 0 : accept_sharding(p, sharding, x);
    Py_DECREF(sharding);
    if (status)
        return -1;
    PyObject *committed = PyObject_GetAttr(x, jax.str_committed);
    if (!committed)
        return -1;
    call->committed |= committed == Py_True;
    Py_DECREF(committed);
    return p->slots[i].flat ? 0 : take_row_major(call, i, x);
}

static int read_pointers(call_t *call)
{
    Py_ssize_t n = call->program->n_inputs;
    if (n == 0)
        return 0;
    PyObject *args[2] = {NULL, call->arrays};
    PyObject *done = PyObject_Vectorcall(jax.await_all, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (!done)
        return -1;
    Py_DECREF(done);
    for (Py_ssize_t i = 0; i < n; i++) {
        args[1] = PyList_GET_ITEM(call->arrays, i);
        PyObject *address = PyObject_Vectorcall(jax.pointer, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        if (!address)
            return -1;
        call->inputs[i] = PyLong_AsVoidPtr(address);
        Py_DECREF(address);
        if (!call->inputs[i] && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* The output descriptions that Python made: ((aval, shape, dtype, bytes), ...). */
static int fill_plan(Plan *plan, PyObject *rows)
{
    if (!PyTuple_Check(rows) || PyTuple_GET_SIZE(rows) != plan->n_outputs) {
        PyErr_SetString(PyExc_TypeError, "plan must return one row for each output");
        return -1;
    }
    for (Py_ssize_t k = 0; k < plan->n_outputs; k++) {
        output_t *o = &plan->outputs[k];
        Py_ssize_t bytes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, k), "OO!On", &o->aval, &PyTuple_Type, &o->shape, &o->dtype,
                              &bytes)) {
            o->aval = o->shape = o->dtype = NULL;
            return -1;
        }
        Py_INCREF(o->aval);
        Py_INCREF(o->shape);
        Py_INCREF(o->dtype);
        o->bytes = (size_t)bytes;
    }
    return 0;
}

static Plan *new_plan(Program *p, const int64_t *sizes)
{
    Plan *plan = PyObject_NewVar(Plan, &PlanType, 0);
    int64_t *dims = PyMem_Calloc((size_t)p->n_dims + 1, sizeof *dims);
    PyObject *list = PyTuple_New(p->n_sizes + p->n_dims), *rows = NULL;
    if (!plan || !dims || !list)
        goto error;
    plan->count = p->n_sizes;
    plan->n_outputs = p->n_outputs;
    plan->sizes = PyMem_Calloc((size_t)p->n_sizes + 1, sizeof(int64_t));
    plan->outputs = PyMem_Calloc((size_t)p->n_outputs + 1, sizeof(output_t));
    if (!plan->sizes || !plan->outputs)
        goto error;
    if (p->n_sizes)
        memcpy(plan->sizes, sizes, (size_t)p->n_sizes * sizeof *sizes);
    p->shapes(sizes, dims);
    plan->arena = (size_t)dims[0];
    for (Py_ssize_t k = 0; k < p->n_sizes + p->n_dims; k++) {
        PyObject *dim = PyLong_FromLongLong(k < p->n_sizes ? sizes[k] : dims[k - p->n_sizes + 1]);
        if (!dim)
            goto error;
        PyTuple_SET_ITEM(list, k, dim);
    }
    rows = PyObject_CallOneArg(p->plan, list);
    if (!rows || fill_plan(plan, rows) || PyList_Insert(p->plans, 0, (PyObject *)plan))
        goto error;
    if (PyList_GET_SIZE(p->plans) > 64 && PyList_SetSlice(p->plans, 64, PyList_GET_SIZE(p->plans), NULL))
        goto error;
    Py_DECREF(rows);
    Py_DECREF(list);
    PyMem_Free(dims);
    return plan;
error:
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(rows);
    Py_XDECREF(list);
    PyMem_Free(dims);
    Py_XDECREF(plan);
    return NULL;
}

static Plan *find_plan(Program *p, const int64_t *sizes)
{
    size_t bytes = (size_t)p->n_sizes * sizeof *sizes;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(p->plans); k++) {
        Plan *plan = (Plan *)PyList_GET_ITEM(p->plans, k);
        if (bytes && memcmp(plan->sizes, sizes, bytes))
            continue;
        Py_INCREF(plan);
        if (k == 0)
            return plan;
        if (PyList_SetSlice(p->plans, k, k + 1, NULL) || PyList_Insert(p->plans, 0, (PyObject *)plan)) {
            Py_DECREF(plan);
            return NULL;
        }
        return plan;
    }
    return new_plan(p, sizes);
}

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
        PyErr_NoMemory();
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

static int take_outputs(call_t *call)
{
    for (Py_ssize_t k = 0; k < call->plan->n_outputs; k++) {
        call->blocks[k] = Block_new(call->plan->outputs[k].bytes);
        if (!call->blocks[k])
            return -1;
        call->outputs[k] = call->blocks[k]->data;
    }
    return 0;
}

/* Output k as a jax Array over its Block. */
static PyObject *wrap_output(call_t *call, Py_ssize_t k)
{
    Program *p = call->program;
    output_t *o = &call->plan->outputs[k];
    PyObject *view[4] = {NULL, o->shape, o->dtype, (PyObject *)call->blocks[k]};
    PyObject *array = PyObject_Vectorcall(jax.ndarray, view + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (!array)
        return NULL;
    PyObject *list = PyList_New(1), *result = NULL;
    if (list) {
        PyList_SET_ITEM(list, 0, array);
        PyObject *args[6] = {NULL, o->aval, p->sharding, list, p->devices, call->committed ? Py_True : Py_False};
        result = PyObject_Vectorcall(jax.put, args + 1, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, jax.put_names);
        Py_DECREF(list);
    } else {
        Py_DECREF(array);
    }
    return result;
}

static PyObject *wrap_outputs(call_t *call)
{
    PyObject *results = PyTuple_New(call->plan->n_outputs);
    for (Py_ssize_t k = 0; results && k < call->plan->n_outputs; k++) {
        PyObject *array = wrap_output(call, k);
        if (array)
            PyTuple_SET_ITEM(results, k, array);
        else
            Py_CLEAR(results);
    }
    return results;
}

static int delete_donated(call_t *call)
{
    Program *p = call->program;
    for (Py_ssize_t i = 0; p->donates && i < p->n_inputs; i++) {
        if (!p->slots[i].donated)
            continue;
        PyObject *done = PyObject_CallMethodNoArgs(PyList_GET_ITEM(call->arrays, i), jax.str_delete);
        if (!done)
            return -1;
        Py_DECREF(done);
    }
    return 0;
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
        PyErr_SetString(PyExc_MemoryError, "no memory for the scratch of a compiled kernel");
        return -1;
    }
    return PyErr_CheckSignals();
}

static int call_prepare(call_t *call, Program *p)
{
    memset(call, 0, offsetof(call_t, stack));
    call->program = p;
    size_t pointers = (size_t)(p->n_inputs + 2 * p->n_outputs);
    void **memory = pointers <= 96 ? call->stack : PyMem_Malloc(pointers * sizeof(void *));
    call->sizes = p->n_sizes <= 16 ? call->stack_sizes : PyMem_Malloc((size_t)p->n_sizes * sizeof(int64_t));
    if (memory)
        memset(memory, 0, pointers * sizeof(void *));
    call->inputs = memory;
    call->arrays = PyList_New(p->n_inputs);
    if (!memory || !call->sizes || !call->arrays) {
        PyErr_NoMemory();
        return -1;
    }
    call->outputs = memory + p->n_inputs;
    call->blocks = (Block **)(call->outputs + p->n_outputs);
    return 0;
}

static void call_clear(call_t *call)
{
    give_arena(call);
    for (Py_ssize_t k = 0; call->blocks && k < call->program->n_outputs; k++)
        Py_XDECREF(call->blocks[k]);
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
    PyObject *held[] = {p->dict, p->keep, p->check, p->convert, p->accept, p->arrange, p->plan, p->sharding,
                        p->devices, p->plans};
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
    PyObject *held[] = {p->dict, p->check, p->convert, p->accept, p->arrange, p->plan, p->sharding, p->devices,
                        p->plans, p->keep};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_XDECREF(held[k]);
    Py_TYPE(self)->tp_free(self);
}

static int fill_slots(Program *p, PyObject *reads, PyObject *donated, PyObject *consts)
{
    p->slots = PyMem_Calloc((size_t)p->n_inputs + 1, sizeof(slot_t));
    p->reads = PyMem_Calloc((size_t)p->n_sizes + 1, sizeof(reads_t));
    p->consts = PyMem_Calloc((size_t)p->n_consts + 1, sizeof(void *));
    if (!p->slots || !p->reads || !p->consts) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < p->n_inputs; i++) {
        p->slots[i].dims = PyMem_Calloc((size_t)p->n_sizes + 1, sizeof(int64_t));
        if (!p->slots[i].dims) {
            PyErr_NoMemory();
            return -1;
        }
    }
    for (Py_ssize_t r = 0; r < p->n_sizes; r++) {
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(reads, r), "ii", &p->reads[r].input, &p->reads[r].dim))
            return -1;
        p->reads[r].index = (int)r;
    }
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
                            "check", "convert", "accept", "arrange", "plan", "sharding", "devices", "threads", NULL};
    PyObject *run, *shapes, *reads, *donated, *consts;
    if (!jax.array) {
        PyErr_SetString(PyExc_RuntimeError, "bind() must be called before a Program is made");
        return NULL;
    }
    Program *p = (Program *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOnnnO!O!O!OOOOOOOOi", names, &run, &shapes, &p->n_inputs,
                                     &p->n_outputs, &p->n_dims, &PyTuple_Type, &reads, &PyTuple_Type, &donated,
                                     &PyTuple_Type, &consts, &p->keep, &p->check, &p->convert, &p->accept,
                                     &p->arrange, &p->plan, &p->sharding, &p->devices, &p->threads)) {
        p->keep = p->check = p->convert = p->accept = p->arrange = p->plan = p->sharding = p->devices = NULL;
        Py_DECREF(p);
        return NULL;
    }
    PyObject *held[] = {p->keep, p->check, p->convert, p->accept, p->arrange, p->plan, p->sharding, p->devices};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_INCREF(held[k]);
    p->vectorcall = Program_call;
    p->n_sizes = PyTuple_GET_SIZE(reads);
    p->n_consts = PyTuple_GET_SIZE(consts);
    p->run = (run_fn)PyLong_AsVoidPtr(run);
    p->shapes = (shapes_fn)PyLong_AsVoidPtr(shapes);
    p->plans = PyList_New(0);
    if (PyErr_Occurred() || !p->plans || fill_slots(p, reads, donated, consts)) {
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
static PyTypeObject ProgramType = {
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

/* ---- module ---- */

static PyObject *bind(PyObject *module, PyObject *args)
{
    PyObject *array, *await_all, *put, *ndarray;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyType_Type, &array, &await_all, &put, &ndarray))
        return NULL;
    PyObject *pointer = PyObject_GetAttrString(array, "unsafe_buffer_pointer");
    if (!pointer)
        return NULL;
    Py_INCREF(array);
    Py_XSETREF(jax.array, (PyTypeObject *)array);
    Py_XSETREF(jax.pointer, pointer);
    Py_XSETREF(jax.await_all, Py_NewRef(await_all));
    Py_XSETREF(jax.put, Py_NewRef(put));
    Py_XSETREF(jax.ndarray, Py_NewRef(ndarray));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, "bind(ArrayImpl, batched_block_until_ready, batched_device_put, ndarray)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "dynacomp.codegen._launch",
    .m_doc = "Programs: native code, callable on jax Arrays.", .m_size = -1, .m_methods = methods,
};

static int intern_names(void)
{
    jax.str_aval = PyUnicode_InternFromString("aval");
    jax.str_sharding = PyUnicode_InternFromString("_sharding");
    jax.str_layout = PyUnicode_InternFromString("_pjrt_layout");
    jax.str_committed = PyUnicode_InternFromString("_committed");
    jax.str_delete = PyUnicode_InternFromString("delete");
    jax.put_names = Py_BuildValue("(s)", "committed");
    return jax.str_aval && jax.str_sharding && jax.str_committed && jax.str_layout && jax.str_delete && jax.put_names
               ? 0
               : -1;
}

PyMODINIT_FUNC PyInit__launch(void)
{
    if (PyType_Ready(&BlockType) || PyType_Ready(&PlanType) || PyType_Ready(&ProgramType) || intern_names())
        return NULL;
    if (pthread_atfork(pools_before_fork, pools_after_fork, pools_in_child)) {
        PyErr_SetString(PyExc_OSError, "cannot register fork handlers");
        return NULL;
    }
    PyObject *m = PyModule_Create(&module);
    if (m && PyModule_AddObjectRef(m, "Program", (PyObject *)&ProgramType))
        Py_CLEAR(m);
    return m;
}
