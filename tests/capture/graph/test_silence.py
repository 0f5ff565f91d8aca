"""Warnings that nobody is to see: of this thread, of these modules, no others."""

import threading
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.silence import OF_SIZES, giving, nothing_hidden, noting, saying_nothing


def test_other_threads_may_warn_meanwhile():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with saying_nothing():
            warnings.warn("this thread", stacklevel=1)
            other = threading.Thread(target=warnings.warn, args=("another thread",))
            other.start()
            other.join()
        warnings.warn("afterwards", stacklevel=1)
    assert [str(w.message) for w in seen] == ["another thread", "afterwards"]


INDEXING = {
    "read": lambda x: x[np.array([0, 2, 1])] * 2,
    "two axes": lambda x: x[np.array([0, 2, 1]), np.array([0, 1, -1])],
    "set": lambda x: x.at[np.array([0, -1])].set(0.0),
}


@pytest.mark.parametrize("name", INDEXING)
def test_an_unknown_size_and_an_index_of_numpys_have_no_warning(name):
    """JAX makes an array of the size, as wide as the index, of a dtype that it does not have."""
    dynacomp.reset()
    compiled = dynacomp.jit(INDEXING[name], backend="eager")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in (4, 5, 7, 9):
            x = jnp.arange(3.0 * n).reshape(n, 3)
            assert (compiled(x) == INDEXING[name](x)).all()
    assert not seen and dynacomp.stats()["frames_captured"] == 2


def test_who_reads_the_filters_meanwhile_finds_the_programs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = list(warnings.filters)
        with saying_nothing(), saying_nothing(OF_SIZES):
            inside = list(warnings.filters)
            with nothing_hidden():
                assert warnings.filters == own
            assert warnings.filters == inside and len(inside) == len(own) + 2
        assert warnings.filters == own


def deprecated(level):
    warnings.warn("old", DeprecationWarning, stacklevel=level)


def test_warnings_are_noted_where_they_are_about():
    said = []
    with warnings.catch_warnings(record=True) as given, noting(said):
        warnings.simplefilter("always")
        deprecated(1)
        deprecated(2)
        other = threading.Thread(target=warnings.warn, args=("another thread",))
        other.start()
        other.join()
        with saying_nothing():
            deprecated(1)
        with giving():
            warnings.warn("given", stacklevel=1)
        with noting([]):
            deprecated(1)
    lines = [deprecated.__code__.co_firstlineno + 1,
             test_warnings_are_noted_where_they_are_about.__code__.co_firstlineno + 5]
    assert [(one.text, one.kind, one.place[0], one.place[1]) for one in said] == [
        ("old", DeprecationWarning, __file__, line) for line in lines]
    assert [str(w.message) for w in given] == ["another thread", "given"]
    assert warnings.warn.__module__ == "_warnings"


def test_who_catches_warnings_meanwhile_has_them():
    said = []
    with noting(said):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("recorded", stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not shown", stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="an error"):
                warnings.warn("an error", stacklevel=1)
            warnings.simplefilter("always")
            warnings.warn("shown", stacklevel=1)
        warnings.warn("last", stacklevel=1)
    assert [str(w.message) for w in caught] == ["recorded"] and [w.filename for w in caught] == [__file__]
    assert [s.text for s in said] == ["shown", "last"]
