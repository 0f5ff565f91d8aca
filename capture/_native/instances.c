/* Where CPython keeps attributes, keys and elements: instance dicts and the arrays that stand for them, dicts, sets,
 * version tags. Nothing here makes a dict where there is none, or asks the program's code. */
#include "cpython.h"

static PyObject *dict_get(PyObject *dict, PyObject *name, Py_hash_t hash)
{
    PyObject *value = dict ? _PyDict_GetItem_KnownHash(dict, name, hash) : NULL;
    if (value == NULL) {
        PyErr_Clear();
    }
    return Py_XNewRef(value);
}

static PyObject *type_dict(PyTypeObject *type)
{
#if SINCE(12)
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

/* Where an instance keeps its attributes: a dict, or an array beside its class' shared keys. */
typedef struct {
    PyObject *dict;
    PyDictValues *values;
} Attributes;

static Attributes managed_attributes(PyObject *obj)
{
    Attributes at = {NULL, NULL};
#if SINCE(13)
    at.dict = (PyObject *)_PyObject_GetManagedDict(obj);
    if (at.dict == NULL && (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) {
        PyDictValues *values = _PyObject_InlineValues(obj);
        at.values = values->valid ? values : NULL;
    }
#elif SINCE(12)
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(obj);
    if (_PyDictOrValues_IsValues(either)) {
        at.values = _PyDictOrValues_GetValues(either);
    }
    else {
        at.dict = _PyDictOrValues_GetDict(either);
    }
#else
    at.values = *_PyObject_ValuesPointer(obj);
    at.dict = at.values ? NULL : *_PyObject_ManagedDictPointer(obj);
#endif
    return at;
}

/* Where a name stands among the keys of dictionaries hardly ever changes, in objects made anew neither: `at` is where it
 * stood (-1: nobody knows yet, -2: not worth to look for). */
static bool stands(PyDictKeysObject *keys, PyObject *name, Py_ssize_t at)
{
    return at >= 0 && DK_IS_UNICODE(keys) && at < keys->dk_nentries && DK_UNICODE_ENTRIES(keys)[at].me_key == name;
}

static void note_place(PyDictKeysObject *keys, PyObject *name, Py_ssize_t *at)
{
    Py_ssize_t n = *at != -2 && DK_IS_UNICODE(keys) ? keys->dk_nentries : 0;
    for (*at = -2; n-- > 0 && *at < 0;) {
        *at = DK_UNICODE_ENTRIES(keys)[n].me_key == name ? n : -2;
    }
}

static bool holds_key(PyDictKeysObject *keys, PyObject *name, Py_ssize_t *at) /* of classes: strings, nearly all interned */
{
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyObject *key = DK_UNICODE_ENTRIES(keys)[i].me_key;
        if (key == name || (key && !PyUnicode_CHECK_INTERNED(key) && PyUnicode_Compare(key, name) == 0)) {
            *at = key == name ? i : *at;
            return true;
        }
    }
    return false;
}

PyObject *dc_dict_get(PyObject *dict, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyDictObject *table = (PyDictObject *)dict;
    if (dict && stands(table->ma_keys, name, *at)) {
        PyObject *value = table->ma_values ? table->ma_values->values[*at]
                                           : DK_UNICODE_ENTRIES(table->ma_keys)[*at].me_value;
        if (value != NULL) {
            return Py_NewRef(value);
        }
    }
    PyObject *value = dict_get(dict, name, hash);
    if (value != NULL) {
        note_place(table->ma_keys, name, at);
    }
    return value;
}

/* Names of attributes are interned, and so are nearly all keys. */
static PyObject *values_get(PyTypeObject *type, PyDictValues *values, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (keys == NULL) {
        return NULL;
    }
    if (stands(keys, name, *at)) {
        return Py_XNewRef(values->values[*at]);
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyObject *key = entries[i].me_key;
        bool equal = key == name || (key && !PyUnicode_CHECK_INTERNED(key) && PyObject_Hash(key) == hash &&
                                     PyUnicode_Compare(key, name) == 0);
        if (equal) {
            *at = key == name ? i : *at;
            return Py_XNewRef(values->values[i]);
        }
    }
    return NULL;
}

PyObject *dc_instance_get(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (PyModule_Check(obj)) {
        return dc_dict_get(PyModule_GetDict(obj), name, hash, at);
    }
    if (PyType_Check(obj)) {
        PyObject *dict = type_dict((PyTypeObject *)obj);
        PyObject *value = dict_get(dict, name, hash);
        Py_XDECREF(dict);
        return value;
    }
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        Attributes own = managed_attributes(obj);
        return own.values ? values_get(type, own.values, name, hash, at) : dc_dict_get(own.dict, name, hash, at);
    }
    PyObject **dict = _PyObject_GetDictPtr(obj);
    return dict ? dc_dict_get(*dict, name, hash, at) : NULL;
}

