"""`opcodes.unguarded_inputs`: locals that are only handed through are not looked at."""

import jax.numpy as jnp

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.opcodes.unguarded_inputs import _is_dropped, _is_returned
from tests.capture.program_kit import captured


def returned(a, b):
    return a, b


def used(a, b):
    return a + b, b


def loads(fn):
    code = decode(fn.__code__)
    return code, [n for n, i in enumerate(code.instrs) if i.name.startswith("LOAD_FAST")]


def test_what_is_only_returned_in_a_tuple():
    code, places = loads(returned)
    assert all(_is_returned(code, at + 1) for at in places)
    code, places = loads(used)
    assert not _is_returned(code, places[0] + 1) and not _is_dropped(code, places[0] + 1)


def handed_through(x, config):
    y = x * 2
    return y, config


def test_it_has_no_guard():
    region = captured(handed_through, jnp.arange(3.0), {"deep": [1, 2]})
    assert not any("config" in str(guard) for guard in region.guards)
