"""`dynacomp.driver.host_loops`: loops that compute nothing with arrays run to their end in Python."""

import contextlib
import heapq
import io
from collections import Counter, defaultdict, deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.driver.foreign import Foreign
from dynacomp.driver.pass_list import CAPTURED
from tests.capture.program_kit import outcome
from tests.settling import kit

WORDS = ("the", "cat", "sat", "on", "mat", "dog", "ran", "far", "away", "home", "sun", "sky")
X = jnp.arange(4.0)


def settles(program, args, captures):
    """Ten calls like plain Python's, with so many captures in all."""
    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", options={"capture_idle": False})
    for i in range(10):
        want, got = outcome(program, args(i)), outcome(made, args(i))
        assert repr(got) == repr(want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= captures and not stats["frames_eager"]


def tokens(i):
    return [WORDS[n] for n in np.random.default_rng(i).integers(0, 12, 6)], X / (i + 1)


def edges(i):
    rng = np.random.default_rng(i)
    return {a: [int(b) for b in rng.integers(0, 6, 2)] for a in range(6)}, X / (i + 1)


def numbers(i):
    return np.random.default_rng(i).random(5).tolist(), X / (i + 1)


def stays_compiled(program, args):
    """Its operations run in graphs."""
    p, bound = kit.Program(program, args, 1.0, 1e-6, ""), kit.Bound()
    dynacomp.reset()
    with kit.counted(bound):
        plain = kit.called(p, program, bound)
        made = dynacomp.jit(program, backend=Foreign("counted", bound.backend, CAPTURED),
                            options={"capture_idle": False})
        report = kit.Report(plain, kit.called(p, made, bound))
    assert not kit.wrong(p, report) and report.share == 1.0


def test_words_that_are_counted():
    def program(words, x):
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        return x * len(words), counts

    settles(program, tokens, 5)


def test_a_search_through_another_graph_in_each_call():
    def program(graph, x):
        seen, queue, order = {0}, deque([0]), []
        while queue:
            node = queue.popleft()
            order.append(node)
            for other in graph[node]:
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
        return x * len(order), jnp.asarray(order)

    settles(program, edges, 6)


def test_a_loop_that_is_left_in_several_ways():
    def program(words, x):
        found = Counter()
        n = 0
        for word in words:
            n += 1
            if word == "sky":
                return None
            if word == "sun":
                break
            found[word] += 1
        else:
            n = -1
        return x * n + len(found)

    settles(program, tokens, 8)


def test_exceptions_are_those_of_the_program():
    def program(words, x):
        found = defaultdict(int)
        for word in words:
            if word == "dog" and found["dog"]:
                raise KeyError(word)
            found[word] += 1
        return x * len(found)

    settles(program, tokens, 8)


@pytest.mark.parametrize("of", [lambda x: x, lambda x: [x, 1], lambda x: {"w": x}, lambda x: jax.nn.relu,
                                lambda x: lambda v: jnp.sin(v)])
def test_a_loop_with_something_of_jax_in_sight_stays_compiled(of):
    def program(words, w, x):
        total = 0
        for word in words:
            held = w
            total = total + len(word)
        return x * total, held is w

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", options={"capture_idle": False})
    for i in range(8):
        words, x = tokens(i)
        words = words[:2 + i % 5]
        w = of(x)
        assert repr(made(words, w, x)) == repr(program(words, w, x))
    assert "idle" not in dynacomp.stats()["breaks"]


def test_it_is_captured_where_that_is_asked_for():
    def program(words, x):
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        return x * len(counts)

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", options={"capture_idle": True})
    for i in range(8):
        assert repr(made(*tokens(i))) == repr(program(*tokens(i)))
    assert dynacomp.stats()["frames_idle"] == 0


def test_a_call_that_brings_arrays_to_the_loop_is_captured():
    def program(values, x):
        kinds, total = {}, 0
        for value in values:
            kind = str(value)[:3] if isinstance(value, int) else "array"
            kinds[kind] = kinds.get(kind, 0) + 1
            total = total + value * value - value
        return x * len(kinds), total

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", options={"capture_idle": False})

    def calls(of):
        """How many more frames are captured, and how many operations of their graphs."""
        before = dynacomp.stats()
        for i in range(10):
            values = [of(n) for n in np.random.default_rng(i).integers(0, 99, 6).tolist()]
            assert repr(made(values, X)) == repr(program(values, X))
        after = dynacomp.stats()
        return [after[name] - before[name] for name in ("frames_captured", "operations")]

    numbers, arrays, again = calls(int), calls(lambda n: X * n), calls(int)
    assert dynacomp.stats()["frames_idle"] == 1 and not dynacomp.stats()["frames_eager"]
    assert numbers[0] <= 6 and 0 < arrays[0] <= 8 and arrays[1] >= 4
    assert again == [0, 0]


def heaped(values, x):
    heap = []
    for n, value in enumerate(values):
        heapq.heappush(heap, (value, n))
    order = []
    while heap:
        order.append(heapq.heappop(heap)[1])
    return x * order[0], order


def sorted_by_edges(graph, x):
    before = dict.fromkeys(graph, 0)
    for node in graph:
        for other in graph[node]:
            before[other] += 1
    free = deque(node for node in graph if not before[node])
    order = []
    while free:
        node = free.popleft()
        order.append(node)
        for other in graph[node]:
            before[other] -= 1
            if not before[other]:
                free.append(other)
    return x[jnp.asarray(order)]


def acyclic(i):
    rng = np.random.default_rng(i)
    return {a: [b for b in range(a + 1, 6) if rng.random() < 0.4] for a in range(6)}, jnp.arange(6.0) / (i + 1)


def averaged(recent, x):
    recent.append(1.0)
    if len(recent) > 5:
        recent.popleft()
    mean = sum(recent) / len(recent)
    return x * mean


def shrunk(names, x):
    names.discard(3)
    names -= {0, 1}
    return x * len(names), names


@pytest.mark.parametrize(("program", "args", "captures"), [
    (heaped, numbers, 4), (sorted_by_edges, acyclic, 5),
    (averaged, lambda i: (deque([float(n) for n in range(3 + i)]), X), 4),
    (shrunk, lambda i: (set(range(12 - i)), X), 3)])
def test_what_comes_before_anything_of_jax_is_pythons_in_the_third_call_with_other_data(program, args, captures):
    settles(program, args, captures)
    stays_compiled(program, args)


def test_data_that_come_back_keep_their_entries():
    def program(names, x):
        known = sorted(set(names))
        return x * len(known), known

    settles(program, lambda i: (list(WORDS[:3 + i % 2]), X), 2)
    assert dynacomp.stats()["frames_idle"] == 0


def test_a_local_without_a_value_behind_a_loop_leaves_compiled_what_follows():
    def program(words, x):
        counts = {}
        for word in words:
            if word == "sky":
                last = word
            counts[word] = counts.get(word, 0) + 1
        y = jnp.sin(x) * len(counts)
        return y, last if "sky" in counts else None

    settles(program, tokens, 6)
    stays_compiled(program, tokens)


def test_objects_live_as_long_as_in_python():
    class Noted:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            print("gone", self.name)

    def program(words, x):
        first = Noted(len(words))  # noqa: F841
        second = [Noted(word) for word in words[:2]]  # noqa: F841
        known = sorted(words)
        y = x * len(known)
        print("end")
        return y

    def kept(words, x):
        held = Noted(words[0])
        total = sum(map(len, words))
        y = x * total
        print("end", held is None)
        return y

    for fn in (program, kept):
        dynacomp.reset()
        made = dynacomp.jit(fn, backend="eager", options={"capture_idle": False})
        for i in range(8):
            outputs = []
            for call in (fn, made):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    call(*tokens(i))
                outputs.append(out.getvalue())
            assert outputs[0] == outputs[1]
