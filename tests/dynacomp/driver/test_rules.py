"""Rules of the program's that read what changes, or do more than compute, below a compiled function."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.driver.rules import Rules

SCALE = 2.0
SEEN: list[str] = []


class Settings:
    scale = 1.0

    def __init__(self):
        self.scale = 3.0


SETTINGS = Settings()


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def ruled(backward, forward=lambda x: (jnp.sin(x), x)):
    fn = jax.custom_vjp(jnp.sin)
    fn.defvjp(forward, backward)
    return lambda x: (fn(x) * x).sum()


def of_settings(saved, g):
    return g * SETTINGS.scale,


def of_global(saved, g):
    return g * SCALE,


def telling(saved, g):
    print("backward", saved.ndim)
    return g * 3,


def noting(saved, g):
    SEEN.append("backward")
    return g * 3,


def noting_forward(x):
    SEEN.append("forward")
    return jnp.sin(x), x


def telling_forward(x):
    print("forward", x.ndim)
    return jnp.sin(x), x


@pytest.mark.parametrize("backward", [of_global, of_settings])
def test_what_a_rule_reads_may_change(monkeypatch, backward):
    loss = ruled(backward)
    compiled = jax.grad(dynacomp.jit(loss))
    x = jnp.linspace(0.5, 2, 4)
    for scale in (2.0, 2.0, 2.0, 5.0, 5.0):
        monkeypatch.setitem(globals(), "SCALE", 2.0 * scale)
        monkeypatch.setattr(SETTINGS, "scale", scale)
        np.testing.assert_allclose(compiled(x), jax.grad(loss)(x), rtol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 and stats["regions"]["cpp"] >= 2, stats


@pytest.mark.parametrize("forward, backward, why", [
    (lambda x: (jnp.sin(x), x), telling, "print in telling"), (telling_forward, telling, "print in telling"),
    (noting_forward, noting, "changes what stands outside"),
    (lambda x: (jnp.sin(x), x), noting, "changes what stands outside")])
def test_rules_act_in_each_call(capsys, caplog, forward, backward, why):
    loss = ruled(backward, forward)
    compiled = jax.value_and_grad(dynacomp.jit(loss))
    for n in (3, 3, 4, 5):
        x, shown = jnp.linspace(0.5, 2, n), []
        for fn in (compiled, jax.value_and_grad(loss)):
            SEEN.clear()
            found = fn(x)
            shown.append((capsys.readouterr().out, list(SEEN), np.round(found[1], 4).tolist()))
        assert shown[0] == shown[1]
    assert why in caplog.text and dynacomp.stats()["frames_captured"] == 2


@pytest.mark.parametrize("backward", [telling, noting])
def test_a_pullback_that_is_called_again_acts_again(capsys, backward):
    loss, shown = ruled(backward), []
    for fn in (loss, dynacomp.jit(loss)):
        SEEN.clear()
        for n in (3, 4, 4, 5):
            _, pull = jax.vjp(fn, jnp.linspace(0.5, 2, n))
            SEEN.append([round(float(pull(jnp.ones(()) * k)[0].sum()), 3) for k in range(3)])
        shown.append((capsys.readouterr().out, list(SEEN)))
    assert shown[0] == shown[1]
    assert dynacomp.stats()["frames_captured"] == 2


def test_rules_that_only_compute_are_derived_once():
    loss = ruled(lambda saved, g: (g * jnp.cos(saved),))
    compiled = jax.grad(dynacomp.jit(loss))
    for _ in range(4):
        x = jnp.linspace(0.5, 2, 4)
        np.testing.assert_allclose(compiled(x), jax.grad(loss)(x), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1 and dynacomp.stats()["regions"]["cpp"] == 2


def unpaired(x):
    SEEN.append("forward")
    return x


def ruled_by_a_tangent():
    fn = jax.custom_jvp(lambda x: x * 3)

    @fn.defjvp
    def rule(primals, tangents):
        SEEN.append("tangent")
        return fn(*primals), jnp.ones(9)

    return lambda x: fn(x).sum()


@pytest.mark.parametrize("where", [lambda loss: jax.grad(dynacomp.jit(loss)), lambda loss: dynacomp.jit(
    lambda x: jax.grad(loss)(x))], ids=["outside", "inside"])
@pytest.mark.parametrize("loss", [ruled(of_global, unpaired), ruled_by_a_tangent()], ids=["unpaired", "tangent"])
def test_rules_whose_results_jax_refuses_act_once(where, loss):
    compiled, shown = where(loss), []
    for n in (3, 3, 4, 5):
        for fn in (jax.grad(loss), compiled):
            SEEN.clear()
            with pytest.raises(TypeError) as raised:
                fn(jnp.ones(n))
            shown.append((str(raised.value), list(SEEN)))
        assert shown[-1] == shown[-2] and len(SEEN) == 1


def test_what_cuts_the_graph_is_no_rule(monkeypatch):
    """It is not asked, in each call of the derivative, whether it is as it was."""
    asked = []
    monkeypatch.setattr(Rules, "hold", lambda self, hold=Rules.hold: asked.append([*self.functions]) or hold(self))
    loss = lambda x, w: (jax.nn.softmax(jnp.tanh(x @ w)) @ w.T).sum()
    grad = jax.grad(dynacomp.jit(loss), (0, 1))
    for n in range(2, 12):
        for got, want in zip(grad(jnp.ones((n, 4)), jnp.eye(4)), jax.grad(loss, (0, 1))(jnp.ones((n, 4)), jnp.eye(4))):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert asked and not any(asked), asked


def warning_backward(saved, g):
    warnings.warn("backward", stacklevel=1)
    return g * 3,


def warning_forward(x):
    warnings.warn("forward", stacklevel=1)
    return jnp.sin(x), x


@pytest.mark.parametrize("forward, backward", [
    (lambda x: (jnp.sin(x), x), warning_backward), (warning_forward, warning_backward),
    (warning_forward, lambda saved, g: (g * 3,))])
def test_rules_warn_in_each_call(caplog, forward, backward):
    loss = ruled(backward, forward)
    compiled = jax.value_and_grad(dynacomp.jit(loss))
    for n in (3, 3, 4, 5):
        x, said = jnp.linspace(0.5, 2, n), []
        for fn in (compiled, jax.value_and_grad(loss)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                result = fn(x)
            said.append(([str(w.message) for w in found if "dynacomp" not in str(w.message)],
                         np.round(result[1], 4).tolist()))
        assert said[0] == said[1]
    assert "a rule of the program's warns" in caplog.text
