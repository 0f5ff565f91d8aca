"""Loops whose number of rounds changes: a few entries, then Python runs them and captures end."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def captures_of(fn, calls):
    """How many captures each call made; all results are those of plain Python."""
    dynacomp.reset()
    compiled, made = dynacomp.jit(fn, backend="eager"), [0]
    for args in calls:
        np.testing.assert_allclose(compiled(*args), fn(*args), rtol=1e-5)
        made.append(dynacomp.stats()["frames_captured"])
    return [b - a for a, b in zip(made, made[1:])]


def vec(n):
    return jnp.arange(1.0, n + 1)


def slices_of_what_comes_before(x):
    """The shapes of the body change in each round: no node of the Graph."""
    total = jnp.zeros(())
    for i in range(x.shape[0]):
        total = total * 0.5 + x[:i + 1].prod() ** 0.25
    return total


def test_a_loop_over_a_size():
    made = captures_of(slices_of_what_comes_before, [(vec(n),) for n in (5, 6, 7, 8, 9, 11, 14, 5, 20)])
    assert made[:2] == [1, 1] and sum(made) <= 10 and not any(made[5:]), made
    assert dynacomp.stats()["breaks"].keys() == {"rounds"}


def from_the_end(rewards):
    """Numbers of NumPy's stay those of Python, in no node of the Graph."""
    out, last = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        last = rewards[t] + 0.9 * last
        out[t] = last
    return jnp.array(out) * 2


def test_a_loop_from_the_end_runs_in_python_as_one_from_the_start():
    made = captures_of(from_the_end, [(np.arange(n) / 3,) for n in (5, 6, 7, 8, 9, 11, 14, 5, 20, 4, 3)])
    assert not any(made[6:]), made
    assert dynacomp.stats()["breaks"].keys() == {"rounds", "store"} and not dynacomp.stats()["frames_eager"]


def batches(x, size):
    w = jnp.zeros(())
    for start in range(0, len(x), size):
        part = x[start:start + size]
        w = w * 0.9 + part.mean()
    return w


def test_batches():
    sizes = ((20, 4), (22, 4), (27, 5), (31, 8), (24, 6), (19, 4))
    made = captures_of(batches, [(vec(n), b) for n, b in sizes * 2])
    assert sum(made) <= 14 and not any(made[len(sizes):]), made
    assert not dynacomp.stats()["frames_eager"]


def decode(x, steps):
    cache, y = jnp.zeros((16, 2)), x
    for i in range(steps):
        cache = cache.at[i].set(y)
        y = jnp.tanh(cache[:i + 1].sum(0) + x)
    return y


def test_a_loop_that_an_argument_ends():
    made = captures_of(decode, [(vec(2), n) for n in (4, 5, 6, 7, 9, 12, 16, 4)])
    assert sum(made) <= 9 and not any(made[4:6]), made


class Model:
    def __init__(self, depth):
        self.depth = depth

    def __call__(self, x):
        for i in range(self.depth):
            x = jnp.tanh(x) * (i + 1)
        return x


def test_the_depth_of_a_model_is_unrolled():
    """What objects hold changes with the object, not from call to call."""
    dynacomp.reset()
    for depth in (4, 5, 6, 7):
        model = Model(depth)
        np.testing.assert_allclose(dynacomp.jit(model, backend="eager")(vec(3)), model(vec(3)), rtol=1e-6)
    assert not dynacomp.stats()["breaks"]


def test_a_list_of_ever_other_items():
    """Items that are not alike: those of `rows.given_rows` take no loop in Python."""
    def total(xs):
        y = jnp.zeros(2)
        for x in xs:
            y = jnp.tanh(y + x)
        return y

    made = captures_of(total, [([jnp.float32(1)] + [vec(2)] * n,) for n in (3, 4, 5, 6, 7, 9, 12, 3, 2)])
    assert made[:3] == [1, 1, 1] and sum(made) <= 8 and not any(made[5:]), made


def test_ranges_on_the_stack_of_a_break(capsys):
    """A range that somebody has made is known by its numbers."""
    def fn(x, r):
        y = x * 2
        print("broken")
        for i in r:
            y = y + x * i
        return y

    made = captures_of(fn, [(vec(3), range(1, 4)) for _ in range(4)])
    assert made == [2, 0, 0, 0]
    made = captures_of(fn, [(vec(3), range(1, n)) for n in (4, 5, 6, 7, 8, 9)])
    assert not any(made[4:]), made


@pytest.mark.parametrize("n", [0, 1, 2])
def test_short_ones(n):
    assert sum(captures_of(slices_of_what_comes_before, [(vec(k),) for k in (5, 6, 7, n, n)])) <= 10


def test_an_exception_in_a_round():
    def fn(x, steps):
        for i in range(steps):
            if i == 7:
                raise ValueError(f"round {i}")
            x = x + x[:i + 1].sum()
        return x

    compiled = dynacomp.jit(fn, backend="eager")
    for steps in (3, 4, 5, 6, 7):
        np.testing.assert_allclose(compiled(vec(9), steps), fn(vec(9), steps))
    for steps in (8, 9):
        with pytest.raises(ValueError, match="round 7"):
            compiled(vec(9), steps)


def padded(waves):
    """What comes of a list of another length in each call changes with it, behind the loop and in comprehensions."""
    feats, lengths = [], []
    for w in waves:
        feats.append(jnp.sqrt(w[:w.shape[0] // 2]))
        lengths.append(feats[-1].shape[0])
    most = max(lengths)
    batch = jnp.stack([jnp.pad(f, (0, most - f.shape[0])) for f in feats])
    return batch.sum() + (jnp.arange(most)[None] < jnp.array(lengths)[:, None]).sum()


def test_what_comes_of_a_list_that_changes_settles_with_it():
    calls = [([jnp.arange(8.0 + 2 * ((i + j) % 6)) + j for j in range(2 + i % 3)],) for i in range(9)]
    made = captures_of(padded, calls)
    assert sum(made) <= 14 and not any(made[8:]), made
