"""Iterators and generators that live on across a print: what follows goes on with them, in its own graph."""

from __future__ import annotations

import contextlib

import jax.numpy as jnp

from tests.corpus.kit import program


def batches(x, n=5, size=2):
    for k in range(n):
        yield x[:size] + k, k


@program(breaks={"effect": 3})
def a_loop_that_trains(x):
    w, seen = jnp.ones(2), []
    for i, (batch, k) in enumerate(batches(x, 12)):
        w = w * 0.5 + batch
        print(i, k)
        seen.append((i, k, float(w.sum())))
    return w, seen


@program(breaks={"effect": 2, "rounds": 2})  # 40, 36, 26, 16 rounds are to go
def a_loop_that_prints_now_and_then(x):
    for k in range(40):
        x = jnp.sin(x * k)
        if k % 10 == 3:
            print(k)
    return x


@program(breaks={"effect": 3})
def zipped(x):
    out = []
    for a, (b, k), c in zip([1, 2, 3, 4], batches(x), range(10, 0, -3)):
        print(a, c)
        out.append(b * a + c + k)
    return out


@program(breaks={"effect": 2})
def of_all_kinds(x):
    out = []
    for a, b, c, d in zip({3, 1, 2}, reversed([4, 5, 6]), "xyz", range(1, 1000, 300)):
        print(a, b, c, d)
        out.append(x * a + b + d)
    return out


@program(breaks={"effect": 4}, hits=False)
def mapped_and_filtered(x):
    out = []
    for a in map(lambda v: v * x, [1, 2, 3]):
        print("m")
        out.append(a)
    for a in filter(lambda v: v != 2, [1, 2, 3]):
        print("f", a)
        out.append(a * x)
    return out


@program(breaks={"effect": 2})
def counted_from_five(x):
    counting = enumerate([x, x + 1, x + 2, x + 3], start=5)
    print("made")
    i, a = next(counting)
    print(i)
    return i, a, list(counting), next(counting, None)


@program(breaks={"effect": 2})
def ended_stays_ended(x):
    items = [1, 2]
    it = iter(items)
    print("made")
    for v in it:
        x = x + v
    print("ended")
    items.append(3)
    return x, list(it), items


@program(breaks={"effect": 3}, hits=False)  # after four rounds Python goes on; the third call is served
def over_a_list_that_grows(x):
    items = [1, 2, 3]
    for v in items:
        print(v)
        if len(items) < 6:
            items.append(v * 10)
        x = x + v
    return x, items


@program(breaks={"effect": 4})
def over_a_dict_that_grows(x):
    table = {"a": 1, "b": 2, "c": 3}
    for k, v in table.items():
        print(k)
        x = x + v
    try:
        for k in table:
            print(k)
            table[k + "z"] = 1
    except RuntimeError as error:
        print(error)
    return x, table


@program(breaks={"effect": 2, "iterator": 1})
def over_a_dict_that_grew_for_a_while(x):
    table, out = {"a": 1, "b": 2, "c": 3}, []
    shown = iter(table)
    print(next(shown))
    table["d"] = 4
    for it in (shown, shown):
        try:
            out.append(next(it))
        except RuntimeError as error:
            out.append(str(error))
    print(out)
    del table["d"]
    try:
        out.append(next(shown))
    except RuntimeError as error:
        out.append(str(error))
    return x, table, out


@program(breaks={"effect": 7, "iterator": 1, "rounds": 1})
def over_a_dict_whose_values_change(x):
    table, out = {"a": 1, "b": x, "c": 3}, []
    for k, v in table.items():
        print(k)
        table["c"] = table[k] = v * 2
        out.append(v)
    for k in table:
        print(k)
        table[k] = table[k] + x
    for k in table:
        if k == "b":
            print(k)
            table["c"] = table.pop("c") + 1  # it stands where it will be found again
            out.append(k)
        if len(out) > 9:
            break
    return x, table, out


