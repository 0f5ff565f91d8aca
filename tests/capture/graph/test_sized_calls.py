"""JAX's functions that ask for Python ints, with symbolic sizes in their place."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph import sized_calls
from tests.capture.program_kit import outcome

KEY = jax.random.key(0)


def normal(*shape):
    return jax.random.normal(KEY, shape)


def settled(fn, calls, captures):
    """Calls a function with each of the arguments; all are as eager's, with so many captures and no break."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")  # what is captured is asked here
    for args in calls:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), fn(*args), compiled(*args))
    stats = dynacomp.stats()
    assert (stats["frames_captured"], stats["breaks"], stats["frames_eager"]) == (captures, {}, {})


@pytest.mark.parametrize("spec", ["bi,ij->bj", "ij,...i->...j"])
def test_einsum_of_sizes_that_change(spec):
    def product(x, w):
        return jnp.einsum(spec, *((x, w) if spec[0] == "b" else (w, x)))

    settled(product, [(normal(b, 7), normal(7, 3)) for b in (2, 3, 4, 9)], captures=2)


def test_einsum_where_a_size_is_known_in_one_array_and_not_in_the_other():
    weights = normal(5, 3)  # five is no size of the call's

    def product(x, head):
        return jnp.einsum("bi,ij,jk->bk", x, weights, head)

    settled(product, [(normal(b, 5), normal(3, k)) for b, k in ((2, 4), (3, 5), (5, 3), (6, 2))], captures=2)


def test_einsum_whose_sizes_are_found_equal_by_the_call_itself():
    def attention(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    settled(jax.vmap(attention, in_axes=(0, None, None)),
            [(normal(2, b, t, 2, 4), normal(b, t, 2, 4), normal(b, t, 2, 4))
             for b, t in ((2, 8), (3, 7), (8, 8))], captures=2)


def test_the_order_of_products_is_that_of_the_sizes_at_hand():
    scope = dynacomp.capture.graph.size_scope.Scope()
    shapes = [(scope.symbol("n", 2), 100), (100, 50), (50, 3)]
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    known = [jax.ShapeDtypeStruct((2, 100), jnp.float32), *arrays[1:]]
    operands, steps = sized_calls.contract_path("ij,jk,kl->il", *arrays, einsum_call=True, use_blas=True)
    _, eager = sized_calls.contract_path("ij,jk,kl->il", *known, einsum_call=True, use_blas=True)
    assert operands == arrays and [s[0] for s in steps] == [s[0] for s in eager]


def test_loops_and_products_of_arrays_without_numbers_of_their_own():
    assert sized_calls.fori_of_length(1, 3, lambda i, x: x * i, 1) == 6
    last, rows = sized_calls.scan_of_length(lambda c, _: (c + 1, c), 0, 4)
    assert last == 4 and rows.tolist() == [0, 1, 2, 3]
    for mode in ("full", "same", "valid"):
        a, v = np.arange(5.0), np.array([1.0, 2.0, -1.0])
        np.testing.assert_allclose(sized_calls.convolve(jnp.array(a), jnp.array(v), mode), np.convolve(a, v, mode))
        np.testing.assert_allclose(sized_calls.correlate(jnp.array(a), jnp.array(v), mode), np.correlate(a, v, mode))


def test_a_function_that_takes_neither_a_size_nor_an_array():
    """A number of sections is a constant for each of a few calls, not a break at the second."""
    def sections(x, n):
        return [part.sum() for part in jnp.split(x, n)]

    dynacomp.reset()
    compiled = dynacomp.jit(sections, backend="eager")
    for n in (2, 3, 4, 2, 3, 4):
        np.testing.assert_allclose(compiled(jnp.arange(12.0), n), sections(jnp.arange(12.0), n))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_in_lengths_that_change(side, wide):
    """The positions are int32, as of lengths that are known, also where numbers have 64 bits."""
    def places(a, v):
        return jnp.searchsorted(a, v, side=side), jnp.searchsorted(-a, v, side, jnp.argsort(-a), method="sort")

    with jax.enable_x64(wide):
        special = jnp.array([jnp.nan, -jnp.inf, 0.0, -0.0, 2.0, jnp.inf])
        calls = [(jnp.sort(jnp.array([*range(n), jnp.nan, -jnp.inf, -0.0])), special) for n in (0, 1, 2, 5, 29)]
        settled(places, calls, captures=2)
        found = dynacomp.jit(places)(*calls[-1])
        assert [x.dtype for x in found] == [x.dtype for x in places(*calls[-1])] == [np.int32] * 2


def test_searchsorted_refuses_what_jax_refuses():
    def program(a, v, side):
        return jnp.searchsorted(a, v, side=side)

    compiled = dynacomp.jit(program)
    for n in (3, 4, 5):
        assert compiled(jnp.arange(n * 1.0), jnp.ones(2), "left").tolist() == [1, 1]
    for a, side in ((jnp.ones((3, 2)), "left"), (jnp.ones(6), "middle"), (jnp.ones(7), "middle")):
        with pytest.raises((ValueError, AssertionError)) as plain:
            program(a, jnp.ones(2), side)
        with pytest.raises(plain.type):
            compiled(a, jnp.ones(2), side)


def test_rounds_of_a_permutation():
    for rounds in (0, 1, 2, 3, 4):
        most = sized_calls.most_permuted(rounds)
        assert [sized_calls.rounds_of_permutation(n) for n in (most, most + 1)] == [rounds, rounds + 1]


def test_how_many_numbers_an_arange_has():
    for start, stop, step in ((0, 5.5, 1), (0.5, 2, 0.3), (3, 0.0, -0.7), (2.0, 1, 1)):
        assert sized_calls.length_of_arange(start, stop, step) == len(np.arange(start, stop, step))


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 2), (0, 1))])
def test_derivatives_of_convolutions_with_strides(padding):
    """Their own paddings are computed from sizes."""
    kernel = jnp.cos(jnp.arange(54.0)).reshape(3, 3, 3, 2)

    def loss(x, kernel):
        made = jax.lax.conv_general_dilated(x, kernel, (2, 2), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (made ** 2).sum()

    calls = [(jnp.sin(jnp.arange(b * h * w * 3.0)).reshape(b, h, w, 3), kernel)
             for b, h, w in ((2, 8, 8), (3, 10, 12), (2, 6, 14), (5, 12, 8), (2, 9, 11), (4, 7, 13))]
    settled(jax.grad(loss, (0, 1)), calls, captures=2)


def linear(a, b):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]
    return jax.lax.associative_scan(combine, (a, b))[1]


