"""Guard steps: what each reads, what each refuses, and that none runs user code."""

import builtins
import collections
import functools
import gc
import random
import types
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dynacomp.capture import _native as native

from .native_kit import check, holds

GLOBAL = object()


class Loud:
    """Every special method that a careless guard might run fails the test."""

    def _boom(self, *args):
        raise AssertionError("a guard ran user code")

    __eq__ = __len__ = __iter__ = __getattr__ = __getitem__ = __bool__ = __contains__ = _boom
    __hash__ = object.__hash__


class LoudDict(dict):
    __eq__ = __len__ = __iter__ = __getitem__ = __contains__ = keys = Loud._boom
    __hash__ = object.__hash__


class Slots:
    __slots__ = ("a", "b", "__weakref__")


class Plain:
    kind = "plain"

    @property
    def computed(self):
        raise AssertionError("a guard ran user code")


def registers(steps, *locals, fn=lambda: None):
    return native.GuardProgram(steps).registers(fn, locals)


def last(steps, *locals, fn=lambda: None):
    found = registers(steps, *locals, fn=fn)
    return found and found[-1]


def closure_over(value):
    return lambda: value


def empty_cell():
    def inner():
        return value  # noqa: F821
    if False:
        value = 1
    return inner


def test_values_come_from_where_they_live():
    assert last([("local", 0, 1)], 10, 20) == 20
    assert last([("closure", 0, 0)], fn=closure_over(7)) == 7
    assert last([("global", 0, "GLOBAL")], fn=lambda: GLOBAL) is GLOBAL
    assert last([("const", 0, builtins), ("attr", 1, 0, "max")]) is max
    assert last([("local", 0, 0), ("item", 1, 0, -1)], [1, 2, 3]) == 3
    assert last([("local", 0, 0), ("key", 1, 0, ("k", 1))], {("k", 1): "v"}) == "v"
    assert last([("local", 0, 0), ("key", 1, 0, "k")], LoudDict(k="v")) == "v"
    assert last([("local", 0, 0), ("type", 1, 0)], 1.5) is float


@pytest.mark.parametrize("steps, fn", [
    ([("local", 0, 3)], None),
    ([("global", 0, "no_such_name")], None),
    ([("closure", 0, 0)], None),
    ([("closure", 0, 0)], empty_cell()),
    ([("local", 0, 0), ("item", 1, 0, 9)], None),
    ([("local", 0, 0), ("key", 1, 0, 9)], None),
    ([("local", 0, 0), ("attr", 1, 0, "kind")], None),
    ([("local", 0, 0), ("get", 1, 0, "__code__")], None),
])
def test_what_is_not_there_fails_the_guard(steps, fn):
    assert check(steps, [1], fn=fn) == len(steps) - 1


@pytest.mark.parametrize("filled", [0, 1, 40])
def test_attr_reads_instance_dicts_of_every_layout(filled):
    obj = Plain()
    for i in range(filled):
        setattr(obj, f"a{i}", i)
    read = native.GuardProgram([("local", 0, 0), ("attr", 1, 0, "a0"), ("eq", 1, 0)])
    missing = native.GuardProgram([("local", 0, 0), ("missing", 0, "computed"), ("missing", 0, "kind")])
    assert read.check(check, (obj,)) == (-1 if filled else 1)
    assert missing.check(check, (obj,)) == -1
    assert vars(obj) == {f"a{i}": i for i in range(filled)}  # the dict is made now
    assert read.check(check, (obj,)) == (-1 if filled else 1)
    obj.__dict__["a" + "0"] = 5
    assert read.check(check, (obj,)) == 2
    del obj.a0
    assert read.check(check, (obj,)) == 1
    obj.__dict__ = {"a0": 0}
    assert read.check(check, (obj,)) == -1


def test_attr_finds_a_name_that_was_not_interned():
    obj = Plain()
    object.__setattr__(obj, "".join(["na", "me"]), 3)
    assert last([("local", 0, 0), ("attr", 1, 0, "name")], obj) == 3


