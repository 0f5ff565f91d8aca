/* The thread pool of compiled programs: one per thread count, made when first needed.
 *
 * A job is a range cut in chunks, and the chunks in a section for each thread: the caller's first, then the
 * workers' in their order. A thread claims the chunks of its own section one by one, then those that others have
 * left. So the same rows of one kernel after the other are, mostly, the same thread's, and lie in its core's cache
 * (static sections with stealing, as in Markatos and LeBlanc's affinity scheduling, 1994).
 * Workers spin for a few microseconds after a job, then sleep. `state` packs (generation << 16 | open << 15 | active workers): a
 * worker joins by counting itself in while the job is open, so the caller knows when nobody holds the job any
 * more. A pool that is busy (nested or concurrent calls) makes the caller do its own work alone.
 * After fork() the child forgets its parent's pools, whose threads it does not have. */
#include "launch.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POOL_MAX 256
#define POOL_SPIN 2000
#define POOL_PATIENCE 60000    /* nanoseconds: a thread that sleeps on a free CPU is awake before */
#define POOL_OPEN 0x8000u
#define POOL_ACTIVE 0x7fffu

#define CACHE_LINE 64

typedef struct {               /* one thread's part of the job */
    _Atomic int64_t next;      /* its first index not yet claimed */
    int64_t end;
    pool_t *pool;
    _Atomic uint64_t joined;   /* the last job of which it had a part */
    _Atomic int thread;
    int64_t missed, patience;  /* nanoseconds of jobs since then that were done without it, and how many may be */
} __attribute__((aligned(CACHE_LINE))) section_t;

struct pool {
    _Atomic uint64_t state;
    _Atomic int sleepers, busy;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    places_t *places;          /* which CPUs its threads are on */
    int threads;               /* the caller included */
    int64_t chunk;
    pool_body body;
    void *ctx;
    section_t sections[];      /* one for each thread, the caller's first */
};

int pools_forked;
static pool_t *pools[POOL_MAX + 1];
static pthread_mutex_t pools_mutex = PTHREAD_MUTEX_INITIALIZER;

static inline void pool_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Subnormals are flushed to zero, in and out. */
uint64_t flush_subnormals(void)
{
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040u);
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
    __asm__ __volatile__("msr fpcr, %0" : : "r"(before | (uint64_t)1 << 24));
    return before;
#else
    return 0;
#endif
}
void restore_subnormals(uint64_t before)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)before);
#elif defined(__aarch64__)
    __asm__ __volatile__("msr fpcr, %0" : : "r"(before));
#else
    (void)before;
#endif
}

static void section_drain(pool_t *p, section_t *section)
{
    while (atomic_load_explicit(&section->next, memory_order_relaxed) < section->end) {
        int64_t begin = atomic_fetch_add(&section->next, p->chunk);
        if (begin >= section->end)
            return;
        int64_t end = section->end - begin > p->chunk ? begin + p->chunk : section->end;
        p->body(p->ctx, begin, end);
    }
}

/* The chunks of `own`, then what is left of the sections after it, in a ring. */
static void pool_drain(pool_t *p, section_t *own)
{
    for (section_t *s = own; s < p->sections + p->threads; s++)
        section_drain(p, s);
    for (section_t *s = p->sections; s < own; s++)
        section_drain(p, s);
}

/* Wait for a generation other than `seen`: spin, then sleep. */
static uint64_t pool_await(pool_t *p, uint64_t seen)
{
    for (int spin = 0; spin < POOL_SPIN; spin++) {
        uint64_t state = atomic_load(&p->state);
        if (state >> 16 != seen)
            return state;
        pool_pause();
    }
    (void)pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->state) >> 16 == seen)
        (void)pthread_cond_wait(&p->wake, &p->mutex);
    atomic_fetch_sub(&p->sleepers, 1);
    (void)pthread_mutex_unlock(&p->mutex);
    return atomic_load(&p->state);
}

static void *pool_worker(void *arg)
{
    section_t *own = arg;
    pool_t *p = own->pool;
    uint64_t seen = 0;
    own->thread = places_self();
    (void)flush_subnormals();
    for (;;) {
        uint64_t state = pool_await(p, seen);
        if (state & POOL_OPEN && !places_begin(p->places, state >> 16)) {
            places_move(p->places, own->thread, state >> 16);
            (void)places_begin(p->places, state >> 16);
            state = atomic_load(&p->state);
        }
        while (state & POOL_OPEN) {
            if (!atomic_compare_exchange_weak(&p->state, &state, state + 1))
                continue;
            atomic_store_explicit(&own->joined, state >> 16, memory_order_relaxed);
            pool_drain(p, own);
            atomic_fetch_sub(&p->state, 1);
            break;
        }
        seen = state >> 16;
    }
    return NULL;
}

