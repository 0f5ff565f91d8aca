"""The program's functions for a library that runs them in a context of its own, as Haiku does: real functions, which
no stand-in replaces.

A function that was there before the call is itself. One that the call has made exists only in the capture: it is made
real around what its cells and defaults hold, where that is constant. Where a cell holds an array, the node of the call
makes the function around that (`rebuilt.WithCells`). The library's call is traced with it, and its code is guarded as
that of any function that a library runs (`library_reads`). What it was made of must stay as it is from then on:
`side_effects.mutating` sees to it.

    def net(x):                     # made anew in each call, around `width`
        return hk.nets.MLP([width, 1])(x)
    params = hk.transform(net).init(key, x)
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bodies.subgraphs import Standin, place_of
from dynacomp.capture.graph.graph import Node, Tree
from dynacomp.capture.hosting.library_reads import by_content
from dynacomp.capture.hosting.rebuilt import LibraryArg, WithCells
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values.callables import FunctionV, MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, ScalarV
from dynacomp.capture.values.constant import Const, is_const, is_open, peek
from dynacomp.capture.values.containers import DictV, ListV, TupleV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.builder import entries_of, is_made_anew, is_plain_instance, items_of
from dynacomp.capture.wrapping.builtin_subclasses import is_bare_named_tuple
from dynacomp.capture.wrapping.class_prototypes import is_made


def as_real(arg: Any) -> Any:
    """A lowered argument with the user's own functions in place of Standins."""
    if isinstance(arg, Standin):
        return _function(arg.cap, arg.value)
    if isinstance(arg, (tuple, list)) and not hasattr(arg, "_fields"):
        return type(arg)(map(as_real, arg))
    return {k: as_real(v) for k, v in arg.items()} if type(arg) is dict else arg


def exists(value: Value) -> bool:
    """Whether it is an object that was there before the call, and is as it was."""
    return is_object(value) and value.real is not None and not value.written


def _function(cap: Capture, value: Value) -> Any:
    row = FUNCTIONS.get(type(value), _refused)
    return row(cap, value)


def _method(cap: Capture, value: MethodV) -> Any:
    if not exists(value.obj) or not is_const(value.func):
        return _refused(cap, value)
    fn, obj = value.func.value, _content(cap, value.obj)  # type: ignore[attr-defined]
    return types.MethodType(fn, obj) if _is_real(obj) else LibraryArg(types.MethodType, (fn, obj), {})


def _partial(cap: Capture, value: PartialV) -> Any:
    if value.attrs:
        return _refused(cap, value)
    kwargs = {name: _content(cap, v) for name, v in value.kwargs.items()}
    fn, args = _function(cap, value.func), [_content(cap, v) for v in value.args]
    real = all(map(_is_real, (fn, *args, *kwargs.values())))
    return functools.partial(fn, *args, **kwargs) if real else LibraryArg(functools.partial, (fn, *args), kwargs)


def _of_capture(cap: Capture, value: FunctionV) -> Any:
    return _refused(cap, value) if value.attrs else _known(cap, value) or _made(cap, value)


def _refused(cap: Capture, value: Value) -> Any:
    raise Break("body", "an object made during the call, for a library that runs it in a context of its own")


def _existing(cap: Capture, value: Const) -> Any:
    """A function that was there before the call. Of one that is made anew for each call, the arrays in its cells are
    inputs."""
    real, source = peek(value), value.source
    anew = source is not None and is_open(value) and isinstance(real, types.FunctionType) and is_made_anew(
        cap, real, source)
    if anew:
        return _of_capture(cap, OPERATIONS.as_function(cap, value))
    return real if by_content(cap, real, source) else value.value


FUNCTIONS: dict[type, Callable[[Capture, Any], Any]] = {
    Const: _existing, MethodV: _method, PartialV: _partial, FunctionV: _of_capture}


@dataclass(eq=False)
class Made:
    """What was made of a function: a real one, or the call that makes it of arrays, for each body. contents: of its
    cells then. within: whether a cell holds what refers to the function itself."""

    function: types.FunctionType
    contents: tuple[Any, ...]
    around: dict[tuple[int, ...], LibraryArg] = field(default_factory=dict)
    filling: bool = True
    within: bool = False

    def held(self) -> Iterator[Any]:
        """What was made last, and what stands in the cells of that; arrays are known elsewhere."""
        for fn in (self.function, *(call.make.latest() for call in self.around.values())):
            yield from () if fn is None else (fn, *(x for x in contents_of(fn) if not isinstance(x, jax.Array)))


def _known(cap: Capture, fn: FunctionV) -> Any:
    """What was made of `fn` already, as long as its variables are as they were."""
    known: Made | None = cap.libraries.hosted.get(id(fn))
    if known is None:
        return None
    if any(cell.content is not was for cell, was in zip(fn.closure, known.contents)):
        raise Break("body", "a function whose variables have changed, for a library that runs it")
    known.within |= known.filling
    return known.around.get(place_of(cap)) if known.around else known.function


