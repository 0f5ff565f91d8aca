"""What replacement code does to lists and dicts that exist: to the elements that changed, and to no others."""

import collections
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import _native
from dynacomp.capture.entries import parts_of
from dynacomp.capture.frame import Root, capture
from dynacomp.capture.reconstruct.emit import INPUTS
from dynacomp.capture.symbolic.lessons import Lessons


def at(place, change):
    return lambda xs: (xs[place], change(xs))[0]


CHANGES = {
    "append": at(0, lambda xs: xs.append(7)),
    "pop": lambda xs: xs.pop(),
    "pop first": lambda xs: xs.pop(0),
    "insert": at(0, lambda xs: xs.insert(2, "new")),
    "store": at(1, lambda xs: xs.__setitem__(1, "new")),
    "swap": at(1, lambda xs: xs.__setitem__(slice(0, 2), [xs[1], xs[0]])),
    "same": at(1, lambda xs: xs.__setitem__(1, xs[1])),
    "reverse": at(1, lambda xs: xs.reverse()),
    "delete": at(1, lambda xs: xs.__delitem__(slice(1, 3))),
    "rotate": at(1, lambda xs: xs.insert(0, xs.pop())),
    "clear": at(1, lambda xs: xs.clear()),
    "double": at(1, lambda xs: xs.extend(xs)),
    "repeat the last": at(-1, lambda xs: xs.append(xs[-1])),
    "repeat the first": at(0, lambda xs: xs.insert(0, xs[0])),
    "twice the same": at(0, lambda xs: (xs.pop(), xs.append(5), xs.pop(0), xs.insert(0, 6))),
}


class Stack(list):
    pass


@pytest.mark.parametrize("kind", [list, Stack])
@pytest.mark.parametrize("name", CHANGES)
def test_lists_are_changed_as_python_changes_them(name, kind):
    change = CHANGES[name]
    made = [object() for _ in range(4)]
    compiled = dynacomp.jit(change, backend="eager")
    for content in (made, [1, 2, 1, 2], [1, 1, 1, 1]):
        ours, plain = kind(content), kind(content)
        assert compiled(ours) == change(plain)
        assert len(ours) == len(plain) and all(a is b for a, b in zip(ours, plain))


ENTRIES = {
    "store": lambda d: d.__setitem__("b", 7),
    "add": lambda d: d.update(x=7, y=d["a"]),
    "swap": lambda d: d.update(a=d["b"], b=d["a"]),
    "pop": lambda d: d.pop("b"),
    "pop and put": lambda d: d.__setitem__("a", d.pop("a")),
    "pop the last and put": lambda d: d.__setitem__("c", d.pop("c")),
    "another key that is equal": lambda d: (d.pop(1), d.__setitem__(True, 2)),
    "an equal key": lambda d: d.__setitem__(True, 2),
    "clear": lambda d: d.clear(),
    "clear and fill": lambda d: (d.clear(), d.update(b=1, a=2)),
    "nothing": lambda d: d.__setitem__("a", d["a"]),
}


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, lambda d: collections.defaultdict(list, d)])
@pytest.mark.parametrize("name", ENTRIES)
def test_dicts_are_changed_as_python_changes_them(name, kind):
    change = ENTRIES[name]
    compiled = dynacomp.jit(change, backend="eager")
    for extra in (object(), object(), 3):
        ours, plain = (kind({"a": 1, "b": extra, 1: 5, "c": 2}) for _ in range(2))
        assert compiled(ours) == change(plain)
        assert repr(ours) == repr(plain) and list(map(type, ours)) == list(map(type, plain))
        assert all(a is b for a, b in zip(ours.values(), plain.values()))


def test_what_others_do_to_other_keys_meanwhile_stays():
    """Here the stored object's predecessor does it as it dies, which is when the entry is stored."""
    class Adds:
        def __init__(self, table):
            self.table = table

        def __del__(self):
            self.table["other"] += 1

    def program(table):
        table["key"] = 3
        table["new"] = table["here"]

    table = {"here": 1, "other": 0}
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(3):
        table["key"] = Adds(table)
        compiled(table)
        assert table == {"here": 1, "other": n + 1, "key": 3, "new": 1}


def test_a_long_list_of_which_one_element_changes_costs_little():
    def program(xs):
        xs[500], xs[502] = xs[502], "new"

    with capture(Root(program, program.__code__, (list(range(1000)),)), Lessons()) as found:
        assert len(parts_of(found).entry("", None).fn_code.co_code) < 4000
    ours, plain = list(range(1000)), list(range(1000))
    dynacomp.jit(program, backend="eager")(ours)
    program(plain)
    assert ours == plain


class Net:
    def __init__(self):
        self.layers = [{"w": jnp.full((3, 3), 0.1 * i), "b": jnp.ones(3)} for i in range(3)]
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        for layer in self.layers:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return x


