"""What replacement code does to lists that exist: to the elements that moved, and to no others."""

import dynacomp
import pytest
from dynacomp.capture.frame import capture


def at(place, change):
    return lambda xs: (xs[place], change(xs))[0]


CHANGES = {
    "append": at(0, lambda xs: xs.append(7)),
    "pop": lambda xs: xs.pop(),
    "pop first": lambda xs: xs.pop(0),
    "insert": at(0, lambda xs: xs.insert(2, "new")),
    "store": at(1, lambda xs: xs.__setitem__(1, "new")),
    "swap": at(1, lambda xs: xs.__setitem__(slice(0, 2), [xs[1], xs[0]])),
    "same": at(1, lambda xs: xs.__setitem__(1, xs[1])),
    "reverse": at(1, lambda xs: xs.reverse()),
    "delete": at(1, lambda xs: xs.__delitem__(slice(1, 3))),
    "rotate": at(1, lambda xs: xs.insert(0, xs.pop())),
    "clear": at(1, lambda xs: xs.clear()),
    "double": at(1, lambda xs: xs.extend(xs)),
    "repeat the last": at(-1, lambda xs: xs.append(xs[-1])),
    "repeat the first": at(0, lambda xs: xs.insert(0, xs[0])),
    "twice the same": at(0, lambda xs: (xs.pop(), xs.append(5), xs.pop(0), xs.insert(0, 6))),
}


class Stack(list):
    pass


@pytest.mark.parametrize("kind", [list, Stack])
@pytest.mark.parametrize("name", CHANGES)
def test_lists_are_changed_as_python_changes_them(name, kind):
    change = CHANGES[name]
    made = [object() for _ in range(4)]
    compiled = dynacomp.jit(change, backend="eager")
    for content in (made, [1, 2, 1, 2], [1, 1, 1, 1]):
        ours, plain = kind(content), kind(content)
        assert compiled(ours) == change(plain)
        assert len(ours) == len(plain) and all(a is b for a, b in zip(ours, plain))


def test_a_long_list_of_which_one_element_changes_costs_little():
    def program(xs):
        xs[500], xs[502] = xs[502], "new"

    found = capture(program, program.__code__, (list(range(1000)),), None, lambda s, a, n, x: False)
    assert len(found.entry.fn_code.co_code) < 4000
    ours, plain = list(range(1000)), list(range(1000))
    dynacomp.jit(program, backend="eager")(ours)
    program(plain)
    assert ours == plain
