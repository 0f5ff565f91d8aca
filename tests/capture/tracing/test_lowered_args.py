"""Values as arguments of nodes, and back: what stands in the Graph, and what a library gets under its trace."""

import collections
import functools
import types
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import PLACEHOLDER, Node
from dynacomp.capture.tracing.lowered_args import MAX_LITERAL, parameter_names
from dynacomp.capture.tracing.lowered_parts import parts
from tests.capture.program_kit import captured, check_one_graph

X = jnp.arange(3.0)


def node(name):
    return Node(PLACEHOLDER, name, None, (), {}, Aval((3,), np.dtype("float32")))


A, B = node("a"), node("b")
ENV = {A: "first", B: "second"}


Point = collections.namedtuple("Point", "a b")


class Level(int):
    """A number of the program's class."""


class Row(list):
    """A list of the program's class."""


@jax.tree_util.register_pytree_node_class
class Pair:
    """A tree of two, with a field that is no leaf."""

    def __init__(self, a, b, name="pair"):
        self.a, self.b, self.name = a, b, name

    def scaled(self, x):
        return self.a * x + self.b

    def tree_flatten(self):
        return (self.a, self.b), self.name

    @classmethod
    def tree_unflatten(cls, name, leaves):
        return cls(*leaves, name)


def test_parameters_that_are_functions_are_known_by_name():
    assert parameter_names(jax.lax.fori_loop)[:3] == ("lower", "upper", "body_fun")


ARGUMENTS = {
    "containers": lambda x: jax.tree.map(jnp.sin, {"a": [x, (x, 2.0)], "b": collections.OrderedDict(c=x)}),
    "named tuple": lambda x: jax.tree.map(jnp.cos, Point(x, x + 1)).b,
    "slice": lambda x: jnp.asarray(x)[slice(0, 2)] + x.at[1:].get()[0],
    "partial": lambda x: jax.vmap(functools.partial(jnp.add, 1.0))(x),
    "method": lambda x: jax.vmap(Pair(x, 2.0).scaled)(x), "set": lambda x: jax.tree.leaves([x, {1}])[0] * 2,
    "level": lambda x: jnp.full((Level(2),), x[0]) + Level(3),
    "pair": lambda x: jax.tree.leaves(jax.tree.map(jnp.sin, Pair(x, x * 2))),
    "grad of pair": lambda x: jax.grad(lambda p: (p.a * p.b).sum())(Pair(x, x * 2)).b,
    "function and array": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + x[i], x),
    "literals": lambda x: x + np.array([1, 2, 3], np.float32),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_every_kind(name):
    check_one_graph(ARGUMENTS[name], (X,), (X + 1,))


def test_small_numpy_arrays_are_spelled_out_and_large_ones_are_constants():
    small, large = np.arange(4, dtype=np.int32), np.arange(MAX_LITERAL + 1, dtype=np.int32)
    spelled = captured(lambda x: jnp.take(x, jnp.asarray(np.array([0, 2]))), X).graph
    assert "2" in str(spelled)
    for index in (small % 3, large % 3):
        check_one_graph(lambda x, index=index: x[index], (X,))


def test_a_model_under_a_transformation_is_its_call():
    class Net:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return (self.w * x).sum()

    net = Net(X)
    text = str(captured(lambda x: jax.grad(net)(x), X).graph)
    assert "grad" in text and "mul" in text, "its body is captured"
    check_one_graph(lambda x: jax.grad(net)(x), (X,), (X + 2,))


