"""What one code object's calls of several kinds teach: sizes change within a kind, not between two."""

from __future__ import annotations

import collections
import enum
import gc
import re
import types
import weakref
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import _native
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.entries import lasts
from dynacomp.driver.history import MAX_KINDS, History, Seen, is_lasting, kind_of_call, note_content, of_any

X = jnp.ones(3)
Pace = enum.Enum("Pace", "SLOW FAST")


def steps_of(model):
    """A training step as harnesses have it: one code object for all models."""
    def step(params, *inputs):
        loss, slopes = jax.value_and_grad(lambda p: jnp.mean(model(p, *inputs) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes), loss
    return step


def perceptron(p, x):
    return jnp.tanh(x @ p["w"]) @ p["out"]


def gated(p, x):
    return (x @ p["v"] * jax.nn.sigmoid(x @ p["gate"])) @ p["out"]


def made(model, width, rows):
    names = {perceptron: ("w",), gated: ("v", "gate")}[model]
    params = {name: jnp.full((4, width), 0.1) for name in names} | {"out": jnp.full((width, 2), 0.2)}
    return params, jnp.ones((rows, 4))


def called(model, args):
    want, got = steps_of(model)(*args), dynacomp.jit(steps_of(model))(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), want, got)


def symbols():
    """The names of the symbolic sizes of the newest entry."""
    newest = _native.entries(steps_of(perceptron).__code__)[0].info
    return set(re.findall(r"\bs\d+\b", str(newest.graph)))


def test_a_step_of_two_models_has_their_sizes_as_constants():
    dynacomp.reset()
    for model, width in ((perceptron, 8), (gated, 16), (perceptron, 8), (gated, 16)):
        called(model, made(model, width, 3))
        assert not symbols()
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]


def test_within_a_kind_sizes_change_as_ever():
    dynacomp.reset()
    for model, width in ((perceptron, 8), (gated, 16)):
        for rows in (3, 4, 5, 6, 7):
            called(model, made(model, width, rows))
        assert symbols()
    assert dynacomp.stats()["frames_captured"] == 4  # of each model one as it came first, one for all lengths


@pytest.mark.parametrize("one, other, alike", [
    ((1, jnp.ones(3)), (2.0, jnp.ones((4, 4))), True),
    (([1, 2],), ([1, 2, 3],), True),
    (([],), ([(1, {"a": X})],), True),  # filled while the program runs
    (({"w": X},), ({"w": X, "step": 3},), True),
    (({"w": X},), ({"w": {"b": X}},), False),
    (((1, 2),), ([1, 2],), False),
    ((perceptron,), (gated,), False),
    ((steps_of(gated),), (steps_of(perceptron),), False),
    ((steps_of(gated),), (steps_of(gated),), True),  # made anew
])
def test_kinds(one, other, alike):
    assert (kind_of_call(None, one) == kind_of_call(None, other)) is alike


def test_a_kind_that_holds_itself_and_an_empty_cell():
    loop = {}
    loop["again"] = loop
    assert kind_of_call(None, (loop,)) == kind_of_call(None, (loop,))

    def outer():
        def inner():
            return later
        found = kind_of_call(inner, ())
        later = 1
        return found, later

    assert outer()[0] == outer()[0]


def test_kinds_are_forgotten_and_keep_nothing_alive():
    history = History()
    first = history.seen(0)
    first.sizes["L['x']", 0] = {3}
    assert history.seen(0) is first and history.sizes_of("L['x'].shape[0]") == {3}
    for kind in range(1, MAX_KINDS + 1):
        history.seen(kind)
    assert history.seen(0) is not first

    class Made:
        pass

    gone = weakref.ref(Made)
    history.seen(kind_of_call(None, (Made(),)))
    del Made
    gc.collect()
    assert gone() is None


