/* Steps that check a value: type, identity, equality with a constant, lengths, keys, absence. */
#include "native.h"

#include <stdlib.h>

/* ---- identity and type ---- */

static int finish_held(Step *s, Builder *b)
{
    bool weak;
    if (dc_hold(s, 1, s->refs[0], b, &weak) < 0) {
        return -1;
    }
    s->flag = weak;
    Py_CLEAR(s->refs[0]);
    return 0;
}

static int finish_type(Step *s, Builder *b)
{
    if (!PyType_Check(s->refs[0])) {
        PyErr_Format(PyExc_TypeError, "is_type: expected a class, got %R", s->refs[0]);
        return -1;
    }
    return finish_held(s, b);
}

static int eval_is_type(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return dc_held_is(s->refs[1], s->flag, (PyObject *)Py_TYPE(run->regs[s->src]));
}

static int eval_is(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return dc_held_is(s->refs[1], s->flag, run->regs[s->src]);
}

static int eval_own_globals(Step *s, Run *run, const Call *call)
{
    return run->regs[s->src] == call->func->func_globals;
}

static int eval_is_not(Step *s, Run *run, const Call *call) { return !eval_is(s, run, call); }

/* "same" and "distinct" compare two registers; n is the second one */
static int written(Py_ssize_t reg, Builder *b)
{
    if (reg < 0 || reg >= MAX_REGISTERS || !b->written[reg]) {
        PyErr_Format(PyExc_ValueError, "register %zd is read before a step writes it", reg);
        return -1;
    }
    return 0;
}

static int parse_register(PyObject *value, int *reg, Builder *b)
{
    long n = PyLong_AsLong(value);
    if ((n == -1 && PyErr_Occurred()) || written(n, b) < 0) {
        return -1;
    }
    *reg = (int)n;
    return 0;
}

static int finish_pair(Step *s, Builder *b) { return written(s->n, b); }

static int eval_same(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return run->regs[s->src] == run->regs[s->n];
}

static int eval_distinct(Step *s, Run *run, const Call *call) { return !eval_same(s, run, call); }

/* "all_distinct": no two of the registers named in refs[0] hold the same object. ext: the registers,
 * then as many pointers to sort. */
typedef struct {
    Py_ssize_t n;
    const PyObject **sorted;
    int regs[];
} Group;

static int finish_all_distinct(Step *s, Builder *b)
{
    if (!PyTuple_CheckExact(s->refs[0])) {
        PyErr_SetString(PyExc_TypeError, "all_distinct: expected a tuple of registers");
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(s->refs[0]);
    size_t head = (sizeof(Group) + sizeof(int) * (size_t)n + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    Group *group = s->ext = PyMem_Calloc(1, head + sizeof(void *) * (size_t)n);
    if (group == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    group->n = n;
    group->sorted = (const PyObject **)((char *)group + head);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (parse_register(PyTuple_GET_ITEM(s->refs[0], i), &group->regs[i], b) < 0) {
            return -1;
        }
    }
    return 0;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)*(PyObject *const *)a, y = (uintptr_t)*(PyObject *const *)b;
    return (x > y) - (x < y);
}

static int eval_all_distinct(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    Group *group = s->ext;
    for (Py_ssize_t i = 0; i < group->n; i++) {
        group->sorted[i] = run->regs[group->regs[i]];
    }
    qsort(group->sorted, (size_t)group->n, sizeof *group->sorted, by_address);
    for (Py_ssize_t i = 1; i < group->n; i++) {
        if (group->sorted[i] == group->sorted[i - 1]) {
            return 0;
        }
    }
    return 1;
}

static int finish_eq(Step *s, Builder *b)
{
    DC_UNUSED(b);
    if (dc_const_supported(s->refs[0])) {
        return 0;
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "eq: %R cannot be compared without user code; guard its identity",
                     s->refs[0]);
    }
    return -1;
}

static int eval_eq(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return dc_const_equal(s->refs[0], run->regs[s->src]);
}

/* ---- containers ---- */

/* A set's elements in its own order (which loops see): constants by value, other objects by identity.
 * refs: 0 the elements or what holds them; ext: how each is compared. */
enum { BY_VALUE, BY_IDENTITY, BY_WEAK_IDENTITY };

static int hold_element(Step *s, PyObject *holders, Py_ssize_t i, PyObject *element, Builder *b)
{
    signed char *how = s->ext;
    if (dc_const_supported(element)) {
        how[i] = BY_VALUE;
        PyTuple_SET_ITEM(holders, i, Py_NewRef(element));
        return 0;
    }
    bool weak = false;
    if (PyErr_Occurred() || dc_hold(s, 1, element, b, &weak) < 0) {
        return -1;
    }
    how[i] = weak ? BY_WEAK_IDENTITY : BY_IDENTITY;
    PyTuple_SET_ITEM(holders, i, s->refs[1]);
    s->refs[1] = NULL;
    return 0;
}

