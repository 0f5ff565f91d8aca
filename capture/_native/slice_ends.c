/* slice_first(start, size) and slice_length(start, stop, step, size): where a slice of so many elements begins, and
 * how many it has. As `slice.indices` and `range` say, for calls whose slices' ends are ints that change.
 */
#include "native.h"

/* Numbers beyond any size become the largest or smallest, as for slices of lists; false where one is no int. */
static bool read_ends(PyObject *const *args, Py_ssize_t n, Py_ssize_t *ends)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        ends[i] = PyNumber_AsSsize_t(args[i], NULL);
        if (ends[i] == -1 && PyErr_Occurred()) {
            return false;
        }
    }
    return true;
}

PyObject *dc_slice_first(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    Py_ssize_t ends[2];
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "slice_first(start, size)");
        return NULL;
    }
    if (!read_ends(args, nargs, ends)) {
        return NULL;
    }
    Py_ssize_t stop = PY_SSIZE_T_MAX;
    PySlice_AdjustIndices(ends[1], &ends[0], &stop, 1);
    return PyLong_FromSsize_t(ends[0]);
}

PyObject *dc_slice_length(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    DC_UNUSED(module);
    Py_ssize_t ends[4];
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "slice_length(start, stop, step, size)");
        return NULL;
    }
    if (!read_ends(args, nargs, ends)) {
        return NULL;
    }
    if (ends[2] < 1) {
        PyErr_SetString(PyExc_ValueError, "slice_length: the step must be 1 or more");
        return NULL;
    }
    return PyLong_FromSsize_t(PySlice_AdjustIndices(ends[3], &ends[0], &ends[1], ends[2]));
}
