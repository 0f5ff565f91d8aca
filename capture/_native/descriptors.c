/* Parts: holds a descriptor, which cannot be referred to weakly, by its address and by what is in it.
 *
 * A property leads to its functions, these to their globals, and so to the code that has the guard: held
 * strongly it would live for ever. What has the same address, type and functions is the same descriptor, or
 * one that nobody can tell from it.
 */
#include "native.h"

#include <string.h>

enum { MOST_PARTS = 3 };

typedef struct {
    PyTypeObject *type;
    const char *names[MOST_PARTS];
} Row;

static const Row rows[] = {
    {&PyProperty_Type, {"fget", "fset", "fdel"}},
    {&PyStaticMethod_Type, {"__func__"}},
    {&PyClassMethod_Type, {"__func__"}},
    {&PyMemberDescr_Type, {"__objclass__", "__name__"}},
    {&PyGetSetDescr_Type, {"__objclass__", "__name__"}},
};

typedef struct {
    PyObject_HEAD
    const PyObject *address;
    const Row *row;
    PyObject *parts[MOST_PARTS]; /* holders */
    bool weak[MOST_PARTS];
} Parts;

static const Row *row_of(PyObject *obj)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (Py_IS_TYPE(obj, rows[i].type)) {
            return &rows[i];
        }
    }
    return NULL;
}

bool dc_has_parts(PyObject *obj) { return row_of(obj) != NULL; }

PyObject *dc_parts_new(PyObject *obj, Builder *builder)
{
    const Row *row = row_of(obj);
    Parts *self = PyObject_New(Parts, &Parts_Type);
    if (self == NULL) {
        return NULL;
    }
    self->address = obj;
    self->row = row;
    memset(self->parts, 0, sizeof self->parts);
    for (int i = 0; i < MOST_PARTS && row->names[i]; i++) {
        PyObject *part = PyObject_GetAttrString(obj, row->names[i]);
        self->parts[i] = part ? dc_holder(part, builder, &self->weak[i]) : NULL;
        Py_XDECREF(part);
        if (self->parts[i] == NULL) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static bool part_is(const Parts *self, int i, PyObject *value)
{
    PyObject *part = PyObject_GetAttrString(value, self->row->names[i]);
    bool same = part && dc_held_is(self->parts[i], self->weak[i], part);
    Py_XDECREF(part);
    PyErr_Clear();
    return same;
}

bool dc_parts_are(PyObject *holder, PyObject *value)
{
    const Parts *self = (Parts *)holder;
    if (self->address != value || !Py_IS_TYPE(value, self->row->type)) {
        return false;
    }
    for (int i = 0; i < MOST_PARTS && self->row->names[i]; i++) {
        if (!part_is(self, i, value)) {
            return false;
        }
    }
    return true;
}

static void parts_dealloc(Parts *self)
{
    for (int i = 0; i < MOST_PARTS; i++) {
        Py_CLEAR(self->parts[i]);
    }
    PyObject_Free(self);
}

PyTypeObject Parts_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.Parts",
    .tp_basicsize = sizeof(Parts),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)parts_dealloc,
};
