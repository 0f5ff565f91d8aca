"""Programs that generated ones were reduced to, each of which once did something else compiled.

A row is the body of the generator's function `f(x, y, n, box, items, opts)` (see `grammar.HEADER` for
its other variables) and the calls to make of it.
"""

import pytest

from tests.corpus.differ import differs
from tests.corpus.generator import Call, Generated, in_module

ONE, SIZES = (Call(),), (Call(size=3), Call(size=2), Call(size=4))

FOUND = {
    "only the shape of an argument is used": ("return jnp.ones(x.shape)", SIZES),
    "iteration over a class": ("return sorted(set)", ONE),
    "iteration over a class in a generator": ("return list(q for q in range)", ONE),
    "iteration over a class with __iter__": ("return [q.name for q in Color]", ONE),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    body, calls = FOUND[name]
    program = Generated(in_module(body), calls)
    assert not differs(program), f"\n{program.source}\n{differs(program)}"
