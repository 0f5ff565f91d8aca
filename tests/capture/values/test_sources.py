"""Sources: how they print and compare, that each is declared for guards and for bytecode, and what they find."""

import collections
import types

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.reconstruct import emit_sources
from dynacomp.capture.values import sources as S

BASE = S.Local(0, "self")
PRINTED = [
    (BASE, "L['self']"), (S.Closure(1, "f"), "C['f']"), (S.ClosureCell(0, "f"), "cell(f)"), (S.Global("g"), "G['g']"),
    (S.Handled(), "sys.exception()"), (S.TraceRef(), "jax_trace()"), (S.Root(3, "three"), "three"),
    (S.Attr(BASE, "w"), "L['self'].w"),
    (S.Get(BASE, "args"), "L['self'].args"), (S.Item(S.Attr(BASE, "layers"), 2), "L['self'].layers[2]"),
    (S.Key(BASE, "{name}"), "L['self']['{name}']"), (S.KnownKey(BASE, (), 1), "L['self'][<key tuple>]"),
    (S.Dim(BASE, 1), "L['self'].shape[1]"), (S.SizeOf("n + 1", ()), "n + 1"), (S.Carrier(BASE), "carrier(L['self'])"),
    (S.TypeOf(BASE), "type(L['self'])"), (S.Host("max", (BASE, 2), max), "max(L['self'], 2)"),
    (S.DictOf(BASE), "vars(L['self'])"), (S.Plain(BASE), "plain(L['self'])"),
    (S.Suspended(BASE, 1, "x"), "frame(L['self']).x"), (S.Delegate(BASE), "delegate(L['self'])"),
    (S.Upcoming(BASE, 3), "upcoming(L['self'], 3)"), (S.Iterated(BASE), "iterated(L['self'])"),
    (S.Reduced(BASE), "reduced(L['self'])"), (S.ThreadDict(BASE), "vars(L['self'])"),
    (S.Contextual(BASE), "L['self'].get()"), (S.Referent(BASE), "L['self']()")]


@pytest.mark.parametrize("source, text", PRINTED, ids=lambda x: type(x).__name__ if isinstance(x, S.Source) else "")
def test_how_it_prints(source, text):
    assert repr(source) == text


KINDS = {cls for cls in vars(S).values() if isinstance(cls, type) and issubclass(cls, S.Source)} - {S.Source}
COMPUTED = {S.Dim, S.SizeOf, S.Carrier, S.Host, S.At}  # guards read what these are computed from


@pytest.mark.parametrize("cls", sorted(KINDS, key=lambda c: c.__name__), ids=lambda c: c.__name__)
def test_each_is_read_by_a_guard_and_loaded_by_bytecode(cls):
    assert cls in emit_sources._SOURCES
    assert cls in COMPUTED or set(cls.read[1:]) <= {*getattr(cls, "__annotations__", ()), *S.Root.__slots__}


def test_steps_of_guards_differ():
    names = collections.Counter(cls.read[0] for cls in KINDS - COMPUTED)
    assert not [name for name, n in names.items() if n > 1]


def test_they_are_values():
    assert S.Item(BASE, 1) == S.Item(S.Local(0, "self"), 1) != S.Item(BASE, 2)
    assert len({S.Attr(BASE, "a"), S.Attr(BASE, "a"), S.Get(BASE, "a")}) == 2
    key = (1,)
    assert S.KnownKey(BASE, key, 1) == S.KnownKey(BASE, key, 1) != S.KnownKey(BASE, (*key,), 1)
    assert S.Root([], "a") != S.Root([], "a")


def test_sizes_are_the_same_in_the_next_attempt():
    first, second = (S.SizeOf(Scope().symbol("s0", 2) + 1, (("s0", S.Dim(BASE, 0)),)) for _ in range(2))
    assert first == second and hash(first) == hash(second) and len({first, second}) == 1
    assert first != S.SizeOf(first.expr + 1, first.reads) and first != S.SizeOf(first.expr, (("s0", S.Dim(BASE, 1)),))


def test_what_lies_on_the_way():
    path = S.Item(S.Attr(BASE, "layers"), 2)
    assert S.base_of(path) == S.Attr(BASE, "layers") and S.base_of(BASE) is None
    assert S.belongs_to_call(path) and not S.belongs_to_call(S.Attr(S.Global("m"), "w"))
    assert S.passed(S.Item(S.Key(BASE, "a"), 0)) == BASE and S.passed(path) is None


class Slots:
    __slots__ = ("w",)


def holders():
    slots = Slots()
    slots.w = 3.0
    return slots, types.SimpleNamespace(w=3.0), {"w": 3.0}, {Slots: 3.0}, [3.0]


READS = {"slot": lambda h: h[0].w, "attribute": lambda h: h[1].w, "key": lambda h: h[2]["w"],
         "class_as_key": lambda h: h[3][Slots], "item": lambda h: h[4][0], "instance_dict": lambda h: vars(h[1])["w"],
         "type": lambda h: len(type(h[0]).__slots__), "bound_method": lambda h: len(h[4].__len__.__self__)}


@pytest.mark.parametrize("name", READS)
def test_what_is_found_in_objects_made_anew_is_found_again(name):
    read = READS[name]
    compiled = dynacomp.jit(lambda x, h: x * read(h))
    dynacomp.reset()
    for n in range(2, 8):
        made = holders()
        assert (compiled(jnp.ones(n), made) == jnp.ones(n) * read(made)).all()
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["frames_captured"] <= 2  # the second for sizes that change
