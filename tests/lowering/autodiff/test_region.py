"""The primitive by itself: which derived regions run on arrays, and how often each is compiled."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters.ad import primitive_linearizations
from jax.extend.core import jaxpr_as_fun

from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.autodiff.known_sizes import at_sizes
from dynacomp.lowering.autodiff.region import Region, apply, region_p
from dynacomp.lowering.sizes.dims import SymbolicShapeError

X, W = jnp.linspace(-1, 1, 6).reshape(2, 3), jnp.linspace(0, 1, 12).reshape(3, 4)


def loss(x, w):
    return jnp.tanh(x @ w).sum()


class Compiler:
    """Compiles by XLA, and counts."""

    def __init__(self):
        self.made, self.runs = 0, 0

    def __call__(self, closed, carried):
        self.made += 1
        program = jax.jit(jaxpr_as_fun(closed))

        def run(*arrays):
            assert not any(isinstance(x, jax.core.Tracer) for x in arrays)
            self.runs += 1
            return program(*arrays)

        return run


@pytest.fixture
def compiler():
    return Compiler()


@pytest.fixture
def region(compiler):
    made = Region(jax.make_jaxpr(loss)(X, W), compiler)
    return lambda x, w: apply(made, x, w)[0]


@pytest.mark.parametrize("transform, programs", [
    (lambda f: f, 1),
    (lambda f: jax.grad(f, (0, 1)), 2),
    (lambda f: lambda x, w: jax.jvp(f, (x, w), (x, w)), 1),
    (lambda f: lambda x, w: jax.vmap(f, (None, 0))(x, jnp.stack([w, w])), 1),
    (lambda f: lambda x, w: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, x]), w), 2),
    (lambda f: lambda x, w: jax.linearize(f, x, w)[1](x, w), 2),
    (lambda f: jax.jit(f), 0),
    (lambda f: jax.jit(jax.grad(f)), 0),
    (lambda f: lambda x, w: jax.make_jaxpr(f)(x, w).out_avals, 0),
], ids=["call", "grad", "jvp", "vmap", "vmap of grad", "linearize", "jit", "jit of grad", "make_jaxpr"])
def test_programs_are_compiled_once_and_run_on_arrays(transform, programs, region, compiler):
    for _ in range(3):
        got, want = transform(region)(X, W), transform(loss)(X, W)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5) if hasattr(a, "dtype")
                     and not isinstance(a, jax.core.ShapedArray) else None, got, want)
    assert (compiler.made, compiler.runs) == (programs, 3 * programs)


def test_where_jax_linearises_by_the_rule_for_forward_derivatives(region, compiler, monkeypatch):
    """As versions of JAX do whose linearisation has another form than those that are known."""
    monkeypatch.delitem(primitive_linearizations, region_p)
    for _ in range(3):
        np.testing.assert_allclose(jax.grad(region)(X, W), jax.grad(loss)(X, W), rtol=1e-5)
    assert (compiler.made, compiler.runs) == (2, 6)


@pytest.mark.parametrize("transform", [jax.grad, lambda f: jax.vmap(jax.grad(f)), jax.hessian],
                         ids=["grad", "vmap of grad", "hessian"])
def test_what_follows_from_known_values_is_known(transform, compiler):
    """The rule of a custom_jvp is linearised with values that are known and tangents that are not."""
    def rule(x, tangent):
        return jnp.sin(x), 2 * jnp.cos(x) * tangent

    def function(ruled):
        @jax.custom_jvp
        def sine(x):
            return jnp.sin(x)

        sine.defjvp(lambda primals, tangents: tuple(ruled(*primals, *tangents)))
        return lambda x: sine(x).sum()

    made = Region(jax.make_jaxpr(rule)(1.0, 1.0), compiler)
    for x in map(float, range(3)):
        at = jnp.full(4, x) if transform not in (jax.grad, jax.hessian) else x
        np.testing.assert_allclose(transform(function(lambda *args: apply(made, *args)))(at),
                                   transform(function(rule))(at), rtol=1e-5)
    assert compiler.made <= 5


def test_results_that_follow_from_constants_are_known(compiler):
    """Where the values are Python's numbers, the tangents are all that a region of such a rule is given."""
    made = Region(jax.make_jaxpr(lambda tangent: (jnp.sin(3.0), 2 * jnp.cos(3.0) * tangent))(1.0), compiler)

    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: tuple(apply(made, *tangents)))
    for _ in range(3):
        value, slope = jax.value_and_grad(sine)(3.0)
        np.testing.assert_allclose([value, slope], [np.sin(3.0), 2 * np.cos(3.0)], rtol=1e-6)


