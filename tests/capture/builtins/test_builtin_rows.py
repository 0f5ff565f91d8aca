"""Built-in functions and operators on instances of the program's own classes, and with arguments that they refuse:
each expression gives, or raises, what plain Python does."""

import abc
import array
import collections
import functools
import itertools
import os
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import filters
from tests.capture.program_kit import check_one_graph, outcome


class Plain:
    pass


class Shown:
    def __init__(self, n):
        self.n = n

    def __str__(self):
        return f"V{self.n}"

    def __repr__(self):
        return f"<V {self.n}>"

    def __getitem__(self, key):
        return self.n + len(key)


class Index:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


class Word(str):
    pass


class Items(list):
    pass


class Rounded:
    def __round__(self):
        return 7


class RoundedTo:
    def __round__(self, n=None):
        return n


class Sequence:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return [0, 10, 20][i]


class Backwards:
    def __reversed__(self):
        return iter([1, 2])


class Oneway(Sequence):
    __reversed__ = None


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return 5


class Meta(type):
    def __subclasscheck__(cls, other):
        return other is int


class Checked(metaclass=Meta):
    pass


class Hooked(metaclass=abc.ABCMeta):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other):
        return True if hasattr(other, "hooked") else NotImplemented


class Hook:
    hooked = 1


NAMES = {name: value for name, value in globals().items() if isinstance(value, type)}
EXPRESSIONS = """
'%s' % Shown(1) | '%s %r' % (Shown(1), Shown(2)) | '%5s|' % Shown(3)
'%(a)s %(b)r' % {'a': Shown(1), 'b': Shown(2)} | '%s' % [Shown(1)] | '%s' % (Shown(1), Shown(2))
'%s %s' % Shown(1) | 'abc' % Shown(1) | 'abc' % Plain() | '%d' % Shown(1) | '%(abc)d' % Shown(1)
'%s%%' % Shown(1) | '%.1s' % Shown(5) | '%d' % Index(3) | '%x' % Index(30) | '%a' % Shown(1)
'%*d' % (3, Index(4)) | b'%s' % Shown(1) | '%s' % Word('q') | '%c' % Shown(1) | '%q' % Shown(1)
Word('%s') % Shown(1) | '%-10s|%3d' % (Shown(1), 5) | 'abc' * Index(2) | Index(2) * 'abc'
(1, 2) * Index(2) | Index(2) * [1] | 'a' + Plain() | Plain() + 'a' | 'a' * Plain() | Plain() * 'a'
[1] + Plain() | (1,) + Plain() | b'a' + Plain() | b'a' * Index(3) | [1] * Plain() | Items([1]) * Index(2)
'a' + Word('b') | Plain() - 1 | 'a' - Plain() | round(Rounded()) | round(Rounded(), 1) | round(RoundedTo())
round(RoundedTo(), 2) | round(Plain()) | round(Shown(1), None) | list(reversed(Sequence()))
list(reversed(Backwards())) | reversed(Oneway()) | reversed(Plain()) | reversed(iter([1]))
reversed(x for x in [1]) | reversed(zip([1])) | list(reversed(range(3))) | list(reversed('abc'))
reversed(1.5) | list(reversed({1: 2}.values())) | list(reversed(Items([1, 2]))) | next(Endless())
next(Plain()) | next(Plain(), 1) | next([], 1) | next(iter([]), 1, 2) | iter(Plain())
list(iter(lambda: 5, 5)) | iter(Plain(), 1) | iter(5, 5) | iter(1, 2, 3) | getattr(5, 'a', 1, 2)
callable([].append) | callable('a'.join) | callable(Plain) | callable(Plain()) | callable([])
callable(print) | callable(lambda: 1) | callable(1) | callable(Shown(1).__str__) | callable([1].__len__)
type([].append) | type([].__len__) | type(object().__str__) | type(Shown(1).__str__) | type('a'.join)
type('a'.__len__) | type(Plain().__init__) | type(Plain().__eq__) | type(Items().append) | type((1).__add__)
[1].__len__.__self__ | issubclass(int, Checked) | issubclass(str, Checked) | issubclass(str, (Checked, str))
isinstance([], Checked) | issubclass(Hook, Hooked) | isinstance(Hook(), Hooked) | issubclass(Plain, Hooked)
issubclass(5, Checked) | issubclass(int, (5, Checked)) | isinstance(Plain(), (int, Hooked))
issubclass(dict, collections.abc.Mapping) | isinstance({}, collections.abc.Mapping)
isinstance(Sequence(), collections.abc.Sized) | {**{'a': 1}, **[('b', 2)]} | {**Plain()}
dict(**[('b', 2)]) | {**5} | (lambda **k: k)(**5) | {}.update(1, 2) | int.__new__(str) | int.__new__(5)
tuple.__new__(tuple, [1]) | tuple.__new__(list) | list.__new__(Items) | float.__new__(float, '1')
Items.__new__(list) | str.__new__(Word, 'x') | frozenset.__new__(set)
list(itertools.islice(itertools.count(), 1, 10, 2**62)) | itertools.islice([1]) | itertools.islice([1], -1)
itertools.islice([1], 'a') | list(itertools.islice([1, 2, 3], 1, None)) | itertools.repeat(1, 'a')
list(itertools.repeat(1, -3)) | itertools.count('a') | itertools.count(1, 'a')
list(itertools.combinations('abc', None)) | list(itertools.combinations('abc', 2))
itertools.permutations('abc', -1) | list(itertools.permutations('abc', None))
list(itertools.product('ab', [1])) | list(itertools.pairwise('abc')) | itertools.product(5)
itertools.tee([1], -1) | enumerate([1], 'a') | list(enumerate('ab', Index(4))) | sum('ab', '')
sum(['a'], 'b') | sum([[1]], []) | min(1, 2, default=3) | max([], default=4) | sorted([3, 1], reverse='x')
sorted([3, 1], reverse=1) | [3, 1].sort(reverse='x')
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("source", [s for s in EXPRESSIONS if s])
def test_the_same_as_in_plain_python(source):
    space = {**NAMES, "itertools": itertools, "collections": collections}
    exec(f"def fn():\n try:\n  return repr({source})\n except Exception as e:\n  return type(e), str(e)", space)
    got, want = dynacomp.jit(space["fn"])(), space["fn"]()
    assert strip(got) == strip(want)


def strip(found):
    """Without addresses."""
    return found.partition(" at 0x")[0] if isinstance(found, str) else found


def test_a_class_with_a_list_of_its_subclasses_is_asked_each_time():
    seen = []

    class Listing(type):
        def __subclasscheck__(cls, other):
            return other in seen

    class Listed(metaclass=Listing):
        pass

    def f():
        return issubclass(int, Listed)

    compiled = dynacomp.jit(f)
    assert not compiled()
    seen.append(int)
    assert compiled()


@pytest.mark.parametrize("name, value", [
    ("__cause__", 5), ("__context__", 5), ("__suppress_context__", "x"), ("args", 5), ("args", "ab"), ("args", [1, 2]),
    ("__traceback__", 5), ("__cause__", None), ("__suppress_context__", True)])
def test_what_exceptions_keep_in_c_takes_what_python_takes(name, value):
    def f():
        error = ValueError(1)
        try:
            setattr(error, name, value)
        except TypeError as refusal:
            return str(refusal)
        return getattr(error, name)

    assert dynacomp.jit(f)() == f()


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("hint", ["__len__", "__length_hint__"])
def test_lists_and_tuples_ask_for_the_length_first(kind, hint):
    asked = []

    def length(self):
        asked.append(hint)
        return 2

    Counted = type("Counted", (), {"__iter__": lambda self: iter([1]), hint: length})  # noqa: N806

    class Refusing:
        def __iter__(self):
            return iter([1])

        def __len__(self):
            raise ValueError("no length")

    def f():
        try:
            return kind(Counted()), kind(Refusing())
        except ValueError as error:
            return len(asked), str(error)

    assert dynacomp.jit(f)() == (1, "no length")
    assert f() == (2, "no length")


def test_a_dispatcher_whose_cache_the_program_sees(monkeypatch):
    class Seen(dict):
        stored = 0

        def __setitem__(self, key, value):
            Seen.stored += 1
            super().__setitem__(key, value)

    cache = Seen()
    monkeypatch.setattr(weakref, "WeakKeyDictionary", lambda: cache)

    @functools.singledispatch
    def kind(x):
        return "other"

    kind.register(int, lambda x: "int")
    compiled = dynacomp.jit(lambda x: (len(cache), kind(x), list(cache)), backend="eager")
    assert compiled(3) == (0, "int", [int]) and compiled(4) == (1, "int", [int])
    assert compiled("") == (1, "other", [int, str]) and Seen.stored == 2


def test_paths_are_looked_up_at_each_call(monkeypatch, tmp_path):
    def asked(x):
        return os.path.expanduser("~/x"), os.path.abspath("x"), os.path.lexists("made"), os.path.join("a", "b")

    compiled = dynacomp.jit(asked)
    assert compiled(1) == asked(1)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert compiled(1) == asked(1)
    (tmp_path / "made").touch()
    assert compiled(1) == asked(1) and compiled(1)[2]


def test_a_comprehension_fills_a_set_of_objects_that_hash_in_python(tmp_path):
    for name in "abc":
        (tmp_path / name).touch()
    with filters.strict(pytest):
        assert len(dynacomp.jit(lambda path: {p for p in path.iterdir()})(tmp_path)) == 3  # noqa: C416


@pytest.mark.parametrize("kind", [
    bytearray, type("Mine", (bytearray,), {}), memoryview, functools.partial(array.array, "B")])
def test_numbers_of_what_python_takes_for_text(kind):
    text = kind(b"12")
    assert dynacomp.jit(lambda text: (int(text), float(text)))(text) == (12, 12.0)
    assert dynacomp.jit(lambda: int(kind(b"12")))() == 12


def test_the_named_arguments_of_partials():
    base = functools.partial(jnp.clip, min=-1.0)

    def program(x, top):
        made = functools.partial(base, max=2.0)
        held = made.keywords
        held["max"] = base.keywords["max"] = top
        return made(x), made.func is jnp.clip, made.keywords is held, sorted(held), base(x), made

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(5):
        base.keywords.pop("max", None)
        want = program(jnp.arange(4.0), 1.0 + n)
        base.keywords.pop("max")
        have = compiled(jnp.arange(4.0), 1.0 + n)
        assert str(want) == str(have) and have[-1].keywords["max"] == base.keywords["max"] == 1.0 + n
    assert not dynacomp.stats()["breaks"]


def test_what_a_library_has_made_is_callable_where_its_class_says_so():
    def program(x):
        made = jax.sharding.PartitionSpec("a"), jax.ShapeDtypeStruct((2,), x.dtype), jax.nn.initializers.normal()
        return x + 1, [callable(m) for m in (*made, jax.grad(jnp.sum), jax.vjp(jnp.sin, x)[1], x.at)]

    check_one_graph(program, (jnp.arange(3.0),))


def test_a_range_of_a_size_refuses_what_is_no_int():
    def fn(x, stop):
        return x, range(x.shape[0], stop) == range(3, 4)

    compiled = dynacomp.jit(fn, backend="eager")
    for size in (3, 4, 5):
        for stop in (4, 6.0, "q", None):
            assert repr(outcome(compiled, (jnp.ones(size), stop))) == repr(outcome(fn, (jnp.ones(size), stop)))


def test_format_refuses_a_spec_that_is_no_text():
    class Money:
        def __format__(self, spec):
            return f"<{spec}>"

    def fn(x, spec):
        return x, format(Money(), spec)

    compiled = dynacomp.jit(fn, backend="eager")
    for spec in ("q", None, 3, "", [1]):
        assert repr(outcome(compiled, (jnp.ones(2), spec))) == repr(outcome(fn, (jnp.ones(2), spec)))


def test_a_range_from_a_truth_to_a_size_counts_in_ints():
    def fn(x, first, stop):
        return [*range(first, stop)], [i for i, _ in zip(range(first, stop), "ab")], x

    compiled = dynacomp.jit(fn, backend="eager")
    for first, stop in ((1, 3), (1, 4), (True, 4), (True, 5), (False, 2)):
        assert repr(compiled(jnp.ones(2), first, stop)) == repr(fn(jnp.ones(2), first, stop))
