"""Calls: what happens when a Value is called.

`call` looks at the kind of callee. User functions are entered (`inline`); libraries that promise
purity become nodes; built-in functions and classes have a row in `builtin_rows`; classes are
instantiated by Python's protocol; what is left breaks the graph.
"""

from __future__ import annotations

import io
import operator
import re
import sys
import types
from typing import Any, cast

import numpy as np

from dynacomp.capture.arithmetic import graph_scalars, later, masked_updates, ufunc_overrides
from dynacomp.capture.arithmetic.operators import fold
from dynacomp.capture.base.classes import module_name, own_dict
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.rows import fits, named
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.capture.calls import class_checks, donations, jitted
from dynacomp.capture.calls.entering import enter
from dynacomp.capture.calls.signatures import bind
from dynacomp.capture.hosting import library_reads, made_anew
from dynacomp.capture.kinds.attrs import CONST_METHODS, intercepts
from dynacomp.capture.kinds.iteration import ITERATORS, iterate
from dynacomp.capture.numbers import dynamic_scalars, host_functions, size_values
from dynacomp.capture.symbolic.generators import new_generator
from dynacomp.capture.symbolic.libraries import (
    CONTEXTS,
    changes_object,
    is_host,
    is_installed,
    is_library,
    is_ours,
    is_pure_module,
    module_of,
    steady_library,
)
from dynacomp.capture.symbolic.machine import Capture, execute, new_frame
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing import equinox_modules
from dynacomp.capture.tracing.failures import calls_out, is_entered, is_made, unpacked
from dynacomp.capture.tracing.library_objects import RULE_METHODS, open_callable
from dynacomp.capture.tracing.lowered_args import of_attributes
from dynacomp.capture.tracing.plain_numbers import primal
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BuiltinMethodV, FunctionV, MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV
from dynacomp.capture.values.constant import (
    Const,
    holds,
    is_const,
    is_exactly,
    is_known_literal,
    is_open,
    object_of,
    peek,
    stands_for,
)
from dynacomp.capture.values.containers import DictV, ListV, SequenceV, TupleV, ViewV
from dynacomp.capture.values.iterators import GeneratorV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.questions import is_object, is_opaque, is_scalar, own_class
from dynacomp.capture.values.value import (
    MutableV,
    NotConstant,
    Value,
    as_python,
    existing,
    is_changing,
    is_constant,
    now,
    type_of,
)
from dynacomp.capture.wrapping import ndarrays, object_attrs
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.builtin_subclasses import BASES, payload_base, seen_by_c
from dynacomp.capture.wrapping.class_attrs import MISSING, name_in_errors, resolve
from dynacomp.capture.wrapping.class_prototypes import refuse
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.spelled_sizes import spelled

# (real callable) → row(cap, *args, **kwargs); filled by the `builtin_rows` modules. Keys by identity.
BUILTINS: dict[Any, Any] = {}
# callable → row(cap, callable, args, kwargs) that the user gave; see `user_rules`.
USER_RULES = IdentityTable()
# Type of a C callable → row(cap, fn, *args) for calls of its instances, `fn` being a Const.
BY_TYPE: dict[type, Any] = {}
# Code of a wrapper in the standard library → row(cap, fn, args, kwargs) for the functions that run it.
OPENED: dict[types.CodeType, Any] = {}
# What puts a library's rows into these tables, by the module of its C functions: once the program calls one.
FIRST_CALLED: dict[str, Any] = {}
# Real functions that may be computed during capture when all arguments are constants.
FOLDABLE = {chr, ord, hex, oct, bin, ascii, sys.intern, str.maketrans, bytes.maketrans}
IN_PLACE = {"setitem", "delitem", "iconcat", *(n for n in dir(operator) if n[0] == "i" and n[1:] in dir(operator))}
FOLDABLE_MODULES = {"math", "_operator", "cmath", "re", "_sre", "string", "fractions", "itertools", "numbers",
                    "_struct", "unicodedata", "textwrap"}


