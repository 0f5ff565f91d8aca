"""Opcodes that compute on the stack: attributes, operators, subscripts, comparisons, in place and not."""

import jax.numpy as jnp
import pytest

from tests.capture.program_kit import check_one_graph

X = jnp.arange(6.0).reshape(2, 3)


class Box:
    size = 3

    def __init__(self, value):
        self.value = value

    def __iadd__(self, other):
        self.value = [self.value, other]
        return self

    def __getitem__(self, key):
        return key


def subscripts(x):
    box, items, table = Box(x), [1, 2, 3, 4], {"k": [0]}
    items[1:3] = "ab"
    items[-1] = x
    del items[0]
    table["k"][0] += 5
    table["new"] = items[0]
    del table["new"]
    return box[1], box[1:2], box[..., None], box["a", 0], items, table, x[0, ::2], x[:, None].shape, x[-1][1:]


def attributes(x):
    box = Box(x)
    box.other, box.value = 1, x.T
    box += 2
    before = box.value
    del box.other
    return before[0].shape, hasattr(box, "other"), box.size, Box.size, x.at[0, 0].set(9.0), x.dtype


def compared(x):
    a, b = [1, 2], [1, 2]
    return (a == b, a is b, a is a, a != (1, 2), 1 < 2 < 3, 3 > 2 > 2, "a" in "cat", 5 not in a, x.shape == (2, 3),
            not a,
            None is None, x is x, a <= [1, 3], {1} < {1, 2}, (x > 2).sum(), x == x)


def computed(x):
    n, text = 7, "a"
    n //= 2
    n <<= 2
    n |= 1
    text *= 3
    y = x
    y += 1
    return n, text, ~n, -n, +n, n ** 2, n % 5, x is y, y, x @ x.T, 2 - x


def shuffled(x):
    a, b, c = 1, 2, x
    a, b, c = c, a, b
    b, a = a, b
    d = e = [a]
    d.append(b)
    return a, b, c, e, (lambda f: f)(3) if a else 4, a or b, a and c


@pytest.mark.parametrize("program", [subscripts, attributes, compared, computed, shuffled])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 2,))
