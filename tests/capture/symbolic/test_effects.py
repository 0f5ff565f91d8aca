"""The log of side effects: what it holds, and in which order replacement code replays it."""

import jax
import jax.numpy as jnp

import dynacomp
from dynacomp.capture.symbolic.effects import Effects, Globals, Phase
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.objects import DELETED


class Table:
    """A class whose attribute the program stores."""

    shared = 0


COUNT = 0


def everything(held, x):
    global COUNT
    held.append(x + 1)
    COUNT += 1
    Table.shared = COUNT * 10
    jax.debug.print("call {n}", n=COUNT)
    return x * 2


def test_phases_are_in_the_order_in_which_they_are_replayed():
    assert list(Phase) == sorted(Phase) == [Phase.CALLS, Phase.CHANGES, Phase.ARRAYS, Phase.NAMES, Phase.LAST]


def test_an_empty_log_is_false_and_a_call_makes_it_true():
    log = Effects()
    assert not log and not log.stored() and not list(log.operands())
    log.call(print, [Const(1)], table={"a": 1})
    (effect,) = log.calls
    assert log and effect.phase is Phase.CALLS and isinstance(effect.operands[2], Globals)
    assert [type(v).__name__ for v in log.operands()] == ["TupleV", "DictV"]


def test_what_names_were_given_is_found_though_it_was_deleted():
    log = Effects()
    log.globals[0, "a"], log.classes[0, "b"] = ({}, None, None), (int, DELETED)
    assert log.stored() == [None, DELETED]


def test_a_program_of_several_phases_is_captured_whole_and_leaves_what_python_leaves(capsys):
    compiled, held = dynacomp.jit(everything), []
    dynacomp.reset()
    for n in range(1, 11):
        assert compiled(held, jnp.float32(n)) == 2 * n
        assert (COUNT, Table.shared, len(held)) == (n, 10 * n, n)
    assert capsys.readouterr().out.splitlines() == [f"call {n}" for n in range(1, 11)]
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= 3