def test_what_jax_stages_holds_no_region(region):
    assert "dynacomp_region" not in str(jax.make_jaxpr(region)(X, W))
    assert "dynacomp_region" not in str(jax.make_jaxpr(jax.grad(region))(X, W))


@pytest.mark.parametrize("derive", [
    lambda f: jax.linearize(f, X, W)[1],
    lambda f: lambda x, w: jax.vjp(f, x, w)[1](1.0),
], ids=["linearize", "vjp"])
def test_what_was_staged_once_shows_its_operations_when_it_is_staged_again(derive, region, compiler):
    linear, text = derive(region), str(jax.make_jaxpr(derive(region))(X, W))
    assert "dynacomp_region" not in text and "dot_general" in text
    assert "dynacomp_region" not in str(jax.make_jaxpr(jax.jit(linear))(X, W))
    jax.block_until_ready(linear(X, W))
    assert compiler.made == 2


def test_no_gradient_of_what_nobody_asks_for(compiler):
    def two(x, w):
        return (x * 2).sum(), jnp.tanh(x @ w)

    region = Region(jax.make_jaxpr(two)(X, W), compiler)
    gradient = jax.grad(lambda x: apply(region, x, W)[0])
    np.testing.assert_allclose(gradient(X), np.full(X.shape, 2.0))
    tangent = region.derived[True, False].value[1]
    ((backward, _),) = [found.value for found in tangent.derived.values()]
    assert "dot_general" not in str(backward.jaxpr)


def test_what_falls_away_of_a_linear_region(compiler):
    """A scan before it was asked for a backward pass of what reaches nothing (JAX's ValueError: Expected cotangent
    type float32[] but got float32[4])."""
    def states(w):
        return jax.lax.scan(lambda c, x: (jnp.tanh(c * w + x), c * w), 0.0, jnp.ones(4))

    last, seen = states(0.5)
    three = jax.make_jaxpr(lambda last, seen: (seen * 2, jnp.sin(last), last + seen.sum()))(last, seen)
    region = Region(three, compiler)

    def slope(which, fn):
        return jax.grad(lambda w: fn(*states(w))[which].sum())(0.5)

    for which in (0, 1, 2, 1):
        np.testing.assert_allclose(slope(which, lambda *xs: apply(region, *xs)), slope(which, jaxpr_as_fun(three)),
                                   rtol=1e-5)
    assert compiler.made == 1 + 3  # forward, and a backward region for each result


def test_what_falls_away_at_unknown_sizes():

    def make(closed, carried):
        def run(*arrays):
            given = arrays[:len(arrays) - len(carried)]
            sizes = {str(d): n for a, x in zip(closed.in_avals, given) for d, n in zip(a.shape, x.shape)}
            sizes |= {str(size): x.shape[0] for size, x in zip(carried, arrays[len(given):])}
            return jaxpr_as_fun(at_sizes(closed, sizes))(*given)
        return run

    def two(x):
        return x * 2, jnp.sin(x[0])

    region = unknown(two, make, 4)

    def slope(n, fn):
        return jax.grad(lambda w: fn(jax.lax.scan(lambda c, x: (c * w + x, c * w), 0.0, jnp.ones(n))[1])[1])(0.5)

    for n in (4, 6, 3):
        sizes = (("n", n),)
        np.testing.assert_allclose(slope(n, functools.partial(apply, region, sizes=sizes)), slope(n, two), rtol=1e-5)


