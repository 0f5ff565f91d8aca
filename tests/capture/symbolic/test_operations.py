"""Operations that are filled from above: none forgotten, none that does not exist."""

import pytest

from dynacomp.capture.symbolic.operations import OPERATIONS, Operations, check_operations


def test_every_operation_has_an_implementation():
    check_operations()
    assert all(callable(getattr(OPERATIONS, name)) for name in Operations.__annotations__)


def test_one_that_nobody_fills_stops_the_import(monkeypatch):
    monkeypatch.delattr(OPERATIONS, "cell_content")
    with pytest.raises(ImportError, match="no implementation of cell_content"):
        check_operations()


def test_one_that_is_not_declared_cannot_be_filled():
    with pytest.raises(AttributeError):
        OPERATIONS.concrete = len
