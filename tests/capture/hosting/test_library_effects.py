"""Calls into pure libraries that do more than compute: contexts, configuration, registries, files, arguments."""

import builtins
import collections
import contextlib
import copy
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import ad_checkpoint, api_util
from jax._src import linear_util
from jax._src.core import call_p
from jax.extend.core import Primitive
from jax.interpreters import ad
from jax.sharding import PartitionSpec

import dynacomp
from dynacomp.capture.base.errors import Break
from dynacomp.capture.hosting.library_effects import Given
from dynacomp.capture.hosting.outside import MAX_KEPT, Outside
from dynacomp.capture.symbolic.libraries import has_effect

X = jnp.arange(4.0)
MESH = jax.sharding.Mesh(jax.devices()[:1], "d")


def x64(x):
    with jax.enable_x64(True):
        wide = jnp.arange(3) * np.float64(2)
    return wide, jnp.arange(3), jax.config.jax_enable_x64


def x64_that_fails(x):
    try:
        with jax.enable_x64(True):
            jnp.zeros(3) + jnp.zeros(4)
    except TypeError:
        return jnp.arange(2), jax.config.jax_enable_x64


def x64_in_a_loop(x):
    return [_arange(i % 2 == 0) for i in range(3)], jnp.arange(2)


def _arange(wide):
    with jax.enable_x64(wide), jax.named_scope("inner"):
        return jnp.arange(2) * 3


def random_bits(x):
    with jax.threefry_partitionable(not jax.config.jax_threefry_partitionable):
        inside = jax.random.normal(jax.random.PRNGKey(0), (3,))
    return inside, jax.random.normal(jax.random.PRNGKey(0), (3,))


def mesh(x):
    with MESH:
        return jax.lax.with_sharding_constraint(x + 1, PartitionSpec(None))


def mesh_that_fails(x):
    try:
        with MESH:
            jax.lax.with_sharding_constraint(x + 1, PartitionSpec("no axis"))
    except ValueError:
        return x * 2


def set_mesh(x):
    with jax.set_mesh(MESH):
        inside = jax.sharding.get_abstract_mesh().empty
    return x + 1, inside, jax.sharding.get_abstract_mesh().empty


def by_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(True))
        wide = jnp.arange(2)
    return wide, jnp.arange(2)


def by_hand(x):
    context = jax.enable_x64(True)
    context.__enter__()
    wide = jnp.arange(2)
    context.__exit__(None, None, None)
    return wide, jnp.arange(2)


def by_update(x):
    jax.config.update("jax_enable_x64", True)
    wide = jnp.arange(2)
    jax.config.update("jax_enable_x64", False)
    return wide, jnp.arange(2), jax.config.jax_enable_x64


CONTEXTS = [x64, x64_that_fails, x64_in_a_loop, random_bits, mesh, mesh_that_fails, set_mesh, by_a_stack, by_hand,
            by_update]


@pytest.mark.parametrize("program", CONTEXTS)
def test_contexts_are_those_in_which_the_code_runs(program):
    compiled, want = dynacomp.jit(program, backend="eager"), program(X)
    for _ in range(3):
        got = compiled(X)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            assert getattr(g, "dtype", None) == getattr(w, "dtype", None) and jnp.array_equal(g, w)


def test_files_are_read_at_each_call(tmp_path):
    read = dynacomp.jit(lambda path, x: jnp.load(path) + x, backend="eager")
    for n in range(3):
        np.save(tmp_path / "a.npy", np.full(4, n, np.float32))
        assert jnp.array_equal(read(str(tmp_path / "a.npy"), X), X + n)


def changing(items, table, x):
    items.append(x.sum())
    table["total"] = items[-1] + 1
    return table["total"] * 2


library = types.FunctionType(changing.__code__, {"__name__": "optax.of_a_test", "__builtins__": builtins})


def test_what_a_library_changes_in_place_is_the_programs_own():
    def program(x):
        items, table = [x], {"n": 1}
        return library(items, table, x), items, table

    want, got = program(X), dynacomp.jit(program, backend="eager")(X)
    assert repr(got) == repr(want) and len(got[1]) == 2


def test_which_functions_have_effects():
    assert all(map(has_effect, (jax.config.update, jax.set_mesh, jnp.load, jax.tree_util.register_pytree_node)))
    assert not any(map(has_effect, (jnp.sin, jax.config.read, jax.enable_x64, jax.jit)))


class Slotted:
    __slots__ = ("kept", "empty", "__dict__")

    def __init__(self):
        self.kept = collections.deque([1])


