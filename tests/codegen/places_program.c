/* Two threads on one CPU, and what `places_move` makes of it: what is wrong is printed. See test_pool.py. */
#include "launch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

PyObject *PyExc_OSError;
void PyErr_SetString(PyObject *kind, const char *text) { (void)kind, (void)text; }

static places_t *places;
static cpu_set_t allowed;
static int home;
static _Atomic int self, step;

static void expect(int held, const char *what)
{
    if (!held)
        printf("wrong: %s\n", what);
}

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    expect(!sched_setaffinity(0, sizeof one, &one), "a thread can be put on a CPU");
}

static void until(int wanted)
{
    const struct timespec moment = {0, 1000000};
    while (atomic_load(&step) < wanted)
        (void)nanosleep(&moment, NULL);
}

static int may_run_anywhere(void)
{
    cpu_set_t now;
    return !sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, &allowed);
}

static void *worker(void *arg)
{
    pin(home);
    self = places_self();
    expect(!places_begin(places, 1), "the caller has begun on this CPU");
    places_move(places, self, 1);
    expect(sched_getcpu() != home && may_run_anywhere(), "a thread steps aside by itself");
    expect(places_begin(places, 1), "nobody has begun where it went");

    expect(places_begin(places, 2), "a new job is not the old one");
    pin(home);
    expect(places_begin(places, 3), "nobody has begun it here");
    atomic_store(&step, 1);
    int moved = 0;
    while (atomic_load(&step) < 2) /* on its CPU until it is moved; later the system may move it back */
        moved |= sched_getcpu() != home;
    expect(moved && may_run_anywhere(), "a thread is moved by another");
    return arg;
}

int main(void)
{
    pthread_t thread;
    places = places_new();
    if (!places || sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < 2) {
        puts("one CPU");
        return 0;
    }
    home = sched_getcpu();
    pin(home);
    expect(places_begin(places, 1), "nobody has begun before");
    expect(!places_begin(places, 1), "somebody has begun before");
    if (pthread_create(&thread, NULL, worker, NULL))
        return 1;
    until(1);
    places_move(places, self, 3);
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    atomic_store(&step, 2);
    (void)pthread_join(thread, NULL);
    places_free(places);
    puts("done");
    return 0;
}
