"""`numbers.graph_inputs`: placeholders are named by what they are read from; numbers that change fit their type."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.numbers.graph_inputs import _readable
from dynacomp.capture.values.sources import Attr, Item, Key, Local
from tests.capture.program_kit import captured

SELF = Local(0, "self")


@pytest.mark.parametrize(("source", "name"), [
    (SELF, "self"), (Attr(SELF, "w"), "self_w"), (Item(Attr(SELF, "layers"), 2), "self_layers_2"),
    (Attr(Item(Attr(SELF, "layers"), 2), "w"), "layers_2_w"), (Key(SELF, "k"), "self_k")])
def test_names(source, name):
    assert _readable(source) == name


def test_placeholders_say_what_they_are_read_from():
    region = captured(lambda table, x: table["w"][0] * x, {"w": [jnp.ones(3)]}, jnp.ones(3))
    assert {p.name for p in region.graph.placeholders} == {"table_w_0", "x"}


def test_a_number_beyond_its_type_is_captured_anew():
    def scaled(x, n):
        return x * n

    compiled = dynacomp.jit(scaled, backend="eager")
    x = jnp.arange(3)
    for n in (2, 3, 4, 5):
        assert repr(compiled(x, n)) == repr(scaled(x, n))
    before = dynacomp.stats()["frames_captured"]
    with pytest.raises(OverflowError) as plain:
        scaled(x, 1 << 40)
    with pytest.raises(OverflowError, match=str(plain.value)[:20]):
        compiled(x, 1 << 40)
    assert repr(compiled(x, 6)) == repr(scaled(x, 6)) and before >= 2
