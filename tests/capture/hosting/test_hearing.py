"""What code that a library runs is seen to do: shown, logged, changed in place, asked of what stands for its values."""

import contextvars
import functools
import gc
import logging
import pprint
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.hosting.hearing import interrupted, names_arguments
from dynacomp.capture.symbolic.libraries import is_steady_module

eqx = pytest.importorskip("equinox")
nn = pytest.importorskip("flax.linen")
hk = pytest.importorskip("haiku")

X = jnp.ones((2, 3))


def test_what_the_library_runs_of_its_own_is_not_heard():
    class Holder:
        def __init__(self, value):
            self.value = value

    compiled = dynacomp.jit(lambda h, x: jax.nn.softmax(x) * h.value, backend="xla")
    graphs = dynacomp.stats()["graphs"]
    for _ in range(3):
        compiled(Holder(1.0), X)
    assert dynacomp.stats()["graphs"] == graphs + 1


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


def test_code_with_constants_that_have_no_hash_may_stand_on_the_stack():
    """As replacement code does, whose constants are the program's objects."""
    def asks():
        return "constant", interrupted(), names_arguments()

    constants = tuple([] if c == "constant" else c for c in asks.__code__.co_consts)
    asks.__code__ = asks.__code__.replace(co_consts=constants)
    with pytest.raises(TypeError, match="unhashable"):
        hash(asks.__code__)
    assert asks() == ([], False, False)


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


FIRST = """
import jax, jax.numpy as jnp, numpy as np, dynacomp
dynacomp.jit(lambda rows: jax.vmap(lambda row: jnp.array([x - 1 for x in row]))(rows), backend="eager")(np.ones((2, 3)))
print(dict(dynacomp.stats()["breaks"]))
"""


def test_jax_may_look_for_its_devices_while_the_first_call_of_a_process_is_captured():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
