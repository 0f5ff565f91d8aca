"""`jax.jit(f)` gives `f`, and its caller, dicts whose keys are in order: who goes through them sees that."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from jax.tree_util import register_dataclass

import dynacomp
from tests.changing.kit import outcome, unlike

X = jnp.arange(1.0, 4.0)


@dataclasses.dataclass
class State:
    params: dict
    step: jax.Array


register_dataclass(State, data_fields=["params", "step"], meta_fields=[])


def keyed(params):
    """Another number for each entry, as with keys of random numbers that are split."""
    return {name: value * 10 + n for n, (name, value) in enumerate(params.items())}


@functools.partial(jax.jit, static_argnames="times")
def named(times=1, **params):
    return [value * times for value in params.values()], list(params.values())


JITTED = jax.jit(keyed)
OF_STATE = jax.jit(lambda state: State(keyed(state.params), state.step + 1))
OF_LIST = jax.jit(lambda many: [keyed(one) for one in many])
BOTH = jax.jit(lambda params: (params, keyed(params)))
MADE = jax.jit(lambda a, b: {"z": a, "b": (b, {"y": a, "c": b})})


def of_state(params):
    done = OF_STATE(State(params, X))
    return done.params, done.step


PROGRAMS = {
    "given": lambda params: JITTED(params),
    "new": lambda params: JITTED({"w": params["z"], "a": params["b"]}),
    "numbers": lambda params: JITTED({9: params["z"], 10: params["b"], 1: params["c"]}),
    "twice": lambda params: JITTED(JITTED(params)),
    "object": of_state,
    "list": lambda params: OF_LIST([params, dict(params)]),
    "rows": lambda params: OF_LIST([{"z": params["z"] * i, "b": params["b"]} for i in range(3)]),
    "handed back": lambda params: BOTH(params),
    "made": lambda params: MADE(params["z"], params["b"]),
    "names": lambda params: named(times=2, zz=params["z"], aa=params["b"]),
    "ordered": lambda params: JITTED(collections.OrderedDict(params)),
    "default": lambda params: JITTED(collections.defaultdict(list, params)),
    "changed": lambda params: (params.update(a=params["z"]), JITTED(params)),
    "gradient": lambda params: jax.grad(lambda p: sum(v.sum() for v in JITTED(p).values()))(params),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_order(program):
    dynacomp.reset()
    fn = PROGRAMS[program]
    compiled = dynacomp.jit(fn, backend="eager", options={"measure": False, "capture_idle": True})
    for names in (("z", "b", "c"), ("z", "b", "c"), ("b", "c", "z"), ("c", "b", "z")):
        params = {name: X * n for n, name in enumerate(names)}
        wrong = unlike(outcome(fn, (dict(params),)), outcome(compiled, (dict(params),)))
        assert not wrong, f"{names}: {wrong}"
    assert 1 <= dynacomp.stats()["frames_captured"] <= 3
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]
