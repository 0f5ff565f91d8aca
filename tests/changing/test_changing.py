"""Functions whose sizes and numbers change do compiled what they do plainly, with few captures.

`make test` runs a sample, the slow tests run all. The sample changes with DYNACOMP_TEST_SEED.
"""

import os

import jax
import jax.numpy as jnp
import pytest

from tests.changing.kit import ENTRIES, Outcome, as_near, load, outcome, unlike
from tests.changing.run import results, whole_lines
from tests.changing.variants import VARIANTS, everything

SEED = int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
EVERY, PART = 240, 60  # one of so many entries is in the sample; so many are one slow test
ALL = everything()


def check(chosen):
    bad = [r for r in results(chosen, "auto") if r.bad]
    assert not bad, "\n".join(map(str, bad))


def test_a_sample():
    check(ALL[SEED % EVERY::EVERY])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(0, len(ALL), PART))
def test_all(part):
    check(ALL[part:part + PART])


def test_there_are_many_and_their_names_differ():
    assert len(ENTRIES) >= 150
    assert len({e.name for e in ALL}) == len(ALL)
    assert {name for e in ENTRIES for name in e.variants} == set(VARIANTS)


@pytest.mark.parametrize("want, got", [(1, 1.0), (1, True), ((1,), [1]), ("a", "b"), ({"a": 1}, {"b": 1}), (1.0, 1.1)])
def test_results_that_differ(want, got):
    assert unlike(Outcome(want, None, ""), Outcome(got, None, ""))
    assert not unlike(Outcome(want, None, ""), Outcome(want, None, ""))


def test_exceptions_and_printed_text_are_compared():
    def fails(text):
        print("before")
        raise ValueError(text)
    assert unlike(outcome(fails, ("a",)), outcome(fails, ("b",)))
    assert not unlike(outcome(fails, ("a",)), outcome(fails, ("a",)))
    assert unlike(outcome(print, ("a",)), outcome(print, ("b",)))


def test_rounding_is_judged_by_64_bits():
    def cancels(x):
        return jnp.sum(jax.nn.softmax(x)) - 1

    x = jnp.arange(4.0)
    right, off, wrong = (Outcome(jnp.float32(v) * jnp.ones(()), None, "") for v in (6e-8, 0.0, 1e-3))
    assert unlike(right, off) and as_near(cancels, (x,), right, off)
    assert not as_near(cancels, (x,), right, wrong) and not as_near(cancels, (x,), right, Outcome(1, None, ""))


def test_a_line_that_is_being_written_is_not_read(tmp_path):
    out = tmp_path / "results"
    for text, lines in (("", []), ('{"name": "a', []), ('{"a": 1}\n{"b"', ['{"a": 1}']), ("1\n2\n", ["1", "2"])):
        out.write_text(text)
        assert whole_lines(out) == lines


def test_every_entry_returns_something_plainly():
    """An entry that always raises would compare nothing."""
    for e in load():
        if e.state is None and e.name.startswith(("numbers", "errors", "python_numbers")):
            assert any(outcome(e.fn, c()).raised is None for c in e.calls), e.name
