"""Small helpers that replacement code calls to find and make objects at run time; those that nearly every effect of a
call goes through are written in C (see `_native/finders.c`).

They are ordinary functions kept as constants of the generated code objects; none runs user code
that the original program would not have run.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import functools
import sys
import threading
import types
import typing
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import trace_ctx
from jaxlib import _jax

from dynacomp.capture._native import Tail, hide_subclass, lay_out, own_table, run_eager, unhold
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.graph.size_evaluation import run
from dynacomp.capture.symbolic.libraries import is_pure_module, module_of
from dynacomp.capture.wrapping.builtin_subclasses import PLAIN


class Kept:
    """A constant that code objects do not tell from others: called, it gives the object."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self) -> Any:
        return self.obj


class Content:
    """A NumPy array of an entry's own, of which each call gets a new one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class Weak:
    """A constant that does not keep its object alive: called, it gives the object."""

    def __init__(self, obj: Any) -> None:
        self.ref = weakref.ref(obj)

    def __call__(self) -> Any:
        obj = self.ref()
        if obj is None:
            raise ReferenceError("dynacomp: an object that this compiled code was guarded by has died while it ran")
        return obj


class Leaving:
    """What leaves a context manager that was entered behind a graph break."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __call__(self, *error: Any) -> Any:
        return self.manager.__exit__(*error)


def entered(manager: Any) -> Leaving:
    """Enters a context manager whose `__enter__` gives nothing; what leaves it."""
    manager.__enter__()
    return Leaving(manager)


def new_class(metaclass: Any, name: str, bases: tuple[type, ...], names: tuple[str, ...],
              values: tuple[Any, ...]) -> type:
    """What a class statement makes, without a call of `__init_subclass__`, which has run on the symbolic machine; what
    ABCs do is not captured."""
    return run_eager(_quietly, (metaclass, name, bases, dict(zip(names, values))))


