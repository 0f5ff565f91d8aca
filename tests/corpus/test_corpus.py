"""Every program of the corpus does compiled what it does plainly, with no more breaks than it says."""

import pytest

from tests.corpus.kit import check, differences, load

PROGRAMS = load()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program(program):
    found = differences(program, check(program))
    assert not found, "\n".join(found)


def test_the_corpus_is_broad():
    assert len(PROGRAMS) >= 150
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS)
