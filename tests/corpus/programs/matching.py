"""`match` statements."""

from __future__ import annotations

from tests.corpus.kit import program


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def shape_of(v):
    match v:
        case 0 | 1:
            return "small"
        case int(n) if n < 0:
            return ("negative", n)
        case int():
            return "int"
        case "a" | "b" as letter:
            return ("letter", letter)
        case str(s):
            return ("str", s)
        case []:
            return "empty"
        case [one]:
            return ("one", one)
        case [first, *rest] if first == "list":
            return ("list", rest)
        case (a, (b, c)):
            return ("nested", a, b, c)
        case {"kind": "point", "x": px, **others}:
            return ("map", px, others)
        case {}:
            return "mapping"
        case Point(x=0, y=0):
            return "origin"
        case Point(x, y=5):
            return ("five", x)
        case Point():
            return "point"
        case None:
            return "none"
        case float(f):
            return ("float", f)
        case _:
            return "other"


@program
def every_pattern(x):
    values = (0, 1, -3, 9, "a", "z", [], [4], ["list", 1, 2], (1, (2, 3)), {"kind": "point", "x": 1, "w": 2}, {"q": 1},
              Point(0, 0), Point(2, 5), Point(3, 4), None, 2.5, {1}, (1, 2, 3), True, b"ab", range(1))
    return x, [shape_of(v) for v in values]


@program
def binds_arrays(x):
    match {"w": x, "b": [x + 1, 2]}:
        case {"w": w, "b": [b, k]}:
            return w * b + k


@program
def on_shape(x):
    match x.shape:
        case (n,):
            return x * n
        case (n, m):
            return x.reshape(m, n)


@program
def no_case_matches(x):
    y = "unset"
    match 5:
        case 6:
            y = "six"
    return x, y


@program
def star_and_wildcards(x):
    match [1, 2, 3, 4]:
        case [a, *_, z]:
            return x, a, z


@program
def mapping_of_subclass(x):
    import collections

    match collections.OrderedDict(a=1, b=2):
        case {"a": a, **rest}:
            return x, a, rest
