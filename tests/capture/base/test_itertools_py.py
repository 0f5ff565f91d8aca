"""The iterators of itertools in Python: the same items, the same steps of what they go through."""

import itertools

import pytest

from dynacomp.capture.base.itertools_py import CLASSES, EQUIVALENTS

CALLS = {
    itertools.zip_longest: [((range(3), "ab"), {}), (("", "xyz", [1]), {"fillvalue": 0}), ((), {})],
    itertools.starmap: [((pow, [(2, 5), (3, 2)]), {}), ((max, [range(3)]), {})],
    itertools.compress: [(("ABCDEF", [1, 0, 1, 0, 1, 1]), {}), (("AB", [1]), {}), (("A", [1, 1]), {})],
    itertools.takewhile: [((lambda x: x < 3, [1, 2, 5, 1]), {}), ((bool, []), {})],
    itertools.dropwhile: [((lambda x: x < 3, [1, 2, 5, 1]), {}), ((bool, [1, 2]), {})],
    itertools.filterfalse: [((None, [0, 1, "", 2]), {}), ((lambda x: x % 2, range(6)), {})],
    itertools.chain.from_iterable: [(([[1], (), "ab"],), {})],
    itertools.cycle: [((range(3),), {}), (([],), {})],
    itertools.accumulate: [((range(5),), {}), (([],), {}), (([2, 3], max), {"initial": 7}), (([],), {"initial": 1})],
    itertools.groupby: [(("aabcca",), {}), (([1, 3, 2],), {"key": lambda x: x % 2}), (("",), {})],
    itertools.tee: [((range(3),), {}), (("ab", 3), {}), (("ab", 0), {})],
}


class Logged:
    """Notes when its items are asked for."""

    def __init__(self, items, log):
        self.items, self.log = iter(items), log

    def __iter__(self):
        return self

    def __next__(self):
        self.log.append("asked")
        return next(self.items)


def items(found, depth=0):
    """The first items of an iterator of (iterators of) them."""
    if depth < 3 and (isinstance(found, tuple) or hasattr(found, "__next__")):
        return [items(x, depth + 1) for x in itertools.islice(found, 8)]
    return found


def watched(fn, args, kwargs):
    log = []
    given = [Logged(a, log) if isinstance(a, (range, list, str)) else a for a in args]
    return items(fn(*given, **kwargs)), len(log)


def test_every_equivalent_is_tried():
    assert CALLS.keys() == EQUIVALENTS.keys()


@pytest.mark.parametrize(("fn", "args", "kwargs"), [(fn, *call) for fn, calls in CALLS.items() for call in calls],
                         ids=lambda x: getattr(x, "__name__", None))
def test_the_items_are_those_of_c_and_no_more_is_taken(fn, args, kwargs):
    assert watched(EQUIVALENTS[fn], args, kwargs) == watched(fn, args, kwargs)


def test_groups_that_are_left_early_and_late():
    for group in (itertools.groupby, EQUIVALENTS[itertools.groupby]):
        pairs = list(group("aabbb"))
        assert [(key, list(found)) for key, found in pairs] == [("a", []), ("b", [])]
        assert [(key, next(found)) for key, found in group("aab")] == [("a", "a"), ("b", "b")]


def test_a_group_ends_with_the_next_one_also_where_its_key_comes_again():
    for group in (itertools.groupby, EQUIVALENTS[itertools.groupby]):
        found = group("aba")
        (_, first), _, (key, third) = (next(found) for _ in range(3))
        assert key == "a" and list(first) == [] and list(third) == ["a"]


def test_keys_are_compared_as_containers_do():
    nan = float("nan")
    for group in (itertools.groupby, EQUIVALENTS[itertools.groupby]):
        assert [len(list(found)) for _, found in group([nan, nan, float("nan"), 1])] == [2, 1, 1]


def test_a_negative_number_of_branches_is_refused():
    for tee in (itertools.tee, EQUIVALENTS[itertools.tee]):
        with pytest.raises(ValueError, match="n must be >= 0"):
            tee("ab", -1)


def test_each_generator_is_known_as_the_class_that_it_stands_for():
    assert {itertools.groupby, itertools.cycle, itertools.accumulate} <= set(CLASSES.values())
    assert CLASSES[EQUIVALENTS[itertools.starmap].__code__] is itertools.starmap
