/* How a set is laid out: which places of its table have elements, and where elements were that are gone. In which order
 * it shows its elements depends on that, and where new ones will stand. A set that has had more elements shows those that
 * are left in another order than one made of them.
 *
 *   set_layout(s) -> bytes           as many bytes as places, behind where `pop` goes on
 *   lay_out(s, elements, layout)     makes `s` one of these, which differ, laid out so; as it takes them, where that
 *                                    cannot be
 *   frozen_as(elements, layout)      a new frozenset, laid out so
 *   ("set_layout", src, layout)      the same as a guard
 */
#include "native.h"

#include <string.h>

enum { FREE, GONE, TAKEN, HEAD = sizeof(Py_ssize_t) };

/* What stands where an element was. */
static PyObject *gone(void)
{
    static PyObject *mark;
    if (mark == NULL) {
        PyObject *element = PyLong_FromLong(0), *set = element ? PySet_New(NULL) : NULL;
        if (set && PySet_Add(set, element) == 0 && PySet_Discard(set, element) == 1) {
            mark = ((PySetObject *)set)->table[0].key;
        }
        Py_XDECREF(set);
        Py_XDECREF(element);
    }
    return mark;
}

static Py_ssize_t places(const PySetObject *set) { return set->mask + 1; }

static void write_layout(const PySetObject *set, const PyObject *mark, char *to)
{
    memcpy(to, &set->finger, HEAD);
    for (Py_ssize_t i = 0; i < places(set); i++) {
        const PyObject *key = set->table[i].key;
        to[HEAD + i] = (char)(key == NULL ? FREE : key == mark ? GONE : TAKEN);
    }
}

PyObject *dc_set_layout(PyObject *module, PyObject *obj)
{
    DC_UNUSED(module);
    const PyObject *mark = gone();
    if (mark == NULL || !PyAnySet_Check(obj)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "set_layout: expected a set, got %R", obj);
    }
    const PySetObject *set = (const PySetObject *)obj;
    PyObject *layout = PyBytes_FromStringAndSize(NULL, HEAD + places(set));
    if (layout) {
        write_layout(set, mark, PyBytes_AS_STRING(layout));
    }
    return layout;
}

static int finish_layout(Step *s, Builder *b)
{
    DC_UNUSED(b);
    if (gone() != NULL && PyBytes_CheckExact(s->refs[0]) && PyBytes_GET_SIZE(s->refs[0]) > HEAD) {
        return 0;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "set_layout: expected a layout, got %R", s->refs[0]);
    }
    return -1;
}

static int eval_layout(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *obj = run->regs[s->src];
    const PySetObject *set = (const PySetObject *)obj;
    if (!PyAnySet_Check(obj) || HEAD + places(set) != PyBytes_GET_SIZE(s->refs[0])) {
        return 0;
    }
    const char *layout = PyBytes_AS_STRING(s->refs[0]);
    const PyObject *mark = gone();
    bool same = memcmp(layout, &set->finger, HEAD) == 0;
    for (Py_ssize_t i = 0; same && i < places(set); i++) {
        const PyObject *key = set->table[i].key;
        same = layout[HEAD + i] == (key == NULL ? FREE : key == mark ? GONE : TAKEN);
    }
    return same;
}

/* ---- making one ---- */

