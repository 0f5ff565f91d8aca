"""What Python makes of arrays once the Graph has run: no graph break, and NumPy's own results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.numbers.test_host_functions import compiled_like_plain
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(6.0) * 0.7 - 1
WITH_NAN = X.at[2].set(jnp.nan)


def kept(x):
    history = []
    for _ in range(3):
        x = jnp.tanh(x)
        history.append(np.asarray(x))
    return history, np.stack(history), np.array(history), np.array([x[0], x[1]]), np.array([float(x[0]), 2.0])


def asked(x):
    a = np.asarray(x)
    return a.dtype, a.shape, a.ndim, len(a), a.T, a is None, isinstance(a, np.ndarray), type(a[0]), np.asarray(a) is a


def functions(x):
    return (np.isfinite(x), np.isnan(x[0]), np.isinf(x).any(), np.sort(x), np.argsort(-x), np.signbit(x),
            np.array(x, dtype=np.float64), np.asarray(x, dtype=float), jax.device_get(x), np.argmax(np.asarray(x)))


def parts(x):
    a = np.asarray(x)
    return a[0], a[1:3], a[..., None], a.tolist(), x.tolist(), a[1].item(), x[1].item(), a.reshape(2, 3), a.copy()


def numbers(x):
    total = 0.0
    for i in range(3):
        total += x[i].item() * 0.5
    return total, total / 3, 1 - total, round(total, 2), round(float(x[1]), 1)


def texts(x):
    return f"{x.mean():.3f}|{float(x[0]):5.1e}|{x[:2]}|{np.asarray(x)}", str(x), repr(x)


def to_jax(x):
    a = np.asarray(3.0 * x)
    return jnp.sin(a) + a, a + x, x @ a, jnp.asarray(a) * np.asarray(jnp.asarray(2) * 1.5), jnp.where(np.isnan(x), 0, x)


def condition(x):
    if not np.isnan(x).any():
        x = x + 1
    return x * 2, int(np.asarray(jnp.arange(3))[1]), float(np.asarray(x)[0]) > 3


def counted(x):
    labels = np.array([3, 1, 2])
    found = np.asarray(jnp.argsort(-x))[:3]
    right = found == labels
    labels[0] = 9
    accuracy = right.mean()
    return (accuracy, f"{accuracy:.1%}", float(np.mean(found == np.asarray(jnp.arange(3)))), int((right != True).sum()),  # noqa: E712
            labels, (np.asarray(x) > 0.5).sum(axis=0), found.max(), found == 300, np.asarray(x) != np.asarray(x))


@pytest.mark.parametrize("program", [kept, asked, functions, parts, numbers, texts, to_jax, condition, counted])
def test_one_graph(program):
    check_one_graph(program, (X,), (WITH_NAN,))


def test_arrays_of_changing_sizes():
    def program(x):
        a = np.asarray(x * 2)
        return a, a.shape, len(a), a.size, jnp.cos(a), np.isfinite(a).all()

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    for n in (3, 4, 5, 6):
        assert repr(compiled(jnp.arange(float(n)))) == repr(program(jnp.arange(float(n))))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def stored(x):
    a = np.array(x * 2)
    a[0] = 9
    return a, x


def outside(x):
    return np.asarray(x + 1)[7]


def warns(x):
    return np.asarray(x).astype(np.int32), np.log(np.asarray(x)), np.asarray(x) * 2


def the_same(x):
    return np.asarray(x) is np.asarray(x)


def lists(x):
    return np.asarray(x)[[0, 1]], np.asarray(x).mean(), sum(np.asarray(x))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", [stored, outside, warns, the_same, lists])
def test_what_python_does_at_its_place(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for x in (X, X + 1):
        assert repr(outcome(compiled, (x,))) == repr(outcome(program, (x,)))
    assert dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


def by_mask(x, n, k):
    b = np.asarray(x * 2)[np.isfinite(x)]
    return b, len(b), x + len(b)


def by_number(x, n, k):
    return np.asarray(x * 2)[int(k)], x


def by_int(x, n, k):
    return np.asarray(x * 2)[n], x


def by_array(x, n, k):
    return np.asarray(x * 2)[np.asarray(k + jnp.arange(3))], x


def of_shape(x, n, k):
    return np.asarray(x * 2).reshape(n, -1), x


def of_shape_by_function(x, n, k):
    return np.reshape(np.asarray(x * 2), (n, -1)), x


def in_halves(x, n, k):
    return np.asarray(jnp.arange(n) * k).reshape(2, -1), x


def second(x, n, k):
    return np.asarray(jnp.arange(n) * k)[1], x


def of_none(x, n, k):
    a = np.asarray(jnp.arange(n - 1) * k)
    return a.max(), x


def unlike_lengths(x, n, k):
    return (np.asarray(jnp.arange(n) * k) < np.asarray(jnp.arange(6 - n % 5) * k)).mean(), x


def two_lengths(x, n, k):
    a, b = np.asarray(jnp.arange(n) * k), np.asarray(jnp.arange(6 - n % 5) * k)
    return np.stack([a, b]), np.logical_and(a, b), x


@pytest.mark.parametrize("program", [by_mask, by_number, by_int, by_array, of_shape, of_shape_by_function, in_halves,
                                     second, of_none, unlike_lengths, two_lengths])
def test_content_and_numbers_that_make_it_raise_or_longer(program):
    def guarded(x, n, k):
        try:
            return program(x, n, k)
        except (IndexError, ValueError) as error:
            return type(error), x

    dynacomp.reset()
    compiled = dynacomp.jit(guarded, backend="eager")
    for n in (4, 2, 3, 5, 8, 1, 3):
        x = X.at[n % 3].set(jnp.nan) if n > 3 else X
        assert repr(compiled(x, n, jnp.int32(n))) == repr(guarded(x, n, jnp.int32(n))), n
    assert dynacomp.stats()["breaks"]


def test_places_that_numpy_finds():
    def program(x):
        a = np.asarray(jnp.sin(x))
        return a[np.argsort(a)], a[a.argmax()], a[:2], x

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    for n in (3, 4, 5, 6):
        assert repr(compiled(jnp.arange(float(n)))) == repr(program(jnp.arange(float(n))))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def test_in_functions_that_jax_transforms():
    def loss(y):
        try:
            return jnp.sum(np.asarray(y))
        except jax.errors.TracerArrayConversionError:
            return jnp.sum(y) * 3

    def program(x):
        return jax.grad(loss)(x), jax.grad(lambda y: jnp.sum(y * np.asarray(x)))(x)

    assert repr(dynacomp.jit(program, backend="eager")(X)) == repr(program(X))


def test_in_a_branch_that_an_array_decides():
    def program(x):
        out = []
        if x.sum() > 3:
            out.append(np.asarray(x))
        return out, x

    compiled = dynacomp.jit(program, backend="eager")
    for x in (X, X + 10, X):
        assert repr(compiled(x)) == repr(program(x))


class Mean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += float(value) * n
        self.count += n


def means(x):
    m = Mean()
    m.update(x.mean(), len(x))
    m.update(x.max(), x.shape[0] - 1)
    last = x[-1].item()
    return m.total / m.count, m.count, len(x) - last, f"{last * x.size:.4f}"


def test_floats_of_arrays_with_sizes():
    """A mean over batches of any length is two entries, not one a length."""
    compiled_like_plain(means, [(X[:n] * n,) for n in (4, 5, 6, 3, 5, 2, 4, 6)], 3)


def by_what_may_be_none(x):
    try:
        return float(x.sum()) / (len(x) - 4)
    except ZeroDivisionError as error:
        return str(error)


def test_sizes_that_may_be_0_divide_as_in_python():
    dynacomp.reset()
    compiled = dynacomp.jit(by_what_may_be_none, backend="eager")
    for n in (5, 6, 4, 3, 4, 2, 5):
        assert compiled(X[:n]) == by_what_may_be_none(X[:n])
    assert not dynacomp.stats()["frames_eager"]


def scored(predicted, labels):
    correct = total = 0
    for i in range(4):
        correct += int((predicted[i] == labels[i]).sum())
        total += labels.shape[1]
    return correct / total, correct, f"{correct} of {total}", 2 ** 31 - correct, correct * correct * 2 ** 40


def test_ints_of_arrays_that_are_added_up():
    """More than an array holds, for all that the Graph knows."""
    dynacomp.reset()
    compiled = dynacomp.jit(scored, backend="eager")
    for n in (5, 7, 6, 9, 8):
        given = jnp.arange(4 * n).reshape(4, n) % 3, jnp.ones((4, n), jnp.int32)
        assert repr(compiled(*given)) == repr(scored(*given))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def test_what_is_counted_over_batches_that_python_goes_through():
    def accuracy(batches):
        correct = total = 0
        for x in batches:
            correct += int((x > 0).sum())
            total += len(x)
            print(end="")
        return correct, total

    dynacomp.reset()
    compiled = dynacomp.jit(accuracy, backend="eager")
    for sizes in ([3, 3, 2], [4, 4, 1], [5, 5, 3], [4, 3], [3, 3, 3]):
        batches = [jnp.arange(float(n)) for n in sizes]
        assert compiled(batches) == accuracy(batches)
    assert set(dynacomp.stats()["breaks"]) <= {"effect", "loop_length", "contents"}
