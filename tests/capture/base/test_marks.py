"""Marks tell objects apart by identity, and keep none alive."""

import gc
import weakref

from dynacomp.capture.base.marks import Mark


class Alike:
    def __eq__(self, other):
        return True

    __hash__ = None  # type: ignore[assignment]


def test_marks_of_equal_objects():
    one, other = Alike(), Alike()
    assert Mark(one) == Mark(one) and Mark(one) != Mark(other) and len({Mark(one), Mark(one), Mark(other)}) == 2


def test_marks_of_what_is_gone():
    one = Alike()
    mark, again, gone = Mark(one), Mark(one), weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None and mark != again


def test_marks_of_what_takes_no_weak_references():
    pair = (1, [])
    assert Mark(pair) == Mark(pair) != Mark((1, []))
