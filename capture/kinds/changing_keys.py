"""Keys that change from call to call, in dicts: a table gets a `Keyed` one in place of its entries once such a key is
asked for or stored (see `wrapping.keyed_tables`).

    cache[n] = mask                 # a store under a key that another call has otherwise
    {**metrics, f"epoch_{i}": loss}
"""

from __future__ import annotations

import copy
from typing import Any

from dynacomp.capture.base.key_order import ByName, is_unordered, unordered
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.kinds.keys import key_of, sought
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.standing import ClassOfTracedV, HashedV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.existing_tables import may_be_in_parts
from dynacomp.capture.wrapping.keyed_tables import ChangingKey, Keyed
from dynacomp.capture.wrapping.partial_tables import Entries

COMPARING = (Keyed, Entries)


def placed(cap: Capture, table: DictV, key: Value) -> Any:
    """What stands for `key` among the entries of this dict, or would."""
    found = sought(cap, key, table.items) if isinstance(key, ClassOfTracedV) else key_of(cap, key)
    if type(found) is ChangingKey:
        return found if _compares(cap, table) else found.constant()
    return _stored(table, found) if isinstance(found, HashedV) and not found.by_id else found


def _stored(table: DictV, key: HashedV) -> Any:
    """The key of the table that equals this one: code of the program's that compares them runs once, however often the
    table is asked for what is found here."""
    if type(table.items) is not dict:
        return key
    return next((k for k in table.items if hash(k) == key.digest and (k is key or k == key)), key)


def put(cap: Capture, table: DictV, name: Any, value: Any) -> None:
    """Stores under a key that may be a ChangingKey."""
    if type(name) is ChangingKey and not _compares(cap, table):
        name = name.constant()
    table.items[name] = value


def copied(items: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of a copy."""
    if is_unordered(items):
        return ByName(dict(zip(unordered(items), items.known())), items.note)  # type: ignore[attr-defined]
    return copy.copy(items) if type(items) is Keyed else dict(items)


def merged(cap: Capture, first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of `first | second`."""
    made = DictV(copied(first))
    for name, item in second.items():
        put(cap, made, name, item)
    return made.items


def _compares(cap: Capture, table: DictV) -> bool:
    """Whether the entries of this dict are compared with keys that change, from now on."""
    if type(table.items) in COMPARING:
        return True
    plain = table.owner is None and table.shows is None and not table.is_shown and type(table.items) in (dict, ByName)
    if not plain or not all(map(is_literal, unordered(table.items))):
        return False
    if table.real is None:
        table.items = Keyed(cap, table.items)
        return True
    source = table.source or getattr(table.holder, "source", None)  # of an instance of a subclass
    if table.dirty or source is None or not may_be_in_parts(type(table.real)) or (
            len(table.items) != dict.__len__(table.real)):
        return False
    table.items = Entries(cap, table.real, source)
    return True
