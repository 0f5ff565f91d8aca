"""JAX's own tests fail through dynacomp only where they fail through jax.jit; see `runner.py`.

They are read from the folder that the variable JAX_TESTS names, and skipped without it.
"""

import os
from pathlib import Path

import pytest

from tests.jax_suite.runner import FILES, grouped, new_failures, outcomes

FOLDER = os.environ.get("JAX_TESTS", "")
SAMPLE = '''
import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest
from jax._src import test_util as jtu
jax.config.parse_flags_with_absl()

class Sample(jtu.JaxTestCase):
    def test_right(self):
        self._CompileAndCheck(lambda x: x + 1, lambda: [jnp.ones(3)])
    def test_wrong(self):
        values = iter(range(99))
        self._CompileAndCheck(lambda x: np.float32(next(values)) + np.asarray(x).sum(), lambda: [jnp.ones(3)])
    def test_skipped(self):
        self.skipTest("not today")
'''


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="JAX_TESTS names no folder of JAX's tests")
@pytest.mark.parametrize("file", FILES)
def test_file(file):
    bad, count = new_failures(Path(FOLDER, file), 3)
    assert count
    assert not bad, grouped(bad)


def test_outcomes_are_read(tmp_path):
    file = tmp_path / "sample_test.py"
    file.write_text(SAMPLE)
    lines = outcomes(file, "dynacomp", 1)
    found = {name.rpartition(".")[2]: line["outcome"] for name, line in lines.items()}
    assert found == {"test_right": "ok", "test_wrong": "fail", "test_skipped": "skip"}, lines
