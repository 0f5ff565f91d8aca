"""Classes that the captured code makes and tells JAX how to take apart: `register_dataclass`, `register_pytree_node`.

The specimen is registered while capturing, and each call's class at each call. What the program has written to take an
object apart, or to put it together, is entered. JAX itself puts trees together while it traces, of what stands for
arrays: to it such an object is its parts.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changing_outside
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.constant import Const, object_of, stands_for
from dynacomp.capture.values.questions import is_tuple
from dynacomp.capture.values.value import Value, as_python, is_constant
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe, known_as, made_class
from dynacomp.capture.wrapping.pytree_shells import Memo, shell

tree_util = jax.tree_util


def _dataclass(cap: Capture, nodetype: Value, *args: Value, **kwargs: Value) -> Value:
    recipe = made_class(cap, object_of(nodetype))
    if recipe is None or not all(map(is_constant, (*args, *kwargs.values()))):
        return library_call(cap, tree_util.register_dataclass, [nodetype, *args], kwargs)
    given = tuple(map(as_python, args)), {name: as_python(value) for name, value in kwargs.items()}
    _told(cap, recipe, tree_util.register_dataclass, given[0], given[1])
    recipe.steps.append((tree_util.register_dataclass, given))
    return nodetype


def _by_methods(cap: Capture, cls: Value) -> Value:
    recipe = made_class(cap, object_of(cls))
    if recipe is None:
        return library_call(cap, tree_util.register_pytree_node_class, [cls])
    _register(cap, recipe, lambda value: cap.call(cap.getattr(value, "tree_flatten"), []),
              cap.getattr(cls, "tree_unflatten"))
    recipe.steps.append((tree_util.register_pytree_node_class, ((), {})))
    return cls


def _by_functions(cap: Capture, nodetype: Value, flatten_func: Value, unflatten_func: Value,
                  flatten_with_keys_func: Value = Const(None)) -> Value:
    recipe, given = made_class(cap, object_of(nodetype)), [flatten_func, unflatten_func]
    if recipe is None or not stands_for(flatten_with_keys_func, None):
        return library_call(cap, tree_util.register_pytree_node, [nodetype, *given, flatten_with_keys_func])
    _register(cap, recipe, lambda value: cap.call(flatten_func, [value]), unflatten_func)
    recipe.steps.append((tree_util.register_pytree_node, given))
    return Const(None)


def _register(cap: Capture, recipe: ClassRecipe, flatten: Callable[[Value], Value], unflatten: Value) -> None:
    """Lets JAX take apart what stands for objects of a class."""
    held, cls = recipe.held, recipe.obj  # JAX keeps what is given to it for good
    held += [cap, flatten]

    def to_iter(real: Any) -> Any:
        parts = vars(real).get(PARTS)
        return _taken_apart(held[0], held[1], real) if parts is None else parts

    def from_iter(aux: Any, children: Any) -> Any:
        made: Any = object.__new__(cls)
        object.__setattr__(made, PARTS, (tuple(children), aux))
        return made

    # of no module that is known to keep its ways: the program's is entered in its place
    entered = types.FunctionType(from_iter.__code__, {"__name__": None, "PARTS": PARTS}, closure=from_iter.__closure__)
    known_as(cap, unflatten, entered)
    _told(cap, recipe, tree_util.register_pytree_node, (to_iter, entered), {})


PARTS = "$parts"


def _taken_apart(cap: Capture, flatten: Callable[[Value], Value], real: Any) -> tuple[tuple[Any, ...], Any]:
    found = flatten(cap.known.shells[id(real)][0])
    if not is_tuple(found) or len(cap.items(found)) != 2 or not is_constant(cap.items(found)[1]):
        raise Break("call", "a class that notes what is no constant beside its leaves")
    children, aux = cap.items(found)
    memo = Memo()
    return tuple(shell(cap, child, memo) for child in cap.items(children)), as_python(aux)


def _told(cap: Capture, recipe: ClassRecipe, register: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Registers the specimen."""
    changing_outside(cap, f"the registration of {recipe.obj.__qualname__}")
    try:
        register(recipe.obj, *args, **kwargs)
    except ours(Exception):
        raise Break("raises", "a class that JAX refuses") from None
    recipe.shows = True  # JAX knows it
    cap.known.resolved.clear()


BUILTINS.update({tree_util.register_dataclass: _dataclass, tree_util.register_pytree_node_class: _by_methods,
                 tree_util.register_pytree_node: _by_functions})
