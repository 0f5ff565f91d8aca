"""Methods that store into the object whose they are, as their bytecode says: `self.count += 1`, `self.state = state`.

What is stored into an attribute of an attribute (`self.log.last = x`) is not seen, nor what `setattr` stores.
"""

from __future__ import annotations

from itertools import pairwise

from dynacomp.capture.bytecode.code import Decoded, Instruction, per_code


@per_code
def stores_into_itself(code: Decoded) -> bool:
    """Whether a method assigns to an attribute of its first argument, other than a cache: one that it fills where it
    finds None there, or nothing (`if not hasattr(self, "_kept")`)."""
    if code.code.co_argcount == 0:
        return False
    first = code.code.co_varnames[0]
    around = list(zip(code.instrs, code.instrs[1:], code.instrs[2:], strict=False))
    own = [(b, c) for a, b, c in around if _loads_last(a, first)]
    read = {c.argval for b, c in own if b.name == "COPY" and c.name == "LOAD_ATTR"}
    stored = {b.argval for a, b in pairwise(code.instrs) if b.name == "STORE_ATTR" and (
        _loads_last(a, first) or a.name == "SWAP" and b.argval in read)}
    caches = {b.argval for b, c in own if b.name == "LOAD_ATTR" and (c.name.endswith("NONE") or _is_none(c))}
    return not stored <= caches.union(const for const in code.code.co_consts if type(const) is str)


def _is_none(i: Instruction) -> bool:
    return i.name == "LOAD_CONST" and i.argval is None


def _loads_last(i: Instruction, name: str) -> bool:
    """Whether an instruction leaves a local on top of the stack."""
    loads = i.name.startswith(("LOAD_FAST", "LOAD_DEREF"))
    return loads and name == (i.argval[-1] if type(i.argval) is tuple else i.argval)
