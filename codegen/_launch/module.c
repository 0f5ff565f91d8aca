/* The module: its types, and the objects of jax that they use. */
#include "launch.h"

jax_t jax;

/* The getter of a property of ArrayImpl, or a method as a function; new reference. */
static PyObject *function_of(PyObject *type, const char *name)
{
    PyObject *found = PyObject_GetAttrString(type, name);
    PyObject *getter = found ? PyObject_GetAttrString(found, "fget") : NULL;
    if (!getter && found && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return found;
    }
    Py_XDECREF(found);
    return getter;
}

static PyObject *bind(PyObject *module, PyObject *args)
{
    PyObject *array, *await_all, *put, *ndarray, *error;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOOO", &PyType_Type, &array, &await_all, &put, &ndarray, &error))
        return NULL;
    const struct { PyObject **to; const char *name; } functions[] = {
        {&jax.aval, "aval"}, {&jax.sharding, "_sharding"}, {&jax.committed, "_committed"},
        {&jax.layout, "_pjrt_layout"}, {&jax.pointer, "unsafe_buffer_pointer"}, {&jax.delete, "delete"},
    };
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        PyObject *function = function_of(array, functions[k].name);
        if (!function)
            return NULL;
        Py_XSETREF(*functions[k].to, function);
    }
    Py_INCREF(array);
    Py_XSETREF(jax.array, (PyTypeObject *)array);
    Py_XSETREF(jax.await_all, Py_NewRef(await_all));
    Py_XSETREF(jax.put, Py_NewRef(put));
    Py_XSETREF(jax.ndarray, Py_NewRef(ndarray));
    Py_XSETREF(jax.error, Py_NewRef(error));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(ArrayImpl, batched_block_until_ready, batched_device_put, ndarray, JaxRuntimeError)"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynacomp.codegen._launch",
    .m_doc = "Programs: native code, callable on jax Arrays.", .m_size = -1, .m_methods = methods,
};

static int fill(PyObject *module)
{
    PyObject *target = PyCapsule_New((void *)(uintptr_t)dc_addresses, NULL, NULL);
    int bad = !target || PyModule_AddObjectRef(module, "addresses", target) ||
              PyModule_AddObjectRef(module, "Program", (PyObject *)&ProgramType);
    Py_XDECREF(target);
    return bad;
}

PyMODINIT_FUNC PyInit__launch(void)
{
    jax.put_names = Py_BuildValue("(s)", "committed");
    jax.shape = PyUnicode_InternFromString("shape");
    jax.dtype = PyUnicode_InternFromString("dtype");
    jax.device = PyUnicode_InternFromString("_device");
    if (!jax.put_names || !jax.shape || !jax.dtype || !jax.device || PyType_Ready(&BlockType) || PyType_Ready(&PlanType) || PyType_Ready(&ProgramType) ||
        pools_init())
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && fill(module))
        Py_CLEAR(module);
    return module;
}
