"""Trees whose structure says more than where leaves are: functions, keys without order, structures as leaves."""

import collections
import contextlib
import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.example_libraries import optimizers

import dynacomp
from dynacomp.capture.bodies.treedef_contents import may_be_called, unread
from dynacomp.capture.values.computed import ScalarV

X = jnp.ones(3)


def test_what_a_chain_of_calls_makes_of_a_library_is_made_once_each():
    def program(x):
        init, update, params = optimizers.sgd(0.1)
        state = init(x)
        for i in range(16):  # twice as long for each round, once
            state = update(i, jax.grad(lambda v: v**2)(params(state)), state)
        return params(state)

    assert jnp.allclose(dynacomp.jit(program, backend="eager")(1.0), program(1.0))


def test_structures_among_results_are_constants():
    init, update, params = optimizers.momentum(0.1, 0.9)

    def step(i, state):
        return update(i, jax.tree.map(jnp.cos, params(state)), state)

    compiled, state = dynacomp.jit(step, backend="eager"), init({"a": X, "b": X})
    compiled(1, state)
    calls = collections.Counter()
    sys.setprofile(dynacomp.disable(lambda frame, event, _: calls.update([(event, frame.f_code.co_name)])))
    try:
        found = compiled(1, state)
    finally:
        sys.setprofile(None)
    want = step(1, state)
    assert jax.tree.structure(found) == jax.tree.structure(want) and found.tree_def is state.tree_def
    assert jax.tree.all(jax.tree.map(jnp.allclose, found, want))
    assert calls["call", "tree_update"] == 1  # and not once more for what is no array


def test_a_function_of_the_program_in_the_structure_of_a_librarys_object():
    def program(x):
        pull = jax.vjp(lambda v: v * 2, x)[1]
        print("a break")
        with contextlib.suppress(KeyError):
            return pull(x)

    assert jnp.array_equal(dynacomp.jit(program, backend="eager")(X)[0], X * 2)


@pytest.mark.parametrize("ask", [jax.tree.leaves, jax.tree.structure, lambda tree: jax.tree.map(abs, tree),
                                 jax.tree_util.tree_flatten_with_path, lambda tree: jax.vmap(len)(tree)])
def test_keys_without_an_order(ask):
    def program(tree, x):
        try:
            return ask(tree)
        except (ValueError, TypeError) as error:
            return x + 1, type(error), str(error)

    dynacomp.reset()
    args = {"a": X, 2: X}, X
    assert repr(dynacomp.jit(program, backend="eager")(*args)) == repr(program(*args))
    told = dynacomp.stats()
    assert set(told["breaks"]) <= {"raises"} and not told["frames_eager"]


@jax.tree_util.register_pytree_node_class
class Named:
    """Keeps beside its leaf a table of changing numbers: in an object of its own, or as it is."""

    def __init__(self, table, data):
        self.table, self.data = table, data

    def tree_flatten(self):
        return (self.data,), Kept({"table": self.table})

    @classmethod
    def tree_unflatten(cls, kept, children):
        return cls(kept.fields["table"], *children)


@dataclasses.dataclass(frozen=True)
class Kept:
    fields: dict


class Open(Named):
    def tree_flatten(self):
        return (self.data,), tuple(self.table.items())

    @classmethod
    def tree_unflatten(cls, kept, children):
        return cls(collections.OrderedDict(kept), *children)


jax.tree_util.register_pytree_node_class(Open)


@pytest.mark.parametrize("cls", [Named, Open])
def test_changing_numbers_beside_leaves_are_numbers(cls):
    mapped = dynacomp.jit(lambda k, x: jax.tree.map(jnp.cos, cls(collections.OrderedDict(a=k, b=k * 2), x)),
                          backend="eager")
    for k in (3, 4, 5):
        assert mapped(k, X).table == {"a": k, "b": 2 * k}


@pytest.mark.parametrize("cls", [Named, Open])
def test_structures_that_the_program_sees_hold_numbers(cls):
    def structures(a, b):
        return jax.tree.structure(a), jax.tree.flatten(b)[1], jax.tree.structure(a) == jax.tree.structure(b)

    compiled = dynacomp.jit(structures, backend="eager")
    for k, m in ((3, 3), (4, 4), (4, 5), (5, 5)):
        trees = cls({"a": k}, X), cls({"a": m}, X)
        assert compiled(*trees) == structures(*trees)


@jax.tree_util.register_pytree_node_class
class Marked:
    """An array and a mark of who made it, as Equinox's buffers in loops have it."""

    def __init__(self, x, mark):
        self.x, self.mark = x, mark

    def tree_flatten(self):
        return (self.x,), (self.mark,)

    @classmethod
    def tree_unflatten(cls, aux, leaves):
        return cls(*leaves, *aux)


@dynacomp.allow_in_graph
def with_mark(body, x):
    given = Marked(x, object())
    made = body(given)
    if made.mark is not given.mark:
        raise ValueError("another's")
    return made.x


def test_a_mark_that_each_call_makes_anew_comes_back():
    def program(x, up):
        return with_mark(lambda tree: Marked(tree.x + up, tree.mark), x * 2) + 1

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        assert jnp.array_equal(compiled(X * i, i % 2), program(X * i, i % 2))
    stats = dynacomp.stats()
    assert set(stats["breaks"]) == {"body"} and stats["frames_captured"] <= 6


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["fn"])
@dataclasses.dataclass
class Model:
    w: jax.Array
    fn: object

    def loss(self, x):
        return self.fn(self.w * x).sum()


