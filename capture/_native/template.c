/* The template that turns a program's flat outputs into what the user's function returns.
 *
 *     ("tuple", [t, ...])  ("list", [t, ...])  ("dict", [keys], [t, ...])
 *     ("out", i)           the i-th output of the program
 *     ("reg", r)           the value of register r, the very object that was passed in
 *     ("const", obj)       obj
 *     ("call", callable, [t, ...], {name: t})   callable(*args, **kwargs)
 */
#include "native.h"

#include <string.h>

typedef enum { T_TUPLE, T_LIST, T_DICT, T_OUT, T_REG, T_CONST, T_CALL } TemplateKind;
struct Template {
    TemplateKind kind;
    Py_ssize_t index;     /* out, reg; call: how many of the children are positional */
    PyObject *obj;        /* const; call: the callable */
    PyObject *names;      /* dict: keys; call: keyword names */
    Py_ssize_t nchildren;
    Template **children;
    int refs; /* a call keeps the template that it builds from, come what may */
};

Template *dc_template_keep(Template *t)
{
    if (t) {
        t->refs++;
    }
    return t;
}

static int parse_children(Template *t, PyObject *list, int nregs)
{
    PyObject *items = PySequence_Tuple(list);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    Template **grown = PyMem_Realloc(t->children, sizeof(Template *) * (size_t)(t->nchildren + n + 1));
    if (grown == NULL) {
        Py_DECREF(items);
        PyErr_NoMemory();
        return -1;
    }
    t->children = grown;
    for (Py_ssize_t i = 0; i < n; i++) {
        Template *child = dc_template_parse(PyTuple_GET_ITEM(items, i), nregs);
        if (child == NULL) {
            Py_DECREF(items);
            return -1;
        }
        t->children[t->nchildren++] = child;
    }
    Py_DECREF(items);
    return 0;
}

static int parse_sequence(Template *t, PyObject *spec, int nregs)
{
    return parse_children(t, PyTuple_GET_ITEM(spec, 1), nregs);
}

static int parse_dict(Template *t, PyObject *spec, int nregs)
{
    t->names = PySequence_Tuple(PyTuple_GET_ITEM(spec, 1));
    if (!t->names || parse_children(t, PyTuple_GET_ITEM(spec, 2), nregs) < 0) {
        return -1;
    }
    if (PyTuple_GET_SIZE(t->names) != t->nchildren) {
        PyErr_SetString(PyExc_ValueError, "template: a dict has as many values as keys");
        return -1;
    }
    return 0;
}

static int parse_number(Template *t, PyObject *spec, int nregs)
{
    t->index = PyNumber_AsSsize_t(PyTuple_GET_ITEM(spec, 1), PyExc_OverflowError);
    if (t->index < 0 || (t->kind == T_REG && t->index >= nregs)) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "template: there is no %R", spec);
        }
        return -1;
    }
    return 0;
}

static int parse_const(Template *t, PyObject *spec, int nregs)
{
    DC_UNUSED(nregs);
    t->obj = Py_NewRef(PyTuple_GET_ITEM(spec, 1));
    return 0;
}

static int parse_call(Template *t, PyObject *spec, int nregs)
{
    PyObject *kwargs = PyTuple_GET_ITEM(spec, 3);
    t->obj = Py_NewRef(PyTuple_GET_ITEM(spec, 1));
    if (!PyDict_Check(kwargs) || parse_children(t, PyTuple_GET_ITEM(spec, 2), nregs) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "template: keyword arguments come as a dict");
        }
        return -1;
    }
    t->index = t->nchildren;
    PyObject *values = PyDict_Values(kwargs);
    int bad = values ? parse_children(t, values, nregs) : -1;
    Py_XDECREF(values);
    if (!bad && PyDict_GET_SIZE(kwargs)) {
        t->names = PySequence_Tuple(kwargs);
        bad = t->names ? 0 : -1;
    }
    return bad;
}

static const struct { const char *name; TemplateKind kind; int size;
                      int (*parse)(Template *, PyObject *, int); } rows[] = {
    {"tuple", T_TUPLE, 2, parse_sequence}, {"list", T_LIST, 2, parse_sequence},
    {"dict", T_DICT, 3, parse_dict},       {"out", T_OUT, 2, parse_number},
    {"reg", T_REG, 2, parse_number},       {"const", T_CONST, 2, parse_const},
    {"call", T_CALL, 4, parse_call},
};

