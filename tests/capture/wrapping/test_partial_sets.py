"""`wrapping.partial_sets`: what a log of changes makes of a set is what Python makes of it."""

import random

from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.wrapping.partial_sets import Members


def test_changes_are_made_one_after_the_other():
    rng = random.Random(0)
    for _ in range(50):
        given = {rng.randrange(30) for _ in range(rng.randrange(6))}
        known, changes = Members(Const(tuple(given))), [(rng.randrange(30), rng.random() < 0.7) for _ in range(8)]
        for key, added in changes:
            known = known.then(key, added)
        made = known.applied(given)
        for key, added in changes:
            (given.add if added else given.discard)(key)
        assert made == given and len(given) == known.count().hint
        assert all(known.has(key).hint == (key in given) for key in range(30))


def test_the_question_is_asked_in_each_call():
    found = Members(Const((1, 2))).then(3, True).has(3)
    assert isinstance(found, ScalarV) and found.hint is True and "holds" in repr(found.source)
    emptied = Members(Const(()), emptied=True)
    assert emptied.applied({1, 2}) == set() and emptied.constants() is None
