"""Code that a library runs: what it reads from globals, closures and objects counts at each call, as in eager JAX."""

import argparse
import contextvars
import os
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

eqx = pytest.importorskip("equinox")
nn = pytest.importorskip("flax.linen")
hk = pytest.importorskip("haiku")

X = jnp.ones((2, 3))
SCALE, ITEMS, TABLE = 2.0, [1.0], np.arange(3.0)
SETTINGS = type("Settings", (), {})()
SETTINGS.shift = 0.25


class Net(nn.Module):
    gain = 0.5

    def __call__(self, x):
        def inner(x):
            return x * SCALE + ITEMS[0]

        return inner(x) + self.gain + SETTINGS.shift + TABLE.sum()


def replace_global():
    global SCALE
    SCALE += 1


CHANGES = {
    "a global": replace_global,
    "an element": lambda: ITEMS.__setitem__(0, ITEMS[0] + 1),
    "an attribute": lambda: setattr(SETTINGS, "shift", SETTINGS.shift + 1),
    "a class attribute": lambda: setattr(Net, "gain", Net.gain + 1),
    "an array's content": lambda: TABLE.__setitem__(0, TABLE[0] + 1),
}


@pytest.fixture(scope="module")
def compiled():
    net = Net()
    return lambda x: net.apply({}, x), dynacomp.jit(lambda x: net.apply({}, x), backend="xla")


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_module_reads_may_change(compiled, what):
    plain, jitted = compiled
    before = jitted(X)
    CHANGES[what]()
    assert jnp.allclose(jitted(X), plain(X)) and not jnp.allclose(jitted(X), before)


def test_what_nobody_reads_is_not_guarded(compiled):
    compiled[1](X)
    graphs = dynacomp.stats()["graphs"]
    SETTINGS.unread = object()
    compiled[1](X)
    assert dynacomp.stats()["graphs"] == graphs


def test_cells_of_a_transformed_function():
    def make(scale):
        def forward(x):
            return hk.Linear(2, with_bias=False)(x) * scale[0]
        return forward

    scale = [1.0]
    net = hk.transform(make(scale))
    params = net.init(jax.random.key(0), X)
    jitted = dynacomp.jit(lambda params, x: net.apply(params, None, x), backend="xla")
    for value in (1.0, 3.0):
        scale[0] = value
        assert jnp.allclose(jitted(params, X), net.apply(params, None, X))


@pytest.mark.medium
def test_a_model_that_a_solver_calls():
    eqx, dfx = pytest.importorskip("equinox"), pytest.importorskip("diffrax")
    factor = [1.0]

    class Field(eqx.Module):
        rate: jax.Array

        def __call__(self, t, y, args):
            return -y * self.rate * factor[0]

    def solve(field, y):
        return dfx.diffeqsolve(dfx.ODETerm(field), dfx.Euler(), 0.0, 1.0, 0.25, y).ys

    jitted, before = dynacomp.jit(solve, backend="xla"), dynacomp.stats()["graphs"]
    for n, factor[0] in enumerate((1.0, 1.0, 2.0)):
        field = Field(jnp.array(1.0 + n))
        assert jnp.allclose(jitted(field, X), solve(field, X))
    assert dynacomp.stats()["graphs"] == before + 2


def test_a_large_array_that_may_change_breaks():
    table = np.zeros(1 << 18)

    class Reads(nn.Module):
        def __call__(self, x):
            return x + table[0]

    jitted = dynacomp.jit(lambda x: Reads().apply({}, x), backend="xla")
    for value in (0.0, 5.0):
        table[0] = value
        assert jnp.allclose(jitted(X), X + value)


def test_files_that_a_library_opens_are_read_and_written_at_each_call(tmp_path):
    numbers, model = tmp_path / "numbers.npy", tmp_path / "model.eqx"

    def program(x):
        held = jnp.load(numbers)
        eqx.tree_serialise_leaves(model, {"w": held})
        first = eqx.tree_deserialise_leaves(model, {"w": x})["w"]
        eqx.tree_serialise_leaves(model, {"w": x})
        return held + x, first, eqx.tree_deserialise_leaves(model, {"w": x})["w"]

    compiled = dynacomp.jit(program, backend="eager")
    for n in (2.0, 3.0):
        np.save(numbers, np.full(2, n, np.float32))
        assert [float(x[0]) for x in compiled(jnp.ones(2))] == [n + 1, n, 1]


class Changing:
    width = 2


CHANGING, WIDTHS, WIDTH = Changing(), [2], 2
CHANGING.width = 2


@pytest.mark.parametrize("width", [
    lambda: CHANGING.width, lambda: WIDTHS[0], lambda: WIDTH, lambda: Changing.width],
    ids=("object", "list", "global", "class"))
def test_what_has_changed_before_a_library_runs_code_that_reads_it(width):
    net = hk.transform(lambda x: hk.Linear(width())(x))

    def made(x, key, n):
        global WIDTH
        CHANGING.width = WIDTHS[0] = WIDTH = Changing.width = n
        return net.init(key, x)["linear"]["b"]

    compiled = dynacomp.jit(made, backend="eager")
    assert [compiled(jnp.ones((2, 3)), jax.random.key(0), n).size for n in (2, 3, 4, 3)] == [2, 3, 4, 3]


