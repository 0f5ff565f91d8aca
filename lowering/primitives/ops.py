"""The closed set of primitives that a lowered Graph may call: one row each.

An `Op` is a JAX primitive seen as a value: its `name` (JAX's, with `-` as `_`), its `kind` (how
the scheduler thinks of it), and the primitive itself, whose `bind` is the reference evaluation
and whose abstract evaluation (through `jax.eval_shape`) gives shapes and dtypes. Its arguments are
arrays and typed NumPy scalars; its keyword parameters keep JAX's names and meaning.

    pointwise  each element of the result depends on one element of each operand
    reduction  folds dimensions away
    layout     moves elements without computing
    gather     reads at computed positions
    scatter    writes at computed positions
    scan       running folds along a dimension
    template   wants a hand-written kernel: products, convolutions, sorting
    control    loops and branches, whose bodies are Graphs (`control`)
    extern     runs through XLA: a whole jaxpr as one node

To add a primitive: put its name in `_NAMES`, and give the loops a row (`lowering/rules`); a scalar function has both
by its row in `kernel_ir/scalars.py`.

    >>> import numpy as np
    >>> OPS["add"](np.float32(1), np.float32(2)).item()
    3.0
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
import sympy
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jax import lax
from jax._src.lax.linalg import geqrf_p
from jax.errors import InconclusiveDimensionOperation
from jax.extend.core import jaxpr_as_fun, primitives

from dynacomp.capture.graph.avals import Aval, as_struct, aval_of, is_aval
from dynacomp.capture.graph.graph import Node, is_node
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import forget_errors
from dynacomp.lowering.kernel_ir.scalars import OF_JAX
from dynacomp.lowering.primitives import control
from dynacomp.lowering.sizes.dims import map_aval, map_dims, to_size, to_sympy

POINTWISE, REDUCTION, LAYOUT, GATHER, SCATTER, SCAN, TEMPLATE, CONTROL, EXTERN = (
    "pointwise", "reduction", "layout", "gather", "scatter", "scan", "template", "control", "extern")


@dataclass(frozen=True, eq=False)
class Op:
    """One primitive. Calling it is its reference evaluation (eager JAX, or a trace): an array, or
    a tuple of arrays where the primitive has several results."""

    name: str
    kind: str
    reference: Callable[..., Any]

    def __call__(self, *args: Any, **params: Any) -> Any:
        out = self.reference(*args, **DEFAULTS.get(self.name, {}), **params)
        return tuple(out) if isinstance(out, (list, tuple)) else out

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        return self.name


_NAMES: dict[str, str] = {
    POINTWISE: " ".join(OF_JAX) + """
        bessel_i0e bessel_i1e bitcast_convert_type complex convert_element_type imag real reduce_precision
        round select_n threefry2x32""",
    REDUCTION: """
        argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
        reduce_window_max reduce_window_min reduce_window_sum""",
    LAYOUT: """
        broadcast_in_dim concatenate dynamic_slice dynamic_update_slice iota pad reshape rev slice
        transpose""",
    GATHER: "gather select_and_gather_add",
    SCATTER: "select_and_scatter_add",
    SCAN: "cumlogsumexp cummax cummin cumprod cumsum",
    TEMPLATE: """
        cholesky conv_general_dilated dot_general eig eigh fft geqrf householder_product lu sort svd top_k
        triangular_solve tridiagonal_solve""",
}

_ACCURATE = "cbrt cos exp exp2 expm1 log log1p log2 logistic rsqrt sin sqrt tan tanh"
DEFAULTS: dict[str, dict[str, Any]] = {
    **{n: {"accuracy": None} for n in _ACCURATE.split()},
    **{n: {"out_sharding": None} for n in "reduce_sum reduce_max reduce_min reduce_prod dot_general".split()},
    **{n: {"sharding": None} for n in ("broadcast_in_dim", "iota")},
    "reshape": {"dimensions": None, "sharding": None},
    "convert_element_type": {"weak_type": False, "sharding": None},
    "mul": {"out_dtype": None},
}
"""Parameters that a lowered Graph never carries: weak types live in Avals, an asked-for accuracy is
met by the default one, and what has another value than here goes to XLA (`expressible`). The
primitives still want them."""

_SCATTERS: dict[str, Callable[..., Any]] = {
    "scatter": lax.scatter, "scatter_add": lax.scatter_add, "scatter_mul": lax.scatter_mul,
    "scatter_min": lax.scatter_min, "scatter_max": lax.scatter_max,
}
_DERIVED = frozenset({"update_jaxpr", "update_consts"})
_FREE = frozenset({"weak_type", "accuracy"})


def kept_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a node of an Op carries, out of its primitive's."""
    dropped = DEFAULTS.get(name, {})
    return {k: v for k, v in params.items() if k not in dropped and k not in _DERIVED}


def expressible(name: str, params: Mapping[str, Any]) -> bool:
    """True where an Op says all that its primitive was asked: no sharding, no function of the
    user's in a scatter (`x.at[i].apply(f)`)."""
    if name == "scatter" and params.get("update_jaxpr") is not None:
        return False
    fixed = DEFAULTS.get(name, {}).items()
    return all(k in _FREE or _is_default(params.get(k, default), default) for k, default in fixed)


def _is_default(value: Any, default: Any) -> bool:
    """A sharding over no mesh (JAX's derivative rules leave them) is none."""
    mesh = getattr(value, "mesh", None)
    return bool(value == default or (mesh is not None and mesh.empty))


