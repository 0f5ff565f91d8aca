"""Values of instances: their built-in part is read when something asks for it, and what existed before is known."""

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.objects import CellV, ObjectV, OpaqueV
from dynacomp.capture.values.value import existing, is_constant, type_of


class Log(list):
    pass


def test_the_built_in_part_of_an_instance_is_read_once():
    reads = []
    made = ObjectV(Log, unread=lambda v: reads.append(v) or ListV([Const(1)]))
    assert not reads and type_of(made) is Log and not is_constant(made)
    assert made.payload is made.payload and made.payload.items[0].value == 1 and reads == [made]


def test_what_was_there_before_is_known():
    log, opaque = Log(), object()
    assert existing(ObjectV(Log, log)) is log and existing(OpaqueV(opaque)) is opaque
    assert existing(ObjectV(Log)) is None and existing(CellV(Const(1))) is None