# --- unknown sizes


def unknown(fn, make, value, *shape):
    """A region of one array whose first size is unknown."""
    n = Scope().symbol("n", value)
    with n.scope.decides():
        closed = jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((n, *shape), jnp.float32))
    return Region(closed, make, symbols=(n,))


def total(x):
    return jnp.tanh(x @ W).sum() * x.shape[0]


TRANSFORMED = {
    "call": (lambda f: f, 1),
    "grad": (jax.grad, 2),
    "forward": (lambda f: lambda x: jax.jvp(f, (x,), (x,)), 1),
    "hessian": (lambda f: lambda x: jax.hessian(f)(x).sum((2, 3)), 2 * 2),  # for the first size of its batch, then any
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_one_program_serves_sizes(name):
    """XLA, which compiles here, does it once a size: what counts is what the region asks for."""
    transform, most = TRANSFORMED[name]
    asked = []

    def make(closed, carried):
        asked.append(closed)
        def run(*arrays):
            inputs = arrays[:len(arrays) - len(carried)]
            sizes = {str(d): n for a, x in zip(closed.in_avals, inputs) for d, n in zip(a.shape, x.shape)}
            sizes |= {str(size): x.shape[0] for size, x in zip(carried, arrays[len(inputs):])}
            return jaxpr_as_fun(at_sizes(closed, sizes))(*inputs)
        return run

    region = unknown(total, make, 2, 3)
    for size in (2, 5, 1, 4):
        x = jnp.linspace(-1, 1, size * 3).reshape(size, 3)
        got = transform(lambda x: apply(region, x, sizes=(("n", x.shape[0]),))[0])(x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(transform(total)(x)), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert len(asked) == most


def test_a_batch_has_any_size_from_its_second_on(compiler):
    made = Region(jax.make_jaxpr(loss)(X, W), lambda closed, carried: jaxpr_as_fun(closed))
    for size in (2, 5, 7, 3):
        xs = jnp.stack([X * i for i in range(size)])
        jax.eval_shape(jax.vmap(lambda x: apply(made, x, W)[0]), xs)
        (out,), left = made.batched((0, None), size, ())[0][0].jaxpr.out_avals, made.batched((0, None), size, ())[1]
        assert [n for _, n in left] == ([] if size == 2 else [size]), out
    assert len([r for r in made.batches.values() if isinstance(r, Region)]) == 1


def test_what_was_decided_for_one_size_does_not_serve_another():
    region, seen = unknown(lambda x: x * 2, None, 9), []

    def derive(r):
        seen.append(r)
        return "long" if r.jaxpr.in_avals[0].shape[0] >= 6 else "short"

    found = {size: region.having((("n", size),), "kind", derive)[::2] for size in (9, 12, 4, 7, 3, 4)}
    assert found == {9: ("long", (("n", 9),)), 12: ("long", (("n", 12),)), 7: ("long", (("n", 7),)),
                     4: ("short", ()), 3: ("short", ())}
    assert len(seen) == 3  # for all long ones, for 4 and for 3


def test_what_needs_to_know_a_size_is_derived_at_it():
    region = unknown(lambda x: x * 2, None, 9)

    def derive(r):
        size = r.jaxpr.in_avals[0].shape[0]
        if type(size) is not int:
            raise SymbolicShapeError("no")
        return size

    for size in (9, 4, 9, 7):
        value, of, left = region.having((("n", size),), "kind", derive)
        assert (value, left) == (size, ()) and of is region.at((("n", size),))


def test_the_text_of_a_pullback_is_short(region):
    """JAX makes it in each call of `jacrev` and `hessian`."""
    assert "Region(" not in str(jax.vjp(region, X, W)[1])
