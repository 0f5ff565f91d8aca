/* Jobs of many sizes on pools of one to five threads: what a wrong one would do is printed. See test_pool.py. */
#include "launch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MOST 5000

PyObject *PyExc_OSError;
void PyErr_SetString(PyObject *kind, const char *text) { (void)kind, (void)text; }

static _Atomic int times[MOST], pieces, arrived;

static void count(void *ctx, int64_t begin, int64_t end)
{
    (void)ctx;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&times[i], 1);
    atomic_fetch_add(&pieces, 1);
}

static void covers(int threads, int64_t n, int64_t grain)
{
    memset(times, 0, sizeof times);
    pieces = 0;
    pool_parallel_for(pool_for(threads), n, grain, count, NULL);
    for (int64_t i = 0; i < MOST; i++)
        if (times[i] != (i < n))
            printf("%d threads, n %ld, grain %ld: index %ld %d times\n", threads, (long)n, (long)grain, (long)i, times[i]);
    if (pieces > 4 * threads)
        printf("%d threads, n %ld, grain %ld: %d pieces\n", threads, (long)n, (long)grain, pieces);
    if (n >= 2 && n >= 2 * grain && threads > 1 && pieces < 2)
        printf("%d threads, n %ld, grain %ld: one piece\n", threads, (long)n, (long)grain);
}

/* Every thread is held in its first piece until all have one. */
static void meet(void *ctx, int64_t begin, int64_t end)
{
    (void)end;
    ((pthread_t *)ctx)[begin] = pthread_self();
    const int threads = atomic_load(&pieces);
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < threads)
        (void)sched_yield();
}

static void stays(int threads)
{
    pthread_t first[8], again[8];
    pieces = threads;
    for (int turn = 0; turn < 20; turn++) {
        arrived = 0;
        pool_parallel_for(pool_for(threads), threads, 1, meet, turn ? again : first);
        for (int i = 0; turn && i < threads; i++)
            if (!pthread_equal(first[i], again[i]))
                printf("%d threads: section %d went to another thread\n", threads, i);
    }
    if (!pthread_equal(first[0], pthread_self()))
        printf("%d threads: the first section is not the caller's\n", threads);
}

int main(void)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 17, 64, 1000, 1025, 4999}, grains[] = {0, 1, 2, 5, 64, 600, 5000};
    for (int threads = 1; threads <= 5; threads++) {
        for (int turn = 0; turn < 20; turn++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
                    covers(threads, sizes[i], grains[g]);
        stays(threads);
    }
    puts("done");
    return 0;
}
