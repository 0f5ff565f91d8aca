/* What a generator's frame does with an exception that comes from outside.
 *
 * throw(error): it was thrown in. Unlike `raise`, the exception keeps its context, except inside an except
 * or finally block of the generator itself: then what is handled there becomes its context.
 * rethrow(error): what the generator waited for raised it, and everything is in its context already.
 */
#include "native.h"

PyObject *dc_rethrow(PyObject *module, PyObject *error)
{
    DC_UNUSED(module);
    if (!PyExceptionInstance_Check(error)) {
        PyErr_Format(PyExc_TypeError, "expected an exception, got %R", error);
        return NULL;
    }
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), Py_NewRef(error), PyException_GetTraceback(error));
    return NULL;
}

PyObject *dc_throw(PyObject *module, PyObject *error)
{
    PyObject *handled = PyThreadState_Get()->exc_info->exc_value;
    if (PyExceptionInstance_Check(error) && handled && handled != Py_None) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        return NULL;
    }
    return dc_rethrow(module, error);
}
