/* throw(error): what a generator's frame does with an exception that is thrown in.
 *
 * Unlike `raise`, the exception keeps its context, except inside an except or finally block of the
 * generator itself: then what is handled there becomes its context, as in CPython's own generators.
 */
#include "native.h"

PyObject *dc_throw(PyObject *module, PyObject *error)
{
    DC_UNUSED(module);
    if (!PyExceptionInstance_Check(error)) {
        PyErr_Format(PyExc_TypeError, "throw: expected an exception, got %R", error);
        return NULL;
    }
    PyObject *handled = PyThreadState_Get()->exc_info->exc_value;
    if (handled && handled != Py_None) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        return NULL;
    }
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), Py_NewRef(error), PyException_GetTraceback(error));
    return NULL;
}
