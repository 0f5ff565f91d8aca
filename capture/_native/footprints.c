/* Footprints: where each kind of guard step has looked, as places in memory and what was there.
 *
 * One function for each kind: it notes the places that the step read when it held, so that the step need not be asked
 * again while they all stay (see settled.c, which goes over them in this order and stops at the first that has changed:
 * so a place inside an object comes after the place that says which object it is). A kind without a row stays live: what
 * it looks at may change in place (arrays), or is no memory (a call).
 *
 * Addresses are given anew: an object at the address of another, of the same class, passes for it. So whoever goes by
 * what an object is, not only by what it refers to now, wants it LASTING, or keeps it (literals alone: nobody sees how
 * long these live).
 */
#include "native.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

static void *grown(void *block, Py_ssize_t n, Py_ssize_t *room, size_t size)
{
    if (n < *room) {
        return block;
    }
    *room = *room ? 2 * *room : 64;
    return PyMem_Realloc(block, (size_t)*room * size);
}

void dc_note(Footprint *f, const void *at)
{
    Word *words = grown(f->words, f->nwords, &f->room, sizeof *words);
    if (words == NULL) {
        f->broken = true;
        return;
    }
    f->words = words;
    words[f->nwords].at = at;
    memcpy(&words[f->nwords++].word, at, sizeof words->word);
}

static bool keep(Footprint *f, PyObject *literal)
{
    PyObject **kept = grown(f->kept, f->nkept, &f->kept_room, sizeof *kept);
    if (kept == NULL) {
        f->broken = true;
        return false;
    }
    f->kept = kept;
    kept[f->nkept++] = Py_NewRef(literal);
    return true;
}

static PyObject *source(const Step *s, const Footprint *f) { return f->regs[s->src]; }

static bool lasts(const Footprint *f, int reg) { return f->standing[reg].trust == LASTING; }

static bool stays(Footprint *f, int reg) /* a literal, and this one */
{
    return dc_const_is_frozen(f->regs[reg]) && (lasts(f, reg) || keep(f, f->regs[reg]));
}

/* The object in the source register, whose class is noted. */
static PyObject *of_this_class(const Step *s, Footprint *f)
{
    PyObject *obj = source(s, f);
    if (!lasts(f, s->src) || !dc_const_is_frozen(obj)) {
        dc_note(f, &obj->ob_type);
    }
    return obj;
}

/* ---- what is read ---- */

static Trust trace_held(const Step *s, Footprint *f)
{
    DC_UNUSED(s);
    DC_UNUSED(f);
    return LASTING; /* the guards die with it, or keep it */
}

static Trust trace_attr(const Step *s, Footprint *f)
{
    return dc_trace_attribute(f, of_this_class(s, f), s->refs[0], true);
}

static Trust trace_missing(const Step *s, Footprint *f)
{
    return dc_trace_attribute(f, of_this_class(s, f), s->refs[0], false);
}

static Trust trace_slot(const Step *s, Footprint *f)
{
    const PyMemberDef *member = s->ext;
    if (member->type != T_OBJECT_EX && member->type != T_OBJECT) {
        return LIVE;
    }
    dc_note(f, (char *)of_this_class(s, f) + member->offset);
    return FIXED;
}

static Trust trace_dict(const Step *s, Footprint *f)
{
    return dc_note_attributes(f, of_this_class(s, f)) ? FIXED : LIVE;
}

static Trust trace_item(const Step *s, Footprint *f)
{
    PyObject *obj = source(s, f);
    if (PyTuple_Check(obj) && lasts(f, s->src)) {
        return LASTING;
    }
    if (!PyTuple_Check(obj) && !PyList_Check(obj)) {
        return LIVE;
    }
    dc_note(f, &obj->ob_type);
    dc_note(f, &((PyVarObject *)obj)->ob_size);
    Py_ssize_t i = s->n < 0 ? s->n + Py_SIZE(obj) : s->n;
    if (PyList_Check(obj)) {
        dc_note(f, &((PyListObject *)obj)->ob_item);
    }
    dc_note(f, (PyList_Check(obj) ? ((PyListObject *)obj)->ob_item : ((PyTupleObject *)obj)->ob_item) + i);
    return FIXED;
}

static Trust trace_key(const Step *s, Footprint *f)
{
    return dc_trace_key(f, of_this_class(s, f), dc_held(s), true);
}

static Trust trace_missing_key(const Step *s, Footprint *f)
{
    return dc_trace_key(f, of_this_class(s, f), dc_held(s), false);
}

static Trust trace_class_of(const Step *s, Footprint *f)
{
    of_this_class(s, f);
    return FIXED;
}

static Trust trace_get(const Step *s, Footprint *f)
{
    PyObject *obj = source(s, f), **field = dc_builtin_field(s, obj);
    if (field == NULL) {
        return LIVE;
    }
    dc_note(f, &obj->ob_type);
    dc_note(f, field);
    return FIXED;
}

/* ---- what is checked ---- */

static Trust trace_is(const Step *s, Footprint *f)
{
    DC_UNUSED(f);
    return Py_IS_TYPE(s->refs[1], &Parts_Type) ? LIVE : FIXED; /* those are known by what is in them */
}

static Trust trace_empty(const Step *s, Footprint *f)
{
    PyObject *cell = source(s, f);
    dc_note(f, &cell->ob_type);
    dc_note(f, &((PyCellObject *)cell)->ob_ref);
    return FIXED;
}

static Trust trace_pair(const Step *s, Footprint *f)
{
    DC_UNUSED(s);
    DC_UNUSED(f);
    return FIXED;
}

