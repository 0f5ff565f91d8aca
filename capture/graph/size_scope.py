"""Scopes: what is known of the sizes of one capture, and what was decided by their values in the call at hand.

A `Scope` knows each symbol's value in this call, and bounds that guards hold it to. Where algebra and bounds cannot
decide a comparison that the program or JAX asks for, the values do, and the answer is a `Relation`, which becomes a
guard. Two sizes that are found equal are one size from then on.

    >>> scope = Scope()
    >>> n, m = scope.symbol("n", 8), scope.symbol("m", 5)
    >>> n >= 1, n > m
    (True, True)
    >>> [str(r) for r in scope.relations]
    ['n - m - 1 >= 0']

A Scope without values (a symbol made with `value=None`) raises InconclusiveDimensionOperation instead, as JAX does.
"""

from __future__ import annotations

import contextlib
import dis
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from jax.errors import InconclusiveDimensionOperation

from dynacomp.capture.base.interrupts import OURS
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.graph.size_evaluation import evaluate, postfix
from dynacomp.capture.graph.size_lookups import file_of, hashing, looks_up
from dynacomp.capture.graph.sizes import (
    SYMBOL,
    Atom,
    Expr,
    Size,
    atoms,
    bounds,
    canonical,
    forget_errors,
    is_symbolic,
    single,
)

LEAST = 1  # of a symbol: an empty array gets an entry of its own, one of size 1 where somebody asks for that


@dataclass(frozen=True)
class Relation:
    """What was decided by the values at hand: `expr >= 0` ("ge") or `expr == 0` ("eq"), or that it is not so."""

    kind: str
    expr: Size
    holds: bool

    def __str__(self) -> str:
        signs = {("ge", True): ">=", ("ge", False): "<", ("eq", True): "==", ("eq", False): "!="}
        return f"{self.expr} {signs[self.kind, self.holds]} 0"

    def program(self) -> tuple[Any, ...]:
        """As guards evaluate it: see `postfix`."""
        return (*postfix(self.expr), ("int", 0), self.kind, *(() if self.holds else ("not",)))


