"""Lists of dicts (records of a batch) of another length in each call: as rows they are only read. What changes a
record, asks which one it is, or lets it out finds the dicts that the call was given."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

LENGTHS = (5, 7, 9, 3, 6, 4, 8)
OPTIONS = {"measure": False, "capture_idle": True}


def records(n, off=0):
    return [{"x": jnp.asarray(np.random.RandomState(i + off).randn(3), jnp.float32), "y": i * 1.5, "k": i}
            for i in range(n)]


def check(fn, calls):
    """Results, and the arguments afterwards, are plain Python's; how often `fn` was captured, and its breaks."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager", options=OPTIONS)
    for at, args in enumerate(calls):
        ours = copy.deepcopy(args)
        wrong = unlike(outcome(fn, args), outcome(compiled, ours))
        wrong = wrong or unlike(outcome(copy.copy, (args,)), outcome(copy.copy, (ours,)))
        assert not wrong, f"call {at}: {wrong}"
    return dynacomp.stats()["frames_captured"], dynacomp.stats()["breaks"]


def read(rows):
    total = jnp.zeros(3)
    for row in rows:
        total = total + row["x"] * row.get("q", 2.0) + (row["y"] if "y" in row else 0.0) * len(row)
    return total, [r["x"] * r["y"] for r in rows], jnp.array([r["k"] for r in rows])


def taken_apart(rows):
    total = jnp.zeros(3)
    for r in rows:
        for value in r.values():
            total = total + value
        for key in r:
            total = total + r[key]
    return total


def made_of_them(rows):
    out = []
    for row in rows:
        made = dict(row)
        made["x"] = made["x"] * 2
        out.append(made)
    return out, [{"x": r["x"] + 1, "id": r["k"]} for r in rows], [{**r, "z": 1} for r in rows]


def sides(rows):
    return (sum([i * r["x"] for i, r in enumerate(rows)], jnp.zeros(3)), [a["x"] * b["y"] for a, b in zip(rows, rows)],
            [r["x"] for r in reversed(rows)], [r["y"] for r in rows[1:]])


def differentiated(rows):
    return jax.grad(lambda w: sum([((r["x"] * w) ** 2).sum() * r["y"] for r in rows], 0.0))(jnp.ones(3))


@pytest.mark.parametrize("fn", [read, taken_apart, made_of_them, sides, differentiated])
def test_two_captures_for_all_lengths(fn):
    captures, breaks = check(fn, [(records(n, n % 3),) for n in LENGTHS])
    assert captures == 2 and not breaks


def nested(rows):
    total = 0.0
    for r in rows:
        total = total + r["obs"]["a"] * r["act"][1]
    return total


def test_records_in_records():
    def made(n):
        return [{"obs": {"a": jnp.ones(2) * i, "b": i}, "act": (i, 2.0 * i)} for i in range(n)]
    captures, breaks = check(nested, [(made(n),) for n in LENGTHS])
    assert captures == 2 and not breaks


def stored(rows):
    for r in rows:
        r["x"] = r["x"] * 2


def updated(rows):
    for r in rows:
        r.update(y=0.0)
        r.pop("k")
    return sum(r["y"] for r in rows)


def first_stored(rows):
    rows[0]["y"] = 100.0
    return sum([r["y"] for r in rows], 0.0)


def stored_behind(rows):
    total = sum([r["y"] for r in rows], 0.0)
    rows[-1]["y"] = total
    return sum([r["y"] for r in rows], 0.0)


def stored_meanwhile(rows):
    total = 0.0
    for r in rows:
        total = total + r["y"]
        rows[-1]["y"] = 50.0
    return total


def same(rows):
    return [r is rows[0] for r in rows], len({id(r) for r in rows})


def best(rows):
    found = rows[0]
    for r in rows:
        if r["y"] > found["y"]:
            found = r
    return found is rows[-1], found


def let_out(rows):
    out = []
    for r in rows:
        out.append(r)
    return all(a is b for a, b in zip(out, rows)), r is rows[-1], out


@pytest.mark.parametrize("fn", [stored, updated, first_stored, stored_behind, stored_meanwhile, same, best, let_out])
def test_the_dicts_themselves(fn):
    check(fn, [(records(n, n % 3),) for n in LENGTHS])


def test_other_keys_orders_and_one_dict_twice():
    calls = [(records(n),) for n in (5, 7, 6, 6, 6, 6, 8)]
    calls[3][0][1]["q"] = 1.0
    calls[4][0][0] = dict(reversed(calls[4][0][0].items()))
    calls[5][0][1:3] = [calls[5][0][0]] * 2
    check(read, calls)


class Holder:
    y = 0.0


def of_a_dict(rows, one):
    one["y"] = 100.0
    return sum([r["y"] for r in rows], 0.0)


def behind_the_rows(rows, one):
    total = sum([r["y"] for r in rows], 0.0)
    one["y"] = total
    return total, sum([r["y"] for r in rows], 0.0)


@pytest.mark.parametrize("fn", [of_a_dict, behind_the_rows])
@pytest.mark.parametrize("alias_first", [True, False])
def test_another_argument_that_is_a_record_in_some_calls(fn, alias_first):
    calls = []
    for at, n in enumerate(LENGTHS * 2):
        rows = records(n)
        calls.append((rows, rows[at % n] if (at % 3 == 0) is alias_first else records(1)[0]))
    check(fn, calls)


def test_the_attributes_of_an_object_that_are_a_record_in_some_calls():
    def fn(rows, holder):
        holder.y = 9.0
        return sum([r["y"] for r in rows], 0.0)

    compiled = dynacomp.jit(fn, backend="eager", options=OPTIONS)
    for at, n in enumerate(LENGTHS * 2):
        found = []
        for run in (fn, compiled):
            holder, rows = Holder(), [{"y": float(i)} for i in range(n)]
            holder.y = 3.0
            rows[1] = vars(holder) if at % 3 == 2 else rows[1]
            found.append(run(rows, holder))
        assert found[0] == found[1], at


def test_a_list_of_lists_one_of_which_is_another_argument_in_some_calls():
    def fn(rows, one):
        one[0] = 9.0
        return jnp.array(rows)

    calls = []
    for at, n in enumerate(LENGTHS * 2):
        rows = [[float(i), 2.0] for i in range(n)]
        calls.append((rows, rows[1] if at % 3 == 2 else [1.0, 2.0]))
    check(fn, calls)


def test_short_lists_have_an_entry_each():
    def fn(rows):
        return sum([r["x"] * r["y"] for r in rows], 0.0)
    captures, breaks = check(fn, [(records(n),) for n in (5, 7, 2, 4, 1, 12, 0, 8, 3, 1, 0, 2)])
    assert captures <= 5 and not breaks