/* Whether an instance has no such attribute. Keys that instances share only grow, and belong to their class: while there
 * are as many, none of them is the name. `tag` names what was looked through last, as does a dict's version. */
bool dc_instance_lacks(PyObject *obj, PyObject *name, Py_hash_t hash, Py_ssize_t *at, uint64_t *tag)
{
    PyTypeObject *type = Py_TYPE(obj);
    bool plain = type->tp_flags & Py_TPFLAGS_MANAGED_DICT && !PyModule_Check(obj) && !PyType_Check(obj);
    Attributes own = plain ? managed_attributes(obj) : (Attributes){NULL, NULL};
    PyDictKeysObject *keys = own.values ? ((PyHeapTypeObject *)type)->ht_cached_keys : NULL;
    uint64_t now = 0, version = keys ? dc_type_version(type) : 0;
    if (keys != NULL && stands(keys, name, *at)) {
        return own.values->values[*at] == NULL;
    }
    if (version != 0) {
        now = (version << 31 | (uint64_t)keys->dk_nentries) << 1;
    }
    else if (own.dict != NULL) {
        now = dc_dict_version(own.dict) << 1 | 1;
    }
    if (now > 1 && now == *tag) {
        return true;
    }
    PyObject *found = dc_instance_get(obj, name, hash, at);
    Py_XDECREF(found);
    if (found == NULL && !(keys && holds_key(keys, name, at))) {
        *tag = now;
    }
    return found == NULL;
}

PyObject *dc_shared_dict(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    PyObject *dict = NULL;
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        dict = managed_attributes(obj).dict;
    }
    else if (!PyType_Check(obj)) {
        PyObject **at = _PyObject_GetDictPtr(obj);
        dict = at ? *at : NULL;
    }
    return dict && Py_REFCNT(dict) > 1 ? dict : NULL;
}

PyObject *dc_instance_dict(PyObject *obj)
{
    PyObject *dict;
    if (PyModule_Check(obj)) {
        dict = Py_NewRef(PyModule_GetDict(obj));
    }
    else if (PyType_Check(obj)) {
        dict = type_dict((PyTypeObject *)obj);
    }
    else {
        dict = PyObject_GenericGetDict(obj, NULL);
    }
    if (dict == NULL) {
        PyErr_Clear();
    }
    return dict;
}

/* Like PyDict_Next, with hashes; without asking a key for its own. */
int dc_dict_next(PyObject *dict, Py_ssize_t *at, PyObject **key, Py_hash_t *hash)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    PyObject *value;
    if (keys->dk_kind != DICT_KEYS_GENERAL) { /* strings, which remember theirs */
        int more = PyDict_Next(dict, at, key, &value);
        *hash = more ? PyObject_Hash(*key) : -1;
        return more;
    }
    while (*at < keys->dk_nentries) {
        PyDictKeyEntry *entry = &DK_ENTRIES(keys)[(*at)++];
        if (entry->me_value) {
            *key = entry->me_key;
            *hash = entry->me_hash;
            return 1;
        }
    }
    return 0;
}

/* Puts `other(key)`, which takes the reference over and gives a new one, in the place of each key of a new
 * dict, none of whose keys is a string. */
void dc_dict_replace_keys(PyObject *dict, PyObject *(*other)(PyObject *))
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        PyDictKeyEntry *entry = &DK_ENTRIES(keys)[i];
        entry->me_key = other(entry->me_key);
    }
    if (!PyObject_GC_IsTracked(dict)) {
        PyObject_GC_Track(dict);
    }
}

int dc_set_next(PyObject *set, Py_ssize_t *at, PyObject **element, Py_hash_t *hash)
{
    return _PySet_NextEntry(set, at, element, hash);
}

unsigned int dc_type_version(PyTypeObject *type)
{
#if SINCE(12)
    return type->tp_version_tag;
#else
    return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#endif
}

