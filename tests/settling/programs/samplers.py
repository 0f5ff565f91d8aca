"""Distributions, samplers, flows and solvers of libraries, made in the call."""

from __future__ import annotations

from typing import Any

import blackjax
import distrax
import flowjax.distributions
import flowjax.flows
import jax
import jax.numpy as jnp
import jaxopt
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from tests.settling.kit import program


def key_and_data(i: int) -> tuple[Any, ...]:
    return jax.random.key(i), jax.random.normal(jax.random.key(100 + i), (6,))


@program(args=key_and_data)
def random_walk(key, data):
    logdensity = lambda q: jnp.sum(jax.scipy.stats.norm.logpdf(data, q, 1.0))  # noqa: E731
    kernel = blackjax.rmh(logdensity, blackjax.mcmc.random_walk.normal(jnp.array([0.5])))
    state = kernel.init(jnp.zeros(1))
    for k in jax.random.split(key, 2):
        state, info = kernel.step(k, state)
        print(end="")
    return state.position, info.acceptance_rate


@program(args=key_and_data)
def blackjax_nuts(key, data):
    logdensity = lambda q: jnp.sum(jax.scipy.stats.norm.logpdf(data, q["mu"], 1.0))  # noqa: E731
    kernel = blackjax.nuts(logdensity, step_size=0.1, inverse_mass_matrix=jnp.ones(1))
    state = kernel.init({"mu": jnp.zeros(())})
    step = jax.jit(kernel.step)
    for k in jax.random.split(key, 2):
        state, _ = step(k, state)
        print(end="")
    return state.position


@program(args=key_and_data)
def blackjax_hmc(key, data):
    logdensity = lambda q: jnp.sum(jax.scipy.stats.norm.logpdf(data, q, 1.0))  # noqa: E731
    kernel = blackjax.hmc(logdensity, 0.1, jnp.ones(1), 3)
    state = kernel.init(jnp.zeros(1))
    state, info = kernel.step(key, state)
    print(end="")
    state, info = kernel.step(jax.random.fold_in(key, 1), state)
    return state.position, info.energy


def regression(data):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", data.shape[0]):
        numpyro.sample("obs", dist.Normal(mu, 1.0), obs=data)


@program(args=key_and_data)
def numpyro_svi(key, data):
    svi = SVI(regression, AutoNormal(regression), numpyro.optim.Adam(0.1), Trace_ELBO())
    state = svi.init(key, data)
    for _ in range(2):
        state, loss = svi.update(state, data)
        print(end="")
    return svi.get_params(state), loss


@program(args=key_and_data)
def numpyro_density(key, data):
    value = {"mu": jax.random.normal(key)}
    return jax.value_and_grad(lambda v: numpyro.infer.util.log_density(regression, (data,), {}, v)[0])(value)


@program(args=key_and_data)
def numpyro_predictive(key, data):
    predictive = numpyro.infer.Predictive(regression, {"mu": jnp.arange(3.0)})
    print(end="")
    return predictive(key, data)["obs"]


@program(args=key_and_data)
def distrax_policy(key, data):
    policy = distrax.Categorical(logits=data)
    action = policy.sample(seed=key)
    print(end="")
    return action, policy.log_prob(action), policy.entropy()


@program(args=key_and_data)
def distrax_flow(key, data):
    flow = distrax.Transformed(distrax.Normal(jnp.zeros(6), jnp.ones(6)),
                               distrax.Chain([distrax.ScalarAffine(1.0, 2.0), distrax.Tanh()]))
    print(end="")
    return flow.sample_and_log_prob(seed=key)


@program(args=key_and_data)
def flowjax_density(key, data):
    base = flowjax.distributions.Normal(jnp.zeros(2))
    flow = flowjax.flows.coupling_flow(jax.random.key(0), base_dist=base, flow_layers=1, nn_width=4, nn_depth=1,
                                       transformer=flowjax.bijections.Affine())
    print(end="")
    return flow.log_prob(data.reshape(3, 2))


@program(args=key_and_data)
def flowjax_normal(key, data):
    d = flowjax.distributions.Normal(data, 2.0)
    print(end="")
    return d.log_prob(d.sample(key))


@program(args=lambda i: (jnp.ones((5, 2)) * (i + 1) + jnp.arange(10.0).reshape(5, 2), jnp.arange(5.0)))
def jaxopt_gradient_descent(x, y):
    solver = jaxopt.GradientDescent(lambda w: jnp.mean((x @ w - y) ** 2), stepsize=0.01, maxiter=5)
    print(end="")
    return solver.run(jnp.zeros(2)).params


@program(args=lambda i: (jnp.ones((5, 2)) * (i + 1) + jnp.arange(10.0).reshape(5, 2), jnp.arange(5.0)))
def jaxopt_lbfgs(x, y):
    solver = jaxopt.LBFGS(lambda w: jnp.mean((x @ w - y) ** 2), maxiter=3)
    w = jnp.zeros(2)
    state = solver.init_state(w)
    for _ in range(2):
        w, state = solver.update(w, state)
        print(end="")
    return w


@program(args=key_and_data)
def metropolis(key, data):
    x, accepted = jnp.zeros(()), 0
    logp = lambda q: -jnp.sum((data - q) ** 2)  # noqa: E731
    for k in jax.random.split(key, 4):
        a, b = jax.random.split(k)
        proposal = x + 0.5 * jax.random.normal(a)
        if jnp.log(jax.random.uniform(b)) < logp(proposal) - logp(x):
            x, accepted = proposal, accepted + 1
    return x, accepted


@program(args=key_and_data)
def langevin(key, data):
    tx = optax.noisy_sgd(0.01, key=0)
    q = jnp.zeros(())
    state = tx.init(q)
    for _ in range(2):
        updates, state = tx.update(jax.grad(lambda q: jnp.sum((data - q) ** 2))(q), state)
        q = optax.apply_updates(q, updates)
        print(end="")
    return q
