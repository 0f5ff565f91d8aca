"""Loops and branches that every backend must run as eager JAX does; `REGIONS` joins those of `regions.py`.

Bodies small enough for the stack and bigger ones, state of every kind of dtype, sizes that are known and that are not.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.codegen.conformance.regions import Region, arrays, floats


def running(x: Any, start: Any) -> Any:
    """A scan with a constant, a state of two arrays that change places, and three stacked results."""

    def step(state: Any, row: Any) -> Any:
        a, b = state
        return (b, a * 0.5 + row @ start), (row, a.sum(), a)

    return lax.scan(step, (start[0], start[1]), x)


def backwards(x: Any) -> Any:
    return lax.scan(lambda c, r: (c * 0.9 + r, c), jnp.zeros_like(x[0]), x, reverse=True)


def kinds(x: Any, flags: Any) -> Any:
    """State of integers, booleans and halves; one that never changes."""

    def step(state: Any, at: Any) -> Any:
        count, seen, half, same = state
        value, flag = at
        new = (count + flag, seen ^ flag, half * jnp.bfloat16(0.5) + value.astype(jnp.bfloat16), same)
        return new, (count, seen, same)

    start = (jnp.int32(0), jnp.bool_(False), jnp.bfloat16(1), x[0])
    return lax.scan(step, start, (x, flags))


def newton(x: Any) -> Any:
    def more(state: Any) -> Any:
        y, n = state
        return (jnp.abs(y * y - x).max() > 1e-5) & (n < 20)

    return lax.while_loop(more, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))


def counted(x: Any, low: Any, high: Any) -> Any:
    """Bounds that are data; one loop that never runs."""
    many = lax.fori_loop(low, high, lambda i, y: y * 0.9 + i, x)
    return many, lax.fori_loop(high, low, lambda i, y: y + i, x)


def far(x: Any) -> Any:
    """A state too big for the stack, whose body and condition need memory of their own."""

    def more(state: Any) -> Any:
        return jnp.sort(state)[1] < 40

    def step(state: Any) -> Any:
        ordered = jnp.sort(state)
        return ordered[::-1] * 1.1 + jnp.cumsum(ordered) * 1e-3 + 1

    return lax.while_loop(more, step, x)


def choices(x: Any, which: Any) -> Any:
    two = lax.cond(which > 1, lambda y: (y, y * 2), lambda y: (y - 1, y), x)
    return two, lax.switch(which - 3, [jnp.sin, lambda y: y, lambda y: y.sum() + y * 0], x)


def chosen(x: Any) -> Any:
    """Branches in a loop in a loop."""

    def inner(i: Any, y: Any) -> Any:
        return lax.cond(i % 3 == 0, lambda z: z * 1.01, lambda z: z - 0.1, y)

    return lax.scan(lambda c, r: (lax.fori_loop(0, 7, inner, c) + r, c[0]), x[0], x)


def written(x: Any) -> Any:
    """An array filled element by element, and read at moving places."""

    def step(i: Any, y: Any) -> Any:
        return y.at[i].set(y[i - 1] * 0.5 + x[i]).at[0].add(0.25)

    return lax.fori_loop(1, x.shape[0], step, jnp.zeros_like(x))


def table(x: Any) -> Any:
    """A loop in a loop fills an array, of which some is read before it changes."""

    def row(i: Any, y: Any) -> Any:
        start = y[i - 1].sum()
        return lax.fori_loop(0, x.shape[1], lambda j, z: z.at[i, j].set(z[i - 1, j] * 0.5 + x[i, j] + start), y)

    return lax.fori_loop(1, x.shape[0], row, x)


def counts(x: Any, at: Any) -> Any:
    """Sums at places that meet, and out of range."""
    return lax.scan(lambda h, i: (h.at[i].add(1), h[i[0]]), x, at)


def shifted(x: Any) -> Any:
    """Updates that read what they overwrite."""

    def step(i: Any, y: Any) -> Any:
        return y.at[1:].set(y[:-1] * 0.5), y.sum()

    return lax.scan(lambda y, _: step(0, y), x, None, length=20)


def layers(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, m: (jnp.tanh(h @ m), h.mean(0)), x, w)


def thomas(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Batches of tridiagonal systems, along the leading dimension."""

    def down(state: Any, row: Any) -> Any:
        (p, q), (lower, middle, upper, right) = state, row
        over = 1 / (middle - lower * p)
        new = (upper * over, (right - lower * q) * over)
        return new, new

    _, (p, q) = lax.scan(down, (jnp.zeros_like(b[0]), jnp.zeros_like(b[0])), (a, b, c, d))
    return lax.scan(lambda x, r: ((y := r[1] - r[0] * x), y), jnp.zeros_like(b[0]), (p, q), reverse=True)[1]


