"""Rules that frameworks need of capture: ids, thread locals, trace states, placement, trees, composed hashes."""

import functools
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax._src import core

import dynacomp

X = jnp.arange(6.0)
LOCAL = threading.local()


@dataclass(frozen=True)
class Both:
    parts: tuple


class Part:
    def __init__(self, weight):
        self.weight = weight


def captured(fn, *args, breaks=None):
    """Runs `fn` plainly and compiled twice; the results are equal and it breaks as said."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    want = fn(*args)
    for _ in range(2):
        got = compiled(*args)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        assert all(jnp.array_equal(a, b) if isinstance(a, jax.Array) else a == b
                   for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)))
    stats = dynacomp.stats()
    assert stats["breaks"] == (breaks or {}) and not stats["frames_eager"] and stats["graphs"] == 1
    return compiled


def test_ids_tell_objects_apart():
    def visit(parts, x):
        seen = set()
        for part in parts:
            if id(part) not in seen:
                seen.add(id(part))
                x = x + part.weight
        return x, len(seen)

    a, b = Part(1.0), Part(2.0)
    compiled = captured(visit, [a, b], X)
    assert compiled([a, a], X)[1] == 1 and compiled([b, a], X)[1] == 2


def test_ids_of_equal_strings():
    """They may be one object in this call, and two in the next."""
    def visit(names, x):
        seen = {id("of the code"), id(1000)}
        for name in names:
            seen.add(id(name))
        return x + len(seen)

    one, other = "a b", "".join(("a ", "b"))
    compiled = captured(visit, [one, one], X)
    for names in ([one, other], [other, other], [one, one], ["of the code", other], ["of the code"] * 2, [one, other]):
        assert jnp.array_equal(compiled(names, X), visit(names, X))


def test_an_id_that_was_kept():
    a, b = Part(1.0), Part(2.0)
    known = {id(a): 3.0}
    compiled = captured(lambda part, x: x * known.get(id(part), 1.0), a, X)
    assert jnp.array_equal(compiled(b, X), X)


def of_all(fn, calls, captures):
    """Calls with other arguments each, beside plain Python: so many captures, no breaks."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn)
    for args in calls:
        got, want = compiled(*args), fn(*args)
        assert len(got) == len(want) and all(map(jnp.array_equal, got, want)), args[1:]
    stats = dynacomp.stats()
    assert stats["frames_captured"] == captures and not stats["breaks"] and not stats["frames_eager"]


def test_ids_of_sizes_that_change():
    """Of a number that is looked at once nothing is asked; of two whether they are equal."""
    def visit(x):
        seen = set()
        for part in (x.shape[0], x, 7):
            if id(part) not in seen:
                seen.add(id(part))
        return x + len(seen), len(seen)

    of_all(visit, [(jnp.ones(n),) for n in (3, 5, 9, 7, 4, 12, 7)], 3)


def test_ids_of_numbers_that_change():
    def asked(o, x):
        seen = {id(o.n), id(o)}
        return x + 1, id(o.m) in seen, id(o.n + 1) in seen, id(o) in seen, id(1) in seen

    of_all(asked, [(SimpleNamespace(n=n, m=m), X) for n, m in ((4, 5), (6, 9), (7, 3), (5, 5), (8, 8), (2, 6))], 3)


def test_ids_of_equal_numbers_are_not_guessed():
    """Beyond those of which CPython keeps one object."""
    def asked(o, x):
        return x + 1, id(o.n) == id(o.m)

    dynacomp.reset()
    compiled, one, other = dynacomp.jit(asked), int("1000"), int("1000")
    for n, m in ((4, 5), (6, 9), (one, one), (one, other), (other, one), (3, 3), (other, other), (1.5, 1.5), (one, 3)):
        assert compiled(SimpleNamespace(n=n, m=m), X)[1] == (n is m)
    nan = float("nan")
    assert compiled(SimpleNamespace(n=nan, m=nan), X)[1] and not compiled(SimpleNamespace(n=nan, m=-nan), X)[1]


