"""Guards that have settled: whatever changes, they say what the steps say; and what does not change is not asked."""

import gc
import random
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque

import pytest

from dynacomp.capture import _native as native

from .native_kit import direct, isolated  # noqa: F401


@pytest.fixture(autouse=True)
def settling(isolated):  # noqa: F811
    """Every program settles at its second call, and is asked step by step beside it."""
    before = native.settle(1, True)
    yield
    native.settle(*before)


class Thing:
    def __init__(self, **values):
        vars(self).update(values)


class Plain:
    """Its attributes stand in an array: nobody has asked for its dictionary."""

    def __init__(self, a, b):
        self.a, self.b = a, b


class Slots:
    __slots__ = ("a", "b")

    def method(self):
        pass


class Watched:
    """A function of one argument with an entry under these guards on it."""

    def __init__(self, *steps, inputs=(0,)):
        def fn(x):
            return "python"

        self.fn = fn
        self.compiled = native.CompiledFunction(fn)
        self.entry = direct(fn, lambda *values: ("compiled", *values), [("local", 0, 0), *steps], inputs=inputs)

    def hits(self, x):
        before = self.entry.hits
        said = self.compiled(x)
        hit = self.entry.hits > before
        assert hit == (said != "python") == (self.entry.guards.check(self.fn, (x,)) == -1)
        return hit

    def settled(self, x):
        """Whether the call was served by places that have not changed."""
        before = native.counters()["settled"]
        assert self.hits(x)
        return native.counters()["settled"] > before


def settle(watched, x):
    for _ in range(4):
        assert watched.hits(x)
    assert watched.settled(x)


class Meta(type):
    pass


class Sub(Thing, metaclass=Meta):
    pass


def renamed(x):
    x.a = 2


def removed(x):
    del x.a


def another_class(x):
    x.__class__ = type("Other", (Thing,), {})


def another_dict(x):
    x.__dict__ = {"a": 2}


def through_the_dict(x):
    vars(x)["a"] = 2


@pytest.mark.parametrize("change", [renamed, removed, another_class, another_dict, through_the_dict])
@pytest.mark.parametrize("make", [lambda: Thing(a=1), lambda: Plain(1, 2), lambda: Sub(a=1)])
def test_an_attribute(make, change):
    x = make()
    watched = Watched(("is_type", 0, type(x)), ("attr", 1, 0, "a"), ("eq", 1, 1))
    settle(watched, x)
    change(x)
    assert not watched.hits(x)


@pytest.mark.parametrize("make", [lambda: Thing(a=1), lambda: Plain(1, 2)])
def test_an_attribute_that_appears(make):
    x = make()
    watched = Watched(("is_type", 0, type(x)), ("missing", 0, "c"))
    settle(watched, x)
    x.d = 1
    assert watched.hits(x)
    x.c = 1
    assert not watched.hits(x)
    del x.c
    assert watched.hits(x)


def test_another_object_of_the_same_content():
    watched = Watched(("is_type", 0, Plain), ("attr", 1, 0, "a"), ("eq", 1, 1))
    x = Plain(1, 2)
    settle(watched, x)
    for n in range(20):
        assert watched.hits(Plain(1, n))
        assert not watched.hits(Plain(2, n))


def test_numbers_made_anew_at_one_address():
    """An int that is freed makes room for another one, which has the same address."""
    x = Plain(10**20, None)
    watched = Watched(("is_type", 0, Plain), ("attr", 1, 0, "a"), ("eq", 1, 10**20))
    settle(watched, x)
    for n in range(50):
        x.a = None
        x.a = 10**20 + n % 2
        assert watched.hits(x) == (n % 2 == 0)


def test_objects_made_anew_at_one_address():
    x = Thing(child=Plain(1, 2))
    watched = Watched(("attr", 1, 0, "child"), ("is_type", 1, Plain), ("attr", 2, 1, "a"), ("eq", 2, 1))
    settle(watched, x)
    for n in range(50):
        del x.child
        x.child = Plain(1 + n % 2, 2)
        assert watched.hits(x) == (n % 2 == 0)
    del x.child
    assert not watched.hits(x)


