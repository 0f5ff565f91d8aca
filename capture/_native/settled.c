/* Settled: the guards of a call whose objects are as they were, asked as places in memory.
 *
 * A model of a hundred objects has a thousand guards, and all but a few look, call after call, at what nobody has touched:
 * attributes, versions of dicts and classes, lengths, literals. Once all have held a few times, the places that they have
 * read are written down (footprints.c), each with the eight bytes that were there. From then on these are compared, one
 * load each, instead of asking the steps; the others (arguments, arrays, what comes out of calls) are asked as before:
 *
 *     RUN     ask a step                                EXPECT  its value is the object that the words below are about
 *     WORDS   compare a run of places                   SET     a register gets the object that is known to be there
 *
 * A word that differs says nothing yet: all steps are asked. Where they hold, everything is written down anew, and the
 * step whose place has changed gets a strike: a counter, a cache, a dict that is filled in each call. With MOST_STRIKES it
 * stays live, and so does all that hangs on a value that is new each time. Too many such turns, and the steps are
 * asked for longer and longer before the next try.
 *
 * Memory. An address is followed only after the words that lead to it have been compared, with nothing of Python's in
 * between: WORDS runs no code. Steps may run some; so what is read after them begins at registers that own their objects
 * again. Places go by levels: those of level n + 1 hang on a step that was asked after the words of level n.
 */
#include "native.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STRIKES = 2, FEW_STEPS = 24, FREE_TURNS = 8, FIRST_REST = 256, LONGEST_REST = 1 << 20 };

unsigned dc_settle_after = 4;
bool dc_settle_checked = false;

typedef enum { END, RUN, EXPECT, WORDS, SET } OpKind;
typedef struct {
    OpKind kind;
    Py_ssize_t at;  /* a step, a register, the first word */
    Py_ssize_t end; /* past the last word */
    PyObject *value; /* borrowed; only compared, but for SET: then it is known to live */
} Op;

/* What became of a step. EARLY: asked, for others hang on its value. */
typedef enum { LATE, EARLY, TRACED } Part;
typedef struct {
    Part part;
    int level;
    Py_ssize_t first, last;       /* its words in `noted` */
    unsigned char moved, changed; /* strikes: a place of it, its value */
} Share;

typedef struct Settled {
    Op *ops;
    Word *words;      /* in the order of comparison */
    Share *shares;    /* by step */
    PyObject **found; /* by register; never followed */
    Standing *standing;
    Footprint print; /* `words` in the order of the steps, `kept` */
    unsigned long long served;
    unsigned turns;
} Settled;

/* ---- evaluation ---- */

static bool as_noted(const Word *word, const Word *end)
{
    for (; word < end; word++) {
        uint64_t now;
        memcpy(&now, word->at, sizeof now);
        if (now != word->word) {
            return false;
        }
    }
    return true;
}

static Py_ssize_t follow(GuardProgram *guards, const Settled *settled, const Call *call, Run *run)
{
    for (const Op *op = settled->ops;; op++) {
        switch (op->kind) {
        case RUN:
            if (!guards->steps[op->at].eval(&guards->steps[op->at], run, call)) {
                return op->at;
            }
            break;
        case EXPECT:
            if (run->regs[op->at] != op->value) {
                return UNSURE;
            }
            break;
        case WORDS:
            if (guards->dead || !as_noted(settled->words + op->at, settled->words + op->end)) {
                return UNSURE;
            }
            break;
        case SET: dc_set_register(run, (int)op->at, Py_NewRef(op->value)); break;
        case END: return guards->dead ? 0 : -1;
        }
    }
}

static Py_ssize_t check(GuardProgram *guards, const Call *call)
{
    Run again;
    Py_ssize_t failed = -1;
    if (!dc_run_init(&again, guards)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < guards->nsteps && failed == -1; i++) {
        failed = guards->steps[i].eval(&guards->steps[i], &again, call) || guards->dead ? -1 : i;
    }
    dc_run_clear(&again);
    if (failed != -1 && !PyErr_Occurred()) { /* what a signal handler raises ends the call */
        fprintf(stderr, "dynacomp: guard step %zd (%s) fails, but its footprint is as it was\n", failed,
                guards->steps[failed].kind->name);
        Py_FatalError("dynacomp: settled guards differ from those asked one by one");
    }
    return failed;
}

