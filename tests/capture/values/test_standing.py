"""Keys that stand for objects: equal and hashed as these are, found in real dicts and sets."""

import pytest

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.standing import HashedV, IdV
from dynacomp.capture.values.value import type_of


def test_ids_are_equal_where_the_objects_are_one():
    real, other = [], []
    a, b, c = IdV(ObjectV(list), real), IdV(ObjectV(list), real), IdV(ObjectV(list), other)
    assert a == b and hash(a) == hash(b) and a != c and len({a, b, c}) == 2
    assert a == id(real) and a != id(other) and type_of(a) is int


def test_a_key_is_compared_by_the_programs_equality_and_only_after_its_hash():
    asked = []

    def same(a, b):
        asked.append((a, b))
        return a.cls is b.cls if isinstance(b, ObjectV) else b.value == 7

    one, two, far = HashedV(ObjectV(int), 5, same), HashedV(ObjectV(int), 5, same), HashedV(ObjectV(int), 6, same)
    table = {one: "found"}
    assert table[two] == "found" and asked == [(one.value, two.value)] or asked == [(two.value, one.value)]
    asked.clear()
    assert far not in table and one in table and not asked  # another hash, and the very key
    assert one == 7 and isinstance(asked[0][1], Const) and asked[0][1].value == 7
    assert one == Const(7) and one != Const(8)


@pytest.mark.parametrize("by_id", [True, False])
def test_keys_know_whether_their_hash_is_an_address(by_id):
    assert HashedV(Const(1), 1, lambda a, b: True, by_id).by_id is by_id