def test_ids_of_numbers_beside_kept_ones():
    kept = {id(3): 10.0, id(5): 20.0}
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: x * kept.get(id(x.shape[0]), 1.0))
    for n in (4, 3, 5, 6, 8, 3, 5):
        assert compiled(jnp.ones(n))[0] == {3: 10, 5: 20}.get(n, 1)
    assert not dynacomp.stats()["frames_eager"]


def test_thread_locals_are_read_in_their_thread():
    LOCAL.scale = 2.0
    compiled = captured(lambda x: x * getattr(LOCAL, "scale", 5.0), X)
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled(X)))
    thread.start()
    thread.join()
    assert jnp.array_equal(found[0], X * 5)


def test_thread_locals_are_written():
    def step(x):
        LOCAL.count = getattr(LOCAL, "count", 0) + 1
        return x + 1

    LOCAL.count = 0
    compiled = dynacomp.jit(step, backend="eager")
    compiled(X)
    compiled(X)
    assert LOCAL.count == 2


def test_what_jax_says_of_its_state():
    def ask(x):
        inside = []
        jax.grad(lambda v: inside.append(core.trace_state_clean()) or v.sum())(x)
        return x.sum(), core.trace_state_clean(), inside

    assert captured(ask, X)(X)[1:] == (True, [False])


def test_where_computed_arrays_live_and_which_are_tracers():
    def ask(x):
        y = jnp.sin(x)
        inside = []

        def loss(v):
            inside.append((getattr(v * 2, "sharding", None), isinstance(v, jax.core.Tracer),
                           isinstance(v > 0, jax.core.Tracer)))
            return v.sum()

        jax.grad(loss)(x)
        return y, str(y.sharding == x.sharding), str(inside)

    assert captured(ask, X)(X)[1:] == ("True", "[(None, True, False)]")


def test_trees_keep_the_identity_of_what_is_in_them():
    def step(tree, x):
        leaves, treedef = jax.tree.flatten(tree, is_leaf=lambda node: node is not tree)
        again = treedef.unflatten(leaves)
        return x + len(leaves), again["a"] is tree["a"], jax.tree_util.tree_leaves_with_path({"k": [x]})[0][0][0].key

    captured(step, {"a": [1.0, 2.0], "b": [3.0]}, X)


def test_hashes_of_composed_keys():
    table = {Both((int, "a")): 2.0}
    captured(lambda kinds, x: x * table[Both((kinds[0], "a"))] * (hash(Both((int, "a"))) != 0), (int, str), X)


@pytest.mark.parametrize("size", [4, 5])
def test_shapes_that_functions_of_jax_give(size):
    compiled = dynacomp.jit(lambda x: x.reshape((1,) + tuple(jnp.shape(x))), dynamic=True, backend="eager")
    assert compiled(jnp.ones((size, 2))).shape == (1, size, 2)


def test_sequences_are_ordered_by_what_differs():
    captured(lambda x: (x + 1, sorted([("b", x), ("a", x)])[0][0]), X)


def test_literals_are_the_objects_of_the_call_after_a_break():
    """Equal strings and numbers that pass a break are not replaced by those of the call that was captured."""
    def held(x, strings, number):
        pair = (strings[0], number)
        print(end="")
        return x + 1, pair[0] is strings[0], pair[1] is number, len({id(s) for s in strings})

    compiled = dynacomp.jit(held, backend="eager")
    for n in (2, 2, 3, 2):
        strings = [str(i + 1000) for i in range(n)] * 2
        assert compiled(X, strings, 10**9 + n)[1:] == (True, True, n)
        assert compiled(X, strings, float(n) / 3)[1:] == (True, True, n)