def slotted(metaclass: Any, name: str, bases: tuple[Any, ...], names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """The class with slots that `dataclass` makes of another, whose annotations may not have been filled in yet."""
    cls, args, keys, given, fields, classes = values
    if fields:
        cls.__annotations__.update(zip(fields, classes))
    return run_eager(dataclasses._process_class, (cls, *args), dict(zip(keys, given)))  # type: ignore[attr-defined]


def typed_tuple(metaclass: Any, name: str, bases: tuple[Any, ...], names: tuple[str, ...],
                values: tuple[Any, ...]) -> Any:
    """What a call of `typing.NamedTuple` makes."""
    fields, module = values
    made: Any = run_eager(typing.NamedTuple, (name, fields), {})
    made.__module__ = module
    return made


def named_tuple(metaclass: Any, name: str, bases: tuple[Any, ...], names: tuple[str, ...],
                values: tuple[Any, ...]) -> type:
    """What `collections.namedtuple` makes."""
    return run_eager(collections.namedtuple, (name,), dict(zip(names, values)))


def special_class(metaclass: Any, name: str, bases: tuple[Any, ...], names: tuple[str, ...], values: tuple[Any, ...],
                  fields: tuple[str, ...] = (), classes: tuple[Any, ...] = ()) -> type:
    """What a class statement makes of bases that make something else of it: `class P(NamedTuple)`. Annotations may
    come beside the rest."""
    def fill(namespace: dict[str, Any]) -> None:
        for key, value in zip(names, values):
            namespace[key] = dict(zip(fields, classes)) if fields and key == "__annotations__" else value

    return run_eager(types.new_class, (name, bases, {}, fill))


def _quietly(metaclass: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    if is_quiet(bases):
        return metaclass.__new__(metaclass, name, bases, namespace)
    refused: Exception | None = None
    for base in bases:
        try:
            made = metaclass.__new__(metaclass, name, (_quiet_like(base), *bases), dict(namespace))
            made.__bases__ = bases
            return made
        except TypeError as error:
            refused = error
    raise TypeError("a class whose bases are told of it otherwise") from refused


def is_quiet(bases: tuple[type, ...]) -> bool:
    """Whether there is no `__init_subclass__` but that of `object`."""
    return not any("__init_subclass__" in vars(base) for b in bases for base in b.__mro__ if base is not object)


@remembered
def _quiet_like(base: Any) -> type:
    """A class whose instances are laid out as those of `base`, for which it may be exchanged as a base, and whose
    `__init_subclass__` does nothing."""
    parent = base.__base__
    adds = any(bool(getattr(base, part)) > bool(getattr(parent, part)) for part in ("__dictoffset__",
                                                                                   "__weakrefoffset__"))
    namespace = {"__init_subclass__": _no_hook, **({} if adds else {"__slots__": ()})}
    made = _quietly(type(parent), "Quiet", (parent,), namespace)
    hide_subclass(made)
    return made


@classmethod  # type: ignore[misc]
def _no_hook(cls: type, **kwargs: Any) -> None:
    pass


def done_to(cls: type, fn: Any, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> None:
    """What a decorator of the standard library does to a class: in Python, which no capture watches."""
    run_eager(fn, (cls, *args), dict(kwargs))


def told_of(cls: type, fn: Any, args: tuple[Any, ...]) -> None:
    """The same, where what else it is given is the program's."""
    run_eager(fn, (cls, *args), {})


def own_globals() -> dict[str, Any]:
    """The globals of the replacement code that calls this: the replaced function's own."""
    return sys._getframe(1).f_globals


# --- finding


def trace_ref() -> Any:
    """JAX's weak reference to the trace under which the replacement code runs."""
    return trace_ctx.trace._weakref


def thread_dict(obj: Any) -> dict[str, Any]:
    return threading.local.__getattribute__(obj, "__dict__")


def contextual(variable: contextvars.ContextVar[Any]) -> Any:
    return variable.get(contextvars.Token.MISSING)


def slot(obj: Any, member: Any) -> Any:
    return member.__get__(obj, type(obj))


def known_key(obj: Any, name: Any) -> Any:
    """`obj[name]` for the very key, which is not asked for its hash."""
    return next(v for k, v in dict.items(unhold(obj)) if k is name)


def plain(obj: Any) -> Any:
    """The number or string inside an instance of a subclass of int, float, str, ..."""
    return next(read(obj) for kind, read in PLAIN.items() if issubclass(type(obj), kind))


def dimension(array: Any, axis: int) -> int:
    return array.shape[axis]


@dataclass(frozen=True)
class SizeFunction:
    """A postfix program of sizes as a function of its symbols' values, in the order of `names`."""

    program: tuple[Any, ...]
    names: tuple[str, ...]

    def __call__(self, *values: int) -> int:
        return run(self.program, dict(zip(self.names, values)))


# --- making


def shown_function(function: types.FunctionType, qualname: str) -> str:
    """The `repr` of a function while that was its name."""
    return f"<function {qualname} at {id(function):#x}>"


def empty_list(cls: type, maxlen: Any) -> Any:
    """One of a class that is no plain list."""
    return cls((), maxlen) if cls is collections.deque else cls()


def fill_list(made: Any, items: tuple) -> None:
    made.extend(items)


def run_items(length: int, specs: tuple, kinds: tuple, stacks: tuple, fixed: tuple) -> list[Any]:
    """What so many rounds of a loop appended to a list; see `grown_items.Run`. kinds: for each stack the type of the
    numbers that its rows are, or None. A tuple is the numbers themselves."""
    columns = [rows_of(stack) if kind is None else stack if type(stack) is tuple else list(map(kind, np.asarray(
        stack).tolist())) for stack, kind in zip(stacks, kinds)]

    def made(spec: Any, k: int) -> Any:
        if spec[0] == "leaf":
            return columns[spec[1]][k]
        if spec[0] == "fixed":
            return fixed[spec[1]]
        cls, keys, parts = spec
        items = [made(part, k) for part in parts]
        if cls is dict:
            return dict(zip(keys, items))
        return items if cls is list else tuple(items) if cls is tuple else tuple.__new__(cls, items)

    return [made(spec, k) for k in range(length) for spec in specs]


def transposed(rows: Any) -> Any:
    return zip(*rows)


def rows_of(stack: Any) -> list[Any]:
    """The rows of an array, as `list(stack)` gives them; those of one on a CPU are views of its memory, which nothing
    has to be compiled for."""
    traced = type(stack) is not ARRAY_TYPE  # which lies on no device
    devices = [] if traced else list(stack.devices())
    if len(devices) != 1 or devices[0].platform != "cpu":
        return list(stack)
    aval = jax.core.ShapedArray(stack.shape[1:], stack.dtype, weak_type=stack.weak_type)
    return [_jax.batched_device_put(aval, stack.sharding, [row], devices, False) for row in np.asarray(stack)]


def joined_items(*parts: Any) -> list[Any]:
    """One list of the items of several."""
    return [x for part in parts for x in part]


def empty_dict(cls: type, factory: Any) -> Any:
    return cls(factory) if cls is collections.defaultdict else cls()


def fill_dict(made: Any, items: dict[Any, Any]) -> None:
    made.update(items)


def fill_sequence(made: Any, maxlen: Any, items: tuple) -> None:
    if isinstance(made, list):
        list.extend(made, items)
    else:
        collections.deque.__init__(made, items, maxlen)


def fill_table(made: Any, factory: Any, items: dict[Any, Any]) -> None:
    if isinstance(made, collections.defaultdict):
        collections.defaultdict.__init__(made, factory)
    replace_dict(made, items)


def fill_cell(cell: types.CellType, content: Any) -> None:
    cell.cell_contents = content


def new_exception(new: Any, cls: type, args: tuple) -> Any:
    """An exception made by the `__new__` of its built-in base: Python code of the class has run already."""
    return new(cls, *args)


def function(code: Any, globals_: Any, names: tuple[str, str], defaults: Any, kwdefaults: Any, closure: tuple,
             values: tuple, keys: tuple) -> Any:
    made = types.FunctionType(code, unhold(globals_), names[0], defaults, closure or None)
    made.__qualname__, made.__kwdefaults__ = names[1], kwdefaults
    made.__dict__.update(zip(keys, values))
    return made


def partial(fn: Any, args: tuple, keys: tuple, values: tuple) -> Any:
    """A partial of `fn` itself: CPython takes another partial's parts in its place, unless that has a dict, which is
    filled later."""
    made = functools.partial(fn, *args, **dict(zip(keys, values)))
    if made.func is not fn:
        made.__setstate__((fn, args, dict(zip(keys, values)), None))  # type: ignore[attr-defined]
    return made


def has_dict(made: functools.partial) -> bool:
    """Whether a partial has one, empty or not; to ask for it would make it."""
    return functools.partial.__reduce__(made)[2][3] is not None  # type: ignore[index,misc]


def call(fn: Any, args: tuple, keys: tuple, values: tuple) -> Any:
    return fn(*args, **dict(zip(keys, values)))


def view(table: Any, kind: str) -> Any:
    return getattr(table, kind)()


def ndarray(content: Content) -> np.ndarray:
    made = np.array(content.array)
    made.flags.writeable = content.array.flags.writeable
    return made


def writeable(content: Content) -> np.ndarray:
    return np.array(content.array)


def ndarray_view(owner: np.ndarray, place: tuple[Any, ...]) -> np.ndarray:
    """The view of an array's memory that `ndarrays.place` describes."""
    dtype, shape, strides, offset, writeable = place
    dense = owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d]))
    made = np.ndarray(shape, dtype, dense, offset, strides)
    made.flags.writeable = writeable
    return made


