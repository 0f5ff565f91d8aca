"""`tracing.rebuilt`: copies with other contents, made without running code of what they copy."""

import pytest

from dynacomp.capture.hosting.rebuilt import OfClass, WithAttributes, WithCells, WithFields


class Watched:
    def __init__(self, rate):
        self.rate = rate

    def __setattr__(self, name, value):
        if name != "rate" or "rate" in vars(self):
            raise AssertionError("code of the class runs")
        object.__setattr__(self, name, value)

    __copy__ = __reduce_ex__ = None


def counter(step, scale):
    def count(x, by=10, *, more=100):
        return x * step + scale + by + more
    return count


def test_a_function_with_other_cells():
    fn = counter(2, 3)
    fn.__kwdefaults__["more"] = 200
    scale = fn.__code__.co_freevars.index("scale")
    made = WithCells(fn, (scale,))(50)
    assert made(1) == 1 * 2 + 50 + 10 + 200 and fn(1) == 1 * 2 + 3 + 10 + 200
    assert WithCells(fn, ()).__name__ == "count" and WithCells(lambda x: x, ())()(4) == 4


def test_an_object_with_other_attributes():
    obj = Watched(1)
    made = WithAttributes(obj, ("rate",))(2)
    assert type(made) is Watched and (made.rate, obj.rate) == (2, 1)
    with pytest.raises(AssertionError):
        made.rate = 3


def test_an_object_of_its_fields():
    make = WithFields(Watched, ("rate", "other"))
    assert vars(make(1, 2)) == {"rate": 1, "other": 2} and make.__name__ == "Watched"


def test_an_instance_of_a_builtin_class_is_made_without_its_code():
    class Loud(list):
        def __init__(self, *args):
            raise AssertionError("its code ran")

    class Level(int):
        pass

    made = OfClass(Loud)([1, 2])
    assert type(made) is Loud and made == [1, 2] and OfClass(Level)(3) == 3 and OfClass(Loud).__name__ == "Loud"
