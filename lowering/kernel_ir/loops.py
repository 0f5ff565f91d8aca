"""The Kernel IR: loops over arrays, the last thing before source code.

A Kernel is a nest of loops over contiguous row-major buffers. It is the one language that fusion
writes and that every backend (C++, Triton, the interpreter) reads.

    expressions   Const, Ref, Load, Index, Apply      (each has a NumPy `dtype`)
    statements    Let, Store, Loop

An iteration of a Loop runs `body`, then folds `accs` and `scans`, then runs `after`. `Loop.accs`
are reductions: read through `Ref(name)` after the loop. `Loop.scans` are running folds: `Ref(name)`
in `after` is the inclusive prefix so far.

Softmax of a `[n, d]` array, one kernel. `vector` marks the loop whose iterations are SIMD lanes (or
the threads of a GPU block); on any path into the nest there is at most one, and it need not be the
innermost: in a sum over the leading axis it is the outer loop, over contiguous columns.

    kernel softmax(x: f32[n, d]) -> (out: f32[n, d]) local (e: f32[d]) sizes (n, d):
        parallel i0 < n:
            vector i1 < d:
                t0 = x[d*i0 + i1]
                acc m: max f32 = t0
            vector i2 < d:
                t1 = exp(sub(load x[d*i0 + i2], m))
                e[i2] = t1
                acc s: sum f32 = t1
            vector i3 < d:
                out[d*i0 + i3] = div(e[i3], s)

    kernel column_sum(x: f32[n, d]) -> (out: f32[d]) sizes (n, d):
        parallel vector i0 < d:
            for i1 < n:
                t0 = x[d*i1 + i0]
                acc s: sum f32 = t0
            out[i0] = s

Index expressions are SymPy over loop symbols, size symbols (both integer, sizes positive) and the
names of integer `Let`s and accumulators (an indirect load: gather, embedding). All are element
offsets, never bytes. They are sums, products and integer powers of integers and symbols, and the
functions `FloorDiv`, `FloorMod` of `indexing.py` and SymPy's `Min`, `Max`, `floor`, `Mod` (of sizes).
Symbols are compared by name: make them only with `symbol()` and `size()`. Loop variables of loops
side by side may share a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard, Union

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class

Change = Callable[[sympy.Expr], sympy.Expr]


class Expression:
    """What each kind of expression says of itself: `children`, the expressions directly inside; `place`, the index
    expression that it holds, if it holds one; `truth`, what a literal is as a condition (others: None); `is_bound`,
    whether it is read anywhere at no cost, and needs no name."""

    is_bound = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    @property
    def place(self) -> sympy.Expr | None:
        return None

    @property
    def truth(self) -> bool | None:
        return None

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Any:
        """The expression with `fn` of its children and `change` of its place."""
        return self


@dataclass(frozen=True, eq=False)
class Const(Expression):
    """A literal: bool, int, float or complex, of `dtype`. NaN and infinities included: two NaNs are
    equal here, 0.0 and -0.0 are not."""

    value: Any
    dtype: np.dtype
    is_bound = True

    @property
    def truth(self) -> bool:
        return bool(self.value)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells Consts apart."""
        value = complex(self.value)
        if value != value:
            return self.dtype, repr(self.value)
        return self.dtype, self.value, *(math.copysign(1, part) < 0 for part in (value.real, value.imag))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


@dataclass(frozen=True)
class Ref(Expression):
    """The value of an earlier `Let`, accumulator or scan."""

    name: str
    dtype: np.dtype
    is_bound = True


@dataclass(frozen=True)
class Load(Expression):
    """`buffer[index]`; where `mask` (a bool expression) is false memory is not touched and the
    value is `other` (needed when `mask` is given)."""

    buffer: str
    index: sympy.Expr
    dtype: np.dtype
    mask: Expr | None = None
    other: Expr | None = None

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple(e for e in (self.mask, self.other) if e is not None)

    @property
    def place(self) -> sympy.Expr:
        return self.index

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Load:
        mask, other = (e if e is None else fn(e) for e in (self.mask, self.other))
        return Load(self.buffer, change(self.index), self.dtype, mask, other)


