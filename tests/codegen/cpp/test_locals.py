"""Where scratch buffers live: with the innermost parallel loop around all of their uses."""

from dynacomp.codegen.cpp.locals import contains, loads, owners
from dynacomp.lowering.kernel_ir.printer import parse

KERNEL = parse("""\
kernel k(x: f32[n, d], c: bool[d]) -> (out: f32[n, d]) local (row: f32[d], lane: f32[], whole: f32[d]) sizes (d, n):
    parallel i0 < n:
        vector i1 < d:
            row[i1] = exp(x[d*i0 + i1])
        parallel i2 < d:
            lane[0] = row[i2]
            out[d*i0 + i2] = add(lane[0], (whole[i2] if c[i2] else f32(0.0)))
    parallel i3 < d:
        acc s: sum f32 = whole[i3]
""".rstrip())


def test_each_local_has_the_loop_around_all_of_its_uses():
    outer, _ = KERNEL.body
    inner = outer.body[1]
    assert owners(KERNEL.body, ["row", "lane", "whole"]) == {"row": outer, "lane": inner, "whole": None}
    assert owners(KERNEL.body, ["no"]) == {}  # nobody uses it


def test_loads_are_found_in_masks_and_what_stands_for_them():
    store = KERNEL.body[0].body[1].body[-1]
    assert sorted(loads(store.value)) == ["c", "lane", "whole"]


def test_loops_inside_of_loops():
    first, second = KERNEL.body
    assert contains(first, first) and contains(first, first.body[1]) and contains(first, first.body[0])
    assert not contains(first, second) and not contains(first.body[1], first) and not contains(second, None)
