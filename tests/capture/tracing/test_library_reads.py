"""Code that a library runs: what it reads from globals, closures and objects counts at each call, as in eager JAX."""

import contextvars
import functools
import gc
import logging
import os
import pprint
import sys
import textwrap
import types
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.symbolic.libraries import is_steady_module
from dynacomp.capture.tracing.library_reads import asks_for_class, interrupted, names_arguments

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


def test_what_the_library_runs_of_its_own_is_not_heard():
    class Holder:
        def __init__(self, value):
            self.value = value

    compiled = dynacomp.jit(lambda h, x: jax.nn.softmax(x) * h.value, backend="xla")
    graphs = dynacomp.stats()["graphs"]
    for _ in range(3):
        compiled(Holder(1.0), X)
    assert dynacomp.stats()["graphs"] == graphs + 1


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


def test_effects_happen_at_each_call(capsys):
    class Loud(nn.Module):
        def __call__(self, x):
            print("called")
            return x * 2

    jitted = dynacomp.jit(lambda x: Loud().apply({}, x) + 1, backend="xla")
    for _ in range(3):
        jitted(X)
    assert capsys.readouterr().out.count("called") == 3
    assert "effect" in dynacomp.stats()["breaks"]


@pytest.mark.parametrize("change", (
    lambda box, y: box.items.__setitem__(0, y), lambda box, y: box.items.append(y),
    lambda box, y: box.named.update(y=y), lambda box, y: setattr(box, "last", y), lambda box, y: box.items.clear()))
def test_what_is_changed_in_place_is_changed_at_each_call(change):
    def called(compile_it):
        def net(x):
            change(box, x + 1)
            return x * 2

        box = SimpleNamespace(items=[0], named={}, last=None)
        model = hk.transform(net)
        program = compile_it(lambda x: (model.apply({}, None, x), box.items, box.named, box.last))
        return repr([program(x) for x in (X, X * 2)])

    assert called(dynacomp.jit(backend="eager")) == called(lambda fn: fn)


def test_a_large_array_that_may_change_breaks():
    table = np.zeros(1 << 18)

    class Reads(nn.Module):
        def __call__(self, x):
            return x + table[0]

    jitted = dynacomp.jit(lambda x: Reads().apply({}, x), backend="xla")
    for value in (0.0, 5.0):
        table[0] = value
        assert jnp.allclose(jitted(X), X + value)


def test_promised_functions_are_not_looked_into():
    factor = [2.0]

    @dynacomp.allow_in_graph
    def scaled(x):
        return x * factor[0]

    jitted = dynacomp.jit(lambda x: scaled(x) + 1, backend="xla")
    assert jnp.allclose(jitted(X), 3)
    factor[0] = 9.0
    assert jnp.allclose(jitted(X), 3)


COLLECTED = 0


def note_collection():
    global COLLECTED
    COLLECTED += 1


def on_collection(phase, info):
    note_collection()


def test_garbage_collections_meanwhile_are_nothing_that_the_library_runs():
    class Collecting(nn.Module):
        def __call__(self, x):
            gc.collect()
            return x * 2

    net = Collecting()
    gc.callbacks.append(on_collection)
    try:
        before = COLLECTED
        dynacomp.reset()
        assert (dynacomp.jit(lambda x: net.apply({}, x), fullgraph=True, backend="eager")(X) == 2).all()
        assert COLLECTED > before and "COLLECTED" not in str(dynacomp.stats())
    finally:
        gc.callbacks.remove(on_collection)


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


def test_code_with_constants_that_have_no_hash_may_stand_on_the_stack():
    """As replacement code does, whose constants are the program's objects."""
    def asks():
        return "constant", interrupted(), names_arguments()

    constants = tuple([] if c == "constant" else c for c in asks.__code__.co_consts)
    asks.__code__ = asks.__code__.replace(co_consts=constants)
    with pytest.raises(TypeError, match="unhashable"):
        hash(asks.__code__)
    assert asks() == ([], False, False)


