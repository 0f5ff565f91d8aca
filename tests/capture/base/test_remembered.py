"""`remembered`: computed once, by identity, and nothing kept alive."""

import gc
import weakref

from dynacomp.capture.base.remembered import remembered


class Meta(type):
    def __hash__(cls):
        raise AssertionError("user code")

    __eq__ = __hash__


def test_once_by_identity_without_user_code():
    asked = []
    length = remembered(lambda cls: asked.append(cls) or len(cls.__name__))
    first, second = Meta("A", (), {}), Meta("AB", (), {})
    assert [length(c) for c in (first, second, first, second)] == [1, 2, 1, 2] and len(asked) == 2


def test_nothing_is_kept_alive_and_ids_are_used_again():
    name = remembered(lambda cls: cls.__name__)
    for n in range(200):
        cls = type(f"C{n}", (), {})
        assert name(cls) == f"C{n}"
        gone = weakref.ref(cls)
        del cls
        gc.collect(0) if n % 50 else gc.collect()
    gc.collect()
    assert gone() is None


def test_objects_without_weak_references():
    double = remembered(lambda n: n * 2)
    assert [double(3), double(3), double(10**30)] == [6, 6, 2 * 10**30]
