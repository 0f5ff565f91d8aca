"""Objects of the capture's own back to real ones, as bytecode: rows of `emit.MADE`, see `class_prototypes`.

A class is made of the Values of its namespace, by `type` and not by its class statement, which has run on the
symbolic machine. What refers to the class (the `__class__` cell of its methods, attributes stored later) comes after.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dynacomp.capture.base.errors import Unbuildable
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.emit import MADE, Emitter
from dynacomp.capture.values.objects import DELETED
from dynacomp.capture.values.questions import is_dict
from dynacomp.capture.wrapping.class_prototypes import ClassRecipe, Inside, Recipe, subclasses


def emit_recipe(e: Emitter, recipe: Recipe) -> None:
    if recipe.cls is not None and id(recipe.cls) not in e.making and id(recipe.cls.obj) not in e.temps:
        e.made(recipe.cls.obj)  # of which it is a part
        e.op("POP_TOP")
        e.made(recipe.obj)
        return
    names = tuple(recipe.kwargs)
    e.call(runtime.call, partial(e.const, recipe.make), partial(e.tuple, recipe.args),
           partial(e.const, names), partial(e.tuple, recipe.kwargs.values()))
    e.remember_as(recipe.obj, recipe)


def emit_class(e: Emitter, recipe: ClassRecipe) -> None:
    if id(recipe) in e.making:
        raise Unbuildable(recipe.value, "a class that is made of what refers to it")
    e.making.add(id(recipe))
    e.call(recipe.make or runtime.new_class, partial(e.const, type(recipe.obj)), partial(e.const, recipe.name),
           partial(e.tuple, recipe.bases), partial(e.const, tuple(recipe.namespace)),
           partial(e.tuple, recipe.namespace.values()), *_hints(e, recipe))
    e.making.discard(id(recipe))
    e.remember_as(recipe.obj, recipe)
    for cls in subclasses(e.cap, recipe.obj):  # which it knows
        e.later(partial(e.made, cls))
    for name, value in recipe.steps:
        e.later(partial(_step, e, recipe, name, value))


def _hints(e: Emitter, recipe: ClassRecipe) -> list[Any]:
    """What annotates a class of which something else than `type` makes what it is by that: it is to be there at once,
    while the content of other tables follows when all objects exist."""
    found = recipe.namespace.get("__annotations__") if recipe.make is runtime.special_class else None
    if not is_dict(found):
        return []
    return [partial(e.const, tuple(found.items)), partial(e.tuple, [e.cap.realize(v) for v in found.items.values()])]


def _step(e: Emitter, recipe: ClassRecipe, name: Any, value: Any) -> None:
    place = partial(e.const, recipe.obj), partial(e.const, name)
    if isinstance(value, list):  # Values
        e.call(runtime.told_of, *place, partial(e.tuple, value))
    elif callable(name):
        args, kwargs = value
        e.call(runtime.done_to, *place, partial(e.const, args), partial(e.const, tuple(kwargs.items())))
    elif value is DELETED:
        e.call(type.__delattr__, *place)
    else:
        e.call(type.__setattr__, *place, partial(e.load, value))


def emit_inside(e: Emitter, inside: Inside) -> None:
    raise Unbuildable(inside.cls.value, "a class whose methods or fields, which `dataclass` made, leave it")


MADE[Inside] = emit_inside
MADE[Recipe] = emit_recipe
MADE[ClassRecipe] = emit_class
