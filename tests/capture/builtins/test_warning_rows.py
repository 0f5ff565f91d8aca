"""Warnings are given where Python gives them, once and in order; changed filters break nothing."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax._src import test_warning_util

import dynacomp
from dynacomp.capture.builtins import warning_rows


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


class Held:
    def __init__(self, v):
        self.v = v

    @property
    def value(self):
        warnings.warn("use .v", DeprecationWarning, stacklevel=2)
        return self.v


def warned(held, x):
    y = x * held.value
    if x.shape[0] > 2:
        warnings.warn("long", stacklevel=1)
    return y + held.value


def differentiated(held, x):
    return jax.grad(lambda v: (Held(v).value ** 2).sum() * held.value)(x)


def deprecated(held, x):
    warnings.warn("about my caller", stacklevel=2)
    helper()
    return x + 1


def helper():
    warnings.warn("about my caller's caller", FutureWarning, stacklevel=3)


def heard(fn, action, monkeypatch):
    """The warnings that two calls give, and where."""
    globals()["__warningregistry__"], said = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **_: said.append((str(args[0]), *args[1:4])))
        monkeypatch.setattr(warning_rows, "WAYS", {name: getattr(warnings, name) for name in warning_rows.WAYS})
        for _ in range(2):
            fn(Held(2.0), jnp.ones(3))
    return said


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
@pytest.mark.parametrize("fn", [warned, differentiated, deprecated])
def test_warnings_are_given_where_python_gives_them(fn, action, monkeypatch):
    want = heard(fn, action, monkeypatch)
    got = heard(dynacomp.jit(fn, backend="eager"), action, monkeypatch)
    assert got == want
    assert bool(got) == (action != "ignore")
    assert dynacomp.stats()["breaks"] == {}


def test_warnings_that_are_recorded_or_raised_are_pythons():
    def recorded(held, x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = x * held.value
        return y, len(found)

    assert dynacomp.jit(recorded, backend="eager")(Held(2.0), jnp.ones(3))[1] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            dynacomp.jit(warned, backend="eager")(Held(2.0), jnp.ones(3))


def caught(held, x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="use", category=DeprecationWarning)
        return x * held.value


def raised(held, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return held.value
        except DeprecationWarning as error:
            return x * len(str(error))


def recorded(held, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for n in (1, 1, 2):
            warnings.warn(f"number {n}", stacklevel=1)
            warnings.warn(FutureWarning("soon"), stacklevel=1)
            x = x * held.value
    return x, [(str(w.message), w.category, w.lineno, w.filename) for w in seen]


def decorated(held, x):
    return jax.grad(lambda v: caught(held, v).sum())(x)


@pytest.mark.parametrize("fn", [caught, raised, recorded, decorated])
def test_filters_that_change_around_code(fn):
    kept = warnings.filters, list(warnings.filters)
    want = fn(Held(2.0), jnp.ones(3))
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        assert str(compiled(Held(2.0), jnp.ones(3))) == str(want)
        assert warnings.filters is kept[0] and warnings.filters == kept[1]
    assert dynacomp.stats()["breaks"] == {}


def test_what_a_library_warns_of():
    def recorded(x, action):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter(action)
            return x + jnp.zeros(3, jnp.float64), len(seen)

    for action in ("ignore", "always"):
        compiled = dynacomp.jit(recorded)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is said but to the list
            assert [compiled(jnp.ones(3), action)[1] for _ in range(2)] == [action == "always"] * 2


def test_filters_stay_changed():
    def quiet(x):
        warnings.simplefilter("ignore")
        warnings.warn("unheard", stacklevel=1)
        return x + 1

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        dynacomp.jit(quiet, backend="eager")(jnp.ones(3))
        assert warnings.filters[0][0] == "ignore"
        warnings.warn("unheard", stacklevel=1)
    assert not seen


def test_modules_without_a_loader(monkeypatch):
    """A script has no `__spec__`, of which Python would warn that is told of its globals."""
    monkeypatch.setitem(globals(), "__spec__", None)
    assert {kind for _, kind, *_ in heard(dynacomp.jit(warned, backend="eager"), "always", monkeypatch)} == {
        UserWarning, DeprecationWarning}
    said = heard(dynacomp.jit(warned, backend="eager"), "always", monkeypatch)
    assert not [text for text, *_ in said if "loader" in text]


@test_warning_util.ignore_warning(message="not .*")
def told_by_jax(x):
    with test_warning_util.record_warnings() as said:
        warnings.warn("heard", stacklevel=1)
    warnings.warn("not heard", stacklevel=1)
    try:
        with test_warning_util.raise_on_warnings():
            warnings.warn("raised", stacklevel=1)
    except UserWarning as error:
        return x * len(said), str(said[0].message), str(error)


def test_contexts_of_jax_s_own_that_change_filters_break_nothing():
    compiled = dynacomp.jit(told_by_jax)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in range(1, 11):
            y, *texts = compiled(jnp.ones(n))
            assert y.tolist() == [1.0] * n and texts == ["heard", "raised"]
    assert not said and dynacomp.stats()["breaks"] == {} and dynacomp.stats()["graphs"] == 2


def warns(carry, _=None):
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return carry + 1, carry.sum()


@pytest.mark.parametrize("fn", [
    lambda x: jax.lax.scan(warns, x, None, length=3), lambda x: jax.jit(warns)(x),
    lambda x: jax.vmap(warns)(x[None]), lambda x: jax.grad(lambda v: warns(v)[1])(x)])
def test_a_warning_of_a_function_that_jax_runs_for_a_size_that_changes(fn, monkeypatch):
    """While JAX runs it, the first of the filters is one of ours (`silence`), which is no filter of the program's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, usual in warning_rows.WAYS.items():  # pytest has others
            monkeypatch.setattr(warnings, name, usual)
        compiled = dynacomp.jit(fn, fullgraph=True)
        for n in range(8):
            x = jnp.ones(3 + n)
            assert str(compiled(x)) == str(fn(x))
        assert dynacomp.stats()["frames_captured"] <= 2


