"""Rules that users give for callees: one node, a constant, or another function in its place.

Capture asks `USER_RULES` before it looks at what is called. Callables are known by identity; the table
holds them weakly where Python can.

    >>> def scale(x): return x * 2
    >>> allow_in_graph(scale) is scale and USER_RULES.get(scale) is one_node
    True
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.calls.calls import BUILTINS, USER_RULES, call
from dynacomp.capture.symbolic.guards import identity_key
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.value import NotConstant, Value, as_python
from dynacomp.capture.wrapping.builder import wrap

Row = Callable[[Capture, Any, list[Value], dict[str, Value]], Value]


def is_compiling() -> bool:
    """True in code that is being compiled, False where Python runs it.

    The answer is a constant of the compiled code. After a graph break, what Python runs sees False,
    and the compiled code that goes on from there sees True.

        @dynacomp.jit
        def step(x):
            if not dynacomp.is_compiling():
                log(x)                      # only without the compiler
            return x * 2

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> def f(x):
        ...     return x * 2 if dynacomp.is_compiling() else x * 3
        >>> f(jnp.ones(2)).tolist(), dynacomp.jit(f)(jnp.ones(2)).tolist()
        ([3.0, 3.0], [2.0, 2.0])
    """
    return False


BUILTINS[is_compiling] = lambda cap: Const(True)


def allow_in_graph(fn: Any) -> Any:
    """Makes each call of `fn` one node of the graph, whose code capture does not look into; returns `fn`.

    fn: a function of arrays and pytrees that JAX can trace (`jax.jit(fn)` works), without side effects.
    Nothing inside it is guarded: what it reads from globals and closures is what it was when the call was
    compiled. Where JAX cannot trace it, the graph breaks and Python calls it. TypeError for classes, bound
    methods and what cannot be called.

        @dynacomp.allow_in_graph
        def attention(q, k, v): ...

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> @dynacomp.allow_in_graph
        ... def scores(q, k):
        ...     return q @ k.T
        >>> print(dynacomp.explain(lambda q: scores(q, q) + 1)(jnp.ones((2, 3))).result.tolist())
        [[4.0, 4.0], [4.0, 4.0]]
    """
    return _told("allow_in_graph", fn, one_node)


def assume_constant_result(fn: Any) -> Any:
    """Promises that `fn` gives the same result each time: it is called while capturing, once for each set
    of arguments, and its result is a constant of the compiled code; returns `fn`.

    fn: a function, called with Python values that capture knows. Where an argument is an array, Python
    calls it, after a graph break. TypeError for classes, bound methods and what cannot be called.

        @dynacomp.assume_constant_result
        def vocabulary_size(path): ...

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> @dynacomp.assume_constant_result
        ... def size_of_vocabulary(path):
        ...     print("reading", path)
        ...     return 3
        >>> f = dynacomp.jit(lambda x: x + size_of_vocabulary("words.txt"))
        >>> [f(jnp.ones(2)).tolist() for _ in range(3)]
        reading words.txt
        [[4.0, 4.0], [4.0, 4.0], [4.0, 4.0]]
    """
    return _told("assume_constant_result", fn, constant_result)


def substitute(original_fn: Any, *, skip_signature_check: bool = False) -> Callable[[Any], Any]:
    """Decorates a Python function that capture enters wherever the program calls `original_fn`.

    For functions that capture cannot look into, such as those written in C. Both must do the same: Python
    still calls the original. skip_signature_check: allow parameters that differ. TypeError where they do,
    or where `original_fn` is a class or a bound method; ValueError where it has a rule already.

        @dynacomp.substitute(numpy.hypot)
        def hypot(a, b):
            return jnp.sqrt(a * a + b * b)

    Example:
        >>> import dynacomp, jax.numpy as jnp, operator
        >>> plus = operator.methodcaller("__add__", 1)   # its code is in C
        >>> @dynacomp.substitute(plus, skip_signature_check=True)
        ... def added(x):
        ...     return x + 1
        >>> dynacomp.jit(lambda x: plus(x) * 2, fullgraph=True)(jnp.ones(2)).tolist()
        [4.0, 4.0]
    """
    def decorate(replacement: Any) -> Any:
        if not isinstance(replacement, types.FunctionType):
            raise TypeError(f"dynacomp.substitute: the replacement is to be a Python function, got {replacement!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, replacement)
        _told("substitute", original_fn,
              lambda cap, fn, args, kwargs: call(cap, Const(replacement), args, kwargs))
        return replacement

    return decorate


# --- the rows


def one_node(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    cap.libraries.promised += 1
    try:
        return library_call(cap, fn, args, kwargs)
    finally:
        cap.libraries.promised -= 1


def constant_result(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result, found while capturing; attempts at one capture share it."""
    name = getattr(fn, "__qualname__", repr(fn))
    try:
        known_args = [as_python(a) for a in args], {k: as_python(v) for k, v in kwargs.items()}
    except NotConstant:
        raise Break("call", f"{name}, whose result is constant, on values that only exist at run time") from None
    key = (id(fn), identity_key(tuple(known_args[0])), identity_key(tuple(known_args[1].items())))
    if key not in cap.lessons.results:
        try:
            cap.lessons.results[key] = fn(*known_args[0], **known_args[1])
        except ours(Exception) as error:
            raise Raised(Const(error)) from None
    result = cap.lessons.results[key]
    return wrap(cap, result, S.Root(result, f"{name}()"))


# --- telling


def _told(what: str, fn: Any, row: Row) -> Any:
    if isinstance(fn, (type, types.MethodType)) or not callable(fn):
        raise TypeError(f"dynacomp.{what}: expected a function, got {fn!r}; of a class, name the function in it")
    if USER_RULES.get(fn) not in (None, row):
        raise ValueError(f"dynacomp.{what}: {fn!r} has a rule already")
    USER_RULES[fn] = row
    return fn


def _check_signatures(original: Any, replacement: Any) -> None:
    """TypeError where a call of one would not fit the other; functions in C often do not tell theirs."""
    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):
        return
    got = inspect.signature(replacement)
    if [_shape(p) for p in wanted.parameters.values()] != [_shape(p) for p in got.parameters.values()]:
        raise TypeError(f"dynacomp.substitute: {replacement.__qualname__}{got} has not the parameters of "
                        f"{getattr(original, '__qualname__', original)}{wanted}; skip_signature_check=True allows that")


def _shape(p: inspect.Parameter) -> tuple[Any, ...]:
    name = p.name if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) else ""
    return name, p.kind, p.default is not p.empty