@dataclass(eq=False)
class Scope:
    """The symbols of one capture.

    values: their values in this call (None: unknown). least, most: the bounds that guards hold them to. equal: what
    an atom was found equal to. relations: what was decided, in order. deciding: whether `==` of two sizes is a
    question of the program's, or of JAX for it: only then its answer is decided and noted; elsewhere sizes are keys.
    is_library: whether a file holds none of the program's code.
    """

    values: dict[str, int | None] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    equal: dict[Atom, Expr] = field(default_factory=dict)
    # What `canonical` has found since the last equality, by the terms: Sizes of one hash (those of -1 and of -2 are
    # equal) would be compared, for which they are made canonical.
    known: dict[Any, Expr] = field(default_factory=dict)
    relations: dict[Relation, None] = field(default_factory=dict)
    atoms: dict[Any, Atom] = field(default_factory=dict)
    deciding: int = 0
    is_library: Callable[[str], bool] = bool

    def symbol(self, name: str, value: int | None = None, least: int = LEAST) -> Size:
        """The symbol of that name."""
        self.values.setdefault(name, value)
        self.least.setdefault(name, least)
        return single(self, self.atom(SYMBOL, name))

    def atom(self, op: str, *args: Any) -> Atom:
        key = (op, args)
        found = self.atoms.get(key)
        if found is None:
            found = self.atoms[key] = Atom(op, args, len(self.atoms))
        return found

    def bound(self, name: str, least: int | None, most: int | None) -> None:
        """The symbol lies within these bounds (None: any), which the caller guards."""
        if least is not None:
            self.least[name] = max(least, self.least[name])
        if most is not None:
            self.most[name] = min(most, self.most.get(name, most))

    @contextlib.contextmanager
    def decides(self) -> Iterator[None]:
        """Within the block `==` of sizes is decided, as `>=` is everywhere."""
        self.deciding += 1
        try:
            yield
        finally:
            self.deciding -= 1
            forget_errors()

    @contextlib.contextmanager
    def undecided(self) -> Iterator[None]:
        """Within the block nothing is decided by this call's values: what asks for that raises."""
        values, self.values = self.values, dict.fromkeys(self.values)
        try:
            yield
        finally:
            self.values = values

    def value(self, expr: Expr) -> int:
        """The value of `expr` in this call; InconclusiveDimensionOperation where it is unknown."""
        found = evaluate(expr, self.values)
        if found is None:
            raise InconclusiveDimensionOperation(f"the value of {expr} is not known")
        return found

    def is_nonnegative(self, expr: Expr) -> bool:
        """`expr >= 0`: by its bounds, else decided by this call's values and noted."""
        expr = canonical(expr)
        low, high = bounds(expr)
        if low >= 0 or high < 0:
            return low >= 0
        return self.decided("ge", expr, self.value(expr) >= 0)

    def known_sign(self, expr: Size) -> bool | None:
        """True: `expr >= 0`; False: `expr <= 0`; None where neither its bounds nor what was decided before tell."""
        low, high = bounds(expr)
        if low >= 0 or high <= 0:
            return low >= 0
        more: Any = expr
        forms: tuple[Any, ...] = (more, more - 1, -more, -more - 1)
        return next((holds == (place < 2) for place, form in enumerate(forms) for holds in (True, False)
                     if Relation("ge", form, holds) in self.relations), None)

    def is_zero(self, expr: Expr) -> bool:
        """`expr == 0`; two sizes that are found equal are one from then on."""
        expr = canonical(expr)
        low, high = bounds(expr)
        if low > 0 or high < 0 or low == high:
            return low == high == 0
        if not self.decided("eq", expr, self.value(expr) == 0):
            return False
        assert is_symbolic(expr)
        unify(self, expr)
        return True

    def is_asked_equal(self, difference: Size, asking: FrameType, unknown: bool) -> bool:
        """Whether two sizes are equal, for the Python code that compares them; `unknown`: neither is a number."""
        if is_key(asking, self.is_library) or is_moot(asking) or is_detour(asking):
            return False
        if unknown and is_shortcut(asking) and self.value(difference) != 0:
            return False
        return self.is_zero(difference)

    def is_written(self, asking: FrameType) -> None:
        """Raises where the program's code makes a text of a size while JAX traces it. What libraries make of them is
        looked for in what they return."""
        if self.deciding and self.is_the_programs(asking):
            raise InconclusiveDimensionOperation("the text of a symbolic size is used where a constant is needed")

    def is_hashed(self, asking: FrameType) -> None:
        """Raises where the program's code looks a size up while JAX traces it, or an object that has one."""
        if self.deciding and self.is_the_programs(whose := hashing(asking)) and looks_up(whose):
            raise InconclusiveDimensionOperation("the hash of a symbolic size is used where a constant is needed")

    def is_the_programs(self, asking: FrameType) -> bool:
        """Whether code of the program's asks, no library's and none of ours."""
        return not self.is_library(file_of(asking)) and not str(asking.f_globals.get("__name__")).startswith(OURS)

    def decided(self, kind: str, expr: Any, holds: bool) -> bool:
        self.relations.setdefault(Relation(kind, expr, holds))
        return holds

    def __deepcopy__(self, memo: Any) -> Scope:
        return self


def unify(scope: Scope, expr: Size) -> None:
    """Makes use of `expr == 0`: the youngest atom that stands alone in it, symbols before quotients, is what the
    others make it. Where none does, the relation alone is known."""
    whole: Any = expr
    least = whole // math.gcd(*(k for _, k in expr.terms))  # 2*n - 12 says that n is 6
    alone = [(mono[0][0], k) for mono, k in least.terms
             if abs(k) == 1 and len(mono) == 1 and mono[0][1] == 1 and mono[0][0].op == SYMBOL]
    for atom, k in sorted(alone, key=lambda found: (found[0].op != SYMBOL, -found[0].index)):
        rest: Expr = single(scope, atom) - k * least
        if atom not in set(atoms(rest)):
            scope.equal[atom] = rest
            scope.known.clear()
            return


# --- who asks

