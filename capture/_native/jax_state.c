/* What guards read of JAX: how to ask an array for its aval, and the configuration's key.
 *
 * `jax_config_token()` is (trace context, other states, which traces). JAX's own `trace_context()`
 * is the tuple of settings by which it keys its traces, thread-local context managers included;
 * the states beside it matter to eager execution but not to a trace. */
#include "native.h"

static JaxApi api;
static bool ready;

/* Settings that change what eager JAX returns or raises, and are not in trace_context(). */
static const char *const state_names[] = {
    "debug_nans", "debug_infs", "default_prng_impl", "enable_custom_prng", "legacy_prng_key",
    "no_tracing", "disable_jit", "device_context", "transfer_guard_host_to_device",
    "transfer_guard_device_to_device", "transfer_guard_device_to_host",
    "check_tracer_leaks",
};

static PyObject *attr_of(const char *module, const char *name)
{
    PyObject *mod = PyImport_ImportModule(module);
    PyObject *value = mod ? PyObject_GetAttrString(mod, name) : NULL;
    Py_XDECREF(mod);
    return value;
}

static PyObject *getter_of(PyTypeObject *type, const char *name)
{
    PyObject *prop = PyObject_GetAttrString((PyObject *)type, name);
    PyObject *get = prop ? PyObject_GetAttrString(prop, "fget") : NULL;
    Py_XDECREF(prop);
    return get;
}