class Asking(nn.Module):
    """Modules may ask what they are given, as functions that a library calls may."""

    @nn.compact
    def __call__(self, x, rate):
        return x * 2 * rate if isinstance(rate, float) else x * rate


class HavingShape(nn.Module):
    def __call__(self, x, rate):
        return x * rate if hasattr(rate, "shape") else x - rate


class NamedType(nn.Module):
    def __call__(self, x, rate):
        return x * len(type(rate).__name__) + rate


@pytest.mark.parametrize("module", [Asking(), HavingShape(), NamedType()])
def test_a_changing_number_is_a_number_for_code_that_asks(module):
    """An array stood for it from the second number on, and a module was told so."""
    compiled = dynacomp.jit(lambda x, rate: module.apply({}, x, rate), backend="eager")
    for rate in (0.5, 1.5, 2.5, 3, jnp.float32(2), 4.5):
        np.testing.assert_array_equal(compiled(X, rate), module.apply({}, X, rate))


def test_a_changing_number_stays_an_input_where_nobody_asks():
    class Scaled(nn.Module):
        def __call__(self, x, rate):
            return x * rate if isinstance(x, tuple) else rate - x

    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, rate: Scaled().apply({}, x, rate), backend="eager")
    for rate in (0.5, 1.5, 2.5, 3.5, 4.5):
        np.testing.assert_array_equal(compiled(X, rate), rate - X)
    assert dynacomp.stats()["frames_captured"] == 2


def by_kind(value):
    match value:
        case int():
            return 1.0
        case float():
            return 2.0
        case _:
            return 3.0


@functools.singledispatch
def by_class(value):
    return 1.0


@by_class.register(float)
def _(value):
    return 2.0


ASKING = {  # what a number, and an array, is in eager JAX, where a tracer stands for it
    "text": lambda v, x: len(f"{v}") + len(str([v])) + len(format(v)),
    "text of an array": lambda v, x: len(f"{x}") + len(repr([x[0]])),
    "text by a library": lambda v, x: len(textwrap.dedent(pprint.pformat([v, x]))),
    "case": lambda v, x: by_kind(v),
    "singledispatch": lambda v, x: by_class(v),
    "class of a size": lambda v, x: {int: 2.0, float: 3.0}.get(type(x.shape[0]), 5.0) + len(type(v).__name__),
    "tracer": lambda v, x: 2.0 if isinstance(x, jax.core.Tracer) else 3.0,
}