def test_what_a_call_does_to_its_arguments_is_put_back():
    inner, obj = [1], Slotted()
    tree = {"a": inner, "b": (inner, obj)}
    given = Given((), tree)
    assert not given.restore()
    inner.append(3)
    obj.kept.append(2)
    obj.kept, obj.empty = None, 5
    assert given.restore()
    assert inner == [1] and list(obj.kept) == [1] and not hasattr(obj, "empty") and not given.restore()


def test_what_an_object_notes_of_itself_is_no_change_unless_it_is_traced():
    obj, seen = Slotted(), []
    obj.name = "it"
    given = Given((), obj)
    obj.cached = 3
    assert not given.restore() and obj.cached == 3
    jax.make_jaxpr(lambda x: seen.append(x))(X)
    obj.leaked = seen[0]
    assert given.restore() and not hasattr(obj, "leaked")
    obj.name = "other"
    assert given.restore() and obj.name == "it"


def sequence_of_keys(seq):
    return next(seq), seq.take(2)


def test_an_object_of_a_library_is_not_changed_by_tracing():
    """Haiku's sequence takes keys from a deque: traced, it kept tracers."""
    hk = pytest.importorskip("haiku")
    plain, other = (hk.PRNGSequence(jax.random.PRNGKey(1)) for _ in range(2))
    dynacomp.reset()
    compiled = dynacomp.jit(sequence_of_keys)
    for _ in range(3):
        assert repr(compiled(other)) == repr(sequence_of_keys(plain))
    told = dynacomp.stats()
    assert told["frames_captured"] <= 2 and not told["breaks"] and not told["frames_eager"], told


def test_what_was_changed_in_place_is_put_back():
    made = [collections.OrderedDict(a=1), {"a": [2]}, [3], {4}, collections.deque([5], maxlen=1),
            types.SimpleNamespace()]
    want, outside = copy.deepcopy(made), Outside()
    outside.keep([made], ())
    assert not outside.restore()
    made[0].move_to_end("a", last=False)
    made[0].update(b=0)
    made[1]["a"].append(0)
    made[2].clear()
    made[3].add(0)
    made[4].append(0)
    made.pop().new = 1
    made[3:3] = [0]
    assert outside.restore() and made == want and not outside.restore()


def test_what_is_too_much_to_watch_is_refused():
    many = [[i] for i in range(MAX_KEPT + 1)]
    with pytest.raises(Break, match="more than"):
        Outside().keep([many], ())


def test_a_list_that_holds_itself_can_be_watched():
    knot = [1]
    knot.append(knot)
    given = Given(knot)
    knot.append(2)
    assert given.restore() and len(knot) == 2 and knot[1] is knot


def twice(x):
    def double(x):
        seen.append(1)
        return np.multiply(x, 2)

    seen = []
    doubled = Primitive("doubled")
    doubled.def_impl(double)
    doubled.def_abstract_eval(lambda x: x)
    ad.deflinear2(doubled, lambda slope, x: [2 * slope])
    return doubled.bind(x), jax.grad(lambda x: jnp.sum(doubled.bind(x)))(x), len(seen)


def evaluated_elsewhere(x):
    usual, seen = jax.lax.sin_p.impl, []
    jax.lax.sin_p.def_impl(lambda x, **options: seen.append(1) or usual(x, **options))
    try:
        return jax.lax.sin_p.bind(x, accuracy=None), len(seen)
    finally:
        jax.lax.sin_p.def_impl(usual)


def test_primitives_are_evaluated_by_what_the_program_says():
    dynacomp.reset()
    for program in (twice, evaluated_elsewhere):
        want = program(X)
        for _ in range(2):
            assert repr(dynacomp.jit(program, backend="eager")(X)) == repr(want)
    assert dynacomp.stats()["frames_eager"].keys() <= {"traced"}


def test_callables_without_a_name_change_nothing():
    class Nameless:
        __name__ = None

    assert not has_effect(Nameless())


TRACED = []


def test_what_a_jitted_function_did_while_traced_happens_when_python_calls_it():
    """JAX had kept the trace that was put back: the effect was lost."""
    eqx = pytest.importorskip("equinox")

    @eqx.filter_jit
    def jitted(x):
        TRACED.append(x.shape)
        return x * 2

    def program(x):
        return jitted(x) + 1

    dynacomp.reset()
    TRACED.clear()
    compiled = dynacomp.jit(program)
    for n in (2, 2, 3, 3, 4):
        np.testing.assert_array_equal(compiled(jnp.ones(n)), np.full(n, 3.0))
    assert TRACED == [(2,), (3,), (4,)] and dynacomp.stats()["frames_captured"] <= 4


