"""Compares a function with its compiled self over a series of calls: values to the bit, weak types,
exceptions with their words, and what became of the arguments; and what was captured."""

import copy
import re
from dataclasses import dataclass

import jax
import numpy as np

import dynacomp

ADDRESS = re.compile("0x[0-9a-f]+")


@dataclass(frozen=True)
class Raised:
    kind: str
    text: str


def described(value):
    """A leaf as data: arrays by type, shape and content (NaNs are all alike)."""
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        content = "deleted" if getattr(value, "is_deleted", bool)() else repr(np.asarray(value).tolist())
        return type(value).__name__, str(value.dtype), value.shape, getattr(value, "weak_type", None), content
    return type(value).__name__, ADDRESS.sub("0x", repr(value))


def outcome(fn, args):
    """What the call gave or raised, and the arguments afterwards."""
    try:
        result = fn(*args)
    except Exception as error:
        return Raised(type(error).__name__, ADDRESS.sub("0x", str(error))), described_tree(args)
    return described_tree(result), described_tree(args)


def described_tree(tree):
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: x is None)
    return list(map(described, leaves)), str(structure)


def same(fn, *calls, fresh=copy.copy, given_up=False, **how):
    """Each call of one compiled function gives what plain Python gives. A call is a tuple of arguments, or
    a function that makes one. Python runs what raises and no more, and no call is captured twice; `given_up`: so often
    has it raised before it returned that nothing is."""
    how.setdefault("options", {"recompile_limit": 100})
    dynacomp.reset()
    compiled, returned = dynacomp.jit(fn, **how), 0
    for number, call in enumerate(calls):
        want = outcome(fn, call() if callable(call) else fresh(call))
        got = outcome(compiled, call() if callable(call) else fresh(call))
        assert got == want, f"call {number}"
        returned += type(want[0]) is not Raised
    stats = dynacomp.stats()
    assert set(stats["frames_eager"]) <= {"raises", "traced"}
    assert set(stats["breaks"]) <= {"raises", "branch", "leaves", "effect_in_body"}
    assert min(1, returned) * (not given_up) <= stats["frames_captured"] <= len(calls) + sum(stats["breaks"].values())