def test_attr_of_modules_types_and_functions():
    module = types.ModuleType("m")
    module.x = 4
    assert last([("local", 0, 0), ("attr", 1, 0, "x")], module) == 4
    assert last([("local", 0, 0), ("attr", 1, 0, "kind")], Plain) == "plain"
    assert check([("local", 0, 0), ("attr", 1, 0, "mro")], Plain) == 1  # the metaclass' is not its own
    fn = lambda: None
    fn.tag = 9
    assert last([("local", 0, 0), ("attr", 1, 0, "tag")], fn) == 9


def test_slots():
    obj = Slots()
    obj.a = "A"
    assert last([("local", 0, 0), ("slot", 1, 0, Slots.a)], obj) == "A"
    assert check([("local", 0, 0), ("slot", 1, 0, Slots.b)], obj) == 1
    assert check([("local", 0, 0), ("slot", 1, 0, Slots.a)], Plain()) == 1
    assert check([("local", 0, 0), ("empty_slot", 0, Slots.b)], obj) == -1
    assert check([("local", 0, 0), ("empty_slot", 0, Slots.a)], obj) == 1
    assert check([("local", 0, 0), ("empty_slot", 0, Slots.b)], Plain()) == 1
    with pytest.raises(TypeError, match="__slots__"):
        native.GuardProgram([("local", 0, 0), ("slot", 1, 0, Plain.computed)])


def test_dict_is_the_instance_dict_itself():
    obj = Plain()
    obj.x = 1
    assert last([("local", 0, 0), ("dict", 1, 0)], obj) is vars(obj)
    assert holds(("dict", 1, 0), ("keys", 1, ("x",)), value=obj)
    assert check([("local", 0, 0), ("dict", 1, 0)], 5) == 1


def test_get_reads_builtin_types_only():
    def fn(a, b=2, *, c=3):
        return a
    cells = closure_over(8)
    partial = functools.partial(fn, 1, c=4)
    method = "x".upper
    cases = [(fn, "__code__", fn.__code__), (fn, "__defaults__", (2,)), (fn, "__kwdefaults__", {"c": 3}),
             (fn, "__closure__", None), (fn, "__globals__", globals()),
             (cells, "__closure__", cells.__closure__), (cells.__closure__[0], "cell_contents", 8),
             (partial, "func", fn), (partial, "args", (1,)), (partial, "keywords", {"c": 4}),
             (range(1, 9, 2), "stop", 9), (slice(1, 2), "step", None),
             (Plain.computed, "fget", Plain.computed.fget),
             (staticmethod(fn), "__func__", fn), (types.MethodType(fn, 3), "__self__", 3),
             (types.MethodType(fn, 3), "__func__", fn), (method, "__self__", "x")]
    for obj, name, value in cases:
        assert last([("local", 0, 0), ("get", 1, 0, name)], obj) == value, name
    wrapped = functools.wraps(fn)(lambda: None)
    assert last([("local", 0, 0), ("get", 1, 0, "__wrapped__")], wrapped) is fn
    assert check([("local", 0, 0), ("get", 1, 0, "func")], Loud()) == 1
    with pytest.raises(ValueError, match="user code"):
        native.GuardProgram([("local", 0, 0), ("get", 1, 0, "shape")])


NAN = float("nan")
SAME = [None, ..., True, 3, 2**80, 1.5, -0.0, NAN, 1 - 2j, "text", b"bytes", (1, (2.0, "x")), range(3),
        slice(1, None), frozenset({1, "a"}), np.dtype("float32"), np.float32(2), np.float64("nan"),
        np.int8(3), ml_dtypes.bfloat16(1.5), np.dtype(ml_dtypes.bfloat16)]


def twin(value):
    """The same constant as another object, where Python lets us make one."""
    if isinstance(value, np.generic):
        return np.copy(value)[()]
    if type(value) is float:
        return float(repr(value)) if value == value else float("nan")
    if isinstance(value, tuple):
        return tuple([twin(v) for v in value])
    return eval(repr(value)) if type(value) in (int, str, bytes, complex, range, slice, frozenset) else value