static int finish_set(Step *s, Builder *b)
{
    PyObject *elements = PySequence_Tuple(s->refs[0]);
    Py_ssize_t n = elements ? PyTuple_GET_SIZE(elements) : 0;
    s->ext = PyMem_Calloc((size_t)n + 1, sizeof(signed char));
    PyObject *holders = elements ? PyTuple_New(n) : NULL;
    Py_XSETREF(s->refs[0], holders);
    if (s->ext == NULL && holders) {
        PyErr_NoMemory();
    }
    int bad = s->ext && holders ? 0 : -1;
    for (Py_ssize_t i = 0; i < n && !bad; i++) {
        bad = hold_element(s, holders, i, PyTuple_GET_ITEM(elements, i), b);
    }
    Py_XDECREF(elements);
    return bad;
}

static int eval_set(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *set = run->regs[s->src], *element;
    Py_ssize_t at = 0, i = 0, n = PyTuple_GET_SIZE(s->refs[0]);
    Py_hash_t hash;
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != n) {
        return 0;
    }
    const signed char *how = s->ext;
    for (; i < n && dc_set_next(set, &at, &element, &hash); i++) {
        PyObject *held = PyTuple_GET_ITEM(s->refs[0], i);
        if (!(how[i] == BY_VALUE ? dc_const_equal(held, element)
                                 : dc_held_is(held, how[i] == BY_WEAK_IDENTITY, element))) {
            return 0;
        }
    }
    return i == n;
}

static PyTypeObject *deque_type;

static int finish_len(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    if (deque_type == NULL) {
        PyObject *collections = PyImport_ImportModule("collections");
        deque_type = collections ? (PyTypeObject *)PyObject_GetAttrString(collections, "deque") : NULL;
        Py_XDECREF(collections);
    }
    return deque_type ? 0 : -1;
}

static Py_ssize_t storage_length(PyObject *obj) /* -1: not a container that we know */
{
    if (PyTuple_Check(obj) || PyList_Check(obj) || PyBytes_Check(obj) ||
        PyObject_TypeCheck(obj, deque_type)) {
        return Py_SIZE(obj);
    }
    if (PyDict_Check(obj)) {
        return PyDict_GET_SIZE(obj);
    }
    if (PyAnySet_Check(obj)) {
        return PySet_GET_SIZE(obj);
    }
    return PyUnicode_Check(obj) ? PyUnicode_GET_LENGTH(obj) : -1;
}

static int eval_len(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return storage_length(run->regs[s->src]) == s->n;
}

static int eval_len_size(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    run->sizes[s->dst] = storage_length(run->regs[s->src]);
    return run->sizes[s->dst] >= 0;
}

static int finish_keys(Step *s, Builder *b)
{
    DC_UNUSED(b);
    PyObject *keys = PySequence_Tuple(s->refs[0]);
    if (keys == NULL) {
        return -1;
    }
    Py_SETREF(s->refs[0], keys);
    return 0;
}

static bool ordered_keys_equal(PyObject *dict, PyObject *keys) /* an OrderedDict keeps its own order */
{
    PyObject *it = PyODict_Type.tp_iter(dict);
    bool ok = it != NULL;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyIter_Next(it);
        ok = key && dc_const_equal(PyTuple_GET_ITEM(keys, i), key);
        Py_XDECREF(key);
    }
    Py_XDECREF(it);
    PyErr_Clear();
    return ok;
}

static int eval_keys(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *dict = run->regs[s->src], *keys = s->refs[0], *key;
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) {
        return 0;
    }
    if (PyODict_Check(dict)) {
        return ordered_keys_equal(dict, keys);
    }
    Py_ssize_t at = 0, i = 0;
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (i >= PyTuple_GET_SIZE(keys) || !dc_const_equal(PyTuple_GET_ITEM(keys, i++), key)) {
            return 0;
        }
    }
    return 1;
}

/* ---- absence ---- */

static int absent(PyObject *owned)
{
    Py_XDECREF(owned);
    return owned == NULL;
}

static int eval_missing(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return absent(dc_instance_get(run->regs[s->src], s->refs[0], s->hash));
}

