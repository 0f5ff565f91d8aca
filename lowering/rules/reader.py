"""The value of a graph node at one position, as a loop expression.

A `Reader` knows which nodes are realised (they have a buffer, or will have: reading them is a
`Load`) and inlines all others by the rules of the `lower_*` tables. It interns expressions: equal
ones are one object, so that sharing is identity and walks over the resulting DAG are linear.

Loop variables are canonical, one for each (depth, extent), so that nodes of one shape share
variables and expressions. Variables of extent 1 are the number 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.graph import Node, is_node
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index, Load, Ref, is_load
from dynacomp.lowering.kernel_ir.scalars import SCALARS, evaluate, kind
from dynacomp.lowering.rules.limits import DECIDED, Found, chosen, decided
from dynacomp.lowering.sizes.indexing import ZERO, below, flat, upper
from dynacomp.lowering.sizes.symbols import symbol

Point = tuple[sympy.Expr, ...]
Rule = Callable[["Reader", Node, Point], Any]
BOOL, INT32, INT64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)


def shape_of(value: Any) -> tuple[sympy.Expr, ...]:
    """The shape of a Node (or of a scalar constant: none), in SymPy."""
    return tuple(map(sympy.sympify, value.aval.shape)) if is_node(value) else ()


def dtype_of(value: Any) -> np.dtype:
    """The dtype of a Node or of a NumPy scalar."""
    return np.dtype(value.aval.dtype if is_node(value) else value.dtype)


class Reader:
    """Interned expressions of one primitive Graph; see the module's docstring.

    `rules` maps op names to how a node is inlined; `realised` holds the names of nodes that are
    read from buffers; `views` names the buffer of those that only reshape another; `ranges`
    bounds every variable; `values` says what an index symbol computed from data (`position`) stands for;
    `limits` remembers how large whole numbers are.
    """

    def __init__(self, rules: Mapping[str, Rule], realised: set[str]) -> None:
        self.rules, self.realised = rules, realised
        self.views: dict[str, str] = {}
        self.ranges: dict[sympy.Symbol, sympy.Expr] = {}
        self.values: dict[sympy.Symbol, Expr] = {}
        self._variables: dict[tuple[int, sympy.Expr], sympy.Expr] = {}
        self._depths: dict[int, int] = {}
        self._interned: dict[Any, Expr] = {}
        self._memo: dict[Any, Any] = {}
        self._positions: dict[Any, sympy.Symbol] = {}
        self.limits: Found = {}
        self._mask: Expr | None = None

    # variables

    def variable(self, depth: int, extent: sympy.Expr) -> sympy.Expr:
        """The loop variable of `extent` at nesting `depth`."""
        extent = sympy.sympify(extent)
        if extent == 1:
            return ZERO
        if (depth, extent) not in self._variables:
            count = self._depths.get(depth, 0)
            self._depths[depth] = count + 1
            var = symbol(f"i{depth}" + (f"_{count}" if count else ""))
            self._variables[depth, extent] = var
            self.ranges[var] = extent
        return self._variables[depth, extent]

    def point(self, extents: Sequence[sympy.Expr], depth: int = 0) -> Point:
        """Variables for a nest of loops whose outermost is at `depth`."""
        at = []
        for extent in extents:
            at.append(self.variable(depth, extent))
            depth += at[-1] != 0
        return tuple(at)

    # making expressions

    def intern(self, expr: Expr) -> Expr:
        return self._interned.setdefault(_key(expr), expr)

    def const(self, value: Any, dtype: np.dtype) -> Expr:
        return self.intern(Const(value, np.dtype(dtype)))

    def place(self, expr: sympy.Expr) -> Expr:
        """Where something lies, for what wants an index and no value."""
        return self.intern(Index(sympy.sympify(expr), INT64))

    def index(self, expr: sympy.Expr, dtype: np.dtype) -> Expr:
        """The value of an index expression."""
        expr = sympy.sympify(expr)
        if expr.is_Integer:
            return self.const(int(expr), dtype)
        computed = self._computed(expr, np.dtype(dtype))
        return self.intern(Index(expr, np.dtype(dtype))) if computed is None else computed

    def _computed(self, expr: sympy.Expr, dtype: np.dtype) -> Expr | None:
        """A position that is a sum of multiples of values, computed with these: an index takes lanes apart.
        Integers may wrap on the way, as what is converted in the end does; floats may not."""
        if expr in self.values:
            return self.apply("convert", self.values[expr], dtype=dtype)
        if dtype.kind not in "iu" or not expr.free_symbols & self.values.keys():
            return None
        terms = [t.as_coeff_Mul() for t in sympy.Add.make_args(sympy.expand(expr))]
        if not all(c.is_Integer and (v in self.values or not v.free_symbols & self.values.keys()) for c, v in terms):
            return None
        parts = [self._times(c, self.index(v, dtype)) for c, v in terms if v in self.values]
        rest = sympy.Add(*(c * v for c, v in terms if v not in self.values))
        return functools.reduce(lambda a, b: self.apply("add", a, b), parts + [self.index(rest, dtype)] * (rest != 0))

    def _times(self, by: sympy.Expr, value: Expr) -> Expr:
        wrapped = np.array(int(by)).astype(value.dtype).item()
        return value if by == 1 else self.apply("mul", value, self.const(wrapped, value.dtype))

    def apply(self, fn: str, *args: Expr, dtype: np.dtype | None = None) -> Expr:
        """`fn(*args)`; the dtype follows from the table unless the function is `free`."""
        rule = SCALARS[fn].rule
        if fn == "convert" and args[0].dtype == dtype:
            return args[0]
        result = BOOL if rule == "bool" else args[-1].dtype if dtype is None else np.dtype(dtype)
        simple = _simpler(self, fn, args, result)
        if simple is not None:
            return simple
        return self.intern(Apply(fn, args, result))

    def compare(self, fn: str, left: sympy.Expr, right: sympy.Expr) -> Expr:
        """A comparison of index expressions, as bool; what ranges decide is a constant."""
        if (fn == "lt" and below(left, right, self.ranges)) or (
            fn == "ge" and right == 0 and upper(left, self.ranges) is not None
        ):
            return self.const(True, BOOL)
        wide = INT64 if any(not v.is_Integer or v >= 2**31 for v in map(self._bound, (left, right))) else INT32
        return self.apply(fn, self.index(left, wide), self.index(right, wide))

    def _bound(self, expr: sympy.Expr) -> sympy.Expr:
        expr = sympy.sympify(expr)
        return sympy.Add(
            *(
                abs(t)
                for t in sympy.Add.make_args(
                    expr.xreplace({v: self.ranges[v] for v in expr.free_symbols if v in self.ranges})
                )
            )
        )

    def all_of(self, *conditions: Expr | None) -> Expr | None:
        """The conjunction of conditions; None is true."""
        result: Expr | None = None
        for c in conditions:
            if c is None or c.truth:
                continue
            if c.truth is False:
                return c
            result = c if result is None or result is c else self.apply("and", result, c)
        return result

    def position(self, expr: Expr, extent: sympy.Expr) -> sympy.Symbol:
        """An index symbol for an integer expression that is known to lie in [0, extent)."""
        key = (id(expr), extent)
        if key not in self._positions:
            var = symbol(f"at{len(self._positions)}")
            self._positions[key] = var
            self.values[var], self.ranges[var] = expr, extent
        return self._positions[key]

    # reading nodes

    def read(self, value: Any, at: Point, part: int | None = None) -> Expr:
        """The value of a Node (its `part`-th result) or of a NumPy scalar at position `at`.

        Raises KeyError for an op without a rule that is not realised.
        """
        if not is_node(value):
            return self.const(value.item(), value.dtype)
        key = (value, at, part, id(self._mask))
        if key not in self._memo:
            self._memo[key] = self._read(value, at, part)
        return self._memo[key]

    def fresh_read(self, node: Node, at: Point) -> Expr:
        """How the rules compute `node`, whether or not it is realised."""
        if op_of(node) is None:
            source, which = node.args
            return self.rules[source.target.name](self, source, at)[which]
        return self.rules[node.target.name](self, node, at)

    def _read(self, node: Node, at: Point, part: int | None) -> Expr:
        if node.name in self.realised:
            buffer = self.views.get(node.name, node.name)
            return self.load(buffer, flat(at, shape_of(node)), dtype_of(node), self._lies_inside(at, shape_of(node)))
        if op_of(node) is None:  # operator.getitem of a node with several results
            source, which = node.args
            return self.read(source, at, which)
        result = self.rules[node.target.name](self, node, at)
        return result if part is None else result[part]

    def forget(self) -> None:
        """Drops remembered readings: the set of realised nodes has changed."""
        self._memo.clear()

    def _lies_inside(self, at: Point, shape: Point) -> bool:
        """Is `at` inside of an array whatever a mask says? What is computed from data is in range only under it."""
        return all(not i.free_symbols & self.values.keys() and below(i, n, self.ranges) for i, n in zip(at, shape))

    def load(self, buffer: str, index: sympy.Expr, dtype: np.dtype, safe: bool = False) -> Expr:
        """`buffer[index]`, where the mask holds unless it is `safe` anywhere: so every reader shares one value."""
        if self._mask is None or safe:
            return self.intern(Load(buffer, index, dtype))
        return self.intern(Load(buffer, index, dtype, self._mask, self.const(np.zeros((), dtype).item(), dtype)))

    def read_where(self, mask: Expr | None, value: Any, at: Point, other: Expr) -> Expr:
        """`value` at `at` where `mask` holds (`at` may lie outside elsewhere), `other` elsewhere."""
        if mask is None:
            return self.read(value, at)
        if mask.truth is not None:
            return self.read(value, at) if mask.truth else other
        inside = self.read_under(mask, value, at)
        if is_load(inside) and inside.mask is mask and self._mask is None:
            return self.intern(replace(inside, other=other))
        return self.apply("select", mask, inside, other)

    def load_where(self, mask: Expr | None, buffer: str, index: sympy.Expr, dtype: np.dtype) -> Expr:
        """`buffer[index]` where `mask` holds; elsewhere anything, without touching memory."""
        outer, self._mask = self._mask, self.all_of(self._mask, mask)
        loaded = self.load(buffer, index, dtype)
        self._mask = outer
        return loaded

    def read_under(self, mask: Expr | None, value: Any, at: Point) -> Expr:
        """`value` at `at` where `mask` holds; elsewhere anything, without touching memory."""
        outer = self._mask
        self._mask = self.all_of(outer, mask)
        inside = self.read(value, at)
        self._mask = outer
        return inside


def _simpler(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    """An equal expression without the function, bit for bit, where one is at hand."""
    consts = [*of_class(Const, args)]
    if len(consts) == len(args):
        value = evaluate(fn, tuple(np.asarray(a.value).astype(a.dtype) for a in consts), dtype)
        return reader.const(value.item(), dtype)
    row = SIMPLER.get(fn)
    return None if row is None else row(reader, fn, args, dtype)


def _select(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    which, yes, no = args
    if which.truth is not None or yes is no:
        return no if which.truth is False else yes
    if yes.truth is not None and no.truth is not None and yes.dtype == BOOL and yes.truth and not no.truth:
        return which
    return None


def _both(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    if dtype != BOOL or args[0].truth is None:
        return None
    return args[1] if args[0].truth == (fn == "and") else args[0]


def _convert(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    if isinstance(args[0], Index) and kind(dtype) in ("i", "u"):
        return reader.index(args[0].expr, dtype)
    return None


def _extreme(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    if kind(dtype) in ("i", "u"):
        return chosen(fn, args[0], args[1], reader.ranges, reader.limits)
    return _scaled(reader, fn, args, dtype) if fn == "max" else None


def _compared(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    if kind(args[0].dtype) not in ("i", "u"):
        return None
    sure = decided(fn, args[0], args[1], reader.ranges, reader.limits)
    return None if sure is None else reader.const(sure, BOOL)


def _scaled(reader: Reader, fn: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    """A float times, divided by, or not below a constant."""
    x, y = args
    if isinstance(x, Const) and fn != "div":  # these commute
        x, y = y, x
    if kind(dtype) != "f" or not isinstance(y, Const):
        return None
    if fn == "max":
        return x if y.value == -math.inf else None
    if y.value == 1:
        return x
    mantissa, exponent = math.frexp(y.value)
    if fn == "div" and abs(mantissa) == 0.5 and abs(exponent) < 14:  # a power of two: exact either way
        return reader.apply("mul", x, reader.const(1 / y.value, y.dtype))
    return None


# Functions that some arguments make needless: row(reader, name, arguments, dtype of the result).
SIMPLER: dict[str, Callable[[Reader, str, tuple[Expr, ...], np.dtype], Expr | None]] = {
    "select": _select, "and": _both, "or": _both, "convert": _convert, "min": _extreme, "max": _extreme,
    "mul": _scaled, "div": _scaled, **dict.fromkeys(DECIDED, _compared)}


def op_of(node: Node) -> str | None:
    """The name of a node's Op; None for `operator.getitem`."""
    return getattr(node.target, "name", None)