# --- PRNG keys cross the Graph's boundary as their raw data


def is_key(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


def wrap_key(data: Any, impl: Any) -> Any:
    """Keys made of their data. Where nothing traces that is an object around it, without an operation of JAX's."""
    if type(data) is ARRAY_TYPE and trace_ctx.is_top_level():
        cls, made = _keys_of(impl)
        return cls(made, data)
    return jax.random.wrap_key_data(data, impl=impl)


@functools.cache
def _keys_of(impl: Any) -> tuple[type, Any]:
    """The class of keys, and what one of this implementation has of it."""
    key = jax.random.key(0, impl=impl)
    return type(key), key._impl  # type: ignore[attr-defined]


# --- effects


def replace_part(obj: list, items: tuple, start: int, end: int) -> None:
    """Puts `items` in the place of the elements of a list from `start` to `end`, keeping the object."""
    list.__setitem__(obj, slice(start, end), items)


def replace_deque(obj: collections.deque, items: tuple) -> None:
    """Makes a deque's content `items`, keeping the object."""
    collections.deque.clear(obj)
    collections.deque.extend(obj, items)


def set_items(obj: collections.deque, items: tuple) -> None:
    """Makes a deque's content `items`, as many as it has: its iterators go on."""
    for i, item in enumerate(items):
        collections.deque.__setitem__(obj, i, item)


def extend_list(obj: Any, items: tuple) -> None:
    """Puts `items` at the end of a list that nobody looked into."""
    list.extend(obj, items)


def update_dict(obj: Any, change: tuple[tuple, tuple, tuple], moves: tuple[int, ...] = ()) -> None:
    """Takes keys out of a dict and stores values under others: keys that go, keys, their values. moves: which of them
    are there and go to the end of an OrderedDict."""
    obj, (gone, keys, values) = unhold(obj), change
    kind: Any = collections.OrderedDict if issubclass(type(obj), collections.OrderedDict) else dict
    for key in gone:
        kind.pop(obj, key, None)
    for n, (key, value) in enumerate(zip(keys, values)):
        if n in moves and dict.__contains__(obj, key):
            kind.move_to_end(obj, key)
        kind.__setitem__(obj, key, value)


def replace_dict(obj: Any, items: dict[Any, Any]) -> None:
    """Makes a dict's content `items`, past what its class overrides; keys that stay keep their place."""
    obj = unhold(obj)
    kind: Any = collections.OrderedDict if issubclass(type(obj), collections.OrderedDict) else dict
    if not _same_keys(list(kind.keys(obj)), list(items)):
        kind.clear(obj)
    if kind is dict:
        dict.update(obj, items)
    else:
        for k, v in items.items():
            kind.__setitem__(obj, k, v)


def _same_keys(old: list[Any], new: list[Any]) -> bool:
    """Without asking a key whether it equals another."""
    return len(old) == len(new) and all(
        a is b or type(a) is type(b) and type(a) in (int, str, float, bytes, tuple) and is_literal(a) and is_literal(b)
        and a == b for a, b in zip(old, new))


OPERANDS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "dict": dict.fromkeys}