class Callable(Model):
    def __call__(self, x):
        return self.fn(self.w * x)


def mapped(s, x):
    made = jax.vmap(lambda s: dataclasses.replace(s, w=s.w * 2))(s)
    return made.fn(x), made.fn is s.fn


def derived(s, x):
    made = jax.grad(lambda s: s.loss(x))(s)
    return made.w, made.fn(x), made.fn is s.fn


def looped(s, x):
    made, _ = jax.lax.scan(lambda s, x: (dataclasses.replace(s, w=s.fn(s.w)), x), s, None, 3)
    return made.w, made.fn(x), made.fn is s.fn


@pytest.mark.parametrize("program", [mapped, derived, looped])
def test_functions_made_anew_that_a_class_of_the_program_keeps(program):
    """From the second call on: 'a body was called in a way that its capture had not seen', and Python ran it."""
    compiled = dynacomp.jit(program)
    for n in range(6):
        s, x = Model(jnp.arange(3.0) + n, lambda p, n=n: jnp.sin(p) * n), jnp.ones(3) * n
        for got, want in zip(compiled(s, x), program(s, x), strict=True):
            assert jnp.allclose(got, want, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def test_what_a_library_may_call():
    assert may_be_called(Callable) and not may_be_called(Model)


class Config:
    def __init__(self, rate):
        self.rate = rate


class Compared(Config):
    def __eq__(self, other):
        return self.rate == other.rate

    __hash__ = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Configured:
    w: jax.Array
    config: object = dataclasses.field(metadata={"static": True})


def configured(m, x):
    made = jax.vmap(lambda row: dataclasses.replace(m, w=m.w * row * m.config.rate))(x)
    made.config.rate += 1
    return made.w, made.config is m.config, m.config.rate


def configured_here(rate, x):
    return configured(Configured(x, Config(rate)), x)


def counted_up(m, x):
    made, seen = jax.lax.scan(lambda m, x: (dataclasses.replace(m, w=m.w * m.config.rate), x * 2), m, x)
    return made.w, seen, made.config is m.config


@pytest.mark.parametrize(("program", "given"), [
    (configured, lambda rate: Configured(X, Config(rate))), (configured_here, lambda rate: rate),
    (counted_up, lambda rate: Configured(X, Config(rate)))])
def test_numbers_in_objects_that_a_class_keeps(program, given):
    """Each of them was a constant, a capture for each; JAX compares such objects by their identity."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(2, 8):
        x = jnp.arange(float(n))[:, None]
        got, want = compiled(given(n * 0.5), x), program(given(n * 0.5), x)
        assert jnp.allclose(got[0], want[0], rtol=1e-5) and repr(got[1:]) == repr(want[1:])
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def test_which_numbers_nobody_reads():
    one, two, three = (ScalarV(rate) for rate in (0.5, 1.5, 2.5))
    made = [Configured(X, Config(one)), Configured(X, Compared(two)), Configured(X, [three, Config(three)])]
    assert unread(jax.tree.structure(made)) == [one]


def test_an_optimiser_made_anew_that_a_body_hands_back():
    """It was another one: `n.tx is s.tx` was False, and its functions were looked for in the Graph."""
    train_state, optax = pytest.importorskip("flax.training.train_state"), pytest.importorskip("optax")

    def program(s, x):
        n = jax.vmap(lambda row: s.apply_gradients(grads=jax.tree.map(lambda p: p * row, s.params)))(x)
        value, m = jax.grad(lambda p: (p["w"].sum(), s.replace(params=p)), has_aux=True)(s.params)
        return n.params, n.tx is s.tx, n.tx == s.tx, value, m.tx is s.tx, jax.tree.structure(m) == jax.tree.structure(s)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(2, 8):
        s = train_state.TrainState.create(apply_fn=None, params={"w": X}, tx=optax.sgd(0.1 * n))
        assert str(compiled(s, jnp.arange(float(n)))) == str(program(s, jnp.arange(float(n))))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


@jax.tree_util.register_pytree_node_class
class Shown:
    """Takes its attributes apart itself, and keeps what is no array for JAX in their structure (as distrax does)."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def tree_flatten(self):
        leaves, tree = jax.tree.flatten(self.__dict__)
        shown = [isinstance(x, jax.Array) for x in leaves]
        kept = [None if s else x for x, s in zip(leaves, shown)]
        return [x if s else None for x, s in zip(leaves, shown)], (kept, tree)

    @classmethod
    def tree_unflatten(cls, kept, children):
        return cls(**jax.tree.unflatten(kept[1], [a if a is not None else b for a, b in zip(children, kept[0])]))


@pytest.mark.parametrize("program", [
    lambda m: jax.jit(lambda m: m.inner.x * m.scale)(m), lambda m: jax.tree.map(lambda v: v + 1, m).inner.x,
    lambda m: jax.tree.leaves(m)[0], lambda m: jax.grad(lambda m: m.inner.x.sum(), allow_int=True)(m).inner.x])
def test_objects_in_objects_that_ask_what_their_leaves_are(program):
    def whole(x):
        return program(Shown(inner=Shown(x=x, name="a"), scale=2))

    compiled = dynacomp.jit(whole, backend="eager")
    before = dynacomp.stats()
    for n in (3, 3, 4, 5):
        assert jnp.array_equal(compiled(jnp.arange(n) * 1.0), whole(jnp.arange(n) * 1.0))
    after = dynacomp.stats()
    assert after["frames_captured"] - before["frames_captured"] <= 2
    assert after["frames_eager"] == before["frames_eager"]
