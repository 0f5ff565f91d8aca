"""Opcodes that load, store, build and compute: everything without control flow."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from typing import Any

from dynacomp.capture import containers, keys
from dynacomp.capture import sources as S
from dynacomp.capture.attrs import delattr_value, lookup, setattr_value
from dynacomp.capture.births import from_python
from dynacomp.capture.code import Instr
from dynacomp.capture.effects import mutating, write_global
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.iteration import iterate
from dynacomp.capture.machine import VERSION, Capture, Frame, opcode, unsupported
from dynacomp.capture.operators import (
    BINARY,
    COMPARE,
    UNARY,
    as_bool,
    binary,
    negation,
    same_object,
    subscript,
    unary,
)
from dynacomp.capture.unseen import unseen
from dynacomp.capture.values import (
    NULL,
    ArrayV,
    CellV,
    Const,
    DictV,
    FunctionV,
    Lazy,
    ListV,
    NumberV,
    SetV,
    SliceV,
    TupleV,
    Value,
    as_python,
    type_of,
)
from dynacomp.capture.wrap import wrap

CALLEE_FIRST = VERSION >= (3, 13)  # stack: callee, NULL or self; before: NULL, callee
METHOD_ATTR = VERSION >= (3, 12)  # LOAD_ATTR's low bit asks for a method call's pair
BOOL_COMPARE = VERSION >= (3, 13)  # COMPARE_OP's bit 4 asks for a bool


@opcode("NOP", "RESUME", "CACHE", "PRECALL", "COPY_FREE_VARS", "SETUP_ANNOTATIONS", "EXTENDED_ARG",
        "INTERPRETER_EXIT", "RESERVED", "END_SEND_NOOP")
def _nothing(cap: Capture, f: Frame, i: Instr) -> None:
    pass


# --- constants and locals


@opcode("LOAD_CONST")
def _load_const(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(from_python(cap, i.argval) if type(i.argval) in (tuple, frozenset) else Const(i.argval))


def get_local(cap: Capture, f: Frame, name: str) -> Value:
    if name in f.locals:
        held = f.locals[name]
        passed = unseen(cap, f, held) if isinstance(held, Lazy) else None
        if passed is not None:
            return passed
        value = f.locals[name] = cap.realize(f.locals[name])
        return value
    if name in f.cells:
        return f.cells[name]
    raise Raised(Const(UnboundLocalError(
        f"cannot access local variable {name!r} where it is not associated with a value")))


def set_local(f: Frame, name: str, value: Value) -> None:
    let_go(f.locals.get(name))
    if isinstance(value, CellV) and name in f.code.code.co_cellvars:
        f.cells[name] = value
    else:
        f.locals[name] = value


def let_go(value: Any) -> None:
    """Called before a frame drops a value: what has a `__del__` must go at its time, in Python."""
    obj = value.obj if isinstance(value, Lazy) else getattr(value, "real", None)
    if isinstance(lookup(type(obj), "__del__")[1], types.FunctionType):
        raise Break("effect", f"a {type(obj).__qualname__}, which has a __del__, may go")


@opcode("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE", "LOAD_FAST_BORROW")
def _load_fast(cap: Capture, f: Frame, i: Instr) -> None:
    if i.name == "LOAD_CLOSURE" or (i.argval in f.cells and i.argval not in f.locals):
        f.push(f.cells[i.argval])
    else:
        f.push(get_local(cap, f, i.argval))


@opcode("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(cap: Capture, f: Frame, i: Instr) -> None:
    """An inlined comprehension has a variable of this name; a free variable keeps a slot of its own."""
    if i.argval in f.code.code.co_cellvars and i.argval in f.cells and i.argval not in f.locals:
        f.push(f.cells.pop(i.argval))
    else:
        f.push(f.locals.pop(i.argval, NULL))


@opcode("LOAD_FAST_LOAD_FAST")
def _load_two(cap: Capture, f: Frame, i: Instr) -> None:
    for name in i.argval:
        f.push(get_local(cap, f, name))


@opcode("STORE_FAST")
def _store_fast(cap: Capture, f: Frame, i: Instr) -> None:
    value = f.pop()
    if value is NULL:
        f.locals.pop(i.argval, None)
    else:
        set_local(f, i.argval, value)


@opcode("STORE_FAST_STORE_FAST")
def _store_two(cap: Capture, f: Frame, i: Instr) -> None:
    for name in i.argval:
        set_local(f, name, f.pop())


@opcode("STORE_FAST_LOAD_FAST")
def _store_load(cap: Capture, f: Frame, i: Instr) -> None:
    set_local(f, i.argval[0], f.pop())
    f.push(get_local(cap, f, i.argval[1]))


@opcode("DELETE_FAST")
def _delete_fast(cap: Capture, f: Frame, i: Instr) -> None:
    if i.argval not in f.locals:
        get_local(cap, f, i.argval)
    if not i.argval.startswith("$"):  # the prologue of a resume function hands its arguments on
        let_go(f.locals.get(i.argval))
    del f.locals[i.argval]


# --- cells


@opcode("MAKE_CELL")
def _make_cell(cap: Capture, f: Frame, i: Instr) -> None:
    f.cells[i.argval] = CellV(f.locals.pop(i.argval, None))


@opcode("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def _load_deref(cap: Capture, f: Frame, i: Instr) -> None:
    if i.name == "LOAD_FROM_DICT_OR_DEREF":
        f.pop()
    if i.name != "LOAD_DEREF" and f.namespace is not None and i.argval in f.namespace.items:
        f.push(cap.realize(f.namespace.items[i.argval]))
        return
    f.push(load_cell(cap, f.cells[i.argval], i.argval))


def load_cell(cap: Capture, cell: CellV, name: str) -> Value:
    if cell.content is None:
        raise Raised(Const(NameError(f"cannot access free variable {name!r} where it is not associated with a "
                                     "value in enclosing scope", name=name)))
    cell.content = cap.realize(cell.content)
    return cell.content


@opcode("STORE_DEREF")
def _store_deref(cap: Capture, f: Frame, i: Instr) -> None:
    cell = f.cells[i.argval]
    mutating(cap, cell)
    cell.content = f.pop()


@opcode("DELETE_DEREF")
def _delete_deref(cap: Capture, f: Frame, i: Instr) -> None:
    cell = f.cells[i.argval]
    load_cell(cap, cell, i.argval)
    mutating(cap, cell)
    cell.content = None


# --- names


def load_global(cap: Capture, f: Frame, name: str) -> Value:
    pending = cap.global_writes.get((id(f.globals), name))
    if pending is not None:
        if pending[2] is None:
            raise Raised(Const(NameError(f"name {name!r} is not defined", name=name)))
        return pending[2]
    table = cap.objects.get(id(f.globals))
    if isinstance(table, DictV):  # the program also holds its globals as a dict
        if name in table.items:
            table.items[name] = cap.realize(table.items[name])
            return table.items[name]
    elif name in f.globals:
        obj = f.globals[name]
        if f.globals_source is None:
            return wrap(cap, obj, S.Global(name))
        if isinstance(f.globals_source, S.Root) and cap.is_pure_globals(f.globals):
            cap.rely(f.globals, name, obj)
            return from_python(cap, obj)
        return wrap(cap, obj, S.Key(f.globals_source, name))
    if name not in f.builtins:
        raise Raised(Const(NameError(f"name {name!r} is not defined", name=name)))
    if f.globals_source is None:
        cap.guards.add("missing_global", None, name)
    elif not cap.is_pure_globals(f.globals):
        cap.guards.add("missing_key", f.globals_source, name)
    return Const(f.builtins[name])


@opcode("LOAD_GLOBAL")
def _load_global(cap: Capture, f: Frame, i: Instr) -> None:
    value = load_global(cap, f, i.argval)
    if i.arg & 1:
        push_callable(f, value, NULL)
    else:
        f.push(value)


@opcode("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
def _load_name(cap: Capture, f: Frame, i: Instr) -> None:
    if i.name == "LOAD_FROM_DICT_OR_GLOBALS":
        f.pop()
    if f.namespace is not None and i.argval in f.namespace.items:
        f.push(cap.realize(f.namespace.items[i.argval]))
    else:
        f.push(load_global(cap, f, i.argval))


@opcode("STORE_NAME")
def _store_name(cap: Capture, f: Frame, i: Instr) -> None:
    if f.namespace is None:
        raise Break("opcode", "a store to a name outside functions and classes")
    f.namespace.items[i.argval] = f.pop()


@opcode("STORE_GLOBAL")
def _store_global(cap: Capture, f: Frame, i: Instr) -> None:
    write_global(cap, f.globals, f.globals_source, i.argval, f.pop())


@opcode("DELETE_GLOBAL")
def _delete_global(cap: Capture, f: Frame, i: Instr) -> None:
    load_global(cap, f, i.argval)
    write_global(cap, f.globals, f.globals_source, i.argval, None)  # type: ignore[arg-type]


@opcode("LOAD_LOCALS")
def _load_locals(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(f.namespace or DictV(dict(f.locals)))


# --- attributes


def push_callable(f: Frame, callee: Value, self_or_null: Value) -> None:
    """A callee with its NULL or self, in the order that this Python version keeps them."""
    f.stack.extend((callee, self_or_null) if CALLEE_FIRST else (self_or_null, callee))


@opcode("LOAD_ATTR", "LOAD_METHOD")
def _load_attr(cap: Capture, f: Frame, i: Instr) -> None:
    value = cap.getattr(f.pop(), i.argval)
    if i.name == "LOAD_METHOD" or (i.arg & 1 and METHOD_ATTR):
        push_callable(f, value, NULL)
    else:
        f.push(value)


@opcode("LOAD_SUPER_ATTR")
def _load_super_attr(cap: Capture, f: Frame, i: Instr) -> None:
    maker, cls, obj = f.popn(3)
    found = cap.getattr(cap.call(maker, [cls, obj]), i.argval)
    if i.arg & 1:
        push_callable(f, found, NULL)
    else:
        f.push(found)


@opcode("STORE_ATTR")
def _store_attr(cap: Capture, f: Frame, i: Instr) -> None:
    value, obj = f.popn(2)
    setattr_value(cap, obj, i.argval, value)


@opcode("DELETE_ATTR")
def _delete_attr(cap: Capture, f: Frame, i: Instr) -> None:
    delattr_value(cap, f.pop(), i.argval)


# --- operators


@opcode("BINARY_OP")
def _binary_op(cap: Capture, f: Frame, i: Instr) -> None:
    a, b = f.popn(2)
    f.push(binary(cap, BINARY[i.arg], a, b))


@opcode("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def _unary(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(unary(cap, UNARY[i.name], f.pop()))


@opcode("UNARY_NOT")
def _not(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(negation(cap, f.pop()))


@opcode("TO_BOOL")
def _to_bool(cap: Capture, f: Frame, i: Instr) -> None:
    value = f.pop()
    f.push(value if stays_array(f, i, value) else as_bool(cap, value))


def stays_array(f: Frame, i: Instr, value: Value) -> bool:
    """Whether an array's truth is asked for by the jump that follows, which may become a `cond`."""
    return isinstance(value, (ArrayV, NumberV)) and f.code.instrs[i.index + 1].name.startswith("POP_JUMP_IF")


