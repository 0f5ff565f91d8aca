"""Items of the dicts, lists and tuples that a call is given, under a key that changes from call to call.

    rate = table[name]              # `name` another string in each call
    layer = params[f"layer{i}"]
    if n in cache: mask = cache[n]

The key is no constant: guards look it up in each call (`sources.At`), and ask of what they find there what they would
ask of any argument: the type of a number, the shape of an array, the class of an object and what it holds. So one entry
serves all keys under which things are alike. For functions the key is guarded, as what the program does depends on the
one. A container that the captured code has changed is not what guards find.
"""

from __future__ import annotations

import collections
import operator
from typing import Any

from dynacomp.capture.base.key_order import ByName
from dynacomp.capture.base.literals import INTEGERS, is_plain_key
from dynacomp.capture.numbers import dynamic_scalars, host_functions, size_values
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import is_const, is_exactly
from dynacomp.capture.values.containers import DictV, ListV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_plain_tuple, is_scalar, is_value
from dynacomp.capture.values.value import Lazy, Value, as_python, is_changing
from dynacomp.capture.wrapping.builder import realize
from dynacomp.capture.wrapping.partial_tables import Entries, entry_of, is_found_anywhere

KEYS = (int, bool, str, bytes)  # whose hash and equality run no code of the program's
GIVEN_KEYS = (*KEYS, *INTEGERS)  # by which guards look in a table
STORED_KEYS = (*KEYS, float)  # under which captured code stores
TABLES = (dict, collections.defaultdict, collections.OrderedDict, collections.Counter)


def item_at(cap: Capture, v: Value, key: Value) -> Value | None:
    """`v[key]`; None for other containers, keys and items."""
    row = kind(v).lookup
    how = None if row is None else row(v)
    asked = None if how is None else changing_key(cap, key, GIVEN_KEYS)
    if how is None or asked is None:
        return None
    try:
        found = how(v.real, asked.hint)  # type: ignore[attr-defined]
    except (LookupError, TypeError):
        return None
    if found is None or not is_found_anywhere(found):
        return None
    return realize(cap, Lazy(found, S.At("at", (v.source, asked.source), how)))


# --- of what the captured code has made: `[0.1, 0.01][stage]`, `{"slow": 1, "fast": 4}[mode]`


def chosen(cap: Capture, v: ListV | TupleV, key: Value) -> Value | None:
    """`v[key]` of numbers, or of strings; None for others."""
    if v.cls not in (list, tuple) or getattr(v, "is_open", False) or not is_changing(key):
        return None
    return host_functions.chosen(cap, cap.items(v), key)


def place(cap: Capture, v: DictV, key: Value) -> Value | None:
    """Where a key that changes stands among those of a dict, behind all where it is none of them; None for others."""
    if v.cls not in MADE or type(v.items) is not dict or not (v.real is v.owner is v.shows is None):
        return None
    asked = changing_key(cap, key)
    return None if asked is None else host_functions.place([*v.items], asked)


def chosen_by(cap: Capture, v: DictV, found: Value | None) -> Value | None:
    """What it holds at such a place, as `chosen`."""
    known = found is not None and all(map(is_value, v.items.values()))
    return host_functions.chosen(cap, [*v.items.values()], found) if known else None  # type: ignore[arg-type]


def index(cap: Capture, v: ListV | TupleV, item: Value) -> Value | None:
    """`v.index(item)` of constants, the item changing; None of others, and where there is none."""
    asked = None if getattr(v, "is_open", False) else changing_key(cap, item)
    items = [] if asked is None else cap.items(v)
    if asked is None or not items or not all(map(is_const, items)):
        return None
    at = host_functions.place([*map(as_python, items)], asked)
    return size_values.counted(cap, at) if at is not None and host_functions.within(cap, at, len(items)) else None


MADE = (dict, collections.OrderedDict)


# --- of what the call is given


def is_there(cap: Capture, v: DictV, key: Value) -> Value | None:
    """`key in v` of a dict, likewise."""
    asked = changing_key(cap, key, GIVEN_KEYS) if _is_as_given(v) else None
    if asked is None:
        return None
    return dynamic_scalars.host("contains", dict.__contains__, ScalarV(v.real, source=v.source), asked)


def changing_key(cap: Capture, key: Value, kinds: tuple[type, ...] = KEYS) -> ScalarV | None:
    """A key of these kinds that changes, or a tuple of such; None for others."""
    if not is_plain_tuple(key):
        found = as_scalar(cap, key)
        if not is_scalar(found) or type(found.hint) not in kinds:
            return None
        return found if type(found.hint) is not float or _equals_itself(cap, found) else None
    parts = [changing_key(cap, x, kinds) or x for x in cap.items(key)]
    if not any(map(is_changing, parts)) or not all(is_scalar(x) or is_exactly(x, *KEYS) for x in parts):
        return None
    return dynamic_scalars.host("key", _together, *parts)  # type: ignore[return-value]


def _equals_itself(cap: Capture, number: ScalarV) -> bool:
    """Whether a float is no NaN, each object of which is another key; that is guarded."""
    return dynamic_scalars.guarded(cap, dynamic_scalars.host("eq", operator.eq, number, number))  # type: ignore[arg-type]


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


# --- how each kind of container is asked: None where it is not as the call was given it


def _is_as_given(v: DictV) -> bool:
    """One whose own keys run no code of the program's, either."""
    if v.cls not in TABLES or type(v.items) not in (dict, ByName, Entries) or not v.owner is v.shows is None:
        return False
    return not v.dirty and v.real is not None and v.source is not None and all(map(is_plain_key, dict.__iter__(v.real)))


def _of_list(v: ListV) -> Any:
    return list.__getitem__ if v.real is not None and not v.dirty and v.source is not None and v.cls is list else None


def _of_tuple(v: TupleV) -> Any:
    return tuple.__getitem__ if v.real is not None and v.source is not None and v.cls is tuple else None


define(DictV, Kind(lookup=lambda v: entry_of if _is_as_given(v) else None))
define(ListV, Kind(lookup=_of_list))
define(TupleV, Kind(lookup=_of_tuple))
