"""`numbers.given_arrays`: what NumPy makes of arrays that a call is given is computed in each call, without a break."""

import signal
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.numbers.test_host_functions import compiled_like_plain

SIZES = (4, 5, 6, 7, 9, 5, 12, 4, 8, 11)


def batches(sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [(jnp.arange(12.0), rng.normal(size=(n, 4)).astype(np.float32)) for n in sizes]


def standardised_step(w, xb):
    z = (xb - xb.mean(0)) / (xb.std(0) + 1e-6)
    return jax.grad(lambda w: ((z @ w) ** 2).mean())(w[:4])


def labels(w, xb):
    found, counts = np.unique((xb[:, 0] > 0).astype(int), return_counts=True)
    return w[:2] * counts.sum(), np.eye(10, dtype=np.float32)[np.abs(xb[:, 1]).astype(int)], found.dtype


def halves(w, xb):
    a, b = np.split(xb, [2])
    return (a @ w[:4]).sum() + (jnp.asarray(b) @ w[:4]).sum(), len(b)


def padded(w, xb):
    full = np.zeros((max(8, len(xb)), 4), xb.dtype)
    full[:len(xb)] = xb
    return jnp.asarray(full) * w[0], np.pad(xb, ((0, 20 - len(xb)), (0, 0)))


def scalars(w, xb):
    k = int((xb[:, 0] > 0).sum())
    return w[:k], k, w * float(xb[0, 0]), xb.max(), float(xb.mean())


def checked(w, xb):
    assert xb.ndim == 2 and xb.shape[1] == 4 and np.isfinite(xb).all()
    return w[:4] @ xb.T + xb.T[0, 0]


def views(w, xb):
    flat, back = xb.reshape(-1), xb[::-1]
    return w + flat[0], flat, back, np.asarray(xb) is xb, flat is flat


def rounds(w, xb):
    for i in range(int(np.abs(xb).max() * 3)):
        w = w * 1.01 + i
    return w


@pytest.mark.parametrize("f", [standardised_step, labels, halves, padded, scalars, checked, views, rounds])
def test_what_numpy_makes_of_data_is_computed_in_each_call(f):
    compiled_like_plain(f, batches(), most=2)


def branch(w, xb):
    return w * xb.sum() if xb.sum() > 0 else w - 1


def test_conditions_on_the_content_of_data_are_guarded():
    compiled_like_plain(branch, batches(), most=3)


def until(w, xb):
    i = 0
    while i < len(xb) and xb[i, 0] < 1:
        i += 1
    return w * i


def test_python_runs_the_loops_in_which_the_content_of_data_decides():
    dynacomp.reset()
    compiled = dynacomp.jit(until, backend="eager")
    for seed in range(5):
        before = dynacomp.stats()["frames_captured"]
        for w, xb in batches(seed=seed):
            np.testing.assert_array_equal(compiled(w, xb), until(w, xb))
    assert dynacomp.stats()["frames_captured"] == before <= 16 and not dynacomp.stats()["frames_eager"]


def changes(w, xb):
    y = xb / 2
    xb[0] = 7
    return w * (xb / 2).sum(), y


def changes_a_view(w, xb):
    v = xb[1:]
    z = w + v[0, 0]
    v += 1
    return z, v.sum()


def sorts(w, xb):
    xb.sort(0)
    return w + xb[0, 0]


def writes_out(w, xb):
    np.multiply(xb, 2, out=xb)
    return w + xb.sum()


@pytest.mark.parametrize("f", [changes, changes_a_view, sorts, writes_out])
def test_stores_into_data_happen_where_they_are_asked_for(f):
    compiled = dynacomp.jit(f)
    for (w, xb), (_, again) in zip(batches(), batches()):
        expected, found = f(w, xb), compiled(w, again)
        assert all(map(np.allclose, jax.tree.leaves(expected), jax.tree.leaves(found)))
        np.testing.assert_array_equal(xb, again)


def test_views_that_are_returned_show_the_memory_of_what_was_given():
    compiled = dynacomp.jit(views)
    for w, xb in batches():
        _, flat, back, *_ = compiled(w, xb)
        assert np.shares_memory(flat, xb) and np.shares_memory(back, xb)


def logarithm(w, xb):
    return w * np.log(xb).sum()


def test_numpys_warnings_are_heard_in_each_call():
    compiled = dynacomp.jit(logarithm)
    for i, (w, xb) in enumerate(batches()):
        given = np.abs(xb) if i % 2 else xb
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = compiled(w, given)
        assert bool(said) == (i % 2 == 0)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, logarithm(w, given), rtol=1e-5)


