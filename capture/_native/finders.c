/* What replacement code finds objects with, and stores attributes with: helpers that every effect of a call goes through.
 *
 *   Held(obj), unhold(x)               an object as a constant of code (which must be hashable), and the object again
 *   own_attribute(obj, name)           the instance's (module's, class's) own entry
 *   item(obj, index), key(obj, key)    of tuples, lists, deques; of dicts: past what a class overrides
 *   write_attribute(obj, name, value)  past the class' `__setattr__`
 *   set_attribute(obj, name, value)    the same of an object that the call has made, exceptions included
 *   own_table(obj)                     the dictionary of an instance, past the class' `__getattribute__`
 *   arrange(obj, names)                puts the attributes of an instance into this order
 *   dict_of(keys, values)
 *
 * None runs code of the program that the original would not have run.
 */
#include "native.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *obj;
} Held;

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *obj;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "O:Held", &obj)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Held() takes no keyword arguments");
    }
    Held *self = (Held *)type->tp_alloc(type, 0);
    if (self) {
        self->obj = Py_NewRef(obj);
    }
    return (PyObject *)self;
}

static int held_traverse(Held *self, visitproc visit, void *arg)
{
    Py_VISIT(self->obj);
    return 0;
}

static int held_clear(Held *self)
{
    Py_CLEAR(self->obj);
    return 0;
}

static void held_dealloc(Held *self)
{
    PyObject_GC_UnTrack(self);
    held_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef held_members[] = {
    {"obj", T_OBJECT_EX, offsetof(Held, obj), READONLY, "The object."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Held_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.Held",
    .tp_doc = "Held(obj)\n\nAn object as a constant of a code object, whose constants must be hashable.",
    .tp_basicsize = sizeof(Held),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = held_new,
    .tp_dealloc = (destructor)held_dealloc,
    .tp_traverse = (traverseproc)held_traverse,
    .tp_clear = (inquiry)held_clear,
    .tp_members = held_members,
};

static PyObject *inside(PyObject *obj) { return Py_IS_TYPE(obj, &Held_Type) ? ((Held *)obj)->obj : obj; }

PyObject *dc_unhold(PyObject *module, PyObject *obj)
{
    DC_UNUSED(module);
    return Py_NewRef(inside(obj));
}

static bool given(const char *who, Py_ssize_t nargs, Py_ssize_t wanted)
{
    if (nargs != wanted) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", who, wanted, nargs);
    }
    return nargs == wanted;
}

PyObject *dc_own_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    if (!given("own_attribute", nargs, 2)) {
        return NULL;
    }
    Py_ssize_t at = -2; /* nobody remembers where it stood */
    Py_hash_t hash = PyObject_Hash(args[1]);
    PyObject *found = hash == -1 ? NULL : dc_instance_get(inside(args[0]), args[1], hash, &at);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, args[1]);
    }
    return found;
}

PyObject *dc_item(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    Py_ssize_t i = given("item", nargs, 2) ? PyNumber_AsSsize_t(args[1], PyExc_IndexError) : -1;
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *obj = args[0];
    PyTypeObject *kind = PyTuple_Check(obj) ? &PyTuple_Type : PyList_Check(obj) ? &PyList_Type : dc_deque_type();
    if (kind == NULL) {
        return NULL;
    }
    if (!PyObject_TypeCheck(obj, kind)) {
        return PyErr_Format(PyExc_TypeError, "a %s has no items that can be read without user code", Py_TYPE(obj)->tp_name);
    }
    return kind->tp_as_sequence->sq_item(obj, i < 0 ? i + Py_SIZE(obj) : i);
}

PyObject *dc_key(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    PyObject *obj = given("key", nargs, 2) ? inside(args[0]) : NULL;
    if (obj && !PyDict_Check(obj)) {
        return PyErr_Format(PyExc_TypeError, "a %s is no dict", Py_TYPE(obj)->tp_name);
    }
    return obj ? PyDict_Type.tp_as_mapping->mp_subscript(obj, args[1]) : NULL;
}

/* What stores and finds the attributes of `object`, and of thread local objects; borrowed. */
typedef struct {
    PyObject *set, *get;
} Access;

