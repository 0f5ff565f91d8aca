"""`capture.wrapping.keyed_tables`: tables whose keys differ; keys are constants wherever nobody compares them."""

import copy

import pytest

from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.wrapping.keyed_tables import MOST, ChangingKey, Keyed


class Asking(Keyed):
    """A table that notes what it asks, and is answered by the numbers at hand."""

    def __init__(self, items=()):
        super().__init__(None, items)
        self.asked = []

    def ask(self, name, fn, *args):
        self.asked.append(name)
        return fn(*(v.value if isinstance(v, Const) else v.hint for v in args))


def key(number, source=None):
    made = ScalarV(number, source=source or f"number {number}")
    return ChangingKey(made, made, lambda: number)


def test_a_key_is_found_again_without_a_question():
    table = Asking()
    table[key(5)] = "a"
    assert table[key(5)] == "a" and key(5) in table and table.pop(key(5)) == "a" and not table
    assert table.asked == []


def test_keys_are_compared_with_all_others():
    table = Asking({1: "one", "k": "text"})
    table[key(7)] = "seven"
    assert table.asked == ["contains"] and len(table) == 3
    assert table.get(7) == "seven" and table.get(8) is None and "eq" in table.asked
    table.asked.clear()
    assert table["k"] == "text" and not table.asked  # which equals no number
    table[key(1)] = "uno"
    assert list(table.values()) == ["uno", "text", "seven"] and 1 in list(table)


def test_keys_that_were_equal_are_one():
    table = Asking()
    table[key(3, "n")], table[key(3, "m")] = "first", "second"
    assert list(table.values()) == ["second"] and len(table.changing) == 1


def test_views_and_copies_compare_as_the_table_does():
    table = Asking({2: "two"})
    table[key(5)] = "five"
    assert 5 in table.keys() and 6 not in table.keys() and len(table.keys()) == 2
    made = copy.copy(table)
    made.ask = table.ask
    assert made[key(5)] == "five" and made.pop(2) == "two" and 2 in table


def test_whoever_hashes_such_a_key_has_a_constant():
    table = Asking({2: "two"})
    table[key(5)] = "five"
    assert dict(table) == {2: "two", 5: "five"} and {5: 0}[key(5)] == 0 and key(6) not in {5: 0}


def test_too_many_keys_become_constants():
    table = Asking()
    for n in range(MOST + 1):
        table[key(n)] = n
    assert list(table) == list(range(MOST + 1)) and not table.changing


def test_a_key_with_its_own_hash_settles_the_table():
    table = Asking()
    table[key(5)] = "five"
    assert frozenset([object]) not in table and list(table) == [5]


@pytest.mark.parametrize("change", [Keyed.clear, Keyed.popitem, lambda table: table.__delitem__(5)])
def test_what_goes_is_compared_no_more(change):
    table = Asking()
    table[key(5)] = "five"
    change(table)
    assert not table and not table.changing
