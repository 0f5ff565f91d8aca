"""What existed before a call and was changed: found, guarded to be no two names of one object, and waited for."""

import types

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.symbolic.side_effects import _kept_in
from tests.capture.flow_kit import breaks_of
from tests.capture.program_kit import captured, check_one_graph

X = jnp.arange(3.0)
LEVEL = 0


class Held:
    """An object with attributes."""

    def __init__(self, n=0):
        self.n = n


class Slotted:
    """One that keeps its attributes elsewhere."""

    __slots__ = ("n",)


def is_in_step(program, *makes, captures=1):
    """Compiled and plain calls leave the same behind, ten times, with at most so many captures."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    ours, theirs = ([make() for make in makes] for _ in range(2))
    for n in range(10):
        assert repr(compiled(*ours, X + n)) == repr(program(*theirs, X + n))
        shown = [[vars(o) if isinstance(o, Held) else o for o in objects] for objects in (ours, theirs)]
        assert repr(shown[0]) == repr(shown[1])
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= captures


def test_attributes_lists_dicts_and_sets_change_after_the_graph():
    def program(held, items, table, found, x):
        held.last = x * 2
        items[-1] = x
        table["n"] = x.sum()
        found.discard(3)
        del held.n
        held.n = x + 1
        return held.last

    is_in_step(program, Held, lambda: [0], lambda: {"n": 0, "m": 1}, lambda: {3, 4}, captures=3)


def again_by_setattr(held):
    del held.n
    held.n = 5


def again_by_vars(held):
    table = vars(held)
    table["n"] = table.pop("n")


def new_and_again(held):
    held.new = 1
    del held.new
    held.other = 2
    held.new = 3


@pytest.mark.parametrize("change", [again_by_setattr, again_by_vars, new_and_again])
@pytest.mark.parametrize("exists", [True, False])
def test_attributes_deleted_and_set_again_come_last(change, exists):
    """They kept their places in the object's dict."""
    def program(held, x):
        held = held if exists else Held()
        held.before = x
        change(held)
        held.after = x + 1
        return list(vars(held)), held.before

    is_in_step(program, Held, captures=3 if exists else 1)


class Four:
    def __init__(self):
        self.d, self.b, self.c, self.a = 4, 2, 3, 1


def walked(count):
    """Longer than Python is left to compute on data that changes, which attributes are not."""
    total = 0
    for n in range(count):
        total += n
    return total


@pytest.mark.parametrize("names", ["abcd", "bdca", "dbca", "dacb"])
def test_attributes_that_are_all_set_again_come_in_their_new_order(names):
    """Those that came before one that had been behind them stayed before it: an NNX model's after an update."""
    def program(model, x):
        table = vars(model)
        taken = dict(table)
        table.clear()
        for name in names:
            table[name] = taken[name]
        return x + walked(3000)

    dynacomp.reset()
    compiled, model, plain = dynacomp.jit(program, backend="eager"), Four(), Four()
    for _ in range(5):
        assert repr(compiled(model, X)) == repr(program(plain, X))
        assert list(vars(model)) == list(vars(plain)) == list(names)
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] == 1 + (names != "dbca")  # the order of the first call


def test_an_attribute_that_only_one_branch_sets_again():
    def program(held, x):
        if x.sum() > 0:
            del held.n
            held.n = x
        held.m = x
        return held.n

    makes = [lambda n=n: (Held(), X - n) for n in (0, 9)]
    breaks_of(program, *makes)
    for make in makes:
        ours, theirs = make(), make()
        dynacomp.jit(program, backend="eager")(*ours), program(*theirs)
        assert list(vars(ours[0])) == list(vars(theirs[0]))


def test_what_is_changed_and_changed_back_is_no_error():
    def program(held, x):
        before, held.n = held.n, x
        out = held.n * 2
        held.n = before
        return out

    is_in_step(program, Held)


def test_vars_of_an_object_is_as_old_as_the_object():
    def program(held, x):
        vars(held)["new"] = x
        vars(held).pop("n", None)
        return held.new

    is_in_step(program, Held, captures=2)


@pytest.mark.parametrize(("make", "change"), [
    (lambda: [X], lambda v: v.append(X)), (lambda: {"n": X}, lambda v: v.update(n=X)),
    (Held, lambda v: setattr(v, "n", X))], ids=["list", "dict", "object"])
def test_two_names_of_one_changed_object_are_told_apart(make, change):
    def program(first, second, x):
        change(first)
        return len(second) if isinstance(second, (list, dict)) else second.n, x + 1

    guards = captured(program, make(), make(), X).guards
    assert "none of L['first'] is one of L['second']" in guards
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        one = make()
        want = make()
        for args, wanted in (((make(), make()), (make(), make())), ((one, one), (want, want))):
            assert repr(compiled(*args, X)) == repr(program(*wanted, X))