static bool import_access(Access *access, PyObject *cls)
{
    access->get = PyObject_GetAttrString(cls, "__getattribute__");
    access->set = access->get ? PyObject_GetAttrString(cls, "__setattr__") : NULL;
    return access->set != NULL;
}

static const Access *access_of(PyObject *obj)
{
    static Access plain, of_local;
    static PyObject *local, *dict_name;
    if (plain.set == NULL) {
        PyObject *threading = PyImport_ImportModule("_thread");
        local = threading ? PyObject_GetAttrString(threading, "_local") : NULL;
        dict_name = PyUnicode_InternFromString("__dict__");
        Py_XDECREF(threading);
        if (!local || !dict_name || !import_access(&of_local, local) ||
            !import_access(&plain, (PyObject *)&PyBaseObject_Type)) {
            return NULL;
        }
    }
    return PyObject_TypeCheck(obj, (PyTypeObject *)local) ? &of_local : &plain;
}

PyObject *dc_write_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    const Access *access = given("write_attribute", nargs, 3) ? access_of(args[0]) : NULL;
    return access ? PyObject_Vectorcall(access->set, args, 3, NULL) : NULL;
}

PyObject *dc_set_attribute(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (!given("set_attribute", nargs, 3)) {
        return NULL;
    }
    const char *name = PyUnicode_Check(args[1]) ? PyUnicode_AsUTF8(args[1]) : NULL;
    if (name == NULL) {
        PyErr_Clear(); /* a name that is no UTF-8 */
    }
    if (name && strncmp(name, "__", 2) == 0 && PyExceptionInstance_Check(args[0])) { /* `__cause__` and the like */
        return PyObject_SetAttr(args[0], args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
    }
    return dc_write_attribute(module, args, nargs);
}

PyObject *dc_own_table(PyObject *module, PyObject *obj)
{
    DC_UNUSED(module);
    static PyObject *name;
    const Access *access = access_of(obj);
    if (name == NULL) {
        name = PyUnicode_InternFromString("__dict__");
    }
    PyObject *args[] = {obj, name};
    return access && name ? PyObject_Vectorcall(access->get, args, 2, NULL) : NULL;
}

static bool in_order(PyObject *table, PyObject *names)
{
    PyObject *key;
    Py_ssize_t at = 0, i = 0, n = PyTuple_GET_SIZE(names);
    while (PyDict_Next(table, &at, &key, NULL)) {
        if (i == n || key != PyTuple_GET_ITEM(names, i++)) {
            return false;
        }
    }
    return i == n;
}

/* Takes an attribute out and puts it back: behind all others. */
static int put_last(PyObject *table, PyObject *name)
{
    PyObject *value = PyDict_GetItemWithError(table, name);
    if (value == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetObject(PyExc_KeyError, name);
        }
        return -1;
    }
    Py_INCREF(value);
    int bad = PyDict_DelItem(table, name) < 0 || PyDict_SetItem(table, name, value) < 0 ? -1 : 0;
    Py_DECREF(value);
    return bad;
}

PyObject *dc_arrange(PyObject *module, PyObject *args)
{
    PyObject *obj, *names;
    if (!PyArg_ParseTuple(args, "OO!:arrange", &obj, &PyTuple_Type, &names)) {
        return NULL;
    }
    PyObject *table = dc_own_table(module, obj);
    bool ok = table && PyDict_Check(table);
    for (Py_ssize_t i = 0; ok && !in_order(table, names) && i < PyTuple_GET_SIZE(names); i++) {
        ok = put_last(table, PyTuple_GET_ITEM(names, i)) == 0;
    }
    Py_XDECREF(table);
    if (!ok && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "arrange: the object's attributes are in no dict");
    }
    return ok ? Py_NewRef(Py_None) : NULL;
}

PyObject *dc_dict_of(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    PyObject *keys, *values;
    if (!PyArg_ParseTuple(args, "O!O!:dict_of", &PyTuple_Type, &keys, &PyTuple_Type, &values)) {
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    if (PyTuple_GET_SIZE(values) != n) {
        return PyErr_Format(PyExc_ValueError, "dict_of: %zd keys and %zd values", n, PyTuple_GET_SIZE(values));
    }
    PyObject *made = PyDict_New();
    for (Py_ssize_t i = 0; made && i < n; i++) {
        if (PyDict_SetItem(made, PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(values, i)) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}
