"""`capture.graph.sizes`: expressions of sizes against Python's own integers, and what their values decide."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.errors import InconclusiveDimensionOperation

import dynacomp
from dynacomp.capture import _native
from dynacomp.capture.graph import size_scope
from dynacomp.capture.graph.size_evaluation import evaluate, postfix
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import bounds, canonical, extreme

NAMES = ("a", "b", "c")
OPERATIONS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
              functools.partial(extreme, "max"), functools.partial(extreme, "min"))


@st.composite
def expressions(draw):
    """A function of three ints that may divide by zero."""
    steps = draw(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)), max_size=6))

    def compute(a, b, c):
        found = [a, b, c, 1, 2, -3]
        for op, i, j in steps:
            found.append(op(found[i % len(found)], found[j % len(found)]))
        return found[-1]
    return compute


VALUES = st.tuples(*[st.integers(1, 12)] * 3)


def outcome(compute, *values):
    try:
        return compute(*values)
    except ZeroDivisionError:
        return "divides by zero"


@settings(max_examples=300, deadline=None)
@given(expressions(), VALUES, VALUES)
def test_expressions_are_pythons_integers(compute, now, later):
    scope = Scope()
    made = outcome(compute, *(scope.symbol(n, v) for n, v in zip(NAMES, now)))
    assert (made if isinstance(made, str) else evaluate(made, dict(zip(NAMES, now)))) == outcome(compute, *now)
    serves = all(_checked(r.program(), later) for r in scope.relations)
    if serves and not isinstance(made, str):
        wanted = outcome(compute, *later)
        assert evaluate(canonical(made), dict(zip(NAMES, later))) == wanted
        assert bounds(made)[0] <= wanted <= bounds(made)[1]
        assert _number(made, later) == wanted


def _slots(program):
    return tuple(("size", NAMES.index(p[1])) if p[0] == "size" else p for p in program)


def _read():
    return [step for i in range(3) for step in (("local", i, i), ("int_size", i, i))]


def _checked(program, values):
    """Whether C finds that a relation holds."""
    steps = [*_read(), ("size_check", _slots(program))]
    return _native.GuardProgram(steps).check(lambda: None, values) == -1


def _number(expr, values):
    """What C makes of an expression."""
    wanted = evaluate(expr, dict(zip(NAMES, values)))
    steps = [*_read(), ("size_number", 3, _slots(postfix(expr))), ("const", 4, wanted),
             ("number", 5, 3, "eq", 4), ("eq", 5, True)]
    assert _native.GuardProgram(steps).check(lambda: None, values) == -1
    return wanted


def test_what_algebra_decides_is_no_relation():
    scope = Scope()
    n = scope.symbol("n", 7)
    assert n + 1 > n and not n < 1 and 2 * n >= n and (4 * n) // 2 == 2 * n and n * n // n == n
    assert (n + (-n) % 4) % 4 == 0
    assert n <= 2**63 and 2 * n - 4 <= 2**63  # JAX asks where it counts positions in 64 bits: no guard holds it
    assert not scope.relations


def test_the_larger_of_two_asks_nothing():
    """What bounds or earlier answers tell is no expression of its own; the order of the two makes none either."""
    scope = Scope()
    n, m = scope.symbol("n", 7), scope.symbol("m", 5)
    assert extreme("max", n, 1) is n and extreme("min", n, 0) == 0 and extreme("max", n + 1, n) == n + 1
    larger = extreme("max", n, m)
    assert str(larger) == "max(n, m)" and larger.terms == extreme("max", m, n).terms
    assert str(extreme("min", n, 6) + 1) == "min(n, 6) + 1" and bounds(extreme("min", n, 6)) == (1, 6)
    assert not scope.relations
    assert n >= m and extreme("max", n, m) is n and extreme("min", m, n) is m


def test_equal_sizes_are_one_size_from_then_on():
    scope = Scope()
    n, m = scope.symbol("n", 7), scope.symbol("m", 7)
    assert n != m  # as keys
    with scope.decides():
        assert n == m
    assert canonical(m * 2 + 1) == 2 * n + 1 and n == m and hash(n) != hash(n + 1)
    assert [str(r) for r in scope.relations] == ["n - m == 0"]


def test_parity_does_not_make_a_size_a_constant():
    scope = Scope()
    n = scope.symbol("n", 8)
    with scope.decides():
        assert n % 2 == 0
    assert canonical(n) is n and len(scope.relations) == 1


def test_values_that_are_not_known_decide_nothing():
    n = Scope().symbol("n")
    with pytest.raises(InconclusiveDimensionOperation):
        bool(n > 3)
    with pytest.raises(InconclusiveDimensionOperation):
        int(n)


def test_jax_takes_them_as_dimensions_and_as_numbers():
    scope = Scope()
    n, m = scope.symbol("n", 8), scope.symbol("m", 8)
    shapes = [jax.ShapeDtypeStruct((d, 3), jnp.float32) for d in (n, m)]
    with scope.decides():
        made = jax.eval_shape(lambda x, y: jnp.concatenate([(x + y)[: n // 2], x]) * n, *shapes)
    assert made.shape == (n + n // 2, 3) and made.dtype == jnp.float32
    assert "n - m == 0" in map(str, scope.relations)


def test_a_number_that_no_array_holds_overflows_as_pythons():
    n = Scope().symbol("n", 70_000)
    with pytest.raises(OverflowError, match="4900000000 too large to convert to int32"):
        jax.eval_shape(lambda: jnp.arange(3) + n * n)


def test_keys_of_caches_are_no_questions():
    scope = Scope()
    n = scope.symbol("n", 8)
    asked = compile("def __eq__(a, b):\n    return a == b", "jax/_src/core.py", "exec")
    space: dict = {}
    exec(asked, space)
    with scope.decides():
        assert not space["__eq__"](n, 8)
    assert not scope.relations and size_scope.LEAST == 1


def drawn(theta, key, n):
    noise = jax.random.normal(key, (n, len(theta)))
    return [float(jnp.sum(theta + row)) for row in noise]


def test_a_size_that_is_known_is_no_number_in_jaxs_caches():
    """`n == 4` held from the loop on, and the trace for (n, 4) was found for (4, 4) ever after: "'Size' object has no
    attribute '_evaluate'", from JAX run eagerly."""
    dynacomp.reset()
    compiled, theta = dynacomp.jit(drawn, backend="eager"), jnp.arange(4.0)
    for n in (3, 4):
        compiled(theta, jax.random.key(n), n)
    assert dynacomp.stats()["frames_captured"] == 2
    scope = Scope()
    with scope.decides():
        n = scope.symbol("n", 7)
        made = jax.eval_shape(lambda key: jax.random.normal(key, (n, 7)), jax.random.key(0))
        assert n == 7 and made.shape == (7, 7)
    for shape in ((3, 4), (4, 4), (7, 7)):
        assert jax.random.normal(jax.random.key(0), shape).shape == shape


def test_sizes_of_one_hash_are_told_apart_in_time():
    """hash(-1) == hash(-2): Sizes that were looked up by their hash were compared, made canonical, looked up ..."""
    scope = Scope()
    n, m, k = scope.symbol("n", 8), scope.symbol("m", 6), scope.symbol("k", 8)
    with scope.decides():
        assert k == n  # from now on there is something to replace
    made = [a * n * m + b * n + c * m + d for a in (-2, -1, 0) for b in (-2, -1, 0, 1) for c in (-2, -1, 1)
            for d in (-2, -1, 0)]
    for one in made:
        for other in made:
            assert canonical(one) == canonical(one) and (one is other or (one - other != 0))


def test_the_logarithm_of_a_size_is_rounded_by_the_size_at_hand():
    scope = Scope()
    n = scope.symbol("n", 8)
    assert int(np.ceil(np.log2(n + 1))) == 4 and int(np.log2(n)) == 3 and (n - 1).bit_length() == 3
    assert all(size in (8,) for size in range(1, 99) if all(
        (evaluate(r.expr, {"n": size}) >= 0) == r.holds for r in scope.relations))
    with pytest.raises(InconclusiveDimensionOperation):
        np.ceil(np.log2(Scope().symbol("m")))