def test_objects_that_are_only_read_may_be_one():
    def program(counted, also, tables, x):
        counted.n += 1
        also.append(x)
        return x * tables[0]["n"] + tables[1]["n"] * tables[2].n

    one, other = {"n": 2.0}, {"n": 2.0}
    compiled = dynacomp.jit(program, backend="eager")
    before = dynacomp.stats()["frames_captured"]
    for tables in ((one, other, Held(2.0)), (one, one, Held(2.0)), (other, other, Held(2.0))):
        assert repr(compiled(Held(), [], tables, X)) == repr(program(Held(), [], tables, X))
    assert dynacomp.stats()["frames_captured"] - before == 1
    counted, want = Held(2.0), Held(2.0)
    for _ in range(3):  # one that is changed is no other
        assert repr(compiled(counted, [], (one, other, counted), X)) == repr(program(want, [], (one, other, want), X))
    guards = captured(program, Held(), [], (one, other, Held(2.0)), X).guards
    assert "none of L['counted'] is one of L['tables'][0], L['tables'][1], L['tables'][2]" in guards


def test_instances_keep_their_attributes_in_dicts():
    assert _kept_in(Held) is dict is _kept_in(dict) and _kept_in(Slotted) is Slotted and _kept_in(list) is list


def test_globals_are_stored_deleted_and_made_anew():
    def program(x):
        global LEVEL, NEW
        LEVEL = x.sum()
        NEW = 3
        del NEW
        return LEVEL + 1

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(1, 4):
        assert compiled(X * n) == 3 * n + 1 and LEVEL == 3 * n and "NEW" not in globals()
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] == 1


def test_globals_that_the_program_also_holds_as_a_dict_are_one_thing():
    def program(table, x):
        global LEVEL
        before = table["LEVEL"] is None
        LEVEL = x
        return before, table["LEVEL"] * 2

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(3):
        assert repr(compiled(globals(), X + n)) == repr((False, (X + n) * 2)) and repr(LEVEL) == repr(X + n)
    assert not dynacomp.stats()["breaks"]


def test_a_mapping_shown_read_only_is_refused_in_pythons_words():
    shown = types.MappingProxyType({"n": 1})

    def program(x):
        try:
            shown["n"] = x
        except TypeError as error:
            return str(error), x + 1

    compiled = dynacomp.jit(program, backend="eager")
    assert repr(compiled(X)) == repr(program(X))
    assert dict(shown) == {"n": 1}


def test_what_a_transformed_function_changes_outside_breaks_no_graph_where_it_runs_once():
    def program(seen, x):
        def loss(v):
            seen.append(v.shape)
            return (v * v).sum()

        return jax.grad(loss)(x)

    dynacomp.reset()
    compiled, ours, theirs = dynacomp.jit(program, backend="eager"), [], []
    for n in range(4):
        assert jnp.array_equal(compiled(ours, X + n), program(theirs, X + n)) and ours == theirs


def test_a_tracer_that_leaves_its_transformation_is_left_to_python():
    """Eager JAX allows it, and calls it leaked when it is used."""
    def program(kept, x):
        def loss(v):
            kept.append(v)
            return (v * v).sum()

        grad = jax.grad(loss)(x)
        return grad, len(kept)

    compiled, kept = dynacomp.jit(program, backend="eager"), []
    grad, count = compiled(kept, X)
    assert jnp.array_equal(grad, 2 * X) and count == 1
    assert isinstance(kept[0], jax.core.Tracer)


def test_a_condition_that_may_choose_an_input_is_an_if_where_identity_is_asked():
    def program(a, b):
        chosen = a if a.sum() > 0 else b
        return chosen is a, chosen + 1

    assert breaks_of(program, lambda: (X, X - 5), lambda: (X - 9, X))
    without = lambda a, b: (a if a.sum() > 0 else b) + 1
    assert not breaks_of(without, lambda: (X, X - 5), lambda: (X - 9, X))


def test_what_is_made_of_changed_objects_is_made_after_the_changes():
    def program(items, x):
        items.append(x)
        return sorted(map(len, [items, (1, 2)])), [*items], (lambda: items)

    compiled = dynacomp.jit(program, backend="eager")
    ours, theirs = [X], [X]
    for _ in range(3):
        (a, b, c), (p, q, r) = compiled(ours, X), program(theirs, X)
        assert (a, repr(b), repr(c())) == (p, repr(q), repr(r())) and c() is ours


STACK = []


@jax.checkpoint
def stacked(x):
    """JAX keeps its trace, and runs it no more."""
    STACK.append(2.0)
    try:
        return jnp.sin(x) * STACK[-1]
    finally:
        STACK.pop()


def test_what_a_body_takes_back_is_no_change():
    def program(x):
        seen = Held()

        def step(carry, z):
            seen.n += 1
            carry = carry * seen.n + z
            seen.n -= 1
            return carry, z

        return stacked(x), jax.grad(lambda x: stacked(x).sum())(x), jax.lax.scan(step, x[0], x), seen.n, list(STACK)

    check_one_graph(program, (X,))


HELD = Held()


@jax.checkpoint
def deleting(x):
    HELD.n = 1
    del HELD.n  # what nobody has read
    return jnp.sin(x)


@jax.checkpoint
def leaving(x):
    HELD.n += 1
    return jnp.sin(x)


@pytest.mark.parametrize("kept, left", [(deleting, {}), (leaving, {"n": 1})])
def test_what_a_body_leaves_changed_is_a_break(kept, left):
    def program(x):
        return kept(x), dict(vars(HELD))

    dynacomp.reset()
    HELD.n = 0
    assert dynacomp.jit(program, backend="eager")(X)[1] == left
    assert [*dynacomp.stats()["breaks"]] == ["effect_in_body"]
