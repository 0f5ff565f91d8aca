"""Methods that assign to their object's attributes are told from those that read it, on every version of Python."""

import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.own_stores import stores_into_itself


def stores(self, x):
    self.x = x


def counts(self, x):
    self.count += 1
    return self.count * x


def clears_in_a_closure(self):
    def read():
        return self.state
    self.state = None
    return read


def reads(self, x):
    x.count += self.count
    return self.x + x


def has_an_empty_tuple(self, x=1):
    kept = ()
    return kept, self.x


def makes_another(self, x):
    made = object.__new__(type(self))
    made.x = self.x if x is None else x
    return made


def fills_a_cache(self, x):
    if self._found is None:
        self._found = x * 2
    if not hasattr(self, "_kept"):
        self._kept = {}
    return self._found, self._kept


def fills_and_counts(self, x):
    if self._found is None:
        self._found = x * 2
        self.count += 1
    return self._found


@pytest.mark.parametrize("fn", [stores, counts, clears_in_a_closure, fills_and_counts])
def test_methods_that_store(fn):
    assert stores_into_itself(decode(fn.__code__))


@pytest.mark.parametrize("fn", [reads, has_an_empty_tuple, makes_another, fills_a_cache, lambda: 1])
def test_functions_that_do_not(fn):
    assert not stores_into_itself(decode(fn.__code__))
