"""The C extension: the frame hook, guards, the cache of compiled entries, and what jit returns.

A miss asks `on_miss(fn, code, locals)`, capture paused. It answers with an `Entry` (run it now; put it
in the cache with `add_entry`), `None` (run the frame and all that it calls as plain Python) or `True`
(run this frame as plain Python, but capture what it calls).

The kinds of guard steps; `dst` and `src` are register numbers, `name` an attribute's name.
Values: ("local", dst, i) ("closure", dst, i) ("cell", dst, i) ("global", dst, name) ("builtin", dst, name)
("const", dst, obj) ("attr", dst, src, name) ("slot", dst, src, member_descriptor) ("dict", dst, src)
("item", dst, src, i) ("key", dst, src, key) ("type", dst, src) ("type_lookup", dst, src, name)
("get", dst, src, name). A value that is not there fails the guard.
Checks: ("is_type", src, type) ("is", src, obj) ("is_not", src, obj) ("eq", src, const) ("len", src, n)
("keys", src, keys) ("missing", src, name) ("missing_key", src, key) ("missing_global", name)
("type_unchanged", src, names, objs) of a class, ("names_unchanged", src, names, objs) of a dict whose keys are
str; NotImplemented among objs stands for "no such name",
("array", src, shape, dtype, weak_type | None, sharding | device | None, committed | None),
("ndarray", src, shape, dtype, c_contiguous | None), ("scalar", src, "int"|"float"|"bool"|"complex"),
("jax_config", jax_config_token()). None in a shape is any size.
Sizes: ("dim", size, src, axis) ("int_size", size, src) ("len_size", size, src) and
("size_check", program), a postfix program such as (("size", 0), ("int", 3), "lt").
"""

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, final

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OnMiss = Callable[[Any, CodeType, tuple[Any, ...]], "Entry | bool | None"]
_Filter = Callable[[CodeType], bool]

@final
class GuardProgram:
    """Guards as steps over registers, evaluated in C without running user code."""

    valid: bool
    def __new__(cls, steps: Iterable[tuple[Any, ...]]) -> GuardProgram: ...
    def __len__(self) -> int: ...
    def check(self, fn: Any, locals: tuple[Any, ...]) -> int: ...
    def registers(self, fn: Any, locals: tuple[Any, ...]) -> list[Any] | None: ...

@final
class Entry:
    """What runs in place of a frame when its guards hold: a program, or a replacement code object.

    A direct entry calls `program(*input registers, *sizes)` and builds the result from `template`
    (None: what the program returns): ("tuple", [t, ...]) ("list", [t, ...]) ("dict", [keys], [t, ...])
    ("out", i) ("reg", r) ("const", obj) ("call", callable, [t, ...], {name: t}). An entry with a `key`
    is hit only from a CompiledFunction with that very key. `info` is for the caller's own use.
    """

    hits: int
    valid: bool
    guards: GuardProgram
    program: Any
    fn_code: CodeType | None
    key: Any
    info: Any
    def __new__(
        cls,
        guards: GuardProgram,
        fn_code: CodeType | None = None,
        program: Callable[..., Any] | None = None,
        inputs: Iterable[int] = (),
        sizes: Iterable[int] = (),
        template: tuple[Any, ...] | None = None,
        key: Any = None,
        info: Any = None,
        returns_tail: bool = False,
    ) -> Entry: ...
    def invalidate(self) -> None: ...

@final
class Tail:
    """What replacement code returns when its graph breaks: `fn(*args)` is called in its place.

    An entry with `returns_tail` (that of a resume function) leaves this to whoever called it."""

    def __new__(cls, fn: Callable[..., Any], args: tuple[Any, ...]) -> Tail: ...

class CompiledFunction(Generic[_P, _R]):
    """The callable that jit returns. `fn` is a Python function or a bound method."""

    __wrapped__: Callable[_P, _R]
    key: Any
    on_miss: _OnMiss | None
    def __new__(
        cls, fn: Callable[_P, _R], on_miss: _OnMiss | None = None, key: Any = None
    ) -> CompiledFunction[_P, _R]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, obj: Any, type: Any = None, /) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

def set_callback(on_miss: _OnMiss | None, /) -> _OnMiss | None: ...
def set_filter(should_capture: _Filter | None, /) -> _Filter | None: ...
def set_enabled(on: bool, /) -> bool: ...
def enter() -> None: ...
def leave() -> None: ...
def watch(watcher: Callable[[Any], bool] | None) -> Callable[[Any], bool] | None: ...
def pause() -> None: ...
def resume() -> None: ...
def is_active() -> bool: ...
def current() -> CompiledFunction[..., Any] | None: ...
def run_eager(
    fn: Callable[..., _R], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, /
) -> _R: ...
def add_entry(code: CodeType, entry: Entry, /) -> None: ...
def entries(code: CodeType, /) -> list[Entry]: ...
def clear(code: CodeType, /) -> None: ...
def reset() -> None: ...
def run_segment(segment: Callable[..., Any], state: tuple[Any, ...], sent: Any, /) -> Any: ...
def throw(error: BaseException, /) -> NoReturn: ...
def rethrow(error: BaseException, /) -> NoReturn: ...
def mark_skip(code: CodeType, recursive: bool = False, ours: bool = False, /) -> None: ...
def is_skipped(code: CodeType, /) -> bool: ...
def counters() -> dict[str, int]: ...
def jax_config_token(allow_trace: bool = False, /) -> tuple[Any, ...]: ...
def known_hashes(obj: Any, /) -> list[tuple[Any, int]]: ...
def known_dict(keys: tuple[Any, ...], hashes: tuple[int | None, ...], values: tuple[Any, ...], /) -> dict[Any, Any]: ...
def known_set(elements: tuple[Any, ...], hashes: tuple[int | None, ...], /) -> set[Any]: ...
