"""`numbers.host_functions` and `numbers.narrowing`: numbers that change stay numbers, in one entry or two."""

from __future__ import annotations

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

SIZES = (4, 5, 6, 3, 12)
OF_SIZES = {
    "half": lambda n: n / 2,
    "inverse": lambda n: (1 / n, n ** -0.5, 2 ** -n),
    "float": lambda n: (float(n), complex(n, 1), round(n / 3, 2), int(n / 3), bool(n)),
    "math": lambda n: (math.sqrt(n), math.isqrt(n), math.ceil(n / 4), math.gcd(n, 12), math.log2(n), math.hypot(n, 3)),
    "numpy": lambda n: (np.log(n), np.float32(n), np.sqrt(n), np.int8(n), np.float16(1 / n), np.maximum(n, 5)),
    "bits": lambda n: (n & 3, n | 8, n ^ 5, n << 2, n >> 1, ~n, n.bit_length(), n.bit_count()),
    "compared": lambda n: (n > 4, n == 5, not n <= 4, (n - 5) * (n >= 5), bool(n - 5), sum([n > 3, n > 5]),
                           jnp.where(n < 5, 1.0, 2.0)),
    "extremes": lambda n: (max(n, 5), min([7 - n, n, 2]), max(1, n) / min(n, 4), max(n / 2, 2.0, 1 / n)),
    "divmod": lambda n: (divmod(n, 3), divmod(100, n), -n // 3, -n % 3, abs(-n)),
    "text": lambda n: (f"{n:4d}", f"{n / 3:.2f}!", "%d of %s" % (n, "x"), "ab" * n,  # noqa: UP031
                       str(n), hex(n), f"n{n}".upper(),
                       ", ".join([str(n), "b"])),
}


def compiled_like_plain(program, calls, most, backend="eager"):
    """Every call as Python makes it, in at most so many captures, none of them plain Python."""
    dynacomp.reset()
    made = dynacomp.jit(program, backend=backend)
    for args in calls:
        want, got = program(*args), made(*args)
        assert jax.tree.structure(want) == jax.tree.structure(got)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got)):
            assert type(a) is type(b) and (a == b if isinstance(a, str) else np.array_equal(a, b)), (args, a, b)
    told = dynacomp.stats()
    assert told["frames_captured"] <= most and not told["frames_eager"] and not told["breaks"], told


@pytest.mark.parametrize("name", OF_SIZES)
def test_of_sizes(name):
    fn = OF_SIZES[name]
    compiled_like_plain(lambda x: (x + 1, fn(x.shape[0])), [(jnp.ones(n),) for n in SIZES], 2)


@pytest.mark.parametrize("name", OF_SIZES)
def test_of_ints_that_change(name):
    fn = OF_SIZES[name]
    compiled_like_plain(lambda x, k: (x + 1, fn(k)), [(jnp.ones(3), n) for n in SIZES], 2)


def test_a_text_of_any_number_of_parts():
    """More than the sixteen that a guard's step keeps on the stack: the whole capture failed."""
    def program(x, k):
        words = "-".join([f"{k + i}" for i in range(40)])
        return x + 1 if words.endswith("41") else x - 1, words, len("".join([str(k), *"abcdefghijklmnopq"]))

    compiled_like_plain(program, [(jnp.ones(3), n) for n in (*SIZES, 2, 7, 2, 8, 100)], 3)


@pytest.mark.parametrize("use", [
    lambda x, k: x[:k] * 2, lambda x, k: jnp.zeros((k, 3)) + x[0], lambda x, k: jax.lax.top_k(x, k),
    lambda x, k: jax.nn.one_hot(jnp.arange(4), k), lambda x, k: x[k] + x[-k], lambda x, k: jnp.roll(x, k),
    lambda x, k: jax.lax.scan(lambda c, _: (c * 2, c), x[0], None, length=k),
    lambda x, k: jax.lax.fori_loop(0, k, lambda i, c: c + x[i], 0.0)])
def test_ints_that_are_sizes(use):
    compiled_like_plain(use, [(jnp.arange(16.0), k) for k in (3, 4, 5, 6, 2, 7, 9)], 3)


def test_ints_that_do_not_fit_raise_as_in_eager_jax():
    for program, calls in (
            (lambda x, k: x.astype(jnp.uint8) + k, (3, 4, 5, 300, 6)),
            (lambda x, k: x.astype(jnp.int32) * (1 << k), (3, 4, 5, 40, 6)),
            (lambda x, k: x.sum() * (10 % k), (3, 4, 5, 0, 6))):
        dynacomp.reset()
        made = dynacomp.jit(program, backend="eager")
        for k in calls:
            results = []
            for fn in (program, made):
                try:
                    results.append(str(fn(jnp.ones(3), k)))
                except (OverflowError, ZeroDivisionError) as error:
                    results.append(repr(error))
            assert results[0] == results[1]
        assert dynacomp.stats()["frames_captured"] <= 4


