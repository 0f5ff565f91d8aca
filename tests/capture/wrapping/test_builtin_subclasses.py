"""The built-in part of instances of subclasses: which class it is, what it holds, and what overrides hide of it."""

import collections
import enum

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.wrapping.builtin_subclasses import content, inherits, payload_base
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


class Stack(list):
    def push(self, item):
        self.append(item)
        return self


class Loud(Stack):
    def __len__(self):
        return 99

    def __getitem__(self, key):
        return "loud"


class Table(dict):
    def __missing__(self, key):
        return f"no {key}"


class Metres(float):
    def __add__(self, other):
        return Metres(float(self) + float(other))


class Word(str):
    tag = "word"


class Pair(collections.namedtuple("Pair", "left right")):
    def total(self):
        return self.left + self.right


class Rows(np.ndarray):
    pass


@pytest.mark.parametrize(("cls", "base"), [
    (Stack, list), (Loud, list), (Table, dict), (Metres, float), (Word, str), (Pair, tuple), (enum.IntFlag, int),
    (type("Queue", (collections.deque,), {}), collections.deque), (collections.Counter, dict), (list, None),
    (object, None),
    (Rows, None), (type("Error", (KeyError,), {}), None), (bool, None), (type("Meta", (type,), {}), None)])
def test_the_class_whose_content_instances_carry(cls, base):
    assert payload_base(cls) is base


def test_the_content_is_what_the_built_in_methods_say():
    loud = Loud([1, 2])
    assert content(loud) == [1, 2] and type(content(loud)) is list
    queue = type("Queue", (collections.deque,), {})([1, 2, 3], 2)
    assert content(queue) == collections.deque([2, 3], 2) and content(queue).maxlen == 2
    table = type("Lists", (collections.defaultdict,), {"__getitem__": None})(list, a=1)
    assert content(table) == {"a": 1} and content(table).default_factory is list


def test_which_methods_come_from_the_built_in_base():
    assert inherits(Stack, "append", "__len__") and not inherits(Stack, "push") and not inherits(Loud, "__len__")
    assert inherits(Loud, "append") and inherits(Pair, "__add__") and not inherits(Metres, "__add__", "__sub__")


def made(x):
    stack, loud, table = Stack([x]).push(2), Loud("ab"), Table(a=1)
    table["b"], stack[1:] = x, [5, 6]
    loud.extend(stack[1:])
    return (stack[1:], len(stack), len(loud), loud[0], list(loud), list.__len__(loud), table["a"], table["c"],
            table.get("c"),
            dict(table), sorted(table), stack[-1], Word("ab").upper(), Word("ab").tag)


def numbers(x):
    length = Metres(2.5)
    longer = length + 1
    return x * length, longer, type(longer).__name__, length - 1, float(longer), length > 2, round(length),
    f"{length:.1f}"


def tuples(x):
    pair = Pair(x, 2 * x)
    left, right = pair
    return pair.total(), pair._replace(left=0).left, pair[1] is right, len(pair), pair == pair, Pair._fields, left


@pytest.mark.parametrize("program", [made, numbers, tuples])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


def test_instances_from_outside_change_as_the_program_says():
    def program(x, stack, table):
        stack.append(len(stack))
        table["n"] = table.get("n", 0) + 1
        return x + len(stack), table["missing"]

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(6):
        ours, theirs = ((Stack(["a"]), Table(k=n)) for _ in range(2))
        assert repr(compiled(X, *ours)) == repr(program(X, *theirs)) and ours == theirs
        assert type(ours[0]) is Stack and len(ours[0]) == 2
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] <= 2