static bool in_trace_context(PyObject *state, PyObject *names)
{
    PyObject *name = PyObject_GetAttrString(state, "name");
    bool found = name && names && PySequence_Contains(names, name) == 1;
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

static PyObject *other_states(void)
{
    PyObject *list = PyList_New(0);
    PyObject *config = PyImport_ImportModule("jax._src.config");
    PyObject *names = config ? PyObject_CallMethod(config, "trace_context_names", NULL) : NULL;
    PyErr_Clear(); /* a jaxlib that cannot name them: then read each of ours, once too often at worst */
    for (size_t i = 0; list && config && i < sizeof state_names / sizeof *state_names; i++) {
        PyObject *state = PyObject_GetAttrString(config, state_names[i]);
        if (state == NULL) {
            PyErr_Clear(); /* not a setting of this version of JAX */
        }
        else if (!in_trace_context(state, names) && PyList_Append(list, state) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(state);
    }
    Py_XDECREF(names);
    Py_XDECREF(config);
    PyObject *tuple = list && config ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static bool load(void)
{
    PyObject *config_type = attr_of("jax._src.config", "config_ext");
    PyObject *state_type = config_type ? PyObject_GetAttrString(config_type, "Config") : NULL;
    Py_XDECREF(config_type);
    if (!state_type || !(api.get_state = getter_of((PyTypeObject *)state_type, "value"))) {
        Py_XDECREF(state_type);
        return false;
    }
    Py_DECREF(state_type);
    return (api.array_type = (PyTypeObject *)attr_of("jax._src.array", "ArrayImpl")) &&
           (api.aval_type = attr_of("jax._src.core", "ShapedArray")) &&
           (api.get_aval = getter_of(api.array_type, "aval")) &&
           (api.tracer_type = (PyTypeObject *)attr_of("jax._src.core", "Tracer")) &&
           (api.derivative_types[0] = (PyTypeObject *)attr_of("jax._src.interpreters.ad", "JVPTracer")) &&
           (api.derivative_types[1] = (PyTypeObject *)attr_of("jax._src.interpreters.ad", "LinearizeTracer")) &&
           (api.get_sharding = getter_of(api.array_type, "_sharding")) &&
           (api.get_committed = getter_of(api.array_type, "_committed")) &&
           (api.trace_context = attr_of("jax._src.config", "trace_context")) &&
           (api.states = other_states()) &&
           (api.trace_state = attr_of("jax._src.core", "trace_state_strong_ref")) &&
           (api.eval_trace = attr_of("jax._src.core", "eval_trace")) &&
           (api.sharding_type = attr_of("jax.sharding", "Sharding")) &&
           (api.device_type = attr_of("jax", "Device")) &&
           (api.single_device_sharding = attr_of("jax.sharding", "SingleDeviceSharding"));
}

const JaxApi *dc_jax(void)
{
    ready = ready || load();
    return ready ? &api : NULL;
}

/* ---- the configuration's token ---- */

enum { NO_TRACE, ANY_TRACE, SOME_TRACE }; /* where an entry serves: in eager code, anywhere, under a transformation */

PyObject *dc_jax_config_token(PyObject *module, PyObject *args)
{
    DC_UNUSED(module);
    int traces = NO_TRACE;
    if (!PyArg_ParseTuple(args, "|i:jax_config_token", &traces) || !dc_jax()) {
        return NULL;
    }
    if (traces < NO_TRACE || traces > SOME_TRACE) {
        PyErr_Format(PyExc_ValueError, "jax_config_token: 0, 1 or 2, got %d", traces);
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(api.states);
    PyObject *context = PyObject_CallNoArgs(api.trace_context);
    PyObject *others = context ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; others && i < n; i++) {
        PyObject *value = PyObject_CallOneArg(api.get_state, PyTuple_GET_ITEM(api.states, i));
        if (value == NULL) {
            Py_CLEAR(others);
            break;
        }
        PyTuple_SET_ITEM(others, i, value);
    }
    PyObject *token = others ? Py_BuildValue("(OOi)", context, others, traces) : NULL;
    Py_XDECREF(context);
    Py_XDECREF(others);
    return token;
}

int dc_jax_config_finish(Step *s, Builder *b)
{
    DC_UNUSED(b);
    PyObject *token = s->refs[0];
    if (!dc_jax()) {
        return -1;
    }
    if (!PyTuple_CheckExact(token) || PyTuple_GET_SIZE(token) != 3 ||
        !PyTuple_CheckExact(PyTuple_GET_ITEM(token, 0)) || !PyTuple_CheckExact(PyTuple_GET_ITEM(token, 1)) ||
        PyTuple_GET_SIZE(PyTuple_GET_ITEM(token, 1)) != PyTuple_GET_SIZE(api.states)) {
        PyErr_Format(PyExc_TypeError, "jax_config: expected what jax_config_token() returns, got %R", token);
        return -1;
    }
    s->flag = (signed char)PyLong_AsLong(PyTuple_GET_ITEM(token, 2));
    return PyErr_Occurred() ? -1 : 0;
}

static bool equal_setting(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    int equal = Py_TYPE(a) == Py_TYPE(b) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    if (equal < 0) {
        PyErr_Clear();
    }
    return equal > 0;
}

static bool context_equal(PyObject *expected)
{
    PyObject *now = PyObject_CallNoArgs(api.trace_context);
    bool ok = now && PyTuple_CheckExact(now) && PyTuple_GET_SIZE(now) == PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(expected); i++) {
        ok = equal_setting(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(now, i));
    }
    Py_XDECREF(now);
    return ok;
}

static bool state_equal(PyObject *state, PyObject *expected)
{
    PyObject *now = PyObject_CallOneArg(api.get_state, state);
    bool ok = now && equal_setting(expected, now);
    Py_XDECREF(now);
    return ok;
}

static bool is_eager(void)
{
    PyObject *trace = PyObject_CallOneArg(api.get_state, api.trace_state);
    bool eager = trace == api.eval_trace || trace == Py_None;
    Py_XDECREF(trace);
    return eager;
}

int dc_jax_config_eval(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(run);
    DC_UNUSED(call);
    PyObject *others = PyTuple_GET_ITEM(s->refs[0], 1);
    bool ok = (s->flag == ANY_TRACE || is_eager() == (s->flag == NO_TRACE)) &&
              context_equal(PyTuple_GET_ITEM(s->refs[0], 0));
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(others); i++) {
        ok = state_equal(PyTuple_GET_ITEM(api.states, i), PyTuple_GET_ITEM(others, i));
    }
    if (!ok) {
        PyErr_Clear();
    }
    return ok;
}
