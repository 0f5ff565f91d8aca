"""`base.identity_table`: keys are objects, not what is equal to them, and are not kept alive."""

import gc

from dynacomp.capture.base.identity_table import IdentityTable


class Key:
    def __eq__(self, other):
        raise AssertionError("a key is compared")

    __hash__ = None


def test_keys_are_objects():
    table, one, other = IdentityTable(), Key(), Key()
    table[one] = 1
    assert table.get(one) == 1 and one in table and other not in table
    assert table.setdefault(other, lambda: 2) == 2 and table.setdefault(other, lambda: 3) == 2
    table[one] = 4
    assert table.get(one) == 4
    table.clear()
    assert one not in table and other not in table


def test_an_entry_goes_with_its_key():
    table, key = IdentityTable(), Key()
    table[key] = "kept"
    assert len(table._rows) == 1
    del key
    gc.collect()
    assert not table._rows


def test_what_has_no_weak_references_lives_as_long_as_the_table():
    table, number = IdentityTable(), 10 ** 30
    table[number] = "kept"
    at = id(number)
    del number
    assert at in table._rows and table._rows[at][0]() == 10 ** 30