Py_ssize_t dc_settled_eval(GuardProgram *guards, const Call *call, Run *run)
{
    Settled *settled = guards->settled;
    if (settled == NULL) {
        return UNSURE;
    }
    Py_ssize_t failed = follow(guards, settled, call, run);
    if (failed == -1) {
        settled->served++;
        dc_counters.settled++;
        failed = dc_settle_checked ? check(guards, call) : failed;
    }
    return failed;
}

/* ---- which steps are traced ---- */

typedef void (*Visit)(int reg, void *arg);

static void each_read(const Step *s, Visit visit, void *arg)
{
    if (strchr(s->kind->operands, 's')) {
        visit(s->src, arg);
    }
    int reg;
    for (Py_ssize_t i = 0; (reg = dc_other_register(s, i)) >= 0; i++) {
        visit(reg, arg);
    }
}

static bool writes(const Step *s) { return *s->kind->operands == 'd'; }

static bool may_be_traced(Step *s, const Share *share)
{
    if (s->tracer == NULL) {
        s->tracer = dc_tracer_of(s->kind);
    }
    return s->tracer->trace != NULL && share->moved < MOST_STRIKES;
}

static void mark(int reg, void *marks) { ((bool *)marks)[reg] = true; }

/* Whether all that a step reads is at a known address, and the level at which it is. */
typedef struct {
    const Standing *standing;
    bool fixed;
    int level;
} Ground;

static void tread(int reg, void *arg)
{
    Ground *ground = arg;
    const Standing *at = &ground->standing[reg];
    ground->fixed = ground->fixed && at->trust != LIVE;
    ground->level = at->level > ground->level ? at->level : ground->level;
}

static Ground ground_of(const Settled *settled, const Step *s)
{
    Ground ground = {settled->standing, true, 0};
    each_read(s, tread, &ground);
    return ground;
}

static bool is_value(const Step *s) /* a step that reads a value and nothing else, from registers alone */
{
    for (const StepKind *kind = dc_value_kinds; kind->name; kind++) {
        if (kind == s->kind) {
            return true;
        }
    }
    return false;
}

static bool may_be_early(const Step *s, const Share *share, const bool *hung)
{
    return writes(s) && hung[s->dst] && share->changed < MOST_STRIKES && is_value(s);
}

/* Registers that steps hang on which may be traced, or on whose values such steps hang. */
static void mark_hung(GuardProgram *guards, const Settled *settled, bool *hung)
{
    for (Py_ssize_t i = guards->nsteps - 1; i >= 0; i--) {
        Step *s = &guards->steps[i];
        if (may_be_traced(s, &settled->shares[i]) || may_be_early(s, &settled->shares[i], hung)) {
            each_read(s, mark, hung);
        }
    }
}

/* Writes down one step's share. */
static void share_out(Settled *settled, Step *s, Share *share, const bool *hung)
{
    Footprint *print = &settled->print;
    Ground ground = ground_of(settled, s);
    Standing standing = {LIVE, 0};
    share->part = LATE;
    share->level = ground.level;
    share->first = share->last = print->nwords;
    if (ground.fixed && may_be_traced(s, share)) {
        standing = (Standing){s->tracer->trace(s, print), ground.level};
        share->part = standing.trust == LIVE ? LATE : TRACED;
        print->nwords = share->last = standing.trust == LIVE ? share->first : print->nwords;
    }
    if (share->part == LATE && ground.fixed && may_be_early(s, share, hung)) {
        share->part = EARLY;
        share->level = ground.level + (strchr(s->kind->operands, 's') != NULL);
        standing = (Standing){FIXED, share->level};
    }
    if (writes(s)) {
        settled->standing[s->dst] = standing;
    }
}

static bool trace_all(GuardProgram *guards, Settled *settled, const Run *run)
{
    bool *hung = PyMem_Calloc((size_t)guards->nregs + 1, sizeof *hung);
    if (hung == NULL) {
        return false;
    }
    mark_hung(guards, settled, hung);
    settled->print.regs = run->regs;
    settled->print.standing = settled->standing;
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        share_out(settled, &guards->steps[i], &settled->shares[i], hung);
    }
    PyMem_Free(hung);
    memcpy(settled->found, run->regs, sizeof *run->regs * (size_t)guards->nregs);
    return !settled->print.broken;
}

/* ---- the order in which all is asked ---- */

typedef struct {
    int reader_level; /* of the step that reads; above all levels: it is asked */
    const Standing *standing;
    bool *wanted;
} Want;