def test_loops_over_symbolic_sizes_are_one_node():
    def program(x):
        total = 0.0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager")
    for n in SIZES:
        x = jnp.arange(float(n))
        assert np.allclose(made(x), program(x))
    assert dynacomp.stats()["frames_captured"] == 2


def test_shape_errors_that_the_program_catches():
    def program(x, y):
        try:
            return x + y
        except TypeError as error:
            return x.sum() + y.sum(), str(error)

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager")
    for n, m in ((4, 4), (5, 6), (7, 8), (9, 9), (10, 11), (12, 13), (14, 15), (6, 6)):
        args = jnp.ones(n), jnp.ones(m)
        assert str(made(*args)) == str(program(*args))
    assert not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("use", [
    lambda n: (hasattr(n, "__get__"), hasattr(n, "bit_length"), n.real, n.imag, n.numerator, n.denominator),
    lambda n: (hasattr(n, "__name__"), hasattr(n, "mro"), n.__class__.__name__, (n / 2).__class__.__name__),
    lambda n: (hasattr(n / 2, "shape"), (n / 2).real, (n / 2).imag, getattr(n, "nothing", "x"))])
def test_attributes_of_numbers_that_change(use):
    compiled_like_plain(lambda x: (x + 1, use(x.shape[0])), [(jnp.ones(n),) for n in SIZES], 2)
    compiled_like_plain(lambda x, k: (x + 1, use(k)), [(jnp.ones(3), n) for n in SIZES], 2)


def test_a_missing_attribute_of_a_changing_number_raises_as_in_python():
    def f(x, k):
        try:
            return x + k.nothing
        except AttributeError as error:
            return x, str(error)
    compiled_like_plain(f, [(jnp.ones(3), n) for n in SIZES], 2)


def test_sums_of_ranges():
    def f(x, k):
        n = x.shape[0]
        return x + 1, sum(range(n)), sum(range(2, n + 1), 10), sum(range(n, 4)), sum(range(-3, k)), sum(range(n), n)
    tenths = dynacomp.jit(lambda x: sum(range(x.shape[0]), 0.1), backend="eager")
    assert [tenths(jnp.ones(n)) for n in SIZES] == [sum(range(n), 0.1) for n in SIZES]
    compiled_like_plain(f, [(jnp.ones(n), n - 5) for n in (8, 6, 7, 9, 12, 8)], 2)
    compiled_like_plain(f, [(jnp.ones(n), n - 5) for n in (4, 5, 6, 7, 3, 1, 2, 9)], 6)


def test_parts_of_texts_that_change():
    def f(x, text):
        return x + 1 if "/" in text else x - 1, "_" in f"{text}!", text in "layer_1/layer_2"

    names = [f"layer_{i}" for i in range(10)]
    compiled_like_plain(f, [(jnp.ones(3), name) for name in names], 4)
    compiled_like_plain(lambda x, text: x + 1 if "/" in text else x - 1,
                        [(jnp.ones(3), name + "/" * (i % 2)) for i, name in enumerate(names)], 4)


@pytest.mark.parametrize("use", [
    lambda x, n: [x, x * 2][n > 4], lambda x, n: {True: x, False: x * 3}[not n > 4],
    lambda x, n: jnp.sum(x, keepdims=n > 4), lambda x, n: (x[n > 4], ("a", "b")[int(n > 4)], range(5)[(n > 4) * 2]),
    lambda x, n: x if n > 4 else -x])
def test_truths_that_must_be_constants_are_decided_and_not_what_they_are_of(use):
    compiled_like_plain(lambda x: use(x, x.shape[0]), [(jnp.ones(n),) for n in (*SIZES, 9, 2)], 3)
    compiled_like_plain(use, [(jnp.ones(3), n) for n in (*SIZES, 9, 2)], 3)


def test_the_greatest_of_several_numbers():
    """Whichever it is: each order of them was an entry, and then a break."""
    def program(x, a, b, c, rows):
        best = -math.inf
        for v in (a, b, c):
            best = max(best, v)
        signs = math.copysign(1, max(a * 0, -0.0)), math.copysign(1, min(a * 0, -0.0))
        return x * max(a, b, c) + max(map(len, rows)), best, min([c, a], default=1.0), signs

    calls = [(jnp.ones(2), a, b, c, [[0] * n, [0] * k, [0] * (9 - n)]) for n, k, a, b, c in (
        (3, 4, 1.0, 2.0, 3.0), (4, 3, 2.5, 1.0, -1.0), (5, 3, -1.0, -2.0, -3.0), (3, 8, 0.0, -0.0, math.inf),
        (3, 4, 4.0, 7.0, 3.5), (2, 6, -4.0, 1.0, 3.5), (6, 2, 5.0, 1.5, 3.0), (7, 7, 1.0, 1.0, 2.0),
        (8, 2, 1.0, 3.0, 2.0), (2, 2, 0.5, -3.0, 9.0))]
    compiled_like_plain(program, calls, 3)


