"""Opcodes that load, store and delete what has a name: constants, locals, cells and globals."""

from __future__ import annotations

import builtins
import types
from typing import Any

from dynacomp.capture._native import suspended, unnoticed
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.bytecode.generator_plan import is_running
from dynacomp.capture.bytecode.resume import own_cells
from dynacomp.capture.opcodes.unguarded_inputs import unseen
from dynacomp.capture.symbolic.generator_finalization import dropped
from dynacomp.capture.symbolic.libraries import is_settled
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.symbolic.side_effects import mutating, write_global
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_open
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.frames import NULL
from dynacomp.capture.values.objects import DELETED, CellV, OpaqueV
from dynacomp.capture.values.questions import is_cell, is_dict, is_lazy, is_opaque
from dynacomp.capture.values.value import Lazy, Value
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.class_attrs import lookup
from dynacomp.capture.wrapping.constants import from_python

CALLEE_FIRST = VERSION >= (3, 13)  # stack: callee, NULL or self; before: NULL, callee


def push_callable(f: Frame, callee: Value, self_or_null: Value) -> None:
    """A callee with its NULL or self, in the order that this Python version keeps them."""
    f.stack.extend((callee, self_or_null) if CALLEE_FIRST else (self_or_null, callee))


# --- constants and locals


@opcode("LOAD_CONST")
def _load_const(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(from_python(cap, i.argval) if type(i.argval) in (tuple, frozenset) else Const(i.argval))


def get_local(cap: Capture, f: Frame, name: str) -> Value:
    if name in f.locals:
        held = f.locals[name]
        passed = unseen(cap, f, held) if is_lazy(held) else None
        if passed is not None:
            return passed
        value = f.locals[name] = cap.realize(f.locals[name])
        return value
    if name in f.cells:
        return f.cells[name]
    raise Raised(Const(UnboundLocalError(
        f"cannot access local variable {name!r} where it is not associated with a value")))


def set_local(cap: Capture, f: Frame, name: str, value: Value) -> None:
    before = let_go(cap, f, f.locals.get(name))
    if is_cell(value) and name in f.code.code.co_cellvars:
        f.cells[name] = value
    else:
        f.locals[name] = value
    if cap.dropping.pending and before is not None:
        dropped(cap, [before])


def let_go(cap: Capture, f: Frame, value: Any) -> Any:
    """Called before a frame drops a value, which it gives: what has a `__del__` must go at its time, in Python; so
    must generators that Python runs."""
    if value is None or type(value) is Const:  # nearly all
        return value
    if is_lazy(value) and type(value.obj) in SUSPENDING:
        value = cap.realize(value)
    if is_opaque(value) and type(value.obj) in SUSPENDING:
        _let_go_suspended(cap, f, value)
    obj = value.obj if is_lazy(value) else getattr(value, "real", None)
    told = obj if type(obj) not in HOLDS else None if unnoticed(obj, False) else _finalized_in(obj)
    if told is not None and _has_finalizer(told):
        raise Break("effect", f"a {type(told).__qualname__}, which has a __del__, may go")
    return value


HOLDS, MOST_HELD = (tuple, list, dict), 256


def _has_finalizer(obj: Any) -> bool:
    return isinstance(lookup(type(obj), "__del__")[1], types.FunctionType)


def _finalized_in(held: Any) -> Any:
    """What has a `__del__` in a container, or in one in it; None where there is no such object."""
    todo: list[Any] = [held]
    for _ in range(MOST_HELD):
        x: Any = todo.pop() if todo else None
        if type(x) in HOLDS:
            todo += list(x.values() if type(x) is dict else x)
        elif _has_finalizer(x):
            return x
    return None


def _let_go_suspended(cap: Capture, f: Frame, value: OpaqueV) -> None:
    if sum(v is value for v in (*f.stack, *f.locals.values())) > (value in f.locals.values()):
        return  # the frame has it elsewhere too
    if suspended(value.obj) is not None or is_running(value.obj):
        raise Break("effect", f"a {type(value.obj).__name__} may go, and run code")
    cap.guards.add("has_ended", value.source)


SUSPENDING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


@opcode("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE", "LOAD_FAST_BORROW")
def _load_fast(cap: Capture, f: Frame, i: Instruction) -> None:
    held = f.locals.get(i.argval)
    if held is not None and type(held) is not Lazy and i.name != "LOAD_CLOSURE":
        f.stack.append(held)
    elif i.name == "LOAD_CLOSURE" or (i.argval in f.cells and i.argval not in f.locals):
        f.push(f.cells[i.argval])
    else:
        f.push(get_local(cap, f, i.argval))


@opcode("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(cap: Capture, f: Frame, i: Instruction) -> None:
    """An inlined comprehension has a variable of this name; a free variable keeps a slot of its own."""
    if i.argval in f.code.code.co_cellvars and i.argval in f.cells and i.argval not in f.locals:
        f.push(f.cells.pop(i.argval))
    else:
        f.push(f.locals.pop(i.argval, NULL))


@opcode("LOAD_FAST_LOAD_FAST")
def _load_two(cap: Capture, f: Frame, i: Instruction) -> None:
    for name in i.argval:
        f.push(get_local(cap, f, name))


@opcode("STORE_FAST")
def _store_fast(cap: Capture, f: Frame, i: Instruction) -> None:
    value = f.pop()
    if value is NULL:
        f.locals.pop(i.argval, None)
    else:
        set_local(cap, f, i.argval, value)


@opcode("STORE_FAST_STORE_FAST")
def _store_two(cap: Capture, f: Frame, i: Instruction) -> None:
    for name in i.argval:
        set_local(cap, f, name, f.pop())


@opcode("STORE_FAST_LOAD_FAST")
def _store_load(cap: Capture, f: Frame, i: Instruction) -> None:
    set_local(cap, f, i.argval[0], f.pop())
    f.push(get_local(cap, f, i.argval[1]))


@opcode("DELETE_FAST")
def _delete_fast(cap: Capture, f: Frame, i: Instruction) -> None:
    if i.argval not in f.locals:
        get_local(cap, f, i.argval)
    if not i.argval.startswith("$"):  # the prologue of a resume function hands its arguments on
        let_go(cap, f, f.locals.get(i.argval))
    gone = f.locals.pop(i.argval)
    if cap.dropping.pending:
        dropped(cap, [gone])


# --- cells


@opcode("MAKE_CELL")
def _make_cell(cap: Capture, f: Frame, i: Instruction) -> None:
    f.cells[i.argval] = CellV(f.locals.pop(i.argval, None))


@opcode("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def _load_deref(cap: Capture, f: Frame, i: Instruction) -> None:
    if i.name == "LOAD_FROM_DICT_OR_DEREF":
        _pop_namespace(f)
    if i.name != "LOAD_DEREF" and f.namespace is not None and i.argval in f.namespace.items:
        f.push(cap.realize(f.namespace.items[i.argval]))
        return
    f.push(load_cell(cap, f, i.argval))


def _pop_namespace(f: Frame) -> None:
    """The class body's own namespace; what is evaluated later (type parameters) looks into the class that was made."""
    if f.pop() is not f.namespace:
        raise Break("opcode", "a name that is looked up in the class around a type's parameter or alias")


def load_cell(cap: Capture, f: Frame, name: str) -> Value:
    cell = f.cells[name]
    if cell.content is None and name in own_cells(f.code.code):
        raise Raised(Const(UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with "
                                             "a value")))
    if cell.content is None:
        raise Raised(Const(NameError(f"cannot access free variable {name!r} where it is not associated with a "
                                     "value in enclosing scope", name=name)))
    cell.content = cap.realize(cell.content)
    return cell.content


@opcode("STORE_DEREF")
def _store_deref(cap: Capture, f: Frame, i: Instruction) -> None:
    cell = f.cells[i.argval]
    mutating(cap, cell)
    cell.content = f.pop()


@opcode("DELETE_DEREF")
def _delete_deref(cap: Capture, f: Frame, i: Instruction) -> None:
    cell = f.cells[i.argval]
    load_cell(cap, f, i.argval)
    mutating(cap, cell)
    cell.content = None


# --- names


def load_global(cap: Capture, f: Frame, name: str) -> Value:
    """What a name that is no local means. Functions, classes, modules and literals are found and guarded once."""
    found = _changed(cap, f.globals, name)
    if found is None and id(f.globals) not in cap.known.objects:
        if name in f.globals:
            known = cap.known.names.get((id(f.globals), name))
            return known if known is not None else _read_global(cap, f, name)
        known = cap.known.built_in.get((id(f.globals), name))
        if known is not None and _changed(cap, f.builtins, name) is None and f.builtins.get(name) is known.value:
            return known
    if found is not None and found is not DELETED:
        return found
    if found is None and f.globals_source is None:
        cap.guards.add("missing_global", None, name)
    elif found is None and not cap.is_pure_globals(f.globals):
        cap.lacks(f.globals, f.globals_source, name)
    value = _builtin(cap, f.builtins, name)
    if found is None and type(value) is Const and not is_open(value):
        cap.known.built_in[id(f.globals), name] = value
        cap.known.keep.append(f.globals)
    return value


def _changed(cap: Capture, table: dict[str, Any], name: str) -> Any:
    """What the captured code has put into a namespace under `name`; DELETED where it has taken that out, None where
    it has changed nothing."""
    pending = cap.effects.globals.get((id(table), name))
    if pending is not None:
        return DELETED if pending[2] is None else pending[2]
    held = cap.known.objects.get(id(table))
    if held is None or not is_dict(held):
        return None
    if name in held.items:  # the program also holds the namespace as a dict
        held.items[name] = cap.realize(held.items[name])
    return held.items.get(name, DELETED if name in table else None)


def _builtin(cap: Capture, table: dict[str, Any], name: str) -> Value:
    """A name of module `builtins`, in which programs put their own, and replace some."""
    found = _changed(cap, table, name)
    if found is None and name in table:
        if table[name] is not BUILT_IN.get(name):
            return wrap(cap, table[name], S.Key(S.Root(table, "builtins"), name))
        cap.rely(table, name, table[name])
        return Const(table[name])
    if found is None:
        cap.guards.add("missing_key", S.Root(table, "builtins"), name)
    if found is None or found is DELETED:
        raise Raised(Const(NameError(f"name {name!r} is not defined", name=name)))
    return found


BUILT_IN = dict(vars(builtins))


def _read_global(cap: Capture, f: Frame, name: str) -> Value:
    obj = f.globals[name]
    if f.globals_source is None:
        value = wrap(cap, obj, S.Global(name))
    elif isinstance(f.globals_source, S.Root) and (cap.is_pure_globals(f.globals) or is_settled(f.globals, obj)):
        cap.rely(f.globals, name, obj)
        value = from_python(cap, obj)
    else:
        value = wrap(cap, obj, S.Key(f.globals_source, name))
    if type(value) is Const and not is_open(value):
        cap.known.names[id(f.globals), name] = value
        cap.known.keep.append(f.globals)
    return value


@opcode("LOAD_GLOBAL")
def _load_global(cap: Capture, f: Frame, i: Instruction) -> None:
    value = load_global(cap, f, i.argval)
    if i.arg & 1:
        push_callable(f, value, NULL)
    else:
        f.push(value)


@opcode("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
def _load_name(cap: Capture, f: Frame, i: Instruction) -> None:
    if i.name == "LOAD_FROM_DICT_OR_GLOBALS":
        _pop_namespace(f)
    if f.namespace is not None and i.argval in f.namespace.items:
        f.push(cap.realize(f.namespace.items[i.argval]))
    else:
        f.push(load_global(cap, f, i.argval))


@opcode("STORE_NAME")
def _store_name(cap: Capture, f: Frame, i: Instruction) -> None:
    if f.namespace is None:
        raise Break("opcode", "a store to a name outside functions and classes")
    f.namespace.items[i.argval] = f.pop()


@opcode("DELETE_NAME")
def _delete_name(cap: Capture, f: Frame, i: Instruction) -> None:
    if f.namespace is None:
        raise Break("opcode", "a name that is deleted outside functions and classes")
    if i.argval not in f.namespace.items:
        raise Raised(Const(NameError(f"name {i.argval!r} is not defined", name=i.argval)))
    del f.namespace.items[i.argval]


@opcode("SETUP_ANNOTATIONS")
def _setup_annotations(cap: Capture, f: Frame, i: Instruction) -> None:
    if f.namespace is not None:
        f.namespace.items.setdefault("__annotations__", DictV({}))


@opcode("STORE_GLOBAL")
def _store_global(cap: Capture, f: Frame, i: Instruction) -> None:
    write_global(cap, f.globals, f.globals_source, i.argval, f.pop())


@opcode("DELETE_GLOBAL")
def _delete_global(cap: Capture, f: Frame, i: Instruction) -> None:
    load_global(cap, f, i.argval)
    write_global(cap, f.globals, f.globals_source, i.argval, None)  # type: ignore[arg-type]


@opcode("LOAD_LOCALS")
def _load_locals(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(f.namespace or DictV(dict(f.locals)))
