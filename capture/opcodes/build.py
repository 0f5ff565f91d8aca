"""Opcodes that make objects: containers and what unpacks them, text, functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

from dynacomp.capture.arithmetic import later
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.kinds import changing_keys, changing_members, keys, sequences
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.numbers import host_functions
from dynacomp.capture.rows import alike_items
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode, unsupported
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.containers import DictV, ListV, SliceV, TupleV
from dynacomp.capture.values.frames import NULL
from dynacomp.capture.values.questions import is_dict, is_number, is_opaque, own_class
from dynacomp.capture.values.value import Value, as_python, is_changing, type_of
from dynacomp.capture.wrapping.class_attrs import resolve

# --- building


@opcode("BUILD_TUPLE")
def _build_tuple(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(TupleV(f.popn(i.arg)))


@opcode("BUILD_LIST")
def _build_list(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(ListV(f.popn(i.arg)))


@opcode("BUILD_SET")
def _build_set(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(changing_members.made_of(cap, f.popn(i.arg), is_own=keys.own_order(cap)))


@opcode("BUILD_MAP")
def _build_map(cap: Capture, f: Frame, i: Instruction) -> None:
    flat = f.popn(2 * i.arg)
    made = DictV({})
    for key, item in zip(flat[::2], flat[1::2]):
        changing_keys.put(cap, made, keys.key_of(cap, key), item)
    f.push(made)


@opcode("BUILD_CONST_KEY_MAP")
def _build_const_key_map(cap: Capture, f: Frame, i: Instruction) -> None:
    keys = as_python(f.pop())
    f.push(DictV(dict(zip(keys, f.popn(i.arg)))))


@opcode("BUILD_SLICE")
def _build_slice(cap: Capture, f: Frame, i: Instruction) -> None:
    parts = f.popn(i.arg)
    f.push(SliceV(parts[0], parts[1], parts[2] if i.arg == 3 else Const(None)))


@opcode("BUILD_STRING")
def _build_string(cap: Capture, f: Frame, i: Instruction) -> None:
    parts = f.popn(i.arg)
    found = host_functions.concatenated(cap, parts) if any(map(is_changing, parts)) else None
    found = found or later.made(cap, host_functions.concat, *parts)
    f.push(found or Const("".join(as_python(s) for s in parts)))


@opcode("LIST_APPEND")
def _list_append(cap: Capture, f: Frame, i: Instruction) -> None:
    item = f.pop()
    sequences.append(cap, _target(cap, f, i), item)


@opcode("SET_ADD")
def _set_add(cap: Capture, f: Frame, i: Instruction) -> None:
    item = f.pop()
    target = _target(cap, f, i)
    changing_members.add(cap, target, item)


@opcode("MAP_ADD")
def _map_add(cap: Capture, f: Frame, i: Instruction) -> None:
    key, item = f.popn(2)
    target = _target(cap, f, i)
    changing_keys.put(cap, target, keys.key_of(cap, key), item)


@opcode("LIST_EXTEND")
def _list_extend(cap: Capture, f: Frame, i: Instruction) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    try:
        sequences.extend(cap, target, source)
    except Raised as raised:
        raise _star_complaint(source, raised) from None


@opcode("SET_UPDATE")
def _set_update(cap: Capture, f: Frame, i: Instruction) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    target.members.update(keys.members_of(cap, source))


@opcode("DICT_UPDATE", "DICT_MERGE")
def _dict_update(cap: Capture, f: Frame, i: Instruction) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    if not is_dict(source) and not hasattr(type_of(source), "keys"):
        raise _no_mapping(f, i, source)
    found = keys.pairs(cap, source)
    if i.name == "DICT_MERGE":
        again = next((k for k, _ in found if k in target.items), None)
        if again is not None:
            raise Raised(Const(TypeError(f"{_callee_name(f, i)}() got multiple values for keyword argument {again!r}")))
    for key, item in found:
        changing_keys.put(cap, target, key, item)


def _target(cap: Capture, f: Frame, i: Instruction) -> Any:
    """The container that an instruction of a display or comprehension fills."""
    target = f.stack[-i.arg]
    if is_opaque(target):  # a set of objects that hash in Python, after a graph break
        raise Break("opaque", f"what a {type_of(target).__qualname__} holds already")
    mutating(cap, target)
    return target


def _star_complaint(source: Value, raised: Raised) -> Raised:
    """`[*3]` words the error in its own way."""
    kind = type_of(source)
    iterable = hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")
    if not iterable and issubclass(type_of(raised.value), TypeError):
        return Raised(Const(TypeError(f"Value after * must be an iterable, not {kind.__name__}")))
    return raised


def _no_mapping(f: Frame, i: Instruction, source: Value) -> Raised:
    """What `{**source}` or `f(**source)` says of anything else."""
    kind = type_of(source).__name__
    return Raised(Const(TypeError(f"{kind!r} object is not a mapping" if i.name == "DICT_UPDATE" else
                                  f"{_callee_name(f, i)}() argument after ** must be a mapping, not {kind}")))


def _callee_name(f: Frame, i: Instruction) -> str:
    """The function that `f(**a, **b)` calls, as its TypeError names it."""
    fn: Any = next(v for v in reversed(f.stack[:-1 - i.arg]) if v is not NULL)
    fn = getattr(fn, "func", fn)
    module = fn.value.__module__ if is_const(fn) else fn.globals.get("__name__")
    name = fn.value.__qualname__ if is_const(fn) else fn.qualname
    return f"{module}.{name}" if module not in (None, "builtins") else name


@opcode("LIST_TO_TUPLE")
def _list_to_tuple(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(TupleV(cap.items(f.pop())))


@opcode("UNPACK_SEQUENCE")
def _unpack_sequence(cap: Capture, f: Frame, i: Instruction) -> None:
    source = _unpacked(cap, f.pop())
    items = list(itertools.islice(source, i.arg))
    if len(items) < i.arg:
        raise Raised(Const(ValueError(f"not enough values to unpack (expected {i.arg}, got {len(items)})")))
    if next(source, None) is not None:
        raise Raised(Const(ValueError(f"too many values to unpack (expected {i.arg})")))
    f.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def _unpack_ex(cap: Capture, f: Frame, i: Instruction) -> None:
    before, after = i.arg & 0xFF, i.arg >> 8
    apart = alike_items.unpacked(cap, f.stack[-1], before, after)
    if apart is not None:
        f.pop()
        f.stack.extend(reversed(apart))
        return
    items = list(_unpacked(cap, f.pop()))
    if len(items) < before + after:
        least = f"at least {before + after}" if after or len(items) < before else f"at least {before}"
        raise Raised(Const(ValueError(f"not enough values to unpack (expected {least}, got {len(items)})")))
    tail = items[len(items) - after:] if after else []
    middle = items[before:len(items) - after]
    f.stack.extend(reversed([*items[:before], ListV(middle), *tail]))


def _unpacked(cap: Capture, value: Value) -> Iterator[Value]:
    """`iter(value)` for an unpacking, which has its own words for what is not iterable."""
    cls = type_of(value) if is_const(value) or is_number(value) or is_changing(value) else own_class(value)
    if cls is not None and all(resolve(cap, cls, name)[0] is None for name in ("__iter__", "__getitem__")):
        raise Raised(Const(TypeError(f"cannot unpack non-iterable {cls.__name__} object")))
    return iterate(cap, value)


# --- text


@opcode("FORMAT_VALUE")
def _format_value(cap: Capture, f: Frame, i: Instruction) -> None:
    spec = f.pop() if i.arg & 4 else Const("")
    value = f.pop()
    how = (None, str, repr, ascii)[i.arg & 3]
    f.push(cap.call(Const(format), [value if how is None else cap.call(Const(how), [value]), spec]))


@opcode("FORMAT_SIMPLE")
def _format_simple(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(cap.call(Const(format), [f.pop(), Const("")]))


@opcode("FORMAT_WITH_SPEC")
def _format_with_spec(cap: Capture, f: Frame, i: Instruction) -> None:
    value, spec = f.popn(2)
    f.push(cap.call(Const(format), [value, spec]))


@opcode("CONVERT_VALUE")
def _convert_value(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(cap.call(Const((None, str, repr, ascii)[i.arg]), [f.pop()]))


# --- functions


FLAGS = ((0x08, "closure"), (0x04, "annotations"), (0x02, "kwdefaults"), (0x01, "defaults"))


@opcode("MAKE_FUNCTION")
def _make_function(cap: Capture, f: Frame, i: Instruction) -> None:
    code = as_python(f.pop())
    if not hasattr(code, "co_code"):
        raise Break("opcode", "MAKE_FUNCTION without a code object")
    made = FunctionV(code, f.globals, code.co_name, code.co_qualname)
    for flag, name in FLAGS:
        if i.arg & flag:
            set_function_part(cap, made, name, f.pop())
    f.push(made)


@opcode("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(cap: Capture, f: Frame, i: Instruction) -> None:
    made = cast(FunctionV, f.pop())
    value = f.pop()
    for flag, name in FLAGS:
        if i.arg & flag:
            set_function_part(cap, made, name, value)
    f.push(made)


def set_function_part(cap: Capture, made: FunctionV, name: str, value: Any) -> None:
    if name == "annotations":  # a tuple: name, annotation, name, ...
        pairs = cap.items(value)
        made.special["__annotations__"] = DictV(dict(zip(map(as_python, pairs[::2]), pairs[1::2])))
    else:
        setattr(made, name, tuple(cap.items(value)) if name == "closure" else value)


@opcode("LOAD_BUILD_CLASS")
def _load_build_class(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(Const(f.builtins["__build_class__"]))


unsupported("only modules and exec have it", "IMPORT_STAR", "PRINT_EXPR")
