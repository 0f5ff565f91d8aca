/* Everything that depends on the version of CPython: frames, instance dicts, code extras.
 *
 * 3.11: whoever called the frame evaluator clears the frame. 3.12, 3.13: the evaluator does, so a
 * frame that we do not pass on must be cleared and popped here (dc_frame_dispose).
 */
#define Py_BUILD_CORE 1
#include "native.h"

#define SINCE(minor) (PY_VERSION_HEX >= 0x03000000 + ((minor) << 16))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* CPython's own headers */
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_object.h"
#if SINCE(12)
#include "internal/pycore_instruments.h"
#include "internal/pycore_interp.h"
#endif
#if SINCE(13)
#include "internal/pycore_setobject.h"
#endif
#pragma GCC diagnostic pop

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

/* ---- instance dicts, without making one where there is none ---- */

static PyObject *dict_get(PyObject *dict, PyObject *name, Py_hash_t hash)
{
    PyObject *value = dict ? _PyDict_GetItem_KnownHash(dict, name, hash) : NULL;
    if (value == NULL) {
        PyErr_Clear();
    }
    return Py_XNewRef(value);
}

static PyObject *type_dict(PyTypeObject *type)
{
#if SINCE(12)
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

/* Where an instance keeps its attributes: a dict, or an array beside its class' shared keys. */
typedef struct {
    PyObject *dict;
    PyDictValues *values;
} Attributes;

static Attributes managed_attributes(PyObject *obj)
{
    Attributes at = {NULL, NULL};
#if SINCE(13)
    at.dict = (PyObject *)_PyObject_GetManagedDict(obj);
    if (at.dict == NULL && (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) {
        PyDictValues *values = _PyObject_InlineValues(obj);
        at.values = values->valid ? values : NULL;
    }
#elif SINCE(12)
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(obj);
    if (_PyDictOrValues_IsValues(either)) {
        at.values = _PyDictOrValues_GetValues(either);
    }
    else {
        at.dict = _PyDictOrValues_GetDict(either);
    }
#else
    at.values = *_PyObject_ValuesPointer(obj);
    at.dict = at.values ? NULL : *_PyObject_ManagedDictPointer(obj);
#endif
    return at;
}

/* Where a name stands among the keys of dictionaries hardly ever changes, in objects made anew neither: `at` is where it
 * stood (-1: nobody knows yet, -2: not worth to look for). */
static bool stands(PyDictKeysObject *keys, PyObject *name, Py_ssize_t at)
{
    return at >= 0 && DK_IS_UNICODE(keys) && at < keys->dk_nentries && DK_UNICODE_ENTRIES(keys)[at].me_key == name;
}

static void note_place(PyDictKeysObject *keys, PyObject *name, Py_ssize_t *at)
{
    Py_ssize_t n = *at != -2 && DK_IS_UNICODE(keys) ? keys->dk_nentries : 0;
    for (*at = -2; n-- > 0 && *at < 0;) {
        *at = DK_UNICODE_ENTRIES(keys)[n].me_key == name ? n : -2;
    }
}

static bool holds_key(PyDictKeysObject *keys, PyObject *name, Py_ssize_t *at) /* of classes: strings, nearly all interned */
{
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyObject *key = DK_UNICODE_ENTRIES(keys)[i].me_key;
        if (key == name || (key && !PyUnicode_CHECK_INTERNED(key) && PyUnicode_Compare(key, name) == 0)) {
            *at = key == name ? i : *at;
            return true;
        }
    }
    return false;
}

PyObject *dc_dict_get(PyObject *dict, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyDictObject *table = (PyDictObject *)dict;
    if (dict && stands(table->ma_keys, name, *at)) {
        PyObject *value = table->ma_values ? table->ma_values->values[*at]
                                           : DK_UNICODE_ENTRIES(table->ma_keys)[*at].me_value;
        if (value != NULL) {
            return Py_NewRef(value);
        }
    }
    PyObject *value = dict_get(dict, name, hash);
    if (value != NULL) {
        note_place(table->ma_keys, name, at);
    }
    return value;
}

/* Names of attributes are interned, and so are nearly all keys. */
static PyObject *values_get(PyTypeObject *type, PyDictValues *values, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (keys == NULL) {
        return NULL;
    }
    if (stands(keys, name, *at)) {
        return Py_XNewRef(values->values[*at]);
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyObject *key = entries[i].me_key;
        bool equal = key == name || (key && !PyUnicode_CHECK_INTERNED(key) && PyObject_Hash(key) == hash &&
                                     PyUnicode_Compare(key, name) == 0);
        if (equal) {
            *at = key == name ? i : *at;
            return Py_XNewRef(values->values[i]);
        }
    }
    return NULL;
}

PyObject *dc_instance_get(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (PyModule_Check(obj)) {
        return dc_dict_get(PyModule_GetDict(obj), name, hash, at);
    }
    if (PyType_Check(obj)) {
        PyObject *dict = type_dict((PyTypeObject *)obj);
        PyObject *value = dict_get(dict, name, hash);
        Py_XDECREF(dict);
        return value;
    }
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        Attributes own = managed_attributes(obj);
        return own.values ? values_get(type, own.values, name, hash, at) : dc_dict_get(own.dict, name, hash, at);
    }
    PyObject **dict = _PyObject_GetDictPtr(obj);
    return dict ? dc_dict_get(*dict, name, hash, at) : NULL;
}

