"""JAX's own tests fail through dynacomp only where they fail through jax.jit; see `runner.py`.

They are read from the folder that the variable JAX_TESTS names, and skipped without it.
"""

import os
import unittest
from pathlib import Path

import pytest

from tests.jax_suite.child import named
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

ADDRESSES = '''
import jax
import jax.numpy as jnp
from absl.testing import parameterized
from jax._src import test_util as jtu
jax.config.parse_flags_with_absl()

class Fails:
    def __call__(self, x):
        raise ValueError("in each compiler")

class Sample(jtu.JaxTestCase):
    @parameterized.named_parameters((f"_{i}_{fun}", fun) for i, fun in enumerate([Fails(), Fails()]))
    def test_names(self, fun):
        self._CompileAndCheck(fun, lambda: [jnp.ones(3)])
    @parameterized.parameters([Fails(), Fails()])
    def test_ids(self, fun):
        self._CompileAndCheck(fun, lambda: [jnp.ones(3)])
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


@pytest.mark.parametrize("replace", [False, True])
def test_what_fails_through_jax_too_is_excused_where_names_of_tests_hold_addresses(tmp_path, replace):
    file = tmp_path / "sample_test.py"
    file.write_text(ADDRESSES)
    assert new_failures(file, 1, replace) == ({}, 4)


def test_tests_of_one_name_are_told_apart():
    tests = [unittest.FunctionTestCase(print) for _ in range(3)]
    for test, name in zip(tests, ("a 0x7f01", "a 0x7f02", "b")):
        test.id = lambda name=name: f"module.{name}"
    assert [name for name, _ in named(tests)] == ["a 0x", "a 0x #2", "b"]
