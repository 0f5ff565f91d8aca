"""Programs made by Hypothesis do compiled what they do plainly: result, exception, heap, printed text.

`DYNACOMP_TEST_PROGRAMS=2000 pytest -n 2 tests/corpus/test_generated.py` runs as many, as CI does; the
default is fewer. A failing program is made small and printed whole.
"""

import itertools
import linecache
import os

import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded

import dynacomp
from dynacomp.capture import frame
from tests.corpus.generator import programs
from tests.corpus.heap import describe

COUNT = int(os.environ.get("DYNACOMP_TEST_PROGRAMS", "160"))
SHARDS = 4
_SERIAL = itertools.count()


class Custom(Exception):
    def __init__(self, text, code):
        super().__init__(text, code)
        self.code = code


class Box:
    def __init__(self, value):
        self.value, self.count, self.name, self.kids = value, 3, "a", []


class Noting:
    def __init__(self, seen, swallow):
        self.seen, self.swallow = seen, swallow

    def __enter__(self):
        self.seen.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.seen.append(kind and kind.__name__)
        return self.swallow and kind is ValueError


def helper(a, b):
    return a * 2 if isinstance(b, int) else a + b


def count(n):
    k = 0
    while k < n:
        yield k
        k += 1


def function(source):
    """`f` of a generated source, in a file that tracebacks can show."""
    name = f"generated_{next(_SERIAL)}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"jnp": jnp, "Custom": Custom, "Box": Box, "Noting": Noting, "helper": helper, "count": count,
             "__name__": "generated"}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


def outcome(f, seed, n):
    """What a call does: its exception, and the heap of arguments and result."""
    x = jnp.asarray([seed, 1.0, 2.0], jnp.float32)
    args = (x, x + 1, n, Box(x * 2), [n, 1])
    raised = result = None
    try:
        result = f(*args)
    except Exception as error:
        raised = error
    return describe(args, result, raised)


def differs(program):
    """The first call whose outcome differs, or None."""
    dynacomp.reset()
    frame.strict_errors = True
    f = function(program.source)
    compiled = dynacomp.jit(f, backend="eager")
    for seed, n in program.calls:
        for attempt in ("cold", "hit"):
            plain, got = outcome(f, seed, n), outcome(compiled, seed, n)
            if plain != got:
                return attempt, (seed, n), [p for p in plain if p not in got], [g for g in got if g not in plain]
    return None


def check(program):
    found = differs(program)
    assert found is None, f"{program.source}\n{found[0]} call f{found[1]}:\nplain    {found[2]}\ncompiled {found[3]}"


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_generated_programs(shard):
    rules = settings(max_examples=COUNT // SHARDS, deadline=None, database=None, print_blob=False,
                     suppress_health_check=list(HealthCheck))
    seeded(shard)(rules(given(programs())(check)))()
