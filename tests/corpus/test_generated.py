"""Programs made by Hypothesis do compiled what they do plainly: result, exception, heap, printed text.

`DYNACOMP_TEST_PROGRAMS=20000 DYNACOMP_TEST_SEED=7 pytest -n 2 tests/corpus/test_generated.py` runs as
many, others than the usual ones; `.ci/run` runs 2,000. A failing program is made small and printed whole.
They run on the interpreter of Graphs, which computes the same bits as eager JAX.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.corpus.differ import differs
from tests.corpus.generator import programs

COUNT = int(os.environ.get("DYNACOMP_TEST_PROGRAMS", "600"))
SEED = int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
SHARDS = 8


def check(program):
    found = differs(program)
    assert not found, f"\n{program.source}\n{found}"


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_generated_programs(shard):
    rules = settings(max_examples=COUNT // SHARDS, deadline=None, database=None, print_blob=False,
                     phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
    seeded(SEED * SHARDS + shard)(rules(given(programs())(check)))()
