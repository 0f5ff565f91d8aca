"""Which callables are whose: the libraries that promise purity, and everything else.

A call into a library of `PURE` becomes one node of the Graph: its Python is JAX-traceable and free
of side effects. All other Python code (the user's, the standard library's, that of frameworks with
mutable modules) is entered, bytecode by bytecode. To teach the machine a library, add its root
module here.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any

from dynacomp.capture.symbolic.classes import entries, module_name, mro

PURE = (
    "jax", "jaxlib", "optax", "equinox", "flax.linen", "flax.core", "flax.struct", "flax.training",
    "flax.traverse_util", "flax.serialization", "haiku", "chex", "diffrax", "lineax", "optimistix", "einops", "jmp",
    "rlax", "distrax", "jraph", "e3nn_jax", "tensorflow_probability.substrates.jax",
)
# Modules inside them whose functions must be entered all the same: they run user code for its effects, or keep state
# (what they have put in place of a function, checks that wait for their results), or do mere Python with numbers.
ENTER = ("equinox.debug._max_traces", "equinox.debug._dce", "flax.nnx", "flax.experimental", "flax.struct",
         "flax.training.train_state", "flax.training.early_stopping", "chex._src.asserts_chexify", "chex._src.fake",
         "chex._src.restrict_backends")
# Libraries whose transformed functions and modules run user code in a context of the library's own (scopes,
# frames, counters of names): such a call is one node, and its user code must be as pure as for `jax.jit`.
HOSTS = ("flax.linen", "flax.core", "haiku")

# Other libraries whose functions give the same for the same arguments, whatever their own globals hold.
STEADY = (
    "dynacomp", "flax", "numpy", "scipy", "ml_dtypes", "opt_einsum", "absl", "typing_extensions", "jaxtyping",
    "beartype", "wadler_lindig", "treescope", "orbax", "etils", "tree", "toolz", "optree", "namex", "h5py",
    "rich", "tqdm", "pytest", "_pytest", "pluggy",
)

# Libraries of much Python around few operations: their frames, captured one by one below a graph break, cost more than
# they save. (Called from captured code they are entered.)
ALONE = ("flax", "keras", "numpyro")

# Functions of pure modules that ask whether JAX traces their caller, by module and `co_qualname`: they are entered.
ASKS = {
    ("chex._src.asserts", "assert_max_traces.<locals>.fn_wrapped"),
    ("chex._src.asserts_internal", "has_tracers"),
    ("jax._src.core", "is_concrete"),
    ("jax._src.core", "to_concrete_value"),
}

# Functions of pure modules that are called for what they change, show or read of the state of the process, by
# module and name.
EFFECTS = {
    "jax._src.config": {"update", "parse_flags_with_absl", "config_with_absl"},
    "jax._src.api": {"clear_backends", "clear_caches", "live_arrays"},
    "jax._src.debugging": {"visualize_array_sharding", "visualize_sharding"},
    "jax._src.distributed": {"initialize", "shutdown"},
    "jax._src.environment_info": {"print_environment_info"},
    "jax._src.monitoring": {"record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar"},
    "jax._src.numpy.lax_numpy": {"load", "fromfile"},
    "jax._src.profiler": {"device_memory_profile", "save_device_memory_profile", "set_metadata", "start_server",
                          "start_trace", "stop_server", "stop_trace"},
    "jax._src.sharding_impls": {"set_mesh"},
    "flax.training.checkpoints": {"save_checkpoint", "save_checkpoint_multiprocess", "restore_checkpoint",
                                  "latest_checkpoint", "available_steps"},
}

# How functions and methods begin that give an existing object of JAX its rules: `Primitive.def_impl`, `ad.deflinear`.
DEFINING = ("def_", "defjvp", "defvjp", "deflinear", "defbilinear", "defvectorized", "defbroadcasting", "defreducer")

# Modules whose functions judge their arguments, and tell a NumPy array from one of JAX: by its class, its dtype.
JUDGES = ("chex._src.asserts", "chex._src.asserts_internal")

# Modules whose functions look at the leaves of what they are given, and call none of it.
TREES = ("jax._src.tree", "jax._src.tree_util", "equinox._tree", "equinox._filters", "equinox._update")

# Methods that exist for what they change around the code that runs between them, however pure their library.
CONTEXTS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def _root_in(module: Any, names: tuple[str, ...]) -> bool:
    return isinstance(module, str) and any(module == n or module.startswith(n + ".") for n in names)


def is_pure_module(module: Any) -> bool:
    """Whether a module of this name is a library that promises purity."""
    return type(module) is str and _is_pure(module)


@functools.cache
def _is_pure(module: str) -> bool:
    return _root_in(module, PURE) and not _root_in(module, ENTER)


def is_left_alone(module: str) -> bool:
    """Whether the frames of a module are left to Python where Python calls them."""
    return _root_in(module, (*PURE, *ALONE)) or is_steady_module(module)


@functools.cache
def is_steady_module(module: str | None) -> bool:
    """Whether what its functions read is left unguarded where a library runs them."""
    root = str(module).partition(".")[0]
    if root.startswith("namedtuple_"):  # where collections.namedtuple makes `__new__`
        return True
    return is_pure_module(module) or root in sys.stdlib_module_names and root != "__main__" or _root_in(
        str(module), STEADY)


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
        return is_pure_module(module_of(obj)) and (module_of(obj), obj.__code__.co_qualname) not in ASKS
    if issubclass(type(obj), (types.MethodType, type)):
        return is_pure_module(module_of(obj))
    if issubclass(type(obj), (types.BuiltinFunctionType, functools._lru_cache_wrapper)):
        return is_pure_module(getattr(obj, "__module__", None))
    return is_pure_module(module_name(type(obj)))


def has_effect(fn: Any) -> bool:
    """Whether a library's function is called for what it changes, shows or reads: state, tables, files."""
    name = getattr(fn, "__name__", "")
    if type(name) is not str:
        return False
    registers = name.startswith(("register_", *DEFINING))
    makes_class = name.endswith("dataclass") and isinstance(fn, types.FunctionType)
    return registers or makes_class or name in EFFECTS.get(module_of(fn) or "", ())


