/* Plans: what one set of sizes needs. A Program keeps the last few, the last used first. */
#include "launch.h"

#include <string.h>

enum { PLANS_KEPT = 64, STOCKED_BYTES = 1 << 16 };

static void Plan_dealloc(PyObject *self)
{
    Plan *p = (Plan *)self;
    for (Py_ssize_t k = 0; p->outputs && k < p->n_outputs; k++) {
        Py_XDECREF(p->outputs[k].aval);
        Py_XDECREF(p->outputs[k].shape);
        Py_XDECREF(p->outputs[k].dtype);
    }
    Py_XDECREF(p->refill);
    stock_clear(&p->stock[0]);
    stock_clear(&p->stock[1]);
    PyMem_Free(p->outputs);
    PyMem_Free(p->sizes);
    Py_TYPE(self)->tp_free(self);
}
PyTypeObject PlanType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.codegen._launch.Plan",
    .tp_basicsize = sizeof(Plan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = Plan_dealloc,
};

/* The output descriptions that Python made: ((aval, shape, dtype, bytes), ...). */
static int fill_plan(Plan *plan, PyObject *rows)
{
    if (!PyTuple_Check(rows) || PyTuple_GET_SIZE(rows) != plan->n_outputs) {
        PyErr_SetString(PyExc_TypeError, "plan must return one row for each output");
        return -1;
    }
    for (Py_ssize_t k = 0; k < plan->n_outputs; k++) {
        output_t *o = &plan->outputs[k];
        Py_ssize_t bytes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, k), "OO!On", &o->aval, &PyTuple_Type, &o->shape, &o->dtype,
                              &bytes)) {
            o->aval = o->shape = o->dtype = NULL;
            return -1;
        }
        Py_INCREF(o->aval);
        Py_INCREF(o->shape);
        Py_INCREF(o->dtype);
        o->bytes = (size_t)bytes;
        o->stocked = bytes > 0 && bytes <= STOCKED_BYTES;
        plan->n_stocked += o->stocked;
    }
    return 0;
}

static Plan *new_plan(Program *p, const int64_t *sizes)
{
    Plan *plan = PyObject_NewVar(Plan, &PlanType, 0);
    int64_t *dims = PyMem_Calloc((size_t)p->n_dims + 1, sizeof *dims);
    PyObject *list = PyTuple_New(p->n_sizes + p->n_dims), *rows = NULL;
    if (plan)
        memset((char *)plan + sizeof(PyVarObject), 0, sizeof *plan - sizeof(PyVarObject));
    if (!plan || !dims || !list)
        goto error;
    plan->count = p->n_sizes;
    plan->n_outputs = p->n_outputs;
    plan->sizes = PyMem_Calloc((size_t)p->n_sizes + 1, sizeof(int64_t));
    plan->outputs = PyMem_Calloc((size_t)p->n_outputs + 1, sizeof(output_t));
    if (!plan->sizes || !plan->outputs)
        goto error;
    if (p->n_sizes)
        memcpy(plan->sizes, sizes, (size_t)p->n_sizes * sizeof *sizes);
    p->shapes(sizes, dims);
    plan->arena = (size_t)dims[0];
    for (Py_ssize_t k = 0; k < p->n_sizes + p->n_dims; k++) {
        PyObject *dim = PyLong_FromLongLong(k < p->n_sizes ? sizes[k] : dims[k - p->n_sizes + 1]);
        if (!dim)
            goto error;
        PyTuple_SET_ITEM(list, k, dim);
    }
    rows = PyObject_CallOneArg(p->plan, list);
    if (!rows || fill_plan(plan, rows) || PyList_Insert(p->plans, 0, (PyObject *)plan))
        goto error;
    if (PyList_GET_SIZE(p->plans) > PLANS_KEPT &&
        PyList_SetSlice(p->plans, PLANS_KEPT, PyList_GET_SIZE(p->plans), NULL))
        goto error;
    Py_DECREF(rows);
    Py_DECREF(list);
    PyMem_Free(dims);
    return plan;
error:
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(rows);
    Py_XDECREF(list);
    PyMem_Free(dims);
    Py_XDECREF(plan);
    return NULL;
}

Plan *find_plan(Program *p, const int64_t *sizes)
{
    size_t bytes = (size_t)p->n_sizes * sizeof *sizes;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(p->plans); k++) {
        Plan *plan = (Plan *)PyList_GET_ITEM(p->plans, k);
        if (bytes && memcmp(plan->sizes, sizes, bytes))
            continue;
        Py_INCREF(plan);
        if (k == 0)
            return plan;
        if (PyList_SetSlice(p->plans, k, k + 1, NULL) || PyList_Insert(p->plans, 0, (PyObject *)plan)) {
            Py_DECREF(plan);
            return NULL;
        }
        return plan;
    }
    return new_plan(p, sizes);
}