def test_identity_of_equal_literals_is_guarded():
    compiled = dynacomp.jit(lambda x, a, b: (x + 1, a is b), backend="eager")
    for make in (lambda: str(1234), lambda: float("2.5"), lambda: int("123456"), lambda: (1, str(99)), lambda: str(7)):
        one, other = make(), make()
        for a, b in ((one, one), (one, other), (one, one), (3, 3)):
            assert compiled(X, [a], [b])[1] is False
            assert compiled(X, a, b)[1] is (a is b)


@jax.tree_util.register_pytree_node_class
class Scaled:
    """A leaf, and a tuple in the tree's structure."""

    def __init__(self, weight, axes):
        self.weight, self.axes = weight, axes

    def tree_flatten(self):
        return (self.weight,), self.axes

    @classmethod
    def tree_unflatten(cls, axes, leaves):
        return cls(*leaves, axes)


def test_tuples_in_the_structure_of_a_tree_keep_their_identity():
    def step(models):
        for model in models:
            grads = jax.grad(lambda m: (m.weight ** 2).sum())(model)
            model.weight, model.axes = model.weight - grads.weight, grads.axes
        return len(models)

    dynacomp.reset()
    compiled = dynacomp.jit(step, backend="eager")
    for _ in range(2):
        models = [Scaled(X, (0, int(str(k)))) for k in (1, 1)]  # equal tuples, and not the same
        held = [m.axes for m in models]
        for _ in range(2):
            assert compiled(models) == 2 and all(m.axes is axes for m, axes in zip(models, held))
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["graphs"] == 1 and not stats["recompiles"]


class Bound:
    def method(self):
        pass


BOUND = Bound()
MAKERS = [lambda: functools.partial(print, 1), lambda: BOUND.method, lambda: [].append, lambda: slice(1, 2),
          lambda: range(3), lambda: iter([]), lambda: "".join, lambda: {}.items(), lambda: lambda: 1]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
@pytest.mark.filterwarnings("error")  # an entry that does not serve the call that it was made for
def test_one_object_found_in_two_places(make):
    def asked(x, y):
        return x is y, [x] == [y], x in (y,), (1, y) == (1, x), id(x) == id(y)

    one, other = make(), make()
    compiled = dynacomp.jit(asked, backend="eager")
    for second in (one, other, one, other):
        assert compiled(one, second) == asked(one, second)


class Registry(dict):
    pass


class Members(set):
    pass


@pytest.mark.parametrize("asked", (
    lambda at, part: at["of"][id(part)], lambda at, part: id(part) in at["of"],
    lambda at, part: at["of"].get(id(part), 9), lambda at, part: id(part) in at["some"]))
def test_ids_in_tables_of_the_programs_own_classes_are_those_objects(asked):
    parts = [SimpleNamespace(x=X) for _ in range(3)]
    at = {"of": Registry((id(p), i) for i, p in enumerate(parts)), "some": Members(map(id, parts[:2]))}
    compiled = dynacomp.jit(lambda at, part: part.x + asked(at, part), backend="eager")
    for part in parts:
        assert repr(compiled(at, part)) == repr(part.x + asked(at, part))


@pytest.mark.parametrize("asked", (
    lambda d, o, x: x * d[id(o)] if id(o) in d else x, lambda d, o, x: x * d.get(id(o), 3.0),
    lambda d, o, x: x * d[5] * (id(o) in {id(o)}), lambda d, o, x: x * (d.setdefault(id(o), 2.0) + len(d))),
    ids=("in", "get", "other key", "store"))
def test_ids_in_given_dicts_that_are_others_in_each_call(asked):
    """No capture settled: each attempt broke where the last one had."""
    parts = [SimpleNamespace(x=X) for _ in range(10)]
    compiled = dynacomp.jit(asked, backend="eager")
    dynacomp.reset()
    for i in range(10):
        made = lambda: {id(parts[i]): float(i), 5: 2.0}  # noqa: B023, E731
        part = parts[i * 3 % 10]
        assert repr(compiled(made(), part, X)) == repr(asked(made(), part, X))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 8 and not stats["frames_eager"]