def _made(cap: Capture, fn: FunctionV) -> types.FunctionType | LibraryArg:
    """The function, known before its cells are filled: one of them may hold it. The call that makes it, where some hold
    arrays."""
    cells = [cap.libraries.hosted.setdefault(id(cell), types.CellType()) for cell in fn.closure]
    made = types.FunctionType(fn.code, fn.globals, fn.name, None, tuple(cells))
    made.__qualname__ = fn.qualname
    for cell in fn.closure:
        cell.content = None if cell.content is None else cap.realize(cell.content)
    known = cap.libraries.hosted.setdefault(id(fn), Made(made, tuple(cell.content for cell in fn.closure)))
    known.filling = True
    cap.known.keep += [fn, *fn.closure]  # known by their ids
    if fn.defaults is not None:
        made.__defaults__ = _real(_content(cap, fn.defaults))
    if fn.kwdefaults is not None:
        made.__kwdefaults__ = {name: _real(_content(cap, v)) for name, v in fn.kwdefaults.items.items()}
    contents = tuple(_content(cap, value) for value in fn.closure)
    known.filling = False
    if not all(map(_is_real, contents)):
        return _around(cap, known, contents)
    for content, cell in zip(contents, cells):
        cell.cell_contents = content
    return made


def _around(cap: Capture, known: Made, contents: tuple[Any, ...]) -> LibraryArg:
    """The call that makes a function of what its cells hold, some of it arrays."""
    if known.within:
        raise Break("body", "a function around an array and itself, for a library that runs it in a context of its own")
    made = known.around[place_of(cap)] = LibraryArg(
        WithCells(known.function, tuple(range(len(contents)))), contents, {})
    return made


def _is_real(content: Any) -> bool:
    """Whether it is there while capturing; arrays, containers that may change, and what is made of them, are made in
    each call."""
    if isinstance(content, (Node, LibraryArg, Tree, list, dict)):
        return False
    return not isinstance(content, tuple) or all(map(_is_real, content))


def refuse_given_back(cap: Capture, made: Any) -> None:
    """Break where a library's call has `made` something of what only functions hold that were made for it: the capture
    would take that for another object. Literals are what they are."""
    every = (known.held() for known in cap.libraries.hosted.values() if isinstance(known, Made))
    held = {id(x): x for x in itertools.chain.from_iterable(every) if not is_literal(x)}
    if held and any(id(x) in held for x in jax.tree.leaves(made, is_leaf=lambda x: id(x) in held)):
        raise Break("body", "a library gives back what a function of the program's holds")


def contents_of(fn: types.FunctionType) -> Iterator[Any]:
    """What its cells hold; some are still empty while the function is being made."""
    for cell in fn.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


def _real(content: Any) -> Any:
    if _is_real(content):
        return content
    raise Break("body", "a function with an array as a default, for a library that runs it in a context of its own")


def _content(cap: Capture, value: Value) -> Any:
    """What a cell or a default holds; Break where that may change, or exists only when the code runs."""
    value = size_values.known(cap, cap.realize(value))  # left to Python, a whole model would run eagerly
    return CONTENTS.get(type(value), _unknown)(cap, value)


def _constant(cap: Capture, value: Const) -> Any:
    if is_made(cap, peek(value)):
        return _unknown(cap, value)
    return _existing(cap, value) if isinstance(peek(value), types.FunctionType) else value.value


def _cell(cap: Capture, value: CellV) -> Any:
    if value.content is None:
        raise Break("body", "a function around a variable without a value, for a library that runs it")
    return _content(cap, value.content)


def _tuple(cap: Capture, value: TupleV) -> Any:
    if value.cls is not tuple and not is_bare_named_tuple(value.cls):
        return _unknown(cap, value)
    items = tuple(_content(cap, v) for v in items_of(cap, value))
    return items if value.cls is tuple else tuple.__new__(value.cls, items)


def _list(cap: Capture, value: ListV) -> Any:
    known = value.cls is list
    return _whole(cap, value, [_content(cap, v) for v in items_of(cap, value)]) if known else _unknown(cap, value)


def _dict(cap: Capture, value: DictV) -> Any:
    known = value.cls is dict
    return _whole(cap, value, entries_of(cap, value, lambda v: _content(cap, v))) if known else _unknown(cap, value)


def _whole(cap: Capture, value: Value, made: Any) -> Any:
    """What stands for a container or an object, which must stay like it. `library_reads` sees that the library leaves
    it as it is."""
    cap.libraries.hosted[id(value)] = made
    cap.known.keep.append(value)
    return made


def _object(cap: Capture, value: ObjectV) -> Any:
    if value.real is None or is_tree(value.real):  # its arrays are inputs: they are others in each call
        made = lowered(cap, value)
        return _whole(cap, value, made) if isinstance(made, Tree) else _unknown(cap, value)
    if not exists(value) or not is_plain_instance(value.real):
        return _unknown(cap, value)
    cap.libraries.given.append(value)
    return _whole(cap, value, value.real)


def _unknown(cap: Capture, value: Value) -> Any:
    raise Break("body", f"a function around a {type(value).__name__.removesuffix('V').lower()} that the call has made, "
                        "for a library that runs it in a context of its own")


def _number(cap: Capture, value: ScalarV) -> Any:
    """A float is an array, as one that is given to the library; an int, a truth or a text more often decides what the
    library makes (a layer's width)."""
    return lowered(cap, value) if type(value.hint) is float else as_python(value)


def lowered(cap: Capture, value: Value) -> Any:
    """As it stands among a node's arguments."""
    row = kind(value).argument
    return _unknown(cap, value) if row is None else row(cap, value)


def is_tree(obj: Any) -> bool:
    """Whether JAX takes it apart."""
    return not jax.tree_util.all_leaves([obj])


CONTENTS: dict[type, Callable[[Capture, Any], Any]] = {
    CellV: _cell, ArrayV: lowered, TupleV: _tuple, ListV: _list, DictV: _dict, ObjectV: _object,
    ScalarV: _number,
    Const: _constant,
    **dict.fromkeys((FunctionV, PartialV, MethodV), _function)}
