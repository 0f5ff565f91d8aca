"""The two kinds of integer symbols in kernels and shapes. SymPy tells symbols apart by name and assumptions, so they
are made here only.

    >>> size("n").is_positive, symbol("i").is_positive
    (True, None)
"""

from __future__ import annotations

import sympy


def symbol(name: str) -> sympy.Symbol:
    """A loop variable or integer value: an integer, at least 0 for loop variables."""
    return sympy.Symbol(name, integer=True)


def size(name: str) -> sympy.Symbol:
    """A symbolic array size: an integer, at least 1 (an empty array gets its own entry)."""
    return sympy.Symbol(name, integer=True, positive=True)
