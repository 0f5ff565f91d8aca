/* Hashes that dicts and sets remember, so that nobody asks a key for its hash again.
 *
 * A key's `__hash__` is the program's code: it ran once, when the key was put in. Captured code must
 * neither run it when it looks into a dict nor when it puts one together again.
 */
#include "native.h"

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
    PyObject *plain = PyDict_Check(obj) ? PyDict_Copy(obj) : NULL; /* a set of an exact dict takes its hashes over */
    PyObject *keys = !PyDict_Check(obj) ? Py_NewRef(obj) : plain ? PySet_New(plain) : NULL;
    PyObject *found = keys ? PyList_New(0) : NULL, *key;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    while (found && dc_set_next(keys, &at, &key, &hash)) {
        if (append(found, key, hash) < 0) {
            Py_CLEAR(found);
        }
    }
    Py_XDECREF(keys);
    Py_XDECREF(plain);
    return found;
}

PyObject *dc_known_dict(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *keys, *hashes, *values;
    if (!PyArg_ParseTuple(args, "O!O!O!:known_dict", &PyTuple_Type, &keys, &PyTuple_Type, &hashes, &PyTuple_Type,
                          &values)) {
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    if (PyTuple_GET_SIZE(hashes) != n || PyTuple_GET_SIZE(values) != n) {
        PyErr_SetString(PyExc_ValueError, "known_dict: as many keys as hashes and values, please");
        return NULL;
    }
    PyObject *made = PyDict_New();
    for (Py_ssize_t i = 0; made && i < n; i++) {
        Py_hash_t hash = PyLong_AsSsize_t(PyTuple_GET_ITEM(hashes, i));
        if ((hash == -1 && PyErr_Occurred()) ||
            dc_dict_set(made, PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(values, i), hash) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}
