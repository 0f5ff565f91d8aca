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

static int eval_empty(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *cell = run->regs[s->src];
    return PyCell_Check(cell) && PyCell_GET(cell) == NULL;
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

/* "all_distinct": the registers named in refs[0] hold different objects, of which none is in those named in refs[1], and
 * so do the dictionaries of instances. ext: the registers of both, then twice as many pointers as refs[0] has, to sort. */
typedef struct {
    Py_ssize_t n, others;
    const PyObject **sorted;
    int regs[];
} Group;

static int finish_all_distinct(Step *s, Builder *b)
{
    if (!PyTuple_CheckExact(s->refs[0]) || !PyTuple_CheckExact(s->refs[1])) {
        PyErr_SetString(PyExc_TypeError, "all_distinct: expected two tuples of registers");
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(s->refs[0]), all = n + PyTuple_GET_SIZE(s->refs[1]);
    size_t head = (sizeof(Group) + sizeof(int) * (size_t)all + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    Group *group = s->ext = PyMem_Calloc(1, head + 2 * sizeof(void *) * (size_t)n);
    if (group == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    group->n = n;
    group->others = all - n;
    group->sorted = (const PyObject **)((char *)group + head);
    for (Py_ssize_t i = 0; i < all; i++) {
        PyObject *reg = i < n ? PyTuple_GET_ITEM(s->refs[0], i) : PyTuple_GET_ITEM(s->refs[1], i - n);
        if (parse_register(reg, &group->regs[i], b) < 0) {
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

static int is_among(const Group *group, Py_ssize_t n, const PyObject *obj)
{
    return obj != NULL && bsearch(&obj, group->sorted, (size_t)n, sizeof *group->sorted, by_address) != NULL;
}

static int eval_all_distinct(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    Group *group = s->ext;
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < group->n; i++) {
        PyObject *obj = run->regs[group->regs[i]], *dict = dc_shared_dict(obj);
        group->sorted[n++] = obj;
        if (dict != NULL) {
            group->sorted[n++] = dict;
        }
    }
    qsort(group->sorted, (size_t)n, sizeof *group->sorted, by_address);
    for (Py_ssize_t i = 1; i < n; i++) {
        if (group->sorted[i] == group->sorted[i - 1]) {
            return 0;
        }
    }
    for (Py_ssize_t i = group->n; i < group->n + group->others; i++) {
        PyObject *obj = run->regs[group->regs[i]];
        if (is_among(group, n, obj) || is_among(group, n, dc_shared_dict(obj))) {
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

/* "tree": the structure of a tree (jax.tree_util.PyTreeDef) that equals refs[0], in which classes keep only
 * literals: to compare it runs no code of the program. */
static int eval_tree(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *tree = s->refs[0], *value = run->regs[s->src];
    if (tree == value || Py_TYPE(tree) != Py_TYPE(value)) {
        return tree == value;
    }
    int equal = PyObject_RichCompareBool(tree, value, Py_EQ);
    if (equal < 0) {
        PyErr_Clear();
    }
    return equal > 0;
}

/* ---- containers ---- */

/* A set's elements, or a dict's keys, in their own order (which loops see): constants by value, other
 * objects by identity, keys that are tuples of them by their items.
 * refs[0]: a pair of bytes, how each is compared, and a tuple with the holder of each. */
enum { BY_VALUE, BY_IDENTITY, BY_WEAK_IDENTITY, BY_ITEMS };

static PyObject *hold_all(PyObject *elements, bool items, Builder *b);

static int hold_one(PyObject *element, bool items, Builder *b, PyObject **holder) /* how it is compared */
{
    bool weak = false;
    if (dc_const_supported(element)) {
        *holder = Py_NewRef(element);
        return BY_VALUE;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (items && PyTuple_CheckExact(element)) {
        *holder = hold_all(element, items, b);
        return *holder ? BY_ITEMS : -1;
    }
    *holder = dc_holder(element, b, &weak);
    return *holder == NULL ? -1 : weak ? BY_WEAK_IDENTITY : BY_IDENTITY;
}

static PyObject *hold_all(PyObject *elements, bool items, Builder *b)
{
    Py_ssize_t n = PyTuple_GET_SIZE(elements);
    PyObject *kinds = PyBytes_FromStringAndSize(NULL, n), *holders = PyTuple_New(n);
    bool ok = kinds && holders;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *holder = NULL;
        int how = hold_one(PyTuple_GET_ITEM(elements, i), items, b, &holder);
        ok = how >= 0;
        if (ok) {
            PyBytes_AS_STRING(kinds)[i] = (char)how;
            PyTuple_SET_ITEM(holders, i, holder);
        }
    }
    PyObject *pair = ok ? PyTuple_Pack(2, kinds, holders) : NULL;
    Py_XDECREF(kinds);
    Py_XDECREF(holders);
    return pair;
}

static int finish_elements(Step *s, bool items, Builder *b)
{
    PyObject *elements = PySequence_Tuple(s->refs[0]);
    PyObject *pair = elements ? hold_all(elements, items, b) : NULL;
    Py_XDECREF(elements);
    Py_XSETREF(s->refs[0], pair);
    return pair ? 0 : -1;
}

static int finish_set(Step *s, Builder *b) { return finish_elements(s, false, b); }

static Py_ssize_t number_held(PyObject *pair) { return PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 0)); }

static bool held_equal(PyObject *pair, Py_ssize_t i, PyObject *value)
{
    int how = PyBytes_AS_STRING(PyTuple_GET_ITEM(pair, 0))[i];
    PyObject *held = PyTuple_GET_ITEM(PyTuple_GET_ITEM(pair, 1), i);
    if (how != BY_ITEMS) {
        return how == BY_VALUE ? dc_const_equal(held, value) : dc_held_is(held, how == BY_WEAK_IDENTITY, value);
    }
    bool same = PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == number_held(held);
    for (Py_ssize_t n = 0; same && n < PyTuple_GET_SIZE(value); n++) {
        same = held_equal(held, n, PyTuple_GET_ITEM(value, n));
    }
    return same;
}

static int eval_set(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *set = run->regs[s->src], *element;
    Py_ssize_t at = 0, i = 0, n = number_held(s->refs[0]);
    Py_hash_t hash;
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != n) {
        return 0;
    }
    for (; i < n && dc_set_next(set, &at, &element, &hash); i++) {
        if (!held_equal(s->refs[0], i, element)) {
            return 0;
        }
    }
    return i == n;
}

static PyTypeObject *deque_type;

PyTypeObject *dc_deque_type(void)
{
    if (deque_type == NULL) {
        PyObject *collections = PyImport_ImportModule("collections");
        deque_type = collections ? (PyTypeObject *)PyObject_GetAttrString(collections, "deque") : NULL;
        Py_XDECREF(collections);
    }
    return deque_type;
}

static int finish_len(Step *s, Builder *b)
{
    DC_UNUSED(s);
    DC_UNUSED(b);
    return dc_deque_type() ? 0 : -1;
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

static int finish_keys(Step *s, Builder *b) { return finish_elements(s, true, b); }

static bool ordered_keys_equal(PyObject *dict, PyObject *keys) /* an OrderedDict keeps its own order */
{
    PyObject *it = PyODict_Type.tp_iter(dict);
    bool ok = it != NULL;
    for (Py_ssize_t i = 0; ok && i < number_held(keys); i++) {
        PyObject *key = PyIter_Next(it);
        ok = key && held_equal(keys, i, key);
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
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != number_held(keys)) {
        return 0;
    }
    if (PyODict_Check(dict)) {
        return ordered_keys_equal(dict, keys);
    }
    Py_ssize_t at = 0, i = 0;
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (i >= number_held(keys) || !held_equal(keys, i++, key)) {
            return 0;
        }
    }
    return 1;
}

/* "names": the keys of a dict are these strings, in whatever order. refs[0]: a tuple. */
static int finish_names(Step *s, Builder *b)
{
    DC_UNUSED(b);
    Py_XSETREF(s->refs[0], PySequence_Tuple(s->refs[0]));
    return s->refs[0] ? 0 : -1;
}

static int eval_names(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *dict = run->regs[s->src], *names = s->refs[0], *key;
    Py_ssize_t at = 0, n = PyTuple_GET_SIZE(names), i = 0;
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != n) {
        return 0;
    }
    bool in_order = true; /* most often they stand as they stood */
    for (; PyDict_Next(dict, &at, &key, NULL); i++) {
        if (!PyUnicode_CheckExact(key)) { /* another class may compare in code of the program */
            return 0;
        }
        in_order = in_order && key == PyTuple_GET_ITEM(names, i);
    }
    for (i = 0; !in_order && i < n; i++) {
        if (PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(names, i)) == NULL) {
            PyErr_Clear();
            return 0;
        }
    }
    return 1;
}

/* ---- absence ---- */

static int eval_missing(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    return dc_instance_lacks(run->regs[s->src], s->refs[0], s->hash, &s->at, &s->tag);
}

static int not_in(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    if (!PyDict_Check(dict) || _PyDict_GetItem_KnownHash(dict, key, hash)) {
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
    s->hash = PyObject_Hash(s->refs[0]);
    return s->hash == -1 ? -1 : dc_finish_weakly(s, b);
}

static int lacks(Step *s, PyObject *dict, PyObject *key) /* dicts of the same version hold the same */
{
    uint64_t now = PyDict_Check(dict) ? dc_dict_version(dict) : 0;
    if (now != 0 && now == s->tag) {
        return 1;
    }
    int holds = not_in(dict, key, s->hash);
    s->tag = holds ? now : 0;
    return holds;
}

static int eval_missing_key(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    PyObject *key = dc_held(s);
    return key && lacks(s, run->regs[s->src], key);
}

static int eval_missing_global(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(run);
    return lacks(s, call->func->func_globals, s->refs[0]);
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
    {"empty", "s", eval_empty, NULL},
    {"same", "sn", eval_same, finish_pair},
    {"distinct", "sn", eval_distinct, finish_pair},
    {"all_distinct", "oo", eval_all_distinct, finish_all_distinct},
    {"eq", "so", eval_eq, finish_eq},
    {"tree", "so", eval_tree, NULL},
    {"set", "so", eval_set, finish_set},
    {"len", "sn", eval_len, finish_len},
    {"keys", "so", eval_keys, finish_keys},
    {"names", "so", eval_names, finish_names},
    {"missing", "su", eval_missing, NULL},
    {"missing_key", "so", eval_missing_key, finish_missing_key},
    {"missing_global", "u", eval_missing_global, NULL},
    {"type_unchanged", "soo", eval_type_unchanged, finish_unchanged},
    {"names_unchanged", "soo", eval_names_unchanged, finish_unchanged},
    {"jax_config", "o", dc_jax_config_eval, dc_jax_config_finish},
    {NULL, NULL, NULL, NULL},
};