static int pool_spawn(pool_t *p)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int started = 0;
    if (pthread_attr_init(&attr))
        return 0;
    /* Signals go to Python's threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED)) {
        for (int i = 1; i < p->threads; i++) {
            pthread_t thread;
            started += pthread_create(&thread, &attr, pool_worker, &p->sections[1 + started]) == 0;
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return started;
}

static pool_t *pool_new(int threads)
{
    const size_t bytes = sizeof(pool_t) + (size_t)threads * sizeof(section_t);
    pool_t *p = NULL;
    if (posix_memalign((void **)&p, CACHE_LINE, bytes))
        return NULL;
    memset(p, 0, bytes);
    p->threads = threads;
    for (int i = 0; i < threads; i++)
        p->sections[i].pool = p;
    p->places = places_new();
    if (!p->places || pthread_mutex_init(&p->mutex, NULL) || pthread_cond_init(&p->wake, NULL)) {
        places_free(p->places);
        free(p);
        return NULL;
    }
    p->threads = 1 + pool_spawn(p); /* fewer where the system refuses; all work is done anyway */
    return p;
}

pool_t *pool_for(int threads)
{
    if (threads > POOL_MAX)
        threads = POOL_MAX;
    (void)pthread_mutex_lock(&pools_mutex);
    if (!pools[threads])
        pools[threads] = pool_new(threads);
    pool_t *p = pools[threads];
    (void)pthread_mutex_unlock(&pools_mutex);
    return p;
}

/* How long a chunk is: up to four for each thread, none shorter than `grain` (n, where two would be). */
static int64_t pool_chunk(const pool_t *p, int64_t n, int64_t grain)
{
    int64_t pieces = (int64_t)p->threads * 4;
    if (grain > 1 && pieces > n / grain)
        pieces = n / grain;
    if (pieces <= 1)
        return n;
    int64_t chunk = (n + pieces - 1) / pieces;
    return chunk >= 1024 ? (chunk + 63) / 64 * 64 : chunk; /* whole cache lines where it matters */
}

static void pool_cut(pool_t *p, int64_t n, int64_t chunk)
{
    const int64_t pieces = (n + chunk - 1) / chunk;
    int64_t begin = 0;
    for (int i = 0; i < p->threads; i++) {
        const int64_t last = pieces * (i + 1) / p->threads; /* at most four pieces for each of 256 threads */
        const int64_t end = last == pieces ? n : last * chunk;
        p->sections[i].end = end;
        atomic_store_explicit(&p->sections[i].next, begin, memory_order_relaxed);
        begin = end;
    }
    p->chunk = chunk;
}

static int64_t pool_clock(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) ? 0 : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Workers that take no part for so long wait for a CPU: the caller's, perhaps. Looked for ever more seldom. */
static void pool_seek(pool_t *p, uint64_t generation, int64_t began)
{
    for (section_t *s = p->sections + 1; s < p->sections + p->threads; s++) {
        if (atomic_load_explicit(&s->joined, memory_order_relaxed) == generation) {
            s->missed = 0;
            s->patience = POOL_PATIENCE;
        } else if ((s->missed += pool_clock() - began) > s->patience && s->thread) {
            s->patience *= 2;
            places_move(p->places, s->thread, generation);
        }
    }
}

void pool_parallel_for(void *pool, int64_t n, int64_t grain, pool_body body, void *ctx)
{
    pool_t *p = pool;
    int64_t chunk = p ? pool_chunk(p, n, grain) : n;
    int idle = 0;
    if (chunk >= n || !atomic_compare_exchange_strong(&p->busy, &idle, 1)) {
        body(ctx, 0, n);
        return;
    }
    const int64_t began = pool_clock();
    pool_cut(p, n, chunk);
    p->body = body;
    p->ctx = ctx;
    uint64_t generation = (atomic_load(&p->state) >> 16) + 1;
    (void)places_begin(p->places, generation);
    atomic_store(&p->state, generation << 16 | POOL_OPEN);
    if (atomic_load(&p->sleepers)) {
        (void)pthread_mutex_lock(&p->mutex);
        (void)pthread_cond_broadcast(&p->wake);
        (void)pthread_mutex_unlock(&p->mutex);
    }
    pool_drain(p, p->sections);
    pool_seek(p, generation, began);
    atomic_fetch_and(&p->state, ~(uint64_t)POOL_OPEN);
    for (int spin = 0; atomic_load(&p->state) & POOL_ACTIVE; spin++) {
        if (spin < POOL_SPIN)
            pool_pause();
        else
            (void)sched_yield(); /* a worker that the system took off its core may want this one */
    }
    atomic_store(&p->busy, 0);
}

static void pools_before_fork(void) { (void)pthread_mutex_lock(&pools_mutex); }
static void pools_after_fork(void) { (void)pthread_mutex_unlock(&pools_mutex); }
static void pools_in_child(void)
{
    pools_forked = 1;
    for (int i = 0; i <= POOL_MAX; i++)
        pools[i] = NULL;
    (void)pthread_mutex_unlock(&pools_mutex);
}

int pools_init(void)
{
    if (pthread_atfork(pools_before_fork, pools_after_fork, pools_in_child)) {
        PyErr_SetString(PyExc_OSError, "cannot register fork handlers");
        return -1;
    }
    return 0;
}