@opcode("COMPARE_OP")
def _compare(cap: Capture, f: Frame, i: Instr) -> None:
    a, b = f.popn(2)
    text = i.argval.removeprefix("bool(").removesuffix(")") if isinstance(i.argval, str) else i.argval
    result = binary(cap, COMPARE[text], a, b)
    asked = i.arg & 16 and BOOL_COMPARE and not stays_array(f, i, result)
    f.push(as_bool(cap, result) if asked else result)


@opcode("IS_OP")
def _is(cap: Capture, f: Frame, i: Instr) -> None:
    a, b = f.popn(2)
    f.push(Const(same_object(cap, a, b) != bool(i.arg)))


@opcode("CONTAINS_OP")
def _contains(cap: Capture, f: Frame, i: Instr) -> None:
    item, container = f.popn(2)
    f.push(Const(containers.contains(cap, container, item) != bool(i.arg)))


@opcode("BINARY_SUBSCR")
def _subscript(cap: Capture, f: Frame, i: Instr) -> None:
    obj, key = f.popn(2)
    f.push(subscript(cap, obj, key))


@opcode("BINARY_SLICE")
def _binary_slice(cap: Capture, f: Frame, i: Instr) -> None:
    obj, start, stop = f.popn(3)
    f.push(subscript(cap, obj, SliceV(start, stop, Const(None))))