def captures_of(fn, calls, **options):
    """How often something is captured in each of the calls, which must agree with plain Python."""
    dynacomp.reset()
    compiled, found = dynacomp.jit(fn, backend="eager", options=options), []
    for args in calls:
        before = dynacomp.stats()["frames_captured"]
        assert repr(compiled(*args)) == repr(fn(*args))
        found.append(dynacomp.stats()["frames_captured"] - before)
    return found


def test_a_number_below_zero_that_must_be_a_constant_is_one_for_each_value():
    def widened(x, axis):
        return jnp.expand_dims(x, axis)

    def stacked(x, axis):
        return jnp.stack([x, x + axis], {-1: -1, -2: 0, -3: 1}[axis])

    x = jnp.ones((2, 3))
    for fn in (widened, stacked):
        assert captures_of(fn, [(x, -1), (x, -2), (x, -3), (x, -2), (x, -3)]) == [1, 1, 1, 0, 0]


def test_what_follows_a_break_inherits_the_sizes_that_were_seen_to_change():
    def f(x, say):
        y = x * 2
        if say:
            print(end="")
        return (y + x[0]).sum()

    assert captures_of(f, [(jnp.ones(n), n > 4) for n in range(3, 10)]) == [1, 1, 2, 0, 0, 0, 0]


def test_elements_that_python_gives_to_a_loop_are_numbers_and_texts_that_change():
    def f(x, names):
        for name, k in zip(names, range(5)):
            x = x * k + len(name)
            print(end="")
        return x

    calls = [(X, ("a" * n, "bc", "d" * n)) for n in range(1, 9)]
    assert sum(captures_of(f, calls)[4:]) == 0


def test_a_generator_inherits_what_its_maker_has_seen_of_a_dict():
    def f(x, table):
        def gen():
            for _name, k in sorted(table.items()):
                yield x * k
        total = 0.0
        for part in gen():
            total = total + part.sum()
        return total

    calls = [(jnp.ones(n), dict.fromkeys("abc"[:n % 3 + 1] + str(n), 2)) for n in range(3, 15)]
    assert sum(captures_of(f, calls)[6:]) == 0


def test_a_length_that_was_there_before_is_no_further_change():
    """The entry of that length was missed for another reason; three lengths in turn were four, and the loop broke."""
    def report(x, thresholds):
        found = {}
        for t in thresholds:
            hits = (x > t).sum()
            found[f"at {t}"] = float(hits / x.shape[0])
        return found

    dynacomp.reset()
    made = dynacomp.jit(report, backend="eager")
    for i in range(10):
        given = jnp.arange(float(8 + i % 5)), [0.3, 0.5, 0.7][:1 + i % 3]
        assert made(*given) == report(*given)
    assert dynacomp.stats()["frames_captured"] <= 4 and not dynacomp.stats()["breaks"]


def test_content_that_changes_under_the_same_lengths_counts():
    def total(x, names):
        for name in names:
            x = x + len(name)
        return x

    dynacomp.reset()
    made = dynacomp.jit(total, backend="eager")
    for i in range(12):
        given = X, ["a" * (i + k + 1) for k in range(2 + i % 2)]
        np.testing.assert_array_equal(made(*given), total(*given))
    assert dynacomp.stats()["frames_captured"] <= 9


def test_where_one_item_of_a_list_is_longer_all_may_be():
    """Each was missed by itself: an entry for every item."""
    def program(rows, x):
        return x * (len(rows[0]) + 2 * len(rows[1]) + 3 * len(rows[2]))

    lengths = ((2, 3, 4), (3, 3, 4), (3, 5, 4), (3, 5, 6), (4, 4, 2))
    assert captures_of(program, [([[0.0] * n for n in ns], X) for ns in lengths]) == [1, 1, 0, 0, 0]


def test_a_list_beside_one_that_changes_stays_in_the_graph():
    def program(rows, x):
        for y in rows[1]:
            x = x * y + len(rows[0])
        return x

    assert captures_of(program, [([[0.0] * n, [1.0, 2.0]], X) for n in range(2, 9)]) == [1, 1, 0, 0, 0, 0, 0]


