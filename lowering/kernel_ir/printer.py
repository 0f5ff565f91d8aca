"""How a Kernel prints, and how that text reads back.

    kernel softmax(x: f32[n, d]) -> (out: f32[n, d]) local (e: f32[d]) sizes (d, n):
        parallel i0 < n:
            vector i1 < d:
                acc m: max f32 = x[d*i0 + i1]
            vector i1 < d:
                t0 = exp(sub(x[d*i0 + i1], m))
                e[i1] = t0
                acc s: sum f32 = t0
            vector i1 < d:
                out[d*i0 + i1] = div(e[i1], s)

Expressions have Python's syntax: `f32(2.0)` is a Const, `index(i1 + 1, i64)` an Index,
`convert(x, f32)` names its dtype, `and_`, `or_`, `not_` are the functions `and`, `or`, `not`,
`x[i] if mask else other` is a masked Load. A store may say `out[i] add= v` and `where mask`; an argmax
says `at position`; what follows a scan stands under `after:`. All else has the dtype that the table of scalars gives.

`parse(text(kernel)) == kernel` for every Kernel that `verifier` passes.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import (
    Acc,
    Apply,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Ref,
    Scan,
    Stmt,
    Store,
    is_load,
)
from dynacomp.lowering.kernel_ir.scalars import SCALARS
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod
from dynacomp.lowering.sizes.symbols import size, symbol

_DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(bool),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"{k[0]}{b}": np.dtype(f"{k}{b}") for k in ("int", "uint") for b in (8, 16, 32, 64)},
    **{f"f{b}": np.dtype(f"float{b}") for b in (16, 32, 64)},
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_KEYWORDS = {"and": "and_", "or": "or_", "not": "not_"}
_FUNCTION_OF = {shown: fn for fn, shown in _KEYWORDS.items()}
INDENT = "    "


# printing


def text(kernel: Kernel) -> str:
    """The Kernel as text; see the module's docstring."""
    head = f"kernel {kernel.name}({_buffers(kernel.inputs)}) -> ({_buffers(kernel.outputs)})"
    if kernel.locals:
        head += f" local ({_buffers(kernel.locals)})"
    if kernel.sizes:
        head += f" sizes ({', '.join(map(str, kernel.sizes))})"
    return "\n".join([head + ":", *_block(kernel.body, INDENT)])


def _buffers(buffers: Sequence[Buffer]) -> str:
    return ", ".join(f"{b.name}: {_NAMES[b.dtype]}[{', '.join(map(str, b.shape))}]" for b in buffers)


def _block(stmts: Sequence[Stmt], indent: str) -> Iterator[str]:
    for s in stmts:
        match s:
            case Let(name, value):
                yield f"{indent}{name} = {expr_text(value)}"
            case Store():
                how = "=" if s.mode == "set" else f"{s.mode}="
                mask = "" if s.mask is None else f" where {expr_text(s.mask)}"
                yield f"{indent}{s.buffer}[{s.index}] {how} {expr_text(s.value)}{mask}"
            case Loop():
                yield from _loop(s, indent)


def _loop(loop: Loop, indent: str) -> Iterator[str]:
    flags = "".join(f"{f} " for f in ("parallel", "vector", "reverse") if getattr(loop, f))
    yield f"{indent}{flags or 'for '}{loop.var} < {loop.extent}:"
    inner = indent + INDENT
    yield from _block(loop.body, inner)
    for a in loop.accs:
        at = "" if a.position is None else f" at {a.position}"
        yield f"{inner}acc {a.name}: {a.fold} {_NAMES[a.dtype]} = {expr_text(a.value)}{at}"
    for s in loop.scans:
        yield f"{inner}scan {s.name}: {s.fold} {_NAMES[s.dtype]} = {expr_text(s.value)}"
    if loop.after:
        yield f"{inner}after:"
        yield from _block(loop.after, inner + INDENT)


