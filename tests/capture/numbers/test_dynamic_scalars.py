"""Numbers that change from call to call: NumPy's scalars are inputs too, with NumPy's own arithmetic."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import _native as native

X = jnp.ones(3)


def numbers(x, t):
    shifted = abs(t - 3) / 7
    return x * t, t * 2 + 1.5, shifted, x[:2] + shifted, t**2, -t, t > 2, t.dtype, t.shape


def places(x, i):
    return x.at[i % 3].set(i)[i // 9], i // 3


def needed(x, t):
    return x * float(t), np.sin(t), f"{t:.2f}"


def branches(x, t):
    return x * t if t > 0.5 else x + np.float32(t)


VALUES = [np.linspace(0, 5, 10), np.linspace(0, 5, 10, dtype=np.float32), np.arange(10), np.arange(10, dtype=np.int16)]


@pytest.mark.parametrize("values", VALUES, ids=lambda v: str(v.dtype))
@pytest.mark.parametrize("program", [numbers, places, needed, branches])
def test_numpy_scalars_that_change_are_what_they_are_in_python(program, values):
    if program is places and values.dtype.kind == "f":
        pytest.skip("floats are no indices")
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for t in values:
        want, got = program(jnp.ones(3), t), compiled(jnp.ones(3), t)
        assert repr(got) == repr(want)
        assert list(map(type, got)) == list(map(type, want))
    assert not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("program", [numbers, places])
def test_a_loop_over_numpy_numbers_compiles_twice(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for t in np.arange(20):
        compiled(jnp.ones(3), t)
    assert dynacomp.stats()["frames_captured"] == 2
    assert not dynacomp.stats()["breaks"]


@pytest.mark.parametrize("ask", [
    lambda t: t > 4, lambda t: not t, lambda t: abs(t) <= 2.5, lambda t: t == 3, lambda t: -t < -7.0])
@pytest.mark.parametrize("values", VALUES, ids=lambda v: str(v.dtype))
def test_conditions_on_numpy_numbers_are_guarded(ask, values):
    dynacomp.reset()
    program = lambda x, t: x * 2 if ask(t) else x + t
    compiled = dynacomp.jit(program, backend="eager")
    for t in values:
        assert repr(compiled(X, t)) == repr(program(X, t))
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] <= 4


def test_conditions_on_numpys_arithmetic_warn_once():
    compiled = dynacomp.jit(lambda x, t: x if t * t > 1 else x + 1, backend="eager")
    compiled(X, np.float32(1)), compiled(X, np.float32(2))
    with pytest.warns(RuntimeWarning, match="overflow") as told:
        compiled(X, np.float32(1e30))
    assert len(told) == 1


def test_a_python_int_that_changes_may_not_fit_numpys_type():
    def add(t, n):
        return t + n

    compiled = dynacomp.jit(add, backend="eager")
    for n in range(4):
        assert compiled(np.int8(n), n) == 2 * n
    with pytest.raises(OverflowError):
        compiled(np.int8(5), 300)


def schedule(x, step, lr):
    x = x * lr
    if step % 3 == 0:
        x = x + 1
    if lr > 0.5 and step // 2 > 3:
        x = x - 2
    return x


def halved(x, n):
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
        x = x + n
    return x * count


def named(x, mode):
    return x + 1 if mode else x - 1


def divided(x, a):
    return x + 1 if a / 2 >= 1 else x - 1


@pytest.mark.parametrize("program, calls", [
    (schedule, [(s, lr) for s in range(12) for lr in (0.1, 0.9, 0.4, 0.7, float("nan"))]),
    (halved, [(n,) for n in range(1, 20)]),
    (named, [("a",), ("b",), ("",), ("c",), ("",)]),
    (divided, [(1,), (2,), (3,), (1.5,), (2.5,), (True,), (False,), (float("inf"),), (2**60,)]),
])
def test_conditions_on_changing_numbers(program, calls):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for call in calls * 2:
        np.testing.assert_array_equal(compiled(jnp.arange(3.0), *call), program(jnp.arange(3.0), *call))
    assert set(dynacomp.stats()["frames_eager"]) <= {"restless"}  # each path through `halved` is an entry


def test_a_condition_on_a_changing_number_is_guarded_and_breaks_nothing():
    def logged(x, step):
        return x * 2 if step % 10 == 0 else x + 1

    dynacomp.reset()
    compiled = dynacomp.jit(logged, backend="eager", fullgraph=True)
    for step in range(60):
        np.testing.assert_array_equal(compiled(jnp.arange(3.0), step), logged(jnp.arange(3.0), step))
    assert dynacomp.stats()["frames_captured"] == 3  # step 0 as a constant, then either way


def test_identity_of_changing_strings_and_numbers():
    def same(x, a, b):
        return x, a is b, a is None, b is a

    def computed(x, a):
        return x, a + "!" is a, a is a

    compiled, other = dynacomp.jit(same, backend="eager"), dynacomp.jit(computed, backend="eager")
    for n in range(12):
        text, number = f"text {n}", n + 1000
        for args in ((text, text), (text, f"text {n}"), (number, number), (number, int(str(number))), (n, n)):
            assert compiled(X, *args)[1:] == same(X, *args)[1:]
        assert other(X, text)[1:] == computed(X, text)[1:]


def test_many_numbers_that_must_be_constants_are_so_at_once():
    def f(x, numbers):
        return x * sorted(numbers)[0]

    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    for start in range(8):
        numbers = [start + i * 7 % 100 for i in range(100)]
        assert (compiled(X, numbers) == X * start).all()
    assert not dynacomp.stats()["frames_eager"]


def test_methods_of_changing_numbers_break_nothing():
    def of_float(x, v):
        return x * v, v.is_integer(), v.hex(), (v / 3).conjugate()

    def of_int(x, n):
        return x * n, n.bit_length() + 1, (n * 3).bit_count(), x + n.bit_length()

    for program, numbers in ((of_float, (1.5, 2.0, 3.25, -4.0, 5.5)), (of_int, (1, 2, 3, 9, 700, -5))):
        dynacomp.reset()
        compiled = dynacomp.jit(program, backend="eager", fullgraph=True)
        for number in numbers:
            assert repr(compiled(X, number)) == repr(program(X, number))
        assert dynacomp.stats()["frames_captured"] == 2


def test_a_condition_on_a_method_of_a_changing_number():
    def whole(x, v):
        return x if v.is_integer() else x * 2

    dynacomp.reset()
    compiled = dynacomp.jit(whole, backend="eager")
    for v in (1.5, 2.0, 3.25, 4.0, 7.5, 8.0, 9.0):
        assert repr(compiled(X, v)) == repr(whole(X, v))
    assert not dynacomp.stats()["frames_eager"]


def turned(x, p):
    return x * jnp.exp(2j * jnp.pi * p), (1 + 0.5j * p) / 2 * x, x / (1j * p), -(p * 1j) - (0.5 + 2j), p * 1j == 2j


@pytest.mark.parametrize("kind", [float, int])
def test_complex_numbers_made_of_changing_ones_compile_twice(kind):
    """Each value was captured once, then the call broke for good."""
    dynacomp.reset()
    compiled = dynacomp.jit(turned)
    for i in range(8):
        got, want = compiled(X, kind(i + 1)), turned(X, kind(i + 1))
        for a, b in zip(got, want, strict=True):
            assert type(a) is type(b) and getattr(a, "aval", None) == getattr(b, "aval", None)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and stats["operations"] >= 8


def test_what_raises_of_complex_numbers_raises():
    for program, wrong in ((lambda x, p: x / (2j / p), 0.0), (lambda x, p: x * (p * 1j < 2j), 1.0)):
        compiled = dynacomp.jit(program)
        for p in (1.5, 2.5, wrong):
            try:
                want = program(X, p)
            except (ZeroDivisionError, TypeError) as error:
                with pytest.raises(type(error)):
                    compiled(X, p)
            else:
                np.testing.assert_allclose(compiled(X, p), want, rtol=1e-6)


def test_numbers_too_large_for_an_array_go_through_libraries():
    def program(x, n):
        return eqx.combine({"a": x, "n": None}, {"a": None, "n": n})["n"], eqx.filter({"n": n, "a": x}, eqx.is_array)

    dynacomp.reset()
    compiled, x = dynacomp.jit(program, backend="eager"), jnp.ones(2)
    for n in (5, 1 << 60, (1 << 61) + 1, 1 << 70, 3):
        assert repr(compiled(x, n)) == repr(program(x, n))
    assert "internal" not in dynacomp.stats()["frames_eager"]


def test_strings_name_a_few_ways():
    """Conditions on strings are guarded, however many entries there are."""
    def step(w, g, rate, rule):
        if rule == "sgd":
            return w - rate * g
        if rule == "sign":
            return w - rate * jnp.sign(g)
        if rule in ("norm", "unit"):
            return w - rate * g / jnp.linalg.norm(g)
        return w

    dynacomp.reset()
    compiled = dynacomp.jit(step)
    rules = ("sgd", "sign", "norm", "unit", "none")
    for k in range(15):
        w, g = jnp.arange(k % 4 + 2.0), jnp.ones(k % 4 + 2) * 2
        np.testing.assert_allclose(compiled(w, g, 0.1 * k, rules[k % 5]), step(w, g, 0.1 * k, rules[k % 5]), rtol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 7 and not stats["breaks"] and not stats["frames_eager"], stats


def test_a_divisor_that_changes_is_no_condition_of_the_program():
    def heads(x, n, causal):
        y = x.reshape(len(x), n, 8 // n)
        return y.cumsum(0) if causal else y * 2

    dynacomp.reset()
    compiled = dynacomp.jit(heads)
    ways = ((2, True), (4, True), (2, False), (8, True), (1, False), (2, True), (4, False)) * 2
    for k, (n, causal) in enumerate(ways):
        x = jnp.arange(8.0 * (k % 3 + 3)).reshape(-1, 8)
        np.testing.assert_allclose(compiled(x, n, causal), heads(x, n, causal))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 6 and not stats["breaks"], stats


def by_type(x, k):
    whole = x.astype(int)
    return whole * (k * 2.0), whole * (k * 2), whole * (k * True), k * 0.0, k * -0.0, k == 1, k == 1.0


def test_literals_of_two_types_make_two_numbers():
    dynacomp.reset()
    compiled = dynacomp.jit(by_type)
    for k in (1, 2, 3, -4):
        for want, got in zip(by_type(X, k), compiled(X, k)):
            assert type(want) is type(got) and getattr(want, "dtype", None) == getattr(got, "dtype", None)
            assert repr(want) == repr(got)
    assert dynacomp.stats()["frames_captured"] == 2


@pytest.mark.parametrize("program", [
    lambda x, k: x * (k * 2 + 1.5),
    lambda x, k: (x[:k], k * 2 - 1, k > 4, f"{k} of {len(x)}"),
    lambda x, k: x[:k + 1].sum() / (k + 1),
])
def test_numbers_that_python_computes_need_no_code_of_ours(program):
    """Guards compute them, as their steps, and the entry calls its program directly."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in (3, 4, 5):
        compiled(jnp.arange(9.0), k)
    before = native.counters()
    for k in (6, 7, 9, 2, 8, 3):
        want, got = program(jnp.arange(9.0), k), compiled(jnp.arange(9.0), k)
        assert repr(got) == repr(want)
    after = native.counters()
    assert after["direct"] - before["direct"] == 6 and after["code"] == before["code"]
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["frames_eager"]


