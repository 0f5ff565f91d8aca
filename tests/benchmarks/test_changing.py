"""benchmarks/changing.py and lengths.py: failures are seen, rows are right, bars decide the exit status."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.changing.kit import Entry, Result, one_vector, run, vec
from tests.changing.run import ending, results
from tests.changing.variants import with_break

ROOT = Path(__file__).parents[2]


def benchmark(name, *arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_an_entry_that_is_right(tmp_path):
    done = benchmark("changing.py", "--filter", "numbers.size_in_where", "--variants", "base",
                     "--json", str(tmp_path / "all"))
    line, = (tmp_path / "all").read_text().splitlines()
    assert json.loads(line)["wrong"] == "" and json.loads(line)["captures"] <= 3
    assert done.stdout.splitlines()[-1].startswith("1 entries, 0 wrong, 0 crashes")


@pytest.mark.slow
def test_lengths_prints_a_row():
    done = benchmark("lengths.py", "--lengths", "2", "--only", "forward", "--compare", "")
    assert "forward" in done.stdout and "1 programs" in done.stdout, done.stderr


def entry(fn, **more):
    return Entry("made", fn, tuple(functools.partial(one_vector, n) for n in (2, 3)), **more)


def test_a_wrong_answer_is_found():
    answers = iter(range(9))
    assert "plain" in run(entry(lambda x: next(answers)), "eager").wrong


def test_plain_python_and_captures_are_counted():
    assert Result("r", plain={"limit": 1}).bad and Result("r", captures=4).many
    assert not Result("r", captures=6, codes=2).bad


def test_a_process_that_dies_is_a_crash():
    assert ending(-8) == "SIGFPE" and ending(1) == "exit status 1"


def test_a_break_prints_half_way(capsys):
    assert with_break(vec)(3).shape == (3,)
    assert capsys.readouterr().out == "half way\n"


def test_results_come_in_order():
    assert results([], "eager") == []
