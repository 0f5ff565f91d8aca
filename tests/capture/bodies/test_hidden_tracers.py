"""Pytrees whose classes decide by themselves what a leaf is, and objects that keep arrays where JAX does not look."""

import builtins
import sys
import types

import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState
from jax._src.interpreters import batching

import dynacomp
from dynacomp.capture.symbolic import libraries
from tests.capture.program_kit import check_one_graph

X = jnp.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("kind", ["Normal", "MultivariateNormalDiag"])
def test_distributions_that_hold_bound_methods(kind):
    distrax = pytest.importorskip("distrax")

    def fit(mean, scale, key, x):
        made = getattr(distrax, kind)(mean, jax.nn.softplus(scale))
        return made.log_prob(x), made.sample(seed=key), jax.grad(lambda m: getattr(distrax, kind)(
            m, jnp.ones(3)).log_prob(x).sum())(mean)

    breaks = dynacomp.stats()["breaks"]
    args = jnp.zeros(3), jnp.ones(3), jax.random.key(0), X
    for a, b in zip(fit(*args), dynacomp.jit(fit, backend="xla")(*args), strict=True):
        assert jnp.allclose(a, b, rtol=1e-5)
    assert dynacomp.stats()["breaks"] == breaks


@jax.tree_util.register_pytree_node_class
class Choosy:
    """Only what JAX knows is a leaf; the rest is part of the structure."""

    def __init__(self, value, name):
        self.value, self.name = value, name

    def tree_flatten(self):
        known = isinstance(self.value, jax.Array)
        return ((self.value,), (self.name, None)) if known else ((), (self.name, self.value))

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*(children or (aux[1],)), aux[0])


def test_a_class_that_asks_what_a_leaf_is():
    def scaled(x):
        held = Choosy(x * 2, "held")
        return jax.tree.map(lambda v: v + 1, held).value, jax.jit(lambda h: h.value * 3)(held), held.name

    want, got = scaled(X), dynacomp.jit(scaled, backend="xla")(X)
    assert jnp.array_equal(want[0], got[0]) and jnp.array_equal(want[1], got[1]) and want[2] == got[2]


def wrapping(x):
    shift = jnp.array([1.0, 2.0, 3.0])

    class Wrapper:
        def shifted(self):
            return x + shift

        @property
        def total(self):
            return (x * shift).sum()

    jax.tree_util.register_pytree_node(Wrapper, lambda made: ((), None), lambda aux, children: Wrapper())
    return Wrapper()


def keeping():
    return Kept(jnp.array([1.0, 2.0, 3.0]))


class Kept:
    def __init__(self, shift):
        self.shift = shift


NAMES = {"__name__": "optax.of_a_test", "__builtins__": builtins, "jax": jax, "jnp": jnp, "Kept": Kept}


def test_objects_of_a_library_whose_class_keeps_arrays():
    make, keep = (types.FunctionType(fn.__code__, dict(NAMES)) for fn in (wrapping, keeping))

    def program(x):
        made = make(x)
        return made.shifted(), made.total, keep().shift + x

    compiled = dynacomp.jit(program, backend="eager")
    for x in (X, X + 1):
        assert repr(compiled(x)) == repr(program(x))


def test_an_object_of_a_library_that_keeps_arrays_leaves_compiled_code():
    make, keep = (types.FunctionType(fn.__code__, dict(NAMES)) for fn in (wrapping, keeping))
    made, kept = dynacomp.jit(lambda x: (make(x), keep()), backend="eager")(X)
    assert repr((made.shifted(), made.total, kept.shift)) == repr((make(X).shifted(), make(X).total, keep().shift))


@jax.tree_util.register_pytree_node_class
class Scaled:
    """A tree with an array or a number where JAX sees none, as problems and geometries of ott keep them."""

    def __init__(self, y, scale):
        self.y, self.scale = y, scale

    def tree_flatten(self):
        return [self.y], {"scale": self.scale}

    @classmethod
    def tree_unflatten(cls, fixed, leaves):
        return cls(leaves[0], **fixed)


def test_an_array_beside_the_leaves_of_a_tree_is_what_the_body_reads():
    def mapped(y):
        return jax.vmap(lambda p: p.y * p.scale)(Scaled(y * 2, y[1]))

    def compiled(y):
        return jax.jit(lambda p: p.y * p.scale)(Scaled(y * 2, jnp.float32(0.5)))

    def below(y):
        return jax.grad(lambda y: jax.vmap(lambda p: p.y * p.scale)(Scaled(y, y[0])).sum())(y)

    def again(y):
        double = lambda p: p.y * p.scale  # noqa: E731
        return jax.vmap(double)(Scaled(y, y[0])), jax.vmap(double)(Scaled(y[:2], y[0]))

    for f in (mapped, compiled, below, again):
        check_one_graph(f, (jnp.arange(3.0),), (jnp.ones(3),))


def test_a_number_beside_the_leaves_of_a_tree_stays_a_number():
    def f(y, scale):
        return jax.vmap(lambda p: p.y * (p.scale if isinstance(p.scale, float) else 100.0))(Scaled(y, scale))

    check_one_graph(f, (jnp.arange(3.0), 0.5), (jnp.arange(3.0), 1.5), captures=2)