@dataclass(frozen=True)
class Index(Expression):
    """The value of an index expression, converted to `dtype` (iota, masks)."""

    expr: sympy.Expr
    dtype: np.dtype
    is_bound = True

    @property
    def place(self) -> sympy.Expr:
        return self.expr

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Index:
        return Index(change(self.expr), self.dtype)


@dataclass(frozen=True)
class Apply(Expression):
    """A scalar function of the table `dynacomp.lowering.kernel_ir.scalars.SCALARS`, by name."""

    fn: str
    args: tuple[Expr, ...]
    dtype: np.dtype

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Apply:
        return Apply(self.fn, tuple(map(fn, self.args)), self.dtype)


Expr = Union[Const, Ref, Load, Index, Apply]


class Statement:
    """What each kind of statement says of itself: `values`, what it computes, and `exprs`, with masks; `inside`, the
    statements in it; `folds`, what it folds, in that order; `times`, how often it runs what is inside, infinite where
    that is unknown; `places`, its own index expressions; `writes`, the buffers that it stores to; `defines`, the
    names, with dtypes, that are read after it."""

    parallel = False
    vector = False

    @property
    def values(self) -> tuple[Expr, ...]:
        return ()

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return self.values

    @property
    def inside(self) -> tuple[Stmt, ...]:
        return ()

    @property
    def folds(self) -> tuple[Acc | Scan, ...]:
        return ()

    @property
    def times(self) -> float:
        return 1

    @property
    def defines(self) -> tuple[tuple[str, np.dtype], ...]:
        return ()

    @property
    def places(self) -> tuple[sympy.Expr, ...]:
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Let(Statement):
    """`name = value`: names are unique in a Kernel."""

    name: str
    value: Expr

    @property
    def values(self) -> tuple[Expr, ...]:
        return (self.value,)

    @property
    def defines(self) -> tuple[tuple[str, np.dtype], ...]:
        return ((self.name, self.value.dtype),)

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Let:
        """The statement with `fn` of its expressions and `change` of its places."""
        return Let(self.name, fn(self.value))


@dataclass(frozen=True)
class Store(Statement):
    """`buffer[index] = value`, or, with `mode` "add", "min", "max", "mul", a read-modify-write
    that must be atomic where iterations of a parallel loop can meet (scatter)."""

    buffer: str
    index: sympy.Expr
    value: Expr
    mode: str = "set"
    mask: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        return (self.value,)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,) if self.mask is None else (self.value, self.mask)

    @property
    def places(self) -> tuple[sympy.Expr, ...]:
        return (self.index,)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.buffer,)

    def mapped(self, fn: Callable[[Expr], Expr], change: Change = lambda index: index) -> Store:
        """The statement with `fn` of its expressions and `change` of its places."""
        mask = None if self.mask is None else fn(self.mask)
        return Store(self.buffer, change(self.index), fn(self.value), self.mode, mask)


@dataclass(frozen=True)
class Acc:
    """A reduction carried by a Loop. `fold` is sum, prod, max, min, any, all, xor, argmax or argmin.

    `value` is folded once an iteration, after the body ran, into `dtype`, starting from the
    fold's identity (for max/min: -inf/+inf or the integer limits; NaN wins as in JAX).
    argmax/argmin fold (value, position): `name` is the position of the first best, an integer of
    `dtype`; `position` is its index expression.
    """

    name: str
    fold: str
    value: Expr
    dtype: np.dtype
    position: sympy.Expr | None = None
    is_prefix = False

    @property
    def is_arg(self) -> bool:
        return self.fold in ("argmax", "argmin")


