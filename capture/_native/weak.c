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

/* A new reference to what holds obj: weakly where it can be referred to weakly, or has parts; else itself. */
PyObject *dc_holder(PyObject *obj, Builder *builder, bool *weak)
{
    if (dc_has_parts(obj)) {
        *weak = false;
        return dc_parts_new(obj, builder);
    }
    PyObject *ref = PyWeakref_NewRef(obj, builder->on_death);
    *weak = ref != NULL;
    if (ref == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        ref = Py_NewRef(obj);
    }
    return ref;
}

/* Puts the holder of obj into refs[slot]. */
int dc_hold(Step *step, int slot, PyObject *obj, Builder *builder, bool *weak)
{
    PyObject *ref = dc_holder(obj, builder, weak);
    if (ref == NULL) {
        return -1;
    }
    Py_XSETREF(step->refs[slot], ref);
    return 0;
}

bool dc_held_is(PyObject *holder, bool weak, PyObject *value)
{
    if (Py_IS_TYPE(holder, &Parts_Type)) {
        return dc_parts_are(holder, value);
    }
    return weak ? value != Py_None && ((PyWeakReference *)holder)->wr_object == value : holder == value;
}

/* refs[0] becomes its holder; constants and what has no weak references stay themselves. */
int dc_finish_weakly(Step *s, Builder *b)
{
    bool weak = false;
    if (dc_const_supported(s->refs[0]) || dc_has_parts(s->refs[0])) {
        return 0;
    }
    if (PyErr_Occurred() || dc_hold(s, 1, s->refs[0], b, &weak) < 0) {
        return -1;
    }
    s->flag = weak;
    Py_SETREF(s->refs[0], s->refs[1]);
    s->refs[1] = NULL;
    return 0;
}

PyObject *dc_held(const Step *s) /* borrowed; NULL once it is dead */
{
    PyObject *obj = s->flag ? ((PyWeakReference *)s->refs[0])->wr_object : s->refs[0];
    return s->flag && obj == Py_None ? NULL : obj;
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