def _iota_2x32(*, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """The flat position of each element as (high, low) 32-bit words."""
    flat = np.arange(np.prod(shape, dtype=np.uint64), dtype=np.uint64).reshape(shape)
    return jnp.asarray((flat >> 32).astype(np.uint32)), jnp.asarray(flat.astype(np.uint32))


def _select_n(which: Any, *cases: Any) -> Any:
    """JAX's, with scalar cases allowed, as for every other pointwise Op."""
    shape = max((np.shape(x) for x in (which, *cases)), key=len)
    wide = [x if np.shape(x) == shape else jnp.broadcast_to(x, shape) for x in cases]
    return primitives.select_n_p.bind(which, *wide)


def _dim_as_value(*, dim: Any) -> jax.Array:
    return jnp.asarray(dim, dtype=jax.dtypes.canonicalize_dtype(np.int64))


def _again(x: Any, after: Any) -> Any:
    """x, to be read once `after` is there: see `lowering.passes.recompute`."""
    return x


def _run_jaxpr(*args: Any, jaxpr: Any, **_: Any) -> tuple[Any, ...]:
    return tuple(jax_jit(jaxpr_as_fun(jaxpr))(*args))


PRIMITIVES: dict[str, list[Any]] = {}
"""By name, those of JAX (as far as it shows them) and of ours: a program's own may be called the same."""


def is_known(primitive: Any) -> bool:
    """False for a primitive of the program's that has the name of another."""
    return primitive in PRIMITIVES.get(primitive.name.replace("-", "_"), (primitive,))


def _table() -> dict[str, Op]:
    shown = [p for p in (*vars(primitives).values(), geqrf_p) if hasattr(p, "bind")]
    for p in shown:
        PRIMITIVES.setdefault(p.name.replace("-", "_"), []).append(p)
    known = {p.name.replace("-", "_"): p for p in shown}
    rows = {n: Op(n, kind, known[n].bind) for kind, names in _NAMES.items() for n in names.split()}
    rows |= {n: Op(n, SCATTER, fn) for n, fn in _SCATTERS.items()}
    rows |= {n: Op(n, CONTROL, fn) for n, fn in control.REFERENCES.items()}
    own = (Op("dim_as_value", LAYOUT, _dim_as_value), Op("again", LAYOUT, _again),
           Op("iota_2x32_shape", LAYOUT, _iota_2x32), Op("extern", EXTERN, _run_jaxpr),
           Op("select_n", POINTWISE, _select_n))
    return rows | {op.name: op for op in own}


OPS: dict[str, Op] = _table()


def op_kind(node: Node) -> str:
    """The kind of a node's Op; "" for one that calls none."""
    return node.target.kind if isinstance(node.target, Op) else ""


def is_call(value: Any, name: str) -> TypeGuard[Node]:
    """Whether an operand is a Node that calls the Op of this name."""
    return is_node(value) and value.target is OPS[name]


def has_effects(node: Any) -> bool:
    """True for a node that must run exactly once, in its place: callbacks and the like."""
    return bool(op_kind(node) and node.kwargs.get("effects"))


def abstract(op: Op, args: Iterable[Any], params: dict[str, Any]) -> Any:
    """The Aval (or tuple of Avals) of `op` on `args` (Avals or NumPy scalars), SymPy dims allowed.

    Weak types are not tracked: the constants of a lowered Graph are typed. Raises what JAX raises
    when shapes or dtypes do not fit.
    """
    if op.kind == CONTROL:
        return control.results(op.name, params)
    if op.name == "extern":
        return tuple(_physical(a) for a in params["jaxpr"].out_avals)
    if op.name == "dim_as_value":
        return Aval((), jax.dtypes.canonicalize_dtype(np.int64))
    if op.name == "iota_2x32_shape":
        return (Aval(params["shape"], np.dtype(np.uint32)),) * 2
    back = functools.partial(to_size, scope=Scope())
    structs = [as_struct(map_aval(a, back)) if is_aval(a) else a for a in args]
    try:
        out = jax.eval_shape(functools.partial(op, **map_dims(params, back)), *structs)
    finally:
        forget_errors()
    avals = jax.tree.map(lambda s: map_aval(aval_of(s), to_sympy), out)
    return avals


def _physical(aval: Any) -> Aval:
    return map_aval(Aval(tuple(aval.shape), aval.dtype, aval.weak_type), to_sympy)


def infer(node: Node) -> Any:
    """The Aval (or Avals) that a call of a primitive Graph must have, from its arguments' Avals. Each pass asks for
    all nodes again, so that what calls of the same operands give is kept."""
    args = [a.aval if is_node(a) else a for a in node.args]
    if node.target is operator.getitem:
        return args[0][args[1]]
    key = node.target, jax.dtypes.canonicalize_dtype(np.int64), *map(_key, args), *map(_key, node.kwargs.items())
    if None not in key and key in _INFERRED:
        return _INFERRED[key]
    try:
        found = abstract(node.target, args, dict(node.kwargs))
    except InconclusiveDimensionOperation:  # decided by the sizes at hand when the Graph was traced
        return node.aval
    if None not in key:
        if len(_INFERRED) >= MOST_INFERRED:
            _INFERRED.clear()
        _INFERRED[key] = found
    return found


MOST_INFERRED = 20_000
_INFERRED: dict[tuple[Any, ...], Any] = {}
_DATA = (bool, int, float, str, types.NoneType, np.dtype, sympy.Expr, enum.Enum)


def _key(value: Any) -> Any:
    """An operand's Aval, a constant or a parameter by its content; None for what is not known by that."""
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    if isinstance(value, tuple):
        parts = tuple(map(_key, value))
        return None if None in parts else (type(value), parts)
    return (type(value), value) if is_aval(value) or isinstance(value, _DATA) else None
