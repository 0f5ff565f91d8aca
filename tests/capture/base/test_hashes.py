"""dynacomp.capture.base.hashes: which orders of sets another process has as well."""

from __future__ import annotations

import pytest

from dynacomp.capture.base import hashes


@pytest.mark.parametrize(("elements", "seen"), [
    ({1, 2.5, 3j}, (0, 0)), ({"a"}, (0, 0)), ({object()}, (0, 0)), ({"a", 1}, (1, 0)),
    ({("a", 1), frozenset(["b"])}, (1, 0)), ({"a", None}, (0, 1)), ({int, str}, (0, 1)), ({float("nan"), 1}, (0, 1)),
])
def test_what_the_order_of_a_set_rests_on(elements, seen, monkeypatch):
    monkeypatch.setattr(hashes, "HASHED", [0, 0])
    hashes.note_order(elements)
    assert tuple(hashes.HASHED) == seen