/* Whether an instance has no such attribute. Keys that instances share only grow, and belong to their class: while there
 * are as many, none of them is the name. `tag` names what was looked through last, as does a dict's version. */
bool dc_instance_lacks(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at, uint64_t *tag)
{
    PyTypeObject *type = Py_TYPE(obj);
    bool plain = type->tp_flags & Py_TPFLAGS_MANAGED_DICT && !PyModule_Check(obj) && !PyType_Check(obj);
    Attributes own = plain ? managed_attributes(obj) : (Attributes){NULL, NULL};
    PyDictKeysObject *keys = own.values ? ((PyHeapTypeObject *)type)->ht_cached_keys : NULL;
    uint64_t now = 0, version = keys ? dc_type_version(type) : 0;
    if (keys != NULL && stands(keys, name, *at)) {
        return own.values->values[*at] == NULL;
    }
    if (version != 0) {
        now = (version << 31 | (uint64_t)keys->dk_nentries) << 1;
    }
    else if (own.dict != NULL) {
        now = dc_dict_version(own.dict) << 1 | 1;
    }
    if (now > 1 && now == *tag) {
        return true;
    }
    PyObject *found = dc_instance_get(obj, name, hash, at);
    Py_XDECREF(found);
    if (found == NULL && !(keys && holds_key(keys, name, at))) {
        *tag = now;
    }
    return found == NULL;
}

PyObject *dc_shared_dict(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    PyObject *dict = NULL;
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        dict = managed_attributes(obj).dict;
    }
    else if (!PyType_Check(obj)) {
        PyObject **at = _PyObject_GetDictPtr(obj);
        dict = at ? *at : NULL;
    }
    return dict && Py_REFCNT(dict) > 1 ? dict : NULL;
}

PyObject *dc_instance_dict(PyObject *obj)
{
    PyObject *dict;
    if (PyModule_Check(obj)) {
        dict = Py_NewRef(PyModule_GetDict(obj));
    }
    else if (PyType_Check(obj)) {
        dict = type_dict((PyTypeObject *)obj);
    }
    else {
        dict = PyObject_GenericGetDict(obj, NULL);
    }
    if (dict == NULL) {
        PyErr_Clear();
    }
    return dict;
}

/* Like PyDict_Next, with hashes; without asking a key for its own. */
int dc_dict_next(PyObject *dict, Py_ssize_t *at, PyObject **key, Py_hash_t *hash)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    PyObject *value;
    if (keys->dk_kind != DICT_KEYS_GENERAL) { /* strings, which remember theirs */
        int more = PyDict_Next(dict, at, key, &value);
        *hash = more ? PyObject_Hash(*key) : -1;
        return more;
    }
    while (*at < keys->dk_nentries) {
        PyDictKeyEntry *entry = &DK_ENTRIES(keys)[(*at)++];
        if (entry->me_value) {
            *key = entry->me_key;
            *hash = entry->me_hash;
            return 1;
        }
    }
    return 0;
}

/* Puts `other(key)`, which takes the reference over and gives a new one, in the place of each key of a new
 * dict, none of whose keys is a string. */
void dc_dict_replace_keys(PyObject *dict, PyObject *(*other)(PyObject *))
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyDictKeyEntry *entry = &DK_ENTRIES(keys)[i];
        entry->me_key = other(entry->me_key);
    }
    if (!PyObject_GC_IsTracked(dict)) {
        PyObject_GC_Track(dict);
    }
}

int dc_set_next(PyObject *set, Py_ssize_t *at, PyObject **element, Py_hash_t *hash)
{
    return _PySet_NextEntry(set, at, element, hash);
}

unsigned int dc_type_version(PyTypeObject *type)
{
#if SINCE(12)
    return type->tp_version_tag;
#else
    return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#endif
}

#if SINCE(12)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the tag goes in 3.14: then nothing is known */
#endif
uint64_t dc_dict_version(PyObject *dict)
{
#if SINCE(14)
    DC_UNUSED(dict);
    return 0;
#else
    PyDictObject *table = (PyDictObject *)dict; /* bits of watchers in the tag: it may change more often */
    return table->ma_values ? 0 : table->ma_version_tag; /* an instance's own array changes without it */
#endif
}
#if SINCE(12)
#pragma GCC diagnostic pop
#endif

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