@pytest.mark.parametrize("value", SAME, ids=lambda v: repr(sorted(v, key=str) if isinstance(v, frozenset) else v))
def test_eq_holds_for_the_same_constant_and_no_other(value):
    assert holds(("eq", 0, value), value=twin(value))
    for other in SAME:
        if other is not value:
            assert not holds(("eq", 0, value), value=other), other
    assert not holds(("eq", 0, value), value=Loud())


@pytest.mark.parametrize("expected, value", [
    (0.0, -0.0), (1, True), (1, 1.0), (True, 1), ((0.0,), (-0.0,)), (1.0, np.float64(1.0)), ("a", "b"),
    (frozenset({0.0}), frozenset({-0.0})), (np.float32(0), np.float32(-0.0)), (0j, -0j), (1, 2),
    ((1,), (1, 2)),
])
def test_eq_tells_apart_what_python_calls_equal(expected, value):
    assert not holds(("eq", 0, expected), value=value)


def test_eq_refuses_what_only_user_code_can_compare():
    for value in (Loud(), (1, Loud()), frozenset({Loud()}), [1]):
        with pytest.raises(TypeError, match="guard its identity"):
            native.GuardProgram([("local", 0, 0), ("eq", 0, value)])


def test_types_and_identity():
    loud = Loud()
    assert holds(("is_type", 0, Loud), ("is", 0, loud), value=loud)
    assert not holds(("is", 0, loud), value=Loud())
    assert holds(("is_not", 0, None), value=loud)
    assert not holds(("is_not", 0, None), value=None)
    assert not holds(("is_type", 0, int), value=True)
    assert holds(("is", 0, None), value=None)


@pytest.mark.parametrize("value", [(1, 2), [1, 2], {1: 1, 2: 2}, {1, 2}, frozenset((1, 2)), "ab", b"ab",
                                   collections.deque((1, 2)), LoudDict(a=1, b=2)])
def test_len_reads_the_storage(value):
    assert holds(("len", 0, 2), value=value)
    assert not holds(("len", 0, 3), value=value)


def test_len_of_anything_else_fails():
    assert not holds(("len", 0, 0), value=Loud())


