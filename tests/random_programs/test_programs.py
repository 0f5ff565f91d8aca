"""Random programs do compiled what they do plainly, in ten calls with other numbers, texts and sizes.

`DYNACOMP_TEST_RANDOM=5000 DYNACOMP_TEST_SEED=7 pytest -m slow tests/random_programs` runs as many programs, others
than the usual ones. A program that differs is made small, and printed with its seed.
"""

import os

import jax
import pytest

from tests.random_programs.programs import differs, drawn, smallest

COUNT = int(os.environ.get("DYNACOMP_TEST_RANDOM", "300"))
SEED = int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
SHARDS = 10


def search(seeds, **options):
    """Fails for the first program that differs."""
    for seed in seeds:
        program = drawn(seed)
        if differs(program, **options):
            small = smallest(program, lambda less: differs(less, **options))
            pytest.fail(f"seed {seed}:\n{small.source}\n{differs(small, **options)}", pytrace=False)
    jax.clear_caches()


def seeds(shard, count):
    first = (SEED * SHARDS + shard) * 1_000_000
    return range(first, first + count)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_programs(shard):
    search(seeds(shard, COUNT // SHARDS), backend="eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_programs():
    search(seeds(SHARDS, max(1, COUNT // 20)))


@pytest.mark.filterwarnings("ignore")
def test_a_few_programs():
    search(seeds(SHARDS + 1, 3), backend="eager")


def test_a_program_is_drawn_again_by_its_seed_and_made_small():
    program = drawn(12)
    assert drawn(12) == program != drawn(13) and len(program.calls) == 10
    small = smallest(program, lambda less: "x * s" in less.result)
    assert (small.statements, small.result, small.calls) == ((), ("x * s",), ())
    assert not differs(small)