@pytest.mark.parametrize("transformed", [
    jax.grad, jax.value_and_grad, jax.hessian, lambda f: lambda x: jax.vmap(f)(x[:, None]),
    lambda f: lambda x: jax.jvp(f, (x,), (x,)), lambda f: jax.grad(lambda x: jax.grad(f)(x).sum()),
], ids=["grad", "value_and_grad", "hessian", "vmap", "jvp", "grad of grad"])
def test_a_compiled_function_under_a_transformation_is_entered(transformed):
    """What it does to outer objects happens in each call, and breaks nothing."""
    def program(wrap):
        seen = []

        def loss(x):
            seen.append(x.shape)
            if x.ndim > 3:
                seen.append(np.random.rand())
            return (x ** 3).sum()

        step = transformed(wrap(loss))
        return wrap(lambda x: (step(x), len(seen)))

    dynacomp.reset()
    plain, compiled = program(lambda f: f), program(dynacomp.jit)
    for n in (3, 3, 4, 5, 6, 3):
        x = jnp.arange(1.0, n + 1)
        for want, found in zip(jax.tree.leaves(plain(x)), jax.tree.leaves(compiled(x)), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def test_what_cannot_be_an_argument_breaks_the_graph_and_is_named():
    class Odd:
        pass

    odd = Odd()
    program = lambda x: jax.tree.leaves([x, odd])[0] * 2
    assert jnp.array_equal(dynacomp.jit(program, backend="eager")(X), program(X))


def test_sizes_that_change_go_as_sizes_or_as_numbers():
    def program(x):
        return jnp.full(x.shape, 2.0) + x.shape[0] + jnp.arange(x.shape[0]), x[: x.shape[0] // 2]

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(4, 12):
        x = jnp.arange(float(n))
        for got, want in zip(compiled(x), program(x), strict=True):
            assert got.dtype == want.dtype and got.weak_type == want.weak_type and jnp.array_equal(got, want)
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= 2


@jax.tree_util.register_dataclass
@dataclass
class Step:
    """A dataclass tree."""

    x: object
    n: int


def test_trees_keep_numbers_that_change_as_leaves():
    def program(x, n):
        step = jax.tree.map(lambda v: v * 2, Step(x, n))
        return step.x + step.n

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(8):
        assert jnp.array_equal(compiled(X, n), program(X, n))
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] <= 2


def step(params, x):
    loss, found = jax.value_and_grad(lambda p: jnp.mean(jnp.tanh(x @ p["w"] + p["b"]) @ p["head"]["w"]))(params)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, found)


def test_the_order_of_a_dict_decides_nothing_of_the_graph():
    w, b, head = jnp.ones((3, 3)), jnp.ones(3), {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}
    x, graphs = jnp.ones((2, 3)), []
    for params in ({"w": w, "head": head, "b": b}, {"b": b, "head": dict(sorted(head.items())), "w": w}):
        found = captured(step, params, x)
        graphs.append([(n.target, n.aval) for n in found.graph.placeholders])
        made = dynacomp.jit(step)(params, x)[1]
        assert list(made) == list(step(params, x)[1]) == ["b", "head", "w"]
    assert graphs[0] == graphs[1]
    assert len(graphs[0]) == 5  # each once, though the tree is passed twice


class Metres(float):
    """A number that prints in its own way."""

    def __repr__(self):
        return f"{float(self)} m"


def scaled(metres, x):
    return jnp.sin(metres) * x + metres * x


@jax.custom_jvp
def wave(x, y):
    return jnp.sin(x) * y


@wave.defjvp
@dynacomp.jit
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return wave(x, y), dx * jnp.cos(x) * y * 2 + dy * x


def test_numbers_of_a_class_that_change_are_numbers():
    """They ended the capture for ever: a defect."""
    dynacomp.reset()
    compiled = dynacomp.jit(scaled)
    for n in range(6):
        assert jnp.allclose(compiled(Metres(n / 2), X), scaled(Metres(n / 2), X))
    found = dynacomp.stats()
    assert found["frames_captured"] == 2 and not found["breaks"] and not found["frames_eager"]


def test_rules_that_jax_hands_its_typed_numbers():
    """Each number was another object, and the sixth call broke."""
    dynacomp.reset()
    for n in range(7):
        assert jnp.allclose(jax.grad(wave)(n / 2, 2.0), jnp.cos(n / 2) * 4, atol=1e-6)
    found = dynacomp.stats()
    assert found["frames_captured"] == 2 and not found["breaks"] and not found["frames_eager"]


class Trainer:
    """An object that is no tree, with much in it that a step does not look at."""

    def __init__(self, scale):
        self.scale, self.w, self.log, self.seen = scale, jnp.ones(3) * scale, {"lines": [str(scale)] * 9}, []

    @jax.default_matmul_precision("float32")
    def step(self, x):
        return x * self.scale + self.w

    @jax.default_matmul_precision("float32")
    def noted(self, x):
        self.seen.append(1)
        return x * self.scale