def looks_inside(fn: Any) -> bool:
    """Whether a function takes trees apart, also the functions among their parts."""
    return module_of(fn) in TREES


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


def judges(fn: Any) -> bool:
    """Whether a library's function may find a NumPy array wanting where it would accept one of JAX, or the other way
    round. Of a shape both have the same."""
    return _root_in(module_of(fn), JUDGES) and "shape" not in getattr(fn, "__name__", "")


def is_host(obj: Any) -> bool:
    """True when calling `obj`, or a method of it, runs user code inside a context of its library."""
    if issubclass(type(obj), type):
        return any(_root_in(module_name(b), HOSTS) for b in mro(obj))
    if issubclass(type(obj), (types.FunctionType, types.MethodType)):  # JAX wraps some: `flax.linen.Module.apply`
        own = module_of(obj)
        return _root_in(str(module_of(inspect.unwrap(obj)) if is_pure_module(own) else own), HOSTS)
    return is_host(type(obj))


def host_below(frame: types.FrameType | None) -> str:
    """The module of a host that is running, `frame` or a caller of it; "" where there is none."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is str and _is_host(name):
            return name
        frame = frame.f_back
    return ""


@functools.cache
def _is_host(module: str) -> bool:
    return _root_in(module, HOSTS)


def is_user_function(obj: Any) -> bool:
    """A Python function whose code must be captured when a library calls it."""
    return issubclass(type(obj), types.FunctionType) and not is_library(obj)


def has_user_call(cls: type) -> bool:
    """Whether calling an instance runs a user's `__call__` (seldom true of a library's class)."""
    owner = next((b for b in mro(cls) if "__call__" in entries(b)), None)
    return owner is not None and not is_pure_module(module_name(owner)) and not is_host(cls)
