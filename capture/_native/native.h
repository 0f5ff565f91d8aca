/* The shared picture of the extension `dynacomp.capture._native`.
 *
 *   Call          what one call of a Python function brings: its locals at entry and the function
 *   GuardProgram  steps that read values out of a Call into registers, and check them     guards.c
 *   Run           the registers of one evaluation of a GuardProgram
 *   Entry         a GuardProgram and what to run when it holds                           entry.c
 *   CodeState     the entries of one code object, most recently hit first                 cache.c
 *   Thread        per thread: is the hook active, paused, for which CompiledFunction  evalframe.c
 *   CompiledFunction  the callable that `dynacomp.jit` returns                         callable.c
 *
 * Everything here runs with the GIL held. What differs between CPython versions is in cpython.c
 * and instances.c alone. Guards run no user code; every register owns its value while a Run lives.
 */
#ifndef DYNACOMP_NATIVE_H
#define DYNACOMP_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED
#error "dynacomp relies on the GIL: build it for a CPython that has one"
#endif

#define DC_UNUSED(x) ((void)(x))

/* ---- a call, as guards see it ---- */
typedef struct {
    PyObject *const *locals; /* arguments in co_varnames order; borrowed from the caller */
    Py_ssize_t nlocals;
    PyFunctionObject *func;
    PyObject **owned; /* the same slots where their references may be handed on, else NULL */
} Call;

/* ---- one evaluation of a GuardProgram ---- */
enum { RUN_INLINE_REGS = 96, RUN_INLINE_SIZES = 16 };
typedef struct {
    PyObject **regs; /* owned, NULL where not yet written */
    int64_t *sizes;
    int nregs;
    PyObject *inline_regs[RUN_INLINE_REGS];
    int64_t inline_sizes[RUN_INLINE_SIZES];
} Run;

/* ---- guards ---- */
enum { STEP_REFS = 10 };
typedef struct Step Step;
struct Step {
    int (*eval)(Step *step, Run *run, const Call *call); /* 1 holds, 0 fails; never raises */
    const struct StepKind *kind;
    int dst, src;
    Py_ssize_t n;
    Py_hash_t hash;
    uint64_t tag;              /* a class' or dict's version tag, once seen unchanged */
    Py_ssize_t at;             /* where a name was found last (see `dc_dict_get`) */
    signed char flag, flag2;
    PyObject *refs[STEP_REFS]; /* owned; the meaning of each is the kind's */
    void *ext;                 /* PyMem block without references, or NULL */
    const struct Tracer *tracer; /* of its kind, once it was looked for (settled.c) */
};

enum { MAX_REGISTERS = 1 << 14 };
typedef struct Builder {
    int nregs, nsizes;
    PyObject *on_death;          /* callback for weak references: invalidates the entry */
    bool written[MAX_REGISTERS]; /* by an earlier step; reading any other register is an error */
    bool sized[MAX_REGISTERS];
} Builder;

/* One row per kind of step. `operands`: d, z: register or size written; s: register read;
 * n: an int; u: an attribute's name; o: any object. Lower case is required, O and N optional. */
typedef struct StepKind {
    const char *name;
    const char *operands;
    int (*eval)(Step *, Run *, const Call *);
    int (*finish)(Step *, Builder *); /* 0, or -1 with an exception; may be NULL */
} StepKind;

extern const StepKind dc_value_kinds[];  /* guard_values.c */
extern const StepKind dc_check_kinds[];  /* guard_checks.c */
extern const StepKind dc_array_kinds[];  /* guard_arrays.c */
extern const StepKind dc_size_kinds[];   /* guard_sizes.c */
extern const StepKind dc_number_kinds[]; /* guard_numbers.c */
extern const StepKind dc_function_kinds[]; /* guard_functions.c */
extern const StepKind dc_registry_kinds[]; /* guard_registry.c */
extern const StepKind dc_suspended_kinds[]; /* suspended.c */
extern const StepKind dc_iterator_kinds[]; /* iterators.c */
extern const StepKind dc_unnoticed_kinds[]; /* unnoticed.c */
extern const StepKind dc_layout_kinds[];  /* set_layout.c */
extern const StepKind dc_within_kinds[];  /* arrays_within.c */
bool dc_array_among(PyObject *const *values, Py_ssize_t n); /* the same file */