def told_in_a_module_of_jaxs(held, x):
    return x.astype("float64") * held.value


def told_here(held, x):
    y = jnp.asarray(x, "float64")
    return y + jnp.zeros(3, "float64") + jnp.zeros(3, "float64")  # alike calls


def told_in_a_derivative(held, x):
    return jax.grad(lambda v: (v.astype("float64") + jnp.zeros(3, "float64")).sum())(x)


def told_in_a_loop(held, x):
    return jax.lax.scan(lambda c, y: (c + y.astype("float64"), y), jnp.float32(0), x)


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
@pytest.mark.parametrize("fn", [told_in_a_module_of_jaxs, told_here, told_in_a_derivative, told_in_a_loop])
def test_what_a_library_warns_of_in_each_call(fn, action, monkeypatch):
    """In compiled calls too, and at the program's line: while JAX traced it that was one of ours."""
    want = heard(fn, action, monkeypatch)
    assert heard(dynacomp.jit(fn, fullgraph=True), action, monkeypatch) == want
    assert len(want) >= 2 or action != "always"


def test_what_a_library_warns_of_where_it_is_recorded_or_raised():
    compiled = dynacomp.jit(told_in_a_module_of_jaxs, fullgraph=True)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compiled(Held(2.0), jnp.ones(3))
        assert sum("float64" in str(one.message) for one in said) == 1
    assert dynacomp.stats()["frames_captured"] <= 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            dynacomp.jit(told_here)(Held(2.0), jnp.ones(3))


def test_a_list_in_which_warnings_are_recorded_is_looked_at():
    def looks(x, said):
        y = x.astype("float64")
        warnings.warn("own", stacklevel=1)
        return y, len(said)

    compiled = dynacomp.jit(looks)
    for recorded in (False, True, False, True):
        with warnings.catch_warnings(record=recorded) as said:
            warnings.simplefilter("always" if recorded else "ignore")
            assert compiled(jnp.ones(3), said or [])[1] == 0
            with warnings.catch_warnings(record=recorded) as said:
                assert compiled(jnp.ones(3), [] if said is None else said)[1] == 2 * recorded


def test_an_attempt_that_is_dropped_warns_of_nothing():
    """Where a number that changes stands for an array Equinox would warn of it; the frame is captured again then."""
    def normed(x, eps):
        return eqx.nn.LayerNorm(3, eps=eps)(x)

    compiled = dynacomp.jit(normed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in range(1, 5):
            compiled(jnp.arange(3.0), 1e-5 * n)
    assert not said


@pytest.mark.parametrize("made", ["custom_vjp", "custom_jvp"])
def test_a_warning_of_a_function_whose_derivative_has_a_rule(made):
    """Its rule runs it, too: where it is differentiated eager JAX runs the rule alone. The first call, in which JAX
    traces both, is not asked."""
    def twice(x):
        warnings.warn(f"of {x.shape}", stacklevel=1)
        return x * 2

    def program(x):
        linear = getattr(jax, made)(lambda v: twice(v))
        if made == "custom_vjp":
            linear.defvjp(lambda v: (twice(v), v), lambda _, g: (g * 2,))
        else:
            linear.defjvp(lambda p, t: (twice(*p), t[0] * 2))
        return jax.grad(lambda v: linear(v).sum())(x), linear(x)

    compiled = dynacomp.jit(program)
    for n in range(4):
        said = []
        for fn in (program, compiled):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                result = fn(jnp.ones(3))
            said.append((str(result), [str(w.message) for w in found if "dynacomp" not in str(w.message)]))
        assert said[0][0] == said[1][0] and len(said[0][1]) == 2
        assert not n or said[0] == said[1]


@pytest.mark.parametrize("loss", [lambda fn: lambda v: fn(v).sum(), lambda fn: lambda v: (fn(v) * fn(v)).sum()])
def test_a_rule_that_only_a_derivative_runs_warns_in_each_call(loss):
    @jax.custom_jvp
    def wave(v):
        return jnp.sin(v)

    @wave.defjvp
    def derived(primals, tangents):
        warnings.warn("derived", stacklevel=1)
        return wave(*primals), jnp.cos(*primals) * tangents[0]

    def program(x):
        return jax.value_and_grad(loss(wave))(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in range(3):
        said = []
        for fn in (program, compiled):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                fn(jnp.arange(3.0) + n)
            said.append([str(w.message) for w in found if "dynacomp" not in str(w.message)])
        assert said[0] == said[1] and "derived" in said[0]
    assert dynacomp.stats()["operations"] and not dynacomp.stats()["breaks"]