def drawn(seed: Any) -> Any:
    """Random keys among what is carried."""

    def step(key: Any, _: Any) -> Any:
        key, use = jax.random.split(key)
        return key, jax.random.uniform(use, (3,))

    return lax.scan(step, jax.random.PRNGKey(seed), None, length=20)


def of_squares(fn: Any) -> Any:
    return jax.value_and_grad(lambda *a: sum((y.astype(jnp.float32) ** 2).sum() for y in jax.tree.leaves(fn(*a))))


POSITIVE = np.abs(floats(5)) + 0.5
ROWS = floats(20, 3, seed=1)
WEIGHTS = floats(40, 48, 48, seed=2) * 0.1
SYSTEM = tuple(floats(30, 17, seed=s) * 0.1 + (s == 4) * 2 for s in (3, 4, 5, 6))

REGIONS = [
    Region("loop_running", running, (ROWS, floats(3, 3))),
    Region("loop_backwards", backwards, (ROWS,)),
    Region("loop_kinds", kinds, (floats(20), arrays("bool", 20))),
    Region("loop_newton", newton, (POSITIVE,)),
    Region("loop_newton_many", jax.vmap(newton), (np.abs(floats(3, 5)) + 0.5,)),
    Region("loop_counted", counted, (floats(4), np.int32(3), np.int32(30)),
           more=((floats(4), np.int32(5), np.int32(2)),)),
    *(Region(f"loop_choices_{k}", choices, (floats(6), np.int32(k))) for k in (-9, 2, 4, 9)),
    Region("loop_chosen", chosen, (ROWS,)),
    Region("loop_written", written, (floats(20),)),
    Region("loop_written_rows", written, (floats(20, 5),)),
    Region("loop_written_far", written, (floats(300),), symbolic=("n",), more=((floats(70),),)),
    Region("loop_table", table, (floats(12, 9),)),
    Region("loop_counts", counts, (floats(80), arrays("int32", 9, 3))),
    Region("loop_shifted", shifted, (floats(9),)),
    Region("loop_shifted_far", shifted, (floats(2000),)),
    Region("loop_far", far, (floats(1500) * 0.1,)),
    Region("loop_layers", layers, (floats(5, 48), WEIGHTS)),
    Region("loop_thomas", thomas, SYSTEM),
    Region("loop_drawn", drawn, (np.int32(7),)),
    Region("loop_map", lambda x: lax.map(lambda r: (r.sum(), jnp.sort(r)), x), (ROWS,)),
    Region("loop_associative", lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x), (ROWS,)),
    Region("loop_empty", lambda x: lax.scan(lambda c, r: (c + r, c), jnp.ones(3), x), (floats(0, 3),)),
    Region("loop_doubles", running, (ROWS.astype(np.float64), floats(3, 3).astype(np.float64)), x64=True),
    Region("loop_newton_doubles", newton, (np.abs(floats(5)).astype(np.float64) + 0.5,), x64=True),
    Region("loop_running_grad", of_squares(running), (ROWS, floats(3, 3))),
    Region("loop_thomas_grad", of_squares(thomas), SYSTEM),
    Region("loop_layers_grad", of_squares(layers), (floats(5, 48), WEIGHTS)),
    Region("loop_chosen_grad", of_squares(chosen), (ROWS,)),
    Region("loop_newton_jvp", lambda x: jax.jvp(lambda y: newton(y)[0], (x,), (x * 0 + 1,)), (POSITIVE,)),
    Region("loop_symbolic_steps", running, (ROWS, floats(3, 3)), symbolic=("t, 3", "3, 3"),
           more=((floats(5, 3), floats(3, 3)), (floats(1, 3), floats(3, 3)))),
    Region("loop_symbolic_state", backwards, (ROWS,), symbolic=("20, n",),
           more=((floats(20, 77),), (floats(20, 2000),))),
    Region("loop_symbolic_newton", newton, (POSITIVE,), symbolic=("n",),
           more=((np.abs(floats(900)) + 0.5,),)),
    Region("loop_symbolic_grad", of_squares(backwards), (ROWS,), symbolic=("t, n",), more=((floats(33, 5),),)),
]
