/* Iterators over built-in containers that somebody else has made: what they will give, without asking them for it.
 *
 *   upcoming(it, n)        the item that comes after n others: (item,), or () at the end
 *   iterated(it)           the container that it goes through, or None; of a mappingproxy, what it shows
 *   set_enumerate(e, n)    makes `n` the next number of an enumerate
 *
 * CPython's own `__reduce__` tells where an iterator stands; no code of the program runs.
 */
#include "native.h"

#include <string.h>

static const char *const readable[] = {
    "list_iterator", "list_reverseiterator", "tuple_iterator", "range_iterator", "longrange_iterator",
    "str_iterator", "str_ascii_iterator", "bytes_iterator", "dict_keyiterator", "dict_valueiterator",
    "dict_itemiterator", "dict_reversekeyiterator", "dict_reversevalueiterator", "dict_reverseitemiterator",
    "set_iterator"};
static const char *const combined[] = {"zip", "enumerate", "map", "filter"};

#define ANY_OF(names, it) any_of(names, sizeof names / sizeof *names, it)

static bool any_of(const char *const *names, size_t n, PyObject *it)
{
    PyTypeObject *type = Py_TYPE(it);
    for (size_t i = 0; i < n && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE); i++) {
        if (strcmp(type->tp_name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- over deques: how CPython begins them, see Modules/_collectionsmodule.c; deques_are_known() makes sure ---- */

typedef struct {
    PyObject_VAR_HEAD
    void *blocks[2];
    Py_ssize_t ends[2];
    size_t state;
} Deque;

typedef struct {
    PyObject_HEAD
    void *block;
    Py_ssize_t index;
    Deque *deque;
    size_t state;
    Py_ssize_t left;
} DequeIterator;

static PyTypeObject *over_deques[2]; /* forwards, and backwards */

static PyObject *probe(PyObject *collections, const char *name, PyObject *deque)
{
    PyObject *type = PyObject_GetAttrString(collections, name);
    PyObject *made = type ? PyObject_CallOneArg(type, deque) : NULL;
    Py_XDECREF(type);
    return made;
}

static bool deques_are_known(void)
{
    static int known = -1;
    if (known < 0) {
        PyObject *collections = PyImport_ImportModule("_collections");
        PyObject *deque = collections ? PyObject_CallMethod(collections, "deque", "s", "abc") : NULL;
        PyObject *there = deque ? probe(collections, "_deque_iterator", deque) : NULL;
        PyObject *back = there ? probe(collections, "_deque_reverse_iterator", deque) : NULL;
        const DequeIterator *it = (DequeIterator *)there;
        known = back && (PyObject *)it->deque == deque && it->left == 3 && it->state == it->deque->state;
        PyObject *longer = known ? PyObject_CallMethod(deque, "append", "i", 1) : NULL;
        known = longer && it->state != it->deque->state;
        if (known) {
            over_deques[0] = (PyTypeObject *)Py_NewRef(Py_TYPE(there));
            over_deques[1] = (PyTypeObject *)Py_NewRef(Py_TYPE(back));
        }
        Py_XDECREF(longer);
        Py_XDECREF(back);
        Py_XDECREF(there);
        Py_XDECREF(deque);
        Py_XDECREF(collections);
        PyErr_Clear();
    }
    return known;
}

static bool over_deque(PyObject *it)
{
    return deques_are_known() && (Py_IS_TYPE(it, over_deques[0]) || Py_IS_TYPE(it, over_deques[1]));
}

static PyObject *upcoming_of_deque(PyObject *obj, Py_ssize_t n)
{
    const DequeIterator *it = (DequeIterator *)obj;
    if (it->state != it->deque->state) {
        PyErr_SetString(PyExc_RuntimeError, "deque mutated during iteration");
        return NULL;
    }
    if (n >= it->left) {
        return NULL;
    }
    Py_ssize_t at = Py_IS_TYPE(obj, over_deques[1]) ? it->left - 1 - n : Py_SIZE(it->deque) - it->left + n;
    return PySequence_GetItem((PyObject *)it->deque, at);
}

static PyObject *reduce(PyObject *it)
{
    PyObject *parts = PyObject_CallMethod(it, "__reduce__", NULL);
    if (parts && (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) < 2 ||
                  !PyTuple_CheckExact(PyTuple_GET_ITEM(parts, 1)))) {
        Py_CLEAR(parts);
        PyErr_SetString(PyExc_TypeError, "an iterator that does not say where it stands");
    }
    return parts;
}

static PyObject *item_of(PyObject *it, PyObject *parts, Py_ssize_t n) /* NULL without an exception: at the end */
{
    PyObject *args = PyTuple_GET_ITEM(parts, 1);
    PyObject *place = PyTuple_GET_SIZE(parts) > 2 ? PyTuple_GET_ITEM(parts, 2) : Py_None;
    Py_ssize_t at = place == Py_None ? 0 : PyNumber_AsSsize_t(place, PyExc_OverflowError);
    PyObject *items = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    Py_ssize_t size = items && PySequence_Check(items) ? PySequence_Size(items) : -1;
    if (PyErr_Occurred() || size < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "an iterator that does not say where it stands");
        }
        return NULL;
    }
    at += place != Py_None && strcmp(Py_TYPE(it)->tp_name, "list_reverseiterator") == 0 ? -n : n;
    return at >= 0 && at < size ? PySequence_GetItem(items, at) : NULL;
}

