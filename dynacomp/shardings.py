"""Where arrays shall live: what `in_shardings`, `out_shardings` and `device` mean, as in `jax.jit`.

Placing is part of the function: its arrays are put where they are wanted, then it runs, then its results
are put where they are wanted. A None, at any level, and JAX's own default, `UNSPECIFIED`, leave what they
stand for where it is. Arguments that are static have no entry in `in_shardings`; those passed by name stay where
they are, but for a `device`.

    step = jit(step, in_shardings=(None, NamedSharding(mesh, P("data"))), out_shardings=None)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src.sharding_impls import UNSPECIFIED

from dynacomp.capture._native import run_eager


def placed(fn: Any, inputs: Any, outputs: Any, device: Any, static: Sequence[int]) -> Any:
    """`fn` on arguments that lie as `inputs` says, its result as `outputs` says: a sharding or a pytree prefix
    of shardings; or all of it on `device`. `static` are the positions of arguments that `inputs` leaves out.
    ValueError where shardings and a device are given."""
    if device is not None and (inputs is not None or outputs is not None):
        raise ValueError("dynacomp.jit: a device says where everything lives, so in_shardings and out_shardings "
                         "must not be given with it")
    if device is None and inputs is None and outputs is None:
        return fn

    wanted = tuple(inputs) if isinstance(inputs, list) else inputs

    def placing(*args: Any, **kwargs: Any) -> Any:
        places = range(-len(args), len(args))
        fixed = [i % len(args) for i in static if i in places]
        moved = iter(put(tuple(a for i, a in enumerate(args) if i not in fixed), device or wanted))
        result = fn(*(a if i in fixed else next(moved) for i, a in enumerate(args)), **put(kwargs, device))
        return put(result, device or outputs)

    placing.__code__ = placing.__code__.replace()  # entries hang off the code: each function needs its own
    return functools.wraps(fn)(placing)


def put(tree: Any, where: Any) -> Any:
    """`tree` with its arrays where `where`, a prefix of it, says. ValueError where it is no prefix of it."""
    if where is None:
        return tree
    if isinstance(where, jax.Device):
        return run_eager(_put_on, (tree, where))  # in Python: a graph does not say that its results are committed
    wanted = jax.tree.broadcast(where, tree, is_leaf=_is_none)
    return jax.tree.map(_put_leaf, wanted, tree, is_leaf=_is_none)


def _put_on(tree: Any, device: jax.Device) -> Any:
    return jax.tree.map(lambda x: _put_leaf(device, x), tree, is_leaf=_is_none)


def _is_none(x: Any) -> bool:
    return x is None


def _put_leaf(where: Any, x: Any) -> Any:
    asked = where is not None and where is not UNSPECIFIED
    return jax.device_put(x, where) if asked and isinstance(x, (jax.Array, np.ndarray)) else x
