/* The hook of PEP 523: what happens when a thread that captures is about to run a frame.
 *
 * The hook is in the interpreter only while some thread is between enter() and leave(). In such a
 * thread each frame that starts is looked up: code that is not to be captured goes to CPython's
 * evaluator after one look; else the first entry whose guards hold runs in the frame's place; else
 * the callback is asked, with capture paused, and answers with an Entry to run, None (run this
 * frame, and all that it calls, as plain Python) or True (run this frame plainly, but go on
 * capturing what it calls).
 */
#include "native.h"

_Thread_local Thread dc_thread;
bool dc_enabled = true;
unsigned dc_stance;
PyObject *dc_on_miss, *dc_filter;
Counters dc_counters;
static int active_threads;

void dc_enter(void)
{
    if (dc_thread.depth++ == 0 && active_threads++ == 0) {
        dc_install(true);
    }
}

void dc_leave(void)
{
    if (--dc_thread.depth == 0 && --active_threads == 0) {
        dc_install(false);
    }
}

void dc_after_fork(void) /* only the thread that forked lives on */
{
    active_threads = dc_thread.depth > 0;
    dc_install(active_threads > 0);
}

PyObject *dc_current_key(void)
{
    return dc_thread.current ? ((CompiledFunction *)dc_thread.current)->key : NULL;
}

PyObject *dc_call_paused(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    dc_thread.paused++;
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    dc_thread.paused--;
    return result;
}

/* ---- asking Python ---- */

/* Whether ours had too little of Python's stack left to answer; the call is a plain one, which needs less of it. */
static bool too_deep_to_ask(void)
{
    bool deep = PyErr_ExceptionMatches(PyExc_RecursionError);
    if (deep) {
        PyErr_Clear();
    }
    return deep;
}

static PyObject *ask(PyObject *on_miss, const Call *call, PyCodeObject *code)
{
    PyObject *locals = PyTuple_New(call->nlocals);
    if (locals == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < call->nlocals; i++) {
        PyTuple_SET_ITEM(locals, i, Py_NewRef(call->locals[i]));
    }
    PyObject *args[] = {(PyObject *)call->func, (PyObject *)code, locals};
    PyObject *answer = dc_call_paused(on_miss, args, 3, NULL);
    Py_DECREF(locals);
    return answer;
}

static Answer failed(void) { return (Answer){DONE, NULL, NULL, NULL}; }

static Answer reject(Py_ssize_t step, PyCodeObject *code)
{
    dc_counters.rejected++;
    int bad = PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                               "dynacomp: %U was compiled for these arguments, yet guard %zd of the result does "
                               "not hold for them; the call runs as plain Python",
                               code->co_qualname, step);
    return bad ? failed() : (Answer){RUN_PLAIN, NULL, NULL, NULL};
}

/* Runs a direct entry and gives up `entry` and the registers; hands a code entry on. */
static Answer take(Entry *entry, Run *run)
{
    entry->hits++;
    dc_counters.operations += entry->operations;
    if (entry->program == NULL) {
        PyObject *inputs = dc_entry_inputs(entry, run);
        dc_run_clear(run);
        if (inputs == NULL && PyErr_Occurred()) {
            Py_DECREF(entry);
            return failed();
        }
        return (Answer){RUN_CODE, NULL, entry, inputs};
    }
    PyObject *result = dc_entry_launch(entry, run);
    dc_run_clear(run);
    Py_DECREF(entry);
    return dc_is_to_run_plainly(result) ? (Answer){RUN_PLAIN, NULL, NULL, NULL} : (Answer){DONE, result, NULL, NULL};
}