typedef struct Entry Entry;
typedef struct {
    PyObject_HEAD
    Py_ssize_t nsteps;
    Step *steps;
    int nregs, nsizes;
    Entry *owner; /* borrowed; the entry to invalidate when something held weakly dies */
    PyObject *on_death;
    bool dead;
    int running; /* evaluations under way: the steps must stay until they end */
    struct Settled *settled; /* what they have found unchanged; NULL: not yet */
    unsigned held;           /* times that all held while `settled` was NULL */
    unsigned rest;           /* too much of it changed: it must hold so many times more before the next try */
} GuardProgram;
extern PyTypeObject GuardProgram_Type;
extern PyTypeObject OnDeath_Type;

void dc_guards_kill(GuardProgram *guards); /* never holds again; drops what it holds */
void dc_set_register(Run *run, int dst, PyObject *owned);
PyObject *dc_on_death_new(GuardProgram *guards); /* weak.c */
void dc_on_death_forget(PyObject *on_death);
PyObject *dc_holder(PyObject *obj, Builder *builder, bool *weak);
int dc_hold(Step *step, int slot, PyObject *obj, Builder *builder, bool *weak);
int dc_finish_weakly(Step *s, Builder *b);
PyObject *dc_held(const Step *s);
bool dc_held_is(PyObject *holder, bool weak, PyObject *value);
extern PyTypeObject Parts_Type; /* descriptors.c */
bool dc_has_parts(PyObject *obj);
PyObject *dc_parts_new(PyObject *obj, Builder *builder);
bool dc_parts_are(PyObject *parts, PyObject *value);
bool dc_run_init(Run *run, const GuardProgram *guards);
void dc_run_clear(Run *run);
Py_ssize_t dc_guards_eval(GuardProgram *guards, const Call *call, Run *run); /* -1, or who failed */
Py_ssize_t dc_guards_ask(GuardProgram *guards, const Call *call, Run *run);  /* the same, and every step is asked */
bool dc_guards_write(const GuardProgram *guards, char kind, int dst); /* kind: 'd' or 'z' */
PyFunctionObject *dc_function_of(PyObject *callable, PyObject **self); /* borrowed; NULL: TypeError */

/* ---- guards that have settled ---- */
/* The places in memory that steps have read, each with what was there: while it is still there, they hold again. A value
 * is FIXED where what was noted says that it is at the same address, LASTING where it has been the same object all along
 * (an address may be given to another one); a step whose places are not known stays LIVE. */
typedef enum { LIVE, FIXED, LASTING } Trust;
typedef struct {
    const void *at;
    uint64_t word;
} Word;
typedef struct {
    Trust trust;
    int level;
} Standing;
typedef struct {
    PyObject *const *regs;
    Standing *standing; /* of registers */
    Word *words;
    PyObject **kept;    /* owned: literals whose address stands for what they are */
    Py_ssize_t nwords, room, nkept, kept_room;
    bool broken;        /* no memory */
} Footprint;
typedef struct Tracer {
    const char *name;
    Trust (*trace)(const Step *, Footprint *);
} Tracer;
const Tracer *dc_tracer_of(const StepKind *kind);    /* footprints.c; its `trace` is NULL: the kind stays LIVE */
int dc_other_register(const Step *step, Py_ssize_t i); /* that it reads beside src, -1: no more */
void dc_note(Footprint *f, const void *at);
PyObject **dc_builtin_field(const Step *step, PyObject *obj); /* guard_values.c: what ("get", ...) reads, or NULL */
bool dc_note_attributes(Footprint *f, PyObject *obj);         /* instances.c */
Trust dc_trace_attribute(Footprint *f, PyObject *obj, PyObject *name, bool there);
Trust dc_trace_key(Footprint *f, PyObject *dict, PyObject *key, bool there);
Trust dc_trace_keys(Footprint *f, PyObject *dict);
Trust dc_trace_class(Footprint *f, PyTypeObject *type);
enum { UNSURE = -2 };
Py_ssize_t dc_settled_eval(GuardProgram *guards, const Call *call, Run *run); /* as dc_guards_eval, or UNSURE */
void dc_settle(GuardProgram *guards, const Run *run); /* all of them hold, and `run` has what they read */
void dc_unsettle(GuardProgram *guards);
extern unsigned dc_settle_after; /* so many times that all hold; 0: never */
extern bool dc_settle_checked;   /* ask every step all the same, and end the process where they say no */

/* ---- constants ---- */
bool dc_const_is_frozen(PyObject *obj); /* a literal: nothing about it ever changes */
bool dc_const_supported(PyObject *constant);
bool dc_const_equal(PyObject *constant, PyObject *value);
/* What a function of ours raised fails a guard; what came from outside (Ctrl-C, a signal handler) stays pending. */
void dc_clear_unless_from_outside(void); /* guard_numbers.c */

