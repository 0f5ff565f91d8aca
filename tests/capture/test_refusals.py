"""What CPython refuses is refused with its exceptions and words; and which object comes back where it may choose."""

import csv
import re
import sqlite3
import threading
import types

import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")

T = (1, 2, 3)
L = [1, 2]
EXPRESSIONS = """
T[::0] | L[::0] | T['a':] | L[1.5:] | L[None:'a'] | L + T | T + L | L * 1.5 | T[1.5] | L['a'] | L.index(77)
T.index(77) | L.pop(7) | [].pop() | L.remove(77) | L.insert('a', 1) | L * 10**18 | L.append() | L.append(1, 2)
L.append(x=1) | hasattr(L, 3) | getattr(L, 3) | setattr(L, 3, 4) | delattr(L, 'x') | isinstance(L, 3)
isinstance(1, (int, 3)) | isinstance('a', (int, 3)) | issubclass(3, int) | len(3) | len() | len(1, 2) | iter(3)
next(3) | abs('a') | sum(3) | sum(['a', 'b']) | zip(3) | enumerate(3) | sorted([1, 'a']) | ord('ab') | chr(-1)
dict([1]) | dict([(1, 2, 3)]) | max() | min() | max([]) | max([], default=4) | max(1) | max(1, 2, key=3) | slice()
slice(1, 2, 3, 4) | map(3) | set([[]]) | {[]: 1} | int('a') | float('x') | range(1, 2, 0) | range(1.5)
list(map(3, [1])) | divmod(1, 0) | pow(2, -1, 0) | round('a') | type(1, 2) | super() | bytes(-1) | bytes('a')
complex('x') | '%d' % 'a' | '{}'.format() | 'a'.join([1]) | 'a'.join(3) | 'a' + 1 | 1 + 'a' | [1] + 'a' | 'a' * 'b'
{}['x'] | {}.popitem() | set().pop() | 1 @ 2 | -'a' | ~1.5 | 1 < 'a' | 1 in 3 | [] < () | L() | T() | (1).x
None.x | [].x | {}.x | int.x | print(sep=3) | (lambda a: a)() | (lambda a: a)(1, 2) | (lambda a: a)(b=2)
(lambda *, a: a)() | (lambda a, /: a)(a=2) | (lambda **k: k)(**{1: 2}) | (lambda **k: k)(**{'a': 2}, **{'a': 3})
(lambda *k: k)(*3) | any(3) | reversed({1}) | hash([]) | callable() | vars(3) | object().x
setattr(object(), 'x', 1) | object.__new__(int) | object(1) | int(1, 2) | bool(1, 2) | list(1, 2) | tuple(1, 2)
list(a=1) | dict(1, 2) | (1).__add__('a') | [].__getitem__('a') | 'a'[4] | 'a'['b'] | {}.get() | {}.setdefault()
{}.update(3) | {}.update([3]) | T.count() | 'a'.x | super(int, 'a').x | T * 1 is T | T + () is T | () + T is T
range() | range(1, 2, 3, 4) | type(csv.reader([]))() | re.Match() | sqlite3.Connection() | threading.Lock().__class__(1)
T[:] is T | T[0:5] is T | tuple(T) is T | T * 0 is () | T[3:] is () | L[:] is L
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("source", [s for s in EXPRESSIONS if s])
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_the_same_as_in_plain_python(source):
    space = {"T": T, "L": L, "csv": csv, "re": re, "sqlite3": sqlite3, "threading": threading}
    exec(f"def fn():\n try:\n  return {source}\n except Exception as error:\n  return type(error), str(error)", space)
    assert dynacomp.jit(space["fn"])() == space["fn"]()


def test_an_empty_cell_says_so():
    def fn():
        try:
            return types.CellType().cell_contents
        except ValueError as error:
            return str(error)

    assert dynacomp.jit(fn)() == fn() == "Cell is empty"


def test_slices_of_anything():
    def fn(s):
        return s == slice([1], 2), s.start

    assert dynacomp.jit(fn)(slice([1], 2)) == fn(slice([1], 2))


def test_super_of_a_deleted_argument():
    class Child(dict):
        def fn(self):
            del self
            try:
                super()
            except RuntimeError as error:
                return str(error)

    assert dynacomp.jit(Child.fn)(Child()) == "super(): arg[0] deleted"


def test_repeated_by_an_instance_with_an_index():
    class Two:
        def __index__(self):
            return 2

    def fn(two):
        return [1] * two, (1, 2) * two, [3].__mul__(two), two * [4]

    assert dynacomp.jit(fn)(Two()) == fn(Two())
