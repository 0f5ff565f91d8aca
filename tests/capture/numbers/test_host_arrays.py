"""`numbers.host_arrays`: NumPy arrays made of numbers that change stay compiled, in one entry for all of them."""

import gc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.numbers.test_host_functions import compiled_like_plain

SIZES = (8, 5, 6, 3, 8, 16)


def vectors(sizes=SIZES):
    return [(jnp.arange(n) + 1.0,) for n in sizes]


def table(x):
    n, d = x.shape[0], 4
    found = np.zeros((n, d))
    at, by = np.arange(n)[:, None], np.exp(np.arange(0, d, 2) * (-np.log(10000.0) / d))
    found[:, 0::2] = np.sin(at * by)
    found[:, 1::2] = np.cos(at * by)
    return x[:, None] + jnp.asarray(found, jnp.float32)


def changed(x):
    t = np.arange(x.shape[0]).astype(np.float32)
    t *= 2
    t[0] = 7
    t.sort()
    return x + t, t


def numbers(x):
    t = np.arange(x.shape[0])
    m, a = t.mean(), int(t.argmax())
    return x * m if m > 3 else x[a] + float(m)


def filled(x):
    t = np.empty(x.shape[0], np.float32)
    t.fill(3)
    t[1:-1] = x.shape[0]
    return x * t, np.full((2, len(x)), 1.5)


def masks(x):
    n = x.shape[0]
    mask = np.tril(np.ones((n, n), bool))
    i, j = np.nonzero(mask)
    return jnp.where(mask, x[:, None] + x, 0), x[i] * x[j]


def described_by_itself(x):
    t = np.ones((x.shape[0], 4)).T.reshape(2, -1)
    return x.sum() * t, t.shape, t.size, t.ndim, t.dtype, len(t.T), t.nbytes


def meshes(x):
    a, b = np.meshgrid(np.arange(x.shape[0]), np.arange(3))
    return x[a] + b


def a_constant_changed_by_a_size(x):
    t = np.zeros(20)
    t[:x.shape[0]] = 1
    return x.sum() * jnp.asarray(t), t.sum()


@pytest.mark.parametrize("program", [
    table, changed, numbers, filled, masks, described_by_itself, meshes, a_constant_changed_by_a_size,
    lambda x: (x * np.linspace(0, 1, len(x)), np.hanning(len(x)), np.fft.fftfreq(x.shape[0])),
    lambda x: jax.lax.cond(x.sum() > 20, lambda: (x * np.arange(len(x))).sum(), lambda: x.sum()),
    lambda x: jax.grad(lambda y: (y * np.arange(len(y))).sum())(x)])
def test_sizes(program):
    compiled_like_plain(program, vectors(), 3)


def test_numbers_that_change():
    calls = [(jnp.ones(3), k) for k in (1.5, 2.5, 3.5, 0.25, 4.0)]
    compiled_like_plain(lambda x, k: (x * (np.array([1., 2., 3.]) * k), np.float32(k) * np.ones(2)), calls, 2)


def outcomes(fn, calls):
    found = []
    for args in calls:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                value = [np.asarray(x) for x in jax.tree.leaves(fn(*args))]
            except Exception as error:
                value = repr(error)
        found.append((str(value), [str(w.message) for w in said]))
    return found


