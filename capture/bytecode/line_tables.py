"""Code objects made of instructions, with the table that says which line and columns each stands for.

Python reads that table byte by byte: one with the highest bit set begins an entry. The library that writes it puts
columns from 128 on into bytes of their own, which Python takes for entries then: lines in tracebacks are wrong, and a
tracer or profiler makes Python write behind the end of an array. Where there are such columns the table is written
here, with the entries that take numbers of any size.

    >>> from bytecode import Instr
    >>> far = [Instr(name, *arg, location=InstrLocation(2, 2, 200, 204)) for name, *arg in (("RESUME", 0),
    ...        ("LOAD_CONST", None), ("RETURN_VALUE",))]
    >>> set(to_code(Bytecode(far)).co_positions())
    {(2, 2, 200, 204)}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from types import CodeType

from bytecode import Bytecode, ConcreteBytecode, ConcreteInstr, ControlFlowGraph
from bytecode.instr import InstrLocation

BEGINS = 0x80  # the bit of a byte that begins an entry, and the columns that need it
LONGEST = 8  # instructions that an entry is for
LONG, LINE_ALONE, NO_LINE = 14, 13, 15  # kinds of entries


def to_code(bc: Bytecode, stacksize: int | None = None) -> CodeType:
    """The code object of `bc`. Where its stack size is given, so are the depths in its exception table."""
    if stacksize is None:
        blocks = ControlFlowGraph.from_bytecode(bc)
        stacksize, bc = blocks.compute_stacksize(), blocks.to_bytecode()
    concrete = bc.to_concrete_bytecode(compute_exception_stack_depths=False)
    made = concrete.to_code(stacksize=stacksize, compute_exception_stack_depths=False)
    if not any(is_far(i.location) for i in concrete if isinstance(i, ConcreteInstr)):
        return made
    return made.replace(co_linetable=bytes(table(places(concrete), made.co_firstlineno)))


def is_far(place: InstrLocation | None) -> bool:
    return place is not None and (place.end_col_offset or 0) >= BEGINS


def places(concrete: ConcreteBytecode) -> Iterator[InstrLocation]:
    """Of each code unit. An instruction that has none is where the one before it is."""
    last = InstrLocation(concrete.first_lineno, None, None, None)
    for instr in concrete:
        if isinstance(instr, ConcreteInstr):
            last = instr.location or last
            yield from [last] * (instr.size // 2)


def table(found: Iterable[InstrLocation], line: int) -> Iterator[int]:
    """The bytes of the table. line: that before the first entry."""
    for place, units in itertools.groupby(found):
        count = sum(1 for _ in units)
        for done in range(0, count, LONGEST):
            yield from entry(place, min(LONGEST, count - done), line)
            line = line if place.lineno is None else place.lineno


def entry(place: InstrLocation, units: int, line: int) -> Iterator[int]:
    kind = NO_LINE if place.lineno is None else LINE_ALONE if place.col_offset is None else LONG
    yield BEGINS | kind << 3 | units - 1
    if place.lineno is not None:
        delta = place.lineno - line
        yield from number(delta << 1 if delta >= 0 else -delta << 1 | 1)
        if place.col_offset is not None:
            assert place.end_lineno is not None and place.end_col_offset is not None
            for value in (place.end_lineno - place.lineno, place.col_offset + 1, place.end_col_offset + 1):
                yield from number(value)


def number(value: int) -> Iterator[int]:
    """Six bits in each byte, the lowest first; another bit says that more come."""
    while value >= 0x40:
        yield value & 0x3F | 0x40
        value >>= 6
    yield value