COUPLING = '''
import jax


@jax.tree_util.register_pytree_node_class
class Coupling:
    """Its functions are no leaves."""

    def __init__(self, mask, conditioner, inner):
        self.mask, self.conditioner, self.inner = mask, conditioner, inner

    def forward(self, x):
        return jax.numpy.where(self.mask, x, self.inner(self.conditioner(x)).forward(x))

    def tree_flatten(self):
        return (self.mask,), (self.conditioner, self.inner)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *aux)


@jax.tree_util.register_pytree_node_class
class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def forward(self, x):
        return x * self.scale

    def tree_flatten(self):
        return (self.scale,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)
'''


@pytest.fixture
def coupling(monkeypatch):
    """A library whose trees keep the program's functions where JAX does not look, as Distrax's bijectors do."""
    module = types.ModuleType("dynacomp_test_coupling")
    exec(COUPLING, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    dynacomp.register_library(module.__name__, pure=True)
    dynacomp.reset()
    yield module
    libraries.REGISTERED.pop(module.__name__)


@pytest.mark.parametrize("broken", [False, True])
def test_a_tree_that_keeps_functions_out_of_sight(coupling, broken):
    """The functions of the capture that stood there were the program's, later: NeverCalled left `jit`."""
    def program(x, k):
        made = coupling.Coupling(jnp.arange(x.shape[-1]) % 2 == 0, lambda x: x * k, lambda p: coupling.Scaled(p + 1))
        y = x * 2
        if broken:
            dynacomp.graph_break()
        return made.forward(y), jax.vmap(made.forward)(y), made.mask, jax.grad(lambda x: made.forward(x).sum())(y)

    compiled = dynacomp.jit(program)
    for rows, k in ((3, 2.0), (3, 2.0), (4, 3.0), (5, 4.0), (6, 5.0)):
        x = jnp.linspace(-1, 1, rows * 4).reshape(rows, 4)
        for got, want in zip(compiled(x, k), program(x, k), strict=True):
            assert jnp.allclose(got, want, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= (6 if broken else 3) and not stats["frames_eager"]
    assert sum(stats["breaks"].values()) == stats["breaks"].get("user", 0)


class Box:
    def __init__(self, data):
        self.data = data


def test_what_goes_on_with_a_running_trace_is_no_node():
    def to_elt(go_on, _, box, spec):
        return Box(go_on(box.data, spec))

    def from_elt(go_on, size, box, spec):
        return Box(go_on(size, box.data + 1, spec))

    def program(x):
        return jax.vmap(lambda box: Box(box.data * 2), axis_size=x.shape[0])(Box(x)).data

    batching.register_vmappable(Box, int, int, to_elt, from_elt, None)
    try:
        dynacomp.reset()
        compiled = dynacomp.jit(program, backend="eager")
        for n in (3, 4, 3):
            got = compiled(jnp.arange(float(n)))
            assert not isinstance(got, jax.core.Tracer) and got.tolist() == [2 * i + 1 for i in range(n)]
    finally:
        batching.unregister_vmappable(Box)
    assert "tracer" in dynacomp.stats()["breaks"]


def scheduled(x, w, rate):
    """A training loop whose state keeps the optimiser that the program has made beside its leaves."""
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lambda count: rate * (1.0 - count / 10)))
    return TrainState.create(apply_fn=lambda p, x: p["w"] * x, params={"w": w}, tx=tx), lambda state, x: (
        state.apply_gradients(grads=jax.grad(lambda p: state.apply_fn(p, x).sum())(state.params)))


def scanned(x, w, rate):
    state, step = scheduled(x, w, rate)
    made, seen = jax.lax.scan(lambda state, _: (step(state, x), state.step), state, None, 3)
    again = jax.jit(step)(state, x)
    same = again.tx is state.tx, made.tx is state.tx, made.apply_fn is state.apply_fn
    return jax.tree.leaves(made), jax.tree.leaves(step(made, x)), seen, same


def nested(x, w, rate):
    state, step = scheduled(x, w, rate)
    inner = lambda state, _: (step(state, x), state.step)  # noqa: E731
    made, seen = jax.lax.scan(lambda state, _: jax.lax.scan(inner, state, None, 2), state, None, 3)
    return jax.tree.leaves(made), seen, made.tx.update is state.tx.update


def mapped(x, w, rate):
    state, step = scheduled(x, w, rate)
    made = jax.vmap(lambda x: step(state, x))(jnp.stack([x, x * 2]))
    again = jax.vmap(step)(made, jnp.stack([x, x * 3]))
    return jax.tree.leaves(again), jax.tree.leaves(made)


@pytest.mark.parametrize("program", [scanned, nested, mapped])
def test_an_optimiser_in_a_state_that_a_loop_hands_on(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for i in (1, 2, 3, 2):
        args = jnp.full(3, 0.5 + i), jnp.ones(3), 0.1 * i
        got, want = jax.tree.leaves(compiled(*args)), jax.tree.leaves(program(*args))
        assert [jnp.result_type(x) for x in got] == [jnp.result_type(x) for x in want]
        assert all(jnp.allclose(a, b, rtol=1e-4) for a, b in zip(got, want, strict=True))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]
