"""Opcodes of generators, in one graph."""

import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


def generators(x):
    def counted(n):
        try:
            for k in range(n):
                sent = yield k
                if sent is not None:
                    yield sent * 2
        finally:
            log.append("closed")
        return "end"

    def outer():
        result = yield from counted(2)
        yield result

    log = []
    running = counted(3)
    found = [next(running), running.send(x), next(running)]
    running.close()
    return list(outer()), found, log, sum(k for k in counted(4)), [*counted(2)]


def test_one_graph():
    check_one_graph(generators, (X,), (X + 1,))


def ended_twice(x, n):
    def counted():
        yield from range(n)
        return "end"

    log, running = [], counted()
    log.append(next(running, None))
    for _ in range(2):
        try:
            log.append(running.send(None))
        except StopIteration as stop:
            log.append(stop.value)

    def delegating(it):
        log.append((yield from it))

    return x, log, list(delegating(running)), list(delegating(counted())), log


def test_what_a_generator_returned_is_told_once():
    check_one_graph(ended_twice, (X, 0), (X, 1), (X, 2), captures=3)
