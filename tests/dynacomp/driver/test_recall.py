"""dynacomp.driver.recall: what another process compiled is loaded, only where it is exactly that, and whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen import compiler
from dynacomp.driver import pipeline, recall
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.options import resolve
from dynacomp.passes import DEFAULT

X = jnp.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache that is filled by the tests in order: each compiles little."""
    return tmp_path_factory.mktemp("cache")


def program():
    table = np.array([1.0, 2.0, 4.0], np.float32)
    return lambda x, y: jax.nn.softmax(jnp.sin(x) * table + y.sum())


def run(folder, fn=None, *args, **options):
    """The result of a first call, as a new process would make it but for what is imported; the stages that it took."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn or program(), options={"cache_dir": folder, "verify": False, **options})
    args = args or (X, X[0])
    np.testing.assert_allclose(compiled(*args), (fn or program())(*args), rtol=1e-5)
    assert dynacomp.stats()["regions"] == {"cpp": 1} and dynacomp.stats()["externs"] == {}
    return set(dynacomp.stats()["compile_seconds"])


def test_the_second_time_nothing_is_planned_or_written(folder, monkeypatch):
    assert "schedule" in run(folder)
    monkeypatch.setattr(compiler, "find", None)
    assert not {"schedule", "codegen cpp", *DEFAULT.names} & run(folder)
    kernels = dynacomp.stats()["kernels"]
    assert kernels and kernels["cpp"] >= 1


def test_other_sizes_too(folder):
    compiled = dynacomp.jit(program(), options={"cache_dir": folder, "verify": False})
    for attempt in range(2):
        dynacomp.reset()
        for n in (2, 5, 7, 3):
            x = jnp.ones((n, 3)) * n
            np.testing.assert_allclose(compiled(x, x[0]), program()(x, x[0]), rtol=1e-5)
        assert dynacomp.stats()["graphs"] == 2 and ("schedule" in dynacomp.stats()["compile_seconds"]) <= (attempt == 0)


@pytest.mark.parametrize("other", [
    lambda x, y: jax.nn.softmax(jnp.sin(x) * np.array([1.0, 2.0, 5.0], np.float32) + y.sum()),
    lambda x, y: jax.nn.softmax(jnp.cos(x) * np.array([1.0, 2.0, 4.0], np.float32) + y.sum()),
    lambda x, y: jax.nn.softmax(jnp.sin(x) * np.array([1.0, 2.0, 4.0], np.float32) + y.sum(), axis=0),
])
def test_what_differs_a_little_is_something_else(folder, other):
    run(folder)
    assert "schedule" in run(folder, other)


def test_exact_numerics_are_kept_apart(folder):
    run(folder)
    assert "schedule" in run(folder, numerics="exact")
    assert "schedule" not in run(folder, numerics="exact")


def test_the_bits_of_a_nan_count():
    def key(bits):
        nan = np.array([bits], np.uint32).view(np.float32)[0]
        return recall.key_of(lower_function(lambda x: jnp.where(x > 0, x, nan), X), resolve(options={"verify": False}))

    assert key(0x7fc00000) == key(0x7fc00000) != key(0x7fc00001)


def test_constants_inside_a_loop_count():
    def key(table):
        step = lambda c, x: (c + jnp.asarray(table) * x, c.sum())
        return recall.key_of(lower_function(lambda c, xs: jax.lax.scan(step, c, xs), X[0], X),
                             resolve(options={"verify": False}))

    one = np.array([1.0, 2.0, 3.0], np.float32)
    assert key(one) == key(one.copy()) != key(one + 1)


@pytest.mark.parametrize("options", [{"verify": True}, {"recall": False}, {"passes": DEFAULT.remove("simplify")}])
def test_who_looks_at_the_steps_sees_them(folder, options):
    run(folder)
    assert "schedule" in run(folder, **options)


def test_explain_shows_the_schedule(folder):
    run(folder)
    region, = dynacomp.explain(program(), options={"cache_dir": folder, "verify": False})(X, X[0]).regions
    assert region.schedule is not None and region.schedule.steps


@pytest.mark.parametrize("damage", ["truncated", "garbled", "empty", "others"])
def test_a_damaged_record_is_as_if_it_were_not_there(tmp_path, damage):
    run(tmp_path)
    for file in tmp_path.glob("*.record"):
        content = file.read_bytes()
        file.write_bytes({"truncated": content[:40], "garbled": b"x" + content[1:], "empty": b""}.get(damage, content))
        file.chmod(0o622 if damage == "others" else 0o600)
    assert "schedule" in run(tmp_path)
    assert "schedule" not in run(tmp_path)


def test_a_record_without_its_library_is_made_anew(tmp_path):
    run(tmp_path)
    for file in tmp_path.glob("*.so"):
        file.unlink()
    assert "schedule" in run(tmp_path)


def test_without_a_compiler_it_serves_what_it_holds(folder, monkeypatch):
    run(folder)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "schedule" not in run(folder)


def test_another_compiler_makes_it_anew(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr("dynacomp.codegen.cpp.recall.compilers", lambda cxx: ("another",))
    assert "schedule" in run(tmp_path)


def test_parts_for_xla_have_no_key(folder, monkeypatch):
    seen = []
    key_of = recall.key_of
    monkeypatch.setattr(pipeline.recall, "key_of", lambda *args: seen.append(key_of(*args)) or seen[-1])
    dynacomp.reset()
    a = jnp.eye(3) * 2
    dynacomp.jit(lambda a: jax.lax.linalg.hessenberg(a)[0] + 1, options={"cache_dir": folder, "verify": False})(a)
    assert dynacomp.stats()["externs"] and seen == [None]


def test_an_operation_with_a_primitive_as_argument(folder):
    """The derivative of a maximum over windows says by which comparison it gathers."""
    def grad(x, y):
        pooled = lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2), (1, 1), "VALID")
        return jax.jvp(pooled, (x,), (y,))[1]

    run(folder, grad, X, X * 2)
    assert "schedule" not in run(folder, grad, X, X * 2)