@pytest.mark.parametrize("change, holds", [
    (lambda x: x.append(7), False), (lambda x: x.pop(), False), (lambda x: x.__setitem__(1, 3), False),
    (lambda x: x.__setitem__(0, 9), True), (lambda x: x.clear(), False), (lambda x: x.reverse(), False),
    (lambda x: x.__setitem__(slice(None), [5, 2]), True)])
def test_a_list(change, holds):
    x = [1, 2]
    watched = Watched(("is_type", 0, list), ("len", 0, 2), ("item", 1, 0, 1), ("eq", 1, 2))
    settle(watched, x)
    change(x)
    assert watched.hits(x) == holds


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda x: defaultdict(list, x)])
@pytest.mark.parametrize("change, holds", [
    (lambda x: x.update(b=3), False), (lambda x: x.update(a=2), True), (lambda x: x.update(c=2), False),
    (lambda x: x.pop("b"), False), (lambda x: x.clear(), False), (lambda x: x.update(a=x.pop("a")), False)])
def test_a_dict(kind, change, holds):
    x = kind({"a": 1, "b": 2})
    watched = Watched(("is_type", 0, type(x)), ("keys", 0, ("a", "b")), ("key", 1, 0, "b"), ("eq", 1, 2),
                      ("missing_key", 0, "c"))
    settle(watched, x)
    change(x)
    assert watched.hits(x) == holds


def test_an_order_that_a_dict_keeps_itself():
    x = OrderedDict(a=1, b=2)
    watched = Watched(("is_type", 0, OrderedDict), ("keys", 0, ("a", "b")), ("key", 1, 0, "a"), ("eq", 1, 1))
    settle(watched, x)
    x.move_to_end("a")
    assert not watched.hits(x)


@pytest.mark.parametrize("change", [lambda x: x.add("c"), lambda x: x.discard("a"), lambda x: x.clear(),
                                    lambda x: (x.discard("a"), x.add("q"))])
def test_a_set(change):
    x = {"a", "b"}
    watched = Watched(("is_type", 0, set), ("set", 0, tuple(x)), ("len", 0, 2))
    settle(watched, x)
    change(x)
    assert not watched.hits(x)


@pytest.mark.parametrize("make", [deque, list])
def test_a_length(make):
    x = make([1, 2])
    watched = Watched(("is_type", 0, make), ("len", 0, 2))
    settle(watched, x)
    x.append(1)
    assert not watched.hits(x)
    x.pop()
    assert watched.hits(x)


def test_slots():
    x = Slots()
    x.a = (1, 2)
    watched = Watched(("is_type", 0, Slots), ("slot", 1, 0, Slots.a), ("is_type", 1, tuple), ("item", 2, 1, 1),
                      ("eq", 2, 2), ("empty_slot", 0, Slots.b))
    settle(watched, x)
    for n in range(20):
        x.a = None
        x.a = (1, 2 + n % 2)
        assert watched.hits(x) == (n % 2 == 0)
    x.a = (1, 2)
    x.b = None
    assert not watched.hits(x)


def test_a_class():
    class Model:
        def call(self):
            pass

    x = Model()
    watched = Watched(("is_type", 0, Model), ("type", 1, 0), ("type_unchanged", 1, ("call", "other"),
                                                              (Model.call, NotImplemented)))
    settle(watched, x)
    Model.unrelated = 1
    assert watched.hits(x)
    call, Model.call = Model.call, lambda self: 1
    assert not watched.hits(x)
    Model.call = call
    assert watched.hits(x)
    Model.other = 1
    assert not watched.hits(x)


