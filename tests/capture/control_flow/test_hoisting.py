"""Conditions in the functions of gradients, on values that eager JAX can look at: they stay in the graph."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def either(x, y):
    z = jnp.sin(x) * y.sum()
    if z.sum() > 1:
        return (z ** 2).sum()
    return (x ** 3).sum() * int(jnp.argmax(x))


def around(x, y):
    return jnp.sqrt(x[0]) if x[0] > 0 else x.sum() * float(y[0])


def in_turn(x, y):
    if x[0] > 0.2:
        x = x * 2
    if bool(y[0] > x[1]) or x.sum().item() > 3:
        x = jnp.cos(x) + y
    return x.sum()


def checked(x, y):
    if not bool(jnp.all(x * y[0] > -0.2)):
        raise ValueError(f"below: {len(x)}")
    assert y.sum() < 8, "much"
    return (jnp.exp(x) * y).sum()


TRANSFORMS = {
    "grad": jax.grad,
    "hessian": jax.hessian,
    "jvp": lambda f: lambda x, y: jax.jvp(lambda x: f(x, y), (x,), (y,)),
    "pullback": lambda f: lambda x, y: jax.vjp(lambda x: f(x, y), x)[1](jnp.ones(())),
    "grad of grad": lambda f: jax.grad(lambda x, y: (jax.grad(f)(x, y) ** 2).sum()),
    "a batch of others": lambda f: lambda x, y: jax.vmap(lambda t: f(x, y) * t)(y),
}


def outcome(fn, *args):
    try:
        return jax.tree.leaves(fn(*args))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


def same(fn, captures, sizes=(4,), breaks=False, calls=8):
    """What plain Python gives in all calls, in so many captures at most."""
    dynacomp.reset()
    compiled, raised = dynacomp.jit(fn, backend="eager"), 0
    for k in range(calls):
        x = jnp.linspace(-0.4, 0.6, sizes[k % len(sizes)]) + k / 5
        want, got = outcome(fn, x, x * 0 + 1 + k / 8), outcome(compiled, x, x * 0 + 1 + k / 8)
        if isinstance(want, tuple):
            raised += 1
            assert got == want
        else:
            for a, b in zip(want, got, strict=True):
                assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= captures
    assert breaks or dynacomp.stats()["breaks"] == {}
    return raised


@pytest.mark.parametrize(("fn", "name"), [
    pytest.param(fn, name, marks=[pytest.mark.slow] * (name == "hessian" or fn is not either and name != "grad"),
                 id=f"{fn.__name__}-{name}")
    for fn in (either, around, in_turn) for name in TRANSFORMS])
def test_an_if_in_a_gradient(fn, name):
    assert same(TRANSFORMS[name](fn), 1) == 0


def test_other_sizes():
    assert same(jax.grad(either), 2, sizes=(4, 5, 6, 9)) == 0


def test_a_side_that_raises():
    assert same(jax.grad(checked), 1) == 2
    assert same(lambda x, y: jax.grad(lambda p: checked(y, p * 0.5))(x + 1), 1, calls=5) == 0


def squares(fn):
    """What a gradient's gradient sees: checks in it, on what it is given and on what the inner one has found."""
    def outer(x, y):
        found = jax.grad(fn)(x * 0.5, y)
        assert (found * found).sum() < 400, f"steep: {len(x)}"
        return (found * jax.grad(fn)(x, y)).sum()

    return outer


@pytest.mark.parametrize("transform", [
    pytest.param(lambda f: jax.grad(squares(f)), marks=pytest.mark.slow),
    lambda f: lambda x, y: jax.jvp(lambda x: squares(f)(x, y), (x,), (y,)),
    lambda f: jax.grad(lambda x, y: jax.vmap(lambda t: f(x * 2, y) * t)(x).sum()),  # batched is only what it multiplies
], ids=["grad of grads", "forward over reverse", "grad of a batch of others"])
def test_a_check_within_transformations_of_transformations(transform):
    assert same(transform(checked), 1, calls=4) == 2


def test_a_function_that_a_library_calls_twice_is_checked_twice():
    twice = types.ModuleType("twice_calling")
    exec("def both(f, x, y):\n    return f(x, y) + f(x * 2, y)", vars(twice))
    dynacomp.register_library("twice_calling", pure=True)
    assert same(lambda x, y: twice.both(checked, 0.1 - x / 8, y), 6, breaks=True, calls=5) > 0


def test_what_is_heard_is_not_computed_twice(capsys):
    def heard(x, y):
        seen = jax.pure_callback(lambda v: print("called") or v, jax.ShapeDtypeStruct((), x.dtype), y.sum())
        assert seen < 8, "much"
        return (x * seen).sum()

    for fn in (jax.grad(heard), dynacomp.jit(jax.grad(heard), backend="eager")):
        fn(jnp.ones(3), jnp.ones(3))
        jax.effects_barrier()
        assert capsys.readouterr().out == "called\n"


