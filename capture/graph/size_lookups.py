"""Where code that JAX traces looks a size up: there a `Size` is no int of this call's.

A Flax module, a function under `hk.transform` may have the sizes of its arguments as keys of a dict, where a Size would
not be found. JAX hashes sizes all the time, for its caches, from C too, in whose place the frame stands that called: so
it is the instruction that tells.

    table[n], n in seen, {n: x}, table.get(n), set([n])     # at each a hash of the program's own
    table[Config(n)]                                        # as well, by way of `Config.__hash__`
    jnp.cumsum(x)                                           # JAX's, of the sizes in x.shape

Likewise where it asks what a Size is (`isinstance(n, int)`): an int, for whoever is not JAX, which has rules for each.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FrameType

from jax._src import api_util, tree_util

from dynacomp.capture.base.remembered import remembered

INSTRUCTIONS = frozenset({
    "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "CONTAINS_OP", "BUILD_MAP", "BUILD_SET", "BUILD_CONST_KEY_MAP",
    "MAP_ADD", "SET_ADD", "DICT_UPDATE", "DICT_MERGE", "SET_UPDATE"})
LOADS = frozenset({"LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"})
CALLS = ("PRECALL", "CALL")
LOOKING_UP = frozenset({  # methods and classes of dicts and sets
    "Counter", "OrderedDict", "add", "defaultdict", "dict", "difference", "discard", "fromkeys", "frozenset", "get",
    "hash", "intersection", "isdisjoint", "issubset", "issuperset", "pop", "remove", "set", "setdefault",
    "symmetric_difference", "union", "update"})


TRACERS = frozenset({"jax", "jaxlib", "dynacomp"})  # packages that know a Size from an int
GO_BETWEENS = frozenset({"abc", "typing", "typing_extensions"})  # whose classes ask on behalf of `isinstance`'s caller


def is_asked_kind(asking: FrameType | None) -> bool:
    """Whether code that takes a size for an int asks for its class."""
    while asking is not None and asking.f_globals.get("__name__") in GO_BETWEENS:
        asking = asking.f_back
    if asking is None or str(asking.f_globals.get("__name__")).partition(".")[0] in TRACERS:
        return False
    return asking.f_lasti in kind_places(asking.f_code)


# The classes that hold static arguments in the keys of JAX's caches, by its versions. Trees of such keys are compared
# whatever their hashes.
STATIC_ARGUMENTS = frozenset(cls.__eq__.__code__ for cls in (
    getattr(tree_util, "Static", None), getattr(api_util, "_HashableWithStrictTypeEquality", None)) if cls is not None)


def is_static_argument(asking: FrameType) -> bool:
    """Whether JAX asks if it has traced a function for this static argument."""
    return asking.f_code in STATIC_ARGUMENTS


def hashing(asking: FrameType) -> FrameType:
    """Whose hash it is: where an object's `__hash__` asks for that of a part, or a container that Python's own library
    has in Python (`Counter`), whoever wants the object's, or calls the container."""
    while asking.f_back is not None and (
            asking.f_code.co_name == "__hash__" or asking.f_globals.get("__name__") == "collections"):
        asking = asking.f_back
    return asking


def looks_up(asking: FrameType) -> bool:
    """Whether the code that asks for a size's hash does so itself, for a dict or a set."""
    return asking.f_lasti in places(asking.f_code)


def file_of(asking: FrameType) -> str:
    """The file that code belongs to: of what was made from a text (a dataclass's methods) that of its module."""
    file, module = asking.f_code.co_filename, asking.f_globals.get("__file__")
    return module if file.startswith("<") and type(module) is str else file


@remembered
def kind_places(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions at which code asks what something is."""
    instrs = [*dis.get_instructions(code)]
    return frozenset(instr.offset for k, instr in enumerate(instrs)
                     if instr.opname == "MATCH_CLASS" or instr.opname == "LOAD_ATTR" and instr.argval == "__class__"
                     or instr.opname.startswith(CALLS) and called(instrs, k) == "isinstance")


@remembered
def places(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions at which code looks something up."""
    return frozenset(_places([*dis.get_instructions(code)]))


def _places(instrs: list[dis.Instruction]) -> Iterator[int]:
    for k, instr in enumerate(instrs):
        if instr.opname in INSTRUCTIONS or instr.opname.startswith(CALLS) and called(instrs, k) in LOOKING_UP:
            yield instr.offset


def called(instrs: list[dis.Instruction], at: int) -> str:
    """The name of what the call at that place calls: what was loaded last of those that begin where the call does."""
    start = begin(instrs[at])
    names = (str(i.argval) for i in reversed(instrs[:at]) if i.opname in LOADS and begin(i) == start)
    return next(names, "")


def begin(instr: dis.Instruction) -> tuple[int | None, int | None]:
    """Where an instruction's text begins: its line and column. (None, None) for all where Python keeps no places."""
    place = instr.positions
    return (place.lineno, place.col_offset) if place is not None else (None, None)