def test_a_class_of_which_another_is_a_base():
    class Base:
        pass

    class Model(Base):
        pass

    x = Model()
    watched = Watched(("is_type", 0, Model), ("type", 1, 0), ("type_unchanged", 1, ("call",), (NotImplemented,)))
    settle(watched, x)
    Base.call = 1
    assert not watched.hits(x)


def test_a_module():
    module = types.ModuleType("module")
    module.n = 1
    watched = Watched(("const", 1, vars(module)), ("names_unchanged", 1, ("n", "m"), (module.n, NotImplemented)),
                      ("attr", 2, 0, "n"), ("eq", 2, 1))
    settle(watched, module)
    module.other = 1
    assert watched.hits(module)
    module.m = 1
    assert not watched.hits(module)
    del module.m
    assert watched.hits(module)
    module.n = 2
    assert not watched.hits(module)


@pytest.mark.parametrize("change", [
    lambda f: setattr(f, "__code__", (lambda y, z=1: 2).__code__), lambda f: setattr(f, "__defaults__", (2,)),
    lambda f: setattr(f, "__kwdefaults__", {"k": 2})])
def test_functions(change):
    def f(y, z=1):
        return y

    x = Thing(f=f)
    watched = Watched(("attr", 1, 0, "f"), ("get", 2, 1, "__code__"), ("is", 2, f.__code__),
                      ("get", 3, 1, "__defaults__"), ("item", 4, 3, 0), ("eq", 4, 1), ("functions_unchanged", (f,)))
    settle(watched, x)
    change(f)
    assert not watched.hits(x)


def test_a_function_without_defaults():
    f = lambda y: y  # noqa: E731
    x = Thing(f=f)
    watched = Watched(("attr", 1, 0, "f"), ("plain_function", 1, f.__code__))
    settle(watched, x)
    f.__defaults__ = (1,)
    assert not watched.hits(x)


def test_cells():
    value = 1
    cell = (lambda: value).__closure__[0]
    watched = Watched(("is_type", 0, types.CellType), ("get", 1, 0, "cell_contents"), ("eq", 1, 1))
    settle(watched, cell)
    cell.cell_contents = 2
    assert not watched.hits(cell)
    cell.cell_contents = 1
    assert watched.hits(cell)
    del cell.cell_contents
    assert not watched.hits(cell)


def test_an_empty_cell():
    cell = types.CellType()
    watched = Watched(("is_type", 0, types.CellType), ("empty", 0))
    settle(watched, cell)
    cell.cell_contents = 2
    assert not watched.hits(cell)


def test_objects_that_are_one_or_two():
    x = Thing(a=Plain(1, 2), b=Plain(1, 2), c=Plain(1, 2))
    steps = [("attr", 1 + i, 0, name) for i, name in enumerate("abc")]
    watched = Watched(*steps, ("distinct", 1, 2), ("all_distinct", (1, 2), (3,)))
    settle(watched, x)
    x.a.__dict__ = vars(x.b)
    assert not watched.hits(x)
    x.a = Plain(1, 2)
    assert watched.hits(x)
    x.c = x.a
    assert not watched.hits(x)
    x.a = x.c = x.b
    assert not watched.hits(x)


def test_what_is_held_weakly_dies():
    child = Plain(1, 2)
    x = Thing(child=child)
    watched = Watched(("attr", 1, 0, "child"), ("is", 1, child))
    settle(watched, x)
    del child, x.child
    assert not watched.entry.valid
    x.child = Plain(1, 2)
    assert watched.compiled(x) == "python"


def test_each_thread_has_its_own():
    x = threading.local()
    x.a = 1
    watched = Watched(("thread_dict", 1, 0), ("key", 2, 1, "a"), ("eq", 2, 1))
    settle(watched, x)
    said = []

    def other():
        said.append(watched.hits(x))
        x.a = 1
        said.append(watched.hits(x))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert said == [False, True]
    assert watched.hits(x)


