"""`calls.cache_layout`: the fields of CPython's cached functions are found, and are what they are taken for."""

import functools

from dynacomp.capture.calls.cache_layout import CACHE, FUNCTION, HITS, MARK, MISSES, RESULT


def test_what_lies_in_a_wrapper():
    wrapper = functools.lru_cache(maxsize=4)(lambda *args, **kwargs: [args, kwargs])
    made = [wrapper(1), wrapper(2, name=3), wrapper(1)]
    assert FUNCTION.__get__(wrapper) is wrapper.__wrapped__
    assert (HITS.__get__(wrapper), MISSES.__get__(wrapper)) == wrapper.cache_info()[:2] == (1, 2)
    table = CACHE.__get__(wrapper)
    assert list(table) == [1, (2, MARK, "name", 3)]
    assert [RESULT.__get__(link) for link in table.values()] == made[:2]


def test_what_may_be_set():
    wrapper = functools.cache(abs)
    FUNCTION.__set__(wrapper, len)
    HITS.__set__(wrapper, 5)
    assert wrapper("abc") == 3 and wrapper.cache_info()[:2] == (5, 1)
