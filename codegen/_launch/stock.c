/* The stock: jax Arrays made ahead, many at a time, for small outputs.
 *
 * JAX takes 6 to 8 µs to wrap one buffer of ours, but 2 µs for each of many that one XLA execution makes. So
 * small outputs are Arrays that `refill` makes, for several calls at once, and that nobody has seen when
 * the native code fills them. All they are made of is one custom call, `dc_addresses`, which writes nothing
 * but where they lie. A stock costs a compilation (20 ms, once for outputs of the same kinds): a Plan gets one
 * once it has shown to be worth it. Large outputs are Blocks, whose pages are used again. */
#include "launch.h"

/* Small outputs of a Plan before it gets a stock: few for the first, for most programs have few that matter; more
 * for each that was opened, so that a program of many Plans doesn't spend its time on stocks. */
enum { STOCK_SOON = 250, STOCK_LATE = 1000, STOCK_STEP = 64 };
static Py_ssize_t stocks_opened;

static Py_ssize_t stock_after(void)
{
    Py_ssize_t after = STOCK_SOON + STOCK_STEP * stocks_opened;
    return after < STOCK_LATE ? after : STOCK_LATE;
}

/* ---- the custom call: the head of XLA's FFI, a C interface that only grows at its ends ---- */

typedef struct {
    size_t struct_size;
    void *extension;
    int major, minor;
} ffi_version;
typedef struct {
    size_t struct_size;
    ffi_version version;
} ffi_metadata;
typedef struct ffi_extension {
    size_t struct_size;
    int type;
    struct ffi_extension *next;
    ffi_metadata *metadata;       /* where type is FFI_METADATA */
} ffi_extension;
typedef struct {
    size_t struct_size;
    void *extension;
    int dtype;
    void *data;
} ffi_buffer;
typedef struct {
    size_t struct_size;
    void *extension;
    int64_t size;
    int *types;
    ffi_buffer **values;
} ffi_values;
typedef struct {
    size_t struct_size;
    ffi_extension *extension;
    const void *api;
    void *context;
    int stage;
    ffi_values args, results;
} ffi_frame;
enum { FFI_METADATA = 1, FFI_EXECUTE = 3 };

/* Its results: any buffers, then one with room for 8 bytes for each, which gets their addresses. */
void *dc_addresses(void *call)
{
    const ffi_frame *frame = call;
    if (frame->extension && frame->extension->type == FFI_METADATA) {
        frame->extension->metadata->version.major = 0;
        frame->extension->metadata->version.minor = 1;
        return NULL;
    }
    if (frame->stage != FFI_EXECUTE)
        return NULL;
    uint64_t *table = frame->results.values[frame->results.size - 1]->data;
    for (int64_t k = 0; k + 1 < frame->results.size; k++)
        table[k] = (uint64_t)(uintptr_t)frame->results.values[k]->data;
    return NULL; /* no error */
}

/* ---- opening, filling, taking ---- */

static int open_stock(Program *p, Plan *plan)
{
    PyObject *wanted = PyTuple_New(plan->n_stocked);
    for (Py_ssize_t k = 0, at = 0; wanted && k < plan->n_outputs; k++)
        if (plan->outputs[k].stocked)
            PyTuple_SET_ITEM(wanted, at++, Py_NewRef(plan->outputs[k].aval));
    PyObject *refill = wanted ? PyObject_CallOneArg(p->stock, wanted) : NULL;
    Py_XDECREF(wanted);
    if (!refill)
        return -1;
    Py_XSETREF(plan->refill, refill); /* another thread may have been here meanwhile */
    stocks_opened++;
    return 0;
}

void stock_clear(stock_t *stock)
{
    stock_t old = *stock;
    *stock = (stock_t){NULL, NULL, NULL};
    Py_XDECREF(old.arrays);
    Py_XDECREF(old.table);
}

static int refill_stock(Plan *plan, int committed)
{
    PyObject *made = PyObject_CallOneArg(plan->refill, committed ? Py_True : Py_False);
    stock_t fresh = {NULL, NULL, NULL};
    void *addresses = NULL;
    if (!made)
        return -1;
    if (!PyArg_ParseTuple(made, "O!O", &PyList_Type, &fresh.arrays, &fresh.table) ||
        read_pointer(fresh.table, &addresses)) {
        Py_DECREF(made);
        return -1;
    }
    if (PyList_GET_SIZE(fresh.arrays) < plan->n_stocked) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_TypeError, "refill must return arrays for all stocked outputs");
        return -1;
    }
    fresh.addresses = addresses;
    Py_INCREF(fresh.arrays);
    Py_INCREF(fresh.table);
    Py_DECREF(made);
    stock_t old = plan->stock[committed];
    plan->stock[committed] = fresh;
    stock_clear(&old);
    return 0;
}

/* Makes sure that the stock holds one call's outputs: 1, 0 where there is no stock, or -1. */
static int fill_stock(call_t *call)
{
    Plan *plan = call->plan;
    const stock_t *stock = &plan->stock[call->committed];
    if (pools_forked || (!plan->refill && (plan->written += plan->n_stocked) < stock_after()))
        return 0;
    if (!plan->refill && open_stock(call->program, plan))
        return -1;
    if (plan->refill == Py_None)
        return 0;
    /* Other threads take too, while a refill runs: what counts is what is there when the GIL is ours. */
    while (!stock->arrays || PyList_GET_SIZE(stock->arrays) < plan->n_stocked)
        if (refill_stock(plan, call->committed))
            return -1;
    return 1;
}

/* The call's small outputs, where there is a stock. */
int take_stock(call_t *call)
{
    Plan *plan = call->plan;
    int filled = plan->n_stocked ? fill_stock(call) : 0;
    if (filled <= 0)
        return filled;
    const stock_t *stock = &plan->stock[call->committed];
    Py_ssize_t from = PyList_GET_SIZE(stock->arrays) - plan->n_stocked, at = from;
    for (Py_ssize_t k = 0; k < plan->n_outputs; k++) {
        if (plan->outputs[k].stocked) {
            call->outputs[k] = (void *)(uintptr_t)stock->addresses[at];
            call->made[k] = Py_NewRef(PyList_GET_ITEM(stock->arrays, at++));
        }
    }
    return PyList_SetSlice(stock->arrays, from, PyList_GET_SIZE(stock->arrays), NULL);
}
