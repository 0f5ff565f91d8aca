"""What replacement code calls to find, make and change objects: past everything that the program's classes override."""

import collections
import functools
import threading
import types
import weakref

import jax
import numpy as np
import pytest

from dynacomp.capture import _native
from dynacomp.capture.graph.avals import key_impl
from dynacomp.capture.graph.size_evaluation import postfix
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.reconstruct import runtime


def refuse(*args, **kwargs):
    raise AssertionError("code of the program runs")


REFUSING = ("__getitem__", "__setitem__", "__delitem__", "__iter__", "__len__", "__contains__", "keys", "items",
            "update", "clear", "pop", "append", "extend", "add")


def of(kind, *content):
    """An instance of a subclass of a built-in class that overrides all that could be called."""
    made = (cls := type("Refusing", (kind,), {}))(*content)
    for name in REFUSING:
        if hasattr(kind, name):
            setattr(cls, name, refuse)
    return made


class Guarded:
    """Its attributes are nobody's but its dictionary's."""

    __getattribute__ = __setattr__ = __delattr__ = refuse


@pytest.mark.parametrize("kind", [tuple, list, collections.deque])
def test_items_are_read_past_the_class(kind):
    assert _native.item(of(kind, [3, 4, 5]), 1) == 4


def test_items_of_what_is_no_sequence():
    with pytest.raises(TypeError, match="a dict has no items"):
        _native.item({0: 1}, 0)


def test_keys_are_read_past_the_class_and_need_no_hash():
    assert _native.key(of(dict, {"a": 1}), "a") == 1 and _native.key(_native.Held({"a": 2}), "a") == 2
    held = type("Key", (), {"__hash__": lambda self: 1, "__eq__": lambda self, other: self is other})()
    table = of(dict, {held: 5})
    type(held).__hash__ = type(held).__eq__ = refuse
    assert runtime.known_key(table, held) == 5


def test_attributes_are_the_instances_own():
    made = Guarded()
    _native.write_attribute(made, "w", 3)
    runtime.write_entry(made, "v", 4)
    assert _native.own_table(made) == {"w": 3, "v": 4} and _native.own_attribute(made, "w") == 3
    runtime.delete_attribute(made, "w")
    runtime.delete_attribute(made, "w")  # the captured code made it too
    runtime.delete_entry(made, "v")
    assert _native.own_table(made) == {}
    assert _native.own_attribute(types, "ModuleType") is types.ModuleType and _native.own_attribute(Guarded, "__doc__")


def test_a_thread_has_its_own_attributes():
    local = threading.local()
    _native.write_attribute(local, "w", 1)
    thread = threading.Thread(target=lambda: _native.write_attribute(local, "v", 2))
    thread.start()
    thread.join()
    assert runtime.thread_dict(local) == {"w": 1}


@pytest.mark.parametrize("obj, plain", [(of(int, 3), 3), (type("F", (float,), {})(2.5), 2.5),
                                        (type("T", (str,), {"__str__": refuse})("a"), "a"), (True, True)],
                         ids=["int", "float", "str", "bool"])
def test_numbers_and_strings_inside_instances(obj, plain):
    found = runtime.plain(obj)
    assert found == plain and type(found) in (int, float, str, bool)


