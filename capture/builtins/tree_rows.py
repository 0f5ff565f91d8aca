"""`jax.tree.*` as rows of the table of callees.

The structure of a tree is known while capturing, so that the user's functions are simply called.
Trees are taken apart as shells (see `pytree_shells`); what comes out of one is the Value that went in, so
that objects keep their identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.loops_py import map_each
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.treedef_contents import (
    arrays_in_structure,
    in_structure,
    numbers_out_of_sight,
    sizes_out_of_sight,
    taken_apart,
)
from dynacomp.capture.bodies.trees import unflattened
from dynacomp.capture.builtins.builtin_rows import NONE
from dynacomp.capture.calls.calls import BUILTINS, call, call_row
from dynacomp.capture.graph.sizes import Size
from dynacomp.capture.kinds.attrs import CONST_METHODS
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.rows import alike_items
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing.equinox_modules import refuse_method
from dynacomp.capture.tracing.failures import enter_class, enter_others
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, is_const, stands_for
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.questions import is_graph_number, is_library_object, is_list, is_object
from dynacomp.capture.values.value import Value, as_python, children, is_changing, type_of
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.ndarrays import is_numpy
from dynacomp.capture.wrapping.pytree_shells import Memo, fixed_fields, shell


class Closed(Exception):
    """A tree holds an object that only its library can take apart."""


def is_leaf_of_jax(real: Any) -> bool:
    """Whether JAX finds nothing in an object; its class may lie about itself, only its type counts."""
    return bool(jax.tree_util.all_leaves([real]))


class Shell:
    """A tree as a real object, and the way back from its parts to the Values that they stand for. `is_leaf`: whether
    who takes it apart finds nothing in an object; that is JAX, where nothing else is given."""

    def __init__(self, cap: Capture, tree: Value, is_leaf: Callable[[Any], bool] = is_leaf_of_jax) -> None:
        self.cap = cap
        self.memo = Memo(is_leaf, by_name=is_leaf is is_leaf_of_jax)
        self.real = shell(cap, tree, self.memo)
        self.values: dict[int, Value] = {id(real): value for value, real in self.memo.values()}
        self.values |= self.memo.leaves
        for value in self.values.values():
            refuse_method(value)

    def value(self, part: Any) -> Value:
        """What the part stands for, which must be no tree itself; one in a static field does not come out."""
        found = part if isinstance(part, Value) else self.values.get(id(part))
        if found is part and _is_closed(found):
            raise Closed
        return found if found is not None else from_python(self.cap, part)

    @property
    def closed(self) -> list[LibraryV]:
        """What is, or may be, a tree that is not taken apart here."""
        return [v for v, real in self.memo.values() if v is real and is_library_object(v) and _is_closed(v)]

    def rule(self, is_leaf: Value) -> Callable[..., bool] | None:
        """The program's `is_leaf` as a real function, of a part or of its path and the part."""
        if stands_for(is_leaf, None):
            return None
        return lambda *seen: truth(self.cap, call(self.cap, is_leaf, list(map(self.value, seen)), {}))


def _is_closed(value: Value | None) -> bool:
    """Whether it is a library's object that is a tree, as a model that it has just made. A function is none."""
    return is_library_object(value) and (value.real is None or not jax.tree_util.all_leaves([value.real]))


def _flatten(parts: Shell, is_leaf: Value, shown: bool = False) -> tuple[list[Value], Any]:
    leaves, treedef = taken_apart(jax.tree.flatten, parts.real, is_leaf=parts.rule(is_leaf))
    return list(map(parts.value, leaves)), known(parts, leaves, treedef, shown)


def known(parts: Shell, leaves: list[Any], treedef: Any, shown: bool) -> Any:
    """The structure of a tree of Values, unless it would be another one for arrays. Numbers in one that is shown to
    the program are constants: it may be compared, hashed, kept."""
    if arrays_in_structure(treedef) or shown and parts.closed:
        raise Closed
    sizes = in_structure(treedef, Size) if shown else sizes_out_of_sight(treedef)
    if shown or sizes or numbers_out_of_sight(treedef):
        fixed_fields(parts.cap, parts.memo, leaves, sizes=sizes)
    return treedef