/* ---- what we read of JAX and NumPy ---- */
typedef struct {
    PyTypeObject *array_type, *tracer_type;
    PyTypeObject *derivative_types[2]; /* tracers that have an array inside, as `primal` */
    PyObject *aval_type;
    PyObject *get_aval, *get_sharding, *get_committed; /* callables of one array */
    PyObject *trace_context;
    PyObject *get_state; /* reads one jax Config state */
    PyObject *states;    /* tuple of Config states which trace_context() leaves out */
    PyObject *trace_state, *eval_trace;
    PyObject *sharding_type, *device_type, *single_device_sharding;
} JaxApi;
const JaxApi *dc_jax(void); /* NULL with an exception */
PyObject *dc_jax_config_token(PyObject *module, PyObject *args);
int dc_jax_config_eval(Step *, Run *, const Call *);
int dc_jax_config_finish(Step *, Builder *);

typedef struct {
    PyTypeObject *ndarray, *dtype, *generic;
} NumpyApi;
const NumpyApi *dc_numpy(void);

/* ---- the result's shape ---- */
typedef struct Template Template;
Template *dc_template_parse(PyObject *spec, int nregs);
PyObject *dc_template_build(const Template *t, PyObject *outs, const Run *run);
Template *dc_template_keep(Template *t); /* one more owner */
void dc_template_free(Template *t);      /* one owner less */
void dc_template_mark(const Template *t, bool *wanted); /* the registers that it takes values from */
int dc_template_traverse(const Template *t, visitproc visit, void *arg);

/* ---- entries and the cache ---- */
typedef struct CodeState CodeState;
struct Entry {
    PyObject_HEAD
    GuardProgram *guards;
    PyObject *program;     /* direct */
    PyCodeObject *fn_code; /* code */
    PyObject *key;         /* options that it was compiled for; NULL: any */
    PyObject *info;        /* whatever Python attaches */
    Template *template_;
    int ninputs, nsizes;
    int *inputs, *sizes;
    unsigned operations;  /* that JAX would run for its Graph, about */
    bool identity_inputs; /* inputs are registers 0..ninputs-1 */
    bool valid;
    bool returns_tail; /* whoever called the code follows its Tails */
    bool may_restart; /* the code may raise RunPlainly: the frame keeps its arguments */
    unsigned long long hits;
    CodeState *state; /* borrowed; where it is listed */
    Entry *next;      /* owned by the list */
    PyObject *weaklist;
};
extern PyTypeObject Entry_Type;
void dc_entry_mark(const Entry *entry, bool *wanted); /* the registers that it takes values from */
void dc_entry_invalidate(Entry *entry);
PyObject *dc_entry_launch(Entry *entry, const Run *run);   /* a direct entry */
extern PyObject *dc_run_plainly; /* an exception: see `dc_is_to_run_plainly` */
bool dc_is_to_run_plainly(const PyObject *result);
PyObject *dc_entry_inputs(const Entry *entry, const Run *run);
PyObject *dc_entry_run(Entry *entry, const Call *call, PyObject *inputs); /* a code entry; takes over `inputs` */

/* CODE_OURS: made by us, and skipped for ever; CODE_UNTOLD: watchers are not interested; a reset forgets the
 * other flags. */
enum { CODE_SKIP = 1, CODE_SKIP_RECURSIVE = 2, CODE_ASKED = 4, CODE_OURS = 8, CODE_UNTOLD = 16 };
struct CodeState {
    PyCodeObject *code; /* borrowed: the code object owns its state */
    Entry *first;
    unsigned flags;
    unsigned rest;         /* so many calls run plainly before the next look at this code, */
    bool wakes;            /* or, if this says so, until one is given an array: there was none at the last look */
    unsigned aside;        /* so many outermost calls run plainly, with all that they call */
    unsigned untimed;      /* and so many more until dc_timer is asked about one; 0: never */
    unsigned unasked;      /* so many calls that no entry serves run plainly before on_miss is asked again, */
    unsigned asked_under;  /* unless dc_stance is another by then */
    unsigned long long hits; /* calls that its entries have served, those that are gone among them */
    unsigned long version; /* changes with the list */
    CodeState *prev, *next;
};
int dc_cache_init(void);
CodeState *dc_code_state(PyCodeObject *code);        /* NULL: none yet */
CodeState *dc_code_state_make(PyCodeObject *code);   /* NULL with an exception */
int dc_cache_add(PyCodeObject *code, Entry *entry);
void dc_cache_clear(CodeState *state);
bool dc_is_woken(CodeState *state, PyObject *const *given, Py_ssize_t n);
int dc_cache_reset(void);
PyObject *dc_cache_entries(PyCodeObject *code);
Entry *dc_cache_find(CodeState *state, PyObject *key, const Call *call, Run *run); /* new ref */