def test_an_object_that_jax_hands_on_is_guarded_by_what_is_read_of_it():
    """All of it was, and each new number in it was compiled anew."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda trainer, x: trainer.step(x))
    for n in range(8):
        trainer = Trainer(n / 2)
        assert jnp.array_equal(compiled(trainer, X), trainer.step(X))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]
    assert "log" not in dynacomp.explain(lambda trainer, x: trainer.step(x))(Trainer(1.0), X).regions[0].guards


def test_what_a_function_that_jax_has_made_does_to_such_an_object_happens():
    """It was lost where the call was captured, and came in no later one."""
    compiled, trainer = dynacomp.jit(lambda trainer, x: trainer.noted(x), backend="eager"), Trainer(2.0)
    for n in range(1, 5):
        assert jnp.array_equal(compiled(trainer, X), X * 2.0) and len(trainer.seen) == n


KEEPING = '''
class Kept:
    def __init__(self, held):
        self.held = held

def kept(held):
    return Kept(held)

def area(ring):
    return ring.scale * 2
'''


class Ring:
    """A tree that keeps an array beside its leaves, and a library's object that holds it."""

    def __init__(self, kept, scale):
        self.scale = jnp.asarray(scale)
        self.given = kept({"self": self, "scale": scale})


def ring_of(aux, leaves):
    ring = object.__new__(Ring)
    ring.scale, ring.given = aux
    return ring


jax.tree_util.register_pytree_node(Ring, lambda r: ((), (r.scale, getattr(r, "given", None))), ring_of)


def test_an_object_that_holds_itself_is_not_taken_apart_for_ever():
    keeping = types.ModuleType("keeping")
    exec(KEEPING, vars(keeping))
    dynacomp.register_library("keeping", pure=True)
    check_one_graph(lambda s, x: keeping.area(Ring(keeping.kept, s)) * x,
                    *((0.5 + n, jnp.arange(3.0) + n) for n in range(5)), captures=2)


class Setting:
    def __init__(self, rate):
        self.rate = rate

    def scaled(self, x):
        return self.rate * x


def test_an_object_that_a_library_keeps_is_not_a_constant_with_its_arrays():
    """Wrong: a function that the call jits had the arrays of the first call's object."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda s, x: jax.jit(lambda s, x: s.rate * x, static_argnums=0)(s, x), backend="eager")
    for n in range(4):
        assert np.array_equal(compiled(Setting(X + n), X), (X + n) * X)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_an_object_around_arrays_for_a_library_that_runs_the_programs_code():
    nn = pytest.importorskip("flax.linen")

    class Scaled(nn.Module):
        def __call__(self, s, x):
            return x * s.rate

    dynacomp.reset()
    compiled = dynacomp.jit(lambda s, x: Scaled().apply({}, s, x) * 2, backend="eager")
    given = [Setting(X + n) for n in range(3)]
    for n in (0, 1, 2, 1, 0):
        assert np.array_equal(compiled(given[n], X), given[n].rate * X * 2)
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


@dataclass
class Linear:
    gain: jax.Array
    power: int = 1

    def __call__(self, x):
        return self.gain * x ** self.power


def along_no_axis(gain, x):
    return jax.vmap(lambda model, x: model(x), (None, 0))(Linear(gain, 2), x)


def changed_between(gain, x):
    setting = Setting(gain)
    before = jax.vmap(Setting.scaled, (None, 0))(setting, x)
    setting.rate = setting.rate + 1
    return before, jax.vmap(Setting.scaled, (None, 0))(setting, x), setting.rate


def static_in_a_gradient(gain, x):
    return jax.grad(lambda x: jax.jit(Setting.scaled, static_argnums=0)(Setting(gain), x).sum())(x)


@pytest.mark.parametrize("program", [along_no_axis, changed_between, static_in_a_gradient])
def test_objects_that_the_call_has_made_and_jax_hands_on(program):
    """They were a break."""
    check_one_graph(program, *((jnp.float32(n), X + n) for n in range(3)))


def test_what_stands_for_one_keeps_nothing_of_it():
    """A bare object of the class had no attributes for whoever printed it: the entry was kept for no other process."""
    (region,) = (dynacomp.explain(along_no_axis, backend="eager")(jnp.float32(2), X)).regions
    assert not any(isinstance(x, Linear) for node in region.graph.nodes for x in parts((node.args, node.kwargs)))


def test_an_object_of_a_class_that_the_call_makes_is_not_handed_on():
    def program(gain, x):
        class Made:
            def __init__(self, rate):
                self.rate = rate

        return jax.vmap(Setting.scaled, (None, 0))(Made(gain), x)

    compiled = dynacomp.jit(program, backend="eager")
    assert all(np.array_equal(compiled(jnp.float32(n), X), program(jnp.float32(n), X)) for n in range(3))
