"""Where the ways through a function meet; and that looking for it leaves no trace in the program."""

import subprocess
import sys

import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.control_flow_graph import EXIT, meeting_place

PROGRAM = """
import jax, jax.numpy as jnp, dynacomp

def shrink(x):
    for i in range(300):
        x = x * 0.99 + jnp.sin(x) * 0.01
    return x.sum()

dynacomp.jit(jax.grad(shrink), backend="eager")(jnp.ones(8))
print(dict(dynacomp.stats()["breaks"]))
"""


def joined(x):
    if x:
        y = x + 1
    else:
        y = x - 1
    z = y * x
    return z


def apart(x):
    if x:
        return 1
    return 2


def jump_of(code):
    return next(i for i, instr in enumerate(code.instrs) if "JUMP" in instr.name and "_IF_" in instr.name)


def test_ways_meet_where_both_go_on():
    code = decode(joined.__code__)
    place = meeting_place(code, jump_of(code))
    assert code.instrs[place].line == joined.__code__.co_firstlineno + 5


def test_ways_that_return_meet_at_the_end():
    code = decode(apart.__code__)
    assert meeting_place(code, jump_of(code)) == EXIT


@pytest.mark.medium
def test_what_our_own_library_does_is_no_effect_of_the_programs():
    """A process in which a loop inside a transformed function is the first thing that is looked at."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
