"""NumPy arrays that the captured code makes, or finds in modules and objects: values, views, stores, identity."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import dynacomp
from dynacomp import counters
from dynacomp.driver.pipeline import INTERPRETER
from tests.capture.program_kit import check_one_graph

pytestmark = pytest.mark.medium
TABLE = np.arange(12.0).reshape(3, 4)
INDEX = np.array([2, 0, 1])
MASK = np.array([True, False, True])


class Holder:
    def __init__(self):
        self.steps = np.linspace(0, 1, 4)


HOLDER = Holder()

WHOLE = r"""
a = np.zeros((2, 3)); b = a[:, 1]; b += 1; return a, b
a = np.arange(6).reshape(2, 3); return a, a.T, a[::-1], a[:, ::2]
a = np.arange(6); b = a[::-1]; c = b[1:3]; c[0] = 99; return a, b, c
a = np.ones(3); b = a; b *= 2; return a is b, a, b, [a, a]
a = np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2).copy(order='K'); return a, a[1], np.asfortranarray(a)[1:]
return np.broadcast_to(np.arange(3), (2, 3)), np.lib.stride_tricks.sliding_window_view(np.arange(5), 3)
return x * np.arange(3.), np.arange(3.) * x, x @ np.eye(3), np.eye(3) @ x, x + TABLE.sum()
return x[np.array([2, 0])], x[np.array([True, False, True])], x[INDEX + 1 - 1], x[MASK], jnp.repeat(x, INDEX)
return TABLE[0] + 1, TABLE[1:, 2], TABLE.T, TABLE.reshape(4, 3), TABLE > 3, bool((TABLE > 3).all())
return [float(v) for v in HOLDER.steps], max(HOLDER.steps), HOLDER.steps[1:], HOLDER.steps is HOLDER.steps
a, b, c = INDEX; d, *e = np.arange(4); return a, b, c, d, e, len(TABLE), TABLE.shape, int(INDEX[0])
return np.where(MASK, 1, 2), np.concatenate([INDEX, INDEX]), np.vstack([INDEX, INDEX]), np.split(INDEX, 3)
return np.unique(np.array([1, 2, 2]), return_counts=True), np.linalg.inv(np.eye(2) * 2), np.add.outer(INDEX, INDEX)
a = np.zeros(3); np.add.at(a, [0, 0, 1], 1); np.copyto(a[1:], 4); np.add(a, 1, out=a); return a
a = np.array([3, 1, 2]); b = a.copy(); a.sort(); b.fill(7); a[a > 2] = 0; return a, b, a.argsort()
a = [np.zeros(2)]; a[0][1] = 3; a.append(a[0]); return a, {"k": a[0]}
a = np.zeros(3); o = Holder(); o.steps = a; a[0] = 3; return o.steps, a, copy.copy(a), copy.deepcopy([a])
for v in (a := np.arange(4)): a[3] = 50\nreturn v, a
a = np.zeros(3)\nfor i in range(50):\n    x = jnp.sin(x) + a[i % 3]; a[i % 3] += 0.125\nreturn a, x
a = np.zeros(3)\nif x.sum() > 0: y = x * 2\nelse: y = x * 3\na[0] = 1\nreturn a, y
return jax.grad(lambda v: (v * np.array([1., 2., 3.])).sum())(x), jax.vmap(lambda v: v * np.arange(2))(x)
return jax.tree.map(lambda v: v * 2, {"a": np.arange(3), "b": x}), jax.tree.leaves([np.arange(3), x])
return jnp.concatenate([x, np.arange(2.)]), jax.nn.one_hot(np.array([0, 2]), 3), x.reshape(np.array([3, 1]))
return jnp.concatenate([jnp.ones((1, 3)), np.zeros((0, 3))]), np.zeros((0, 3)), np.zeros((2, 0))
return 3 in INDEX, [1, 2, 3] + INDEX, -INDEX, ~INDEX, divmod(INDEX, 2), INDEX.tolist(), np.asarray(TABLE) is TABLE
a = np.zeros((2, 2), dtype=[("u", "f4"), ("v", "i4")]); a["u"] = 1; return a, np.array(["ab", "c"]) == "c"
a = np.zeros(4, np.complex64); a.real[1] = 1; a.imag[:] = 2; return a
return np.zeros(3)[5]
return np.zeros((2, 3)) @ np.zeros((2, 3))
return bool(np.zeros(3))
a = np.zeros(3, int); a += 1.5; return a
return np.zeros(3).nosuch
""".strip().split("\n")

BREAKING = r"""
TABLE[0, 0] = 1; return TABLE
HOLDER.steps += 1; return HOLDER.steps
b = TABLE[0]; b[1] = 4.0; return b
a = np.zeros(3)\nif x.sum() > 0: a[0] = 1\nelse: a[1] = 1\nreturn a
a = np.zeros(3)\ndef h(v): a[0] += 1; return (v * a).sum()\nreturn jax.grad(h)(x), a
a = np.zeros(3); a += x; return a
return np.arange(3) / 0
a = np.zeros(2, [("u", "f4"), ("v", "i4")]); one = a[0]; one["u"] = 5; return a
""".strip().split("\n")


def arrays(value):
    return [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, np.ndarray)]


def shown(value):
    """What a result is made of: types, layouts, contents, and which arrays are one or share memory."""
    leaves, tree = jax.tree.flatten(value)
    parts = [(type(v), v.dtype, v.shape, v.strides, v.flags.writeable, v.tobytes()) if type(v) is np.ndarray
             else (type(v), v.dtype, v.tolist()) if isinstance(v, (jax.Array, np.generic)) else v for v in leaves]
    found = arrays(value)
    shared = [(a is b, np.may_share_memory(a, b)) for a, b in itertools.combinations([*found, TABLE], 2)]
    return str(tree), parts, shared


def results(body, jit):
    """Of four calls: what comes out is written over after each, and what objects hold changes before the last."""
    env = {**globals(), "TABLE": TABLE.copy(), "INDEX": INDEX.copy(), "MASK": MASK.copy(), "HOLDER": Holder()}
    lines = body.replace("\\n", "\n").split("\n")
    exec("def f(x):\n" + "\n".join("    " + line for line in lines), env)
    fn, out = jit(env["f"]), []
    for turn in (0.0, 1.0, 2.0, 2.0):
        if turn == 2.0:
            env["INDEX"][0], env["HOLDER"].steps[1] = 1, 8
        try:
            found = fn(jnp.arange(3.0) + turn)
        except Exception as error:
            out.append((type(error), str(error)))
            continue
        out.append(shown(found))
        mine = [env["TABLE"], env["INDEX"], env["MASK"], env["HOLDER"].steps]
        for a in arrays(found):
            if a.flags.writeable and a.dtype.kind in "if" and not any(np.may_share_memory(a, m) for m in mine):
                a[...] = 77
    return out, env["TABLE"].tolist(), env["HOLDER"].steps.tolist()


@pytest.mark.parametrize("body", [*WHOLE, *BREAKING])
def test_as_in_plain_python(body):
    want = results(body, lambda f: f)
    counters.reset()
    assert results(body, lambda f: dynacomp.jit(f, backend=INTERPRETER)) == want
    stats = counters.stats()
    assert "internal" not in stats["frames_eager"]
    assert bool(stats["breaks"]) == (body in BREAKING)


def test_constants_with_the_same_bytes_are_two():
    def f(x):
        found = {"a": np.float32(0), "b": np.int32(0)}
        print(end="")
        return found, np.concatenate([INDEX, INDEX]), np.vstack([INDEX, INDEX]), x

    found, flat, rows, _ = dynacomp.jit(f, backend=INTERPRETER)(jnp.ones(1))
    assert type(found["a"]) is np.float32 and type(found["b"]) is np.int32
    assert flat.shape == (6,) and rows.shape == (2, 3)


def test_arrays_of_sizes_that_keep_changing_take_no_entry_each():
    @dynacomp.jit(backend=INTERPRETER)
    def f(x):
        return x * np.arange(x.shape[0])

    counters.reset()
    for n in range(2, 20):
        assert f(jnp.ones(n)).tolist() == list(range(n))
    assert not counters.stats()["frames_eager"] and not counters.stats()["breaks"]
    assert counters.stats()["frames_captured"] == 2


def test_data_in_attributes_breaks_in_the_end():
    @dynacomp.jit(backend=INTERPRETER)
    def f(batch):
        return jnp.sin(batch.steps / 2)

    counters.reset()
    for n in range(20):
        batch = Holder()
        batch.steps = np.full(3, n / 8)
        np.testing.assert_allclose(f(batch), np.sin(batch.steps / 2), rtol=1e-6)
    assert "limit" not in counters.stats()["frames_eager"]


def test_a_warning_is_given_as_often_as_in_plain_python():
    def f(x):
        return np.array([]).mean(), x * 2

    def said(fn):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(3):
                fn(jnp.ones(2))
        return [str(w.message) for w in found]

    assert said(dynacomp.jit(f, backend=INTERPRETER)) == said(f)


def test_methods_of_an_array_of_objects_see_its_content():
    made = np.array([1, 2, None], dtype=object)
    program = {
        "content": lambda x: x + made.tolist()[0],
        "another": lambda x: (made.reshape(1, 3).shape, x),
    }
    compiled = {k: dynacomp.jit(fn, backend="eager") for k, fn in program.items()}
    dynacomp.reset()
    for first in (1, 5):
        made[0] = first
        for name, fn in program.items():
            assert repr(compiled[name](jnp.ones(2))) == repr(fn(jnp.ones(2)))
    assert "internal" not in dynacomp.stats()["frames_eager"]


def test_how_an_array_is_copied_is_a_constant():
    """As SciPy's `xp.asarray` says it."""
    def f(x):
        return x * np.array([1.0, 2.0], copy=np._CopyMode.IF_NEEDED, dtype=np.float32)

    check_one_graph(f, (jnp.arange(2.0),), (jnp.ones(2),))


def test_ufuncs_of_other_libraries_are_computed_as_numpys_are():
    def program(x, n):
        ways = scipy.special.binom(np.arange(3)[None, :], np.arange(3)[:, None])
        return ways @ x[:3], x * scipy.special.gamma(np.arange(x.shape[0]) + 1.0) * scipy.special.gamma(n)

    compiled = dynacomp.jit(program)
    for i in range(3, 7):
        for one, other in zip(program(jnp.arange(i + 0.0), i + 0.5), compiled(jnp.arange(i + 0.0), i + 0.5)):
            assert one.dtype == other.dtype and jnp.allclose(one, other)
    assert not dynacomp.stats()["breaks"]


def test_a_ufunc_of_the_programs_is_not():
    seen = []
    doubled = np.frompyfunc(lambda a: (seen.append(a), a * 2)[1], 1, 1)
    compiled = dynacomp.jit(lambda x: x * doubled(np.arange(3)).astype(np.float32))
    for calls in (1, 2, 3):
        assert jnp.array_equal(compiled(jnp.ones(3)), jnp.array([0.0, 2, 4]))
        assert seen == [0, 1, 2] * calls
