/* What depends on the version of CPython: frames, code extras (instances.c: attributes and dicts).
 *
 * 3.11: whoever called the frame evaluator clears the frame. 3.12, 3.13: the evaluator does, so a
 * frame that we do not pass on must be cleared and popped here (dc_frame_dispose).
 */
#include "cpython.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "dynacomp knows the frames of CPython 3.11, 3.12 and 3.13"
#endif

bool dc_is_ending(void)
{
#if SINCE(13)
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

/* ---- frames ---- */

static PyCodeObject *frame_code(_PyInterpreterFrame *f)
{
#if SINCE(13)
    return PyCode_Check(f->f_executable) ? (PyCodeObject *)f->f_executable : NULL;
#else
    return f->f_code;
#endif
}

static bool frame_is_fresh(_PyInterpreterFrame *f, PyCodeObject *code)
{
#if SINCE(13)
    return f->instr_ptr == _PyCode_CODE(code);
#else
    return f->prev_instr == _PyCode_CODE(code) - 1;
#endif
}

PyObject *dc_frame_function(_PyInterpreterFrame *f)
{
#if SINCE(12)
    return f->owner == FRAME_OWNED_BY_CSTACK ? NULL : f->f_funcobj;
#else
    return (PyObject *)f->f_func;
#endif
}

FrameView dc_frame_view(_PyInterpreterFrame *f)
{
    FrameView view = {.code = frame_code(f), .locals = f->localsplus};
    PyObject *func = dc_frame_function(f);
    const int plain = CO_OPTIMIZED | CO_NEWLOCALS;
    if (view.code && func && PyFunction_Check(func)) {
        view.func = (PyFunctionObject *)func;
        view.at_start = f->owner == FRAME_OWNED_BY_THREAD && f->frame_obj == NULL &&
                        f->f_locals == NULL && (view.code->co_flags & plain) == plain &&
                        frame_is_fresh(f, view.code);
    }
    return view;
}

/* ---- generators ---- */

static int state_of(PyObject *gen) /* FRAME_EXECUTING of what is none */
{
    bool known = PyGen_CheckExact(gen) || PyCoro_CheckExact(gen) || PyAsyncGen_CheckExact(gen);
    return known ? ((PyGenObject *)gen)->gi_frame_state : FRAME_EXECUTING; /* the three begin alike */
}

bool dc_generator_has_ended(PyObject *gen) { return state_of(gen) > FRAME_EXECUTING; }

bool dc_suspended_view(PyObject *gen, SuspendedView *view)
{
    if (state_of(gen) >= FRAME_EXECUTING) {
        return false;
    }
    _PyInterpreterFrame *frame = (_PyInterpreterFrame *)((PyGenObject *)gen)->gi_iframe;
    int stacktop = frame->stacktop;
    view->code = frame_code(frame);
    view->globals = frame->f_globals;
    view->slots = frame->localsplus;
    view->nslots = view->code->co_nlocalsplus;
    view->top = stacktop > view->nslots ? frame->localsplus + stacktop - 1 : NULL;
    view->created = state_of(gen) == FRAME_CREATED;
    return true;
}

/* ---- the end of frames ---- */

#if SINCE(12)
static void pop_frame(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
#if SINCE(13)
    _PyThreadState_PopFrame(tstate, frame);
#else
    /* Frames live on a stack of chunks; the last frame of a chunk gives the chunk back. */
    PyObject **base = (PyObject **)frame;
    _PyStackChunk *chunk = tstate->datastack_chunk;
    if (base != &chunk->data[0]) {
        tstate->datastack_top = base;
        return;
    }
    _PyStackChunk *below = chunk->previous;
    tstate->datastack_chunk = below;
    tstate->datastack_top = below->data + below->top;
    tstate->datastack_limit = (PyObject **)((char *)below + below->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
#endif
}

void dc_frame_dispose(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
    /* The frame never started: nobody has seen it, so there is no frame object to hand it to. */
    PyCodeObject *code = frame_code(frame);
    for (int i = 0; i < frame->stacktop; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
    Py_CLEAR(frame->f_locals);
    Py_DECREF(frame->f_funcobj);
    Py_DECREF(code);
    pop_frame(tstate, frame);
}
#else
void dc_frame_dispose(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
    DC_UNUSED(tstate);
    DC_UNUSED(frame);
}
#endif

/* Whether a debugger or a measurer of coverage wants to see each line of `code`. */
bool dc_lines_are_watched(const PyThreadState *tstate, const PyCodeObject *code)
{
#if SINCE(12)
    const _PyCoMonitoringData *own = code->_co_monitoring;
    if (tstate->interp->monitors.tools[PY_MONITORING_EVENT_LINE] ||
        (own && own->local_monitors.tools[PY_MONITORING_EVENT_LINE])) {
        return true;
    }
#else
    DC_UNUSED(code);
#endif
    return tstate->c_tracefunc != NULL;
}

/* Whoever evaluated frames before us goes on doing so underneath: CPython, or another hook. */
static _PyFrameEvalFunction underneath = _PyEval_EvalFrameDefault;

void dc_install(bool on)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interp);
    if (on && now != dc_eval_frame) {
        underneath = now;
        _PyInterpreterState_SetEvalFrameFunc(interp, dc_eval_frame);
    }
    else if (!on && now == dc_eval_frame) {
        _PyInterpreterState_SetEvalFrameFunc(interp, underneath);
    }
}

/* The hook underneath may hold us for its own underneath, and pass the frame back. */
static _Thread_local _PyInterpreterFrame *passed_on;

bool dc_frame_comes_back(const _PyInterpreterFrame *frame) { return frame == passed_on; }

PyObject *dc_eval_underneath(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag)
{
    if (underneath == _PyEval_EvalFrameDefault || frame == passed_on) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    _PyInterpreterFrame *before = passed_on;
    passed_on = frame;
    PyObject *result = underneath(tstate, frame, throwflag);
    passed_on = before;
    return result;
}

enum { MOST_HOOKED_FRAMES = 1000 }; /* about 1 MiB of C stack */

bool dc_c_stack_is_deep(const PyThreadState *tstate, int hooked_frames)
{
#if SINCE(13)
    if (tstate->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2) {
        return true;
    }
#elif SINCE(12)
    if (tstate->c_recursion_remaining < C_RECURSION_LIMIT / 2) {
        return true;
    }
#else
    DC_UNUSED(tstate);
#endif
    return hooked_frames >= MOST_HOOKED_FRAMES;
}

Py_ssize_t dc_code_nlocals(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}

static PyObject *give_up(PyObject *mine)
{
    Py_XDECREF(mine);
    return NULL;
}

/* Calls `fn` with the arguments and one more, `inputs`, whose reference it takes over: the frame's is the only one. */
static PyObject *call_with_inputs(PyObject *fn, const Call *call, PyObject *inputs)
{
    PyObject *small[32], **slots = small;
    Py_ssize_t n = call->nlocals;
    if (n >= 32 && (slots = PyMem_New(PyObject *, n + 1)) == NULL) {
        PyErr_NoMemory();
        return give_up(inputs);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        slots[i] = call->owned ? call->owned[i] : Py_NewRef(call->locals[i]);
        if (call->owned) {
            call->owned[i] = NULL;
        }
    }
    slots[n] = inputs;
    PyObject *result = dc_call_handing(fn, slots, n + 1);
    for (Py_ssize_t i = 0; i <= n; i++) {
        Py_XDECREF(slots[i]);
    }
    if (slots != small) {
        PyMem_Free(slots);
    }
    return result;
}

static PyObject *call_made(PyObject *fn, const Call *call, PyObject *inputs)
{
    if (inputs) {
        return call_with_inputs(fn, call, inputs);
    }
    return call->owned ? dc_call_handing(fn, call->owned, call->nlocals)
                       : PyObject_Vectorcall(fn, call->locals, (size_t)call->nlocals, NULL);
}

PyObject *dc_call_code(PyCodeObject *code, const Call *call, PyObject *inputs)
{
    PyObject *closure = call->func->func_closure;
    Py_ssize_t brought = call->nlocals + (inputs != NULL);
    if (code->co_nfreevars != (closure ? PyTuple_GET_SIZE(closure) : 0) || code->co_argcount != brought) {
        PyErr_Format(PyExc_SystemError,
                     "dynacomp: replacement code %U takes %d arguments and %d cells; the function that it "
                     "replaces brings %zd and %zd",
                     code->co_qualname, code->co_argcount, code->co_nfreevars, brought,
                     closure ? PyTuple_GET_SIZE(closure) : 0);
        return give_up(inputs);
    }
    PyObject *made = PyFunction_New((PyObject *)code, call->func->func_globals);
    if (made == NULL) {
        return give_up(inputs);
    }
    PyFunctionObject *func = (PyFunctionObject *)made;
    Py_XSETREF(func->func_builtins, Py_NewRef(call->func->func_builtins));
    Py_XSETREF(func->func_closure, Py_XNewRef(closure));
    Py_XSETREF(func->func_name, Py_NewRef(call->func->func_name)); /* generators take theirs from it */
    Py_XSETREF(func->func_qualname, Py_NewRef(call->func->func_qualname));
    PyObject *result = call_made(made, call, inputs);
    Py_DECREF(made);
    return result;
}

/* ---- a slot of our own on every code object ---- */

#if !SINCE(12)
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

static Py_ssize_t extra_index = -1;

int dc_request_extra(freefunc free_state)
{
    if (extra_index < 0) {
        extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_state);
    }
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "dynacomp: CPython has no free slot on code objects");
        return -1;
    }
    return 0;
}

void *dc_get_extra(PyCodeObject *code)
{
    void *extra = NULL;
    PyUnstable_Code_GetExtra((PyObject *)code, extra_index, &extra);
    return extra;
}

int dc_set_extra(PyCodeObject *code, void *state)
{
    return PyUnstable_Code_SetExtra((PyObject *)code, extra_index, state);
}
