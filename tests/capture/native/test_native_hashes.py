"""Dicts and sets put together of keys whose hash and equality nobody may ask for."""

import gc
import sys

import pytest

from dynacomp.capture._native import known_dict, known_hashes, known_set


class Key:
    asked = 0

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        Key.asked += 1
        return 5

    def __eq__(self, other):
        Key.asked += 1
        return self is other


def test_no_key_is_asked():
    keys = tuple(map(Key, range(200)))
    made, elements = known_dict(keys, (5,) * 200, keys), known_set(keys, (5,) * 200)
    again, more = {}, set()
    again.update(made)
    more.update(elements)
    assert [k.n for k in made] == list(range(200)) and {k.n for k in more} == set(range(200))
    assert list(map(id, again)) == list(map(id, keys)) and {h for _, h in known_hashes(made)} == {5}
    assert len(known_hashes(elements)) == 200 and Key.asked == 0
    assert made[keys[3]] is keys[3] and keys[150] in elements and Key.asked > 0


def test_they_are_ordinary_dicts_and_sets():
    made = known_dict(("a", 2, (3,)), (hash("a"), 2, None), (1, 2, 3))
    assert made == {"a": 1, 2: 2, (3,): 3} and made["a"] == 1
    made["b"] = 4
    del made["a"]
    assert list(made) == [2, (3,), "b"] and known_hashes(made) == [(k, hash(k)) for k in made]
    assert known_dict((), (), ()) == {} and known_set((), ()) == set()
    assert known_set(("a", 1), (hash("a"), None)) == {"a", 1}
    assert known_hashes({"a": 1}) == [("a", hash("a"))]


def test_references_are_counted():
    key = Key(1)
    before = sys.getrefcount(key)
    made, elements = known_dict((key,), (5,), (key,)), known_set((key,), (5,))
    assert sys.getrefcount(key) == before + 3 and gc.is_tracked(made)
    del made, elements
    assert sys.getrefcount(key) == before


def test_what_is_refused():
    with pytest.raises(ValueError, match="as many keys"):
        known_dict((1,), (), (1,))
    with pytest.raises(ValueError, match="as many keys"):
        known_set((1,), ())
    with pytest.raises(TypeError):
        known_set(([],), (None,))
    with pytest.raises(TypeError, match="expected a dict or a set"):
        known_hashes([])
