"""What loops ask for: the bytes of a lane, and scratch buffers: with which loop they live, on the stack or the heap."""

import numpy as np
import pytest

from dynacomp.codegen.cpp.shape import STACK_BYTES, contains, lane_width, loads, numels, owners, scratch, unit_of
from dynacomp.lowering.kernel_ir.printer import parse


def kernel(body, inputs="x: f32[64]", outputs="o: f32[64]", local=""):
    lines = "\n".join(f"    {line}" for line in body)
    return parse(f"kernel k({inputs}) -> ({outputs}){local}:\n{lines}")


def width(made, exact=False):
    (loop,) = made.body
    return lane_width(loop, unit_of(made, exact))


@pytest.mark.parametrize(("stored", "read", "bytes_"), [
    ("f32", "f32", 4), ("f64", "f32", 8), ("i8", "i8", 1), ("f32", "f64", 8)])
def test_a_lane_is_as_wide_as_its_widest_value(stored, read, bytes_):
    value = "x[i0]" if stored == read else f"convert(x[i0], {stored})"
    made = kernel(["vector i0 < 64:", f"    o[i0] = {value}"], f"x: {read}[64]", f"o: {stored}[64]")
    assert width(made) == bytes_


def test_exact_sums_keep_their_order_and_maxima_have_none():
    fold = lambda name: kernel(["vector i0 < 64:", f"    acc a0: {name} f32 = x[i0]", "o[0] = a0"])
    for name, exact in (("sum", 0), ("prod", 0), ("max", 4)):
        made = fold(name)
        assert lane_width(made.body[0], unit_of(made, False)) == 4
        assert lane_width(made.body[0], unit_of(made, True)) == exact


def test_loops_whose_lanes_have_inner_loops_of_different_lengths_are_scalar():
    made = kernel(["vector i0 < 8:", "    for i1 < i0 + 1:", "        acc a0: sum f32 = x[i0 + i1]", "    o[i0] = a0"])
    assert width(made) == 0


@pytest.mark.parametrize(("elements", "heap"), [(64, False), (STACK_BYTES // 4, False), (STACK_BYTES // 4 + 1, True)])
def test_small_scratch_is_on_the_stack_and_large_on_the_heap(elements, heap):
    made = kernel([f"for i0 < {elements}:", "    r[i0] = x[0]", f"for i1 < {elements}:", "    o[0] = r[i1]"],
                  local=f" local (r: f32[{elements}])")
    code = "\n".join(scratch(unit_of(made, False), None))
    assert ("scratch<" in code) == heap and (("return;" in code) == heap), "without memory the kernel gives up"
    assert ("alignas(64)" in code) != heap


def test_scratch_belongs_to_one_loop():
    made = kernel(["parallel i0 < 4:", "    for i1 < 4:", "        r[i1] = x[4*i0 + i1]",
                   "    for i2 < 4:", "        o[4*i0 + i2] = r[i2]"], local=" local (r: f32[4])")
    unit = unit_of(made, False)
    assert not list(scratch(unit, None)) and len(list(scratch(unit, made.body[0]))) == 1


def test_how_many_elements_buffers_have():
    made = kernel(["o[0] = x[0]"], inputs=f"x: f32[{2**31}]")
    assert numels(made)["x"] == 2**31
    assert unit_of(made, False).dtypes == {"x": np.dtype("float32"), "o": np.dtype("float32")}


OWNING = parse("""\
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
    outer, last = OWNING.body
    inner = outer.body[1]
    assert owners(OWNING.body, ["r", "lane", "w", "st"]) == {
        "r": outer, "lane": inner, "w": None, "st": last}
    assert owners(OWNING.body, ["no"]) == {}  # nobody uses it


def test_loads_are_found_in_masks_and_what_stands_for_them():
    store = OWNING.body[0].body[1].body[-1]
    assert sorted(loads(store.value)) == ["c", "lane", "w"]


def test_loops_inside_of_loops():
    first, second = OWNING.body
    assert contains(first, first) and contains(first, first.body[1]) and contains(first, first.body[0])
    assert not contains(first, second) and not contains(first.body[1], first) and not contains(second, None)
