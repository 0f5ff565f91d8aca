/* run_segment(segment, state, sent): segment(*state, sent), for the driver of a generator.
 *
 * The driver has no other use for `state`: where nobody else holds the tuple, its elements are handed
 * over (see `Handed`), so that what the segment deletes is deleted.
 */
#include "native.h"

static void move_items(PyObject *state, PyObject **slots, bool ours)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(state); i++) {
        slots[i] = PyTuple_GET_ITEM(state, i);
        if (ours) {
            PyTuple_SET_ITEM(state, i, Py_NewRef(Py_None));
        }
        else {
            Py_INCREF(slots[i]);
        }
    }
}

static PyObject *run_slots(PyObject *segment, PyObject **slots, Py_ssize_t n)
{
    if (Py_IS_TYPE(segment, &CompiledFunction_Type)) {
        return dc_call_compiled(segment, slots, n);
    }
    return dc_call_handing(segment, slots, n);
}

PyObject *dc_run_segment(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    if (nargs != 3 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "run_segment(segment, state: tuple, sent)");
        return NULL;
    }
    PyObject *small[32], **slots = small;
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]) + 1;
    if (n > 32 && (slots = PyMem_New(PyObject *, n)) == NULL) {
        return PyErr_NoMemory();
    }
    move_items(args[1], slots, Py_REFCNT(args[1]) == 1);
    slots[n - 1] = Py_NewRef(args[2]);
    PyObject *result = run_slots(args[0], slots, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_XDECREF(slots[i]);
    }
    if (slots != small) {
        PyMem_Free(slots);
    }
    return result;
}
