"""What lowered arguments hold, and the call with the sizes at hand."""

import types

import jax
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import PLACEHOLDER, Node, Tree
from dynacomp.capture.hosting.rebuilt import LibraryArg
from dynacomp.capture.tracing.lowered_parts import fails_now, leaf_nodes, parts, rebuild


def node(name):
    return Node(PLACEHOLDER, name, None, (), {}, Aval((3,), np.dtype("float32")))


A, B = node("a"), node("b")
ENV = {A: "first", B: "second"}


@pytest.mark.parametrize(("lowered", "real"), [
    (A, "first"), ([A, (B, 3)], ["first", ("second", 3)]),
    ({"k": A, "s": slice(1, B)}, {"k": "first", "s": slice(1, "second")}),
    (Tree(jax.tree.structure({"p": 0, "q": 0}), (B, A)), {"p": "second", "q": "first"}),
    (LibraryArg(dict, (), {"n": LibraryArg(list, ((A, B),), {})}), {"n": ["first", "second"]})])
def test_what_was_lowered_is_rebuilt(lowered, real):
    assert rebuild(lowered, dict(ENV)) == real


def test_what_a_library_makes_is_made_once():
    made = []
    arg = LibraryArg(lambda x: made.append(x) or object(), (A,), {})
    one, two = rebuild([arg, arg], dict(ENV))
    assert one is two and made == ["first"]


def test_parts_are_found_through_everything_once():
    arg = LibraryArg(list, (A,), {})
    tree = Tree(jax.tree.structure([0]), (B,))
    found = list(parts({"a": [arg, arg], "t": tree, "s": slice(A, None, 2)}))
    assert list(leaf_nodes([arg, tree, slice(B, None)])) == [A, B, B]
    assert found.count(A) == 2 and tree.treedef in found and found.count(2) == 1


def test_a_call_that_hands_functions_back_does_not_fail_for_that():
    """Whether a call fails at known sizes is asked of its arrays alone: `eqx.apply_updates` returns activations too."""
    def call(x):
        return len(x) * x, jax.nn.relu

    cap = types.SimpleNamespace(libraries=types.SimpleNamespace(overhears=True))
    assert not fails_now(cap, call, ((node("x"),), {}))
