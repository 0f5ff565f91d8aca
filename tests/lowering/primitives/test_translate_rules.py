"""Equations that are no primitives of ours: each rewrite computes what the equation computes, of simpler ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.primitives.translate_rules import (
    CALLS,
    REWRITES,
    UNROLL_STEPS,
    as_extern,
    is_key,
    raw_struct,
    rewrite_of,
    scan_counts,
)

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
KEYS = jax.random.split(jax.random.key(3), 4)
TOTAL = np.float32([np.nan, -np.nan, -np.inf, -0.0, 0.0, 1, np.inf]).view(np.float32)
ORDERED = np.stack(np.meshgrid(TOTAL, TOTAL)).reshape(2, -1)
ZEROS = np.zeros((5, 2), np.float32)


def running(c, x):
    return c + x, c * x


# name -> a function whose jaxpr has that equation, and its arguments
EQUATIONS = {
    "random_seed": (lambda s: jax.random.key(s), np.uint32(7)),
    "random_split": (lambda k: jax.random.split(k, 3), KEYS[0]),
    "random_bits": (lambda k: jax.random.bits(k, (3, 5), "uint16"), KEYS[0]),
    "random_fold_in": (lambda k: jax.vmap(jax.random.fold_in)(k, jnp.arange(4)), KEYS),
    "integer_pow": (lambda x: lax.integer_pow(x, -5), X),
    "square": (lax.square, X),
    "clamp": (lambda x: lax.clamp(np.float32(-1), x, X.T.reshape(3, 4)), X),
    "split": (lambda x: lax.split(x, (1, 3), axis=1), X),
    "tile": (lambda x: lax.tile(x, (2, 3)), X),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), X[:1]),
    "scatter_sub": (lambda x: x.at[jnp.array([0, 2, 0])].subtract(1.5), X),
    "le_to": (lambda x, y: lax.le_to_p.bind(x, y), *ORDERED),
    "lt_to": (lambda x, y: lax.lt_to_p.bind(x, y), *ORDERED),
    "eq_to": (lambda x, y: lax.eq_to_p.bind(x, y), *ORDERED),
    "scan": (lambda x: lax.scan(running, x[0], x), X),
}


def all_equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        if (row := CALLS.get(eqn.primitive.name)) is not None:
            yield from all_equations(row(eqn.params).jaxpr)


def equation(name, function, *args):
    made = all_equations(jax.make_jaxpr(function)(*args).jaxpr)
    return next(e for e in made if e.primitive.name.replace("-", "_") == name)


def words(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def inputs_of(eqn):
    """Values of the equation's operands: keys, or numbers that count."""
    drawn = np.random.RandomState(0)
    for var in eqn.invars:
        if hasattr(var, "val"):
            yield jnp.asarray(var.val, var.aval.dtype)
        elif is_key(var):
            yield jax.random.split(jax.random.key(1), var.aval.shape)
        else:
            yield jnp.asarray(drawn.randn(*var.aval.shape)).astype(var.aval.dtype)


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_rewrite_computes_what_its_equation_computes(name):
    function, *args = EQUATIONS[name]
    eqn = equation(name, function, *args)
    rewrite = rewrite_of(eqn)
    given = ORDERED if name.endswith("_to") else list(inputs_of(eqn))
    got = rewrite(*map(words, map(jnp.asarray, given)))
    want = eqn.primitive.bind(*map(jnp.asarray, given), **eqn.params)
    for a, b in zip(*(v if isinstance(v, (list, tuple)) else [v] for v in (got, want)), strict=True):
        assert (a.shape, a.dtype) == (words(b).shape, words(b).dtype)
        np.testing.assert_allclose(a, words(b), rtol=1e-6)
    made = jax.make_jaxpr(rewrite)(*map(raw_struct, (v.aval for v in eqn.invars)))
    assert name not in {e.primitive.name for e in all_equations(made.jaxpr)}, "it became simpler"