@pytest.mark.parametrize("after", [dynacomp.graph_break, jax.effects_barrier], ids=["break", "barrier"])
def test_what_prints_before_a_break_prints(after, capfd):
    """It is all that the region has to do: nothing of what it computes is asked for."""
    def f(x):
        jax.vmap(lambda v: jax.debug.print("at {}", v))(x)
        after()
        return x

    dynacomp.reset()
    compiled = dynacomp.jit(f)
    for n in range(2, 5):
        compiled(jnp.arange(n))
        jax.effects_barrier()
        assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [f"at {i}" for i in range(n)]
    assert dynacomp.stats()["graphs"] and dynacomp.stats()["breaks"]


def residuals(w, x):
    ad_checkpoint.print_saved_residuals(lambda w, x: jnp.sin(w @ jnp.sin(x)), w, x)
    return w @ x


def test_residuals_are_printed_at_each_call(capsys):
    dynacomp.reset()
    compiled = dynacomp.jit(residuals)
    for n in range(3):
        args = jnp.ones((n + 2, n + 2)), jnp.ones(n + 2)
        want, out = residuals(*args), capsys.readouterr().out
        np.testing.assert_allclose(compiled(*args), want)
        assert capsys.readouterr().out == out and "sin" in out
    assert dynacomp.stats()["graphs"] and set(dynacomp.stats()["breaks"]) == {"effect"}


class Model(eqx.Module):
    w: jax.Array
    n: int


@pytest.mark.parametrize("how", [{}, {"short_arrays": False}, {"width": 10}], ids=str)
def test_what_a_librarys_function_prints_is_printed_at_each_call(capsys, how):
    def shown(x):
        model = Model(x * 2, 3)
        eqx.tree_pprint(model, **how)
        return model.w + 1

    dynacomp.reset()
    compiled = dynacomp.jit(shown, backend="eager")
    for n in range(1, 5):
        x = jnp.arange(n) * 1.5
        want, out = shown(x), capsys.readouterr().out
        np.testing.assert_array_equal(compiled(x), want)
        assert capsys.readouterr().out == out and "Model" in out
    assert set(dynacomp.stats()["breaks"]) == {"effect"} and dynacomp.stats()["frames_captured"] <= 4


def test_what_was_noted_is_put_back_with_the_rest():
    memo, names = {"old": 1}, ["first"]
    given = Given((), [memo, names], notes=True)
    memo["new"] = 2
    assert not given.restore() and memo == {"old": 1, "new": 2}
    names.append("second")
    assert given.restore() and memo == {"old": 1} and names == ["first"]
    jax.make_jaxpr(lambda x: memo.update(new={"w": [x]}))(1.0)
    assert given.restore() and memo == {"old": 1}


def by_call_primitive(x, factor):
    """As JAX's transformations are written: what a function gave is noted while it is called."""
    (x,), tree = jax.tree.flatten((x,))
    info = api_util.debug_info("by_call_primitive", jnp.sin, (x,), {})
    wrapped = linear_util.wrap_init(lambda y: {"a": jnp.sin(y) * 2}, debug_info=info)
    fn, out_tree = api_util.flatten_fun_nokwargs(wrapped, tree)
    out = call_p.bind(x, subfuns=(fn,))
    return jax.tree.unflatten(out_tree(), out)["a"] + factor


@pytest.mark.skipif(jax.__version_info__ >= (0, 11, 1), reason="call_p takes a jaxpr there")
def test_functions_that_note_what_they_gave_are_called_in_python():
    compiled, before = dynacomp.jit(by_call_primitive), dynacomp.stats()["graphs"]
    for n in range(10):
        np.testing.assert_allclose(compiled(X + n, n), by_call_primitive(X + n, n), rtol=1e-6)
    assert dynacomp.stats()["graphs"] > before and "internal" not in dynacomp.stats()["frames_eager"]


def test_what_a_library_may_print_in_a_branch_breaks_nothing():
    """`eqx.error_if` prints where its errors open a debugger: each was a graph break."""
    def checked(x):
        return eqx.error_if(x * 2, x.sum() < 0, "negative") + 1

    dynacomp.reset()
    compiled = dynacomp.jit(checked, backend="eager")
    for n in range(1, 5):
        np.testing.assert_array_equal(compiled(jnp.ones(n)), checked(jnp.ones(n)))
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] <= 3