/* ---- tails (tail.c) ---- */
/* Arguments of a call that starts now: references in `slots` that go once the frame of `fn` has its own. */
typedef struct {
    PyObject *fn; /* borrowed; NULL: none waits */
    PyObject **slots;
    Py_ssize_t n;
} Handed;
extern PyTypeObject Tail_Type;
PyObject *dc_call_handing(PyObject *fn, PyObject **slots, Py_ssize_t n);
void dc_take_over(Handed *handed);
PyObject *dc_follow(PyObject *result); /* the result, or what its Tails come to */

/* ---- the hook ---- */
typedef struct {
    int depth;   /* enter() minus leave() */
    int paused;  /* > 0: run every frame as plain Python */
    PyObject *current;     /* borrowed: the CompiledFunction being run, or NULL */
    PyCodeObject *bypass;  /* the next frame of this code runs plainly, once */
    int nesting;           /* hooked frames on this thread's C stack */
    PyObject *watcher;     /* owned: is told of each function that starts, or NULL */
    Handed handed;
} Thread;
extern _Thread_local Thread dc_thread;
extern bool dc_enabled;
extern unsigned dc_stance; /* so often has somebody said whether anything is compiled */
extern PyObject *dc_on_miss, *dc_filter, *dc_methods, *dc_timer;
extern unsigned dc_untimed; /* what a code's first `untimed` is */

void dc_enter(void);
void dc_leave(void);
void dc_after_fork(void);