def _with_path(parts: Shell, is_leaf: Value, takes_path: Value,
               shown: bool = False) -> tuple[list[tuple[Value, Value]], Any]:
    found, treedef = taken_apart(jax.tree_util.tree_flatten_with_path, parts.real, is_leaf=parts.rule(is_leaf),
                                 is_leaf_takes_path=truth(parts.cap, takes_path))
    return [(from_python(parts.cap, path), parts.value(leaf)) for path, leaf in found], known(
        parts, [leaf for _, leaf in found], treedef, shown)


def _up_to(parts: Shell, treedef: Any) -> list[Value]:
    """The parts of a tree that stand where `treedef` has leaves."""
    try:
        with parts.cap.sizes.scope.decides():  # sizes beside the leaves are equal, or are none
            found = treedef.flatten_up_to(parts.real)
        return list(map(parts.value, found))
    except (ValueError, TypeError) as error:
        raise Break("raises", type(error).__name__) from None
    except jax.errors.InconclusiveDimensionOperation:  # from a text of what does not match
        raise Break("raises", ValueError.__name__) from None


def _mapped(cap: Capture, fn: Value, treedef: Any, columns: list[list[Value]]) -> Value:
    return unflattened(cap, treedef, [call(cap, fn, list(xs), {}) for xs in zip(*columns)])


def _tree_map(cap: Capture, f: Value, tree: Value, *rest: Value, is_leaf: Value = NONE) -> Value:
    if not rest and stands_for(is_leaf, None) and is_list(tree):
        it = alike_items.iterator(cap, tree)
        if it is not None and alike_items.goes_on(it):
            return cap.call(Const(map_each), [f, it])
    first, *others = (Shell(cap, t) for t in (tree, *rest))
    leaves, treedef = _flatten(first, is_leaf)
    return _mapped(cap, f, treedef, [leaves, *(_up_to(o, treedef) for o in others)])


def all_arrays(cap: Capture, tree: Value, anew: bool = False, other: Any = None) -> Value:
    """The tree that `jax.jit` makes of a function's result: what JAX takes for an array is one. anew: another tree
    even where nothing but arrays is in it. other: which of the arrays are to be copies, and how they are made."""
    parts = Shell(cap, tree)
    try:
        leaves, treedef = _flatten(parts, NONE)
    except Closed:
        if any(map(_is_number, parts.values.values())) or any(map(_may_hold_numbers, parts.closed)):
            raise Break("argument", "numbers beside a library's object, in a tree that jax.jit takes apart") from None
        if anew:
            raise Break("argument", "a library's object, in a tree that jax.jit takes apart") from None
        return tree
    if any(of_class(LibraryV, leaves)):
        raise Break("argument", "a library's function beside arrays, which jax.jit does not take")
    if not anew and not any(map(_is_number, leaves)) and not other:
        return tree
    arrays = [library_call(cap, jnp.asarray, [x], {}) if _is_number(x) else x for x in leaves]
    return unflattened(cap, treedef, [other.copy(x) if other and other(x) else x for x in arrays])


def _is_number(value: Value) -> bool:
    plain = is_changing(value) or is_const(value)
    numbers = (int, float, complex, np.generic)
    return is_numpy(value) or is_graph_number(value) or plain and issubclass(type_of(value), numbers)


def _may_hold_numbers(tree: LibraryV) -> bool:
    return tree.real is None or not all(isinstance(x, jax.Array) for x in jax.tree.leaves(tree.real))


OPERATIONS.all_arrays = all_arrays


def _tree_map_with_path(cap: Capture, f: Value, tree: Value, *rest: Value, is_leaf: Value = NONE,
                        is_leaf_takes_path: Value = NONE) -> Value:
    first, *others = (Shell(cap, t) for t in (tree, *rest))
    found, treedef = _with_path(first, is_leaf, is_leaf_takes_path)
    return _mapped(cap, f, treedef, [[p for p, _ in found], [x for _, x in found],
                                     *(_up_to(o, treedef) for o in others)])