class Pair(nn.Module):
    """Two modules, which may be one."""

    first: nn.Module
    second: nn.Module

    def __call__(self, x):
        return self.second(self.first(x))


def dense(name=None, features=3):
    return nn.Dense(features, name=name)


def shared():
    return (lambda one: Pair(one, one))(dense())


MODULES = {"a name": lambda: Pair(dense("a"), dense()), "two of them": lambda: Pair(dense(), dense()),
           "one in two places": shared, "another size": lambda: Pair(dense(features=5), dense())}


def linen(make, x):
    net = make()
    print(end="")  # the graph breaks: the module comes as an input of what follows
    params = net.init(jax.random.key(0), x)
    return params, net.apply(params, x)


def haiku(width, options, x):
    def forward(x):
        return hk.Linear(width, **options)(x) * options.get("scale", 1.0) + TABLE[0]

    net = hk.without_apply_rng(hk.transform(forward))
    print(end="")
    params = net.init(jax.random.key(0), x)
    return params, net.apply(params, x)


def captures_of(fn, *args):
    """How many frames a call captures, after its results were compared with plain Python's."""
    before = dynacomp.stats()["frames_captured"]
    got = fn(*args)
    made = dynacomp.stats()["frames_captured"] - before
    jax.tree.map(np.testing.assert_allclose, got, fn.__wrapped__(*args))
    return made


@pytest.mark.medium
def test_modules_made_anew_are_known_by_what_they_hold():
    dynacomp.reset()
    compiled = dynacomp.jit(linen, backend="xla")
    for _ in range(2):
        for make in MODULES.values():
            for _ in range(3):
                captures_of(compiled, make, X)
    assert [captures_of(compiled, make, X) for make in MODULES.values()] == [0] * len(MODULES)
    assert not {"limit", "host", "churn"} & set(dynacomp.stats()["frames_eager"])


def made_of(settings):
    net = nn.Dense(2, **settings)
    print(end="")
    return net.apply({"params": {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}}, X)


def test_classes_that_modules_made_anew_hold_count():
    """Wrong: the dtype of the second call's module was that of all that followed."""
    dynacomp.reset()
    compiled = dynacomp.jit(made_of, backend="xla")
    settings = [{}, {"dtype": jnp.float16}, {"dtype": jnp.bfloat16}, {"dtype": jnp.float16, "use_bias": False}]
    for _ in range(3):
        assert [compiled(s).dtype for s in settings] == [made_of(s).dtype for s in settings]
    assert not {"limit", "host", "churn"} & set(dynacomp.stats()["frames_eager"])


@pytest.mark.parametrize("made", [types.SimpleNamespace, argparse.Namespace])
def test_namespaces_in_the_cells_of_a_transformed_function(made):
    """Wrong: what one held in the first call."""
    def program(options, x):
        return hk.without_apply_rng(hk.transform(lambda x: x * options.gain)).apply({}, x)

    compiled = dynacomp.jit(program, backend="xla")
    for gain in (1.0, 2.0, 1.0, 3.0, 2.0):
        assert (compiled(made(gain=gain), X) == X * gain).all()


def test_transformed_functions_made_anew_are_known_by_what_they_hold():
    dynacomp.reset()
    compiled = dynacomp.jit(haiku, backend="xla")
    cases = [(4, {}), (4, {"with_bias": False}), (2, {})]
    for _ in range(2):
        for width, options in cases:
            for _ in range(3):
                captures_of(compiled, width, dict(options), X)
    assert [captures_of(compiled, width, dict(options), X) for width, options in cases] == [0] * 3
    assert not {"limit", "host", "churn"} & set(dynacomp.stats()["frames_eager"])
    TABLE[0] += 1
    captures_of(compiled, 4, {}, X)


def forward(x):
    return hk.Linear(3, w_init=jnp.ones)(x) * 2


def applied(net, x):
    return net.apply(net.init(jax.random.key(0), x), None, x)


def test_functions_that_their_module_has_under_their_name_may_be_made_anew(monkeypatch):
    """As where the cell of a notebook that defines one runs again: it was followed for ever, and all ran in Python."""
    dynacomp.reset()
    compiled, code, made = dynacomp.jit(applied), forward.__code__, []
    for n in range(6):
        monkeypatch.setattr(sys.modules[__name__], "forward", types.FunctionType(code, globals(), "forward"))
        made.append(dynacomp.stats()["frames_captured"])
        x = jnp.ones((2, n + 2))
        np.testing.assert_allclose(compiled(hk.transform(forward), x), applied(hk.transform(forward), x), rtol=1e-6)
    assert made[3:] == [3] * 3 and not dynacomp.stats()["frames_eager"] and not dynacomp.stats()["breaks"]


def gained(make, x):
    net = make()
    print(end="")
    return net.apply({}, x)