def test_replacement_code_takes_its_inputs_from_the_guards():
    """They have found them; to find each array of a model again, in its containers, took longer than the rest."""
    with capture(Root(Net.__call__, Net.__call__.__code__, (Net(), jnp.ones((2, 3)))), Lessons()) as found:
        code = parts_of(found).entry("", None).fn_code
        assert len(found.recipe.inputs) == 7
        assert code.co_varnames[:code.co_argcount] == ("self", "x", INPUTS)
        assert _native.key not in code.co_consts and _native.item not in code.co_consts
    dynacomp.reset()
    net, plain = Net(), Net()
    compiled = dynacomp.jit(Net.__call__, backend="eager")
    for n in range(2, 8):
        assert jnp.array_equal(compiled(net, jnp.ones((n, 3))), plain(jnp.ones((n, 3))))
        assert net.calls == plain.calls == n - 1
    assert dynacomp.stats()["frames_captured"] == 2


def test_the_inputs_that_an_entry_gives_die_when_the_program_lets_them_go():
    died = []

    def f(box, note):
        x = box[0]
        y = x + 1
        del x
        box.clear()
        note()
        return y

    def answers(fn):
        died.clear()
        for i in range(4):
            box = [jnp.full(2, i)]
            ref = weakref.ref(box[0])
            fn(box, dynacomp.disable(lambda ref=ref: died.append(ref() is None)))
        return list(died)

    assert answers(dynacomp.jit(f, backend="eager")) == answers(f) == [True] * 4


def test_a_tuple_that_is_returned_twice_is_one_object():
    def fn(x, n):
        pair, other = (jnp.sin(x), n), (n, 1)
        return [pair, other], {"pair": pair}, other

    (pair, other), table, last = dynacomp.jit(fn, backend="eager")(jnp.ones(2), 3)
    assert table["pair"] is pair and last is other and pair[0].shape == (2,)


def test_a_list_that_is_handed_back_is_not_looked_at():
    def fn(x, log, queue):
        log.append(x.sum())
        return x * 2, queue

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(5):
        log, queue = [1.0] * n, [object()] * n
        assert compiled(jnp.ones(3), log, queue)[1] is queue
        assert len(log) == n + 1
    assert dynacomp.stats()["frames_captured"] == 1


def test_what_a_loop_with_a_break_collects_is_not_looked_at():
    def fn(x, rates, least):
        log = []
        for rate in rates:
            log.append(rate)
            x = x * rate
            if x.sum() < least:
                break
        return x, log

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(4, 12):
        given = jnp.ones(3), [0.5] * n, 3 * 0.5 ** (n - 2)
        got, want = compiled(*given), fn(*given)
        assert got[1] == want[1] and jnp.array_equal(got[0], want[0])
    assert dynacomp.stats()["frames_captured"] <= 5


FRESH_OWNER = type("FreshOwner", (), {})


def _made_and_deleted(x, v):
    global FRESH
    FRESH = FRESH_OWNER.fresh = v
    y = x + v
    del FRESH, FRESH_OWNER.fresh
    return y, "FRESH" in globals(), hasattr(FRESH_OWNER, "fresh")


def test_what_is_made_and_deleted_may_have_been_there_or_not():
    """A capture of a call that found the names serves one that does not: KeyError, AttributeError."""
    compiled = dynacomp.jit(_made_and_deleted, backend="eager", options={"capture_idle": True})
    for v, there in ((5, False), (5, False), (6, True), (7, False), (8, True), (9, False)):
        if there:
            globals()["FRESH"] = FRESH_OWNER.fresh = 3
        y, *left = compiled(jnp.ones(2), v)
        assert y.tolist() == [v + 1.0] * 2 and left == [False, False]
        assert "FRESH" not in globals() and not hasattr(FRESH_OWNER, "fresh")
    assert not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda x, z: (jnp.sin(x), z * 2)[1], lambda x, z: (x + 1, x, z * 2)[1:], lambda x, z: (x + 1, z)[1],
    lambda x, z: (jax.grad(lambda z: (x.sum() * z, z.sum())[1])(z), z + 1)[1]])
def test_an_array_is_there_with_which_is_computed_for_nothing(program):
    """An entry that does not read it answered where JAX raises."""
    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", options={"capture_idle": True})
    gone, z = jnp.arange(3.0), jnp.ones(2)
    gone.delete()
    for x in (jnp.arange(3.0), jnp.ones(3)):
        assert repr(made(x, z)) == repr(program(x, z))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
    with pytest.raises(RuntimeError, match="deleted"):
        made(gone, z)


def test_an_array_that_is_only_handed_on_may_be_deleted():
    dynacomp.reset()
    gone = jnp.arange(3.0)
    made = dynacomp.jit(lambda x, z: (x, z * 2), backend="eager")
    assert made(gone, jnp.ones(2))[0] is gone
    gone.delete()
    assert made(gone, jnp.ones(2))[0] is gone
    assert dynacomp.stats()["frames_captured"] == 1
