/* The shared picture of the extension `dynacomp.codegen._launch`: compiled code, called on jax Arrays.
 *
 *   Program   native code as a Python callable                                        program.c
 *   Plan      what one set of sizes needs: output avals, bytes, the arena             plan.c
 *   call_t    what one call holds: input pointers, outputs, arena
 *   Block     memory of one output, wrapped as a jax Array without a copy             blocks.c
 *   stock_t   jax Arrays made ahead, many at a time, for small outputs                stock.c
 *
 * A call, in this order (program.c):
 *   1. each input's aval is compared by identity with the last one that was checked in its place; a new one
 *      by its dtype and dimensions, out of which the sizes come. What doesn't fit here, Python says (`check`).
 *                                                                                                  inputs.c
 *   2. the Plan for these sizes is found, or made in Python (`plan`).                               plan.c
 *   3. all inputs are awaited in one call, which raises JAX's own errors; their layouts and pointers are read.
 *   4. the GIL is released and the native entry runs on the thread pool.                            pool.c
 *   5. outputs become jax Arrays without a copy.                                                    outputs.c
 * Everything but 4 runs under the GIL. Calls share nothing that changes while it is released: sizes, pointers,
 * arena and Plan are each call's own. */
#ifndef DYNACOMP_LAUNCH_H
#define DYNACOMP_LAUNCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

/* What every call uses of jax; set by `bind`. */
typedef struct {
    PyTypeObject *array;          /* jaxlib's ArrayImpl */
    PyObject *aval, *sharding, *committed, *layout, *pointer, *delete; /* its properties and methods: one argument */
    PyObject *await_all;          /* batched_block_until_ready */
    PyObject *put;                /* batched_device_put */
    PyObject *put_names;          /* ("committed",) */
    PyObject *ndarray;            /* numpy.ndarray */
    PyObject *shape, *dtype;      /* the names of these attributes of an aval */
    PyObject *device;             /* the name of the attribute of the sharding of one device */
    PyObject *error;              /* JaxRuntimeError */
} jax_t;
extern jax_t jax;