def expr_text(expr: Expr) -> str:
    """An expression as text."""
    match expr:
        case Const(value, dtype):
            return f"{_NAMES[dtype]}({value!r})"
        case Ref(name):
            return name
        case Index(index, dtype):
            return f"index({index}, {_NAMES[dtype]})"
        case Load(buffer, index, _, mask, other):
            load = f"{buffer}[{index}]"
            return load if mask is None or other is None else f"({load} if {expr_text(mask)} else {expr_text(other)})"
    args = [expr_text(a) for a in expr.args]
    if SCALARS[expr.fn].rule == "free":
        args.append(_NAMES[expr.dtype])
    return f"{_KEYWORDS.get(expr.fn, expr.fn)}({', '.join(args)})"


# reading

_HEAD = re.compile(r"kernel (\w+)\((.*?)\) -> \((.*?)\)(?: local \((.*?)\))?(?: sizes \((.*?)\))?:$")
_BUFFER = re.compile(r"(\w+): (\w+)\[(.*?)\](?:, |$)")
_LOOP = re.compile(r"((?:parallel |vector |reverse |for )+)(\w+) < (.*):$")
_FOLD = re.compile(r"(acc|scan) (\w+): (\w+) (\w+) = (.*?)(?: at (.*))?$")
_STORE = re.compile(r"(\w+)\[(.*?)\] (|add|mul|min|max)= (.*?)(?: where (.*))?$")
_LET = re.compile(r"(\w+) = (.*)$")


class _Reader:
    """Lines still to read, and the dtypes of the names seen so far."""

    def __init__(self, source: str) -> None:
        self.lines = [line for line in source.splitlines() if line.strip()]
        self.at = 0
        self.sizes: set[str] = set()
        self.dtypes: dict[str, np.dtype] = {}

    def peek(self, indent: int) -> str | None:
        """The next line at this depth, or None where the block has ended."""
        if self.at >= len(self.lines):
            return None
        line = self.lines[self.at]
        return line.strip() if len(line) - len(line.lstrip()) == indent else None


def parse(source: str) -> Kernel:
    """The Kernel that prints as `source`; raises ValueError, naming the line, for anything else."""
    reader = _Reader(source)
    head = _HEAD.match(reader.lines[0].strip()) if reader.lines else None
    if head is None:
        raise ValueError(f"not a kernel's first line: {reader.lines[:1]}")
    name, inputs, outputs, scratch, sizes = head.groups()
    reader.sizes = set((sizes or "").split(", ")) - {""}
    buffers = [_read_buffers(reader, part or "") for part in (inputs, outputs, scratch)]
    reader.at = 1
    body = _read_block(reader, len(INDENT))
    if reader.at != len(reader.lines):
        raise ValueError(f"unexpected line: {reader.lines[reader.at]!r}")
    symbols = tuple(size(s) for s in (sizes or "").split(", ") if s)
    return Kernel(name, buffers[0], buffers[1], body, symbols, buffers[2])


def _read_buffers(reader: _Reader, part: str) -> tuple[Buffer, ...]:
    found = []
    for name, dtype, shape in _BUFFER.findall(part):
        reader.dtypes[name] = _DTYPES[dtype]
        listed = ast.parse(f"f({shape})", mode="eval").body
        assert isinstance(listed, ast.Call)
        dims = tuple(_index_of(reader, d) for d in listed.args)
        found.append(Buffer(name, dims, _DTYPES[dtype]))
    return tuple(found)


def _read_block(reader: _Reader, indent: int) -> tuple[Stmt, ...]:
    stmts: list[Stmt] = []
    while (line := reader.peek(indent)) is not None:
        if line == "after:" or line.startswith(("acc ", "scan ")):
            break
        reader.at += 1
        stmts.append(_statement(reader, line, indent))
    return tuple(stmts)


def _statement(reader: _Reader, line: str, indent: int) -> Stmt:
    if match := _LOOP.match(line):
        return _read_loop(reader, match, indent + len(INDENT))
    if match := _STORE.match(line):
        buffer, index, mode, value, mask = match.groups()
        return Store(
            buffer,
            _index(reader, index),
            _expr(reader, value),
            mode or "set",
            None if mask is None else _expr(reader, mask),
        )
    if match := _LET.match(line):
        value = _expr(reader, match[2])
        reader.dtypes[match[1]] = value.dtype
        return Let(match[1], value)
    raise ValueError(f"not a statement: {line!r}")