# JAX's caches compare keys whose hashes differ, too: in these files, but for the functions of core.py about dimensions.
CACHING = frozenset({"core.py", "pjit.py", "linear_util.py", "api_util.py", "partial_eval.py", "util.py", "ad.py",
                     "batching.py", "mlir.py", "pxla.py", "api.py", "tree_util.py", "common.py"})


COMPARISONS = frozenset({"__eq__", "__ne__"})
OF_DIMENSIONS = ("definitely_equal", "divide_shape_sizes", "_cancel_divide", "cancel_divide", "canonicalize_slice")


def is_key(asking: FrameType, is_library: Callable[[str], bool]) -> bool:
    """Whether two sizes are compared as parts of keys, by the Python code that asked, a cache's. Where the program
    compares objects of its own that hold some, or captured what a library has made of them (`x.aval == aval`), when
    it is ours that calls the `__eq__`, that counts, as where a library other than JAX writes `==` between two."""
    path, name = asking.f_code.co_filename, asking.f_code.co_name
    if name == "__eq__":
        caller: FrameType = next((f for f in _callers(asking, 8) if f.f_code.co_name not in COMPARISONS), asking)
        return is_library(file_of(caller)) and not str(caller.f_globals.get("__name__")).startswith(OURS) and (
            "/jax/_src/" in caller.f_code.co_filename or not compares(caller))
    return "/jax/_src/" in path and path.rpartition("/")[2] in CACHING and not name.startswith(OF_DIMENSIONS)


def compares(frame: FrameType) -> bool:
    """Whether code is at an `==` or `!=` of its own: a dict or a cache that compares keys is called, or read."""
    return instructions(frame.f_code)[frame.f_lasti] == dis.opmap["COMPARE_OP"]


@remembered
def instructions(code: CodeType) -> bytes:
    return code.co_code


def is_shortcut(asking: FrameType) -> bool:
    """Whether JAX compares in a function of its own: where two sizes must be equal it asks `definitely_equal`; a plain
    `==` of two, which it takes to be false of sizes that may differ, only finds a shorter way. With a number it is a
    question as any other: `n % 2 == 0`."""
    return "/jax/_src/" in asking.f_code.co_filename and not asking.f_code.co_filename.endswith("/core.py")


# Functions of JAX that ask only to find a shorter way, of which the longer one does the same: whether a slice takes the
# whole axis, whether what is gathered is empty, whether a broadcast changes nothing but the sharding (shapes of other
# ranks, too, are compared size by size), whether all operands of a batch have one shape.
DETOURS = frozenset({"_index_to_gather", "_gather", "broadcast_in_dim", "broadcast_batcher"})
COMPARING = frozenset({"definitely_equal", "definitely_equal_shape", "is_empty_shape", "<genexpr>"})


def is_detour(asking: FrameType) -> bool:
    """Whether JAX asks in one of the functions above, or in one that compares for it."""
    frame: FrameType = next((f for f in _callers(asking, 5) if f.f_code.co_name not in COMPARING), asking)
    return frame.f_code.co_name in DETOURS and "/jax/_src/" in frame.f_code.co_filename


def is_moot(asking: FrameType) -> bool:
    """Whether JAX asks if a size is one of several (`definitely_equal_one_of_dim(n, [1, n])`) of which one is that
    very size, or if sizes that it broadcasts are 1, which all are one size or that number: whatever the others are."""
    for frame in _callers(asking, 4):
        name, found = frame.f_code.co_name, frame.f_locals
        if name == "definitely_equal_one_of_dim":
            return any(_same_terms(o, found["d1"]) for o in found["dlist"])
        if name == "_try_broadcast_shapes":
            sizes = [d for d in found["ds"] if type(d) is Size or d != 1]
            return all(_same_terms(d, sizes[0]) for d in sizes)
    return False


def _callers(asking: FrameType, most: int) -> Iterator[FrameType]:
    """The frame that asks, and those that have called it."""
    frame: FrameType | None = asking
    while frame is not None and most:
        yield frame
        frame, most = frame.f_back, most - 1


def _same_terms(a: Any, b: Any) -> bool:
    a, b = canonical(a), canonical(b)
    return type(a) is type(b) is Size and a.terms == b.terms