def test_a_class_attribute_of_modules_made_anew_counts():
    compiled = dynacomp.jit(gained, backend="xla")
    for _ in range(3):
        captures_of(compiled, Net, X)
    assert captures_of(compiled, Net, X) == 0
    for what in ("a class attribute", "a global", "an attribute", "an array's content"):
        CHANGES[what]()
        assert captures_of(compiled, Net, X) == 1


LABEL = "label"


@jax.tree_util.register_pytree_with_keys_class
class Labelled:
    def __init__(self, w):
        self.w = w

    def tree_flatten_with_keys(self):
        return ((LABEL, self.w),), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)

    def tree_flatten(self):
        return (self.w,), None


def doubled(net):
    return jax.jit(hk.transform(lambda net: jax.tree.map(lambda w: w * 2, net)).apply)({}, None, net).w


def by_name(net):
    return hk.transform(lambda net: jax.tree_util.tree_map_with_path(lambda at, w: w * len(at[0]), net)).apply(
        {}, None, net).w


@pytest.mark.parametrize(("fn", "captures"), [(doubled, 1), (by_name, 3)])
def test_names_that_are_for_messages_alone_are_not_guarded(fn, captures, monkeypatch):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="xla")
    for label in ("label", "label", "names", "lab", "lab", *["label"] * 5):
        monkeypatch.setitem(globals(), "LABEL", label)
        assert jnp.array_equal(compiled(Labelled(X)), fn(Labelled(X)))
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] == captures


GAIN = contextvars.ContextVar("gain", default=2.0)


@pytest.mark.parametrize("library", ["haiku", "flax"])
def test_context_variables_and_the_environment_count_at_each_call(library, monkeypatch):
    class Module(nn.Module):
        def __call__(self, x):
            return x * GAIN.get() + float(os.environ.get("SHIFT", "1")) + float(os.getenv("OTHER", "0"))

    def program(x):
        if library == "flax":
            return Module().apply({}, x) + 1
        return hk.without_apply_rng(hk.transform(Module.__call__)).apply({}, None, x) + 1

    def after_a_change(x):
        token = GAIN.set(5.0)
        try:
            return program(x)
        finally:
            GAIN.reset(token)

    dynacomp.reset()
    compiled, other = dynacomp.jit(program, backend="eager"), dynacomp.jit(after_a_change, backend="eager")
    assert all((compiled(X) == program(X)).all() for _ in range(3))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
    for name, value in (("SHIFT", "4"), ("OTHER", "5"), ("SHIFT", "6")):
        monkeypatch.setenv(name, value)
        assert (compiled(X) == program(X)).all()
    assert (compiled(X) == 2 + 6 + 5 + 1).all()
    token = GAIN.set(3.0)
    assert (compiled(X) == 3 + 6 + 5 + 1).all()
    GAIN.reset(token)
    assert all((other(X) == 5 + 6 + 5 + 1).all() for _ in range(3)) and GAIN.get() == 2.0


class Drawing(nn.Module):
    """A module of whatever `held` is, and what to do with it."""

    held: object
    use: object

    def __call__(self, x):
        return self.use(self.held, x)


class Counting:
    def __init__(self, i):
        self.rounds = iter([i, i + 1])

    def scaled(self, x):
        return x * next(self.rounds)


@pytest.mark.parametrize("make, use", [
    (lambda i: (v + i for v in range(3)), lambda held, x: x * next(held)),
    (lambda i: iter([i, 5]), lambda held, x: x * next(held)),
    (lambda i: zip([i], [2]), lambda held, x: x * next(held)[0]),
    (lambda i: types.SimpleNamespace(it=iter([i, 5])), lambda held, x: x * next(held.it)),
    (lambda i: Counting(i).scaled, lambda held, x: held(x)),
    (np.random.default_rng, lambda held, x: x * held.random()),
    (np.random.RandomState, lambda held, x: x * held.rand())])
def test_what_a_module_draws_from_is_drawn_from_once(make, use):
    """Wrong: a first call drew while it was captured, and again when it ran."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda module, x: module.apply({}, x + 1), backend="xla")
    for i in (1, 2, 3, 1, 4):
        assert (compiled(Drawing(make(i), use), X) == Drawing(make(i), use).apply({}, X + 1)).all()
    assert dynacomp.stats()["operations"] > 0


def test_what_functions_keep_as_attributes_counts():
    """Wrong: `f.gain` of a function that a module holds was the first call's."""
    def made(gain):
        def act(x):
            return x * act.gain

        act.gain = gain
        return act

    dynacomp.reset()
    compiled = dynacomp.jit(lambda module, x: module.apply({}, x), backend="xla")
    use = lambda held, x: held(x)
    for gain in (1, 2, 3, 1, 4, 2, 3):
        assert (compiled(Drawing(made(gain), use), X) == X * gain).all()
    act = made(1.0)
    for gain in (1, 2, 3, 1):
        act.gain = gain
        assert (compiled(Drawing(act, use), X) == X * gain).all()