def iterated(x):
    for k in np.arange(x.shape[0] // 2):
        x = x + k
    return x


def a_view_that_is_written(x):
    t = np.zeros(x.shape[0])
    part = t[1:]
    part += 1
    return x + t


def views_that_leave(x):
    t = np.arange(len(x))
    part = t[::2]
    return x.sum(), t, part


def too_short(x):
    return x.sum() + np.zeros(x.shape[0] - 5).sum()


def caught(x):
    t = np.arange(x.shape[0])
    try:
        return x + t[6]
    except IndexError:
        return x


def one_over_zero(x):
    return x.sum() * (1 / np.arange(x.shape[0] - 4, x.shape[0])).sum()


def into_another(x):
    t = np.ones(x.shape[0])
    found = np.add(np.arange(x.shape[0]), 2, out=t)
    tripled = t * 3
    np.multiply(t, 2, out=t)
    return x + t, x * found, tripled.sum(), t is found


def changed_by_functions(x):
    n = x.shape[0]
    m = np.zeros((n, n))
    np.fill_diagonal(m, n)
    same = m
    same[0, 0] = -1
    return x @ m, m, jax.vmap(lambda r: (r * m.sum(0)).sum())(jnp.stack([x, x])), jax.grad(
        lambda y: (y * m).sum())(x)


@pytest.mark.parametrize("program", [
    into_another, changed_by_functions, iterated, a_view_that_is_written, views_that_leave, too_short, caught,
    one_over_zero])
def test_what_needs_the_content_is_as_in_python(program):
    """Values, exceptions and warnings; by breaks or entries for one size."""
    dynacomp.reset()
    assert outcomes(dynacomp.jit(program, backend="eager"), vectors()) == outcomes(program, vectors())


def times_itself(x, m):
    y = x + 1
    np.multiply(y, m, out=y)
    return y


def taken_from(x, m):
    y = x + m
    np.subtract(1.0, y, y)
    return y


def into_a_third(x, m):
    y = x + 1
    z = y * 0
    np.multiply(y, m, out=z, where=y > 2)
    return y, z, (y, z)


def less(x, m):
    y = x * 2.0
    kept = (y, y)
    y -= m
    return kept[0], y


def constants_times(x, m):
    a, b = np.ones(4), np.ones(4)
    np.multiply(a, m, out=b)
    return a, b


def round_by_round(x, m):
    y = x * 1.0
    for _ in range(3):
        y -= m * 0.5 * y
    return y, jnp.asarray(y)


def added_at(x, m):
    y = x * 2.0
    np.add.at(y, [0, 0, 1], m)
    return y


def of_the_program(x, m):
    x *= m
    return x + 1


def seen_by_a_view(x, m):
    y = x + 1
    v = y[1:]
    y -= m
    return v, y


@pytest.mark.parametrize("program, breaks", [
    (times_itself, False), (taken_from, False), (into_a_third, False), (less, False), (round_by_round, False),
    (added_at, False), (constants_times, True), (of_the_program, True), (seen_by_a_view, True)])
def test_stores_into_arrays_made_of_data(program, breaks):
    """Also those that change nothing at first, as `y -= 0`."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n, m in ((5, 0), (5, 1), (5, 2), (6, 0), (6, 3), (7, 1), (8, 2.0), (9, 2.5), (5, 0.0), (5, 1.5)):
        ours, theirs = np.linspace(0, 2, n), np.linspace(0, 2, n)
        assert repr((compiled(ours, m), ours)) == repr((program(theirs, m), theirs))
    stats = dynacomp.stats()
    assert bool(stats["breaks"]) == breaks and stats["frames_captured"] <= (9 if breaks else 5)


def test_each_call_gets_arrays_of_its_own():
    made = dynacomp.jit(lambda x: (x * 2, np.arange(len(x))), backend="eager")
    for n in (3, 4, 5):
        made(jnp.ones(n))
    first, second = made(jnp.ones(5))[1], made(jnp.ones(5))[1]
    first += 1
    assert second.tolist() == [0, 1, 2, 3, 4] and first.flags.writeable
    gc.collect()
    assert made(jnp.ones(5))[1].tolist() == [0, 1, 2, 3, 4]


def test_arithmetic_on_numbers_of_numpys_is_asked_of_by_guards():
    def offsets(x, n, m):
        first = np.cumsum([0, n, m])
        return x * np.array([first[1] + 1, first[2] * 2]), [k + o for k, o in zip((1, 2), first)]

    compiled_like_plain(offsets, [(jnp.ones(2), 3 + k, 4 + 2 * k) for k in range(8)], 2)


def test_a_condition_on_arithmetic_of_numpys():
    def split(x, n):
        first = np.cumsum([n, 2])
        return (x if first[1] - 1 > 6 else -x) * np.sqrt(first[0] + 1.5), f"{first[0] + 1}"

    compiled_like_plain(split, [(jnp.ones(2), k % 9) for k in range(12)], 3)


def test_arithmetic_that_warns_is_not_asked_of_by_guards():
    def scaled(x, n):
        most = np.array([n, 3], np.int32).max()
        return x * np.array([most * np.int32(2), 1])

    made = dynacomp.jit(scaled, backend="eager")
    for n in (5, 6, 7, 2**30 + 5, 8, 9):
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            got = made(jnp.ones(2), n)
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            want = scaled(jnp.ones(2), n)
        assert np.array_equal(got, want)
        assert [str(w.message) for w in ours] == [str(w.message) for w in theirs], n


@pytest.mark.parametrize("read", [
    np.ndarray.tolist, lambda a: sum(a.tolist()), lambda a: sorted(zip(a.tolist(), "abc"))])
def test_a_list_that_is_as_long_as_data_that_changes_is_made_by_python(read):
    """It was captured for each length, up to the limit of entries."""
    def program(x, rows):
        return x * 2, read(rows)

    dynacomp.reset()
    made, counts = dynacomp.jit(program, backend="eager", options={"capture_idle": False}), []
    for n in (5, 6, 7, 9, 8, 5, 11, 3, 1, 4, 12, 10):
        (x, got), (y, want) = made(jnp.ones(2), np.arange(n) % 3), program(jnp.ones(2), np.arange(n) % 3)
        assert np.array_equal(x, y) and got == want and repr(got) == repr(want)
        counts.append(dynacomp.stats()["frames_captured"])
    assert counts[5] - counts[0] <= 3 and counts[-1] - counts[6] <= 1
    assert "limit" not in dynacomp.stats()["frames_eager"]


def test_a_list_of_a_fixed_number_of_parts_needs_no_break():
    def program(x, rows):
        first, second = np.array_split(rows, 2)
        return x * 2 + first[0], second

    compiled_like_plain(program, [(jnp.ones(2), np.arange(n) % 3) for n in (2, 5, 6, 7, 9, 8, 5, 11, 3, 4, 12)], 3)
    assert not dynacomp.stats()["breaks"]


def only_its_size(x, r):
    doubled = np.concatenate([r, r], axis=1)  # no part of the graph
    return jnp.ones(doubled.shape[1]) * x[0], doubled.size


def size_below_transformations(x, r):
    n = np.repeat(r, 2, axis=1).shape[1]
    slope = jax.grad(lambda y: (jnp.ones(n) * y).sum())(x[0])
    return jax.lax.scan(lambda c, _: (c + 1, c), slope, None, length=n), jax.vmap(lambda y: jnp.full(n, y))(x)


def size_that_jax_must_know(x, r):
    """The recipe of `a` holds a size, and its own size becomes a constant."""
    a = np.transpose(np.broadcast_to(r[:, :, None], (*r.shape, x.shape[0])), (2, 0, 1))
    return jnp.vander(a[:, 0, 0], a.shape[0]) + x.sum()


@pytest.mark.parametrize("fn", [only_its_size, size_below_transformations, size_that_jax_must_know])
def test_sizes_of_what_the_graph_is_not_given(fn):
    rows = lambda n: np.arange(2 * n, dtype=np.float32).reshape(2, n)
    made = [(jnp.arange(n + 1.0), rows(n)) for n in (2, 3, 4, 9, 1, 6, 3)]
    compiled_like_plain(fn, made, 3)
