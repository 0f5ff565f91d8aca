"""Equinox's modules that captured code makes: converted, checked and frozen as their metaclass has it."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp

compiled = dynacomp.jit(backend="eager")


class Converted(eqx.Module):
    a: jax.Array = eqx.field(converter=jnp.asarray)
    b: int = 3


class Checked(eqx.Module):
    n: int
    log: list

    def __check_init__(self):
        self.log.append(self.n)
        if self.n < 0:
            raise ValueError("negative")


class Uninitialized(Checked):
    m: int

    def __init__(self, n):
        self.n, self.log = n, []


class Static(eqx.Module):
    held: object = eqx.field(static=True)


class HoldsMethod(eqx.Module):
    f: object

    def __init__(self):
        self.f = self.g

    def g(self):
        return 1


def same(f, *args, breaks=()):
    """What compiled and plain Python give, exceptions and warnings included; the graph breaks for `breaks` alone."""
    dynacomp.reset()
    found = []
    for run in (f, compiled(f)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                result = run(*args)
            except Exception as error:
                result = error
        found.append((repr(result), [str(w.message) for w in said]))
    assert found[0] == found[1]
    stats = dynacomp.stats()
    assert set(stats["breaks"]) == set(breaks) and not set(stats["frames_eager"]) - {"raises"}, stats
    return result


def test_fields_are_converted():
    assert isinstance(same(lambda: Converted([1.0, 2.0]).a), jax.Array)


def test_init_of_ones_own_is_followed_by_conversion():
    class Own(eqx.Module):
        w: jax.Array = eqx.field(converter=jnp.asarray)

        def __init__(self, x):
            self.w = [x, x]

    assert same(lambda x: Own(x).w, 2.0).shape == (2,)


def test_check_init_runs():
    log: list = []
    compiled(lambda: Checked(1, log))()
    assert log == [1]
    assert isinstance(same(lambda: Checked(-1, [])), ValueError)


def test_fields_that_were_not_set():
    assert "was not initialized" in str(same(Uninitialized, 1, breaks=["raises"]))


def test_modules_are_frozen():
    def change(x):
        made = Checked(1, [])
        made.n = x

    assert isinstance(same(change, 2, breaks=["store"]), AttributeError)


@pytest.mark.parametrize("held", (3, (1, [jnp.ones(2)])))
def test_warning_of_arrays_in_static_fields(held):
    same(lambda: Static(held), breaks=["effect"] * (held != 3))


def test_warning_of_numbers_that_init_does_not_take():
    class Late(eqx.Module):
        x: jax.Array = eqx.field(init=False)

        def __post_init__(self):
            self.x = jnp.ones(2)

    same(lambda: Late().x, breaks=["effect"])


def test_a_module_may_not_hold_its_own_method():
    assert isinstance(same(HoldsMethod, breaks=["store"]), ValueError)


def test_methods_that_leave_are_trees():
    def bound(x):
        made = Converted(x)
        return made.__repr__, Bound(x).double

    class Bound(eqx.Module):
        w: jax.Array

        def double(self):
            return self.w * 2

    x = jnp.ones(3)
    assert list(map(type, compiled(bound)(x))) == list(map(type, bound(x)))
    assert len(jax.tree.leaves(compiled(bound)(x)[1])) == 1


def test_abstract_modules():
    class Abstract(eqx.Module):
        x: eqx.AbstractVar[int]

    assert isinstance(same(Abstract, breaks=["raises"]), TypeError)


class Scaled(eqx.Module):
    w: jax.Array

    def times(self, x):
        return self.w * x


def test_bound_methods_are_trees_and_compare_as_trees():
    def program(x, module):
        doubled = jax.tree.map(lambda w: 2 * w, module.times)
        return doubled(x), jax.tree.leaves(module.times), module.times == Scaled(x).times, jax.vmap(module.times)(x)

    x, module = jnp.arange(3.0), Scaled(jnp.array(2.0))
    want = program(x, module)
    assert repr(compiled(program)(x, module)) == repr(want) and want[1] and want[2] is False


class Tells(eqx.Module):
    w: jax.Array
    b: jax.Array

    def __init__(self, x):
        self.w = jnp.sin(x)
        print("made")
        self.b = self.w * 2
        self.w = self.w + self.b


def test_a_module_made_behind_a_graph_break_may_be_filled(capsys):
    dynacomp.reset()
    f = dynacomp.jit(lambda x: Tells(x), backend="eager")
    for n in range(4):
        x = jnp.arange(3.0) + n
        assert eqx.tree_equal(f(x), Tells(x), rtol=1e-6)
    stats = dynacomp.stats()
    assert (stats["breaks"], stats["frames_captured"]) == ({"effect": 2}, 4)
    made = Tells(jnp.ones(3))
    with pytest.raises(AttributeError, match="cannot assign"):  # it is frozen by now
        dynacomp.jit(Tells.__init__, backend="eager")(made, jnp.ones(3))


def test_a_function_that_a_library_has_made_does_not_leave_its_transformation_as_a_stand_in():
    """`filter_closure_convert` keeps the function or its jaxpr: what stood for it was called after a break."""
    def program(x):
        def make(m):
            return eqx.filter_closure_convert(lambda v: m @ v, m[0]), m

        (apply, m), _ = eqx.filter_jvp(make, (x,), (x,))
        print(end="")
        return apply(m[0])

    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 3, 4, 5):
        x = jnp.ones((n, n))
        assert jnp.array_equal(compiled(x), program(x))


@eqx.filter_jit
def averaged(x, scale=2):
    n = len(x)
    return {"mean": x.sum() * scale / n, "size": int(x.shape[0]) * scale, "rows": [x * i for i in range(scale)]}


class Steps(eqx.Module):
    ends: jax.Array

    @eqx.filter_jit
    def __call__(self, x):
        return jnp.searchsorted(self.ends, x) * int(self.ends.shape[0])

    @eqx.filter_jit
    def halved(self, x, scale=2):
        return x[: int(x.shape[0]) // scale] * len(self.ends)


@pytest.mark.parametrize("program", [
    lambda x: (Steps(x * 2)(x), Steps(x).halved(x), Steps(x).halved(x, scale=3)),
    averaged, lambda x: averaged(x, 3), lambda x: eqx.filter_jit(lambda y: y / len(y))(x),
    lambda x: eqx.filter_value_and_grad(lambda m: m(x).sum() / len(x))(eqx.nn.Lambda(lambda y: y * len(y))),
    lambda x: eqx.nn.Lambda(lambda y: y[: int(y.shape[0]) // 2] * len(y))(x)])
def test_lengths_that_change_in_functions_that_modules_keep(program):
    """`eqx.filter_jit(f)` keeps `f` beside its leaves: where it asks for its array's length it is captured."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (4, 5, 6, 7, 9):
        x = jnp.arange(n) + 1.0
        want, got = program(x), compiled(x)
        for a, b in zip(jax.tree.leaves(eqx.filter(want, eqx.is_array_like)),
                        jax.tree.leaves(eqx.filter(got, eqx.is_array_like)), strict=True):
            assert type(a) is type(b) and jnp.allclose(a, b, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


class Warm(eqx.Module):
    """A model with a number beside its arrays, as a temperature is."""

    w: jax.Array
    heat: float

    def __call__(self, x):
        return jnp.tanh(self.w * x) * self.heat


def squares(m, x):
    return jnp.sum(m(x) ** 2)


@eqx.filter_grad(has_aux=True)
def slope(m, x):
    return squares(m, x), {"heat": m.heat, "x": x}


@pytest.mark.parametrize("program", [
    lambda m, x: eqx.filter_value_and_grad(squares)(m, x),
    lambda m, x: eqx.apply_updates(m, eqx.filter_grad(lambda n, y: squares(n, y) * n.heat)(m, x)),
    lambda m, x: slope(m, x)])
def test_numbers_that_change_in_modules_that_are_differentiated(program):
    """Equinox hands them past the derivative: its wrappers are entered, made by the call or given to it."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(5):
        args = Warm(jnp.arange(3.0) + n, 0.5 * n + 1), jnp.ones(3)
        want, got = jax.tree.flatten(program(*args)), jax.tree.flatten(compiled(*args))
        assert got[1] == want[1] and [type(x) for x in got[0]] == [type(x) for x in want[0]]
        assert all(jnp.allclose(a, b, rtol=1e-5) for a, b in zip(got[0], want[0]))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


def test_wrappers_have_the_names_of_what_they_wrap():
    """`module_update_wrapper` fills a module that is not being made: later stores are refused."""
    def program(m, x):
        def loss(n, y):
            """What is to be small."""
            return squares(n, y) * n.heat
        wrapped = eqx.filter_value_and_grad(loss)
        value, _ = wrapped(m, x)
        try:
            wrapped.__name__ = "other"
        except AttributeError as error:
            return value, wrapped.__name__, wrapped.__doc__, str(error)

    for n in (1.0, 2.0, 3.0):
        args = Warm(jnp.arange(3.0), n), jnp.ones(3)
        assert repr(compiled(program)(*args)) == repr(program(*args))


class Marking(type(eqx.Module)):
    """A metaclass of the program's that marks each module after Equinox has made it."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        MADE.append(cls.__name__)
        object.__setattr__(made, "is_ready", True)
        return made


MADE = []


class Marked(eqx.Module, metaclass=Marking):
    factor: float

    def __check_init__(self):
        MADE.append(self.factor)


class MarkedByItself(eqx.Module, metaclass=Marking):
    factor: jax.Array
    count: int = eqx.field(static=True)

    def __init__(self, factor):
        self.factor = factor * 2
        self.count = 3


@pytest.mark.parametrize("cls", [Marked, MarkedByItself])
def test_a_metaclass_of_the_program_makes_a_new_module_in_each_call(cls):
    def program(x, factor):
        made = cls(factor)
        return x * made.factor, made, vars(made)

    def calls(fn):
        MADE.clear()
        found = [fn(jnp.arange(3.0) + i, factor) for i, factor in enumerate((2.0, 2.0, 2.0, 3.0, 4.0))]
        assert len({id(made) for _, made, _ in found}) == len(found)
        return repr(found), list(MADE)

    want = calls(program)
    dynacomp.reset()
    assert calls(compiled(program)) == want
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"]
    assert stats["frames_captured"] <= 2