static void want(int reg, void *arg)
{
    Want *w = arg;
    if (w->reader_level > w->standing[reg].level) {
        w->wanted[reg] = true;
    }
}

/* Registers that must own their objects: of what the entry takes, of steps that are asked, of words after those. */
static void mark_wanted(const GuardProgram *guards, const Settled *settled, bool *wanted)
{
    dc_entry_mark(guards->owner, wanted);
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        const Share *share = &settled->shares[i];
        Want w = {share->part == TRACED ? share->level : INT32_MAX, settled->standing, wanted};
        each_read(&guards->steps[i], want, &w);
    }
}

/* Whether a place was noted before at this level; `seen` is a table of words' numbers plus one, of a power of two. */
static bool is_known(const Settled *settled, const void *at, Py_ssize_t from, Py_ssize_t n, Py_ssize_t *seen, size_t mask)
{
    size_t slot = ((uintptr_t)at >> 3) * 0x9E3779B97F4A7C15u >> 20 & mask;
    for (; seen[slot]; slot = (slot + 1) & mask) {
        if (settled->words[seen[slot] - 1].at == at && seen[slot] > from) {
            return true;
        }
    }
    seen[slot] = n + 1;
    return false;
}

typedef struct {
    Op *next;
    Py_ssize_t nwords;
    Py_ssize_t *seen;
    size_t mask;
} Order;

static void add_words(GuardProgram *guards, Settled *settled, int level, Order *order)
{
    Py_ssize_t from = order->nwords;
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        const Share *share = &settled->shares[i];
        bool now = share->part == TRACED && share->level == level;
        for (Py_ssize_t w = share->first; now && w < share->last; w++) {
            if (!is_known(settled, settled->print.words[w].at, from, order->nwords, order->seen, order->mask)) {
                settled->words[order->nwords++] = settled->print.words[w];
            }
        }
    }
    *order->next++ = (Op){WORDS, from, order->nwords, NULL};
}

static void add_level(GuardProgram *guards, Settled *settled, int level, const bool *wanted, Order *order)
{
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        if (settled->shares[i].part == EARLY && settled->shares[i].level == level) {
            int dst = guards->steps[i].dst;
            *order->next++ = (Op){RUN, i, 0, NULL};
            *order->next++ = (Op){EXPECT, dst, 0, settled->found[dst]};
        }
    }
    add_words(guards, settled, level, order);
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        const Step *s = &guards->steps[i];
        if (settled->shares[i].part == TRACED && settled->shares[i].level == level && writes(s) && wanted[s->dst]) {
            *order->next++ = (Op){SET, s->dst, 0, settled->found[s->dst]};
        }
    }
}

static void put_in_order(GuardProgram *guards, Settled *settled, const bool *wanted, Order *order)
{
    int levels = 0;
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        levels = settled->shares[i].part != LATE && settled->shares[i].level >= levels ? settled->shares[i].level + 1 : levels;
    }
    for (int level = 0; level < levels; level++) {
        add_level(guards, settled, level, wanted, order);
    }
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        if (settled->shares[i].part == LATE) {
            *order->next++ = (Op){RUN, i, 0, NULL};
        }
    }
    *order->next = (Op){END, 0, 0, NULL};
}

static bool arrange(GuardProgram *guards, Settled *settled)
{
    size_t slots = 64;
    while (slots < 2 * (size_t)settled->print.nwords) {
        slots *= 2;
    }
    bool *wanted = PyMem_Calloc((size_t)guards->nregs + 1, sizeof *wanted);
    Order order = {NULL, 0, PyMem_Calloc(slots, sizeof *order.seen), slots - 1};
    settled->ops = PyMem_Malloc(sizeof(Op) * (3 * (size_t)guards->nsteps + 2));
    settled->words = PyMem_Malloc(sizeof(Word) * ((size_t)settled->print.nwords + 1));
    bool ok = wanted && order.seen && settled->ops && settled->words;
    if (ok) {
        order.next = settled->ops;
        mark_wanted(guards, settled, wanted);
        put_in_order(guards, settled, wanted, &order);
    }
    PyMem_Free(wanted);
    PyMem_Free(order.seen);
    return ok;
}

/* ---- what has changed since ---- */

static void compare_ground(int reg, void *arg)
{
    PyObject *const **pair = arg;
    if (pair[2] == NULL && pair[0][reg] != pair[1][reg]) {
        pair[2] = pair[0];
    }
}