@pytest.mark.parametrize("asks", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("library", ["haiku", "linen"])
def test_what_stands_for_a_value_is_not_shown_to_the_program(asks, library):
    class Module(nn.Module):
        @nn.compact
        def __call__(self, x, v):
            return nn.Dense(2)(x).sum() + asks(v, x)

    net = Module() if library == "linen" else hk.without_apply_rng(
        hk.transform(lambda x, v: hk.Linear(2)(x).sum() + asks(v, x)))
    params, compiled = net.init(jax.random.key(0), jnp.ones((3, 2)), 2), dynacomp.jit(lambda *a: net.apply(*a))
    for n, v in ((3, 2), (4, 3), (5, 4), (4, 2.5), (4, 1e-7), (6, 100)):
        x = jnp.arange(2.0 * n).reshape(n, 2)
        np.testing.assert_allclose(compiled(params, x, v), net.apply(params, x, v), rtol=1e-5)


def test_of_self_a_class_may_be_asked():
    def fn(self, n):
        return type(self).__name__, isinstance(n, int)

    def of_size(self, n):
        return type(n) is int

    assert not asks_for_class(fn.__code__) and asks_for_class(of_size.__code__)


def test_asking_in_words_of_its_own_costs_no_capture():
    class Module(nn.Module):
        @nn.compact
        def __call__(self, x):
            if x.ndim != 2:
                raise ValueError(f"{type(self).__name__} wants a matrix, not {x}")
            return nn.Dense(2)(x)

    net, before = Module(), dynacomp.stats()
    params, compiled = net.init(jax.random.key(0), jnp.ones((3, 2))), dynacomp.jit(lambda *a: net.apply(*a))
    for n in range(2, 9):
        assert compiled(params, jnp.ones((n, 2))).shape == (n, 2)
    after = dynacomp.stats()
    assert after["frames_captured"] - before["frames_captured"] <= 2 and after["breaks"] == before["breaks"]
    with pytest.raises(ValueError, match=r"Module wants a matrix, not \[1\. 1\. 1\.\]"):
        compiled(params, jnp.ones(3))


@pytest.mark.parametrize("module", ["bytecode", "bytecode.instr", "networkx.utils.decorators"])
def test_what_capture_itself_calls_is_not_the_programs(module):
    assert is_steady_module(module)  # else its functions, heard while a body was assembled, decide what a size may be


def test_what_is_logged_of_an_array_is_logged_once_at_each_size(caplog):
    """The call was traced again, unheard, to find which size it hangs on: the line was there three times more."""
    linen, log = pytest.importorskip("flax.linen"), logging.getLogger(__name__)

    class Watched(linen.Module):
        def __call__(self, x):
            log.info("mean %s of %d", x.mean(), x.shape[0])
            return x * 2

    def program(x):
        return Watched().apply({}, x).sum()

    dynacomp.reset()
    compiled, logged = dynacomp.jit(program, backend="eager"), []
    with caplog.at_level(logging.INFO, __name__):
        for n in range(2, 9):
            for called in (program, compiled):
                caplog.clear()
                called(jnp.arange(float(n)))
                logged.append([r.getMessage() for r in caplog.records if r.name == __name__])
    assert logged[::2] == logged[1::2] and all(map(len, logged))
    assert dynacomp.stats()["frames_captured"] <= 4


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


@pytest.mark.parametrize("library", ["haiku", "flax"])
def test_a_context_variable_is_set_at_each_call(library):
    def setting(x):
        GAIN.set(GAIN.get() + 1)
        return x * GAIN.get()

    class Module(nn.Module):
        def __call__(self, x):
            return setting(x)

    def program(x):
        return Module().apply({}, x) if library == "flax" else hk.without_apply_rng(hk.transform(setting)).apply({}, x)

    compiled = dynacomp.jit(program, backend="eager")
    assert contextvars.copy_context().run(lambda: [float(compiled(X)[0, 0]) for _ in range(5)]) == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("library", ["haiku", "flax"])
@pytest.mark.parametrize("asks", [
    lambda x: float(x.sum()), lambda x: bool(x.any()), lambda x: np.asarray(x).sum(),
    lambda x: [0, 1, 2][x[0].astype(int)], lambda x: x[x > 0].sum()])
def test_what_jax_will_not_say_of_a_tracer_is_not_caught(asks, library):
    def either(x):
        try:
            return x + asks(x)
        except Exception:
            return x - 100

    class Module(nn.Module):
        def __call__(self, x):
            return either(x)

    def program(x):
        return Module().apply({}, x) if library == "flax" else hk.without_apply_rng(hk.transform(either)).apply({}, x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(4):
        x = jnp.ones(3) + i / 10
        assert jnp.allclose(compiled(x), program(x))
    assert set(dynacomp.stats()["breaks"]) == {"tracer"}


@pytest.mark.parametrize("library", ["haiku", "flax"])
@pytest.mark.parametrize("given", ["array", "number", "size"])
def test_a_singledispatch_function_in_a_cell_takes_no_tracer_for_something_else(given, library):
    @functools.singledispatch
    def kind(value):
        return 1.0

    kind.register(int, lambda value: 2.0)
    kind.register(float, lambda value: 3.0)
    kind.register(jax.Array, lambda value: 4.0)

    class Module(nn.Module):
        def __call__(self, x, c):
            return x * kind({"array": x, "number": c, "size": x.shape[0]}[given])

    def program(x, c):
        if library == "flax":
            return Module().apply({}, x, c) + 1
        return hk.without_apply_rng(hk.transform(functools.partial(Module.__call__, None))).apply({}, x, c) + 1

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n, c in ((3, 1.5), (3, 2.5), (4, 2.5), (5, 2)):
        assert (compiled(jnp.ones(n), c) == program(jnp.ones(n), c)).all()
