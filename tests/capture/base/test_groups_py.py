"""`except*` and exception groups: what they take, leave and raise, with and without graph breaks inside."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def shown(error):
    """A group's tree and chain, as data."""
    if error is None:
        return None
    parts = [shown(e) for e in error.exceptions] if isinstance(error, BaseExceptionGroup) else list(error.args)
    return (type(error).__name__, str(error), parts, shown(error.__cause__), shown(error.__context__),
            error.__suppress_context__,
            getattr(error, "__notes__", None))


def outcome(fn, x):
    try:
        return [np.asarray(v) if hasattr(v, "shape") else v for v in fn(x)], None
    except BaseException as error:
        return None, shown(error)


def group():
    return ExceptionGroup("many", [ValueError(1), TypeError(2), ExceptionGroup("inner", [ValueError(3), KeyError(4)])])


def taken(x):
    seen = []
    try:
        raise group()
    except* ValueError as error:
        seen.append(shown(error))
        x = x + 1
    except* (TypeError, KeyError) as error:
        seen.append((shown(error), shown(sys.exception())))
        x = x * 2
    return x, seen


def some_left(x):
    try:
        raise group()
    except* ValueError:
        x = x + 1


def raised_in_clauses(x):
    try:
        raise group()
    except* ValueError:
        raise OSError("new")  # noqa: B904
    except* TypeError as error:
        raise error


def naked(x):
    seen = []
    try:
        raise ValueError("alone")
    except* ValueError as error:
        seen.append(shown(error))
    else:
        seen.append("else")
    finally:
        seen.append("finally")
    return x + 1, seen


def unmatched_naked(x):
    try:
        raise ValueError("alone")
    except* TypeError:
        x = x + 1


def reraised(x):
    try:
        raise group()
    except* ValueError:
        raise


def not_raised(x):
    try:
        x = x + 1
    except* ValueError:
        x = x + 2
    else:
        x = x * 3
    return (x,)


def broken(x):
    seen = []
    try:
        raise group()
    except* ValueError as error:
        dynacomp.graph_break()
        seen.append((shown(error), shown(sys.exception())))
        x = x + 1
    except* TypeError:
        dynacomp.graph_break()
        x = x * 2
        raise
    return x, seen


def wrong_kinds(x):
    try:
        raise ValueError("alone")
    except* ExceptionGroup:
        x = x + 1


def methods(x):
    error = group()
    error.add_note("noted")
    values, rest = error.split(ValueError)
    return (x, shown(values), shown(rest), shown(error.subgroup(lambda e: e.args == (4,))), error.message,
            shown(error.derive([OSError()])), len(error.exceptions), repr(error), error.args[0],
            [type(BaseExceptionGroup("m", e)).__name__ for e in ([ValueError()], [KeyboardInterrupt()])])


class Own(ExceptionGroup):
    def __new__(cls, errors, code):
        made = super().__new__(cls, "own", errors)
        made.code = code
        return made

    def derive(self, errors):
        return Own(errors, self.code)


def own_class(x):
    try:
        raise Own([ValueError(1), TypeError(2)], 7)
    except* ValueError as error:
        x = x + error.code
        dynacomp.graph_break()
        assert isinstance(error, Own)
        x = x + error.code


def refused(x):
    seen = []
    for args in (("m", []), ("m", [1]), (1, [ValueError()]), ("m", 5), ("m",)):
        try:
            ExceptionGroup(*args)
        except (TypeError, ValueError) as error:
            seen.append((type(error), error.args))
    return x + 1, seen


PROGRAMS = [taken, some_left, raised_in_clauses, naked, unmatched_naked, reraised, not_raised, broken, wrong_kinds,
            methods, own_class, refused]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_groups(fn):
    want = outcome(fn, jnp.arange(3.0))
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        np.testing.assert_equal(outcome(compiled, jnp.arange(3.0)), want)
    assert set(dynacomp.stats()["frames_eager"]) <= {"raises"}


@pytest.mark.parametrize("fn", [taken, naked, not_raised, methods], ids=lambda f: f.__name__)
def test_no_break_is_needed(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager", fullgraph=True)
    np.testing.assert_equal(outcome(compiled, jnp.arange(3.0)), outcome(fn, jnp.arange(3.0)))
    assert dynacomp.stats()["frames_captured"] and not dynacomp.stats()["breaks"]
