"""NumPyro: handlers that see what a model samples, log densities, steps of variational inference."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

from tests.frameworks.registry import model

numpyro.enable_validation(False)  # it looks at each parameter's content, in Python
KEY = jax.random.key(0)
X = jax.random.normal(KEY, (8, 2))
Y = X @ jnp.array([1.0, -2.0]) + 0.5


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0]):
        return numpyro.sample("y", dist.Normal(x @ weights + bias, scale), obs=y)


@model(slow=True)
def handlers_and_log_density(jit):
    @jit
    def simulate(key, x):
        with handlers.seed(rng_seed=key):
            return handlers.trace(regression).get_trace(x)["y"]["value"]

    @jit
    def density(params, x, y):
        return jax.value_and_grad(lambda p: log_density(regression, (x, y), {}, p)[0])(params)

    params = {"weights": jnp.ones(2), "bias": jnp.array(0.1), "scale": jnp.array(0.7)}
    return [simulate(jax.random.key(n), X) for n in range(3)], [density(params, X[:n], Y[:n]) for n in (8, 3)]


@model(slow=True)
def variational_inference(jit):
    svi = SVI(regression, AutoNormal(regression), numpyro.optim.Adam(0.05), Trace_ELBO())
    state, losses = svi.init(KEY, X, Y), []
    update = jit(lambda state, x, y: svi.update(state, x, y))
    for _ in range(3):
        state, loss = update(state, X, Y)
        losses.append(loss)
    return losses, svi.get_params(state)