def _key(expr: Expr) -> Any:
    """What makes two expressions one. Accumulators and scratch rows have the same names in every kernel of a graph, and
    a dtype of their own in each."""
    match expr:
        case Apply(fn, args, dtype):
            return (fn, dtype, *map(id, args))
        case Load():
            return ("load", expr.buffer, expr.index, expr.dtype, id(expr.mask), id(expr.other))
        case Const(value, dtype):
            return ("const", repr(value), dtype)
        case Index(at, dtype):
            return ("index", at, dtype)
        case Ref(name, dtype):
            return ("ref", name, dtype)


class HasValues(Protocol):
    """Who knows the values that position symbols stand for: a Reader, an Emitter."""

    values: dict[sympy.Symbol, Expr]


def walk(reader: HasValues, roots: Sequence[Expr]) -> Iterator[Expr]:
    """Every expression below `roots` once, children first, through masks and data-made indices."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        expr, done = stack.pop()
        if done:
            yield expr
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            stack += [(c, False) for c in reversed(below_of(reader, expr))]


def below_of(reader: HasValues, expr: Expr) -> tuple[Expr, ...]:
    """The children of an expression and the values that its index is made of."""
    index = expr.place
    made = (
        ()
        if index is None or not reader.values
        else tuple(reader.values[s] for s in sorted(index.free_symbols, key=str) if s in reader.values)
    )
    return expr.children + made


def cost(reader: HasValues, value: Expr) -> int:
    """What one evaluation of `value` costs, in additions; shared parts count once."""
    return sum(SCALARS[e.fn].cost for e in of_class(Apply, walk(reader, [value])))


__all__ = [
    "BOOL",
    "INT32",
    "INT64",
    "Point",
    "Reader",
    "Ref",
    "Rule",
    "below_of",
    "cost",
    "dtype_of",
    "shape_of",
    "walk",
]
