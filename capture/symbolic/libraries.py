"""Which callables are whose: the libraries that promise purity, and everything else.

A call into a pure library becomes one node of the Graph: its Python is JAX-traceable and free
of side effects. All other Python code (the user's, the standard library's, that of frameworks with
mutable modules) is entered, bytecode by bytecode. What is known of a library is a row of `LIBRARIES`;
users add theirs by `register_library`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import entries, module_name, mro, name_of, own_dict
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.own_stores import stores_into_itself


@dataclass(frozen=True, kw_only=True)
class Library:
    """What is known of the modules `name` and `name.*`. Several rows may speak of a module: each flag holds where
    some row sets it."""

    name: str
    pure: bool = False  # JAX-traceable, no side effects: a call becomes one node
    hosts: bool = False  # pure, but runs user code in a context of its own, which must be as pure as for `jax.jit`
    steady: bool = False  # gives the same for the same arguments, whatever its own globals hold
    alone: bool = False  # much Python around few operations: called from Python, its frames are left to Python
    judges: bool = False  # tells a NumPy array from one of JAX, by its class, its dtype
    trees: bool = False  # looks at the leaves of what it is given, and calls none of it
    named: bool = False  # it goes through its pytrees, and dicts, by the names in them, whatever the order of these
    enter: tuple[str, ...] = ()  # modules of a pure one that keep state, ask `is`, run user code: entered
    asks: frozenset[tuple[str, str]] = frozenset()  # functions that ask who traces their caller: entered
    around: frozenset[tuple[str, str]] = frozenset()  # what decorators make that call the program as it is: entered
    effects: Mapping[str, Collection[str]] = field(default_factory=dict)  # by module: called for what they change
    tokens: frozenset[str] = frozenset()  # attributes that tell the objects of its classes apart, and say nothing else


JAX = Library(
    name="jax", pure=True, enter=("jax._src.test_warning_util",),  # contexts that change the filters of warnings
    asks=frozenset({("jax._src.core", "is_concrete"), ("jax._src.core", "to_concrete_value")}),
    around=frozenset({("jax._src.config", "StateContextManager.__call__.<locals>.wrapper"),
                      ("jax._src.profiler", "annotate_function.<locals>.wrapper"),
                      ("jax._src.source_info_util", "ExtendNameStackContextManager.__call__.<locals>.wrapper")}),
    effects={
        "jax._src.ad_checkpoint": ("print_saved_residuals",),
        "jax._src.config": ("update", "parse_flags_with_absl", "config_with_absl"),
        "jax._src.api": ("clear_backends", "clear_caches", "effects_barrier", "live_arrays"),
        "jax._src.debugging": ("visualize_array_sharding", "visualize_sharding"),
        "jax._src.distributed": ("initialize", "shutdown"),
        "jax._src.environment_info": ("print_environment_info",),
        "jax._src.linear_util": ("wrap_init", "transformation_with_aux", "transformation_with_aux2"),  # filled later
        "jax._src.monitoring": ("record_event", "record_event_duration_secs", "record_event_time_span",
                                "record_scalar"),
        "jax._src.numpy.lax_numpy": ("load", "fromfile"),
        "jax._src.profiler": ("device_memory_profile", "save_device_memory_profile", "set_metadata", "start_server",
                              "start_trace", "stop_server", "stop_trace"),
        "jax._src.sharding_impls": ("set_mesh",),
    })
FLAX = Library(
    name="flax", steady=True, alone=True,
    enter=("flax.nnx", "flax.experimental", "flax.struct", "flax.training.train_state",
           "flax.training.early_stopping"),
    effects={"flax.training.checkpoints": ("save_checkpoint", "save_checkpoint_multiprocess", "restore_checkpoint",
                                           "latest_checkpoint", "available_steps")})
CHEX = Library(
    name="chex", pure=True,
    enter=("chex._src.asserts_chexify", "chex._src.fake", "chex._src.restrict_backends",
           "chex._src.variants"),  # a test, and a decorator that counts its calls and hands on functions
    asks=frozenset({("chex._src.asserts", "assert_max_traces.<locals>.fn_wrapped"),
                    ("chex._src.asserts_internal", "has_tracers")}))
_PURE = ("jaxlib", "flax.struct", "flax.training", "flax.traverse_util", "flax.serialization",
         "diffrax", "lineax", "optimistix", "einops", "jmp", "rlax", "distrax", "jraph", "e3nn_jax",
         "tensorflow_probability.substrates.jax", "tensorflow_probability.python.internal.backend.jax")
_STEADY = ("dynacomp", "bytecode", "networkx", "numpy", "scipy", "opt_einsum", "absl", "typing_extensions", "jaxtyping",
           "beartype", "wadler_lindig", "treescope", "orbax", "etils", "tree", "toolz", "optree", "namex", "h5py",
           "rich", "tqdm", "pytest", "_pytest", "pluggy", "equinox._enum", "tensorflow_probability.python.internal")
_TREES = ("jax._src.tree", "jax._src.tree_util", "equinox._tree", "equinox._filters", "equinox._update")
LIBRARIES = (
    JAX, FLAX, CHEX,
    Library(name="equinox", pure=True, named=True, enter=(
        "equinox.debug._max_traces", "equinox.debug._dce", "equinox.internal._closure_to_pytree",
        "equinox._enum")),  # asks whether two items hold one array
    Library(name="flax.nnx", named=True),
    Library(name="optax", pure=True, named=True),
    Library(name="flax.linen", pure=True, hosts=True, tokens=frozenset({"_id"})),
    Library(name="flax.core", pure=True, hosts=True, enter=("flax.core.frozen_dict",),
            effects={"flax.core.scope": ("Scope",)}),  # modules fill it
    Library(name="haiku", pure=True, hosts=True, enter=("haiku._src.filtering",)),
    Library(name="ml_dtypes", pure=True, steady=True, enter=("ml_dtypes._iinfo",)),  # a new object in each call
    *(Library(name=name, pure=True) for name in _PURE),
    *(Library(name=name, steady=True) for name in _STEADY),
    *(Library(name=name, alone=True) for name in ("keras", "numpyro")),
    *(Library(name=name, judges=True) for name in ("chex._src.asserts", "chex._src.asserts_internal")),
    *(Library(name=name, trees=True) for name in _TREES),
)

# How functions and methods begin that give an existing object of JAX its rules: `Primitive.def_impl`, `ad.deflinear`.
DEFINING = ("def_", "defjvp", "defvjp", "deflinear", "defbilinear", "defvectorized", "defbroadcasting", "defreducer")

# Methods that exist for what they change around the code that runs between them, however pure their library.
CONTEXTS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def register_library(name: str, *, pure: bool = False, steady: bool = False, hosts: bool = False,
                     enter: Collection[str] = (), effects: Mapping[str, Collection[str]] | None = None) -> None:
    """Says what dynacomp may rely on in calls of the library `name` (a module, and all that lie below it).

    What is not registered is safe, and sometimes slow: its Python is entered like the user's own, and guarded.

    Args:
        name: the module's dotted name, such as `"mylib"` or `"mylib.layers"`. A second call replaces the first.
        pure: its functions can be traced by JAX and change nothing outside themselves, as JAX's own: a call becomes
            one node of the graph, and nothing of the library's own state is guarded.
        steady: what its functions and classes read of the library's own globals does not change: it is not guarded
            where JAX or a pure library calls them. Calls of the program's own enter it, and guard it, as ever.
        hosts: it is pure, and calls user code inside a context of its own, as Haiku does. What its modules keep in
            thread-local objects is guarded.
        enter: modules of a pure library that are entered all the same: they keep state, or run user code for its
            effects.
        effects: the functions of a pure library that are called for what they change or show, by module:
            `{"mylib.io": ["save"]}`. They end the graph, and run in Python.

    Raises:
        TypeError: where `name` is no string.
        ValueError: where `hosts`, `enter` or `effects` are given for a library that is not pure.

    Example:
        >>> import dynacomp
        >>> dynacomp.register_library("mylib", pure=True, effects={"mylib.io": ["save"]})

    It holds for what is captured from then on; `dynacomp.reset()` forgets what was compiled before."""
    if type(name) is not str:
        raise TypeError(f"a library is registered by the name of its module, not by {name!r}")
    if not pure and (hosts or enter or effects):
        raise ValueError("hosts, enter and effects say more of a library that is pure: pass pure=True")
    REGISTERED[name] = Library(name=name, pure=pure, steady=steady, hosts=hosts, enter=tuple(enter),
                               effects=dict(effects or {}))
    for found in (rows_of, _is_pure, _is_host, is_named, is_steady_module):  # what was found out of modules by name
        found.cache_clear()


REGISTERED: dict[str, Library] = {}  # by users


def _contains(name: str, module: str) -> bool:
    return module == name or module.startswith(name + ".")


@functools.cache
def rows_of(module: str) -> tuple[Library, ...]:
    """The rows that speak of a module. Tests that lie in a library's own folders are a program that calls it."""
    if holds_tests(module):
        return ()
    above = {module, *(module[:n] for n, c in enumerate(module) if c == ".")}
    return tuple(row for row in (*LIBRARIES, *REGISTERED.values()) if row.name in above)


