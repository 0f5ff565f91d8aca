"""dynacomp.capture.portable.record: entries as bytes; tests/dynacomp has whole processes that read them."""

import json
import types

import jax
import pytest

from dynacomp.capture._native import GuardProgram, jax_config_token
from dynacomp.capture.portable import record
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.record import PLACE, Call, Steps, _home, config_print
from dynacomp.capture.portable.references import Changed


def test_settings_of_jax_are_told_apart():
    before = config_print(jax_config_token())
    with jax.numpy_dtype_promotion("strict"):
        strict = config_print(jax_config_token())
    assert before != strict and before == config_print(jax_config_token())


def test_places_that_a_library_fills():
    assert _home(json, "dumps") == f"{PLACE}json.dumps" == _home(vars(json), "dumps")
    assert _home(json.JSONDecoder, "decode").startswith(PLACE)
    assert _home(types.ModuleType("made"), "x") is None and _home({"a": 1}, "a") is None


def code():
    return test_places_that_a_library_fills.__code__


def test_what_is_known_by_its_identity_is_found_at_the_register_that_holds_it():
    held = ["a", "list"]
    steps = Steps([held], code())
    with pytest.raises(Unportable):
        steps.reference(held, by_identity=True)
    steps.finder.add(("register", 0), held)
    kind, _, way = steps.reference(held, by_identity=True)
    assert kind == "found" and way[:3] == ("way", ("register", 0), ())
    assert steps.reference(held)[0] == "list" and steps.reference(1) == steps.writer.write(1)  # like it, else


@pytest.mark.parametrize("kind", ["known_key"])
def test_guards_on_hashes_of_one_process_are_not_written(kind):
    with pytest.raises(Unportable, match=kind):
        Steps([], code()).write((kind, 0, 1))


def test_what_guards_of_sets_rest_on():
    for elements, rests in (((), False), (("a",), False), ((1, 2), False), (("a", "b"), True)):
        steps = Steps([], code())
        assert steps.write(("set", 0, elements))[:2] == ("step", "set") and steps.writer.hashes == rests
    with pytest.raises(Unportable, match="order"):
        Steps([], code()).write(("set", 0, ("a", int)))


def test_numbers_and_values_are_found_only_where_their_identity_tells():
    big = 1 << 40
    steps = [("const", 0, big), ("const", 1, big + 1), ("distinct", 1, 0)]
    with pytest.raises(Unportable, match="identity"):
        Steps([big, big + 1], code(), steps).write(steps[0])
    assert Steps([big, big + 1], code(), steps[:2]).write(steps[0])[2][1] == ("is", big)


def test_registers_are_filled_once(monkeypatch):
    made = []
    monkeypatch.setattr(record, "GuardProgram", lambda steps: made.append(len(steps)) or GuardProgram(steps))
    items = [str(k) for k in range(50)]
    call = Call(code, code.__code__, (items, 50))
    call.steps += [("local", 0, 0), ("local", 1, 1), ("int_size", 0, 1)]
    for k, item in enumerate(items, 2):
        call.steps += [("item", k, 0, k - 2), ("size_check", (("size", 0), ("int", 50), "eq"))]
        assert call.register(k) is item
    assert call.register(0) is items and len(made) == 50 and max(made) <= 7
    call.steps.append(("eq", 51, "another"))
    with pytest.raises(Changed):
        call.steps.append(("item", 52, 0, 0))
        call.register(52)
