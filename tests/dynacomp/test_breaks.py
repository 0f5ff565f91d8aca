"""Every reason for a graph break is a row, and every row is a reason that some code gives."""

import ast
import functools
import pathlib

import pytest

from dynacomp.breaks import REASONS

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = [p for folder in ("capture", "dynacomp") for p in (ROOT / folder).rglob("*.py") if p.name != "breaks.py"]


def texts(path):
    """The texts in a file, and those that are the kind of a Break or GiveUp."""
    words, kinds = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Break", "GiveUp") and (
                node.args and isinstance(node.args[0], ast.Constant)):
            kinds.add(node.args[0].value)
    return words, kinds


@functools.cache
def found():
    return {path: texts(path) for path in SOURCES}


def test_whoever_breaks_gives_a_reason_that_has_a_row():
    kinds = set().union(*(kinds for _, kinds in found().values()))
    assert len(kinds) > 30 and kinds <= REASONS.keys()


def test_every_row_is_given_by_some_code():
    words = set().union(*(words for words, _ in found().values()))
    native = "".join(p.read_text() for p in (ROOT / "capture" / "_native").glob("*.c"))
    assert {kind for kind in REASONS if kind not in words and f'"{kind}"' not in native} == set()


@pytest.mark.parametrize("kind", REASONS)
def test_reasons_are_said_in_plain_words(kind):
    reason = REASONS[kind]
    assert reason.text and not reason.text.endswith(".") and kind.isidentifier()
    assert reason.hint != reason.text and not reason.hint.endswith(".")