def test_a_number_whose_arithmetic_raises_later_raises_as_python_does():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, k: x * (k * 0.5), backend="eager")
    for k in (3, 4, 5, 6):
        compiled(X, k)
    with pytest.raises(OverflowError, match="int too large to convert to float"):
        compiled(X, 10**400)
    assert repr(compiled(X, 7)) == repr(X * 3.5)


@pytest.mark.parametrize("step", [lambda k: k + k, lambda k: k + 1])
def test_long_expressions_break_before_they_grow_beyond_all_bounds(step):
    """Thirty sums of a number with itself are written with 2**30 operations."""
    def program(x, k):
        for _ in range(30 if step(3) == 6 else 300):
            k = step(k)
        return x * (k % 1000)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in range(1, 8):
        assert repr(compiled(X, k)) == repr(program(X, k))
    assert dynacomp.stats()["breaks"]["scalar"] == 1 and not dynacomp.stats()["frames_eager"]


def texts(x, b):
    return x * len(b), b + b"!", b == b"q0", b.startswith(b"q"), b.upper(), b.hex()


def complexes(x, z):
    return x * z, jnp.full(2, z), jnp.float32(2) * z, [z], {"z": z}["z"]


@pytest.mark.parametrize("program, given", [(texts, lambda i: b"q%d" % i), (complexes, lambda i: complex(i, 1 - i))])
def test_bytes_and_complex_numbers_that_change_are_inputs(program, given):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        assert repr(compiled(X, given(i))) == repr(program(X, given(i)))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def test_what_takes_a_complex_number_as_a_constant_ends_in_no_plain_python():
    def program(x, z):
        return (x * z, abs(z)) if z.real > 3 else (x - z, -z)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(12):
        assert repr(compiled(X, complex(i, 1))) == repr(program(X, complex(i, 1)))
    assert not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda x, i: x.astype(("float32", "bfloat16")[i % 2]),
    lambda x, i: jnp.stack([x, x]).sum((0, 1)[i % 2]),
    lambda x, i: jnp.repeat(x, (1, 2, 4)[i % 3]),
    lambda x, i: jnp.pad(x, 2, mode=("edge", "wrap", "constant")[i % 3]),
    lambda x, i: jnp.einsum(("i,j->ij", "i,i->i", "i,j->j")[i % 3], x, x),
    lambda x, i: jax.lax.scan(lambda c, t: (c + t.astype(("float32", "bfloat16")[i % 2]), c), 0.0, x),
    lambda x, i: jax.grad(lambda t: (jnp.round(t, (0, 1, 2)[i % 3]) * t ** (1, 2, 3)[i % 3]).sum())(x),
    lambda x, i: [x * k for k in range((1, 2, 4)[i % 3])],
    lambda x, i: jnp.stack([x] * (1, 2, 4)[i % 3]),
    lambda x, i: jax.grad(lambda t: sum((t ** k).sum() for k in range((1, 2, 4)[i % 3])))(x),
], ids=["type", "axis", "repeats", "mode", "subscripts", "scan", "grad", "range", "list", "range in grad"])
def test_a_computed_number_is_a_constant_what_it_is_computed_from_is_none(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i, n in enumerate((4, 5, 6, 7, 3, 9, 8, 2, 5, 6)):
        x = jnp.linspace(-1.0, 1.0, n)
        for got, want in zip(jax.tree.leaves(compiled(x, i)), jax.tree.leaves(program(x, i)), strict=True):
            assert got.dtype == want.dtype and got.weak_type == want.weak_type
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"]


def test_a_computed_number_with_many_values_is_pythons():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, i: jnp.repeat(x, (1, 2, 3, 4, 5, 6, 7, 8, 9)[i % 9]) * 2, backend="eager")
    for i in range(16):
        assert compiled(jnp.arange(3.0), i).tolist() == jnp.repeat(jnp.arange(3.0) * 2, i % 9 + 1).tolist()
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 8 and len(stats["breaks"]) == 1 and not stats["frames_eager"]


def test_strings_that_choose_among_the_keys_of_a_dict_are_guarded_however_many_ways_there_are():
    """They name one of a few ways, as those do that are compared: no break after half of the entries."""
    def fn(task, x, table):
        h, weight = jnp.tanh(x), {known: x * k for known, k in table.items()}[task]
        for known in ("sum", "mean", "max", "min", "prod", "std"):
            if task == known:
                h = getattr(h, known)(0)
        return weight * h

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    table = {name: float(k) for k, name in enumerate(("none", "sum", "mean", "max", "min", "prod", "std"))}
    for _ in range(2):
        for name in table:
            assert repr(compiled(name, jnp.arange(3.0), table)) == repr(fn(name, jnp.arange(3.0), table))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= len(table) and not stats["breaks"] and not stats["frames_eager"]
