"""How many operands an instruction needs on the real stack, where the graph breaks at it."""

import dis

import pytest

from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.bytecode import stack_effects
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.stack_effects import check_rows, operands


def program(a, b, *c, **d):
    a.x = b[0]
    b[1] = a + b
    found = a.method(b, *c, **d)
    text = f"{a!r:>{b}} {found}"
    del b[2], a.x
    return [a, b, {a: b}, (text, -a, a < b, a in b, b[1:2])]


@pytest.mark.parametrize("fn", [program, lambda a, b: a(b, key=b), lambda a: [*a, {**a}], operands, check_rows])
def test_no_more_is_needed_than_the_instruction_consumes_and_leaves(fn):
    """An instruction that makes the stack lower by n needs at least n values."""
    for i in decode(fn.__code__).instrs:
        if i.name in stack_effects._NEVER:
            continue
        lower = -dis.stack_effect(dis.opmap[i.name], i.arg if dis.opmap[i.name] >= dis.HAVE_ARGUMENT else None)
        assert operands(i, 1000) >= min(lower, 1), i
        assert operands(i, 1) <= 1


def test_where_no_graph_breaks_the_reason_is_told():
    push = next(i for i in decode((lambda: (yield)).__code__).instrs if i.name == "YIELD_VALUE")
    with pytest.raises(GiveUp, match="YIELD_VALUE, though a generator's frame ends there"):
        operands(push, 3)


def test_an_opcode_without_a_row_fails_the_import(monkeypatch):
    check_rows({"BINARY_OP", "COPY"})
    monkeypatch.delitem(stack_effects._COUNTS, "BINARY_OP")
    with pytest.raises(ImportError, match=r"\['BINARY_OP'\]"):
        check_rows({"BINARY_OP", "COPY"})
    check_rows({"NO_SUCH_OPCODE"})  # of another Python
