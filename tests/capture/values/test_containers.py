"""Values of containers: what is read only when something looks at it."""

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV


def test_a_list_is_read_when_something_looks_at_its_items():
    reads = []
    made = ListV([], unseen=lambda: reads.append(1) or [Const(1)])
    made.appended.append(Const(2))
    assert not reads and [v.value for v in made.items] == [1, 2] and [v.value for v in made.items] == [1, 2]
    assert reads == [1] and made.appended == []
