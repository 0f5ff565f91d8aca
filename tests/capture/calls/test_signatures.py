"""`calls.signatures`: arguments find their parameters as in Python; where they do not fit, the words are CPython's."""

import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.ones(2)


PLACES = {"keywords": lambda a, b=2, *, c=3, d: (a, b, c, d), "none": lambda: (),
          "stars": lambda a, /, b, *rest, c=1, **more: (a, b, rest, c, more), "positional": lambda a, b=(), /: (a, b)}
CALLS = [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1,), {"d": 4}), ((1,), {"d": 4, "b": 5}),
         ((1,), {"a": 1, "d": 4}), ((1,), {"e": 4}), ((1, 2), {"a": 3}), ((1,), {"b": 2, "c": 9, "z": 0})]


@pytest.mark.parametrize("shape", PLACES)
def test_as_in_python(shape):
    for args, kwargs in CALLS:
        def program(x, callee=PLACES[shape], args=args, kwargs=kwargs):
            try:
                return x + 1, callee(*args, **kwargs)
            except TypeError as error:
                return x + 2, str(error)

        dynacomp.reset()
        compiled = dynacomp.jit(program, backend="eager")
        for _ in range(2):
            got, want = compiled(X), program(X)
            assert got[1] == want[1] and (got[0] == want[0]).all(), (args, kwargs)
        stats = dynacomp.stats()
        assert (stats["frames_captured"], stats["breaks"], stats["frames_eager"]) == (1, {}, {})


def test_defaults_that_arrays_are_and_that_change():
    def program(x, k):
        def inner(y, scale=x * k, *, more=k):
            return y * scale + more
        inner.__kwdefaults__["more"] = k + 1
        return inner(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in (2, 3, 4):
        assert (compiled(X, k) == program(X, k)).all()
    assert dynacomp.stats()["breaks"] == {}
