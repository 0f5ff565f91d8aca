"""Trees put together of a structure and Values, as `jax.tree.unflatten` does.

JAX puts them together with Values for leaves: containers and objects that only hold their leaves come out right.
Where a class of the program computes when it is put together (its `tree_unflatten`, an `__init__` or
`__post_init__`), that code is entered instead: it may ask what its leaves are.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import jax
from jax._src.tree_util import _registry as REGISTRY

from dynacomp.capture.base.classes import entries, module_name, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.symbolic.libraries import is_library, is_steady_module, is_user_function, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_dict, is_sequence
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.class_prototypes import is_made
from dynacomp.capture.wrapping.constants import from_python, new_tree

LEAF = jax.tree.structure(0)
MAKERS = ("__new__", "__init__", "__post_init__")
BARE = ("equinox", "flax.nnx")  # libraries that fill an object's attributes in, whatever its class does when called


def unflattened(cap: Capture, treedef: Any, leaves: list[Any]) -> Value:
    """`treedef` filled with Values and constants. Each of its nodes is a new object, even one that holds no array."""
    if not _computes_inside(treedef):
        return _filled(cap, treedef, leaves)
    children, at = [], 0
    for child in treedef.children():
        children.append(unflattened(cap, child, leaves[at:at + child.num_leaves]))
        at += child.num_leaves
    cls, held = treedef.node_data()
    if computes(cls):
        return _put_together(cap, REGISTRY[cls].from_iter, [from_python(cap, held), TupleV(children)])
    shallow = type(treedef).from_node_data_and_children(
        jax.tree_util.default_registry, (cls, held), [LEAF] * len(children))
    return _filled(cap, shallow, children)


def _filled(cap: Capture, treedef: Any, leaves: list[Any]) -> Value:
    try:
        return new_tree(cap, jax.tree.unflatten(treedef, leaves))
    except ours(Exception) as error:
        raise Break("opaque", f"a tree that cannot be put together while capturing ({type(error).__name__})") from None


def _put_together(cap: Capture, make: Any, args: list[Value]) -> Value:
    while isinstance(make, functools.partial):
        args = [*(from_python(cap, a) for a in make.args), *args]
        make = make.func
    if is_made(cap, make):
        return cap.call(cap.known.objects[id(make)], args)
    if isinstance(make, types.FunctionType) and is_library(make):
        return OPERATIONS.enter(cap, Const(make), args)
    return cap.call(from_python(cap, make), args)


def _computes_inside(treedef: Any) -> bool:
    data = treedef.node_data()
    return data is not None and (computes(data[0]) or any(map(_computes_inside, treedef.children())))


@remembered
def computes(cls: type) -> bool:
    """Whether code of the program runs when an object of this registered class is put together of its parts."""
    row = REGISTRY.get(cls)
    if row is None or is_steady_module(module_name(cls)):
        return False
    make = row.from_iter
    while isinstance(make, functools.partial):
        make = make.func
    module = str(module_of(make))
    return not is_steady_module(module) or not module.startswith(BARE) and any(map(_is_written, _makers(cls)))


def _makers(cls: type) -> list[Any]:
    return [next((entries(b)[name] for b in mro(cls) if name in entries(b)), None) for name in MAKERS]


def _is_written(maker: Any) -> bool:
    """Whether a method is the program's, and not made by `dataclasses` or another library."""
    return is_user_function(maker) and not is_steady_module(module_of(maker)) \
        and maker.__code__.co_filename != "<string>"


def arrange(tree: Any, orders: Any) -> None:
    """Puts the entries of new dicts in a tree into the order in which a library hands them on: by the way to each its
    keys. Where the way leads through an object, JAX has put that together."""
    for way, keys in orders:
        at = tree
        for key in way:
            at = at.items[key] if is_sequence(at) or is_dict(at) else None
        if is_dict(at):
            at.items = {key: at.items[key] for key in keys}
