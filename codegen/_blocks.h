/* Memory for outputs and arenas: 64-byte aligned, and kept for reuse when it is given back.
 *
 * Fresh pages cost more than most kernels (each is zeroed by the system when first touched), so freed blocks
 * of 16 KiB and more wait in buckets by size class, up to BLOCKS_KEPT bytes in all. Everything here runs
 * under the GIL. */
#pragma once
#include <stddef.h>
#include <stdint.h>
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

static void *block_take(size_t bytes)
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

/* `bytes` as it was asked for. */
static void block_give(void *p, size_t bytes)
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