static Answer judge(PyObject *answer, const Call *call, PyCodeObject *code, Run *run)
{
    if (answer == Py_None || answer == Py_True) {
        return (Answer){answer == Py_None ? RUN_PLAIN : RUN_PLAIN_ACTIVE, NULL, NULL, NULL};
    }
    if (!PyObject_TypeCheck(answer, &Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "on_miss returns an Entry, None or True, got %R", answer);
        return failed();
    }
    Py_ssize_t step = dc_guards_eval(((Entry *)answer)->guards, call, run);
    if (step == -1) {
        return take((Entry *)Py_NewRef(answer), run);
    }
    return PyErr_Occurred() ? failed() : reject(step, code);
}

/* What becomes of a call. The registers live in here only: the C stack below a frame that runs on
 * stays small, since CPython nests its evaluator once per frame while a hook is installed. */
__attribute__((noinline)) Answer dc_resolve(const Call *call, CodeState *state, PyObject *on_miss, PyObject *key)
{
    Run run;
    PyCodeObject *code = state->code;
    Entry *entry = dc_cache_find(state, key, call, &run);
    if (entry) {
        dc_counters.hits++;
        state->hits++;
        return take(entry, &run);
    }
    if (PyErr_Occurred()) {
        return failed();
    }
    if (on_miss == NULL || dc_is_ending()) {
        return (Answer){RUN_PLAIN_ACTIVE, NULL, NULL, NULL};
    }
    dc_counters.misses++;
    if (state->unasked && state->asked_under == dc_stance) {
        state->unasked--;
        return (Answer){RUN_PLAIN_ACTIVE, NULL, NULL, NULL};
    }
    Py_INCREF(on_miss);
    PyObject *answer = ask(on_miss, call, code);
    Py_DECREF(on_miss);
    Answer verdict = answer              ? judge(answer, call, code, &run)
                     : too_deep_to_ask() ? (Answer){RUN_PLAIN_ACTIVE, NULL, NULL, NULL}
                                         : failed();
    Py_XDECREF(answer);
    return verdict;
}

/* ---- frames ---- */

/* Whether the hook looks at the code: asked once; not now, where the stack is too deep. -1: an exception. */
static int ask_filter(CodeState *state, PyCodeObject *code)
{
    if ((state->flags & CODE_ASKED) || dc_filter == NULL) {
        return !(state->flags & CODE_SKIP);
    }
    PyObject *filter = Py_NewRef(dc_filter);
    PyObject *args[] = {(PyObject *)code};
    PyObject *answer = dc_call_paused(filter, args, 1, NULL);
    Py_DECREF(filter);
    int wanted = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (wanted < 0) {
        return too_deep_to_ask() ? 0 : -1;
    }
    state->flags |= CODE_ASKED | (wanted ? 0 : CODE_SKIP);
    return wanted;
}

static PyObject *run_plain(PyThreadState *tstate, struct _PyInterpreterFrame *frame)
{
    dc_thread.paused++;
    PyObject *result = dc_eval_underneath(tstate, frame, 0);
    dc_thread.paused--;
    return result;
}

static bool takes_part(PyThreadState *tstate, const FrameView *view)
{
    if (!view->at_start) {
        return false;
    }
    if (dc_lines_are_watched(tstate, view->code)) {
        dc_counters.traced++;
        return false;
    }
    return dc_enabled && !dc_is_ending();
}

static PyObject *run_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame, const FrameView *view,
                           CodeState *state)
{
    Call call = {view->locals, dc_code_nlocals(view->code), view->func, view->locals};
    PyObject *own = dc_thread.current ? ((CompiledFunction *)dc_thread.current)->on_miss : NULL;
    Answer answer = dc_resolve(&call, state, own ? own : dc_on_miss, dc_current_key());
    switch (answer.verdict) {
    case RUN_PLAIN: dc_counters.plain++; return run_plain(tstate, frame);
    case RUN_PLAIN_ACTIVE: return dc_eval_underneath(tstate, frame, 0);
    case RUN_CODE:
        answer.result = dc_entry_run(answer.entry, &call, answer.inputs);
        Py_DECREF(answer.entry);
        if (dc_is_to_run_plainly(answer.result)) {
            return run_plain(tstate, frame);
        }
        break;
    case DONE: break;
    }
    dc_frame_dispose(tstate, frame);
    return answer.result;
}

