/* Holding objects without keeping them alive.
 *
 * A guard refers weakly to whatever can be referred to weakly. All weak references of one
 * GuardProgram share a callback: when any of the objects dies, the guards can never hold again, and
 * their entry is invalidated and gives its resources back. */
#include "native.h"

typedef struct {
    PyObject_HEAD
    GuardProgram *guards; /* borrowed; NULL once the guards are gone */
} OnDeath;

static PyObject *on_death_call(OnDeath *self, PyObject *args, PyObject *kwargs)
{
    DC_UNUSED(args);
    DC_UNUSED(kwargs);
    GuardProgram *guards = self->guards;
    if (guards && !guards->dead) {
        Py_INCREF(guards);
        if (guards->owner) {
            dc_entry_invalidate(guards->owner);
        }
        dc_guards_kill(guards);
        Py_DECREF(guards);
    }
    Py_RETURN_NONE;
}

PyTypeObject OnDeath_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynacomp.capture._native.OnDeath",
    .tp_basicsize = sizeof(OnDeath),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = (ternaryfunc)on_death_call,
};

/* Puts obj into refs[slot]: weakly where it can be referred to weakly, else strongly. */
int dc_hold(Step *step, int slot, PyObject *obj, Builder *builder, bool *weak)
{
    PyObject *ref = PyWeakref_NewRef(obj, builder->on_death);
    *weak = ref != NULL;
    if (ref == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return -1;
        }
        PyErr_Clear();
        ref = Py_NewRef(obj);
    }
    Py_XSETREF(step->refs[slot], ref);
    return 0;
}

bool dc_held_is(PyObject *holder, bool weak, PyObject *value)
{
    return weak ? value != Py_None && ((PyWeakReference *)holder)->wr_object == value : holder == value;
}

PyObject *dc_on_death_new(GuardProgram *guards)
{
    OnDeath *self = PyObject_New(OnDeath, &OnDeath_Type);
    if (self) {
        self->guards = guards;
    }
    return (PyObject *)self;
}

void dc_on_death_forget(PyObject *on_death)
{
    if (on_death) {
        ((OnDeath *)on_death)->guards = NULL;
    }
}
