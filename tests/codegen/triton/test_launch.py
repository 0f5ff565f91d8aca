"""A kernel cut into launches: what each does, and what goes from one to the next."""

from dynacomp.codegen.triton.launch import box, loaded, names_used, pieces, statements, stored
from dynacomp.lowering.kernel_ir.loops import Let, Load, Loop, Store
from dynacomp.lowering.kernel_ir.printer import parse

KERNEL = parse("""\
kernel k(x: f32[n]) -> (out: f32[n], total: f32[]) sizes (n):
    vector i0 < n:
        acc s: sum f32 = x[i0]
    t1 = exp(s)
    t0 = mul(t1, s)
    parallel i1 < n:
        out[i1] = div(x[i1], t0)
    parallel i2 < n:
        out[i2] add= exp(out[i2])
    total[0] = s""")


def test_each_parallel_loop_is_a_launch_and_what_stands_between_is_one():
    found = pieces(KERNEL)
    own = [[s for s in p.body if not (isinstance(s, Let) and isinstance(s.value, Load)
                                      or isinstance(s, Store) and s.buffer.endswith("_box"))] for p in found]
    assert [[type(s) for s in body] for body in own] == [[Loop, Let, Let], [Loop], [Loop], [Store]]
    assert tuple(s for body in own for s in body) == KERNEL.body


def test_values_are_carried_in_boxes_from_where_they_are_made_to_where_they_are_read():
    boxes = [[b.name for b in p.scratch] for p in pieces(KERNEL)]
    assert boxes == [[box("s"), box("t0")], [box("t0")], [], [box("s")]]
    first, second, third, last = pieces(KERNEL)
    assert {box("s"), box("t0")} <= stored(first.body) and box("t0") in loaded(second.body)
    assert loaded(last.body) == {box("s")} and stored(last.body) == {"total"}


def test_what_is_read_and_written():
    second, third = (s for s in KERNEL.body if isinstance(s, Loop) and s.parallel)
    assert loaded((second,)) == {"x"} and stored((second,)) == {"out"}
    assert loaded((third,)) == {"out"}  # it adds to what is there
    assert names_used((second,)) == {"t0", "i1", "n"}
    assert len(list(statements(KERNEL.body))) == 8 and names_used(KERNEL.body) >= {"s", "i0", "i2"}


SCALES = parse("""\
kernel k(x: f32[n], a: f32[]) -> (out: f32[n], b: f32[]) sizes (n):
    t0 = exp(a[0])
    t1 = mul(t0, t0)
    parallel i0 < n:
        out[i0] = mul(x[i0], t1)
    t2 = exp(out[0])
    parallel i1 < n:
        out[i1] add= mul(t0, t2)""")


def test_scalars_that_need_nothing_written_are_every_launchs_own():
    first, box_made, last = pieces(SCALES)
    names = [[s.name for s in p.body if isinstance(s, Let)] for p in (first, box_made, last)]
    assert names == [["t0", "t1"], ["t2"], ["t2", "t0"]]
    assert not first.scratch and [b.name for b in last.scratch] == [box("t2")] == [b.name for b in box_made.scratch]