static bool on_same_ground(const Step *s, PyObject *const *before, PyObject *const *now)
{
    PyObject *const *pair[3] = {before, now, NULL};
    each_read(s, compare_ground, pair);
    return pair[2] == NULL;
}

static bool same_words(const Settled *before, const Share *a, const Settled *now, const Share *b)
{
    Py_ssize_t n = a->last - a->first;
    return n == b->last - b->first && (n == 0 || memcmp(before->print.words + a->first, now->print.words + b->first,
                                                        sizeof(Word) * (size_t)n) == 0);
}

/* The steps that are to blame get a strike: theirs has changed, not what they hang on. */
static void blame(const GuardProgram *guards, const Settled *before, Settled *now)
{
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        const Step *s = &guards->steps[i];
        const Share *old = &before->shares[i];
        Share *share = &now->shares[i];
        if (old->part == LATE || !on_same_ground(s, before->found, now->found)) {
            continue;
        }
        bool differs = writes(s) && before->found[s->dst] != now->found[s->dst];
        if (old->part == TRACED && (differs || (share->part == TRACED && !same_words(before, old, now, share)))) {
            share->moved++;
        }
        else if (old->part == EARLY && differs) {
            share->changed++;
        }
    }
}

/* ---- making and unmaking ---- */

static void free_settled(Settled *settled)
{
    if (settled == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; i < settled->print.nkept; i++) {
        Py_DECREF(settled->print.kept[i]);
    }
    void *blocks[] = {settled->print.kept, settled->print.words, settled->ops, settled->words, settled->shares,
                      settled->found, settled->standing, settled};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        PyMem_Free(blocks[i]);
    }
}

void dc_unsettle(GuardProgram *guards)
{
    Settled *settled = guards->settled;
    guards->settled = NULL;
    free_settled(settled);
}

static Settled *new_settled(const GuardProgram *guards)
{
    Settled *settled = PyMem_Calloc(1, sizeof *settled);
    if (settled == NULL) {
        return NULL;
    }
    settled->shares = PyMem_Calloc((size_t)guards->nsteps + 1, sizeof(Share));
    settled->found = PyMem_Calloc((size_t)guards->nregs + 1, sizeof(PyObject *));
    settled->standing = PyMem_Calloc((size_t)guards->nregs + 1, sizeof(Standing));
    return settled;
}

static bool write_down(GuardProgram *guards, Settled *settled, const Run *run)
{
    return settled->shares && settled->found && settled->standing && trace_all(guards, settled, run) &&
           arrange(guards, settled);
}

static Py_ssize_t few(void) { return dc_settle_checked ? 1 : FEW_STEPS; }

static bool saves_little(const GuardProgram *guards, const Settled *settled)
{
    Py_ssize_t traced = 0;
    for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
        traced += settled->shares[i].part == TRACED;
    }
    return traced < few();
}

static Settled *settled_anew(GuardProgram *guards, const Settled *before, const Run *run)
{
    Settled *now = new_settled(guards);
    if (now && now->shares && before) {
        for (Py_ssize_t i = 0; i < guards->nsteps; i++) {
            now->shares[i].moved = before->shares[i].moved;
            now->shares[i].changed = before->shares[i].changed;
        }
        now->served = before->served;
        now->turns = before->turns + 1;
    }
    if (now && !write_down(guards, now, run)) {
        free_settled(now);
        return NULL;
    }
    if (now && before) {
        blame(guards, before, now);
    }
    return now;
}

static bool is_restless(const GuardProgram *guards, const Settled *settled)
{
    return settled == NULL || saves_little(guards, settled) ||
           (settled->turns > FREE_TURNS && settled->turns * FREE_TURNS > settled->served);
}

void dc_settle(GuardProgram *guards, const Run *run)
{
    Settled *before = guards->settled;
    bool due = before || (dc_settle_after != 0 && guards->held++ >= dc_settle_after + guards->rest);
    if (!due || guards->owner == NULL || guards->nsteps < few()) {
        return;
    }
    Settled *now = settled_anew(guards, before, run);
    if (is_restless(guards, now)) {
        free_settled(now);
        now = NULL;
        guards->held = 0;
        guards->rest = guards->rest < FIRST_REST ? FIRST_REST : guards->rest < LONGEST_REST ? 2 * guards->rest : guards->rest;
    }
    guards->settled = now;
    free_settled(before);
}

_Static_assert(sizeof(void *) == sizeof(uint64_t), "words are as wide as pointers");