@dataclass(frozen=True)
class Scan:
    """A running fold: like Acc, but `Ref(name)` may be read in the statements of `Loop.after`,
    which run after every iteration's fold, and holds the inclusive prefix."""

    name: str
    fold: str
    value: Expr
    dtype: np.dtype
    position = None
    is_arg = False
    is_prefix = True


@dataclass(frozen=True)
class Loop(Statement):
    """`for var in range(extent)`: body, then folds `accs` and `scans`, then `after`.

    parallel: iterations are independent (no accs, no scans) and may be spread over threads or a
    GPU grid. vector: iterations may run as lanes (independent, or folded into `accs`; never with
    `scans`); loops inside it run in step for all lanes. With both flags, lanes are spread too.
    reverse: runs from extent-1 down to 0 (reverse cumulative sums).
    """

    var: sympy.Symbol
    extent: sympy.Expr
    body: tuple[Stmt, ...]
    accs: tuple[Acc, ...] = ()
    scans: tuple[Scan, ...] = ()
    after: tuple[Stmt, ...] = ()
    parallel: bool = False
    vector: bool = False
    reverse: bool = False

    @property
    def values(self) -> tuple[Expr, ...]:
        return tuple(f.value for f in self.folds)

    @property
    def folds(self) -> tuple[Acc | Scan, ...]:
        return (*self.accs, *self.scans)

    @property
    def times(self) -> float:
        return int(self.extent) if self.extent.is_Integer else math.inf

    @property
    def defines(self) -> tuple[tuple[str, np.dtype], ...]:
        return tuple((a.name, a.dtype) for a in self.accs)

    @property
    def inside(self) -> tuple[Stmt, ...]:
        return (*self.body, *self.after)

    @property
    def places(self) -> tuple[sympy.Expr, ...]:
        return (self.extent, *(a.position for a in self.accs if a.position is not None))


Stmt = Union[Let, Store, Loop]


def below(roots: Iterable[Expr | None]) -> Iterator[Expr]:
    """All expressions in these, through masks; None is none."""
    for expr in roots:
        if expr is not None:
            yield expr
            yield from below(expr.children)


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, inner ones after the Loop that holds them."""
    for stmt in body:
        yield stmt
        yield from statements(stmt.inside)


def inner_loops(body: Iterable[Stmt]) -> list[Loop]:
    """The loops that stand in a body, not those inside of them."""
    return [*of_class(Loop, body)]


@dataclass(frozen=True)
class Buffer:
    """A contiguous row-major array: `shape` in SymPy, a NumPy (or ml_dtypes) `dtype`."""

    name: str
    shape: tuple[sympy.Expr, ...]
    dtype: np.dtype

    @property
    def numel(self) -> sympy.Expr:
        return sympy.Mul(*self.shape) if self.shape else sympy.Integer(1)

    @property
    def in_kernels(self) -> Buffer:
        """What kernels see of it: complex numbers are pairs of floats."""
        if self.dtype.kind != "c":
            return self
        return Buffer(self.name, (*self.shape, sympy.Integer(2)), np.dtype(f"f{self.dtype.itemsize // 2}"))


@dataclass(frozen=True)
class Kernel:
    """Loops from `inputs` to `outputs`; `sizes` are the free size symbols, in argument order.

    A buffer in both `inputs` and `outputs` is updated in place. `locals` are scratch: private to
    one iteration of the innermost parallel loop around their use (one copy a thread is enough), with
    undefined contents at its start; small enough to stay in cache.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    sizes: tuple[sympy.Symbol, ...] = field(default=())
    locals: tuple[Buffer, ...] = field(default=())


def is_nest(stmt: Any) -> TypeGuard[Loop]:
    """Whether a statement is a loop around others."""
    return isinstance(stmt, Loop)


def is_load(expr: Any) -> TypeGuard[Load]:
    """Whether a value is read from a buffer."""
    return isinstance(expr, Load)
