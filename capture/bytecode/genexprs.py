"""Generator expressions as functions of one item: `(f(x) for x in xs)` gives what `map(lambda x: f(x), xs)` gives.

A loop over a symbolic number of items becomes a node of the Graph where each round starts from one item. A generator's
frame stands still between its items; the function of one item has no such state.
"""

from __future__ import annotations

import functools
from types import CodeType
from typing import Any

from bytecode import Bytecode, CompilerFlags, Instr, Label

ITEM = ".0"  # what CPython calls the argument: the iterator in a generator expression, here an item of it


@functools.lru_cache(maxsize=1024)
def function_of_item(code: CodeType) -> CodeType | None:
    """The function of one item of a generator expression that has one `for`, no `if` and no `await`; None of others.

        LOAD_FAST .0; again: FOR_ITER end; <store, expression>; YIELD_VALUE; RESUME; POP_TOP; JUMP_BACKWARD again
    """
    if code.co_name != "<genexpr>" or code.co_varnames[:code.co_argcount] != (ITEM,) or not (
            code.co_flags & CompilerFlags.GENERATOR):
        return None
    made: Any = Bytecode.from_code(code)
    names = [item.name if isinstance(item, Instr) else "" for item in made]
    if names.count("YIELD_VALUE") != 1 or "SEND" in names:
        return None
    start, at = names.index("FOR_ITER"), names.index("YIELD_VALUE")
    again = made[start - 1]
    back = [k for k, item in enumerate(made) if isinstance(item, Instr) and item.arg is again]
    if not isinstance(again, Label) or back != [at + 3] or names[at + 1:at + 3] != ["RESUME", "POP_TOP"]:
        return None
    cells = [item for item in made[:start] if isinstance(item, Instr) and item.name in ("MAKE_CELL", "COPY_FREE_VARS")]
    first, last = made[start], made[at]
    within = [item for item in made[start + 1:at] if isinstance(item, (Instr, Label))]  # no handlers: this frame ends
    made[:] = [*cells, Instr("RESUME", 0, location=first.location), Instr("LOAD_FAST", ITEM, location=first.location),
               *within, Instr("RETURN_VALUE", location=last.location)]
    made.flags = CompilerFlags(made.flags & ~CompilerFlags.GENERATOR)
    return made.to_code()