def holds_tests(module: str) -> bool:
    """Whether a module is one of tests, by the names that these have everywhere (`test_util` is none of them)."""
    *folders, name = module.split(".")
    return "tests" in folders or name.endswith("_test") or name.startswith("test_") and "util" not in name


def pure_names() -> list[str]:
    """The packages whose functions captured code calls whole; of users' rows just the modules that they name."""
    known = {row.name.partition(".")[0] for row in LIBRARIES if row.pure}
    return sorted(known | {row.name for row in REGISTERED.values() if row.pure})


def is_pure_module(module: Any) -> bool:
    """Whether a module of this name is a library that promises purity."""
    return type(module) is str and _is_pure(module)


@functools.cache
def _is_pure(module: str) -> bool:
    rows = rows_of(module)
    return any(row.pure for row in rows) and not any(_contains(name, module) for row in rows for name in row.enter)


def is_left_alone(module: str) -> bool:
    """Whether the frames of a module are left to Python where Python calls them."""
    return any(row.pure or row.alone for row in rows_of(module)) or is_steady_module(module)


@functools.cache
def is_steady_module(module: str | None) -> bool:
    """Whether what its functions read is left unguarded where a library runs them."""
    root = str(module).partition(".")[0]
    if root.startswith("namedtuple_"):  # where collections.namedtuple makes `__new__`
        return True
    return is_pure_module(module) or root in sys.stdlib_module_names and root != "__main__" or any(
        row.steady for row in rows_of(str(module)))