def _read_loop(reader: _Reader, match: re.Match[str], indent: int) -> Loop:
    flags = {f: f in match[1].split() for f in ("parallel", "vector", "reverse")}
    var, extent = symbol(match[2]), _index(reader, match[3])
    body = _read_block(reader, indent)
    accs: list[Acc] = []
    scans: list[Scan] = []
    while (line := reader.peek(indent)) is not None and (fold := _FOLD.match(line)):
        reader.at += 1
        kind, name, how, dtype, value, position = fold.groups()
        reader.dtypes[name] = _DTYPES[dtype]
        if kind == "acc":
            where = None if position is None else _index(reader, position)
            accs.append(Acc(name, how, _expr(reader, value), _DTYPES[dtype], where))
        else:
            scans.append(Scan(name, how, _expr(reader, value), _DTYPES[dtype]))
    after: tuple[Stmt, ...] = ()
    if reader.peek(indent) == "after:":
        reader.at += 1
        after = _read_block(reader, indent + len(INDENT))
    return Loop(var, extent, body, tuple(accs), tuple(scans), after, **flags)


def _expr(reader: _Reader, source: str) -> Expr:
    return _from_ast(reader, ast.parse(source, mode="eval").body)


def _from_ast(reader: _Reader, tree: ast.expr) -> Expr:
    if isinstance(tree, ast.Name):
        return Ref(tree.id, reader.dtypes[tree.id])
    if isinstance(tree, ast.Subscript):
        name = ast.unparse(tree.value)
        return Load(name, _index_of(reader, tree.slice), reader.dtypes[name])
    if isinstance(tree, ast.IfExp):
        load = _from_ast(reader, tree.body)
        assert is_load(load), ast.unparse(tree)
        return Load(load.buffer, load.index, load.dtype, _from_ast(reader, tree.test), _from_ast(reader, tree.orelse))
    if isinstance(tree, ast.Call):
        return _call(reader, ast.unparse(tree.func), tree.args)
    raise ValueError(f"not an expression: {ast.unparse(tree)!r}")


def _call(reader: _Reader, name: str, args: Sequence[ast.expr]) -> Expr:
    if name in _DTYPES:
        return Const(_literal(ast.unparse(args[0])), _DTYPES[name])
    if name == "index":
        return Index(_index_of(reader, args[0]), _DTYPES[ast.unparse(args[1])])
    name = _FUNCTION_OF.get(name, name)
    rule = SCALARS[name].rule
    if rule == "free":
        return Apply(name, (_from_ast(reader, args[0]),), _DTYPES[ast.unparse(args[1])])
    values = tuple(_from_ast(reader, a) for a in args)
    return Apply(name, values, np.dtype(bool) if rule == "bool" else values[-1].dtype)


def _literal(source: str) -> Any:
    special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return special[source] if source in special else ast.literal_eval(source)


_FUNCTIONS: Mapping[str, Any] = {
    "FloorDiv": FloorDiv,
    "FloorMod": FloorMod,
    "Min": sympy.Min,
    "Max": sympy.Max,
    "floor": sympy.floor,
    "Mod": sympy.Mod,
}


def _index(reader: _Reader, source: str) -> sympy.Expr:
    """An index expression: sums, products and the functions above, of symbols, sizes and integers."""
    return _index_of(reader, ast.parse(source.strip(), mode="eval").body)


def _index_of(reader: _Reader, node: ast.expr) -> sympy.Expr:
    again = lambda part: _index_of(reader, part)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return sympy.Integer(node.value)
    if isinstance(node, ast.Name):
        return size(node.id) if node.id in reader.sizes else symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -again(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](again(node.left), again(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        return _FUNCTIONS[node.func.id](*map(again, node.args))
    raise ValueError(f"{ast.unparse(node)!r} is no index expression")


_ARITHMETIC: Mapping[type, Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                                   ast.Div: operator.truediv, ast.Pow: operator.pow}