static inline PyObject *ask(PyObject *function, PyObject *array)
{
    PyObject *args[2] = {NULL, array};
    return PyObject_Vectorcall(function, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* ---- memory ---- */

typedef struct {
    PyObject_HEAD
    void *data;
    size_t bytes;
} Block;
extern PyTypeObject BlockType;
Block *Block_new(size_t bytes);
void *no_memory(size_t bytes);              /* NULL, with JAX's exception: a program may look for it, and halve its batch */
void *block_take(size_t bytes);             /* 64-byte aligned; NULL without memory */
void block_give(void *p, size_t bytes);     /* `bytes` as it was asked for */

/* ---- threads ---- */

typedef void (*pool_body)(void *ctx, int64_t begin, int64_t end);
typedef struct pool pool_t;
pool_t *pool_for(int threads);              /* NULL without memory */
void pool_parallel_for(void *pool, int64_t n, int64_t grain, pool_body body, void *ctx);
int pools_init(void);
typedef struct places places_t;
places_t *places_new(void);                 /* NULL without memory */
void places_free(places_t *p);
int places_begin(places_t *p, uint64_t job); /* this thread begins one; 0 where another has begun it on the same CPU */
int places_self(void);                      /* this thread, for `places_move` */
void places_move(places_t *p, int thread, uint64_t job); /* to a CPU on which nobody has begun it, if there is one */
extern int pools_forked;                    /* in a child XLA has no threads either */
uint64_t flush_subnormals(void);            /* as XLA does on a CPU; returns what was set before */
void restore_subnormals(uint64_t before);

/* ---- what the compiler makes ---- */

typedef struct {
    void (*parallel_for)(void *, int64_t, int64_t, pool_body, void *);
    void *pool;
    int threads;
} runtime_t;
typedef int (*run_fn)(const runtime_t *, void *const *, void *const *, const int64_t *, void *, const void *const *);
typedef void (*shapes_fn)(const int64_t *, int64_t *);

/* ---- a Plan ---- */

typedef struct {
    PyObject *arrays;             /* list of jax Arrays: those of n_stocked outputs, again and again */
    PyObject *table;              /* the Array that holds their addresses */
    const uint64_t *addresses;
} stock_t;

typedef struct {
    PyObject *aval, *shape, *dtype;
    size_t bytes;
    int stocked;                  /* small: taken from the stock, once there is one */
} output_t;

typedef struct {
    PyObject_VAR_HEAD
    int64_t *sizes;
    Py_ssize_t count;
    size_t arena;
    output_t *outputs;
    Py_ssize_t n_outputs, n_stocked;
    PyObject *refill;             /* refill(committed) -> (list of fresh Arrays, their addresses); None: no stock */
    stock_t stock[2];             /* by committed */
    long long written;            /* small outputs so far: says when a stock is worth its making */
} Plan;
extern PyTypeObject PlanType;

/* ---- a Program ---- */

typedef struct {
    PyObject *aval;               /* the last aval that was checked here */
    PyObject *layout;             /* the last layout that was found row-major: it holds no sizes */
    PyObject *sharding;           /* the last sharding that was accepted here */
    PyObject *dtype;              /* what was compiled for */
    int64_t *wanted;              /* its dimensions; ANY where a size stands */
    Py_ssize_t rank;
    int64_t *dims;                /* those of the last aval */
    int first_read, n_reads;      /* which of `reads` are this input's */
    int donated, flat;            /* flat: only one layout exists, with fewer than two dimensions or no elements */
    int empty;                    /* it never has elements: nobody reads where they lie */
    PyObject *number;             /* a jax Array made of a Python number here: stands for those whose bytes we write */
    char kind;                    /* its dtype, as NumPy's character */
} slot_t;

typedef struct {
    int input, dim, index;        /* size number `index` is dimension `dim` of input `input` */
} reads_t;

enum { ARENAS = 8, SHARDINGS = 8, STACK_POINTERS = 96, STACK_SIZES = 16, ANY = -1 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dict, *weakrefs;
    run_fn run;
    shapes_fn shapes;
    Py_ssize_t n_inputs, n_sizes, n_outputs, n_dims, n_consts;
    slot_t *slots;
    reads_t *reads;               /* those of each input together */
    const void **consts;
    PyObject *keep;               /* what owns the code and the constants */
    PyObject *check, *convert, *accept, *arrange, *plan, *stock;
    PyObject *sharding, *devices; /* of the outputs: one device, and a list of it */
    PyObject *known[SHARDINGS];   /* shardings that were accepted */
    unsigned turn;                /* how many: the next one's place */
    PyObject *plans;              /* list of Plan, the last used first */
    void *arenas[ARENAS];
    size_t arena_bytes[ARENAS];
    int threads, donates;
} Program;
extern PyTypeObject ProgramType;

/* What one call holds; everything is released in `call_clear`. */
typedef struct {
    Program *program;
    PyObject *arrays;             /* list of the jax Arrays that are the inputs */
    void **inputs, **outputs;     /* an input's is NULL until it is read */
    int64_t *numbers;             /* the bytes of inputs that are Python numbers */
    int64_t *sizes;
    PyObject **made;              /* each output: a jax Array of the stock, or a Block */
    Plan *plan;
    void *arena;
    size_t arena_bytes;
    int committed;
    void *stack[STACK_POINTERS];
    int64_t stack_sizes[STACK_SIZES];
} call_t;

int take_input(call_t *call, Py_ssize_t i, PyObject *given); /* checked, in call->arrays */
int read_pointers(call_t *call);
int read_pointer(PyObject *array, void **pointer);
int delete_donated(call_t *call);
Plan *find_plan(Program *p, const int64_t *sizes);           /* new reference */
int take_outputs(call_t *call);
int take_stock(call_t *call);
void stock_clear(stock_t *stock);
void *dc_addresses(void *call);                              /* a custom call of XLA's FFI */
PyObject *wrap_outputs(call_t *call);                        /* the tuple of results */

#endif