def change_set(obj: Any, change: tuple[tuple, tuple[Any, ...]], emptied: bool = False) -> None:
    """Adds keys to a set or takes them out, one by one: keys, whether each is added; or the keys of all operands of a
    method, its name and what each is, of a set perhaps how it is laid out. `emptied`: all go first."""
    if emptied:
        set.clear(obj)
    for key, how in zip(*change):
        if type(how) is bool:
            (set.add if how else set.discard)(obj, key)
        else:
            getattr(set, how[0])(obj, *map(_operand, how[1:], key))


def _operand(made: str | bytes, keys: tuple[Any, ...]) -> Any:
    return lay_out(set(), keys, made) if isinstance(made, bytes) else OPERANDS[made](keys)


def replace_set(obj: Any, items: Any, layout: bytes | None = None) -> None:
    """layout: see `values.containers.layout_of`."""
    set.clear(obj)
    set.update(obj, items)
    if layout is not None:
        lay_out(obj, items, layout)


def delete_attribute(obj: Any, name: str) -> None:
    with contextlib.suppress(AttributeError):  # the captured code may have made it too
        plain_base(obj).__delattr__(obj, name)


def write_entry(obj: Any, name: str, value: Any) -> None:
    """Into the instance's dictionary, past a descriptor of its class."""
    own_table(obj)[name] = value


def delete_entry(obj: Any, name: str) -> None:
    own_table(obj).pop(name, None)


def plain_base(obj: Any) -> Any:
    """The built-in class that stores the attributes of `obj`."""
    return threading.local if issubclass(type(obj), threading.local) else object


