"""Where in a frame that lies which a Source names, as far as it tells whether Python has just made it.

Behind a graph break Python has just computed what lies on the stack, what the frame's locals hold, and the cells that
the frame has filled itself: `cells` holds the names of those.

    >>> rows = Local(0, "rows")
    >>> in_the_frame(Item(rows, 2), ()), in_the_frame(Item(Attr(rows, "held"), 2), ())
    (True, False)
    >>> in_a_cell(Closure(0, "seen"), ("seen",)), on_stack(Local(1, "$s0"))
    (True, True)
"""

from __future__ import annotations

from dynacomp.capture.values.sources import At, Attr, Closure, Global, SizeOf, Source, base_of, passed


def under_a_size(source: Source) -> bool:
    """Whether that is an item whose key is a size: what programs keep so is as large (a mask of each length)."""
    return type(source) is At and any(type(part) is SizeOf for part in source.args)


def under_a_key(source: Source, cells: tuple[str, ...]) -> bool:
    """Whether that is found in what a container of the frame's holds under a key that changes: what lies there is
    another as the key is, with other numbers, of another length."""
    found: Source | None = source
    while found is not None and type(found) is not At:
        found = base_of(found)
    return found is not None and in_the_frame(found.args[0], cells)


def in_the_frame(source: Source, cells: tuple[str, ...]) -> bool:
    """Whether only containers lie between that and a local, or a cell that the frame has filled."""
    found: Source | None = source
    while found is not None and found.contained:
        found = base_of(found)
    return found is not None and (found.is_argument or in_a_cell(found, cells))


def in_a_cell(source: Source | None, cells: tuple[str, ...]) -> bool:
    """Whether that is a cell which the frame has filled itself."""
    return type(source) is Closure and source.name in cells


def on_stack(source: Source) -> bool:
    """Whether Python has just put it on the stack, as what an iterator gave, or in what lies there."""
    argument = passed(source)
    return argument is not None and argument.name.startswith("$s")


def kept(source: Source) -> bool:
    """Whether the program keeps that from call to call: a global, or what is noted on one. What it holds is another in
    each call if it was in the first few: it grows, or is filled anew."""
    while type(source) is Attr:
        source = source.base
    return type(source) is Global
