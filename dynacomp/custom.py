"""`dynacomp.custom_op`: an operation of one's own, in C++ or in Python, that is as good as one of JAX's.

    scale = dynacomp.custom_op(
        "scale", abstract=lambda x, *, by: x, derivative=lambda primals, tangents, *, by: scale(tangents[0], by=by),
        batching="broadcast", cpp='''
        template <class T>
        void scale(Array<const T> x, Array<T> out, double by) {
          for (int64_t i = 0; i < x.size(); i++) out[i] = x[i] * T(by);
        }''')

    scale(x, by=2.0)                          # eager, or under jax.jit, jax.grad, jax.vmap: a custom call of XLA
    dynacomp.jit(lambda x: scale(x + 1, by=2.0) * 3)(x)     # one native call with what is around it
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from dynacomp import notices
from dynacomp.capture.calls.user_rules import allow_in_graph
from dynacomp.codegen.native_ops import NativeOp, foreign_call, register
from dynacomp.lowering.primitives import own
from dynacomp.options import resolve

BATCHING: dict[str, Callable[[Any], None]] = {"sequential": own.in_turn, "broadcast": own.broadcasting}
Rule = Callable[..., Any]


def custom_op(name: str, call: Rule | None = None, *, abstract: Rule,
              derivative: Rule | tuple[Rule, Rule] | None = None, batching: str | Rule = "sequential",
              cpp: str | None = None) -> Callable[..., Any]:
    """A function of arrays (by position) and static parameters (by keyword: hashable) that is one operation to JAX.

    call, or cpp: what computes it. call: a pure function of NumPy arrays, which Python calls; `custom_op(name,
    abstract=...)` decorates one. cpp: C++20 that defines a function `name`, or a template of one, which gets
    `Array<const T>` for each operand, `Array<T>` for each result, to be filled, then the parameters in the order of
    their names; it must not throw. T of float16 and bfloat16 computes as float. See the module's docstring and
    kernels/array.h. In compiled code it is part of the native call.
    abstract: the results' shapes and dtypes (arrays, ShapeDtypeStructs, or a tuple of them) from those of the
    arguments. derivative: `rule(primals, tangents, **params)`, the tangents of the results (linear in the tangents, in
    JAX's or other custom operations, so that JAX can transpose it); or a pair `forward(*args, **params) -> (result,
    residuals)`, `backward(residuals, cotangent, **params) -> cotangents`, as of `jax.custom_vjp`.
    batching: "sequential" (one element after another), "broadcast" (it takes further leading dimensions), or
    `rule(size, is_batched, *args, **params) -> (result, is_batched)` as of `jax.custom_batching.custom_vmap`.

    Raises TypeError or ValueError for what is none of these. An operation of a name that is taken is another one.

    Example, computed by NumPy:
        >>> import dynacomp, jax, jax.numpy as jnp, numpy as np
        >>> @dynacomp.custom_op("doubled", abstract=lambda x: x, derivative=lambda primals, tangents: 2 * tangents[0])
        ... def doubled(x):
        ...     return np.multiply(x, 2)
        >>> doubled(jnp.ones(2)).tolist(), jax.grad(lambda x: doubled(x) * 3)(1.0).tolist()
        ([2.0, 2.0], 6.0)
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"dynacomp.custom_op: {name!r} is no identifier")
    if call is None and cpp is None:
        return functools.partial(custom_op, name, abstract=abstract, derivative=derivative, batching=batching)
    if (call is None) == (cpp is None):
        raise TypeError("dynacomp.custom_op: a Python function, or cpp=, not both")
    _check(abstract, derivative, batching)
    results = functools.partial(_results, name, abstract)
    compute = _in_cpp(NativeOp(name, cpp), results) if cpp is not None else _in_python(call, results)
    primitive = own.new_op(name, results, compute)
    if cpp is not None:
        register(NativeOp(name, cpp), primitive.name)
    bound: Rule = functools.partial(_bind, primitive, abstract)
    if isinstance(derivative, tuple):
        bound = _with_pair(bound, *derivative)
    elif derivative is not None:
        ad.primitive_jvps[primitive] = functools.partial(_jvp, primitive, derivative)
    BATCHING[batching](primitive) if isinstance(batching, str) else own.by_rule(primitive, batching)
    return allow_in_graph(_named(bound, name, call))


def _check(abstract: Any, derivative: Any, batching: Any) -> None:
    pair = isinstance(derivative, tuple) and len(derivative) == 2 and all(map(callable, derivative))
    if not callable(abstract) or not (derivative is None or callable(derivative) or pair):
        raise TypeError("dynacomp.custom_op: abstract= is a function, derivative= a function or a pair of them")
    if not callable(batching) and batching not in BATCHING:
        raise ValueError(f"dynacomp.custom_op: {batching=} is neither a function nor one of {', '.join(BATCHING)}")


def _named(bound: Rule, name: str, call: Rule | None) -> Rule:
    def op(*args: Any, **params: Any) -> Any:
        return bound(*args, **params)

    op.__name__ = op.__qualname__ = name
    op.__doc__ = call.__doc__ if call is not None else None
    return op


def _results(name: str, abstract: Rule, *structs: Any, **params: Any) -> list[jax.ShapeDtypeStruct]:
    """The results' shapes and dtypes, as a list."""
    found = abstract(*structs, **params)
    several = list(found) if isinstance(found, (tuple, list)) else [found]
    if not all(hasattr(s, "shape") and hasattr(s, "dtype") for s in several):
        raise TypeError(f"custom_op {name}: abstract= gave {found!r}, where shapes and dtypes are wanted")
    return [jax.ShapeDtypeStruct(tuple(s.shape), s.dtype) for s in several]


def _bind(primitive: Any, abstract: Rule, *args: Any, **params: Any) -> Any:
    """The result: an array, or a tuple where `abstract` gives a tuple or list."""
    arrays = [jnp.asarray(a) for a in args]
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    outs = primitive.bind(*arrays, **params)
    return tuple(outs) if isinstance(abstract(*structs, **params), (tuple, list)) else outs[0]


# --- what computes it, in terms of JAX


def _in_python(call: Any, results: Rule) -> Rule:
    def compute(*args: Any, **params: Any) -> list[Any]:
        structs = results(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args), **params)

        def on_host(*arrays: Any) -> list[np.ndarray]:
            made = call(*map(np.asarray, arrays), **params)
            several = made if isinstance(made, (tuple, list)) else [made]
            return [np.asarray(x, s.dtype) for x, s in zip(several, structs, strict=True)]

        return jax.pure_callback(on_host, structs, *args)

    return compute


def _in_cpp(op: NativeOp, results: Rule) -> Rule:
    def compute(*args: Any, **params: Any) -> Sequence[Any]:
        structs, options = results(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args), **params), resolve()
        return foreign_call(op, args, structs, params, options.cxx, options.cache_dir, _tell)(*args)

    return compute


def _tell(reason: str, hint: str) -> None:
    notices.tell("fallback", "", 0, reason, hint=hint)


# --- its derivative


def _jvp(primitive: Any, rule: Rule, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    outs = primitive.bind(*primals, **params)
    given = tuple(ad.instantiate_zeros(t) for t in tangents)
    moved = rule(tuple(primals), given, **params)
    return outs, list(moved) if isinstance(moved, (tuple, list)) else [moved]


def _with_pair(bound: Rule, forward: Rule, backward: Rule) -> Rule:
    @functools.lru_cache(maxsize=64)
    def with_params(params: tuple[tuple[str, Any], ...]) -> Any:
        fixed = dict(params)
        made = jax.custom_vjp(lambda *args: bound(*args, **fixed))
        made.defvjp(lambda *args: forward(*args, **fixed), lambda kept, moved: backward(kept, moved, **fixed))
        return made

    return lambda *args, **params: with_params(tuple(sorted(params.items())))(*args)