def test_a_caller_that_catches():
    def careful(x, y):
        try:
            return jax.grad(checked)(x, y)
        except ValueError as error:
            return x + len(str(error))

    assert same(careful, 2) == 0


@pytest.mark.parametrize("fn", [
    lambda x, y: jax.vmap(lambda x: either(x, y))(jnp.stack([x, y])),
    lambda x, y: jax.vmap(jax.grad(either), (0, None))(jnp.stack([x, y]), y),
    lambda x, y: jax.grad(lambda x: x.sum() * float(x[0]))(x),  # a tracer is no float, whatever it holds
    lambda x, y: jax.grad(jax.checkpoint(either))(x, y),
], ids=["batch", "batch of gradients", "float", "checkpoint"])
def test_what_eager_jax_cannot_look_at_raises(fn):
    assert same(fn, 3, breaks=True, calls=4) == 4


def everything(x, y):
    print("rows", x.shape)
    if jnp.isnan(x).any():
        raise ValueError("no number")
    if x[0] > 0.1:
        print("high", bool(y[0] > 1.5))
        x = x * 2
    while (x * x).sum() > 0.5:
        x = x * 0.6
    return (x * y * int(jnp.argmax(x))).sum()


@pytest.mark.parametrize("transform", [
    jax.grad, pytest.param(jax.hessian, marks=pytest.mark.slow),
    pytest.param(lambda f: lambda x, y: jax.jvp(f, (x, y), (y, x)), marks=pytest.mark.slow),
    lambda f: lambda x, y: jax.vmap(lambda t: jax.jvp(lambda x: f(x, y), (x,), (t,)))(jnp.stack([x, y]))],
    ids=["grad", "hessian", "jvp", "batch of tangents"])
def test_a_caller_that_is_differentiated(transform, capsys):
    compiled, plain = transform(dynacomp.jit(everything, backend="eager")), transform(everything)
    dynacomp.reset()
    for k in range(4):
        x = jnp.linspace(-0.4, 0.6, 4) + k / 5
        want, said = outcome(plain, x, x * 0 + 1 + k / 4), capsys.readouterr().out
        got = outcome(compiled, x, x * 0 + 1 + k / 4)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert capsys.readouterr().out == said != ""
    assert dynacomp.stats()["frames_captured"] == 1
    assert dynacomp.stats()["breaks"] == {}


def test_a_batch_of_callers_is_refused_as_ever():
    compiled = dynacomp.jit(either, backend="eager")
    x = jnp.ones((2, 3))
    jax.grad(compiled)(x[0], x[0])
    for f in (either, compiled):
        for caller in (jax.vmap(f, (0, None)), jax.vmap(jax.grad(f), (0, None)), jax.grad(lambda x, y, f=f: jax.vmap(
                f, (0, None))(x, y).sum())):
            with pytest.raises(jax.errors.TracerBoolConversionError):
                caller(x, x[0])


@jax.custom_jvp
def without_rule(x):
    return x * 2


@without_rule.defjvp
def _refuse(primals, tangents):
    raise TypeError("no rule")


@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_what_is_printed_before_jax_raises(backend, capsys):
    @dynacomp.jit(backend=backend)
    def fn(x):
        print("before")
        return without_rule(x).sum()

    with pytest.raises(TypeError, match="no rule"):
        jax.grad(fn)(jnp.ones(3))
    assert capsys.readouterr().out == "before\n"


def with_aux(p):
    n, ways = 1, p > 0
    if p.sum() > 1:
        n = 2
    return (p * n).sum(), (n, n > 1, ways.any(), {"k": n * 2 + 1})


def kept_outside(p):
    found = []

    def loss(p):
        found.append(2 if p.sum() > 1 else 1)
        return (p * found[-1]).sum()

    return jax.grad(loss)(p), found


@pytest.mark.parametrize(("fn", "captures"), [
    (lambda x: jax.grad(with_aux, has_aux=True)(x), 1),
    (lambda x: jax.jvp(lambda p: with_aux(p)[1], (x,), (x,))[0], 1),
    (lambda x: jax.vmap(lambda t: (t, with_aux(x)[1]), out_axes=(0, None))(x), 1),
    (lambda x: jax.vmap(lambda t: (t, with_aux(x)[1]))(x), 1),
    (lambda x: [x] * jax.vjp(with_aux, x, has_aux=True)[2][0], 3),
    (kept_outside, 3)], ids=["aux", "primal", "no axis", "axis", "a length", "kept outside"])
def test_numbers_that_a_body_computes_are_numbers_outside_of_it(fn, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for k in range(4):
        want, got = (jax.tree.leaves(f(jnp.linspace(-0.4, 0.6, 4) + k / 5)) for f in (fn, compiled))
        for a, b in zip(want, got, strict=True):
            assert isinstance(b, jax.Array) if isinstance(a, jax.Array) else type(b) is type(a)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= captures
    assert dynacomp.stats()["frames_eager"] == {}
