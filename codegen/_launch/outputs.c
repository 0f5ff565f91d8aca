/* Outputs: memory for the native code to write, then jax Arrays over it, without a copy. */
#include "launch.h"

int take_outputs(call_t *call)
{
    if (take_stock(call))
        return -1;
    for (Py_ssize_t k = 0; k < call->plan->n_outputs; k++) {
        if (call->made[k])
            continue;
        Block *block = Block_new(call->plan->outputs[k].bytes);
        if (!block)
            return -1;
        call->made[k] = (PyObject *)block;
        call->outputs[k] = block->data;
    }
    return 0;
}

/* ---- wrapping ---- */

/* A jax Array over the Block of output k. */
static PyObject *wrap_block(const call_t *call, Py_ssize_t k)
{
    Program *p = call->program;
    output_t *o = &call->plan->outputs[k];
    PyObject *view[4] = {NULL, o->shape, o->dtype, call->made[k]};
    PyObject *array = PyObject_Vectorcall(jax.ndarray, view + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (!array)
        return NULL;
    PyObject *list = PyList_New(1), *result = NULL;
    if (list) {
        PyList_SET_ITEM(list, 0, array);
        PyObject *args[6] = {NULL, o->aval, p->sharding, list, p->devices, call->committed ? Py_True : Py_False};
        result = PyObject_Vectorcall(jax.put, args + 1, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, jax.put_names);
        Py_DECREF(list);
    } else {
        Py_DECREF(array);
    }
    return result;
}

PyObject *wrap_outputs(call_t *call)
{
    PyObject *results = PyTuple_New(call->plan->n_outputs);
    for (Py_ssize_t k = 0; results && k < call->plan->n_outputs; k++) {
        PyObject *made = call->made[k];
        PyObject *array = Py_IS_TYPE(made, &BlockType) ? wrap_block(call, k) : Py_NewRef(made);
        if (array)
            PyTuple_SET_ITEM(results, k, array);
        else
            Py_CLEAR(results);
    }
    return results;
}