def test_the_number_of_the_thread():
    here = threading.get_ident()
    watched = Watched(("thread_ident", 1), ("eq", 1, here), ("attr", 2, 0, "a"), ("eq", 2, 1))
    x = Thing(a=1)
    assert all(watched.hits(x) for _ in range(9))
    said = []
    thread = threading.Thread(target=lambda: said.append(watched.hits(x)))
    thread.start()
    thread.join()
    assert said == [False]
    assert watched.hits(x)


def test_the_exception_that_is_handled():
    watched = Watched(("handled", 1), ("eq", 1, None), ("attr", 2, 0, "a"), ("eq", 2, 1))
    x = Thing(a=1)
    settle(watched, x)
    try:
        raise ValueError
    except ValueError:
        assert not watched.hits(x)
    assert watched.hits(x)


def test_inputs_come_out_of_what_has_settled():
    child = Plain([1], 2)
    x = Thing(child=child)
    watched = Watched(("attr", 1, 0, "child"), ("is_type", 1, Plain), ("attr", 2, 1, "a"), ("is_type", 2, list),
                      inputs=(2, 1))
    settle(watched, x)
    counts = sys.getrefcount(child), sys.getrefcount(child.a)
    for _ in range(50):
        said, a, c = watched.compiled(x)
        assert a is child.a and c is child
        del a, c
    assert (sys.getrefcount(child), sys.getrefcount(child.a)) == counts


def test_a_place_that_always_changes_is_asked_and_the_rest_is_not():
    x = Thing(count=0, child=Plain(1, 2))
    watched = Watched(("attr", 1, 0, "child"), ("is_type", 1, Plain), ("attr", 2, 1, "a"), ("eq", 2, 1),
                      ("attr", 3, 0, "count"), ("is_type", 3, int))
    settle(watched, x)
    served = []
    for n in range(30):
        x.count = 10**6 + n
        served.append(watched.settled(x))
    assert all(served[10:])
    x.child.a = 2
    assert not watched.hits(x)


def test_all_new_each_time_is_soon_asked_step_by_step():
    def tree(n):
        return Thing(children=[Thing(child=Plain(1, [n, k])) for k in range(5)])

    steps = [("is_type", 0, Thing), ("attr", 1, 0, "children"), ("len", 1, 5)]
    for k in range(5):
        steps += [("item", 2 + 3 * k, 1, k), ("attr", 3 + 3 * k, 2 + 3 * k, "child"),
                  ("attr", 4 + 3 * k, 3 + 3 * k, "a"), ("eq", 4 + 3 * k, 1)]
    watched = Watched(*steps)
    for n in range(100):
        assert watched.hits(tree(n))
    assert native.counters()["hits"] == 100


def test_what_changed_too_much_is_tried_again_later():
    def tree():
        return Thing(children=[Thing(a=[n], b=(n,)) for n in range(3)])

    steps = [("is_type", 0, Thing), ("attr", 1, 0, "children"), ("len", 1, 3)]
    for k in range(3):
        steps += [("item", 2 + 2 * k, 1, k), ("attr", 3 + 2 * k, 2 + 2 * k, "a"), ("len", 3 + 2 * k, 1)]
    watched = Watched(*steps)
    for n in range(100):
        x = tree()
        for _ in range(1 + n % 3):
            assert watched.hits(x)
    served = [watched.settled(x) for _ in range(2000)]
    assert all(served[-100:])


def test_garbage_is_collected_among_the_steps():
    """A step whose value is made anew collects garbage, whose finalizer changes what was compared before it."""
    class Bomb:
        def __init__(self):
            self.me = self

        def __del__(self):
            x.child = Plain(1, 2)

    x = Thing(child=Plain(1, 2))
    steps = [("attr", 1, 0, "child"), ("is_type", 1, Plain), ("const", 2, Thing), ("get", 3, 2, "__dict__"),
             ("is_type", 3, types.MappingProxyType), ("all_distinct", (1, 3), (0,)), ("attr", 4, 1, "a"), ("eq", 4, 1)]
    watched = Watched(*steps, inputs=(1, 4))
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(60):
            Bomb()
            said, child, a = watched.compiled(x)
            assert type(child) is Plain and a == 1
    finally:
        gc.set_threshold(*threshold)


