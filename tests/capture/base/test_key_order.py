"""ByName tell when something first asks in which order they stand."""

import copy

import pytest

from dynacomp.capture.base.key_order import ByName, is_arranged, is_unordered, unordered

ASKING = [iter, reversed, list, dict, sorted, dict.fromkeys, copy.copy, lambda a: a == {}, lambda a: {**a},
          lambda a: a | {}, lambda a: {} | a, lambda a: list(a.items()), lambda a: list(a.values()), lambda a: a.keys(),
          lambda a: a.popitem(), lambda a: a.copy(), lambda a: {}.update(a), lambda a: [*a], set]
NOT_ASKING = [len, bool, unordered, lambda a: a["b"], lambda a: a.get("z"), lambda a: "b" in a,
              lambda a: a.__setitem__("c", 3), lambda a: a.update(c=3), lambda a: a.clear(), lambda a: a.pop("b"),
              lambda a: a.setdefault("b", 1)]


def made():
    asked = []
    return ByName({"b": 1, "a": 2}, lambda: asked.append("order")), asked


@pytest.mark.parametrize("use", ASKING)
def test_what_goes_through_them_asks_once(use):
    attributes, asked = made()
    assert is_unordered(attributes)
    use(attributes), attributes.ask()
    assert asked == ["order"] and not is_unordered(attributes) and not is_arranged(attributes)


@pytest.mark.parametrize("use", NOT_ASKING)
def test_what_asks_for_names_does_not(use):
    attributes, asked = made()
    use(attributes)
    assert asked == []


def test_after_all_were_taken_out_the_order_is_the_programs():
    attributes, asked = made()
    attributes.clear()
    attributes.update(a=1, b=2)
    assert list(attributes) == ["a", "b"] and asked == [] and is_arranged(attributes)
    attributes, asked = made()
    assert list(attributes) == ["b", "a"]
    attributes.clear()
    assert asked == ["order"] and not is_arranged(attributes)
