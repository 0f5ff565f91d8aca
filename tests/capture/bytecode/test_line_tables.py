"""Lines and columns of code objects that are made here: what is written is what Python reads."""

import sys
import traceback

import jax.numpy as jnp
import pytest
from bytecode import Bytecode, Instr
from bytecode.instr import InstrLocation

import dynacomp
from dynacomp.capture.bytecode.line_tables import to_code

FAR = [(1, 1, 3, 9), (2, 2, 127, 128), (3, 3, 130, 180), (3, 3, 130, 180), (5, 5, 255, 300), (4, 9, 140, 2),
       (None, None, None, None), (6, 6, None, None), (80, 80, 70000, 70001), (81, 81, 0, 200)]


@pytest.mark.parametrize("times", [1, 3, 20])
def test_positions_are_those_of_the_instructions(times):
    body = [Instr("NOP", location=InstrLocation(*place)) for place in FAR for _ in range(times)]
    last = InstrLocation(82, 82, 150, 160)
    made = to_code(Bytecode([*body, Instr("LOAD_CONST", None, location=last), Instr("RETURN_VALUE", location=last)]))
    want = [*(place for place in FAR for _ in range(times)), (82, 82, 150, 160), (82, 82, 150, 160)]
    assert list(made.co_positions())[-len(want):] == want
    lines = [line for start, end, line in made.co_lines() for _ in range((end - start) // 2)]
    assert lines[-len(want):] == [place[0] for place in want] and len(lines) == len(made.co_code) // 2


FAR_RIGHT = " " * 140
SOURCE = f"""
def program(x):
    y = x + ({FAR_RIGHT}1)
    z = y * 2; dynacomp.graph_break(); w = z +{FAR_RIGHT} jnp.sin(z); v = w * 2
    u = v +{FAR_RIGHT} 1; dynacomp.graph_break(); t = u + 1; return t + fail({FAR_RIGHT}len(t))
def fail(n):
    if n == 3:
        raise ValueError(n)
    return n
"""


def outcome(fn, x):
    try:
        return repr(fn(x))
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [(f.lineno, f.colno, f.end_colno) for f in frames if f.name in ("program", "fail")]


def test_long_lines_under_a_profiler():
    """Python wrote behind the end of an array."""
    scope = {"dynacomp": dynacomp, "jnp": jnp}
    exec(compile(SOURCE, "long_lines.py", "exec"), scope)
    compiled, seen = dynacomp.jit(scope["program"], backend="eager"), []
    for n in (2, 3, 4, 3, 5):
        assert outcome(compiled, jnp.ones(n)) == outcome(scope["program"], jnp.ones(n))
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_lineno))
    try:
        for n in (2, 4, 5):
            compiled(jnp.ones(n))
    finally:
        sys.setprofile(None)
    assert set(seen) & {3, 4, 5}
    assert dynacomp.stats()["frames_captured"] >= 3
