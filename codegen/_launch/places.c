/* The CPUs on which the threads of a pool run: no two on the same one while others are free.
 *
 * The system wakes a thread near the one that asks for it, on the same CPU even, where it takes the CPUs around for
 * too busy to look for a free one (`nr_idle_scan` of Linux's kernel/sched/fair.c: so on machines of two to four CPUs),
 * and then leaves both there for several milliseconds: dozens of jobs that take as long as on one thread.
 * So each thread says on which CPU it begins a job. A worker that finds another thread there, or that the caller has
 * missed in one job after the other, is moved to a CPU where nobody has begun this job, and may run anywhere again at
 * once: where it was last the system wakes it next. */
#include "launch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE_LINE 64

#if defined(__linux__)

typedef struct {
    _Atomic uint64_t job;      /* the last one that was begun there */
} __attribute__((aligned(CACHE_LINE))) place_t;

struct places {
    int count;
    cpu_set_t allowed;         /* where the process may run, as when the pool was made */
    place_t at[];
};

places_t *places_new(void)
{
    const long most = sysconf(_SC_NPROCESSORS_CONF);
    const int count = most < 1 ? 1 : most > CPU_SETSIZE ? CPU_SETSIZE : (int)most;
    const size_t bytes = sizeof(places_t) + (size_t)count * sizeof(place_t);
    places_t *p = NULL;
    if (posix_memalign((void **)&p, CACHE_LINE, bytes))
        return NULL;
    memset(p, 0, bytes);
    p->count = count;
    if (sched_getaffinity(0, sizeof p->allowed, &p->allowed))
        CPU_ZERO(&p->allowed); /* nobody steps aside */
    return p;
}

void places_free(places_t *p) { free(p); }

int places_begin(places_t *p, uint64_t job)
{
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= p->count)
        return 1;
    return atomic_exchange_explicit(&p->at[cpu].job, job, memory_order_relaxed) != job;
}

int places_self(void) { return gettid(); }

void places_move(places_t *p, int thread, uint64_t job)
{
    cpu_set_t free = p->allowed;
    for (int cpu = 0; cpu < p->count; cpu++)
        if (atomic_load_explicit(&p->at[cpu].job, memory_order_relaxed) == job)
            CPU_CLR(cpu, &free);
    if (CPU_COUNT(&free) && !sched_setaffinity(thread, sizeof free, &free))
        (void)sched_setaffinity(thread, sizeof p->allowed, &p->allowed);
}

#else /* other systems do not say where a thread runs */

places_t *places_new(void) { return calloc(1, 1); }
void places_free(places_t *p) { free(p); }
int places_begin(places_t *p, uint64_t job) { return (void)p, (void)job, 1; }
int places_self(void) { return 0; }
void places_move(places_t *p, int thread, uint64_t job) { (void)p, (void)thread, (void)job; }

#endif
