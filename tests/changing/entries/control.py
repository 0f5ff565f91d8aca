"""Control flow of JAX over changing lengths: cond, switch, while_loop, fori_loop, scan, map, associative_scan."""

import jax
import jax.numpy as jnp
from jax import lax

from tests.changing.kit import entry, mat, vec

FORWARD = ("vmap", "jacfwd", "break")


@entry()
def chosen_by_cond(x):
    y = x - x.mean()
    return lax.cond(y[0] > 0, lambda v: v * 2, lambda v: v - 1, y)


@entry()
def cond_on_the_size(x):
    n = x.shape[0]
    return lax.cond(n > 6, lambda v: v * 2, lambda v: v - 1, x)


@entry()
def switch(x):
    kind = jnp.argmax(x) % 3
    return lax.switch(kind, [jnp.sin, jnp.cos, lambda v: v * v], x)


@entry(variants=FORWARD)
def while_small(x):
    start = x / 10
    return lax.while_loop(lambda c: c.sum() < 30, lambda c: c * 1.5, start)


@entry()
def scan_over_rows(x):
    def step(carry, row):
        carry = carry * 0.9 + row
        return carry, carry * 2
    last, rows = lax.scan(step, jnp.zeros(()), x)
    return last, rows


@entry(lambda n: (mat(n, 3),))
def recurrent_cell(x):
    w = jnp.ones((3, 3)) / 3
    def cell(h, row):
        h = jnp.tanh(row + h @ w)
        return h, h
    return lax.scan(cell, jnp.zeros(3), x)


@entry(lambda n: (mat(n, 3),))
def scan_backwards(x):
    last, sums = lax.scan(lambda c, row: (c + row, c), jnp.zeros(3), x, reverse=True)
    return last, sums


@entry()
def scan_over_positions(x):
    n = x.shape[0]
    def step(total, i):
        return total + x[i] * i, total
    return lax.scan(step, 0.0, jnp.arange(n))


@entry()
def scan_of_the_length(x):
    last, _ = lax.scan(lambda c, _: (c * 0.5 + 1, None), x, None, length=x.shape[0])
    return last


@entry(lambda n: (mat(n, 3),))
def unrolled_scan(x):
    last, _ = lax.scan(lambda c, row: (c * 0.5 + row, None), jnp.zeros(3), x, unroll=2)
    return last


@entry(variants=FORWARD)
def fori_over_the_length(x):
    y = x * 2
    return lax.fori_loop(0, x.shape[0], lambda i, c: c + y[i] * i, 0.0)


@entry(variants=FORWARD)
def fori_that_writes(x):
    def body(i, out):
        return out.at[i].set(x[i] * i)
    return lax.fori_loop(0, x.shape[0], body, jnp.zeros_like(x))


@entry(over=(4, 5, 6, 7, 3, 9), captures=6)
def python_loop_over_rows(x):
    total = jnp.zeros(())
    for row in x:
        total = total * 0.5 + row
    return total


@entry(over=(4, 5, 6, 7, 3, 9))
def python_loop_over_positions(x):
    total = jnp.zeros(())
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


@entry()
def python_loop_of_the_length(x):
    for _ in range(x.shape[0]):
        x = x * 0.5 + 1
    return x


@entry()
def euler_with_the_length(x):
    steps = x.shape[0]
    h = 1.0 / steps
    y = jnp.zeros(())
    for i in range(steps):
        y = y + h * jnp.cos(i * h + y)
    return x * y


@entry()
def mapped_rows(x):
    y = lax.map(lambda v: v * v + 1, x)
    return y.sum()


@entry()
def vmapped_rows(x):
    table = jnp.ones(3)
    return jax.vmap(lambda v: v * table)(x).sum(1)


@entry(frames=2)
def associative(x):
    y = x / 10
    return lax.associative_scan(jnp.multiply, y), lax.cummax(x)


@entry(lambda n: (mat(n, 3),))
def checkpointed(x):
    block = jax.checkpoint(lambda v: jnp.tanh(v @ jnp.ones((3, 3))))
    return block(block(x))


@entry(lambda n: (mat(n, 3),))
def stopped_gradient(x):
    y = lax.stop_gradient(x.mean(0))
    return x - y


@jax.custom_vjp
def clipped(x):
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), x.shape[0]), lambda n, g: (g / n,))


@entry(variants=("grad", "vmap", "break"))
def own_derivative(x):
    y = clipped(x * 2)
    return y + 1


@entry(lambda n: (mat(n, 3),), variants=("vmap", "break"))
def inner_gradient(x):
    n = x.shape[0]
    loss, grads = jax.value_and_grad(lambda v: (v**2).sum() / n)(x)
    return x - 0.1 * grads, loss


@entry(variants=("break",))
def hessian_diagonal(x):
    h = jax.hessian(lambda v: (v**3).sum())(x)
    return jnp.diagonal(h)


@entry(variants=("break",))
def directional(x):
    y, dy = jax.jvp(lambda v: jnp.sin(v) * v.shape[0], (x,), (jnp.ones_like(x),))
    return y, dy


@entry(variants=("break",))
def pulled_back(x):
    y, back = jax.vjp(lambda v: v / v.sum(), x)
    return back(y * x.shape[0])


@entry(lambda n: (vec(n), jnp.asarray(0.5)), variants=("grad", "break"), frames=3)
def array_condition(x, limit):
    y = x / x.max()
    if (y > limit).all():
        return y * 2
    return y
