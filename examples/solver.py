"""An adaptive ODE solver: `while t < end`, steps accepted or refused by their error, in plain Python.

    python examples/solver.py --compiler eager|jax|dynacomp [--steps N]

It solves the Allen–Cahn equation u_t = Δu + (u - u³) / ε² on a periodic square, two phases that
separate, by Dormand and Prince's embedded pair of order 5 and 4. The equation is the gradient flow of an
energy, so the energy is a loss that must fall: one training step is one span of time, however many
steps of the solver that takes.

The number of steps depends on the data. `jax.jit` cannot take `solve` whole: with it, only `attempt` is
compiled. dynacomp takes `solve` as it stands.
"""

from __future__ import annotations

from dataclasses import replace

import common
import jax
import jax.numpy as jnp

SIZE, EPSILON = 128, 2.0
SPAN, TOLERANCE = 2.0, 1e-4

# Dormand and Prince (1980): the stages, and the weights of orders 5 and 5 minus 4.
STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def laplacian(u: jax.Array) -> jax.Array:
    """The five-point Laplacian of u [n, n] on a torus of spacing 1."""
    neighbours = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
    return neighbours - 4 * u


def velocity(u: jax.Array) -> jax.Array:
    return laplacian(u) + (u - u**3) / EPSILON**2


def energy(u: jax.Array) -> jax.Array:
    """What the flow minimises, per cell: gradients, and the double well of the two phases."""
    gradients = (jnp.roll(u, -1, 0) - u) ** 2 + (jnp.roll(u, -1, 1) - u) ** 2
    return jnp.mean(gradients / 2 + (1 - u**2) ** 2 / (4 * EPSILON**2))


def combine(weights: tuple[float, ...], slopes: list[jax.Array]) -> jax.Array:
    return sum(w * k for w, k in zip(weights, slopes) if w)


def attempt(u: jax.Array, h: float) -> tuple[jax.Array, jax.Array]:
    """u after a step of length h, and the largest error that the embedded pair sees in it."""
    slopes, point = [velocity(u)], u
    for weights in STAGES[1:]:
        point = u + h * combine(weights, slopes)
        slopes.append(velocity(point))
    return point, jnp.max(jnp.abs(h * combine(ERROR, slopes)))


def make_solve(attempt):
    """The solver over one way to make a step."""

    def solve(u: jax.Array, h: float, span: float) -> tuple[jax.Array, float, int]:
        """u after `span`, the step length to go on with, and how many steps were tried."""
        t, tried = 0.0, 0
        while t < span:
            length = min(h, span - t)
            candidate, error = attempt(u, length)
            error = float(error)
            tried += 1
            if error <= TOLERANCE:
                t, u = t + length, candidate
            h = length * min(4.0, max(0.25, 0.9 * (TOLERANCE / error) ** 0.2))
        return u, h, tried

    return solve


def run(args) -> common.Result:
    if args.compiler == "jax":
        solve = make_solve(jax.jit(attempt))
    else:
        solve = common.compiler(args.compiler)(make_solve(attempt))
    u = 0.1 * jax.random.normal(jax.random.key(0), (SIZE, SIZE))
    h, tried = 0.01, 0

    def span(_: int) -> jax.Array:
        nonlocal u, h, tried
        u, h, count = solve(u, h, SPAN)
        tried += count
        return energy(u)

    result = common.train("solver", args, span)
    return replace(result, extra={"solver steps": tried})


if __name__ == "__main__":
    arguments = common.arguments(__doc__.splitlines()[0], steps=100)
    common.report(arguments, [run(arguments)])
