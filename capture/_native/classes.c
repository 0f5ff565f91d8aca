/* Classes that are not to be seen: what the capture makes to look things up in, see capture/wrapping/class_prototypes.py. */
#include "native.h"

/* Of other classes, those that every interpreter has, it is kept elsewhere since 3.12. */
static bool keeps_subclasses(PyTypeObject *base)
{
    return PY_VERSION_HEX < 0x030c0000 || PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE);
}

/* Takes cls out of what its bases say of their subclasses. When it dies, `type` finds nothing there, and is content. */
PyObject *dc_hide_subclass(PyObject *module, PyObject *cls)
{
    DC_UNUSED(module);
    if (!PyType_Check(cls) || !PyType_HasFeature((PyTypeObject *)cls, Py_TPFLAGS_HEAPTYPE)) {
        PyErr_SetString(PyExc_TypeError, "expected a class made by a class statement");
        return NULL;
    }
    PyObject *bases = ((PyTypeObject *)cls)->tp_bases;
    PyObject *key = PyLong_FromVoidPtr(cls);
    if (key == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(bases, i);
        PyObject *known = keeps_subclasses(base) ? (PyObject *)base->tp_subclasses : NULL;
        if (known == NULL) {
            continue;
        }
        int found = PyDict_Contains(known, key);
        if (found < 0 || (found && PyDict_DelItem(known, key) < 0)) {
            Py_DECREF(key);
            return NULL;
        }
    }
    Py_DECREF(key);
    Py_RETURN_NONE;
}