static int take_all(PyObject *set, PyObject *elements)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements); i++) {
        if (PySet_Add(set, PyTuple_GET_ITEM(elements, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The layout's table in an empty set. Whether each element is found where it stands is for the caller to see. */
static int fill(PySetObject *set, PyObject *elements, const Py_hash_t *hashes, const char *layout, Py_ssize_t n)
{
    setentry *table = n > PySet_MINSIZE ? PyMem_Calloc((size_t)n, sizeof *table) : set->smalltable;
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(table, 0, (size_t)n * sizeof *table);
    Py_ssize_t next = 0, filled = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (layout[HEAD + i] == TAKEN) {
            table[i] = (setentry){Py_NewRef(PyTuple_GET_ITEM(elements, next)), hashes[next]};
            next++;
        } else if (layout[HEAD + i] == GONE) {
            table[i] = (setentry){gone(), -1};
        }
        filled += layout[HEAD + i] != FREE;
    }
    set->table = table;
    set->mask = n - 1;
    set->fill = filled;
    set->used = next;
    memcpy(&set->finger, layout, HEAD);
    return 0;
}

/* Whether the layout is one of so many elements. */
static bool is_of(PyObject *layout, Py_ssize_t elements)
{
    Py_ssize_t n = PyBytes_GET_SIZE(layout) - HEAD, taken = 0, free_ = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        taken += PyBytes_AS_STRING(layout)[HEAD + i] == TAKEN;
        free_ += PyBytes_AS_STRING(layout)[HEAD + i] == FREE;
    }
    return n >= PySet_MINSIZE && (n & (n - 1)) == 0 && taken == elements && free_ > 0;
}

static bool all_found(PyObject *set, PyObject *elements)
{
    bool found = true;
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(elements); i++) {
        found = PySet_Contains(set, PyTuple_GET_ITEM(elements, i)) == 1;
    }
    PyErr_Clear();
    return found;
}

static int lay_out(PyObject *set, PyObject *elements, PyObject *layout)
{
    Py_ssize_t n = PyTuple_GET_SIZE(elements);
    if (PySet_Clear(set) < 0) {
        return -1;
    }
    if (!is_of(layout, n) || ((PySetObject *)set)->fill != 0) {
        return take_all(set, elements);
    }
    Py_hash_t *hashes = PyMem_New(Py_hash_t, (size_t)(n ? n : 1));
    int done = hashes ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < n; i++) {
        hashes[i] = PyObject_Hash(PyTuple_GET_ITEM(elements, i));
        done = hashes[i] == -1 ? -1 : 0;
    }
    if (done == 0) {
        done = fill((PySetObject *)set, elements, hashes, PyBytes_AS_STRING(layout), PyBytes_GET_SIZE(layout) - HEAD);
    }
    PyMem_Free(hashes);
    if (done == 0 && !all_found(set, elements)) { /* they have other hashes than where the layout was seen */
        done = PySet_Clear(set) < 0 ? -1 : take_all(set, elements);
    }
    return done;
}

PyObject *dc_lay_out(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *set, *elements, *layout;
    if (!PyArg_ParseTuple(args, "O!O!O!:lay_out", &PySet_Type, &set, &PyTuple_Type, &elements, &PyBytes_Type, &layout) ||
        gone() == NULL) {
        return NULL;
    }
    return lay_out(set, elements, layout) < 0 ? NULL : Py_NewRef(set);
}

/* A new frozenset takes over what a set of ours holds: by their own functions a frozenset is laid out anew. */
static PyObject *frozen(PySetObject *set)
{
    PySetObject *made = (PySetObject *)PyFrozenSet_New(NULL);
    if (made == NULL) {
        return NULL;
    }
    made->fill = set->fill;
    made->used = set->used;
    made->mask = set->mask;
    made->finger = set->finger;
    memcpy(made->smalltable, set->smalltable, sizeof made->smalltable);
    made->table = set->table == set->smalltable ? made->smalltable : set->table;
    memset(set->smalltable, 0, sizeof set->smalltable);
    set->table = set->smalltable;
    set->mask = PySet_MINSIZE - 1;
    set->fill = set->used = set->finger = 0;
    return (PyObject *)made;
}

PyObject *dc_frozen_as(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *elements, *layout;
    if (!PyArg_ParseTuple(args, "O!O!:frozen_as", &PyTuple_Type, &elements, &PyBytes_Type, &layout) || gone() == NULL) {
        return NULL;
    }
    PyObject *set = PySet_New(NULL);
    PyObject *made = set && lay_out(set, elements, layout) == 0 ? frozen((PySetObject *)set) : NULL;
    Py_XDECREF(set);
    return made;
}

const StepKind dc_layout_kinds[] = {
    {"set_layout", "so", eval_layout, finish_layout},
    {NULL, NULL, NULL, NULL},
};