def _tree_leaves(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return ListV(_flatten(Shell(cap, tree), is_leaf)[0])


def _tree_flatten(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    leaves, treedef = _flatten(Shell(cap, tree), is_leaf, shown=True)
    return TupleV([ListV(leaves), Const(treedef)])


def _leaves_with_path(cap: Capture, tree: Value, is_leaf: Value = NONE, is_leaf_takes_path: Value = NONE) -> Value:
    return ListV([TupleV(list(pair)) for pair in _with_path(Shell(cap, tree), is_leaf, is_leaf_takes_path)[0]])


def _flatten_with_path(cap: Capture, tree: Value, is_leaf: Value = NONE, is_leaf_takes_path: Value = NONE) -> Value:
    found, treedef = _with_path(Shell(cap, tree), is_leaf, is_leaf_takes_path, shown=True)
    return TupleV([ListV([TupleV(list(pair)) for pair in found]), Const(treedef)])


def _tree_unflatten(cap: Capture, treedef: Value, leaves: Value) -> Value:
    _open_makers(cap, treedef)
    try:
        return unflattened(cap, as_python(treedef), list(iterate(cap, leaves)))
    except (ValueError, TypeError) as error:
        raise Break("raises", type(error).__name__) from None


def _flatten_up_to(cap: Capture, treedef: Value, tree: Value) -> Value:
    _open_makers(cap, treedef)
    try:
        return ListV(_up_to(Shell(cap, tree), as_python(treedef)))
    except Closed:
        raise Break("argument", "a library's object taken apart by a tree structure") from None


def _open_makers(cap: Capture, made: Value) -> None:
    """Restart where a structure is known at run time only, as that of an object which its library makes: the next
    attempt makes objects of that class as the program's, and enters the functions that make some."""
    parts, seen = [made], set()
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if is_library_object(part):
            enter_class(cap, part.make)
            enter_others(cap, part.make)
        parts += part.args if is_library_object(part) else part.attrs.values() if is_object(part) else children(part)


def _tree_structure(cap: Capture, tree: Value, is_leaf: Value = NONE) -> Value:
    return Const(_flatten(Shell(cap, tree), is_leaf, shown=True)[1])


def _tree_all(cap: Capture, tree: Value, *, is_leaf: Value = NONE) -> Value:
    return Const(all(truth(cap, x) for x in _flatten(Shell(cap, tree), is_leaf)[0]))


def _tree_reduce(cap: Capture, function: Value, tree: Value, *initial: Value, is_leaf: Value = NONE) -> Value:
    return call(cap, Const(functools.reduce), [function, ListV(_flatten(Shell(cap, tree), is_leaf)[0]), *initial], {})


def _or_call(row: Any, fn: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """`row`, or one call of the library where a tree is closed."""
    try:
        return call_row(cap, row, fn, list(args), kwargs)
    except Closed:
        return library_call(cap, fn, list(args), kwargs)


for _name, _row in (("map", _tree_map), ("leaves", _tree_leaves), ("flatten", _tree_flatten),
                    ("unflatten", _tree_unflatten), ("structure", _tree_structure), ("all", _tree_all),
                    ("reduce", _tree_reduce), ("map_with_path", _tree_map_with_path),
                    ("flatten_with_path", _flatten_with_path), ("leaves_with_path", _leaves_with_path)):
    for _fn in (getattr(jax.tree, _name), getattr(jax.tree_util, f"tree_{_name}")):
        BUILTINS[_fn] = functools.partial(_or_call, _row, _fn)


# --- methods of JAX's registry, and of a tree structure


def _one_level(cap: Capture, registry: Value, tree: Value) -> Value:
    """`default_registry.flatten_one_level(tree)`: what a node has right below it, and what its class keeps beside."""
    parts = Shell(cap, tree)
    found = taken_apart(as_python(registry).flatten_one_level, parts.real)
    if found is None:
        return Const(None)
    children, kept = found
    try:
        leaves, treedef = taken_apart(jax.tree.flatten, parts.real, is_leaf=lambda x: x is not parts.real)
        known(parts, leaves, treedef, shown=True)
    except Closed:
        raise Break("argument", "a library's object taken apart by JAX's registry") from None
    if type(children) not in (tuple, list):
        raise Break("argument", f"a {type(children).__qualname__} as what a tree has below it")
    inside = [parts.value(child) for child in children]
    return TupleV([TupleV(inside) if type(children) is tuple else ListV(inside), from_python(cap, kept)])


CONST_METHODS.update({
    (type(jax.tree_util.default_registry), "flatten_one_level"): _one_level,
    (jax.tree_util.PyTreeDef, "unflatten"): _tree_unflatten,
    (jax.tree_util.PyTreeDef, "flatten_up_to"): _flatten_up_to,
})