static Trust trace_all_distinct(const Step *s, Footprint *f)
{
    int reg;
    for (Py_ssize_t i = 0; (reg = dc_other_register(s, i)) >= 0; i++) {
        dc_note(f, &f->regs[reg]->ob_type);
        dc_note_attributes(f, f->regs[reg]);
    }
    return FIXED;
}

static Trust trace_eq(const Step *s, Footprint *f) { return stays(f, s->src) ? FIXED : LIVE; }

/* Where an object that may be asked for its length (guard_checks.c) has that; NULL: not here. */
static const void *length_of(PyObject *obj)
{
    if (PyTuple_Check(obj) || PyList_Check(obj) || PyBytes_Check(obj)) {
        return &((PyVarObject *)obj)->ob_size;
    }
    if (PyDict_Check(obj)) {
        return &((PyDictObject *)obj)->ma_used;
    }
    if (PyAnySet_Check(obj)) {
        return &((PySetObject *)obj)->used;
    }
    return PyUnicode_Check(obj) ? &((PyASCIIObject *)obj)->length : NULL;
}

static Trust trace_len(const Step *s, Footprint *f)
{
    const void *length = length_of(of_this_class(s, f));
    if (length == NULL) {
        return LIVE;
    }
    dc_note(f, length);
    return FIXED;
}

static Trust trace_keys(const Step *s, Footprint *f) { return dc_trace_keys(f, of_this_class(s, f)); }

enum { MOST_PLACES_OF_A_SET = 64 };

static Trust trace_set(const Step *s, Footprint *f)
{
    PySetObject *set = (PySetObject *)source(s, f);
    if (set->mask >= MOST_PLACES_OF_A_SET) {
        return LIVE;
    }
    dc_note(f, &((PyObject *)set)->ob_type);
    const void *head[] = {&set->table, &set->mask, &set->fill, &set->used};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        dc_note(f, head[i]);
    }
    for (Py_ssize_t i = 0; i <= set->mask; i++) {
        PyObject *element = set->table[i].key;
        if (element && (!dc_const_is_frozen(element) || !keep(f, element))) {
            return LIVE;
        }
        dc_note(f, &set->table[i].key);
    }
    return FIXED;
}

static Trust trace_type_unchanged(const Step *s, Footprint *f)
{
    return dc_trace_class(f, (PyTypeObject *)of_this_class(s, f));
}

static void note_parts(Footprint *f, PyFunctionObject *fn)
{
    dc_note(f, &fn->func_code);
    dc_note(f, &fn->func_defaults);
    dc_note(f, &fn->func_kwdefaults);
}

static Trust trace_plain_function(const Step *s, Footprint *f)
{
    note_parts(f, (PyFunctionObject *)of_this_class(s, f));
    return FIXED;
}

static Trust trace_functions(const Step *s, Footprint *f)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->refs[0]); i++) {
        note_parts(f, (PyFunctionObject *)((PyWeakReference *)PyTuple_GET_ITEM(s->refs[0], i))->wr_object);
    }
    return FIXED;
}

static const Tracer tracers[] = {
    {"const", trace_held},
    {"weak_const", trace_held},
    {"attr", trace_attr},
    {"slot", trace_slot},
    {"empty_slot", trace_slot},
    {"dict", trace_dict},
    {"item", trace_item},
    {"key", trace_key},
    {"known_key", trace_key},
    {"type", trace_class_of},
    {"get", trace_get},
    {"is_type", trace_class_of},
    {"is", trace_is},
    {"is_not", trace_is},
    {"empty", trace_empty},
    {"same", trace_pair},
    {"distinct", trace_pair},
    {"all_distinct", trace_all_distinct},
    {"eq", trace_eq},
    {"len", trace_len},
    {"set", trace_set},
    {"keys", trace_keys},
    {"names", trace_keys},
    {"missing", trace_missing},
    {"missing_key", trace_missing_key},
    {"type_unchanged", trace_type_unchanged},
    {"names_unchanged", trace_keys},
    {"plain_function", trace_plain_function},
    {"functions_unchanged", trace_functions},
    {NULL, NULL},
};

const Tracer *dc_tracer_of(const StepKind *kind)
{
    const Tracer *row = tracers;
    while (row->name && strcmp(row->name, kind->name) != 0) {
        row++;
    }
    return row;
}

/* ---- which registers a step reads beside its source ---- */

static int of_group(const Step *s, Py_ssize_t i)
{
    Py_ssize_t n = PyTuple_GET_SIZE(s->refs[0]), others = PyTuple_GET_SIZE(s->refs[1]);
    if (i >= n + others) {
        return -1;
    }
    return (int)PyLong_AsLong(i < n ? PyTuple_GET_ITEM(s->refs[0], i) : PyTuple_GET_ITEM(s->refs[1], i - n));
}

static int of_pair(const Step *s, Py_ssize_t i) { return i == 0 ? (int)s->n : -1; }

static int of_host(const Step *s, Py_ssize_t i) { return i < s->n ? ((const int *)s->ext)[i] : -1; }

static const struct {
    const char *name;
    int (*other)(const Step *, Py_ssize_t);
} readers[] = {{"same", of_pair}, {"distinct", of_pair}, {"number", of_pair}, {"all_distinct", of_group}, {"host", of_host}};

int dc_other_register(const Step *s, Py_ssize_t i)
{
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++) {
        if (strcmp(readers[r].name, s->kind->name) == 0) {
            return readers[r].other(s, i);
        }
    }
    return -1;
}