def test_names_in_any_order():
    for names in ("ab", "ba"):
        assert holds(("names", 0, ["a", "b"]), value=dict.fromkeys(names))
    class Loudest(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            raise AssertionError("a guard compares in the program's code")
    for value in ({"a": 0}, {"a": 0, "c": 0}, {"a": 0, "b": 0, "c": 0}, {"a": 0, Loudest("b"): 0}, {"a": 0, 1: 0}, 5):
        assert not holds(("names", 0, ["a", "b"]), value=value)
    assert holds(("names", 0, []), value={})


def test_keys_in_order():
    assert holds(("keys", 0, ["a", 1, None]), value={"a": 0, 1: 0, None: 0})
    assert not holds(("keys", 0, ["a", 1]), value={1: 0, "a": 0})
    assert not holds(("keys", 0, ["a"]), value={"a": 0, "b": 0})
    assert not holds(("keys", 0, [1]), value={True: 0})
    assert holds(("keys", 0, ("a",)), value=LoudDict(a=1))
    loud = Loud()
    assert holds(("keys", 0, (loud,)), value={loud: 1})
    assert not holds(("keys", 0, (loud,)), value={Loud(): 1})
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert holds(("keys", 0, ("b", "a")), value=ordered)
    assert not holds(("keys", 0, ("a", "b")), value=ordered)


def test_absence():
    assert holds(("missing_key", 0, "k"), value={"j": 1})
    assert not holds(("missing_key", 0, "k"), value={"k": 1})
    assert not holds(("missing_key", 0, "k"), value=3)
    assert check([("missing_global", "nobody")]) == -1
    assert check([("missing_global", "GLOBAL")], fn=lambda: GLOBAL) == 0
    obj = Plain()
    obj.x = 1
    assert not holds(("missing", 0, "x"), value=obj)


def test_a_key_that_compares_loudly_is_no_match_and_no_error():
    class Colliding:
        def __hash__(self):
            return hash("k")

        def __eq__(self, other):
            raise ValueError

    assert not holds(("key", 1, 0, "k"), value={Colliding(): 1})
    assert not holds(("missing_key", 0, "k"), value={Colliding(): 1})


def test_type_unchanged_follows_the_class():
    class Base:
        def method(self): ...

    class Child(Base):
        value = property(lambda self: 1)

    found = (Base.method, Child.__dict__["value"], NotImplemented)
    unchanged = ("type_unchanged", 1, ("method", "value", "absent"), found)
    guards = native.GuardProgram([("local", 0, 0), ("type", 1, 0), unchanged])
    for _ in range(3):
        assert guards.check(check, (Child(),)) == -1
    assert guards.check(check, (Base(),)) == 2
    Base.other = 1
    assert guards.check(check, (Child(),)) == -1
    Child.method = lambda self: 2
    assert guards.check(check, (Child(),)) == 2
    del Child.method
    assert guards.check(check, (Child(),)) == -1
    Base.absent = None
    assert guards.check(check, (Child(),)) == 2


def test_names_unchanged_follows_the_dict():
    first, second = (lambda: 1), (lambda: 2)
    table = {"f": first, "n": 3}
    unchanged = ("names_unchanged", 0, ("f", "absent"), (first, NotImplemented))
    guards = native.GuardProgram([("const", 0, table), unchanged])
    for _ in range(3):
        assert guards.check(check, ()) == -1
    table["n"] = 4
    assert guards.check(check, ()) == -1
    table["f"] = second
    assert guards.check(check, ()) == 1
    table["f"] = first
    assert guards.check(check, ()) == -1
    table["absent"] = None
    assert guards.check(check, ()) == 1
    del table["absent"], table["f"]
    assert guards.check(check, ()) == 1
    assert native.GuardProgram([("const", 0, 3), ("names_unchanged", 0, (), ())]).check(check, ()) == 1


def test_a_plain_function_is_known_by_its_code():
    def made(bound):
        return lambda: bound

    guards = native.GuardProgram([("local", 0, 0), ("plain_function", 0, made(1).__code__)])
    first, second = made(1), made(2)
    assert [guards.check(check, (f,)) for f in (first, second, made, 3)] == [-1, -1, 1, 1]
    first.__defaults__, second.__kwdefaults__ = (1,), {}
    assert [guards.check(check, (f,)) for f in (first, second)] == [1, 1]
    first.__defaults__ = None
    assert guards.check(check, (first,)) == -1


def test_functions_that_have_what_they_had():
    def one(a=1, *, b=2): ...

    def two(): ...

    guards = native.GuardProgram([("functions_unchanged", (one, two))])
    code, defaults, named = one.__code__, one.__defaults__, one.__kwdefaults__
    for name, now, then in (("__code__", (lambda: 1).__code__, code), ("__defaults__", (2,), defaults),
                            ("__kwdefaults__", None, named)):
        setattr(one, name, now)
        assert guards.check(check, ()) == 0
        setattr(one, name, then)
        assert guards.check(check, ()) == -1
    two.__defaults__ = ()
    assert guards.check(check, ()) == 0
    two.__defaults__ = None
    assert guards.check(check, ()) == -1
    alive = weakref.ref(two)
    del two
    gc.collect()
    assert alive() is None and not guards.valid and guards.check(check, ()) == 0


@pytest.mark.parametrize("seed", range(8))
def test_attributes_that_come_and_go_in_every_order(seed):
    class Thing:
        pass

    class Slotted:
        __slots__ = ("__dict__",)

    draw, names = random.Random(seed), "abc"
    things: list[Any] = [Thing(), Thing(), Slotted()]
    present = {n: native.GuardProgram([("local", 0, 0), ("attr", 1, 0, n)]) for n in names}
    absent = {n: native.GuardProgram([("local", 0, 0), ("missing", 0, n)]) for n in names}
    no_key = {n: native.GuardProgram([("local", 0, 0), ("dict", 1, 0), ("missing_key", 1, n)]) for n in names}
    for turn in range(300):
        thing, name = draw.choice(things), draw.choice(names)
        match draw.randrange(8):
            case 0:
                setattr(thing, name, object())
            case 1:
                thing.__dict__.pop(name, None)
            case 2:
                thing.__dict__[name] = object()
            case 3:
                thing.__dict__ = dict(thing.__dict__)
            case 4:
                setattr(thing, f"more{draw.randrange(40)}", 1)
            case 5:
                things[things.index(thing)] = type(thing)()
            case 6:
                Thing.shared = turn
            case 7:
                thing.__dict__["".join(list(name))] = object()
        for n in names:
            for x in things:
                there = n in x.__dict__ if draw.randrange(2) else hasattr(x, n)
                assert (absent[n].check(check, (x,)) == -1) is not there
                assert (no_key[n].check(check, (x,)) == -1) is not there
                found = present[n].registers(check, (x,))
                assert (found is not None and found[1] is getattr(x, n)) if there else found is None


def test_a_guard_keeps_nothing_alive_and_dies_with_it():
    class Temporary:
        pass

    obj = Temporary()
    alive = weakref.ref(obj), weakref.ref(Temporary)
    guards = native.GuardProgram([("local", 0, 0), ("is_type", 0, Temporary), ("is", 0, obj)])
    assert guards.valid and guards.check(check, (obj,)) == -1
    del obj, Temporary
    gc.collect()
    assert [ref() for ref in alive] == [None, None]
    assert not guards.valid and guards.check(check, (1,)) == 0


@pytest.mark.parametrize("program, sizes, answer", [
    ((("size", 0), ("int", 3), "lt"), (2,), True),
    ((("size", 0), ("int", 3), "<"), (3,), False),
    ((("size", 0), ("size", 1), "mul", ("int", 12), "eq"), (3, 4), True),
    ((("int", -7), ("int", 2), "floordiv", ("int", -4), "eq"), (), True),
    ((("int", -7), ("int", 2), "mod", ("int", 1), "eq"), (), True),
    ((("int", 7), ("int", -2), "//", ("int", -4), "=="), (), True),
    ((("int", 7), ("int", -2), "%", ("int", -1), "=="), (), True),
    ((("size", 0), ("int", 0), "mod"), (4,), False),
    ((("int", 2**62), ("int", 4), "mul"), (), False),
    ((("int", 1), ("int", 0), "and"), (), False),
    ((("int", 1), ("int", 0), "or", "not", "not"), (), True),
    ((("int", 3), ("int", 5), "min", ("int", 3), "eq"), (), True),
    ((("int", 5), ("int", 3), "max", ("int", 5), "eq"), (), True),
    ((("int", 3), "neg", ("int", -3), "eq"), (), True),
])
def test_size_programs(program, sizes, answer):
    reads = [step for i in range(len(sizes)) for step in (("local", i, i), ("int_size", i, i))]
    assert (check([*reads, ("size_check", program)], *sizes) == -1) is answer


@pytest.mark.parametrize("program", [
    (), ("add",), (("int", 1), ("int", 2)), (("int", 1), "add"), (("size", 5),), (("int", 1), "what"), 3,
    (3,), (("int",),)])
def test_bad_size_programs_are_refused(program):
    with pytest.raises((ValueError, TypeError)):
        native.GuardProgram([("size_check", program)])


def test_scalars_of_any_value():
    assert holds(("scalar", 0, "int"), value=2**63 - 1)
    assert not holds(("scalar", 0, "int"), value=2**63)
    assert not holds(("scalar", 0, "int"), value=True)
    assert holds(("scalar", 0, "float"), value=1.5)
    assert holds(("scalar", 0, "bool"), value=False)
    assert holds(("scalar", 0, "complex"), value=1j)
    with pytest.raises(ValueError):
        native.GuardProgram([("local", 0, 0), ("scalar", 0, "str")])


@pytest.mark.parametrize("steps, error", [
    ([("nonsense", 0)], ValueError), ([()], TypeError), ([3], TypeError), ([("local", 0)], TypeError),
    ([("local", 0, 0, 0)], TypeError), ([("local", -1, 0)], ValueError), ([("local", 10**9, 0)], ValueError),
    ([("attr", 1, 0, "x")], ValueError), ([("local", 0, 0), ("attr", 1, 0, 3)], TypeError),
    ([("local", 0, 0), ("key", 1, 0, [])], TypeError), ([("local", 0, 0), ("is_type", 0, 3)], TypeError),
    ([("local", 0, 0), ("type_unchanged", 0, ("a",), ())], ValueError), (5, TypeError),
    ([("functions_unchanged", (3,))], TypeError), ([("functions_unchanged", 3)], TypeError),
    ([("const", 0, {}), ("names_unchanged", 0, (1,), (2,))], TypeError),
])
def test_bad_steps_are_refused(steps, error):
    with pytest.raises(error):
        native.GuardProgram(steps)


def test_many_registers():
    n = 500
    steps = [step for i in range(n) for step in (("local", i, i), ("eq", i, i))]
    guards = native.GuardProgram(steps)
    assert len(guards) == 2 * n
    assert guards.check(check, tuple(range(n))) == -1
    assert guards.check(check, (*range(n - 1), 0)) == 2 * n - 1
    assert guards.registers(check, tuple(range(n))) == list(range(n))


def test_check_needs_a_function_and_a_tuple():
    guards = native.GuardProgram([])
    assert guards.check(Plain().__repr__ and check, ()) == -1
    for args in [(3, ()), (check, [1])]:
        with pytest.raises(TypeError):
            guards.check(*args)


def _holds(steps, *values):
    return check(steps, *values) == -1


def test_identity_between_inputs():
    a, b = [], []
    steps = [("local", 0, 0), ("local", 1, 1)]
    assert _holds([*steps, ("same", 0, 1)], a, a)
    assert not _holds([*steps, ("same", 0, 1)], a, b)
    assert _holds([*steps, ("distinct", 0, 1)], a, b)
    assert not _holds([*steps, ("distinct", 0, 1)], a, a)
    with pytest.raises(ValueError, match="register 1 is read before"):
        native.GuardProgram([("local", 0, 0), ("same", 0, 1)])


def test_all_distinct():
    objs = [[] for _ in range(40)]
    steps = [("local", n, n) for n in range(40)]
    check_all = [*steps, ("all_distinct", tuple(range(40)), ())]
    assert _holds(check_all, *objs)
    assert not _holds(check_all, *objs[:39], objs[3])
    with pytest.raises(ValueError, match="register 40 is read before"):
        native.GuardProgram([*steps, ("all_distinct", (0, 40), ())])
    with pytest.raises(ValueError, match="register 40 is read before"):
        native.GuardProgram([*steps, ("all_distinct", (0,), (40,))])
    with pytest.raises(TypeError):
        native.GuardProgram([*steps, ("all_distinct", [0], ())])
    with pytest.raises(TypeError):
        native.GuardProgram([*steps, ("all_distinct", (0,), [1])])


def test_some_are_distinct_from_all_others():
    objs = [[] for _ in range(9)]
    steps = [*(("local", n, n) for n in range(9)), ("all_distinct", (4, 1, 7), (0, 2, 3, 5, 6, 8))]
    assert _holds(steps, *objs)
    assert _holds(steps, *objs[:8], objs[0])  # two of the others
    for n in (1, 4, 7):
        assert not _holds(steps, *objs[:8], objs[n])
    assert not _holds(steps, *objs[:4], objs[1], *objs[5:])
    one, other = Plain(), Plain()
    pair = [("local", 0, 0), ("local", 1, 1), ("all_distinct", (0,), (1,))]
    assert _holds(pair, one, other)
    assert not _holds(pair, one, vars(one)) and not _holds(pair, vars(one), one)
    other.__dict__ = one.__dict__
    assert not _holds(pair, one, other)


def test_sets_by_value_identity_and_order():
    loud = Loud()
    steps = [("local", 0, 0), ("set", 0, tuple({1, "a"}))]
    assert _holds(steps, {1, "a"}) and _holds(steps, frozenset({1, "a"}))
    for other in ({1, "b"}, {1}, {1.0, "a"}, [1, "a"]):
        assert not _holds(steps, other)
    assert _holds([("local", 0, 0), ("set", 0, (loud,))], {loud})
    assert not _holds([("local", 0, 0), ("set", 0, (loud,))], {Loud()})


def test_a_set_guard_keeps_no_object_alive():
    class Key:
        pass

    key = Key()
    guards = native.GuardProgram([("local", 0, 0), ("set", 0, (key,))])
    alive = weakref.ref(key)
    del key
    gc.collect()
    assert alive() is None and guards is not None


@pytest.mark.parametrize("a, op, b, answer", [
    (2, "add", 3, 5), (2, "sub", 3.5, -1.5), (2**70, "mul", 2, 2**71), (7, "truediv", 2, 3.5), (-7, "floordiv", 2, -4),
    (-7, "mod", 3, 2), ("a", "add", "b", "ab"), (1, "lt", 1.5, True), (2, "ge", 3, False), ("a", "eq", "a", True),
    (float("nan"), "ne", 1.0, True), (3, "neg", None, -3), (-2.5, "abs", None, 2.5), (True, "pos", None, 1),
    ("", "truth", None, False), (0.5, "truth", None, True), ("abc", "len", None, 3),
])
def test_numbers_are_computed_as_python_does(a, op, b, answer):
    operands = [("local", 0, 0), ("number", 1, 0, op, -1)] if b is None else [
        ("local", 0, 0), ("local", 2, 1), ("number", 1, 0, op, 2)]
    given = (a,) if b is None else (a, b)
    assert check([*operands, ("eq", 1, answer)], *given) == -1
    assert check([*operands, ("eq", 1, "another")], *given) != -1


def test_ids_are_those_of_any_objects():
    for thing in (Loud(), 5, [], None, test_ids_are_those_of_any_objects):
        assert check([("local", 0, 0), ("number", 1, 0, "id", -1), ("eq", 1, id(thing))], thing) == -1
        assert check([("local", 0, 0), ("number", 1, 0, "id", -1), ("eq", 1, id(thing) + 16)], thing) == 2


def test_whether_a_partial_has_a_dict_is_asked_without_making_one():
    made = functools.partial(len)
    has = lambda answer: check([("local", 0, 0), ("number", 1, 0, "has_dict", -1), ("eq", 1, answer)], made) == -1
    assert has(False) and has(False) and made.__reduce__()[2][3] is None
    made.__dict__  # noqa: B018
    assert has(True) and check([("local", 0, 0), ("number", 1, 0, "has_dict", -1), ("eq", 1, False)], 5) == -1


class LoudInt(int):
    __add__ = __eq__ = Loud._boom
    __hash__ = int.__hash__


@pytest.mark.parametrize("make", [
    lambda: (1, "truediv", 0), lambda: (10**400, "truediv", 3), lambda: (1, "add", "a"), lambda: (Loud(), "add", 1),
    lambda: (1, "eq", Loud()), lambda: (LoudInt(), "add", 1), lambda: (np.float64(1), "add", 1),
])
def test_numbers_that_cannot_be_computed_fail_the_guard(make):
    a, op, b = make()
    assert check([("local", 0, 0), ("local", 1, 1), ("number", 2, 0, op, 1)], a, b) == 2


@pytest.mark.parametrize("step", [("number", 1, 0, "what", 0), ("number", 1, 0, "add", 7), ("number", 1, 0, "add", -1)])
def test_bad_number_steps_are_refused(step):
    with pytest.raises(ValueError):
        native.GuardProgram([("local", 0, 0), step])