def test_what_numpy_raises_is_raised():
    @dynacomp.jit
    def row(w, xb, i):
        try:
            return w[0] + xb[i].sum()
        except IndexError as error:
            return str(error)
    for w, xb in batches():
        found = row(w, xb, 6)
        expected = w[0] + xb[6].sum() if len(xb) > 6 else f"index 6 is out of bounds for axis 0 with size {len(xb)}"
        assert found == expected if isinstance(expected, str) else np.allclose(found, expected)


def test_of_a_large_array_items_are_read():
    dynacomp.reset()
    table = np.arange(3_000_000, dtype=np.float64)

    @dynacomp.jit
    def rows(w, table, at):
        return w[:len(at)] * jnp.asarray(table[at])
    for n in (3, 4, 5, 6):
        np.testing.assert_allclose(rows(jnp.ones(12), table, np.arange(n) * 2), np.arange(n) * 2)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def slow_in_numpy(w, xb):
    return w * np.percentile(np.sort(xb, 0), 50, axis=0)[0] + xb.std(0)[0]


def test_what_a_signal_handler_raises_while_numpy_computes_is_the_programs():
    compiled = dynacomp.jit(slow_in_numpy, backend="eager", options={"measure": False})
    given = batches((40_000, 40_001, 40_002))
    for w, xb in given:
        compiled(w, xb)
    started = time.perf_counter()
    compiled(*given[0])
    whole, rang, came = time.perf_counter() - started, 0, 0

    def ring(signum, frame):
        nonlocal rang
        rang += 1
        raise TimeoutError("late")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for k in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, whole * (k + 1) / 22)
                compiled(*given[k % 3])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                came += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came == rang > 0


@pytest.mark.parametrize("of", [
    lambda xb: xb[xb > 2].mean(), lambda xb: xb[xb > 2].std(ddof=1),
    lambda xb: np.nanmean(np.where(xb > 2, xb, np.nan))])
def test_a_guard_gives_no_warning_that_the_program_gives(of):
    def f(w, xb):
        return w * of(xb)

    heard = {f: 0, (compiled := dynacomp.jit(f, backend="eager")): 0}
    for i, (w, xb) in enumerate(batches()):
        for fn in heard:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                fn(w, xb if i % 2 else xb * 4)
            heard[fn] += len(said)
    assert heard[f] == heard[compiled] > 0


def test_an_array_of_a_closure_whose_length_changes_is_data():
    """Four captures, two before the break and two after it, however many lengths follow."""
    def f(w, xb, y):
        def of(scale):
            return 0.5 * y @ jnp.exp(scale * (xb[:, None] - xb[None])).sum((1, 2))
        scale = float(w[0]) + 0.5
        print(end="", flush=scale > 1e9)
        return jax.value_and_grad(of)(scale)

    dynacomp.reset()
    compiled, caps = dynacomp.jit(f, backend="eager"), []
    for w, xb in batches():
        before = dynacomp.stats()["frames_captured"]
        given = w, xb, xb[:, 0].copy()
        np.testing.assert_allclose(compiled(*given), f(*given), rtol=1e-6)
        caps.append(dynacomp.stats()["frames_captured"] - before)
    assert caps[0] and sum(caps) <= 4 and not any(caps[2:]) and not dynacomp.stats()["frames_eager"], caps


class Queue:
    def __init__(self, of):
        self.keys, self.at = np.zeros((8, 3), of), 0

    def put(self, rows):
        self.keys[self.at:self.at + len(rows)] = rows
        self.at = (self.at + len(rows)) % 8


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_an_array_that_an_object_holds_is_data_once_it_has_changed_again(dtype):
    """A queue of keys, an evaluation set that another takes the place of: the transposed array was a constant of half
    of all entries that a code may have."""
    queue = Queue(dtype)

    def scores(z):
        return jax.grad(lambda z: (z @ queue.keys.T).sum())(z)

    dynacomp.reset()
    compiled = dynacomp.jit(scores, backend="eager")
    for n in range(7):
        np.testing.assert_allclose(compiled(jnp.ones((2, 3)) * n), scores(jnp.ones((2, 3)) * n))
        queue.put(np.full((2, 3), n + 1))
    assert dynacomp.stats()["frames_captured"] == 3 and not dynacomp.stats()["breaks"]