@program(breaks={"effect": 1})
def not_started(x):
    made = batches(x)
    print("made")
    return [b * k for b, k in made], next(made, "ended")


@program(breaks={"effect": 4})
def taken_in_pairs(x):
    made, out = batches(x, 8), []
    print("made")
    for (a, _), (b, _) in zip(made, made):
        print("pair")
        out.append(a - b)
    return out


def talking(x):
    def inner():
        got = yield 1
        print("got", got)
        try:
            got = yield 2
        except ValueError as error:
            print("caught", error)
            got = yield 33
        return got

    found = yield from inner()
    print("found", found)
    yield found * x


@program(breaks={"effect": 10})
def sent_and_thrown_through_a_delegate(x):
    made = talking(x)
    a = next(made)
    print("a")
    b = made.send(5)
    print("b")
    c = made.throw(ValueError("v"))
    print("c")
    d = made.send(7)
    print("d")
    return a, b, c, d, list(made)


class Base:
    def __init__(self, x):
        self.x = x
        self.n = 0

    def rows(self):
        yield self.x


class Derived(Base):
    def rows(self):
        for v in super().rows():
            self.n += 1
            yield v * 2
            self.n += 1
            yield v * 3


@program(breaks={"effect": 3})
def kept_by_an_object(x):
    owner = Derived(x)
    owner.it = owner.rows()
    print("made")
    a = next(owner.it)
    print(owner.n)
    b = next(owner.it)
    print(owner.n)
    return a, b, list(owner.it), owner.n


@program(breaks={"effect": 3})
def with_cells_of_its_own(x):
    total, acc, out = [0], x, []

    def rows():
        nonlocal acc
        for k in range(4):
            acc = acc + k
            total[0] += 1
            yield acc

    for v in rows():
        print(total)
        out.append(v + acc)
    return out, acc, total


@program(breaks={"effect": 4})
def while_handling(x):
    def rows():
        try:
            raise KeyError("a")
        except KeyError as error:
            yield x
            print("still", error)
            yield x + 1

    it = rows()
    a = next(it)
    print("between")
    b = next(it)
    print("after")
    return a, b, list(it)


def closing(log, x):
    try:
        yield x
        yield x + 1
    finally:
        log.append("closed")


@program
def left_by_break(x):
    log = []
    for v in closing(log, x):
        break
    log.append("left")
    return v, log


@program(breaks={"effect": 2}, eager=("raises",))
def left_by_break_after_a_print(x):
    log = []
    for v in closing(log, x):
        print("inside")
        break
    log.append("left")
    return v, log


@program
def dropped_inside_a_zip(x):
    log = []
    pairs = list(zip(closing(log, x), [1]))
    log.append("zipped")
    return pairs, log


@program
def dropped_with_its_frame(x):
    log = []

    def first(x):
        made = closing(log, x)
        return next(made)

    y = first(x)
    log.append("returned")
    return y, log


@contextlib.contextmanager
def noted(log, x):
    log.append("enter")
    try:
        yield x * 2
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("exit")


@program(breaks={"effect": 3})
def contexts_inside_each_other(x):
    log = []
    with noted(log, x) as a, noted(log, a) as b:
        print(log)
        c = a + b
        with noted(log, c) as d:
            print("inner")
            raise ValueError("left")
        print("after")
    return c, d, log


def counted(x):
    total = 0

    def add(v):
        nonlocal total
        total += v
        return total

    for k in range(3):
        add(k)
        yield x + total, add


def through(items):
    for item in items:
        yield item


@program(breaks={"effect": 1})
def with_cells_in_an_inner_one(x):
    it = through(counted(x))
    print("made")
    got = list(it)
    return [g[0] for g in got], got[-1][1](10)


@program(breaks={"effect": 1})
def with_cells_in_an_inner_one_that_began(x):
    it = through(counted(x))
    first = next(it)
    print("began")
    return [first[0], *[g[0] for g in it]], first[1](5), first[1].__closure__[0].cell_contents
