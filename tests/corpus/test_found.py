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
    "a list that is extended by a generator which appends to it": (
        "def g():\n    seen.append(1)\n    yield 2\n    seen.append(3)\nseen.extend(g())\nseen += g()\n"
        "return seen", ONE),
    "a dict that is updated by a generator which reads it": (
        "table.update((k, len(table)) for k in range(3))\nreturn table", ONE),
    "a set that is updated by a generator which reads it": ("log.update(len(log) for k in range(3))\nreturn log", ONE),
    "a bounded deque that grows in place": ("queue += [5, 6, 7]\nreturn queue", ONE),
    "an extension that fails half-way": (
        "try:\n    seen.extend(1 // k for k in (1, 0))\nexcept ZeroDivisionError:\n    return seen", ONE),
    "the name of a function whose graph breaks": (
        "print(1)\nreturn __import__('sys')._getframe().f_code.co_qualname", ONE),
    "a range in a zip whose place is an array's": (
        "i = 0\ni = 0\ni = 0\ni = 0\ni = 0\n"
        "for k, q in zip(range(3), items):\n    if jnp.sum(z) > 0:\n        items[:] = items[-3:]\n    else:\n"
        "        NAMES.append(s)\n        try:\n            try:\n                raise Custom('c', i)\n"
        "            finally:\n                i, j = j, i\n        except ValueError as e:\n"
        "            seen.append(e.args)\nreturn x, z, i, j, items, seen", (Call(), Call())),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    body, calls = FOUND[name]
    program = Generated(in_module(body), calls)
    assert not differs(program), f"\n{program.source}\n{differs(program)}"