typedef enum { DONE, RUN_CODE, RUN_PLAIN, RUN_PLAIN_ACTIVE } Verdict;
typedef struct {
    Verdict verdict;
    PyObject *result; /* DONE: what the call returns, NULL with an exception */
    Entry *entry;     /* RUN_CODE: a new reference */
    PyObject *inputs; /* RUN_CODE: likewise, what the code takes beside the arguments; or NULL */
} Answer;
Answer dc_resolve(const Call *call, CodeState *state, PyObject *on_miss, PyObject *key);
PyObject *dc_call_paused(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

typedef struct {
    unsigned long long hits, misses, direct, code, frames, skipped, plain, traced,
        rejected, invalidated, calls, outer, unbound, deep, operations, settled;
} Counters;
extern Counters dc_counters;

/* ---- the callable ---- */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;      /* a function or a bound method */
    PyObject *on_miss; /* NULL: the global callback */
    PyObject *key;     /* options, NULL: none */
    PyObject *dict, *weaklist;
} CompiledFunction;
extern PyTypeObject CompiledFunction_Type;
PyObject *dc_current_key(void);
PyObject *dc_call_compiled(PyObject *callable, PyObject **slots, Py_ssize_t n); /* hands the slots over */
PyObject *dc_throw(PyObject *module, PyObject *error); /* throw.c */
PyObject *dc_rethrow(PyObject *module, PyObject *error);
PyObject *dc_run_segment(PyObject *module, PyObject *const *args, Py_ssize_t nargs); /* segment.c */
PyObject *dc_slice_first(PyObject *module, PyObject *const *args, Py_ssize_t nargs); /* slice_ends.c */
PyObject *dc_slice_length(PyObject *module, PyObject *const *args, Py_ssize_t nargs); /* slice_ends.c */
PyObject *dc_suspended(PyObject *module, PyObject *gen); /* suspended.c */
PyObject *dc_suspended_local(PyObject *module, PyObject *args);
PyObject *dc_suspended_delegate(PyObject *module, PyObject *gen);
PyObject *dc_set_suspended_local(PyObject *module, PyObject *args);
PyObject *dc_set_suspended_delegate(PyObject *module, PyObject *args);
PyObject *dc_unnoticed(PyObject *module, PyObject *x); /* unnoticed.c */
PyObject *dc_read_bool(PyObject *module, PyObject *x); /* read_scalar.c */
PyObject *dc_read_int(PyObject *module, PyObject *x);
PyObject *dc_read_float(PyObject *module, PyObject *x);
extern PyTypeObject Held_Type; /* finders.c */
PyObject *dc_unhold(PyObject *module, PyObject *obj);
PyObject *dc_own_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *dc_item(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *dc_key(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *dc_write_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *dc_set_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *dc_own_table(PyObject *module, PyObject *obj);
PyObject *dc_arrange(PyObject *module, PyObject *args);
PyObject *dc_dict_of(PyObject *module, PyObject *args);
PyTypeObject *dc_deque_type(void); /* guard_checks.c; borrowed, NULL with an exception */
PyObject *dc_upcoming(PyObject *module, PyObject *args); /* iterators.c */
PyObject *dc_iterated(PyObject *module, PyObject *it);
PyObject *dc_set_enumerate(PyObject *module, PyObject *args);
PyObject *dc_known_hashes(PyObject *module, PyObject *obj); /* hashes.c */
PyObject *dc_known_dict(PyObject *module, PyObject *args);
PyObject *dc_known_set(PyObject *module, PyObject *args);
PyObject *dc_set_layout(PyObject *module, PyObject *obj); /* set_layout.c */
PyObject *dc_lay_out(PyObject *module, PyObject *args);
PyObject *dc_frozen_as(PyObject *module, PyObject *args);
PyObject *dc_hide_subclass(PyObject *module, PyObject *cls); /* classes.c */
PyObject *dc_codes_in(PyObject *module, PyObject *table); /* guard_functions.c */
extern PyTypeObject Stand_Type;

enum { BOUND_INLINE = 32 };
typedef struct {
    PyObject *const *locals;
    PyObject **owned; /* NULL where the locals are the caller's own arguments */
    Py_ssize_t n;
    PyObject *inline_locals[BOUND_INLINE];
} Bound;
int dc_bind(Bound *bound, PyFunctionObject *fn, PyObject *self, PyObject *const *args,
            Py_ssize_t nargs, PyObject *kwnames); /* 1 bound, 0 does not bind, -1 exception */
void dc_bound_clear(Bound *bound);

/* ---- CPython's insides (cpython.c, instances.c) ---- */
bool dc_is_ending(void); /* the interpreter ends: a thread no longer starts, and whoever waits for it waits for ever */
struct _PyInterpreterFrame;
typedef struct {
    PyCodeObject *code;
    PyFunctionObject *func;
    PyObject **locals;
    bool at_start; /* a plain function's frame about to run its first instruction */
} FrameView;
FrameView dc_frame_view(struct _PyInterpreterFrame *frame);
PyObject *dc_frame_function(struct _PyInterpreterFrame *frame); /* borrowed */
/* A generator, coroutine or async generator that stands still; everything borrowed. */
typedef struct {
    PyCodeObject *code;
    PyObject *globals;
    PyObject **slots; /* locals, cells, free variables */
    int nslots;
    PyObject **top;   /* of its stack; NULL: that is empty */
    bool created;     /* it has not started */
} SuspendedView;
bool dc_suspended_view(PyObject *gen, SuspendedView *view); /* false: none of those */
bool dc_generator_has_ended(PyObject *gen);
void dc_frame_dispose(PyThreadState *tstate, struct _PyInterpreterFrame *frame);
void dc_install(bool on);
PyObject *dc_eval_underneath(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);
bool dc_lines_are_watched(const PyThreadState *tstate, const PyCodeObject *code);
bool dc_frame_comes_back(const struct _PyInterpreterFrame *frame);
bool dc_c_stack_is_deep(const PyThreadState *tstate, int hooked_frames);
Py_ssize_t dc_code_nlocals(const PyCodeObject *code); /* arguments, *args and **kwargs included */
/* New references or NULL, quiet. `at`: where the name was found last, -1 at first. */
PyObject *dc_dict_get(PyObject *dict, PyObject *name, Py_hash_t hash, Py_ssize_t *at);
PyObject *dc_instance_get(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at);
bool dc_instance_lacks(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at, uint64_t *tag);
PyObject *dc_instance_dict(PyObject *obj);                               /* new ref or NULL, quiet */
PyObject *dc_shared_dict(PyObject *obj);                                 /* borrowed: where others see it too, else NULL */
int dc_dict_next(PyObject *dict, Py_ssize_t *at, PyObject **key, Py_hash_t *hash);
void dc_dict_replace_keys(PyObject *dict, PyObject *(*other)(PyObject *));
int dc_set_next(PyObject *set, Py_ssize_t *at, PyObject **element, Py_hash_t *hash); /* borrowed */
unsigned int dc_type_version(PyTypeObject *type);                        /* 0: not known */
uint64_t dc_dict_version(PyObject *dict);                                /* never used twice; 0: not known */
int dc_request_extra(freefunc free_state);
void *dc_get_extra(PyCodeObject *code);
int dc_set_extra(PyCodeObject *code, void *state);
PyObject *dc_call_code(PyCodeObject *code, const Call *call, PyObject *inputs); /* takes over `inputs` */
PyObject *dc_eval_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);

#endif
