"""opcodes_names: a global is found and guarded once in a capture, and is what the program has made of it since."""

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
