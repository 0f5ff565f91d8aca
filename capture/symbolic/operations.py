"""What modules low in capture need of modules above them: a class body is read low down, and calls a function.

Each operation is a field with its type. The one module that knows how fills it while it is imported
(`OPERATIONS.call = call`); `check_operations` says, once capture is imported, that none was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias

from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.iterators import GeneratorV
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.sources import Source
from dynacomp.capture.values.value import Value

Cap: TypeAlias = Any  # a Capture: its methods use these operations, so its class is defined above them
Args: TypeAlias = list[Value]
Kwargs: TypeAlias = dict[str, Value]


@dataclass(init=False, slots=True)
class Operations:
    """One field each, by what it acts on."""

    # any Value
    call: Callable[[Cap, Value, Args, Kwargs], Value]
    enter: Callable[[Cap, Const, Args], Value]  # a call that runs the function's own bytecode, whatever rules it has
    enter_bare: Callable[[Cap, Any, Exception, int], None]  # Restart where a function with a rule is to be entered
    getattr: Callable[[Cap, Value, str], Value]
    special: Callable[[Cap, Value, str], Value | None]
    equal: Callable[[Cap, Value, Value], bool]
    as_function: Callable[[Cap, Const], FunctionV]
    node_argument: Callable[[Cap, Value], Any]
    all_arrays: Callable[..., Value]

    # containers and cells
    items: Callable[[Cap, Any], list[Value]]
    realize: Callable[[Cap, Any], Value]
    cell_content: Callable[[Cap, CellV], Value]

    # instances and classes
    instantiate: Callable[[Cap, type, Args, Kwargs], Value]
    new_of_library: Callable[[Cap, type, FunctionType], Value]
    new_module: Callable[[Cap, type, list[Value], dict[str, Value]], Value]
    instance_attribute: Callable[[Cap, ObjectV, str], Value | None]
    instance_dict: Callable[[Cap, ObjectV], Value]
    object_method: Callable[[Cap, str, Value, Args, Kwargs], Value]
    payload_attribute: Callable[[Cap, ObjectV, str], Value]
    inherited: Callable[[Cap, ObjectV, Any, Args, Kwargs], Value]
    class_method: Callable[[Cap, type, str, Args, Kwargs], Value]
    through: Callable[[Cap, Value, Value, Value], Value]  # what a descriptor gives for an instance and a class

    # exceptions
    as_exception: Callable[[Cap, Value], Value]
    exception_attribute: Callable[[Cap, ObjectV, str], Value]
    exception_store: Callable[[Cap, ObjectV, str, Value], None]
    caught: Callable[[Cap, Any, Any, Any], Value]

    # generators
    wrap_generator: Callable[[Cap, Any, Source], GeneratorV | None]
    dropped: Callable[[Cap, Iterable[Any], Any], None]
    changing: Callable[[Cap, Value], None]  # while a generator waits that runs code when it is dropped
    changed: Callable[[Cap], None]

    # the whole capture
    pin: Callable[[Cap, list[Any]], None]  # what an instruction has left on the stack, where numbers are pinned
    watch_loop: Callable[[Cap, Any, Any], None]  # each time that a loop comes round
    let_go: Callable[[Cap], None]
    hearing: Callable[[Cap, str], AbstractContextManager[None]]  # warnings that a library gives while a call is traced
    folding: Callable[..., AbstractContextManager[None]]  # those of a function of constants
    give: Callable[[Cap, str, list[Any]], None]  # those that a call has noted are to be given in each call


OPERATIONS = Operations()


def check_operations() -> None:
    """Every field is filled; ImportError where one is not."""
    missing = [name for name in Operations.__annotations__ if not hasattr(OPERATIONS, name)]
    if missing:
        raise ImportError(f"dynacomp.capture has no implementation of {', '.join(missing)}: see symbolic/operations.py")
