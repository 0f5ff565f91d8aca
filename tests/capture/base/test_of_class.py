"""`of_class`: its order, its laziness."""

from dynacomp.capture.base.of_class import of_class


def test_in_their_order_subclasses_too_and_one_after_the_other():
    assert list(of_class(int, [3, "a", 2.5, True, 1])) == [3, True, 1]
    endless = iter(lambda: 1, 2)
    assert next(of_class(int, endless)) == 1 and not list(of_class(str, (1, 2)))