static PyObject *upcoming(PyObject *it, Py_ssize_t n) /* NULL, and no exception where it has ended by then */
{
    if (over_deque(it)) {
        return upcoming_of_deque(it, n);
    }
    if (!ANY_OF(readable, it)) {
        PyErr_Format(PyExc_TypeError, "upcoming: %R cannot be looked into", Py_TYPE(it));
        return NULL;
    }
    PyObject *parts = reduce(it);
    PyObject *item = parts ? item_of(it, parts, n) : NULL;
    Py_XDECREF(parts);
    return item;
}

PyObject *dc_upcoming(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *it;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "On:upcoming", &it, &n)) {
        return NULL;
    }
    PyObject *item = upcoming(it, n);
    return item ? Py_BuildValue("(N)", item) : PyErr_Occurred() ? NULL : PyTuple_New(0);
}

static int visit_first(PyObject *obj, void *found)
{
    *(PyObject **)found = obj;
    return 1;
}

static PyObject *iterated(PyObject *it) /* borrowed, or NULL */
{
    PyObject *found = NULL;
    if (over_deque(it)) {
        return (PyObject *)((DequeIterator *)it)->deque;
    }
    bool holds_one = ANY_OF(readable, it) || Py_IS_TYPE(it, &PyDictProxy_Type);
    traverseproc traverse = holds_one ? Py_TYPE(it)->tp_traverse : NULL;
    if (traverse) {
        traverse(it, visit_first, &found);
    }
    return found;
}

PyObject *dc_iterated(PyObject *module, PyObject *it)
{
    DC_UNUSED(module);
    PyObject *found = iterated(it);
    return Py_NewRef(found ? found : Py_None);
}

/* ---- enumerate ---- */

typedef struct { /* how CPython begins an enumerate, see Objects/enumobject.c; numbers_are_known() makes sure */
    PyObject_HEAD
    Py_ssize_t next;
} Enumerate;

static bool numbers_are_known(void)
{
    static int known = -1;
    if (known < 0) {
        PyObject *probe = PyObject_CallFunction((PyObject *)&PyEnum_Type, "(()i)", 12345);
        known = probe && ((Enumerate *)probe)->next == 12345;
        Py_XDECREF(probe);
        PyErr_Clear();
    }
    return known;
}

PyObject *dc_set_enumerate(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *counting;
    Py_ssize_t next;
    if (!PyArg_ParseTuple(args, "O!n:set_enumerate", &PyEnum_Type, &counting, &next)) {
        return NULL;
    }
    if (!numbers_are_known() || ((Enumerate *)counting)->next == PY_SSIZE_T_MAX || next == PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "set_enumerate: a number beyond the machine's");
        return NULL;
    }
    ((Enumerate *)counting)->next = next;
    Py_RETURN_NONE;
}

/* ---- guards ---- */

static int put(Step *s, Run *run, PyObject *owned)
{
    PyErr_Clear();
    if (owned == NULL) {
        return 0;
    }
    dc_set_register(run, s->dst, owned);
    return 1;
}

static int eval_upcoming(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return put(s, run, upcoming(run->regs[s->src], s->n));
}

static int eval_ended(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *item = upcoming(run->regs[s->src], s->n);
    bool ended = item == NULL && !PyErr_Occurred();
    Py_XDECREF(item);
    PyErr_Clear();
    return ended;
}

static int eval_iterated(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *found = iterated(run->regs[s->src]);
    return put(s, run, Py_NewRef(found ? found : Py_None));
}

static int eval_reduced(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *it = run->regs[s->src];
    return put(s, run, ANY_OF(combined, it) ? reduce(it) : NULL);
}

const StepKind dc_iterator_kinds[] = {
    {"upcoming", "dsn", eval_upcoming, NULL},
    {"ended", "sn", eval_ended, NULL},
    {"iterated", "ds", eval_iterated, NULL},
    {"reduced", "ds", eval_reduced, NULL},
    {NULL, NULL, NULL, NULL},
};
