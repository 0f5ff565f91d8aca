"""`jax.tree.*` as rows of the table of callees.

The structure of a tree is known while capturing, so that the user's functions are simply called.
"""

from __future__ import annotations

from typing import Any

import jax

from dynacomp.capture.births import from_python
from dynacomp.capture.builtin_rows import NONE
from dynacomp.capture.calls import BUILTINS, call
from dynacomp.capture.errors import Raised
from dynacomp.capture.iteration import iterate
from dynacomp.capture.machine import Capture
from dynacomp.capture.operators import truth
from dynacomp.capture.shells import shell
from dynacomp.capture.values import Const, ListV, TupleV, Value, as_python


def _tree_map(cap: Capture, fn: Value, tree: Value, *rest: Value, is_leaf: Value = NONE) -> Value:
    leaves, treedef = _flatten(cap, tree, is_leaf)
    others = []
    for r in rest:
        try:
            others.append(treedef.flatten_up_to(shell(cap, r)))
        except (ValueError, TypeError) as error:
            raise Raised(Const(error)) from None
    found = [call(cap, fn, [_leaf(cap, x) for x in xs], {}) for xs in zip(leaves, *others)]
    return from_python(cap, jax.tree.unflatten(treedef, found))


def _flatten(cap: Capture, tree: Value, is_leaf: Value = NONE) -> tuple[list[Any], Any]:
    from_shell = shell(cap, tree)
    if isinstance(is_leaf, Const) and is_leaf.value is None:
        return jax.tree.flatten(from_shell)
    return jax.tree.flatten(from_shell, is_leaf=lambda x: truth(cap, call(cap, is_leaf, [_leaf(cap, x)], {})))


def _leaf(cap: Capture, x: Any) -> Value:
    return x if isinstance(x, Value) else from_python(cap, x)


def _tree_leaves(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return ListV([_leaf(cap, x) for x in _flatten(cap, tree, is_leaf)[0]])


def _tree_flatten(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    leaves, treedef = _flatten(cap, tree, is_leaf)
    return TupleV([ListV([_leaf(cap, x) for x in leaves]), Const(treedef)])


def _tree_unflatten(cap: Capture, treedef: Value, leaves: Value) -> Value:
    return from_python(cap, jax.tree.unflatten(as_python(treedef), list(iterate(cap, leaves))))


def _tree_structure(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return Const(_flatten(cap, tree, is_leaf)[1])


for _fns, _row in (
    ((jax.tree.map, jax.tree_util.tree_map), _tree_map),
    ((jax.tree.leaves, jax.tree_util.tree_leaves), _tree_leaves),
    ((jax.tree.flatten, jax.tree_util.tree_flatten), _tree_flatten),
    ((jax.tree.unflatten, jax.tree_util.tree_unflatten), _tree_unflatten),
    ((jax.tree.structure, jax.tree_util.tree_structure), _tree_structure),
):
    for _tree_fn in _fns:
        BUILTINS[_tree_fn] = _row
