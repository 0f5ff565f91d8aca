"""dynacomp.capture.portable.references: objects as data, and found again; what is another, or not there, is refused."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.references import Changed, Reader, Writer


class Plain:
    def __init__(self, x):
        self.x = x


def made(by, default=1):
    def inner(x, y=default):
        return x * by + y
    return inner


@pytest.mark.parametrize("obj", [
    1, "a", (1, (2.0, None)), jnp.exp, jnp.tril, np.exp, len, tuple.__new__, Plain, np, vars(np), dict, made,
    types.FunctionType, jax.nn.relu, jnp.float32, np.dtype("f4"), jnp.dtype("bfloat16"),
    types.FunctionType.__dict__["__code__"], type(iter(range(0))),
])
def test_written_and_read_again(obj):
    found = Reader().read(Writer().write(obj))
    assert found is obj or found == obj and type(found) is type(obj)


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