MUTATIONS = ("number", "text", "child", "list item", "list length", "dict value", "dict key", "class", "slot", "tuple",
             "drop", "add", "same", "swap")


def mutate(rng, x):
    """Changes something in a tree that `tree_of` made, or nothing."""
    kind, node = rng.choice(MUTATIONS), rng.choice([x, x.child, x.items[0]])
    if kind == "number":
        node.n = rng.choice([1, 2, 10**20])
    elif kind == "text":
        node.text = "".join(rng.choice(["ab", "abc"]))
    elif kind == "child":
        x.child = tree_of(2)
    elif kind == "list item":
        x.items[rng.randrange(len(x.items))] = rng.choice([x.child, tree_of(2)])
    elif kind == "list length":
        x.items.append(x.child) if len(x.items) < 3 else x.items.pop()
    elif kind == "dict value":
        node.table["k"] = rng.choice([1, 2])
    elif kind == "dict key":
        node.table["new"] = 1
        if rng.random() < 0.7:
            del node.table["new"]
    elif kind == "class":
        node.__class__ = rng.choice([Thing, Thing, Sub])
    elif kind == "slot":
        node.slots.a = rng.choice([1, 2, (1,)])
    elif kind == "tuple":
        node.pair = (1, rng.choice([2, 3]))
    elif kind == "drop" and rng.random() < 0.5 and "text" in vars(node):
        del node.text
    elif kind == "add":
        node.extra = rng.random()
    elif kind == "same":
        node.n = node.n
    elif kind == "swap":
        x.child, x.items[0] = x.items[0], x.child


def tree_of(depth):
    x = Thing(n=10**20, text="".join(["a", "b"]), table={"k": 1}, slots=Slots(), pair=(1, depth - depth + 2), items=[])
    x.slots.a = 1
    if depth:
        x.child = tree_of(depth - 1)
        x.items += [tree_of(depth - 1), x.child]
    return x


def steps_of(reg, depth, counter):
    def new():
        counter[0] += 1
        return counter[0]

    steps = [("is_type", reg, Thing)]
    parts = (("n", [("eq", 10**20)]), ("text", [("eq", "ab")]), ("table", [("is_type", dict), ("keys", ("k",))]),
             ("pair", [("is_type", tuple), ("len", 2)]), ("items", [("is_type", list)]))
    for name, checks in parts:
        value = new()
        steps += [("attr", value, reg, name), *[(check[0], value, check[1]) for check in checks]]
        if name in ("table", "pair"):
            part = new()
            steps += [("key", part, value, "k") if name == "table" else ("item", part, value, 1),
                      ("eq", part, 1 if name == "table" else 2)]
    slots, a = new(), new()
    steps += [("attr", slots, reg, "slots"), ("is_type", slots, Slots), ("slot", a, slots, Slots.a), ("eq", a, 1),
              ("empty_slot", slots, Slots.b)]
    if depth:
        child, first = new(), new()
        steps += [("attr", child, reg, "child"), *steps_of(child, depth - 1, counter), ("item", first, value, 0),
                  *steps_of(first, depth - 1, counter), ("distinct", child, first)]
    return steps


@pytest.mark.parametrize("seed", range(6))
def test_any_change_is_seen(seed):
    rng = random.Random(seed)
    x = tree_of(2)
    watched = Watched(*steps_of(0, 2, [0]))
    settle(watched, x)
    held = settled = 0
    for n in range(600):
        if n % 15 == 0:
            x = tree_of(2)
        elif rng.random() < 0.5:
            mutate(rng, x)
        before = native.counters()["settled"]
        held += watched.hits(x)
        settled += native.counters()["settled"] > before
    assert 0 < held < 600 and settled > 0