@opcode("STORE_SUBSCR")
def _store_subscript(cap: Capture, f: Frame, i: Instr) -> None:
    value, obj, key = f.popn(3)
    containers.setitem(cap, obj, key, value)


@opcode("STORE_SLICE")
def _store_slice(cap: Capture, f: Frame, i: Instr) -> None:
    value, obj, start, stop = f.popn(4)
    containers.setitem(cap, obj, SliceV(start, stop, Const(None)), value)


@opcode("DELETE_SUBSCR")
def _delete_subscript(cap: Capture, f: Frame, i: Instr) -> None:
    obj, key = f.popn(2)
    containers.delitem(cap, obj, key)


# --- stack


@opcode("POP_TOP")
def _pop_top(cap: Capture, f: Frame, i: Instr) -> None:
    let_go(f.pop())


@opcode("SWAP")
def _swap(cap: Capture, f: Frame, i: Instr) -> None:
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@opcode("COPY")
def _copy(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(f.stack[-i.arg])


@opcode("PUSH_NULL")
def _push_null(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(NULL)


# --- building


@opcode("BUILD_TUPLE")
def _build_tuple(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(TupleV(f.popn(i.arg)))


@opcode("BUILD_LIST")
def _build_list(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(ListV(f.popn(i.arg)))


@opcode("BUILD_SET")
def _build_set(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(SetV({keys.hashable(cap, x) for x in f.popn(i.arg)}))


@opcode("BUILD_MAP")
def _build_map(cap: Capture, f: Frame, i: Instr) -> None:
    flat = f.popn(2 * i.arg)
    f.push(DictV({keys.hashable(cap, k): v for k, v in zip(flat[::2], flat[1::2])}))


@opcode("BUILD_CONST_KEY_MAP")
def _build_const_key_map(cap: Capture, f: Frame, i: Instr) -> None:
    keys = as_python(f.pop())
    f.push(DictV(dict(zip(keys, f.popn(i.arg)))))


@opcode("BUILD_SLICE")
def _build_slice(cap: Capture, f: Frame, i: Instr) -> None:
    parts = f.popn(i.arg)
    f.push(SliceV(parts[0], parts[1], parts[2] if i.arg == 3 else Const(None)))


@opcode("BUILD_STRING")
def _build_string(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(Const("".join(as_python(s) for s in f.popn(i.arg))))


@opcode("LIST_APPEND")
def _list_append(cap: Capture, f: Frame, i: Instr) -> None:
    item = f.pop()
    target = _target(cap, f, i)
    target.items.append(item)


@opcode("SET_ADD")
def _set_add(cap: Capture, f: Frame, i: Instr) -> None:
    item = f.pop()
    target = _target(cap, f, i)
    target.items.add(keys.hashable(cap, item))


@opcode("MAP_ADD")
def _map_add(cap: Capture, f: Frame, i: Instr) -> None:
    key, item = f.popn(2)
    target = _target(cap, f, i)
    target.items[keys.hashable(cap, key)] = item


@opcode("LIST_EXTEND")
def _list_extend(cap: Capture, f: Frame, i: Instr) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    try:
        target.items.extend(iterate(cap, source))
    except Raised as raised:
        raise _star_complaint(source, raised) from None


@opcode("SET_UPDATE")
def _set_update(cap: Capture, f: Frame, i: Instr) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    target.items.update(keys.elements_of(cap, source))


@opcode("DICT_UPDATE", "DICT_MERGE")
def _dict_update(cap: Capture, f: Frame, i: Instr) -> None:
    source = f.pop()
    target = _target(cap, f, i)
    found = keys.pairs(cap, source)
    if i.name == "DICT_MERGE":
        again = next((k for k, _ in found if k in target.items), None)
        if again is not None:
            raise Raised(Const(TypeError(f"{_callee_name(f, i)}() got multiple values for keyword argument {again!r}")))
    target.items.update(found)


def _target(cap: Capture, f: Frame, i: Instr) -> Any:
    """The container that an instruction of a display or comprehension fills."""
    target = f.stack[-i.arg]
    mutating(cap, target)
    return target


def _star_complaint(source: Value, raised: Raised) -> Raised:
    """`[*3]` words the error in its own way."""
    if isinstance(source, Const) and issubclass(type_of(raised.value), TypeError):
        return Raised(Const(TypeError(f"Value after * must be an iterable, not {type(source.value).__name__}")))
    return raised


def _callee_name(f: Frame, i: Instr) -> str:
    """The function that `f(**a, **b)` calls, as its TypeError names it."""
    fn: Any = next(v for v in reversed(f.stack[:-1 - i.arg]) if v is not NULL)
    fn = getattr(fn, "func", fn)
    module = fn.value.__module__ if isinstance(fn, Const) else fn.globals.get("__name__")
    name = fn.value.__qualname__ if isinstance(fn, Const) else fn.qualname
    return f"{module}.{name}" if module not in (None, "builtins") else name


@opcode("LIST_TO_TUPLE")
def _list_to_tuple(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(TupleV(cap.items(f.pop())))


@opcode("UNPACK_SEQUENCE")
def _unpack_sequence(cap: Capture, f: Frame, i: Instr) -> None:
    source = _unpacked(cap, f.pop())
    items = list(itertools.islice(source, i.arg))
    if len(items) < i.arg:
        raise Raised(Const(ValueError(f"not enough values to unpack (expected {i.arg}, got {len(items)})")))
    if next(source, None) is not None:
        raise Raised(Const(ValueError(f"too many values to unpack (expected {i.arg})")))
    f.stack.extend(reversed(items))


@opcode("UNPACK_EX")
def _unpack_ex(cap: Capture, f: Frame, i: Instr) -> None:
    before, after = i.arg & 0xFF, i.arg >> 8
    items = list(_unpacked(cap, f.pop()))
    if len(items) < before + after:
        least = f"at least {before + after}" if after or len(items) < before else f"at least {before}"
        raise Raised(Const(ValueError(f"not enough values to unpack (expected {least}, got {len(items)})")))
    tail = items[len(items) - after:] if after else []
    middle = items[before:len(items) - after]
    f.stack.extend(reversed([*items[:before], ListV(middle), *tail]))


def _unpacked(cap: Capture, value: Value) -> Iterator[Value]:
    """`iter(value)` for an unpacking, which has its own words for what is not iterable."""
    if isinstance(value, Const) and not hasattr(type(value.value), "__iter__") and not hasattr(
            type(value.value), "__getitem__"):
        raise Raised(Const(TypeError(f"cannot unpack non-iterable {type(value.value).__name__} object")))
    return iterate(cap, value)


# --- text


@opcode("FORMAT_VALUE")
def _format_value(cap: Capture, f: Frame, i: Instr) -> None:
    spec = f.pop() if i.arg & 4 else Const("")
    value = f.pop()
    how = (None, str, repr, ascii)[i.arg & 3]
    f.push(cap.call(Const(format), [value if how is None else cap.call(Const(how), [value]), spec]))


@opcode("FORMAT_SIMPLE")
def _format_simple(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(cap.call(Const(format), [f.pop(), Const("")]))


@opcode("FORMAT_WITH_SPEC")
def _format_with_spec(cap: Capture, f: Frame, i: Instr) -> None:
    value, spec = f.popn(2)
    f.push(cap.call(Const(format), [value, spec]))


@opcode("CONVERT_VALUE")
def _convert_value(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(cap.call(Const((None, str, repr, ascii)[i.arg]), [f.pop()]))


# --- functions


FLAGS = ((0x08, "closure"), (0x04, "annotations"), (0x02, "kwdefaults"), (0x01, "defaults"))


@opcode("MAKE_FUNCTION")
def _make_function(cap: Capture, f: Frame, i: Instr) -> None:
    code = as_python(f.pop())
    if not hasattr(code, "co_code"):
        raise Break("opcode", "MAKE_FUNCTION without a code object")
    made = FunctionV(code, f.globals, code.co_name, code.co_qualname)
    for flag, name in FLAGS:
        if i.arg & flag:
            set_function_part(cap, made, name, f.pop())
    f.push(made)


@opcode("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(cap: Capture, f: Frame, i: Instr) -> None:
    made = f.pop()
    value = f.pop()
    assert isinstance(made, FunctionV)
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
def _load_build_class(cap: Capture, f: Frame, i: Instr) -> None:
    f.push(Const(f.builtins["__build_class__"]))


unsupported("only modules and exec have it", "IMPORT_STAR", "PRINT_EXPR", "DELETE_NAME")