@pytest.mark.parametrize("before, after", [
    ({"a": 1, "b": 2}, {"a": 3, "b": 4}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({}, {"a": 1}), ({"a": 1}, {}),
    ({1: "int"}, {True: "bool"})], ids=str)
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_a_dict_gets_other_content_and_stays_the_object(kind, before, after):
    made = of(kind, before)
    runtime.replace_dict(made, after)
    found = [(k, dict.__getitem__(made, k)) for k in kind.keys(made)]
    assert found == list(after.items()) and [type(k) for k, _ in found] == [type(k) for k in after]


def test_keys_that_stay_keep_their_place():
    made = of(dict, {"a": 1, "b": 2, "c": 3})
    runtime.update_dict(made, (("b", "gone"), ("a", "d"), (10, 40)))
    assert list(dict.items(made)) == [("a", 10), ("c", 3), ("d", 40)]
    iterator = iter(plain := {"a": 1, "b": 2})
    next(iterator)
    runtime.replace_dict(plain, {"a": 5, "b": 6})
    assert next(iterator) == "b"  # it was not emptied


def test_sequences_and_sets_are_changed_in_place():
    made = of(list, [1, 2, 3])
    runtime.replace_part(made, (7, 8, 9), 1, 2)
    runtime.extend_list(made, (4,))
    assert list.__getitem__(made, slice(None)) == [1, 7, 8, 9, 3, 4]
    queue = of(collections.deque, [1, 2])
    runtime.replace_deque(queue, (3, 4))
    assert list(collections.deque.__iter__(queue)) == [3, 4]
    numbers = of(set, [1, 2])
    runtime.replace_set(numbers, (2, 3))
    assert set.__eq__(numbers, {2, 3})


def test_a_deque_of_the_same_length_goes_on_being_iterated():
    queue = collections.deque([1, 2, 3])
    iterator = iter(queue)
    next(iterator)
    runtime.set_items(queue, (4, 5, 6))
    assert list(iterator) == [5, 6]


def test_constants_of_code():
    held = {"a": 1}
    assert _native.unhold(_native.Held(held)) is held and _native.unhold(held) is held
    assert runtime.Kept(held)() is held
    weak = runtime.Weak(made := Guarded())
    assert weak() is made
    del made
    with pytest.raises(ReferenceError, match="has died"):
        weak()


def test_a_size_is_computed_of_the_values_of_its_symbols():
    scope = Scope()
    n, m = scope.symbol("n"), scope.symbol("m")
    size = runtime.SizeFunction(postfix(n * m + 1), ("m", "n"))
    assert [size(2, k) for k in (1, 5, 7)] == [3, 11, 15]


def test_functions_are_made_whole():
    def outer(y):
        def f(x, *, k=1):
            return x + y + k
        return f

    real = outer(2)
    made = runtime.function(real.__code__, _native.Held({"__name__": "m"}), ("f", "C.f"), None, {"k": 10},
                            real.__closure__, (5,), ("note",))
    assert made(1) == 13 and (made.__name__, made.__qualname__, made.__module__, made.note) == ("f", "C.f", "m", 5)
    partial = runtime.partial(made, (1,), ("k",), (3,))
    assert isinstance(partial, functools.partial) and partial() == 6


def test_methods_are_bound_as_their_class_binds_them():
    assert runtime.method(list.append, made := [1]).__self__ is made
    bound = runtime.method(Guarded.__init__, made)
    assert bound.__self__ is made
    assert runtime.method(lambda self: self, 3)() == 3


def test_a_class_is_made_without_the_hook_of_its_bases():
    class Base:
        def __init_subclass__(cls, **kwargs):
            refuse()

    made = runtime.new_class(type, "Made", (Base,), ("x",), (1,))
    assert made.__bases__ == (Base,) and made.x == 1 and made.__mro__ == (made, Base, object)
    assert Base.__subclasses__() == [made] and weakref.ref(made)() is made
    assert not runtime.is_quiet((Base,)) and runtime.is_quiet((Guarded, int))


def test_arrays_of_numpy_are_made_anew():
    content = np.arange(6.0).reshape(2, 3)
    content.flags.writeable = False
    made = runtime.ndarray(runtime.Content(content))
    assert made is not content and not made.flags.writeable and (made == content).all()
    owner = np.arange(6)
    view = runtime.ndarray_view(owner, (owner.dtype, (3,), (16,), 8, True))
    view[0] = 50
    assert owner.tolist() == [0, 50, 2, 3, 4, 5] and view.tolist() == [50, 3, 5]


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_are_made_of_their_data_without_an_operation(impl, monkeypatch):
    key = jax.random.split(jax.random.key(3, impl=impl), 2)
    name, data = key_impl(key.dtype), jax.random.key_data(key)
    runtime.wrap_key(data, name)
    with monkeypatch.context() as patched:
        patched.setattr(jax.random, "wrap_key_data", None)
        made = runtime.wrap_key(data, name)
    assert type(made) is type(key) and made.dtype == key.dtype and made.aval == key.aval and (made == key).all()
    assert (jax.random.bits(made[0]) == jax.random.bits(key[0])).all()
    traced = jax.vmap(lambda d: jax.random.bits(runtime.wrap_key(d, name)))(data)
    assert (traced == jax.vmap(jax.random.bits)(key)).all()
