"""Generators that captured code goes on with: what the program can do to them in between."""

import gc
import threading
import weakref

import jax.numpy as jnp
import pytest

import dynacomp


def rows(x, n):
    for k in range(n):
        yield x * k


class Holder:
    pass


def carrying(holder, x):
    y = yield holder
    yield x + y


@dynacomp.jit
def begun(x):
    made = rows(x, 6)
    first = next(made)
    print(end="")
    return first, made


@dynacomp.jit
def two_more(made):
    return next(made) + next(made)


def test_it_is_a_generator_for_python_and_for_other_functions():
    x = jnp.arange(3.0)
    first, made = begun(x)
    assert made.__name__ == "rows" and made.__qualname__ == "rows" and made.gi_frame is not None
    assert jnp.array_equal(next(made), x)
    assert jnp.array_equal(two_more(made), 5 * x)
    before = dynacomp.stats()["frames_captured"]
    _, again = begun(x)
    next(again)
    assert jnp.array_equal(two_more(again), 5 * x)
    assert dynacomp.stats()["frames_captured"] == before
    assert [float(v[1]) for v in made] == [4.0, 5.0]
    with pytest.raises(StopIteration):
        two_more(made)


def test_one_that_python_made_is_another():
    def plain():
        yield from (jnp.ones(2), jnp.ones(2) * 3)

    assert jnp.array_equal(two_more(plain()), jnp.full(2, 4.0))
    assert jnp.array_equal(two_more(iter([jnp.ones(2), jnp.ones(2)])), jnp.full(2, 2.0))


@pytest.mark.medium
def test_it_keeps_nothing_alive_and_lives_as_long_as_it_must():
    @dynacomp.jit
    def make(holder, x):
        made = carrying(holder, x)
        next(made)
        print(end="")
        return made

    holder = Holder()
    gone = weakref.ref(holder)
    made = make(holder, jnp.ones(2))
    del holder
    gc.collect()
    assert gone() is not None
    assert jnp.array_equal(made.send(2.0), jnp.full(2, 3.0))
    del made
    gc.collect()
    assert gone() is None


def test_after_a_reset():
    x = jnp.arange(3.0)
    first, made = begun(x)
    dynacomp.reset()
    assert jnp.array_equal(two_more(made), 3 * x)
    dynacomp.reset()
    assert [float(v[1]) for v in made] == [3.0, 4.0, 5.0]
    first, made = begun(x)
    assert jnp.array_equal(two_more(made), 3 * x)


def test_an_exception_in_the_middle_ends_it():
    def failing(x):
        yield x
        raise KeyError("inside")

    @dynacomp.jit
    def ask(made):
        try:
            return next(made)
        except KeyError as error:
            return error.args

    @dynacomp.jit
    def make(x):
        made = failing(x)
        next(made)
        print(end="")
        return made

    made = make(jnp.ones(2))
    assert ask(made) == ("inside",)
    assert list(made) == []


ROUND: list = []
ROUND.append(ROUND)  # the walk for what can still be found does not go into the program's own objects


def test_what_is_dropped_leads_nowhere_near_the_globals():
    @dynacomp.jit
    def use(x):
        async def waiting():
            return x + len(ROUND)

        made = waiting()
        twice = [(lambda: x)() for _ in range(2)]
        try:
            made.send(None)
        except StopIteration as stop:
            return stop.value + sum(twice)

    assert jnp.array_equal(use(jnp.ones(2)), jnp.full(2, 4.0))


def test_threads_have_their_own():
    x, found = jnp.arange(3.0), []

    def work(n):
        for _ in range(20):
            first, made = begun(x * n)
            found.append(float(two_more(made)[1]) == 3.0 * n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80 and all(found)


def test_a_generator_at_ever_other_places_goes_on():
    def tree(x, depth):
        if depth:
            yield from tree(x * 2, depth - 1)
            yield x
            yield from tree(x * 3, depth - 1)
        else:
            yield x + 0.5

    def walk(x):
        out = []
        for v in tree(x, 4):
            print(end="")
            out.append(v)
        return out

    plain = walk(jnp.ones(2))
    for _ in range(2):
        made = dynacomp.jit(walk)(jnp.ones(2))
        assert [v.tolist() for v in made] == [v.tolist() for v in plain]


def test_its_list_is_the_one_that_the_code_changes():
    """A guard keeps apart the list that an iterator goes through and one that is changed before the next item."""
    @dynacomp.jit
    def change_and_take(items, it):
        items[0] = items[0] + 1
        return next(it)

    a, b = [jnp.ones(2), jnp.ones(2)], [jnp.zeros(2)]
    assert jnp.array_equal(change_and_take(a, iter(b)), jnp.zeros(2))
    assert jnp.array_equal(change_and_take(b, iter(b)), jnp.ones(2))
    assert jnp.array_equal(change_and_take(a, iter(b)), jnp.ones(2))
