/* The cache: each code object owns its entries, the most recently hit first.
 *
 * A CodeState hangs in a slot of the code object and dies with it. All states are chained, so that
 * a reset finds them without keeping any code alive. A guard check runs no user code, but a garbage
 * collection may strike inside and run anything: the entry under test is kept, and a list that has
 * changed meanwhile is searched again from its start.
 */
#include "native.h"

static CodeState all = {.prev = &all, .next = &all};

static void state_free(void *extra)
{
    CodeState *state = extra;
    if (state == NULL) {
        return;
    }
    state->prev->next = state->next;
    state->next->prev = state->prev;
    state->prev = state->next = state;
    dc_cache_clear(state);
    PyMem_Free(state);
}

int dc_cache_init(void) { return dc_request_extra(state_free); }

CodeState *dc_code_state(PyCodeObject *code) { return dc_get_extra(code); }

CodeState *dc_code_state_make(PyCodeObject *code)
{
    CodeState *state = dc_get_extra(code);
    if (state) {
        return state;
    }
    state = PyMem_Calloc(1, sizeof *state);
    if (state == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (dc_set_extra(code, state) < 0) {
        PyMem_Free(state);
        return NULL;
    }
    *state = (CodeState){.code = code, .untimed = dc_untimed, .prev = &all, .next = all.next};
    all.next->prev = state;
    all.next = state;
    return state;
}

static void unlink_entry(CodeState *state, Entry **at)
{
    Entry *gone = *at;
    *at = gone->next;
    gone->next = NULL;
    gone->state = NULL;
    state->version++;
    Py_DECREF(gone);
}

void dc_cache_clear(CodeState *state)
{
    while (state->first) {
        unlink_entry(state, &state->first);
    }
}

static void prune(CodeState *state)
{
    Entry **at = &state->first;
    while (*at) {
        if ((*at)->valid) {
            at = &(*at)->next;
        }
        else {
            unlink_entry(state, at);
            at = &state->first; /* whatever the entry let go of may have changed the list */
        }
    }
}

int dc_cache_add(PyCodeObject *code, Entry *entry)
{
    CodeState *state = dc_code_state_make(code);
    if (state == NULL) {
        return -1;
    }
    if (entry->state) {
        PyErr_SetString(PyExc_ValueError, "add_entry: this entry is already in the cache of a code object");
        return -1;
    }
    prune(state);
    entry->state = state;
    entry->next = state->first;
    state->first = (Entry *)Py_NewRef((PyObject *)entry);
    state->version++;
    return 0;
}

static PyObject *all_codes(void)
{
    PyObject *codes = PyList_New(0);
    for (CodeState *state = all.next; codes && state != &all; state = state->next) {
        if (PyList_Append(codes, (PyObject *)state->code) < 0) {
            Py_CLEAR(codes);
        }
    }
    return codes;
}

/* Whether code that rests is looked at again at once, since it is given an array. */
bool dc_is_woken(CodeState *state, PyObject *const *given, Py_ssize_t n)
{
    if (!state->wakes || !dc_array_among(given, n)) {
        return false;
    }
    state->rest = 0;
    return true;
}

int dc_cache_reset(void)
{
    PyObject *codes = all_codes(); /* kept: clearing may drop the last user of any of them */
    for (Py_ssize_t i = 0; codes && i < PyList_GET_SIZE(codes); i++) {
        CodeState *state = dc_code_state((PyCodeObject *)PyList_GET_ITEM(codes, i));
        state->flags &= state->flags & CODE_OURS ? CODE_OURS | CODE_SKIP : 0u; /* it may be running */
        state->rest = state->unasked = state->aside = 0;
        state->untimed = dc_untimed;
        dc_cache_clear(state);
    }
    Py_XDECREF(codes);
    return codes ? 0 : -1;
}

PyObject *dc_cache_entries(PyCodeObject *code)
{
    CodeState *state = dc_code_state(code);
    PyObject *list = PyList_New(0);
    if (list == NULL || state == NULL) {
        return list;
    }
    prune(state);
    for (Entry *e = state->first; e; e = e->next) {
        if (PyList_Append(list, (PyObject *)e) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static void move_to_front(CodeState *state, Entry *entry)
{
    Entry **at = &state->first;
    while (*at && *at != entry) {
        at = &(*at)->next;
    }
    if (*at == NULL || at == &state->first) {
        return;
    }
    *at = entry->next;
    entry->next = state->first;
    state->first = entry;
    state->version++;
}

/* The entry that holds for this call, as a new reference, its registers in `run`; NULL: none does, or an exception
 * came from outside. */
Entry *dc_cache_find(CodeState *state, PyObject *key, const Call *call, Run *run)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        unsigned long version = state->version;
        Entry *next;
        for (Entry *e = state->first; e; e = next) {
            next = e->next;
            if (!e->valid || (e->key && e->key != key)) {
                continue;
            }
            Py_INCREF(e);
            if (dc_guards_eval(e->guards, call, run) == -1) {
                if (e->valid) {
                    move_to_front(state, e);
                    return e;
                }
                dc_run_clear(run);
            }
            bool changed = state->version != version;
            if (!changed) {
                next = e->next;
            }
            Py_DECREF(e);
            if (PyErr_Occurred()) {
                return NULL;
            }
            if (changed) {
                goto again;
            }
        }
        return NULL;
    again:;
    }
    return NULL;
}
