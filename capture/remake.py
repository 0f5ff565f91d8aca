"""Small helpers that replacement code calls to find and make objects at run time.

They are ordinary functions kept as constants of the generated code objects; none runs user code
that the original program would not have run.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from typing import Any

import jax
import jax.numpy as jnp


class Held:
    """A dict as a constant of a code object (whose constants must be hashable)."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj


def unhold(obj: Any) -> Any:
    return obj.obj if isinstance(obj, Held) else obj


# --- finding


def own_attribute(obj: Any, name: str) -> Any:
    """The instance's (module's, class's) own entry."""
    obj = unhold(obj)
    if isinstance(obj, type):
        return type.__getattribute__(obj, "__dict__")[name]
    if isinstance(obj, types.ModuleType):
        return vars(obj)[name]
    return object.__getattribute__(obj, "__dict__")[name]


def slot(obj: Any, member: Any) -> Any:
    return member.__get__(obj, type(obj))


def item(obj: Any, index: int) -> Any:
    kinds: tuple[Any, ...] = (tuple, list, collections.deque)
    for kind in kinds:
        if isinstance(obj, kind):
            return kind.__getitem__(obj, index)
    raise TypeError(f"a {type(obj).__name__} has no items that can be read without user code")


def key(obj: Any, name: Any) -> Any:
    return dict.__getitem__(unhold(obj), name)


def dimension(array: Any, axis: int) -> int:
    return array.shape[axis]


@functools.cache
def size_function(expr: str, names: tuple[str, ...]) -> Any:
    """The Python function of a size expression: `s0*2 + floordiv(s1, 3)`."""
    code = compile(f"lambda {', '.join(names)}: {expr}", "<size>", "eval")
    return eval(code, {"floordiv": int.__floordiv__, "mod": int.__mod__, "max": max, "min": min})


# --- making


def empty_list(cls: type, maxlen: Any) -> Any:
    return cls((), maxlen) if cls is collections.deque else cls()


def fill_list(made: Any, items: tuple) -> None:
    made.extend(items)


def empty_dict(cls: type, factory: Any) -> Any:
    return cls(factory) if cls is collections.defaultdict else cls()


def fill_dict(made: Any, keys: tuple, values: tuple) -> None:
    made.update(zip(keys, values))


def fill_cell(cell: types.CellType, content: Any) -> None:
    cell.cell_contents = content


def new_exception(cls: type, args: tuple) -> Any:
    made = cls.__new__(cls, *args)
    made.args = args
    return made


def set_attribute(obj: Any, name: str, value: Any) -> None:
    if isinstance(obj, BaseException) and name.startswith("__"):
        setattr(obj, name, value)
    else:
        object.__setattr__(obj, name, value)


def function(code: Any, globals_: Any, names: tuple[str, str], defaults: Any, kwdefaults: Any, closure: tuple,
             values: tuple, keys: tuple) -> Any:
    made = types.FunctionType(code, unhold(globals_), names[0], defaults, closure)
    made.__qualname__, made.__kwdefaults__ = names[1], kwdefaults
    made.__dict__.update(zip(keys, values))
    return made


def partial(fn: Any, args: tuple, keys: tuple, values: tuple) -> Any:
    return functools.partial(fn, *args, **dict(zip(keys, values)))


def call(fn: Any, args: tuple, keys: tuple, values: tuple) -> Any:
    return fn(*args, **dict(zip(keys, values)))


def iterator_at(seq: Any, index: int) -> Any:
    """`iter(seq)` after `index` steps."""
    it = iter(seq)
    it.__setstate__(index)
    return it


def count_iterator(current: Any, stop: Any, step: Any) -> Any:
    return itertools.count(current, step) if stop is None else iter(range(current, stop, step))


def generator(fn: Any, names: tuple, values: tuple) -> Any:
    """A generator that has not started, with its arguments bound by parameter."""
    code = fn.__code__
    bound = dict(zip(names, values))
    star = names[code.co_argcount + code.co_kwonlyargcount:]
    extra: tuple = bound[star[0]] if code.co_flags & 4 else ()
    kwargs = {n: bound[n] for n in names[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]}
    if code.co_flags & 8:
        kwargs.update(bound[star[-1]])
    return fn(*(bound[n] for n in names[:code.co_argcount]), *extra, **kwargs)


STREAMS: dict[str, Any] = {
    "zip": lambda parts, fn, state: zip(*parts, strict=bool(dict(state).get("strict"))),
    "enumerate": lambda parts, fn, state: enumerate(parts[0], dict(state)["index"]),
    "map": lambda parts, fn, state: map(fn, *parts),
    "filter": lambda parts, fn, state: filter(fn, parts[0]),
    "chain": lambda parts, fn, state: itertools.chain(*parts),
}


def view(table: Any, kind: str) -> Any:
    return getattr(table, kind)()


def table_iterator(table: Any, state: Any) -> Any:
    """An iterator over a dict or a set that has given some elements already."""
    known = dict(state)
    it = iter(table if isinstance(table, (set, frozenset)) else view(table, known["kind"]))
    for _ in range(known["index"] if known["index"] >= 0 else len(table) + 1):
        next(it, None)
    return it


STREAMS["table"] = lambda parts, fn, state: table_iterator(parts[0], state)


# --- PRNG keys cross the Graph's boundary as their raw data


def is_key(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


@functools.cache
def key_impl(dtype: Any) -> Any:
    return dtype._impl.name if hasattr(dtype, "_impl") else str(dtype)


def wrap_key(data: Any, impl: Any) -> Any:
    return jax.random.wrap_key_data(data, impl=impl)


# --- effects


def replace_list(obj: Any, items: tuple) -> None:
    """Makes a list's (deque's) content `items`, keeping the object."""
    if isinstance(obj, list):
        list.__setitem__(obj, slice(None), items)
    else:
        obj.clear()
        obj.extend(items)


def extend_list(obj: Any, items: tuple) -> None:
    """Puts `items` at the end of a list that nobody looked into."""
    list.extend(obj, items)


def replace_dict(obj: Any, keys: tuple, values: tuple) -> None:
    obj = unhold(obj)
    if type(obj).keys is dict.keys and list(obj) == list(keys):
        for k, v in zip(keys, values):
            dict.__setitem__(obj, k, v)
        return
    dict.clear(obj)
    for k, v in zip(keys, values):
        dict.__setitem__(obj, k, v)


def replace_set(obj: Any, items: tuple) -> None:
    obj.clear()
    obj.update(items)


def write_attribute(obj: Any, name: str, value: Any) -> None:
    object.__setattr__(obj, name, value)


def delete_attribute(obj: Any, name: str) -> None:
    object.__delattr__(obj, name)


def empty_cell(cell: types.CellType) -> None:
    del cell.cell_contents


def set_global(table: Any, name: str, value: Any) -> None:
    unhold(table)[name] = value


def delete_global(table: Any, name: str) -> None:
    del unhold(table)[name]


def resume_function(code: Any, globals_: Any, closure: tuple) -> Any:
    """The function that continues a frame after a graph break."""
    return types.FunctionType(code, unhold(globals_), code.co_name, None, closure)


class Tail:
    """What a resume function returns when the graph breaks again: the next one, and its arguments."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: Any, args: tuple) -> None:
        self.fn, self.args = fn, args


def is_tail(result: Any) -> bool:
    return type(result) is Tail


def tail_function(tail: Tail) -> Any:
    return tail.fn


def tail_arguments(tail: Tail) -> tuple:
    return tail.args