static int not_in(PyObject *dict, Step *s)
{
    if (!PyDict_Check(dict) || _PyDict_GetItem_KnownHash(dict, s->refs[0], s->hash)) {
        return 0;
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

static int finish_missing_key(Step *s, Builder *b)
{
    DC_UNUSED(b);
    s->hash = PyObject_Hash(s->refs[0]);
    return s->hash == -1 ? -1 : 0;
}

static int eval_missing_key(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return not_in(run->regs[s->src], s);
}

static int eval_missing_global(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(run);
    return not_in(call->func->func_globals, s);
}

/* ---- what names stand for in a class or in a dict of a module's globals ----
 * refs: 0 names, 1 the objects' holders (NotImplemented: no such name); ext: which are weak.
 * A version tag names the state of the whole table and is never used again. */

static int finish_unchanged(Step *s, Builder *b)
{
    PyObject *names = PySequence_Tuple(s->refs[0]), *objs = PySequence_Tuple(s->refs[1]);
    Py_XSETREF(s->refs[0], names);
    Py_XSETREF(s->refs[1], NULL);
    if (!names || !objs || PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(objs)) {
        Py_XDECREF(objs);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a guard on names wants as many objects as names");
        }
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    bool *weak = s->ext = PyMem_Calloc((size_t)n + 1, sizeof *weak);
    PyObject *holders = s->refs[1] = PyTuple_New(n);
    int bad = (weak && holders) ? 0 : -1;
    for (Py_ssize_t i = 0; i < n && !bad; i++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i))) {
            PyErr_SetString(PyExc_TypeError, "a guard on names: names are str");
            bad = -1;
            break;
        }
        bad = dc_hold(s, 2, PyTuple_GET_ITEM(objs, i), b, &weak[i]);
        PyTuple_SET_ITEM(holders, i, s->refs[2]);
        s->refs[2] = NULL;
    }
    Py_DECREF(objs);
    return bad;
}

/* What a table has under a name: borrowed, and no user code runs before it is compared. */
typedef PyObject *(*Lookup)(PyObject *table, PyObject *name);

static PyObject *lookup_in_type(PyObject *type, PyObject *name)
{
    return _PyType_Lookup((PyTypeObject *)type, name);
}

static bool all_are(const Step *s, PyObject *table, Lookup lookup)
{
    const bool *weak = s->ext;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->refs[0]); i++) {
        PyObject *found = lookup(table, PyTuple_GET_ITEM(s->refs[0], i)), *holder = PyTuple_GET_ITEM(s->refs[1], i);
        if (found == NULL) {
            PyErr_Clear();
        }
        if (found == NULL ? holder != Py_NotImplemented : !dc_held_is(holder, weak[i], found)) {
            return false;
        }
    }
    return true;
}

static int eval_type_unchanged(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *type = run->regs[s->src];
    if (!PyType_Check(type)) {
        return 0;
    }
    unsigned int now = dc_type_version((PyTypeObject *)type);
    if (now != 0 && now == s->tag) {
        return 1;
    }
    if (!all_are(s, type, lookup_in_type)) {
        return 0;
    }
    s->tag = dc_type_version((PyTypeObject *)type);
    return 1;
}

static int eval_names_unchanged(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *dict = run->regs[s->src];
    if (!PyDict_Check(dict)) {
        return 0;
    }
    uint64_t now = dc_dict_version(dict);
    if (now != 0 && now == s->tag) {
        return 1;
    }
    if (!all_are(s, dict, PyDict_GetItemWithError)) {
        return 0;
    }
    s->tag = now; /* nothing ran since it was read */
    return 1;
}

const StepKind dc_check_kinds[] = {
    {"is_type", "so", eval_is_type, finish_type},
    {"is", "so", eval_is, finish_held},
    {"is_not", "so", eval_is_not, finish_held},
    {"own_globals", "s", eval_own_globals, NULL},
    {"same", "sn", eval_same, finish_pair},
    {"distinct", "sn", eval_distinct, finish_pair},
    {"all_distinct", "o", eval_all_distinct, finish_all_distinct},
    {"eq", "so", eval_eq, finish_eq},
    {"set", "so", eval_set, finish_set},
    {"len", "sn", eval_len, finish_len},
    {"len_size", "zs", eval_len_size, finish_len},
    {"keys", "so", eval_keys, finish_keys},
    {"missing", "su", eval_missing, NULL},
    {"missing_key", "so", eval_missing_key, finish_missing_key},
    {"missing_global", "u", eval_missing_global, NULL},
    {"type_unchanged", "soo", eval_type_unchanged, finish_unchanged},
    {"names_unchanged", "soo", eval_names_unchanged, finish_unchanged},
    {"jax_config", "o", dc_jax_config_eval, dc_jax_config_finish},
    {NULL, NULL, NULL, NULL},
};