def losses(p, x, y):
    return jnp.mean((x @ p["w"] + p["b"] - y) ** 2)


def epoch(rows, size):
    """Parameters come back sorted, the last batch is a smaller one, what is loaded has another size in each call."""
    x = np.random.RandomState(rows).rand(rows, 4).astype(np.float32)
    params, total = {"w": jnp.ones(4), "b": jnp.zeros(())}, 0.0
    for i in range(0, rows, size):
        loss, slopes = jax.value_and_grad(losses)(params, x[i:i + size], x[i:i + size, 0])
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
        total += float(loss) * len(x[i:i + size])
    return params, total


def test_an_epoch_whose_batches_change():
    dynacomp.reset()
    compiled = dynacomp.jit(epoch, backend="eager")
    for rows in (20, 13, 28, 16, 33, 9, 25, 17, 31, 10, 22, 14):
        (want, total), (found, ours) = epoch(rows, 8), compiled(rows, 8)
        assert list(found) == list(want) and abs(total - ours) < 1e-4 * total
        assert all(np.allclose(found[name], want[name], atol=1e-5) for name in want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 11 and "contents" not in stats["breaks"] and not stats["frames_eager"]


def test_sizes_behind_a_break_follow_the_number_that_made_them():
    def loaded(rows):
        np.random.seed(rows)  # whose generator is everybody's: it and what is drawn from it break
        x = np.random.rand(rows, 2).astype(np.float32)
        return jnp.asarray(x).sum() * rows

    dynacomp.reset()
    compiled = dynacomp.jit(loaded, backend="eager")
    for rows in (5, 6, 7, 8, 4):
        assert abs(float(compiled(rows)) - float(loaded(rows))) < 1e-4 * rows
    assert dynacomp.stats()["frames_captured"] == 4  # the frame twice, what follows its two breaks once


def test_a_list_that_an_object_keeps_and_each_call_fills():
    """The entry of other sizes fails by these; that the list is longer, too, counts all the same."""
    class Meter:
        def __init__(self):
            self.sizes = []

    def measured(x, meter):
        meter.sizes.append(x.shape[0])
        return x * 2, list(meter.sizes)

    dynacomp.reset()
    compiled, ours, plain = dynacomp.jit(measured, backend="eager"), Meter(), Meter()
    for rows in (4, 5, 6, 3, 8, 2, 9, 4, 5, 7, 7, 8):
        assert compiled(jnp.ones(rows), ours)[1] == measured(jnp.ones(rows), plain)[1]
    assert dynacomp.stats()["frames_captured"] == 3 and not dynacomp.stats()["frames_eager"]


def test_what_changes_behind_one_break_changes_behind_the_others():
    """A size that each of them has by itself may be another array's: a local of the same name."""
    original, one, other = History(), History(), History()
    one.outer = other.outer = original
    original.resumes = [weakref.ref(one), weakref.ref(other)]
    one.seen(0).sizes["L['h']", 1] = {6}
    assert not other.inherited("sizes", "L['h']", 1) and not other.moving()
    one.seen(0).sizes["L['h']", 1].add(5)
    assert other.inherited("sizes", "L['h']", 1) == {5, 6} and other.moving() == {(1, 5), (1, 6)}
    original.seen(0).sizes["C['h']", 0] = {4}
    assert other.inherited("sizes", "L['h']", 0) == {4}


@pytest.mark.parametrize(("identities", "lasts"), [
    ((), True), (("L['state'].tx",), True), (("L['state'].apply_fn.__self__",), False),
    (("L['state'].apply_fn",), False), (("L['state'].apply_fn.__self__.scope",), False),
])
def test_an_object_that_calls_make_anew_counts_where_an_entry_knows_it_by_its_identity(identities, lasts):
    name, seen = "L['state'].apply_fn.__self__", Seen()
    info = types.SimpleNamespace(scalars={name: Mark(X), "L['n']": 3}, identities=identities)
    assert is_lasting(History(), seen, info)  # of the first call
    seen.scalars[name] = {Mark(jnp.ones(2))}
    assert is_lasting(History(), seen, info) == lasts


def test_what_each_process_has_one_of_is_known_by_its_identity_in_all():
    assert all(map(lasts, (None, True, 1, Pace.SLOW, Pace, int))) and not any(map(lasts, (X, perceptron, "text")))


def test_keys_that_are_others_in_each_call_make_no_kinds():
    def program(i, params):
        return params[f"w{i}"] * i + params[f"b{i}"]

    calls = [(i, {f"w{i}": jnp.ones(2) * i, f"b{i}": jnp.ones(2)}) for i in range(10)]
    assert captures_of(program, calls) == [1, 1, 1, *[0] * 7]


def test_two_models_with_other_keys_stay_kinds():
    models = [{"a": jnp.ones((3, 4))}, {"b": jnp.ones((5, 6))}]
    history = History()
    seens = [history.seen_by(None, (model,)) for model in models]
    for seen in seens:
        seen.captures = 2
    assert history.seen_by(None, ({"c": X},)) not in seens and history.seen_by(None, (models[0],)) is seens[0]


def test_what_kinds_that_came_once_had_is_known_of_the_next_ones():
    history = History()
    for name in "ab":
        seen = history.seen_by(None, ({name: X},))
        seen.captures = 1
        seen.scalars["L['i']"] = {name}
    common = history.seen_by(None, ({"c": X},))
    assert common.any_keys and common.scalars == {"L['i']": {"a", "b"}}
    assert history.seen_by(None, ({"d": X},)) is common
    assert not history.seen_by(None, ({"d": {"e": X}},)).any_keys


def check_settles(program, args, most):
    """Ten calls like plain Python's, in at most so many captures and none of them plain Python."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        assert repr(compiled(*args(i))) == repr(program(*args(i)))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= most and not stats["frames_eager"]


def test_dicts_whose_keys_are_other_objects_of_one_class_in_each_call():
    """All of them read alike: no change was counted, and the limit was met."""
    class Part:
        pass

    parts = [Part() for _ in range(11)]
    check_settles(lambda d, part, x: x * d[part],
                  lambda i: ({parts[i]: 2.0 * i, parts[i + 1]: 3.0}, parts[i], jnp.ones(3)), 6)


def test_the_last_entries_are_not_spent_on_contents():
    def program(cache, key, x):
        if key in cache:
            cache.move_to_end(key)
        cache[key] = len(cache)
        return x * len(cache)

    check_settles(program, lambda i: (collections.OrderedDict((f"k{j}", j) for j in range(i % 7)), f"k{i % 5}",
                                      jnp.ones(3)), 16)


def test_a_text_among_the_keys_is_no_object_whatever_it_holds():
    """`<pad>` in a vocabulary was counted as a change anew after each capture."""
    history = History()
    for history.captures in range(3):
        note_content(history, "L['d']", "['<pad>', 'a']")
    assert history.contents == {"L['d']": 1}
    for history.captures in range(3):
        note_content(history, "L['o']", "[<P>, 'a']")
    assert history.contents == {"L['d']": 1, "L['o']": 3}


@pytest.mark.parametrize("name, any_of_them", [
    ("G['stock']['pears'].count", "G['stock'][].count"), ("L['self'].layers[2].rate", "L['self'].layers[].rate"),
    ("L['self'].rate", ""), ("L['rates']['lr']", ""), ("L['rows'][3]", "L['rows'][]"),
    ("C['grid'][2][0]", "C['grid'][][0]"), ("L['net'][1].sizes[3]", "L['net'][].sizes[]"), ("G['n']", ""), ("x", "")])
def test_the_name_of_what_objects_in_a_container_have(name, any_of_them):
    assert of_any(name) == any_of_them


def test_what_changes_in_two_objects_of_a_container_changes_in_the_others():
    seen = Seen()
    seen.vary("L['d']['a'].n")
    assert seen.varies("L['d']['a'].n") and not seen.varies("L['d']['b'].n")
    seen.vary("L['d']['c'].n")
    assert seen.varies("L['d']['b'].n") and not seen.varies("L['d']['b'].m") and not seen.varies("L['e']['b'].n")
    other = Seen()
    other.joined(seen)
    assert other.varies("L['d']['b'].n")


class Item:
    def __init__(self):
        self.count = 0


METRICS = collections.Counter()


def test_counts_that_change_one_after_the_other():
    """Each took an entry when it changed first."""
    def program(stock, x):
        return x * sum(item.count for item in stock.values())

    dynacomp.reset()
    run, stock = dynacomp.jit(program, backend="eager"), {name: Item() for name in "abcdefgh"}
    for name in "abcdefgh" * 2:
        stock[name].count += 2
        assert repr(run(stock, X)) == repr(program(stock, X))
    assert dynacomp.stats()["frames_captured"] <= 4 and not dynacomp.stats()["breaks"]


def test_what_changes_in_a_frame_changes_behind_its_break_in_globals_too():
    def program(i, x):
        METRICS["loss"] += 1
        METRICS["steps"] += i
        if i % 3 == 0:
            METRICS["checked"] += 1
        return x * METRICS["checked"], {name: METRICS[name] / 2 for name in sorted(METRICS)}

    def called(run):
        METRICS.clear()
        return [repr(run(i, X)) for i in range(12)]

    dynacomp.reset()
    want = called(program)
    assert called(dynacomp.jit(program, backend="eager")) == want
    assert dynacomp.stats()["frames_captured"] <= 7


KEPT: collections.OrderedDict[str, int] = collections.OrderedDict()


def test_what_a_global_holds_is_another_thing_in_each_call_if_it_was_in_the_first():
    def program(name, x):
        KEPT[name] = KEPT.get(name, 0) + 1
        KEPT.move_to_end(name)
        return x * KEPT[name], [*KEPT.items()]

    def calls(fn):
        KEPT.clear()
        return [repr(fn(f"w{i % 3}", jnp.arange(4.0) + i)) for i in range(10)]

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager", options={"capture_idle": False})
    assert calls(compiled) == calls(program)
    assert dynacomp.stats()["frames_captured"] <= 5 and not dynacomp.stats()["frames_eager"]


def test_what_the_objects_hold_that_calls_are_given_is_a_few_things_in_turns():
    class Model:
        def __init__(self, n):
            self.parts = {f"part{k}": jnp.eye(3) * k for k in range(n)}

    def program(model, x):
        for name, part in model.parts.items():
            x = x @ part * len(name)
        return x

    models = [Model(2), Model(3), Model(4)]
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        x = jnp.arange(3.0) + i
        assert repr(compiled(models[i % 3], x)) == repr(program(models[i % 3], x))
    assert dynacomp.stats()["frames_captured"] == 3 and not dynacomp.stats()["breaks"]


def test_numbers_that_change_in_two_items_of_a_list_change_in_the_others():
    """Each took an entry when it changed first."""
    def program(board, x):
        return x * board[0] + board[1] * board[2] - board[3] * board[4], board

    def board(i):
        return [int(k < i) * k for k in range(5)]

    assert captures_of(program, [(board(i), X) for i in range(6)]) == [1, 0, 1, 1, 0, 0]
    assert not dynacomp.stats()["breaks"]


def test_numbers_that_change_in_a_frame_are_expected_to_behind_its_breaks():
    def program(i, x):
        board, rng = [0] * 6, np.random.default_rng(i)
        for _ in range(3):
            board[int(rng.integers(6))] += 1
            x = x * (board[0] + 2 * board[1] - board[2] + 3 * board[3] - 2 * board[4] + board[5])
        return x, board

    found = captures_of(program, [(i, X) for i in range(12)], capture_idle=False)
    assert not any(found[5:]) and sum(found) <= 13


def test_what_goes_on_over_changing_items_needs_no_miss_of_its_own():
    """The dict, the iterator over it, the loop in the comprehension, and the rows: each had to change first."""
    def program(pairs, x):
        groups = collections.defaultdict(list)
        for name, value in pairs:
            groups[name].append(value)
        return {name: x * sum(values) for name, values in groups.items()}

    def pairs(i):
        rng = np.random.default_rng(i)
        return [("abcdefgh"[k], float(k)) for k in rng.integers(0, 8, 6)]

    found = captures_of(program, [(pairs(i), X + i) for i in range(14)], capture_idle=False)
    assert not any(found[4:6]) and sum(found[4:]) <= 1 and not dynacomp.stats()["frames_eager"]


def test_arrays_in_the_groups_of_changing_keys():
    def program(pairs):
        groups = {}
        for name, value in pairs:
            groups.setdefault(name, []).append(value)
        return {name: jnp.stack(values).mean(0) for name, values in groups.items()}

    def pairs(i):
        return [("abc"[k], X * k) for k in np.random.default_rng(i).integers(0, 3, 6)]

    found = captures_of(program, [(pairs(i),) for i in range(14)], capture_idle=False)
    assert sum(found[5:]) <= 1 and not dynacomp.stats()["frames_eager"]


def test_conditions_behind_a_break_that_keep_tearing():
    """Each forest took another entry, up to half of all."""
    def program(edges, x):
        above = list(range(6))

        def root(a):
            while above[a] != a:
                above[a] = above[above[a]]
                a = above[a]
            return a

        for a, b in edges:
            above[root(a)] = root(b)
        return x * len({root(a) for a in range(6)})

    calls = [(np.random.default_rng(i).integers(0, 6, (5, 2)).tolist(), X) for i in range(12)]
    found = captures_of(program, calls, capture_idle=False)
    assert sum(found) <= 8


def test_lists_of_numbers_under_a_key_that_changes():
    """Behind a break, what lies in a dict under another key in each call was a constant first, row by row."""
    def program(rows, table):
        buckets = collections.defaultdict(list)
        for row in rows:
            size = next(n for n in (4, 8, 16) if len(row) <= n)
            buckets[size].append(row + [0] * (size - len(row)))
        return {size: table[jnp.asarray(buckets[size])].sum(1) for size in sorted(buckets)}

    def rows(i):
        return [np.random.default_rng(i * 31 + k).integers(
            1, 9, np.random.default_rng(i + k).integers(2, 9)).tolist() for k in range(5)]

    found = captures_of(program, [(rows(i), jnp.arange(10.0)) for i in range(20)], capture_idle=False)
    assert sum(found[:8]) <= 7 and sum(found[8:]) <= 2 and not dynacomp.stats()["frames_eager"]


@dataclass
class Call:
    strike: float

    def __call__(self, x, rate):
        return jnp.maximum(x - self.strike, 0) * rate


class Put(Call):
    def __call__(self, x, rate):
        return jnp.maximum(self.strike - x, 0) * rate


class Digital(Call):
    def __call__(self, x, rate):
        return jnp.where(x > self.strike, rate, 0)


def test_a_float_that_another_kind_had_otherwise_is_an_input():
    """Of each class of payoffs one entry, not two: what the first call of a kind had was a constant, whatever it was
    that those of others had."""
    def price(payoff, x, rate):
        return payoff(x, rate)

    dynacomp.reset()
    compiled = dynacomp.jit(price, backend="eager")
    for n in range(9):
        payoff = (Call, Put, Digital)[n % 3](1.0 + n)
        np.testing.assert_allclose(compiled(payoff, X + n, 0.1 * n), price(payoff, X + n, 0.1 * n), rtol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 4 and not stats["breaks"] and not stats["frames_eager"]