@pytest.mark.parametrize("fn", [lambda n, f: max(n, f), lambda n, f: min(True, n), lambda n, f: max([f, n], key=abs)])
def test_what_is_the_greatest_decides_its_kind(fn):
    calls = [(jnp.ones(2), n, f) for n, f in ((1, 2.0), (3, 2.5), (2, 2.0), (0, -1.0), (-2, 2.0))]
    dynacomp.reset()
    made = dynacomp.jit(lambda x, n, f: (x + 1, fn(n, f)), backend="eager")
    for x, n, f in calls:
        found = made(x, n, f)[1]
        assert found == fn(n, f) and type(found) is type(fn(n, f))


def test_sorted_numbers_and_texts():
    """Every order of them was an entry: six, and then a break."""
    def program(x, n, a, b):
        low, middle, high = sorted([a, b, 1.0])
        values = [n, 3, 7 - n]
        values.sort(reverse=True)
        return x * low + high, middle, values, sorted([f"{n}", "4", "k"]), math.fsum([a, b, 0.1]), x[:values[2]]

    calls = [(jnp.ones(12), n, a, b) for n, a, b in (
        (4, 0.0, 3.0), (5, 3.0, -0.0), (6, -0.0, 0.0), (1, 0.0, -0.0), (3, 5.0, 2.0), (2, math.inf, 1.0))]
    compiled_like_plain(program, calls, 3)


def test_texts_are_interned_in_each_call():
    def program(x, text):
        made = sys.intern(text + "!")
        return {made: x * 2}, sys.intern("known")

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for text in "abcde":
        found, known = compiled(jnp.ones(2), text)
        assert next(iter(found)) is sys.intern(text + "!") and known is sys.intern("known")
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


@pytest.mark.parametrize("use, texts, most", [
    (lambda t: (t.split("."), t.rsplit(".", 1), t.partition("."), t.rpartition("x"), t.splitlines()),
     [f"enc.layer{i}.w" for i in range(8)], 2),
    (lambda t: t.split(), ["a b", "c d", "e", "f g", "h", "i  j "], 3),  # as many as there are numbers of parts
    (lambda t: [p + "!" for p in t.split("/") if p], [f"a{i}/b{i}" for i in range(8)], 2),
    (lambda t: [int(n) for n in t.split("x")], [f"{i}x{i * i}" for i in range(8)], 2),
    (lambda t: (int(t[5:]), float(t[-1]), t[:2], t[::-1], t[1:4:2], t[0]), [f"layer{i}" for i in range(8)], 2),
    (lambda t: float(t.partition("=")[2]), ["lr=1e-3", "lr=2", "lr=inf", "lr= 4 ", "lr=1_0"], 2),
    (lambda t: (t.split(b","), int(t[2:]), t[0]), [b"0,%d" % i for i in range(8)], 2)])
def test_parts_of_texts_and_the_numbers_that_they_say(use, texts, most):
    compiled_like_plain(lambda x, t: (x * 2, use(t)), [(jnp.ones(3), t) for t in texts], most)


@pytest.mark.parametrize("use, texts", [
    (lambda t: int(t), ["1", "2", "x", "3", "", "1.5"]),
    (lambda t: int(t), ["1", "2", str(10 ** 30), "-4", str(-10 ** 30)]),
    (lambda t: float(t), ["1", "2", "x", "3", ""]),
    (lambda t: t[3], ["abcd", "abce", "ab", "abcf", ""]),
    (lambda t: (t[0], t[-2:], t[::0]), ["abcd", "abce"]),
    (lambda t: t.split(""), ["a", "b", "c"]),
    (lambda t: dict([t.split("=")]), ["a=1", "b=2", "c", "d=3", "e=4=5"])])
def test_texts_without_such_parts_raise_as_in_python(use, texts):
    def program(x, t):
        try:
            return x * 2, use(t)
        except (ValueError, IndexError) as error:
            return x, str(error)

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager")
    for t in (*texts, *texts):
        assert repr(made(jnp.ones(3), t)) == repr(program(jnp.ones(3), t))


def test_a_path_through_given_dicts():
    def program(name, tree):
        node = tree
        for part in name.split("/"):
            node = node[part]
        return node * 2

    compiled_like_plain(program, [(f"layer{i}/w", {f"layer{i}": {"w": jnp.ones(3) * i}}) for i in range(10)], 3)