@functools.cache
def steady_library(module: str) -> str:
    """The library of a module that gives the same for the same arguments, in every process; "" of others."""
    return next((row.name for row in LIBRARIES if row.steady and _contains(row.name, module)), "")


@functools.cache
def is_named(module: str) -> bool:
    """Whether the order of the attributes of its objects, and of the dicts that it is given, is nobody's affair."""
    return any(row.named for row in rows_of(module))


@functools.cache
def folders() -> tuple[str, ...]:
    """Where libraries lie; capture's own modules count as one, wherever they lie."""
    paths = sysconfig.get_paths()
    found = (*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
    return tuple({path.rstrip("/") + "/" for path in found})


def is_library_file(file: str) -> bool:
    return file.startswith(folders()) or file.startswith("<frozen ")


def is_installed(table: dict[str, Any]) -> bool:
    """Whether a namespace is that of a library's module, which nobody makes anew."""
    name, file = table.get("__name__"), table.get("__file__")
    return type(name) is str and type(file) is str and is_library_file(file) and (
        own_dict(sys.modules.get(name)) is table)


def is_settled(table: dict[str, Any], obj: Any) -> bool:
    """Whether what a library's module holds is a function, a class or a module of a library: it stands there for good,
    unless somebody patches it. What a program has put there may be gone by the next call."""
    if not is_installed(table):
        return False
    if type(obj) is types.FunctionType:
        return is_installed(obj.__globals__)
    if type(obj) is types.BuiltinFunctionType:  # others are methods of some object: `log.append`
        return obj.__self__ is None or type(obj.__self__) is types.ModuleType
    name = own_dict(obj).get("__name__") if type(obj) is types.ModuleType else (
        module_name(obj) if issubclass(type(obj), type) else None)
    home = sys.modules.get(name) if type(name) is str else None
    return home is not None and (name in sys.builtin_module_names or is_installed(own_dict(home))) and (
        issubclass(type(obj), type) or home is obj)


def label(fn: Any) -> str:
    """What a function is called in notices."""
    return name_of(fn, "__qualname__") or name_of(fn) or type(fn).__name__


def module_of(obj: Any) -> str | None:
    """The module whose code runs when `obj` is called: a function's globals say, whatever
    `functools.wraps` has written into `__module__`."""
    if issubclass(type(obj), types.FunctionType):
        return obj.__globals__.get("__name__")
    if issubclass(type(obj), types.MethodType):
        return module_of(obj.__func__)
    if issubclass(type(obj), type):
        return module_name(obj)
    own = getattr(obj, "__module__", None)
    return own if isinstance(own, str) else module_name(type(obj))


def is_library(obj: Any) -> bool:
    """True when calling `obj` runs code of a library that promises purity."""
    if issubclass(type(obj), types.FunctionType):
        return is_pure_module(module_of(obj)) and not _is_entered(obj)
    if issubclass(type(obj), (types.MethodType, type)):
        return is_pure_module(module_of(obj))
    if issubclass(type(obj), (types.BuiltinFunctionType, functools._lru_cache_wrapper)):
        return is_pure_module(getattr(obj, "__module__", None))
    return is_pure_module(module_name(type(obj)))


def _is_entered(fn: types.FunctionType) -> bool:
    place = str(module_of(fn)), fn.__code__.co_qualname
    return any(place in row.asks or place in row.around for row in rows_of(place[0]))


def _is_effect(module: str | None, name: str) -> bool:
    return any(name in row.effects.get(str(module), ()) for row in rows_of(str(module)))


def has_effect(fn: Any) -> bool:
    """Whether a library's function is called for what it changes, shows or reads: state, tables, files."""
    name = name_of(fn)
    if type(name) is not str:
        return False
    registers = name.startswith(("register_", *DEFINING))
    makes_class = name.endswith("dataclass") and isinstance(fn, types.FunctionType)
    return registers or makes_class or _is_effect(module_of(fn), name)


def looks_inside(fn: Any) -> bool:
    """Whether a function takes trees apart, also the functions among their parts."""
    module = module_of(fn)
    return module is not None and any(row.trees and row.name == module for row in rows_of(module))


def decorates(fn: Any, args: list[Any]) -> bool:
    """Whether a call is that of a class decorator that a function with such an effect has made."""
    if not (isinstance(fn, types.FunctionType) and args and isinstance(args[0], type)):
        return False
    maker, inside, _ = fn.__code__.co_qualname.partition(".<locals>")
    return bool(inside) and maker.endswith("dataclass")


def registers_once(fn: Any) -> bool:
    """Whether a library's function keeps a table, and does nothing when it is called again: nobody can tell whether
    a compiled program calls it too."""
    return isinstance(fn, functools._lru_cache_wrapper) and has_effect(fn)


def changes_object(fn: types.FunctionType) -> bool:
    """Whether a library's function is a method that exists for its effect on the object: that is entered, however
    pure the library. `chex.dataclass` puts an `__init__` of its own into the program's class."""
    return fn.__name__ in ("__init__", "__post_init__", "__setattr__", "__delattr__", "__setitem__", "__delitem__",
                           "__setstate__")


@remembered
def is_stateful(cls: type) -> bool:
    """Whether objects of a library's class change when they are used, however pure the library: iterators (Haiku's
    `PRNGSequence`), and those that store into themselves when they are called (Equinox's `GetKey`, its `State.set`).
    They are made, and their methods entered, as those of the program's classes are."""
    return any(isinstance(entries(base).get("__next__"), types.FunctionType) for base in mro(cls)) or (
        not is_host(cls) and any(_stores(base) for base in mro(cls) if is_pure_module(module_name(base))))


def _stores(cls: type) -> bool:
    """Whether public methods of a class of a library built on JAX, or a call of its objects, store into the object."""
    return str(module_name(cls)).partition(".")[0] not in ("jax", "jaxlib") and any(
        isinstance(fn, types.FunctionType) and stores_into_itself(decode(fn.__code__))
        for name, fn in entries(cls).items() if name == "__call__" or not name.startswith(("_", *DEFINING)))


def judges(fn: Any) -> bool:
    """Whether a library's function may find a NumPy array wanting where it would accept one of JAX, or the other way
    round. Of a shape both have the same."""
    return any(row.judges for row in rows_of(str(module_of(fn)))) and "shape" not in name_of(fn)


def is_host(obj: Any) -> bool:
    """True when calling `obj`, or a method of it, runs user code inside a context of its library."""
    if issubclass(type(obj), type):
        return any(_is_host(str(module_name(b))) for b in mro(obj))
    if issubclass(type(obj), (types.FunctionType, types.MethodType)):  # JAX wraps some: `flax.linen.Module.apply`
        own = module_of(obj)
        return _is_host(str(module_of(inspect.unwrap(obj)) if is_pure_module(own) else own))
    return is_host(type(obj))


def tokens_of(cls: type) -> frozenset[str]:
    """The attributes by which a library tells apart the objects of its class `cls`, or of one derived from it."""
    return frozenset().union(*(row.tokens for b in mro(cls) for row in rows_of(module_name(b))))


def host_below(frame: types.FrameType | None) -> str:
    """The module of a host that is running, `frame` or a caller of it; "" where there is none."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is str and _is_host(name):
            return name
        frame = frame.f_back
    return ""


def is_host_module(module: Any) -> bool:
    """Whether a module of this name is a library that runs user code inside a context of its own."""
    return type(module) is str and _is_host(module)


@functools.cache
def _is_host(module: str) -> bool:
    return any(row.hosts and not any(_contains(name, module) for name in row.enter) for row in rows_of(module))


def is_user_function(obj: Any) -> bool:
    """A Python function whose code must be captured when a library calls it."""
    return issubclass(type(obj), types.FunctionType) and not is_library(obj)


def is_ours(obj: Any) -> bool:
    """A function that is compiled by us, and does nothing beside: a call of it is one of the function in it."""
    return type(obj) is CompiledFunction


def is_compiled(obj: Any) -> bool:
    """Whether it is such a function, or a method of one, compiled by us: who calls it captures it too."""
    inner = obj.__wrapped__ if is_ours(obj) else None
    return is_user_function(inner.__func__ if type(inner) is types.MethodType else inner)


def has_user_call(cls: type) -> bool:
    """Whether calling an instance runs a user's `__call__` (seldom true of a library's class); a metaclass has that of
    `type`."""
    owner = next((b for b in mro(cls) if "__call__" in entries(b)), None)
    return owner not in (None, type) and not is_pure_module(module_name(owner)) and not is_host(cls)
