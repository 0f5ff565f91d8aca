"""Every public name says what it is by an example, which runs."""

import doctest

import pytest

import dynacomp
from dynacomp.capture.symbolic import libraries
from dynacomp.driver import foreign

FUNCTIONS = [name for name in dynacomp.__all__ if callable(getattr(dynacomp, name))
             and not (isinstance(getattr(dynacomp, name), type) and issubclass(getattr(dynacomp, name), Exception))]


@pytest.fixture
def as_before():
    """What examples register is theirs."""
    kept = [(table, dict(table)) for table in (foreign.FOREIGN, libraries.REGISTERED)]
    yield
    for table, before in kept:
        table.clear()
        table.update(before)
    dynacomp.reset()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_runs(name, as_before):
    found = doctest.DocTestFinder(recurse=False).find(getattr(dynacomp, name), name, globs={})
    assert found[0].examples, f"{name} has no example"
    report = []
    result = doctest.DocTestRunner(verbose=False).run(found[0], out=report.append)
    assert result.failed == 0, "".join(report)


def test_what_is_public_is_told_in_the_packages_docstring():
    untold = [name for name in FUNCTIONS if f"`{name}`" not in dynacomp.__doc__]
    assert not untold
