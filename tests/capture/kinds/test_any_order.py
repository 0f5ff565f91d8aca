"""Which attributes an object has is a condition; their order only where the program rests on it."""

import itertools
import types

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import outcome

ORDERS = [names for _ in range(2) for names in itertools.permutations(("one", "two", "four"))]


class Node:
    def __init__(self, names, scale):
        for name in names:
            setattr(self, name, jnp.float32(scale * len(name)))


def wrapped(name, value, log=None):
    if log is not None:
        log.append(name)
    return name, types.SimpleNamespace(value=value)


def folded(pairs):
    total = 0.0
    for _, x in pairs:
        total = total * 2 + x
    return total


def by_items(node):
    return folded(sorted(vars(node).items(), key=lambda pair: pair[0]))


def by_generators(node):
    pairs = ((name, wrapped(name, value)) for name, value in vars(node).items())
    return folded((name, x[1].value) for name, x in sorted((name[::-1], x) for name, x in pairs))


def by_names(node):
    return folded((name, getattr(node, name)) for name in sorted(vars(node), reverse=True)), "two" in vars(node)


def put_back(node):
    pairs = sorted(vars(node).items())
    vars(node).clear()
    for name, value in pairs:
        setattr(node, name, value + 1)
    node.last = 5
    return list(vars(node))


def put_one_back(node):
    table = vars(node)
    table["two"] = table.pop("two") * 2
    node.last, table["last but one"] = 5, table.pop("four")
    del table["last but one"], table["one"]
    node.one = 3
    return node.two


def removed(node):
    table = vars(node)
    del table["four"]
    return node.one + table["two"], "four" in table, hasattr(node, "four"), len(table)


def in_their_order(node):
    return list(vars(node)), folded(vars(node).items())


def with_ties(node):
    return sorted(vars(node), key=len)


def counted(node):
    count = itertools.count()
    return sorted((name, next(count)) for name in vars(node))


def logged(node):
    log = []
    found = sorted((wrapped(name, value, log)[0], 1) for name, value in vars(node).items())
    return found, log


def drawn_in_between(node):
    seen = []
    names = ((name, len(seen), seen.append(name)) for name in vars(node))
    return sorted(names)


def noted(node):
    node.notes = 0
    found = sorted((name, note(node)) for name in vars(node))
    del node.notes
    return found


def note(node):
    node.notes += 1
    return node.notes


def first_alone(node):
    names = (name for name in vars(node))
    return next(names), sorted(names)


def asked_on_the_way(node):
    return sorted((name, list(vars(node)).index(name)) for name in vars(node))


def run(program, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i, names in enumerate(ORDERS):
        plain, ours = Node(names, i), Node(names, i)
        assert repr(outcome(compiled, (ours,))) == repr(outcome(program, (plain,)))
        assert repr(list(vars(ours).items())) == repr(list(vars(plain).items()))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == captures and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("program", [by_items, by_generators, by_names, put_back, put_one_back, removed])
def test_one_capture_for_all_orders(program):
    run(program, 1)


@pytest.mark.parametrize("program", [in_their_order, with_ties, counted, logged, drawn_in_between, noted,
                                     first_alone, asked_on_the_way])
def test_a_capture_for_each_order_where_the_program_rests_on_it(program):
    run(program, 6)


def test_another_name_is_another_program():
    dynacomp.reset()
    compiled = dynacomp.jit(by_items, backend="eager")
    for names in (("a", "b"), ("b", "a"), ("a", "c"), ("a",), ("c", "a")):
        assert compiled(Node(names, 2)) == by_items(Node(names, 2))
    assert dynacomp.stats()["frames_captured"] == 3
