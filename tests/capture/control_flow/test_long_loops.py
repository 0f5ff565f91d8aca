"""Long Python loops without arrays are left to Python: capturing them takes no longer than a short one."""

import time

import pytest

import dynacomp


def numbers(n):
    table = {}
    for i in range(n):
        for j in range(n):
            table[i, j] = i * j
    k = 0
    while k < n * n:
        k += 1
    return len(table), k


@pytest.mark.medium
def test_a_loop_of_numbers_is_not_unrolled():
    compiled = dynacomp.jit(numbers)
    began = time.process_time()
    assert compiled(400) == numbers(400)
    assert time.process_time() - began < 8
    assert "long_loop" in dynacomp.stats()["breaks"]


def test_a_short_one_vanishes():
    before = dict(dynacomp.stats()["breaks"])
    assert dynacomp.jit(numbers)(10) == numbers(10)
    assert dynacomp.stats()["breaks"] == before
