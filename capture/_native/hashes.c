/* Hashes that dicts and sets remember, so that nobody asks a key for its hash, or whether it equals another.
 *
 * A key's `__hash__` and `__eq__` are the program's code: they ran when the key was put in. Captured code
 * must neither run them when it looks into a dict nor when it puts one together again. So it is put together
 * of stand-ins, which have the hashes of the keys and equal nothing but themselves, and which then make room.
 */
#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *key;
    Py_hash_t hash;
} Stand;

static Py_hash_t stand_hash(PyObject *self)
{
    return ((Stand *)self)->hash;
}

static void stand_dealloc(PyObject *self)
{
    Py_XDECREF(((Stand *)self)->key);
    PyObject_Free(self);
}

PyTypeObject Stand_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynacomp.capture._native.Stand",
    .tp_doc = "Stands for a key while a dict or set is filled.",
    .tp_basicsize = sizeof(Stand),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_hash = stand_hash,
    .tp_dealloc = stand_dealloc,
};

/* A stand-in for `key`, whose hash is the int `hash`, or, where that is None, what the key says. */
static PyObject *stand_for(PyObject *key, PyObject *hash)
{
    Py_hash_t known = hash == Py_None ? PyObject_Hash(key) : PyLong_AsSsize_t(hash);
    Stand *made = known == -1 && PyErr_Occurred() ? NULL : PyObject_New(Stand, &Stand_Type);
    if (made) {
        made->key = Py_NewRef(key);
        made->hash = known;
    }
    return (PyObject *)made;
}

PyObject *dc_stood_for(PyObject *stand)
{
    PyObject *key = Py_NewRef(((Stand *)stand)->key);
    Py_DECREF(stand);
    return key;
}

/* Appends (key, hash). */
static int append(PyObject *list, PyObject *key, Py_hash_t hash)
{
    PyObject *pair = Py_BuildValue("(On)", key, hash);
    int bad = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    return bad;
}

PyObject *dc_known_hashes(PyObject *module, PyObject *obj)
{
    DC_UNUSED(module);
    if (!PyDict_Check(obj) && !PyAnySet_Check(obj)) {
        PyErr_Format(PyExc_TypeError, "known_hashes: expected a dict or a set, got %R", obj);
        return NULL;
    }
    PyObject *found = PyList_New(0), *key;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    int (*next)(PyObject *, Py_ssize_t *, PyObject **, Py_hash_t *) = PyDict_Check(obj) ? dc_dict_next : dc_set_next;
    while (found && next(obj, &at, &key, &hash)) {
        if (append(found, key, hash) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* Three tuples, as long as each other; -1 and ValueError if not. `values` may be NULL. */
static Py_ssize_t length(const char *who, PyObject *keys, PyObject *hashes, PyObject *values)
{
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    if (PyTuple_GET_SIZE(hashes) != n || (values && PyTuple_GET_SIZE(values) != n)) {
        PyErr_Format(PyExc_ValueError, "%s: as many keys as hashes and values, please", who);
        return -1;
    }
    return n;
}

PyObject *dc_known_dict(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *keys, *hashes, *values;
    if (!PyArg_ParseTuple(args, "O!O!O!:known_dict", &PyTuple_Type, &keys, &PyTuple_Type, &hashes, &PyTuple_Type,
                          &values)) {
        return NULL;
    }
    Py_ssize_t n = length("known_dict", keys, hashes, values);
    PyObject *made = n < 0 ? NULL : PyDict_New();
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *stand = stand_for(PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(hashes, i));
        if (!stand || PyDict_SetItem(made, stand, PyTuple_GET_ITEM(values, i)) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(stand);
    }
    if (made && n > 0) {
        dc_dict_replace_keys(made, dc_stood_for);
    }
    return made;
}

PyObject *dc_known_set(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *elements, *hashes;
    if (!PyArg_ParseTuple(args, "O!O!:known_set", &PyTuple_Type, &elements, &PyTuple_Type, &hashes)) {
        return NULL;
    }
    Py_ssize_t n = length("known_set", elements, hashes, NULL);
    PyObject *made = n < 0 ? NULL : PySet_New(NULL);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *stand = stand_for(PyTuple_GET_ITEM(elements, i), PyTuple_GET_ITEM(hashes, i));
        if (!stand || PySet_Add(made, stand) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(stand);
    }
    if (made) {
        PySetObject *set = (PySetObject *)made;
        for (Py_ssize_t i = 0; i <= set->mask; i++) {
            if (set->table[i].key) { /* a set that nothing was taken from has no dummies */
                set->table[i].key = dc_stood_for(set->table[i].key);
            }
        }
    }
    return made;
}
