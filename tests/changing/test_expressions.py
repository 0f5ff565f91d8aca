"""Expressions over sizes and ints do compiled what Python does with its own numbers.

`DYNACOMP_TEST_EXPRESSIONS=20000 DYNACOMP_TEST_SEED=7 pytest tests/changing/test_expressions.py` runs as many
expressions, others than the usual ones; `.ci/run` runs 2,000. A failing function is made small and printed whole.
Most run on the interpreter of Graphs, which needs no compiler; one in a hundred on the backend for the machine.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.changing.expressions import EXPRESSIONS, differs, programs

COUNT = int(os.environ.get("DYNACOMP_TEST_EXPRESSIONS", "600"))
SEED = int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
SHARDS, COMPILED = 4, 100


def search(shard, functions, backend):
    def check(program):
        found = differs(program, backend)
        assert not found, f"\n{program.source}\n{program.calls}\n{found}"

    rules = settings(max_examples=max(1, functions), deadline=None, database=None, print_blob=False,
                     phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
    seeded(SEED * SHARDS + shard)(rules(given(programs())(check)))()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_expressions(shard):
    search(shard, COUNT // SHARDS // EXPRESSIONS, "eager")


@pytest.mark.filterwarnings("ignore")
def test_compiled_expressions():
    search(SHARDS, COUNT // COMPILED, "auto")
