"""opcodes_names: a global is found and guarded once in a capture, and is what the program has made of it since."""

import os
import sys
import sysconfig
import types

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")


def scale(x):
    return x * 2


def shift(x):
    return x + 100


FACTOR = 3


class Kind:
    step = 1

    def by(self, x):
        return x + self.step

    def other(self, x):
        return x - self.step


def rebound(x):
    global FACTOR, scale
    a = scale(x) * FACTOR
    kept = FACTOR, scale
    FACTOR, scale = FACTOR + 1, shift
    b = scale(x) * FACTOR
    FACTOR, scale = kept
    return a, b, scale(x) * FACTOR


def test_a_name_is_what_it_was_bound_to_last():
    run = dynacomp.jit(rebound, fullgraph=True)
    for x in (jnp.float32(1), jnp.float32(2)):
        assert run(x) == rebound(x) == (6 * x, (x + 100) * 4, 6 * x)


def deleted(x):
    global FACTOR
    kept = FACTOR
    del FACTOR
    try:
        return x * FACTOR
    except NameError:
        FACTOR = kept
        return x * FACTOR + 1


def test_a_deleted_name_is_not_found():
    assert dynacomp.jit(deleted)(jnp.float32(2)) == 7 and FACTOR == 3


def twice(x):
    return scale(scale(x)) * FACTOR * FACTOR + Kind().by(x) + Kind().by(x)


def test_what_is_read_twice_is_guarded(monkeypatch):
    run = dynacomp.jit(twice)
    assert run(jnp.float32(1)) == twice(jnp.float32(1)) == 40
    monkeypatch.setitem(globals(), "scale", shift)
    assert run(jnp.float32(1)) == twice(jnp.float32(1))
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert run(jnp.float32(1)) == twice(jnp.float32(1))
    monkeypatch.setattr(Kind, "by", Kind.other)
    assert run(jnp.float32(1)) == twice(jnp.float32(1))


def patched(x):
    before = Kind().by(x)
    Kind.by = Kind.other
    try:
        return before, Kind().by(x)
    finally:
        del Kind.by


def test_a_method_that_the_program_replaces_is_the_new_one():
    kept = Kind.by
    try:
        assert dynacomp.jit(patched)(jnp.float32(5)) == (6, 4)
    finally:
        Kind.by = kept


@pytest.mark.parametrize("call", [lambda x: max(), lambda x: isinstance(x), lambda x: isinstance(x, int, 3),
                                  lambda x: getattr(x, "shape", None, None), lambda x: len(x, obj=x)])
def test_rows_refuse_what_they_do_not_take(call):
    with pytest.raises(TypeError) as plain:
        call(jnp.ones(2))
    with pytest.raises(TypeError) as compiled:
        dynacomp.jit(call)(jnp.ones(2))
    assert str(plain.value) == str(compiled.value)


def hidden(x):
    global len
    before = [len([x]) for _ in range(3)]
    len = lambda values: 7
    try:
        between = [len([x]) for _ in range(2)]
    finally:
        del len
    return x * sum(before), x * sum(between), x * len([x])  # noqa: F821


def test_a_built_in_name_that_is_hidden_between_two_reads():
    run = dynacomp.jit(hidden)
    for n in range(3):
        assert run(jnp.float32(n)) == hidden(jnp.float32(n)) == (3 * n, 14 * n, n)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


SOURCE = """
import math as m
RATES = (1.0, 2.0)

def scaled(x, by=2.0, *, plus=1.0):
    return x * by * len(RATES) + plus

def halved(x):
    return x / m.sqrt(4.0)
"""


@pytest.fixture
def library(monkeypatch):
    """A module as one that lies where libraries are installed."""
    file = os.path.join(sysconfig.get_paths()["purelib"], "settled_library.py")
    made = types.ModuleType("settled_library")
    made.__file__ = file
    exec(compile(SOURCE, file, "exec"), vars(made))
    monkeypatch.setitem(sys.modules, "settled_library", made)
    return made


def patches(library):
    """What may be done to a module, and how it is undone."""
    scaled, halved, m = library.scaled, library.halved, library.m
    yield lambda: setattr(library, "scaled", halved), lambda: setattr(library, "scaled", scaled)
    yield lambda: setattr(library, "len", lambda x: 7), lambda: delattr(library, "len")
    yield lambda: setattr(library, "RATES", (1.0,)), lambda: setattr(library, "RATES", (1.0, 2.0))
    by = scaled.__defaults__
    yield lambda: setattr(scaled, "__defaults__", (5.0,)), lambda: setattr(scaled, "__defaults__", by)
    yield (lambda: scaled.__kwdefaults__.__setitem__("plus", 9.0),
           lambda: scaled.__kwdefaults__.__setitem__("plus", 1.0))
    code = halved.__code__
    yield (lambda: setattr(halved, "__code__", (lambda x: x * 3).__code__), lambda: setattr(halved, "__code__", code))
    twice = types.SimpleNamespace(sqrt=lambda x: x)
    yield lambda: setattr(library, "m", twice), lambda: setattr(library, "m", m)


def test_what_a_library_holds_is_one_question_and_whoever_patches_it_is_heard(library):
    def program(x):
        return library.scaled(x) + library.halved(x)

    compiled, x = dynacomp.jit(program), jnp.arange(3.0)
    before = dynacomp.stats()["frames_captured"]
    for _ in range(10):
        assert (compiled(x) == program(x)).all()
    assert dynacomp.stats()["frames_captured"] - before == 1
    (region,) = dynacomp.explain(lambda x: library.scaled(x) + library.halved(x))(x).regions
    assert sum("settled_library" in line for line in str(region.guards).splitlines()) <= 4
    for change, undo in patches(library):
        change()
        for _ in range(2):
            assert (compiled(x) == program(x)).all()
        undo()
        captured = dynacomp.stats()["frames_captured"]
        assert (compiled(x) == program(x)).all()
        assert dynacomp.stats()["frames_captured"] == captured
