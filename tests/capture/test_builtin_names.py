"""Names that stand in module `builtins`: programs put their own there, and replace some."""

import builtins

import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(2.0)


@pytest.fixture(autouse=True)
def own():
    builtins.shift = 1.0
    yield
    for name in ("shift", "other"):
        vars(builtins).pop(name, None)


def test_a_name_of_the_programs_own_is_read_by_each_call():
    compiled = dynacomp.jit(lambda x: x + shift)  # noqa: F821
    for value in (1.0, 5.0, X):
        builtins.shift = value
        assert repr(compiled(X)) == repr(X + value)


def test_what_the_code_puts_there_is_there():
    def attribute(x, v):
        builtins.shift = v
        return x + shift  # noqa: F821

    def entry(x, v):
        builtins.__dict__["shift"], builtins.__dict__["other"] = v, 1
        return x + shift + other  # noqa: F821

    for fn in (attribute, entry):
        compiled = dynacomp.jit(fn)
        for v in (3.0, 4.0):
            assert repr(compiled(X, v)) == repr(fn(X, v)) and builtins.shift == v


def test_a_name_that_is_gone_is_noticed():
    def f(x):
        try:
            return x + shift  # noqa: F821
        except NameError as error:
            return str(error), x

    compiled = dynacomp.jit(f)
    for change in (lambda: None, lambda: delattr(builtins, "shift"), lambda: setattr(builtins, "shift", 2.0)):
        change()
        assert repr(compiled(X)) == repr(f(X))


def test_one_that_is_replaced_is_called(monkeypatch):
    compiled = dynacomp.jit(lambda x: (x, hex(3)))
    assert compiled(X)[1] == "0x3"
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "hex", lambda v: "mine")
        assert compiled(X)[1] == "mine"
    assert compiled(X)[1] == "0x3"


def test_a_deleted_global_uncovers_a_builtin():
    space = {"hex": lambda v: "global"}
    exec("def f(x):\n global hex\n first = hex(3)\n del hex\n return first, hex(3), x", space)
    assert dynacomp.jit(space["f"])(X)[:2] == ("global", "0x3") and "hex" not in space