Template *dc_template_parse(PyObject *spec, int nregs)
{
    PyObject *name = PyTuple_Check(spec) && PyTuple_GET_SIZE(spec) ? PyTuple_GET_ITEM(spec, 0) : NULL;
    for (size_t i = 0; name && PyUnicode_Check(name) && i < sizeof rows / sizeof *rows; i++) {
        if (PyUnicode_CompareWithASCIIString(name, rows[i].name) || PyTuple_GET_SIZE(spec) != rows[i].size) {
            continue;
        }
        Template *t = PyMem_Calloc(1, sizeof *t);
        if (t == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        t->kind = rows[i].kind;
        t->refs = 1;
        if (rows[i].parse(t, spec, nregs) < 0) {
            dc_template_free(t);
            return NULL;
        }
        return t;
    }
    PyErr_Format(PyExc_ValueError, "template: expected (kind, ...), got %R", spec);
    return NULL;
}

void dc_template_free(Template *t)
{
    if (t == NULL || --t->refs > 0) {
        return;
    }
    for (Py_ssize_t i = 0; i < t->nchildren; i++) {
        dc_template_free(t->children[i]);
    }
    PyMem_Free(t->children);
    Py_XDECREF(t->obj);
    Py_XDECREF(t->names);
    PyMem_Free(t);
}

void dc_template_mark(const Template *t, bool *wanted)
{
    for (Py_ssize_t i = 0; t && i < t->nchildren; i++) {
        dc_template_mark(t->children[i], wanted);
    }
    if (t && t->kind == T_REG) {
        wanted[t->index] = true;
    }
}

int dc_template_traverse(const Template *t, visitproc visit, void *arg)
{
    if (t == NULL) {
        return 0;
    }
    Py_VISIT(t->obj);
    Py_VISIT(t->names);
    for (Py_ssize_t i = 0; i < t->nchildren; i++) {
        int stop = dc_template_traverse(t->children[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

/* ---- building ---- */

static PyObject *build_tuple(const Template *t, PyObject *outs, const Run *run)
{
    PyObject *tuple = PyTuple_New(t->nchildren);
    for (Py_ssize_t i = 0; tuple && i < t->nchildren; i++) {
        PyObject *value = dc_template_build(t->children[i], outs, run);
        if (value == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}

static PyObject *build_list(const Template *t, PyObject *outs, const Run *run)
{
    PyObject *list = PyList_New(t->nchildren);
    for (Py_ssize_t i = 0; list && i < t->nchildren; i++) {
        PyObject *value = dc_template_build(t->children[i], outs, run);
        if (value == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, value);
    }
    return list;
}

static PyObject *build_dict(const Template *t, PyObject *outs, const Run *run)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < t->nchildren; i++) {
        PyObject *value = dc_template_build(t->children[i], outs, run);
        if (!value || PyDict_SetItem(dict, PyTuple_GET_ITEM(t->names, i), value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *build_call(const Template *t, PyObject *outs, const Run *run)
{
    PyObject *args = build_tuple(t, outs, run);
    if (args == NULL) {
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(t->obj, ((PyTupleObject *)args)->ob_item, (size_t)t->index, t->names);
    Py_DECREF(args);
    return result;
}

static PyObject *build_out(const Template *t, PyObject *outs)
{
    if (!outs || !PyTuple_Check(outs)) {
        PyErr_Format(PyExc_TypeError, "a compiled program returns a tuple, got %R", outs ? outs : Py_None);
        return NULL;
    }
    return Py_XNewRef(PyTuple_GetItem(outs, t->index));
}

PyObject *dc_template_build(const Template *t, PyObject *outs, const Run *run)
{
    switch (t->kind) {
    case T_TUPLE: return build_tuple(t, outs, run);
    case T_LIST: return build_list(t, outs, run);
    case T_DICT: return build_dict(t, outs, run);
    case T_OUT: return build_out(t, outs);
    case T_CONST: return Py_NewRef(t->obj);
    case T_CALL: return build_call(t, outs, run);
    case T_REG:
        if (run->regs[t->index]) {
            return Py_NewRef(run->regs[t->index]);
        }
    }
    PyErr_Format(PyExc_SystemError, "template: register %zd holds no value", t->index);
    return NULL;
}