#if SINCE(12)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the tag goes in 3.14: then nothing is known */
#endif
static const uint64_t *version_of(const PyDictObject *table) /* NULL: an instance's own array changes without it */
{
#if SINCE(14)
    DC_UNUSED(table);
    return NULL;
#else
    return table->ma_values ? NULL : &table->ma_version_tag; /* bits of watchers in it: it may change more often */
#endif
}
#if SINCE(12)
#pragma GCC diagnostic pop
#endif

uint64_t dc_dict_version(PyObject *dict)
{
    const uint64_t *version = version_of((PyDictObject *)dict);
    return version ? *version : 0;
}

/* ---- the places of all this (see `Footprint`) ---- */

/* A dict's version names what it holds and is never given twice. */
static bool note_version(Footprint *f, const PyDictObject *table)
{
    const uint64_t *version = version_of(table);
    if (version == NULL || *version == 0) {
        return false;
    }
    dc_note(f, version);
    return true;
}

/* A name among keys that instances share: where its value is; or, while there are no more keys, nowhere. */
static Trust trace_shared(Footprint *f, PyDictKeysObject *keys, PyDictValues *values, PyObject *name, bool there)
{
    Py_ssize_t at = -1, other = -1;
    note_place(keys, name, &at);
    if (at >= 0) {
        dc_note(f, &values->values[at]);
        return FIXED;
    }
    if (there || holds_key(keys, name, &other)) {
        return LIVE;
    }
    dc_note(f, &keys->dk_nentries);
    return FIXED;
}

Trust dc_trace_key(Footprint *f, PyObject *dict, PyObject *key, bool there)
{
    PyDictObject *table = (PyDictObject *)dict;
    if (note_version(f, table)) {
        return LASTING;
    }
    if (table->ma_values == NULL || !PyUnicode_CheckExact(key) || !DK_IS_UNICODE(table->ma_keys)) {
        return LIVE;
    }
    dc_note(f, &table->ma_keys);
    dc_note(f, &table->ma_values);
    return trace_shared(f, table->ma_keys, table->ma_values, key, there);
}

Trust dc_trace_keys(Footprint *f, PyObject *dict)
{
    return !PyODict_Check(dict) && note_version(f, (PyDictObject *)dict) ? FIXED : LIVE;
}

/* Notes which dict or array an instance keeps its attributes in. */
bool dc_note_attributes(Footprint *f, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (PyType_Check(obj)) {
        return false;
    }
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        PyObject **at = _PyObject_GetDictPtr(obj);
        if (at) {
            dc_note(f, at);
        }
        return at != NULL;
    }
#if SINCE(13)
    dc_note(f, _PyObject_ManagedDictPointer(obj));
    if (type->tp_flags & Py_TPFLAGS_INLINE_VALUES) {
        dc_note(f, _PyObject_InlineValues(obj)); /* among the first bytes: whether they are in use */
    }
#elif SINCE(12)
    dc_note(f, _PyObject_DictOrValuesPointer(obj));
#else
    dc_note(f, _PyObject_ValuesPointer(obj));
    dc_note(f, _PyObject_ManagedDictPointer(obj));
#endif
    return true;
}

/* What a class, its bases included, defines. */
Trust dc_trace_class(Footprint *f, PyTypeObject *type)
{
    if (dc_type_version(type) == 0) {
        return LIVE;
    }
    dc_note(f, &type->tp_flags); /* in 3.11 a flag says that the version counts */
    dc_note(f, &type->tp_version_tag);
    return LASTING;
}

Trust dc_trace_attribute(Footprint *f, PyObject *obj, PyObject *name, bool there)
{
    if (PyType_Check(obj)) {
        return dc_trace_class(f, (PyTypeObject *)obj);
    }
    if (!dc_note_attributes(f, obj)) {
        return LIVE;
    }
    Attributes own = {NULL, NULL};
    if (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        own = managed_attributes(obj);
    }
    else {
        own.dict = *_PyObject_GetDictPtr(obj);
    }
    if (own.values) {
        PyHeapTypeObject *cls = (PyHeapTypeObject *)Py_TYPE(obj);
        dc_note(f, &cls->ht_cached_keys);
        return cls->ht_cached_keys ? trace_shared(f, cls->ht_cached_keys, own.values, name, there) : LIVE;
    }
    return own.dict ? dc_trace_key(f, own.dict, name, there) : there ? LIVE : FIXED;
}
