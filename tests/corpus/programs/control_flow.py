"""Control flow on the content of arrays: branches and loops that stay in the graph, and some that cannot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from tests.corpus.kit import program


def scalar():
    return (jnp.float32(3.0),)


@program(args=scalar)
def newton_iteration(x):
    guess, rounds = x, 0
    while jnp.abs(guess * guess - x) > 1e-4:
        guess = (guess + x / guess) / 2
        rounds += 1
    return guess, rounds


@program(args=scalar)
def bisection(x):
    low, high = x * 0, x + 1
    for _ in range(40):
        middle = (low + high) / 2
        if high - low < 1e-2:
            break
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return low, high


@program(args=lambda: (jnp.float32(1.0), jnp.float32(0.25)))
def ode_stepper(y, h):
    t = y * 0
    accepted = refused = 0
    while t < 2:
        full = y - h * y
        half = y - h / 2 * y
        half = half - h / 2 * half
        if jnp.abs(full - half) < 0.02:
            y, t = half, t + h
            accepted += 1
        else:
            h = h / 2
            refused += 1
    return y, accepted, refused


@program(args=lambda: (jnp.array(1071), jnp.array(462)))
def gcd_of_arrays(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@program(args=lambda: (jnp.array(27),))
def collatz_of_an_array(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@program(args=lambda: (jax.random.key(5),))
def rejection_sampling(key):
    tries = 0
    while True:
        key, use = jax.random.split(key)
        point = jax.random.uniform(use, (2,), minval=-1.0)
        tries += 1
        if point @ point < 0.3:
            return point, tries


@program(args=lambda: (jnp.arange(4.0), [jnp.full((4, 4), 0.1 * k) for k in range(5)]))
def early_exit_inference(x, layers):
    for w in layers:
        x = jnp.tanh(x @ w) + x
        if x.max() > 5:
            return x * 2
    return x


@program(args=lambda: ([jnp.ones(3) * k for k in range(4)], jnp.eye(3)))
def recurrent_network(xs, w):
    h, outputs = jnp.zeros(3), []
    for x in xs:
        h = jnp.tanh(h @ w + x)
        outputs.append(h)
    return jnp.stack(outputs), h


@program(args=lambda: (jnp.log(jnp.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4]])),))
def greedy_decoding(table):
    token, score, length = jnp.array(0), jnp.zeros(()), 0
    for length in range(1, 20):
        score = score + table[token].max()
        token = table[token].argmax()
        if token == 2:
            break
    return token, score, length


@program
def flags_and_best(x):
    best, where, found = x[0], 0, False
    for i in range(1, 6):
        if x[i] * (5 - x[i]) > best:
            best, where, found = x[i] * (5 - x[i]), i, True
    return best, where, found


@program(args=lambda: (jnp.float32(-4.0),))
def piecewise(x):
    if x < -2:
        kind, y = 0, -x - 1
    elif x < 2:
        kind, y = 1, x * x / 4
    else:
        kind, y = 2, x - 1
    return y, kind


@program(args=lambda: (jnp.arange(3.0), {"runs": 0, "last": jnp.zeros(3)}, []))
def state_in_branches(x, state, log):
    if x.sum() > 2:
        state["runs"] += 1
        state["last"] = x
        log.append(1)
    else:
        state["last"] = -x
        log.append(0)
    return state["last"] * 2


@program(args=lambda: (jnp.arange(3.0),))
def numbers_that_leave_late(x):
    loss = float((x * x).sum())
    return {"loss": loss, "best": x.argmax().item(), "fine": bool(loss < 10)}, x / 2


@program(args=lambda: (jnp.arange(3.0),))
def a_long_loop(x):
    for i in range(200):
        x = x - 0.01 * (1 - i / 200) * jnp.sin(x)
    return x, i


@program(args=scalar, breaks={"branch": 1})
def a_dtype_that_depends(x):
    y = 1 if x > 2 else x
    return y


@program(args=scalar)
def an_assertion_that_holds(x):
    assert x > 2, "too small"
    return x * 2