@pytest.mark.parametrize("function", [
    lambda k: k.reshape(2, 2), lambda k: k[1:3], lambda k: jnp.concatenate([k, k]), lambda k: k[::-1],
    lambda k: k[jnp.array([2, 0])], lambda k: jnp.broadcast_to(k, (3, 4)),
    lambda k: jnp.where(jnp.array([True, False, True, False]), k, k[::-1])], ids=range(7))
def test_keys_move_as_their_words_do(function):
    """Run equation by equation on words, keys never seen."""
    closed = jax.make_jaxpr(function)(KEYS)
    values = {closed.jaxpr.invars[0]: words(KEYS)}

    def run(jaxpr, values, consts=()):
        values |= zip(jaxpr.constvars, map(words, consts))
        read = lambda v: jnp.asarray(v.val) if hasattr(v, "val") else values[v]
        for eqn in jaxpr.eqns:
            args = list(map(read, eqn.invars))
            if (call := CALLS.get(eqn.primitive.name)) is not None:
                inner = call(eqn.params)
                out = run(inner.jaxpr, dict(zip(inner.jaxpr.invars, args)), inner.consts)
            else:
                rewrite = rewrite_of(eqn) or (lambda *a, eqn=eqn: eqn.primitive.bind(*a, **eqn.params))
                out = rewrite(*args)
            values |= zip(eqn.outvars, out if isinstance(out, (list, tuple)) else [out])
        return list(map(read, jaxpr.outvars))

    (got,) = run(closed.jaxpr, values, closed.consts)
    np.testing.assert_array_equal(got, words(function(KEYS)))


def test_short_scans_are_written_out_and_long_ones_stay():
    applies, _ = REWRITES["scan"]
    scan = lambda n: equation("scan", lambda x: lax.scan(running, x[0], x), np.zeros((n, 2), np.float32))
    assert applies(scan(UNROLL_STEPS)) and not applies(scan(UNROLL_STEPS + 1))


@pytest.mark.parametrize(("constants", "carried"), [(0, 1), (2, 1), (1, 3)])
def test_what_a_scan_holds_is_told_by_its_ranks(constants, carried):
    def body(carry, x):
        return tuple(c + x for c in carry), x * len(carry)

    def run(fixed, carry, xs):
        return lax.scan(lambda c, x: body(c, x + sum(f.sum() for f in fixed)), carry, xs)

    args = [ZEROS] * constants, (np.zeros(2, np.float32),) * carried, ZEROS
    assert scan_counts(equation("scan", run, *args)) == (constants, carried)


def test_what_has_no_row_is_one_jaxpr_on_plain_arrays():
    eqn = equation("random_wrap", lambda w: jax.random.wrap_key_data(w), words(KEYS))
    params = as_extern(eqn)
    assert "random_wrap" in params["why"] and params["effects"] == ()
    assert [v.aval.dtype for v in params["jaxpr"].jaxpr.outvars] == [np.uint32], "keys leave it as words"
    ordered = equation("debug_callback", lambda x: jax.debug.callback(print, x, ordered=True), X)
    assert any("rdered" in e for e in as_extern(ordered)["effects"])


def test_primitives_of_ours_have_no_rewrite():
    assert rewrite_of(equation("sin", jnp.sin, X)) is None
    assert rewrite_of(equation("reshape", lambda x: x.reshape(-1), X)) is None


def test_short_scans_in_short_scans_are_counted_by_what_they_write_out():
    """Sixteen steps of sixteen were 256 copies of the body, which took half a minute to compile."""
    def cell(left, x):
        y = jnp.sin(left) + jnp.cos(x) * jnp.tanh(left - x) + jnp.exp(-x * x)
        return y, y

    def grid(steps):
        x = np.ones((steps, steps), np.float32)
        outer = jax.make_jaxpr(lambda x: lax.scan(lambda c, row: lax.scan(cell, c, row), x[0, 0], x)[1])(x).eqns[-1]
        return rewrite_of(outer)

    assert grid(UNROLL_STEPS) is None and grid(4) is not None