def call(cap: Capture, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`fn(*args, **kwargs)`, as the row of its kind says."""
    made = kind(fn).call
    if made is None:
        raise Break("call", f"a {type(fn.obj).__qualname__ if is_opaque(fn) else type(fn).__name__} is called")
    return made(cap, fn, args, kwargs)


# --- user functions


def inline(cap: Capture, fn: FunctionV, args: list[Value], kwargs: dict[str, Value],
           source: S.Source | None = None) -> Value:
    """Enters a Python function: its frame runs on the symbolic machine."""
    frame = new_frame(fn.code, fn.globals, source or cap.globals_source(fn.globals), cap.current)
    frame.function = fn
    frame.locals.update(bind(cap, fn, args, kwargs))
    if fn.code.co_varnames and fn.code.co_argcount:
        frame.first_local = fn.code.co_varnames[0]
    frame.cells.update(zip(fn.code.co_freevars, fn.closure))
    if fn.code.co_flags & SUSPENDS:
        return new_generator(cap, frame)
    execute(cap, frame)
    assert frame.result is not None
    return frame.result


def guard_globals(cap: Capture, source: S.Source, real: types.FunctionType) -> None:
    """Guards which namespace a function runs in. The code's own is not named: a guard would keep it alive."""
    if cap.globals_source(real.__globals__) is None:
        cap.guards.add("own_globals", S.Get(source, "__globals__"))
    else:
        cap.guards.add("is", S.Get(source, "__globals__"), real.__globals__)


def _stands_in_module(real: types.FunctionType) -> bool:
    """Whether a module of the program's has made a function, once for all calls; no function has, in one of them."""
    name = real.__globals__.get("__name__")
    return type(name) is str and not is_pure_module(name) and name.partition(".")[0] != "dynacomp" and (
        "<locals>" not in real.__qualname__ and own_dict(sys.modules.get(name)) is real.__globals__)


def as_function(cap: Capture, fn: Const) -> FunctionV:
    """A real Python function as a FunctionV, its defaults and cells found through its Source."""
    real: types.FunctionType = peek(fn)
    source = fn.source or cap.known.anew.get(id(real))
    place = id(real), source if is_open(fn) else None  # in another call another function may be there
    known = cap.known.functions.get(place)
    if known is not None:
        return known
    plain = source is not None and real.__defaults__ is None and real.__kwdefaults__ is None
    if source is not None and id(real) not in cap.known.anew:  # those have their code from a class that says it
        cap.guards.add(*(("plain_function", source) if plain else ("is", S.Get(source, "__code__"))), real.__code__)
    if source is not None and is_open(fn):
        guard_globals(cap, source, real)

    held = source or S.Root(real, real.__qualname__)
    settled = source is None and not is_pure_module(module_of(real)) and is_installed(real.__globals__)
    if settled or source is None and _stands_in_module(real):  # its class says which function it is, no more
        cap.known.settled[id(real)] = real

    def part(name: str) -> Any:
        found = getattr(real, name)
        if found is None and (plain or not is_open(fn)):
            return None
        if settled and type(found) is tuple and all(map(is_literal, found)):
            known = from_python(cap, found)  # no conditions of its own: it is known to be this very tuple
            known.source = S.Get(held, name)
            return known
        wrapped = wrap(cap, found, S.Get(held, name))
        return None if found is None else wrapped

    made = FunctionV(real.__code__, real.__globals__, real.__name__, real.__qualname__, part("__defaults__"),
                     part("__kwdefaults__"), _cells(cap, real, source), source=source)
    cap.known.functions[place] = made
    cap.known.keep.append(real)
    return made


def _cells(cap: Capture, real: types.FunctionType, source: S.Source | None) -> tuple[CellV, ...]:
    found = []
    for i, cell in enumerate(real.__closure__ or ()):
        at = S.Item(S.Get(source, "__closure__"), i) if source is not None else S.Root(cell, f"cell{i}")
        found.append(cast(CellV, wrap(cap, cell, at)))
    return tuple(found)


def cell_content(cap: Capture, cell: CellV, name: str = "") -> Value:
    if cell.content is None:
        raise Raised(Const(NameError(f"cannot access free variable {name!r}: it has no value yet")))
    cell.content = cap.realize(cell.content)
    return cell.content


# --- kinds of callee


def _method(cap: Capture, fn: MethodV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method that asks for what such an object holds would break the graph there: Python runs all of it."""
    if is_opaque(fn.obj) and is_const(fn.func) and isinstance(peek(fn.func), types.FunctionType):
        raise Break("call", f"{peek(fn.func).__qualname__} of an object that cannot be looked into")
    return call(cap, fn.func, [fn.obj, *args], kwargs)


def _builtin_method(cap: Capture, fn: BuiltinMethodV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    own = kind(fn.obj).method
    if own is not None:
        return own(cap, fn.obj, fn.name, args, kwargs)
    if is_scalar(fn.obj) and dynamic_scalars.is_numpy_number(fn.obj.hint):
        return ndarrays.call_method(cap, fn.obj, fn.name, args, kwargs)
    if fn.name == "join" and type(now(fn.obj)) is str and [*map(type, args)] in ([GeneratorV], [StreamV]):
        args = [call(cap, Const(list), args, {})]  # as Python makes one of it
    if not kwargs and (fn.name == "join" or any(map(is_changing, (fn.obj, *args)))):
        found = host_functions.method(cap, fn.obj, fn.name, args)
        if found is not None:
            return found
    row = BUILTIN_METHODS.get((type(fn.obj), fn.name))
    if row is not None:
        return call_row(cap, row, fn.name, [fn.obj, *args], kwargs)
    known = size_values.known(cap, fn.obj, f"{fn.name}()")
    if is_constant(known):
        known = known if is_const(known) else Const(as_python(known))
        return _fold_method(cap, BuiltinMethodV(known, fn.name), args, kwargs)
    real = existing(fn.obj)
    if isinstance(real, io.IOBase):
        raise Break("effect", f"{fn.name!r} of a {type(real).__qualname__}")
    raise Break("call", f"method {fn.name!r} of a {type(fn.obj if real is None else real).__qualname__}")


# (kind of Value, method name) → row(cap, obj, *args): generators, cells, ...
BUILTIN_METHODS: dict[tuple[type, str], Any] = {}
_FOLDABLE_TYPES = (str, bytes, int, float, complex, bool, tuple, frozenset, range, slice, type(None))


def _function_get(cap: Capture, fn: Value, obj: Value, cls: Value = Const(None)) -> Value:
    return fn if stands_for(obj, None) else MethodV(fn, obj)


DESCRIPTORS = (types.FunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
FUNCTION_METHODS: dict[str, Any] = {
    "__get__": _function_get, "__call__": lambda cap, fn, *args, **kwargs: call(cap, fn, list(args), kwargs)}
BUILTIN_METHODS.update({(FunctionV, name): row for name, row in FUNCTION_METHODS.items()})
BUILTIN_METHODS.update({(LibraryV, name): row for name, row in RULE_METHODS.items()})


def _bound_by_hand(cap: Capture, fn: Const, *args: Value, **kwargs: Value) -> Value:
    """`object.__setattr__.__get__(obj)`: so classes by attrs set their attributes."""
    found, name = fn.value.__self__, fn.value.__name__
    if isinstance(found, DESCRIPTORS) and name in FUNCTION_METHODS or (type(found), name) in CONST_METHODS:
        return call(cap, BuiltinMethodV(Const(found), name), list(args), kwargs)
    return _c_function(cap, fn.value, list(args), kwargs)


BY_TYPE[types.MethodWrapperType] = _bound_by_hand

# Modules whose objects never change, and whose methods only compute.
VALUE_MODULES = ("re", "numpy", "jax.numpy", "ml_dtypes", "datetime", "fractions", "uuid", "ipaddress")
# Modules of the standard library whose functions only compute: on plain data they are called while capturing.
PURE_ON_DATA = ("json", "re", "textwrap", "html", "base64", "fnmatch", "shlex", "keyword", "colorsys", "posixpath")
OUTSIDE = {"abspath", "expanduser", "expandvars", "islink", "ismount", "lexists", "realpath", "relpath"}  # but these


def _is_data(value: Any) -> bool:
    """Literals, regular expressions, their flags, and plain containers of them that the captured code knows whole."""
    row = kind(value).is_data
    return row is not None and row(value)


def _constant_is_data(value: Const) -> bool:
    return is_known_literal(value) or is_exactly(value, re.Pattern) or (
        is_exactly(value, re.RegexFlag) and not peek(value) & re.DEBUG)  # which prints


define(Const, Kind(is_data=_constant_is_data))
define(SequenceV, Kind(is_data=lambda v: v.cls in (tuple, list) and all(map(_is_data, v.items))))
define(DictV, Kind(is_data=lambda v: v.cls is dict and all(map(is_literal, v.items)) and all(
    map(_is_data, v.items.values()))))


def _fold_method(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    obj = fn.obj.value
    if intercepts(type(obj)) and not is_pure_module(module_name(type(obj))):
        raise Break("call", f"{fn.name!r} of a {type(obj).__qualname__}")
    if isinstance(obj, DESCRIPTORS) and fn.name in FUNCTION_METHODS:
        return FUNCTION_METHODS[fn.name](cap, fn.obj, *args, **kwargs)
    row = CONST_METHODS.get((type(obj), fn.name))
    if row is not None:
        return call_row(cap, row, fn.name, [fn.obj, *args], kwargs)
    bound = getattr(obj, fn.name, None)
    if bound is None:  # a function of an extension module, whose `__self__` is its own affair
        raise Break("call", f"{type(obj).__qualname__}.{fn.name}")
    found = BUILTINS.get(_identity(bound))
    if found is not None:
        return found(cap, *args, **kwargs)
    if isinstance(obj, np.ufunc) and ndarrays.holds_array(cap, args):
        found = ndarrays.call(cap, bound, args, kwargs)
        if found is not None:
            return found
    if isinstance(obj, np.ndarray):  # one of objects, or of the program's class: others are inputs
        raise Break("leaves", f".{fn.name}() of a NumPy array that is known by its identity alone")
    if isinstance(obj, _FOLDABLE_TYPES) or module_name(type(obj)) in VALUE_MODULES:
        return fold_call(cap, bound, args, kwargs)
    if is_pure_module(module_name(type(obj))):
        return library_call(cap, bound, args, kwargs)
    raise Break("call", f"{type(obj).__qualname__}.{fn.name}")


def fold_call(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    names = list(kwargs)
    refuse(cap, (*args, *kwargs.values()), getattr(fn, "__qualname__", "a call"))

    def run(*values: Any) -> Any:
        split = len(values) - len(names)
        return fn(*values[:split], **dict(zip(names, values[split:])))

    fixed = [_plain_argument(cap, v, getattr(fn, "__qualname__", "a call")) for v in (*args, *kwargs.values())]
    try:
        return fold(cap, run, *fixed)
    except NotConstant:
        raise Break("leaves", f"{getattr(fn, '__qualname__', fn)} of values that only exist at run time") from None


def _plain_argument(cap: Capture, v: Value, whose: str) -> Value:
    v = size_values.known(cap, v, f"{whose}()")
    v = TupleV(list(iterate(cap, v))) if isinstance(v, (*ITERATORS, ViewV)) else v
    if type(v) in (TupleV, ListV) and type_of(v) in (tuple, list):
        made: Any = type(v)
        return made([seen_by_c(x) for x in cap.items(v)])
    return seen_by_c(v)


def _partial(cap: Capture, fn: PartialV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call(cap, fn.func, [*fn.args, *args], {**fn.kwargs, **kwargs})


def _object(cap: Capture, fn: ObjectV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    owner, raw = resolve(cap, fn.cls, "__call__")
    if raw is MISSING:
        raise Raised(Const(TypeError(f"{name_in_errors(fn.cls)!r} object is not callable")))
    if owner is not None and is_pure_module(module_name(owner)) and is_pure_module(
            module_name(fn.cls)) and not is_made(cap, fn.cls):
        opened = of_attributes(cap, fn, called=True) if cap.lessons.opens_trees else fn
        return library_call(cap, _call_object, [opened, *args], kwargs, name=fn.cls.__name__)
    return call(cap, object_attrs.bind(cap, raw, fn, owner, "__call__"), args, kwargs)


def _array(cap: Capture, fn: ArrayV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raise Break("raises", "an array is called")


@calls_out
def _call_object(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer of a library, called; the target of its node."""
    return obj(*args, **kwargs)


_call_object.__name__ = _call_object.__qualname__ = "call"


def _library(cap: Capture, fn: LibraryV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    donations.refuse(cap, fn.real, args, kwargs)
    return masked_updates.updated(cap, fn, args, kwargs) or _of_numbers(cap, fn, args, kwargs) or library_call(
        cap, _call_object, [fn, *args], kwargs, name=getattr(fn.make, "__name__", None))


def _of_numbers(cap: Capture, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A call of what `jax.custom_jvp` has made that is given no array, as one of the function in it; None of others."""
    plain = None if kwargs else primal(cap, fn, args)
    if plain is None:
        return None
    inner, given = plain
    real = object_of(inner)
    if issubclass(type(real), types.FunctionType) and is_library(real):  # its node would have arrays for the numbers
        return inline(cap, as_function(cap, inner), given, kwargs)  # type: ignore[arg-type]
    return call(cap, inner, given, kwargs)


def _identity(obj: Any) -> Any:
    try:
        hash(obj)
    except (TypeError, ValueError):  # the latter of a memoryview
        return id(obj)
    return obj


def _const(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A callable that exists, by what is known of it or of functions like it, else by what its class does."""
    if is_open(fn) and is_plain_function(peek(fn)):
        return _entered(cap, peek(fn), as_function(cap, fn), args, kwargs)
    if is_open(fn) and is_ours(peek(fn)) and USER_RULES.get(peek(fn)) is None:
        inner = jitted.inside(cap, fn)
        if inner is not None:
            return call(cap, inner, args, kwargs)
    if is_open(fn):
        anew = made_anew.by_structure(cap, fn)
        if anew is not None:
            return donations.called(cap, peek(fn), args, kwargs,
                                    lambda: jitted.called(cap, peek(fn), anew, args, kwargs))
        if library_reads.hosted_by_content(cap, fn):
            fn = Const(peek(fn))
    return _by_rule(cap, fn, args, kwargs) or _by_class(cap, fn, args, kwargs)


def _by_rule(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What a rule for this very callable says; None where there is none."""
    obj = fn.value
    entered = cap.known.entered.get(id(obj))
    if entered is not None:
        return _entered(cap, obj, entered, args, kwargs)
    told = USER_RULES.get(obj)
    if told is not None:
        return told(cap, obj, args, kwargs)  # type: ignore[no-any-return]
    found = None
    if host_functions.row_of(obj) is not None:
        found = host_functions.call(cap, obj, args, kwargs) or graph_scalars.of_rounds(obj, args, kwargs)
    if found is None and ndarrays.is_numpy_function(obj):
        found = _by_numpy(cap, obj, args, kwargs)
    if found is not None:
        return found
    row = BUILTINS.get(_identity(obj))
    if row is not None:
        return call_row(cap, row, obj, *spelled(cap, obj, args, kwargs))
    inside = unpacked(cap, obj)
    if inside is not None:
        return jitted.entered(cap, obj, lambda: _run_library(cap, inside, args, kwargs))
    if is_entered(cap, obj):
        return jitted.entered(cap, obj, lambda: enter(cap, obj, args, kwargs, _run_library))
    if type(obj) in BY_TYPE:
        return BY_TYPE[type(obj)](cap, fn, *args, **kwargs)  # type: ignore[no-any-return]
    if isinstance(obj, types.FunctionType) and obj.__code__ in OPENED:
        return OPENED[obj.__code__](cap, fn, args, kwargs)  # type: ignore[no-any-return]
    return None


def _entered(cap: Capture, obj: Any, fn: FunctionV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Enters a function again: where it asks for the class of its argument alone, its answer may be known."""
    if len(args) != 1 or kwargs:
        return inline(cap, fn, args, kwargs)
    return class_checks.called(cap, obj, args[0], lambda v: inline(cap, fn, [v], {}))


def _by_numpy(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A function of NumPy: computed while capturing, asked of the array of JAX that it is given, or made later."""
    found = ufunc_overrides.call(cap, obj, args, kwargs)
    found = ndarrays.call(cap, obj, args, kwargs) if found is None else found
    asking = ndarrays.asking(obj) if found is None and args and ndarrays.is_jax_array(args[0]) else None
    if asking is not None:
        return inline(cap, as_function(cap, Const(asking)), args, kwargs)
    return found or later.call(cap, obj, args, kwargs)


def _by_class(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What objects of its class do when they are called."""
    obj = fn.value
    if isinstance(obj, types.FunctionType):
        return _real_function(cap, fn, args, kwargs)
    if isinstance(obj, type):
        return OPERATIONS.instantiate(cap, obj, args, kwargs)
    inner = jitted.inside(cap, fn)
    if inner is not None:
        return donations.called(cap, obj, args, kwargs, lambda: jitted.called(cap, obj, inner, args, kwargs))
    donations.refuse(cap, obj, args, kwargs)
    if is_library(obj):
        return _of_numbers(cap, fn, args, kwargs) or library_call(cap, obj, args, kwargs)
    if isinstance(obj, C_FUNCTIONS):
        return _c_function(cap, obj, args, kwargs)
    if module_name(type(obj)) == "numpy":
        return fold_call(cap, obj, args, kwargs)
    owner, raw = resolve(cap, type(obj), "__call__")
    if isinstance(raw, types.FunctionType):
        return call(cap, Const(raw), [fn, *args], kwargs)
    if isinstance(obj, types.MethodType):
        return call(cap, from_python(cap, obj), args, kwargs)
    raise Break("call", f"{module_name(type(obj))}.{type(obj).__qualname__} object")


C_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
               types.ClassMethodDescriptorType, types.MethodWrapperType)


def _run_library(cap: Capture, fn: types.FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return inline(cap, as_function(cap, Const(fn)), args, kwargs)


def is_plain_function(real: types.FunctionType) -> bool:
    """Whether a call of it is a call of its code, and nothing else."""
    return isinstance(real, types.FunctionType) and not (
        real in BUILTINS or USER_RULES.get(real) or real.__code__ in OPENED or is_library(real)
        or hasattr(real, "_dynacomp_break"))


def call_row(cap: Capture, row: Any, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A row on the arguments of a call; those that it has no parameters for, Python judges."""
    if not fits(row, args, kwargs):
        args, kwargs = named(row, obj, args, kwargs)
    if not fits(row, args, kwargs):
        raise Break("call", f"{getattr(obj, '__qualname__', obj)} with these arguments")
    return row(cap, *args, **kwargs)


def _suspends(fn: types.FunctionType) -> bool:
    """Whether a call of a library built on JAX gives a generator: its state is no result of a pure call. Those of hosts
    are contexts, which the graph breaks at."""
    return bool(fn.__code__.co_flags & SUSPENDS) and str(module_of(fn)).partition(".")[0] != "jax" and not is_host(fn)


def _real_function(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    own = own_class(args[0]) if args else None
    ours = own is not None and is_made(cap, own)
    if is_library(fn.value) and fn.value.__name__ in CONTEXTS and not ours:
        raise Break("with", fn.value.__qualname__)
    if is_library(fn.value) and not ours and not _suspends(fn.value) and (own is None or not changes_object(fn.value)):
        opened = open_callable(cap, fn)
        if opened is not None:
            return call(cap, opened, args, kwargs)
        if fn.value.__name__ == "__new__" and args and holds(args[0], type) and (
                not is_library(args[0].value) or is_made(cap, args[0].value)):
            return OPERATIONS.new_of_library(cap, args[0].value, fn.value)
        if args and holds(args[0], type) and equinox_modules.makes(cap, fn.value, args[0].value):
            return OPERATIONS.new_module(cap, args[0].value, args[1:], kwargs)
        if equinox_modules.notes_filling(cap, fn.value, args):
            return Const(None)
        return library_call(cap, fn.value, args, kwargs)
    on_data = fn.value.__module__ in PURE_ON_DATA and fn.value.__name__ not in OUTSIDE
    if on_data and all(map(_is_data, (*args, *kwargs.values()))):
        return fold_call(cap, fn.value, args, kwargs)
    if getattr(fn.value, "_dynacomp_break", None):
        raise Break("user", fn.value._dynacomp_break)
    made = as_function(cap, fn)
    if not on_data and not is_library(fn.value):
        cap.known.entered[id(fn.value)] = made
    return inline(cap, made, args, kwargs)


def _c_function(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A C function: a method of a modelled type, a pure function of constants, or a break."""
    module = getattr(obj, "__module__", None)
    if module in FIRST_CALLED:
        FIRST_CALLED.pop(module)()
        return call(cap, Const(obj), args, kwargs)
    if isinstance(obj, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
        bound = _descriptor_call(cap, obj, args, kwargs)
        if bound is not None:
            return bound
    if module == "_operator" and obj.__name__ in IN_PLACE and isinstance(args[0], MutableV):
        raise Break("call", f"operator.{obj.__name__} of another copy of that module")
    if module in FOLDABLE_MODULES or obj in FOLDABLE or _is_of_literal(obj):
        return fold_call(cap, obj, args, kwargs)
    owner: Any = getattr(obj, "__self__", None)
    if isinstance(owner, type):
        if (type(owner), obj.__name__) in CONST_METHODS:
            return call(cap, BuiltinMethodV(Const(owner), obj.__name__), args, kwargs)
        if payload_base(owner) is not None:
            return OPERATIONS.class_method(cap, owner, obj.__name__, args, kwargs)
        if owner in (dict, str, bytes, int, float):
            return fold_call(cap, obj, args, kwargs)
    if _counts(obj, (*args, *kwargs.values())):
        found = fold_call(cap, obj, args, kwargs)
        if is_const(found) and is_literal(found.value):
            return found
    raise Break("call", f"{module or ''}{'.' if module else ''}{getattr(obj, '__qualname__', obj)}")


def _counts(fn: Any, given: tuple[Value, ...]) -> bool:
    """Whether it is a function in C, of a library that gives the same for the same arguments, and these are whole
    numbers (`scipy.fftpack.next_fast_len`)."""
    return type(getattr(fn, "__self__", None)) is types.ModuleType and bool(given) and bool(
        steady_library(str(fn.__module__))) and all(type_of(v) in (int, bool) for v in given)


def _is_of_literal(fn: Any) -> bool:
    """Whether it is a method of a literal. Functions that are no methods say None of their `__self__`, or nothing."""
    owner = getattr(fn, "__self__", fn)
    return isinstance(owner, _FOLDABLE_TYPES) and (owner is not None or type(fn) is types.MethodWrapperType)


def _descriptor_call(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    owner, first = obj.__objclass__, args[0]
    if first.payload is not None and owner in BASES:
        return OPERATIONS.inherited(cap, first, obj, args[1:], kwargs)
    if owner is object or is_object(first):
        return OPERATIONS.object_method(cap, obj.__name__, first, args[1:], kwargs)
    try:
        if issubclass(type_of(first), owner):
            if resolve(cap, type_of(first), obj.__name__)[1] is not obj:  # the class of `first` overrides it
                return fold_call(cap, obj, args, kwargs) if owner in _FOLDABLE_TYPES else None
            return call(cap, BuiltinMethodV(first, obj.__name__), args[1:], kwargs)
    except NotConstant:
        pass
    return None


for _cls, _caller in ((FunctionV, inline), (MethodV, _method), (BuiltinMethodV, _builtin_method),
                      (PartialV, _partial), (ObjectV, _object), (LibraryV, _library), (Const, _const),
                      (ArrayV, _array)):
    define(_cls, Kind(call=_caller))  # type: ignore[arg-type]

OPERATIONS.call = call
OPERATIONS.as_function = as_function
OPERATIONS.enter = lambda cap, fn, args: inline(cap, as_function(cap, fn), args, {})
OPERATIONS.cell_content = cell_content
