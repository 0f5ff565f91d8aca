/* Memory for outputs and arenas: 64-byte aligned, and kept for reuse when it is given back. A Block is such
 * memory as a Python buffer, which NumPy views and JAX keeps alive.
 *
 * Fresh pages cost more than most kernels (each is zeroed by the system when first touched), so freed blocks
 * of 16 KiB and more wait in buckets by size class, up to BLOCKS_KEPT bytes in all. Everything here runs
 * under the GIL. */
#include "launch.h"

#include <stdlib.h>
#include <sys/mman.h>

#define BLOCKS_KEPT ((size_t)256 << 20)
#define BLOCK_SMALL ((size_t)16 << 10)
#define BLOCK_HUGE ((size_t)4 << 20)
#define BUCKETS 256

typedef struct block_link {
    struct block_link *next;
} block_link;

static block_link *block_buckets[BUCKETS];
static size_t blocks_kept;

/* Sizes are rounded up to an eighth of their power of two; `bucket` numbers the classes. */
static size_t block_class(size_t bytes, unsigned *bucket)
{
    unsigned shift = 63u - (unsigned)__builtin_clzll(bytes | 64) - 3u;
    size_t step = (size_t)1 << shift, units = (bytes + step - 1) >> shift;
    if (units == 16) {
        units = 8;
        shift++;
    }
    *bucket = (shift * 8u + (unsigned)units) % BUCKETS;
    return units << shift;
}

void *block_take(size_t bytes)
{
    unsigned bucket;
    void *p = NULL;
    if (bytes < BLOCK_SMALL)
        return posix_memalign(&p, 64, bytes ? bytes : 64) ? NULL : p;
    bytes = block_class(bytes, &bucket);
    if (block_buckets[bucket]) {
        p = block_buckets[bucket];
        block_buckets[bucket] = ((block_link *)p)->next;
        blocks_kept -= bytes;
        return p;
    }
    size_t align = bytes >= BLOCK_HUGE ? (size_t)2 << 20 : 4096;
    if (posix_memalign(&p, align, bytes))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= BLOCK_HUGE)
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* advice: a refusal changes nothing */
#endif
    return p;
}

void block_give(void *p, size_t bytes)
{
    unsigned bucket;
    if (!p)
        return;
    if (bytes >= BLOCK_SMALL) {
        size_t whole = block_class(bytes, &bucket);
        if (blocks_kept + whole <= BLOCKS_KEPT) {
            ((block_link *)p)->next = block_buckets[bucket];
            block_buckets[bucket] = p;
            blocks_kept += whole;
            return;
        }
    }
    free(p);
}

/* ---- as a Python object ---- */

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
PyTypeObject BlockType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.codegen._launch.Block",
    .tp_doc = "Memory of one output; a writable buffer of bytes.",
    .tp_basicsize = sizeof(Block),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = Block_dealloc,
    .tp_as_buffer = &Block_procs,
};
void *no_memory(size_t bytes)
{
    PyErr_Format(jax.error, "RESOURCE_EXHAUSTED: Out of memory allocating %zu bytes.", bytes);
    return NULL;
}

Block *Block_new(size_t bytes)
{
    Block *b = PyObject_New(Block, &BlockType);
    if (!b)
        return NULL;
    b->bytes = bytes;
    b->data = block_take(bytes);
    if (!b->data) {
        Py_DECREF(b);
        return no_memory(bytes);
    }
    return b;
}