def method(function: Any, obj: Any) -> Any:
    """`function` bound to `obj`, as its class binds it: Equinox's modules make trees of their methods. A classmethod
    of Python 3.13 binds even what cannot be called."""
    if isinstance(function, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return function.__get__(obj, type(obj))
    hook = type(obj).__getattribute__
    if isinstance(hook, types.FunctionType) and is_pure_module(module_of(hook)):
        found = getattr(obj, getattr(function, "__name__", ""), None)
        if getattr(found, "__func__", None) is function:
            return found
    return types.MethodType(function, obj) if callable(function) else classmethod(function).__get__(None, obj)


def empty_cell(cell: types.CellType) -> None:
    del cell.cell_contents


def debug_print(args: tuple, kwargs: dict[str, Any]) -> None:
    """Prints what the Graph has computed: no later than anything that Python prints after it."""
    jax.debug.print(*args, **kwargs)


def warn(args: tuple, kwargs: dict[str, Any], table: Any) -> None:
    """A warning of the captured code, as `warnings.warn` gives it there, in a module of these globals."""
    table = unhold(table)
    said: Any = warnings.warn_explicit
    said(*args, registry=table.setdefault("__warningregistry__", {}), **kwargs)


def warn_above(args: tuple, kwargs: dict[str, Any]) -> None:
    """A warning (text, category) of the captured code about a caller of it: the n-th (third argument)."""
    text, kind, above = args
    warnings.warn(text, kind, stacklevel=above + 2)


def call_only(args: tuple, kwargs: dict[str, Any]) -> None:
    """Calls the first argument with the others."""
    args[0](*args[1:], **kwargs)


def when(answer: Any, wanted: bool, act: Any, *operands: Any) -> None:
    """An effect of one side of an `if`."""
    if bool(answer) is wanted:
        act(*operands)


def release(args: tuple, kwargs: dict[str, Any]) -> None:
    """Gives a lock back: see `manager_rows`."""
    args[0].release()


def set_variable(args: tuple, kwargs: dict[str, Any]) -> None:
    """Sets a context variable: see `context_variables`."""
    variable, value = args
    variable.set(value)


def token(variable: contextvars.ContextVar[Any], value: Any, old: Any, *below: Any) -> Any:
    """The token that setting the variable to `value` gives where it has `old`; it keeps what it has, if anything."""
    nothing, now = contextvars.Token.MISSING, contextual(variable)
    if old is not nothing:
        variable.set(old)
    made = variable.set(value)
    if old is not nothing and now is not nothing:
        variable.set(now)
    return made


def used_token(variable: contextvars.ContextVar[Any], value: Any, old: Any, *below: Any) -> Any:
    """Such a token that has been given back."""
    def make() -> Any:
        made = token(variable, value, old)
        variable.reset(made)
        return made
    return contextvars.Context().run(make)


def show_warning(args: tuple, kwargs: dict[str, Any]) -> None:
    """Writes a warning (text, category, file, line) as module `warnings` does where nobody has replaced that."""
    SHOW(warnings.WarningMessage(*args))


SHOW: Any = warnings._showwarnmsg_impl  # type: ignore[attr-defined]


def set_global(table: Any, name: str, value: Any) -> None:
    unhold(table)[name] = value


def delete_global(table: Any, name: str) -> None:
    unhold(table).pop(name, None)  # the captured code may have made it too


def delete_class_attribute(cls: type, name: str) -> None:
    with contextlib.suppress(AttributeError):
        type.__delattr__(cls, name)


def resume_function(held: Weak, globals_: Any, closure: tuple) -> Any:
    """The function that continues a frame after a graph break: the frame keeps its code, and that the resume code."""
    code = held()
    return types.FunctionType(code, unhold(globals_), code.co_name, None, closure)


class Leave:
    """A constant of a stretch (see `bytecode.stretches`): called, it gives what goes on in the resume function of
    `resumed`."""

    def __init__(self, resumed: types.CodeType) -> None:
        self.held = Weak(resumed)

    def __call__(self, closure: tuple[Any, ...], arguments: tuple[Any, ...]) -> Tail:
        return Tail(resume_function(self.held, sys._getframe(1).f_globals, closure), arguments)
