"""Where scratch buffers live: with the innermost parallel loop around all of their uses."""

from dynacomp.codegen.cpp.locals import contains, loads, owners
from dynacomp.lowering.kernel_ir.printer import parse

KERNEL = parse("""\
kernel k(x: f32[n, d], c: bool[d]) -> (o: f32[n, d]) local (r: f32[d], lane: f32[], w: f32[d], st: f32[]) sizes (d, n):
    parallel i0 < n:
        vector i1 < d:
            r[i1] = exp(x[d*i0 + i1])
        parallel i2 < d:
            lane[0] = r[i2]
            o[d*i0 + i2] = add(lane[0], (w[i2] if c[i2] else f32(0.0)))
    parallel i3 < d:
        reverse i4 < d:
            st[0] = w[i3]
""".rstrip())


def test_each_local_has_the_loop_around_all_of_its_uses():
    outer, last = KERNEL.body
    inner = outer.body[1]
    assert owners(KERNEL.body, ["r", "lane", "w", "st"]) == {
        "r": outer, "lane": inner, "w": None, "st": last}
    assert owners(KERNEL.body, ["no"]) == {}  # nobody uses it


def test_loads_are_found_in_masks_and_what_stands_for_them():
    store = KERNEL.body[0].body[1].body[-1]
    assert sorted(loads(store.value)) == ["c", "lane", "w"]


def test_loops_inside_of_loops():
    first, second = KERNEL.body
    assert contains(first, first) and contains(first, first.body[1]) and contains(first, first.body[0])
    assert not contains(first, second) and not contains(first.body[1], first) and not contains(second, None)