static Py_ssize_t n_arguments(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS)
        + !!(code->co_flags & CO_VARKEYWORDS);
}

static PyObject *run_active(PyThreadState *tstate, struct _PyInterpreterFrame *frame)
{
    dc_counters.frames++;
    FrameView view = dc_frame_view(frame);
    if (view.code == NULL || view.code == dc_thread.bypass) {
        dc_thread.bypass = NULL;
        return dc_eval_underneath(tstate, frame, 0);
    }
    CodeState *state = dc_code_state(view.code);
    if (state && (state->flags & CODE_SKIP)) {
        dc_counters.skipped++;
        return state->flags & CODE_SKIP_RECURSIVE ? run_plain(tstate, frame)
                                                  : dc_eval_underneath(tstate, frame, 0);
    }
    if (!takes_part(tstate, &view)) {
        return dc_eval_underneath(tstate, frame, 0);
    }
    if (state && state->rest && !dc_is_woken(state, view.locals, n_arguments(view.code))) {
        state->rest--;
        return dc_eval_underneath(tstate, frame, 0);
    }
    int wanted = !state && !(state = dc_code_state_make(view.code)) ? -1 : ask_filter(state, view.code);
    if (wanted < 0) {
        dc_frame_dispose(tstate, frame);
        return NULL;
    }
    return wanted ? run_frame(tstate, frame, &view, state) : dc_eval_underneath(tstate, frame, 0);
}

/* Tells the thread's watcher of a function that starts. An answer that is false means: no more of this code. */
static int tell(struct _PyInterpreterFrame *frame)
{
    FrameView view = dc_frame_view(frame);
    CodeState *state = view.at_start ? dc_code_state(view.code) : NULL;
    if (!view.at_start || (state && (state->flags & CODE_UNTOLD))) {
        return 0;
    }
    if (!state && !(state = dc_code_state_make(view.code))) {
        return -1;
    }
    PyObject *watcher = dc_thread.watcher;
    dc_thread.watcher = NULL; /* what it calls is not told */
    PyObject *answer = dc_call_paused(watcher, (PyObject *[]){(PyObject *)view.func}, 1, NULL);
    int wanted = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    Py_XDECREF(dc_thread.watcher);
    dc_thread.watcher = watcher;
    state->flags |= wanted == 0 ? CODE_UNTOLD : 0;
    return wanted < 0 ? -1 : 0;
}

/* CPython nests its evaluator on the C stack for each frame while a hook is installed, and not at
 * all while none is. So that a program can recurse as deep as without us, the hook goes away once
 * the C stack is deep: what is called from there runs as plain Python. */
static PyObject *run_deep(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    dc_counters.deep++;
    Py_CLEAR(dc_thread.watcher); /* who looks at it afterwards knows that it has not heard all */
    dc_install(false);
    PyObject *result = dc_eval_underneath(tstate, frame, throwflag);
    dc_install(active_threads > 0);
    return result;
}

PyObject *dc_eval_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    Thread *thread = &dc_thread;
    if (thread->handed.fn && thread->handed.fn == dc_frame_function(frame)) {
        dc_take_over(&thread->handed);
    }
    if (dc_c_stack_is_deep(tstate, thread->nesting)) {
        return run_deep(tstate, frame, throwflag);
    }
    if (thread->watcher && !throwflag && tell(frame) < 0) {
        dc_frame_dispose(tstate, frame);
        return NULL;
    }
    thread->nesting++;
    /* What a profiler or a debugger of Python's runs at an event is no part of the program. */
    PyObject *result = thread->depth == 0 || thread->paused || throwflag || tstate->tracing
                               || dc_frame_comes_back(frame)
                           ? dc_eval_underneath(tstate, frame, throwflag)
                           : run_active(tstate, frame);
    thread->nesting--;
    return result;
}
