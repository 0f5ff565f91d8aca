"""How many values each instruction takes off the stack or looks at, and which ones no graph breaks at.

When the graph breaks, the breaking instruction runs in Python: its operands are put on the real
stack again, the rest of the stack goes straight to the resume function. Every opcode that the
symbolic machine handles has a row here, or says why it never breaks: `check_rows` sees to it.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable
from typing import Any

from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.bytecode.code import VERSION, Instruction

# A number, or a function of the instruction's argument.
_COUNTS: dict[str, Any] = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST",
                     "LOAD_FAST_BORROW", "LOAD_BUILD_CLASS", "LOAD_ASSERTION_ERROR", "LOAD_LOCALS", "NOP",
                     "JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT", "DELETE_GLOBAL", "DELETE_FAST",
                     "DELETE_NAME", "RETURN_CONST"), 0),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "UNARY_NOT", "TO_BOOL", "GET_ITER", "FOR_ITER",
                     "LOAD_ATTR", "LOAD_METHOD", "DELETE_ATTR", "UNPACK_SEQUENCE", "UNPACK_EX", "FORMAT_SIMPLE",
                     "CONVERT_VALUE", "BEFORE_WITH", "IMPORT_FROM", "GET_LEN", "MATCH_MAPPING", "MATCH_SEQUENCE",
                     "STORE_GLOBAL", "STORE_FAST", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH",
                     "STORE_FAST_LOAD_FAST", "STORE_NAME", "POP_TOP",
                     "CALL_INTRINSIC_1", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "RETURN_VALUE",
                     "GET_YIELD_FROM_ITER", "LIST_TO_TUPLE", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF",
                     *(f"POP_JUMP_{way}IF_{what}" for way in ("", "FORWARD_", "BACKWARD_")
                       for what in ("TRUE", "FALSE", "NONE", "NOT_NONE"))), 1),
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "STORE_ATTR", "DELETE_SUBSCR",
                     "IMPORT_NAME", "FORMAT_WITH_SPEC", "SEND", "STORE_FAST_STORE_FAST", "CHECK_EXC_MATCH",
                     "END_ASYNC_FOR", "CHECK_EG_MATCH", "PREP_RERAISE_STAR", "CALL_INTRINSIC_2", "MATCH_KEYS",
                     "SET_FUNCTION_ATTRIBUTE"), 2),
    **dict.fromkeys(("STORE_SUBSCR", "BINARY_SLICE", "LOAD_SUPER_ATTR", "MATCH_CLASS"), 3),
    **dict.fromkeys(("STORE_SLICE", "WITH_EXCEPT_START"), 4),
    "CALL": lambda a: a + 2, "PRECALL": lambda a: a + 2, "CALL_KW": lambda a: a + 3,
    "CALL_FUNCTION_EX": lambda a: 3 + (a & 1), "FORMAT_VALUE": lambda a: 1 + bool(a & 4),
    "RAISE_VARARGS": lambda a: a, "RERAISE": lambda a: a + 1,
    "MAKE_FUNCTION": (lambda a: 1) if VERSION >= (3, 13) else lambda a: 1 + bin(a).count("1"),
    **dict.fromkeys(("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"), lambda a: a),
    "BUILD_MAP": lambda a: 2 * a, "BUILD_CONST_KEY_MAP": lambda a: a + 1,
    **dict.fromkeys(("LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE"), lambda a: a + 1),
    "MAP_ADD": lambda a: a + 2, "DICT_MERGE": lambda a: a + (4 if VERSION >= (3, 13) else 3),
}

_NEVER: dict[str, str] = {
    **dict.fromkeys(("CACHE", "EXTENDED_ARG", "RESUME", "RESERVED", "INTERPRETER_EXIT", "SETUP_ANNOTATIONS",
                     "END_SEND_NOOP"), "it does nothing"),
    **dict.fromkeys(("COPY", "SWAP", "PUSH_NULL", "KW_NAMES", "END_FOR", "END_SEND", "LOAD_FAST_AND_CLEAR"),
                    "it only moves values"),
    **dict.fromkeys(("COPY_FREE_VARS", "MAKE_CELL", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF",
                     "LOAD_CLASSDEREF"), "cells are known"),
    **dict.fromkeys(("PUSH_EXC_INFO", "POP_EXCEPT"), "it only notes what is being handled"),
    **dict.fromkeys(("RETURN_GENERATOR", "YIELD_VALUE", "ASYNC_GEN_WRAP", "CLEANUP_THROW"),
                    "a generator's frame ends there, and no other has it"),
}


def check_rows(names: Iterable[str]) -> None:
    """Every one of the opcodes `names` has a row; ImportError if not."""
    missing = set(names) & set(dis.opmap) - set(_COUNTS) - set(_NEVER)
    if missing:
        raise ImportError(f"capture/bytecode/stack_effects.py does not say how many operands {sorted(missing)} take: a "
                          "break there, so add a row to _COUNTS, or to _NEVER with the reason why it cannot")


def operands(i: Instruction, depth: int) -> int:
    """How many of the `depth` stack values the instruction needs on the real stack."""
    count = _COUNTS.get(i.name)
    if count is None:
        raise GiveUp("resume", f"a graph break at {i.name}, though {_NEVER.get(i.name, 'nothing is known of it')}")
    return min(depth, count(i.arg) if callable(count) else count)
