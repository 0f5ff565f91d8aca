"""Opcodes that make objects: containers and what unpacks them, text, functions."""

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


class Keys:
    def keys(self):
        return ["a", "b"]

    def __getitem__(self, key):
        return key * 2


def containers(x):
    more, table = (1, x), {"k": x}
    return ([*more, *"ab"], (*more, 0), {*"a", 3} == {"a", 3}, {**table, "k": 1, **Keys()}, [], (), {}, set(),
            {1: 2, "a": x},
            slice(1, x.shape[0]), [x for _ in range(2)], dict.fromkeys(range(2), x), {n % 2 for n in range(4)})


def unpacked(x):
    a, (b, *c), d = 1, (x, 2, 3), "d"
    [e, f], *g = [[1, 2]]
    *h, i = "hi"
    (j,) = {"j": 0}
    k, l = x[:2]
    return a, b, c, d, e, f, g, h, i, j, k + l


def texts(x):
    n, name, width = 3, "ab", 6
    return f"{n:>{width}}|{name!r}|{n + 1:03d}|{1.5:.2f}|{x.shape}", f"{n=}", "-".join([name, str(n)]), x


def functions(x, scale=2.0, *, shift=1.0):
    total = 0

    def add(y, by=scale, *rest, key: int = 3, **others):
        nonlocal total
        total += by
        return y * by + shift + len(rest) + key + len(others)

    first = (lambda f, *a, **k: f(*a, **k))(add, x, key=1)
    second = add(x, 3.0, *[1, 2], **{"z": 0})
    return first, second, total, add.__defaults__, add.__kwdefaults__, add.__annotations__, add.__name__


@pytest.mark.parametrize("program", [containers, unpacked, texts, functions])
def test_one_graph(program):
    check_one_graph(program, (X,), (X - 1,))


def test_defaults_and_keywords_from_outside():
    check_one_graph(lambda x, **more: functions(x, **more), (X,), captures=1)
    check_one_graph(lambda x: functions(x, 5.0, shift=-1.0), (X,), (X * 2,))


@pytest.mark.parametrize("program", [
    lambda x: [*3, x], lambda x: {**x.shape, "k": x}, lambda x: dict(**{"a": 1}, **{"a": x}), lambda x: {**{[]: x}},
    lambda x: functions(x, **{1: 2}), lambda x: functions(x, shift=1, **{"shift": 2}),
], ids=["star", "two stars", "twice", "unhashable", "no text", "keyword twice"])
def test_what_cannot_be_built_raises_the_same(program):
    compiled = dynacomp.jit(program, backend="eager")
    want = outcome(program, (X,))
    assert want[0] is TypeError
    assert outcome(compiled, (X,)) == want == outcome(compiled, (X,))


@pytest.mark.parametrize("program", [lambda x, t: (lambda a, b: a)(*t), lambda x, t: [a for a, b in [t]]])
def test_too_few_and_too_many_values(program):
    compiled = dynacomp.jit(program, backend="eager")
    for t in ((1,), (1, 2, 3), (1, 2), (1,)):
        assert outcome(compiled, (X, t)) == outcome(program, (X, t))


class NoSequence:
    pass


@pytest.mark.parametrize("program", [
    lambda x: [*x.shape[0]], lambda x: (*x.shape[0], 1), lambda x: [*NoSequence()], lambda x: {*x.shape[0]}])
def test_what_is_no_iterable_of_another_size_in_each_call(program):
    def caught(x):
        try:
            return program(x)
        except TypeError as error:
            return x + 1, str(error)

    compiled = dynacomp.jit(caught, backend="eager")
    for n in (3, 4, 5):
        assert repr(outcome(compiled, (jnp.ones(n),))) == repr(outcome(caught, (jnp.ones(n),)))


def test_the_words_for_a_changing_number_that_is_unpacked():
    def fn(x, pair):
        first, second = pair
        return x * first

    compiled = dynacomp.jit(fn, backend="eager")
    for pair in (5, 6.5, 7, 8.5, 2, True):
        assert repr(outcome(compiled, (X, pair))) == repr(outcome(fn, (X, pair)))
