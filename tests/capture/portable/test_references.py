"""dynacomp.capture.portable.references: objects as data, found again in other processes or made again; what is another,
or not there, is refused."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import sys
import types
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from dynacomp.capture.portable import references
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.references import Changed, Reader, Writer
from tests.capture.portable.kit import Plain, made


@pytest.mark.parametrize("obj", [
    1, "a", (1, (2.0, None)), jnp.exp, jnp.tril, np.exp, len, tuple.__new__, Plain, np, vars(np), dict, made,
    types.FunctionType, jax.nn.relu, jnp.float32, np.dtype("f4"), jnp.dtype("bfloat16"),
    types.FunctionType.__dict__["__code__"], type(iter(range(0))), np.float32(0.1), ml_dtypes.bfloat16(2.5),
    np.uint8(3), np.bool_(True), np.complex64(1j), np.float16(0.5),
])
def test_written_and_read_again(obj):
    found = Reader().read(Writer().write(obj))
    assert found is obj or found == obj and type(found) is type(obj)


@pytest.mark.parametrize("obj", [jnp.finfo("float32"), jnp.finfo("bfloat16"), np.finfo("float64")])
def test_what_is_known_of_a_dtype_is_one_object(obj):
    written = Writer().write(obj)
    assert written[0] == "found" and Reader().read(pickle.loads(pickle.dumps(written))) is obj


def test_what_is_not_found_again():
    for obj in (made(1), "<function f at 0x7f0000000000>", Plain(1), {"a": made(1)}):
        with pytest.raises(Unportable):
            Writer().write(obj)
    tag, number, data = Writer().write(made)
    with pytest.raises(Changed):
        Reader().read((tag, number, (*data[:-1], "another")))
    reader = Reader()
    reader.found(0, made)
    for number, obj in ((0, Plain), (1, made)):
        with pytest.raises(Changed):
            reader.found(number, obj)
    with pytest.raises(Changed):
        Reader().read(("module", "a_module_that_is_not_there"))


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    inner: object = None


class Slots:
    """Compared and hashed by what it holds; one of its slots may be empty."""

    __slots__ = ("kept", "unset")

    def __init__(self, kept):
        self.kept = kept

    def __eq__(self, other):
        return type(other) is Slots and other.kept == self.kept

    def __hash__(self):
        raise AssertionError("nobody asks for it")


class Loose:
    """Compared by what it holds, which may change."""

    def __eq__(self, other):
        return True


def again(obj):
    return Reader().read(pickle.loads(pickle.dumps(Writer().write(obj))))


@pytest.mark.parametrize("obj", [
    Pair(1, ("a", Pair)), Setting("x", Setting("y", jnp.sin)), Slots({"k": [1, Setting("z")]}),
    jax.tree.structure(({"a": 1, "b": [2, None]}, Pair(3, 4))), jax.tree.structure(None), jax.tree.structure(0),
])
def test_what_it_holds_is_made_again(obj):
    made = again(obj)
    assert made is not obj and made == obj and type(made) is type(obj)


def test_slots_that_are_not_set_and_what_is_one():
    assert not hasattr(again(Slots(1)), "unset")
    shared = Setting("s")
    first, second = again((shared, Setting("t", shared)))
    assert first is second.inner


def test_weak_references():
    kept, gone, other = again([weakref.ref(jnp.sin), weakref.ref(Setting("a")), weakref.ref(Setting("b"))])
    assert kept() is jnp.sin and gone() is None and gone != other
    with pytest.raises(Unportable):
        again(weakref.ref(alive := Setting("c")))
    del alive


@pytest.mark.parametrize("obj", [Loose(), object(), Setting("x", np.ones(2)), Setting("x", Loose()), jnp.ones(2)])
def test_what_may_change_is_not_made_again(obj):
    with pytest.raises(Unportable):
        again(obj)


def test_a_value_of_a_class_that_changed(monkeypatch):
    data = Writer().write(Slots(3))
    monkeypatch.setattr(Slots, "__eq__", lambda self, other: True)
    with pytest.raises(Changed):
        Reader().read(data)


def test_what_may_be_a_hash_is_told():
    writer = Writer()
    writer.write(Setting("x", hash("some text")))
    assert writer.hashes
    writer = Writer()
    writer.write((hash("a constant of the program"), Setting("x", 1000)))
    assert not writer.hashes


def test_what_a_library_keeps_is_found():
    assert again(sys.implementation) is sys.implementation


def test_contents_of_arrays_are_read_whatever_holds_their_memory():
    for shown in (np.zeros((20, 20)), np.ones((3, 20), "f4", order="F"), np.zeros((20, 20), "f4")):
        for kept in (True, False):
            read = references._read_content(None, pickle.dumps(shown), kept).array
            assert read.flags.writeable == kept and read.strides == shown.strides and np.array_equal(read, shown)
