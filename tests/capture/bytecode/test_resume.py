# ruff: noqa: B023, C417, E741 (what these programs do is what is tested)
"""Graph breaks in unusual places: comprehensions, lambdas, callees of built-in functions, `match`, long chains."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def agree(program, args=lambda: (jnp.arange(3.0),), eager=()):
    """Plain and compiled results are the same, and every frame was captured."""
    want = program(*args())
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        got = compiled(*args())
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            np.testing.assert_array_equal(a, b)
    stats = dynacomp.stats()
    assert set(stats["frames_eager"]) <= set(eager), stats["frames_eager"]
    return stats


def leave(value):
    """A callee that breaks the graph and gives its argument back."""
    dynacomp.graph_break()
    return value


def in_comprehension(x):
    n = 2
    found = [[leave(x * k + n) for k in range(j)] for j in range(3)]
    return found, n


def comprehension_with_cells(x):
    i = 3
    functions = [lambda: leave(x + i) for i in range(3)]
    later = [f() for f in functions]
    return later, i, [leave(j)() for j in [(lambda: i) for i in range(2)]], i


def break_between_cells(x):
    i = 3
    total = [(leave(i), (lambda: i)) for i in range(3)]
    first = [f() for _, f in total]
    return x + 1, first, i, [(lambda: i)() + leave(1) for i in range(2)]


def shadowed_free_variable(x):
    k = 5

    def inner(x):
        found = [leave(k) for k in range(3)]
        return found, k, [leave(x + k) for x in range(2)]

    return inner(x), k


def shadowed_cell(x):
    k = 5
    read = lambda: leave(k)  # noqa: E731
    found = [leave(k) + 1 for k in range(3)]
    return x + 1, found, read(), k, [(k, leave(n)) for n in range(2)]


def dict_and_set_comprehensions(x):
    return {k: leave(x + k) for k in range(3)}, sorted({leave(k % 2) for k in range(4)}), x * 2


def in_lambda(x):
    f = lambda a: leave(a * 2) + 1  # noqa: E731
    return f(x), f(f(x))


def in_sorted_key(x):
    return sorted([3, 1, 2], key=lambda n: leave(-n)), x + 1


def in_map(x):
    return list(map(lambda n: leave(x * n), range(3))), functools.reduce(lambda a, b: leave(a + b), [1, 2, 3])


def produce(x):
    for n in range(3):
        yield leave(x + n)
        x = x * 2


def in_inlined_generator(x):
    total = x
    for item in produce(x):
        total = total + item
    return total


def in_match(x):
    found = []
    for subject in (1, (1, 2), {"a": 3}, "text", [leave(1), 2, 3]):
        match subject:
            case int(n) if leave(n) > 0:
                found.append(("int", n))
            case (a, b) if leave(a):
                found.append(("pair", a, b))
            case {"a": value}:
                found.append(leave(value))
            case str():
                found.append("str")
            case [first, *rest]:
                found.append((leave(first), rest))
    return x + 1, found


def in_conditions(x):
    y = x + 1 if leave(True) and not leave(False) else x
    while leave(len(y.shape)) > 3:
        y = y * 2
    assert leave(1) < leave(2) < leave(3)
    return y, [*leave((1, 2)), *leave([3])], {**leave({"a": 1})}, f"{leave(3)!r:>4}"


def in_arguments(x):
    def f(*args, **kwargs):
        return args, sorted(kwargs.items())

    return f(leave(x), *leave((1, 2)), a=leave(3), **leave({"b": 4})), x + 1


def in_stores(x):
    table = {"k": [0, 0]}
    table[leave("k")][leave(0)] = leave(7)
    table["k"][leave(0):leave(1)] = leave([5, 6])
    del table["k"][leave(0)]
    (a, *b), c = leave(((1, 2, 3), 4))
    return x + 1, table, a, b, c


def deep(x, n):
    if n == 0:
        return leave(x * 2)
    y = x + n
    y = deep(y, n - 1)
    return y - 1


def at_depth(x):
    return deep(x, 4)


def many_variables(x):
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o = leave(tuple(range(15)))
    p, q = leave((15, 16))
    r, s = q, p
    t = leave(r)
    return x + 1, [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t], (lambda: (t, s))(), leave(p) + r + s


PROGRAMS = [in_comprehension, many_variables, shadowed_free_variable, shadowed_cell, comprehension_with_cells,
            break_between_cells, dict_and_set_comprehensions, in_lambda,
            in_sorted_key, in_map, in_inlined_generator, in_match, in_conditions, in_arguments, in_stores, at_depth]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_break_in(program):
    agree(program)


def straight():
    """A function of twenty breaks in a row, with a step before each and after the last."""
    steps = itertools.islice(itertools.cycle(["x + 1", "x * 2", "x - 1", "x + 2", "x * 3", "x - 2"]), 20)
    lines = "".join(f"    x = {step}\n    dynacomp.graph_break()\n" for step in steps)
    namespace = {"dynacomp": dynacomp}
    exec(f"def straight(x):\n{lines}    return x - 1\n", namespace)
    return namespace["straight"]


def test_twenty_breaks_in_a_row_are_twenty_one_graphs():
    stats = agree(straight())
    assert stats["graphs"] == 21
    assert stats["breaks"] == {"user": 20}


def branching(x, flags):
    for flag in flags:
        dynacomp.graph_break()
        x = x + 1 if flag else x * 2
        dynacomp.graph_break()
    return x


def test_resume_functions_are_shared():
    compiled = dynacomp.jit(branching, backend="eager")
    for flags in ([True] * 6, [False] * 6, [True, False] * 3):
        np.testing.assert_array_equal(compiled(jnp.arange(3.0), flags), branching(jnp.arange(3.0), flags))
    assert dynacomp.stats()["graphs"] <= 12