def backwards(a, b):
    return jax.lax.associative_scan(jnp.matmul, a[..., None] * b[:, None, :], reverse=True)


def running(x):
    return jax.lax.cumprod(x / 4), jax.lax.cummax(x), jax.lax.cumlogsumexp(x, reverse=True)


@pytest.mark.medium
@pytest.mark.parametrize("fn", [linear, backwards, jax.grad(lambda a, b: (linear(a, b) ** 2).sum(), (0, 1)),
                                jax.jacfwd(lambda a, b: running(a[:, 0] + b[:, 1]))])
def test_associative_scans_of_unknown_length(fn):
    settled(fn, [(jnp.sin(jnp.arange(n * 2.0)).reshape(n, 2), jnp.cos(jnp.arange(n * 2.0)).reshape(n, 2))
                 for n in (5, 7, 12, 2, 17)], captures=2)


def test_an_associative_scan_of_arrays_of_two_lengths():
    compiled = dynacomp.jit(linear, backend="eager")
    for n in (4, 5, 6, 7):
        with pytest.raises(ValueError) as plain:
            linear(jnp.ones((n, 2)), jnp.ones((3, 2)))
        with pytest.raises(ValueError, match="must have the same first dimension"):
            compiled(jnp.ones((n, 2)), jnp.ones((3, 2)))
    assert "must have the same first dimension" in str(plain.value)


@pytest.mark.parametrize("body", [
    lambda r: r - jax.lax.pmean(r, "b"),
    lambda r: r / jax.lax.axis_size("b") + jnp.full(2, jax.lax.psum(1, "b")).sum(),
    lambda r: jax.lax.psum(np.arange(2), "b") * r + jax.lax.psum(jnp.ones(2, "bfloat16"), "b"),
    lambda r: r * jax.lax.psum(True, "b"),
    lambda r: jax.grad(lambda q: (jax.lax.pmean(q, "b") ** 2).sum())(r) + jax.lax.all_gather(r, "b").max(),
])
def test_sums_over_named_axes_of_changing_sizes(body):
    settled(jax.vmap(body, axis_name="b"), [(normal(n, 2),) for n in (3, 4, 6, 2, 9)], captures=2)


def test_a_scan_that_a_library_tells_its_changing_length():
    def sums(x, more=0):
        scan = hk.transform(lambda x: hk.scan(lambda c, v: (c + v, c * v), jnp.zeros(2), x, x.shape[0] + more))
        return scan.apply({}, None, x)

    settled(sums, [(normal(n, 2),) for n in (3, 4, 6, 2, 9)], captures=2)
    compiled = dynacomp.jit(sums, backend="eager")
    for n in (3, 4, 5):
        assert outcome(compiled, (normal(n, 2), 1)) == outcome(sums, (normal(n, 2), 1))
