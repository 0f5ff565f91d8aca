"""Random programs do compiled what eager JAX does: values, dtypes, exceptions, for several lengths, and gradients.

`DYNACOMP_TEST_PROGRAMS=500 DYNACOMP_TEST_SEED=7 pytest tests/lowering/test_random_programs.py -m ""` runs as many,
others than the usual ones. A program that fails is made small and printed.
"""

import os
from dataclasses import replace

import pytest

from tests.lowering.random_programs import difference, draw, slopes, smaller

COUNT = int(os.environ.get("DYNACOMP_TEST_PROGRAMS", "100"))
SEED = 10_000 * int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
SIZED, FEW = 3, 1  # programs of the quick tests


def check(program, differs):
    if differs(program):
        small = smaller(program, differs)
        pytest.fail(f"{small.source}{small.calls}\n{differs(small)}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(SIZED))
def test_programs(seed):
    check(draw(SEED + seed, lines=8), difference)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(FEW))
def test_gradients(seed):
    program = draw(SEED + seed, lines=4, calls=1)
    check(replace(program, outputs=tuple(name for name, _ in program.lines)), slopes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_programs():
    for seed in range(SIZED, COUNT):
        check(draw(SEED + seed, lines=20), difference)
        check(draw(SEED + seed, lines=5, calls=1), slopes)
