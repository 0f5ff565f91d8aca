"""Which items share a kernel: rows and lanes that fit, kernels that would idle, and no cycles among units."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from dynacomp.lowering.fuse.groups import (
    MAX_ITEMS,
    Ancestry,
    Group,
    _same_extents,
    alone,
    cut,
    fused,
    may_join,
    shares_work,
)
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.kernel_ir.loops import Const, Load
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.rules.reader import Reader
from dynacomp.lowering.sizes.indexing import flat
from dynacomp.lowering.sizes.symbols import size
from tests.lowering.closed import scheduled

F32 = np.dtype("float32")
N = size("n")


class Made:
    """Items over one Reader: `point` reads each (buffer, index) that it is given."""

    def __init__(self):
        self.reader = Reader({}, set())

    def item(self, name, shape, reads=(), kind="point", **fields):
        at = self.reader.point(shape)
        loads = tuple(self.reader.intern(Load(b, index(at), F32)) for b, index in reads)
        value = loads[0] if loads else Const(0.0, F32)
        return Item(name, kind, tuple(map(sympy.sympify, shape)), F32, at, value, reads=loads, **fields)


def dims_of(item, rows):
    found = cut(item, sympy.sympify(rows))
    return None if found is None else found.dims


def same(shape):
    return lambda at: flat(at, tuple(map(sympy.sympify, shape)))


@pytest.mark.parametrize(("shape", "rows", "dims"), [
    ((4, 6), 4, [0]), ((4, 6), 24, [0, 1]), ((4, 6), 1, []), ((4, 6), 6, None), ((4, 1, 6), 4, [0]), ((N, 6), N, [0])])
def test_rows_are_leading_dimensions(shape, rows, dims):
    assert dims_of(Made().item("a", shape), rows) == dims


def test_the_rows_of_a_scan_end_before_its_axis():
    scan = Made().item("a", (4, 5, 6), kind="scan", axis=1)
    assert dims_of(scan, 20) is None and dims_of(scan, 4) == [0]
    assert scan.row_counts == (4, 1)
    assert Made().item("b", (4, 1, 6)).row_counts == (24, 4, 1)
    assert alone(scan).dims == {"a": [0, 2]}, "lanes go over what follows the axis"
    assert alone(replace(scan, lanes=False)).dims == {"a": [0]}


def test_a_reader_of_its_own_lane_joins_and_of_another_does_not():
    made = Made()
    a, shape = made.item("a", (300, 6), [("x", same((300, 6)))], lanes=True), (300, 6)
    b = made.item("b", shape, [("a", same(shape))], lanes=True)
    turned = made.item("c", shape, [("a", lambda at: flat((299 - at[0], at[1]), shape))], lanes=True)
    group = fused(made.reader, alone(a), [b])
    assert group.lanes and group.names == {"a", "b"}
    assert fused(made.reader, group, [turned]) is None


def test_a_reader_of_its_own_row_shares_rows():
    made = Made()
    a = made.item("a", (300, 64), [("x", same((300, 64)))])
    b = made.item("b", (300, 32), [("a", lambda at: 64 * at[0] + 2 * at[1])])
    group = fused(made.reader, alone(a), [b])
    assert not group.lanes and group.dims == {"a": [0], "b": [0]}


def test_what_scatters_stays_alone():
    made = Made()
    a, update = made.item("a", (300,)), made.item("u", (300,), kind="scatter")
    assert fused(made.reader, alone(a), [update]) is None


@pytest.mark.parametrize(("shape", "rows", "found"), [
    ((4, 6), (6,), [[1]]), ((6, 6), (6,), [[1]]), ((4, 6), (4,), []), ((2, 1, 3), (2, 3), [[0, 2]])])
def test_lanes_have_the_last_dimension(shape, rows, found):
    assert _same_extents(shape, rows) == found


def test_common_buffers_are_shared_work():
    made = Made()
    a, b, c = (made.item(n, (4,), [(of, same((4,)))]) for n, of in (("a", "x"), ("b", "x"), ("c", "y")))
    assert shares_work(Group([a], {}, True), b) and not shares_work(Group([a], {}, True), c)


def reachable(edges, unit):
    """All units before one, the plain way."""
    found, todo = set(), [unit]
    while todo:
        for p in edges.get(todo.pop(), ()):
            if p not in found:
                found.add(p)
                todo.append(p)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_who_comes_before_whom(seed):
    """Units added, grown and replaced at random: the bit sets are the closure of the edges."""
    drawn, ancestry = np.random.RandomState(seed), Ancestry()
    edges: dict[int, set[int]] = {}
    alive: list[int] = []
    for _ in range(24):
        if len(alive) > 2 and drawn.rand() < 0.2:
            old, new = map(int, drawn.choice(alive, 2, replace=False))
            through = (reachable(edges, new) - {old}) | (reachable(edges, old) - {new})
            if any(reachable(edges, u) & {old, new} for u in through):
                continue  # a path leaves the two and comes back
            ancestry.replace(old, new)
            edges[new] = (edges[new] | edges.pop(old)) - {old, new}
            for before in edges.values():
                if old in before:
                    before.remove(old)
                    before.add(new)
            alive.remove(old)
        else:
            producers = {int(p) for p in drawn.choice(alive, min(len(alive), 2))} if alive else set()
            unit = ancestry.add(producers)
            edges[unit] = producers
            alive.append(unit)
    for unit in alive:
        assert ancestry.before[unit] == sum(1 << p for p in reachable(edges, unit))


def test_a_path_that_leaves_a_unit_may_not_come_back():
    ancestry = Ancestry()
    a = ancestry.add([])
    b = ancestry.add([a])
    assert may_join(ancestry, a, [a]) and may_join(ancestry, b, [a, b])
    assert not may_join(ancestry, a, [a, b]), "a, b, a again"


def test_softmax_is_one_group_over_rows_or_over_lanes():
    for axis, x in ((0, np.ones((48, 512), np.float32)), (1, np.ones((512, 48), np.float32))):
        assert len(scheduled(lambda x, axis=axis: jax.nn.softmax(x, axis), x).steps) == 1
    crossing = scheduled(lambda x: (jnp.exp(x).sum(0), jnp.exp(x).sum(1)), x)
    assert len(crossing.steps) == 2, "rows of one are columns of the other"


def test_sums_over_rows_keep_their_lanes_beside_those_of_another_shape():
    """Two gradients of as many numbers: as rows of one kernel, both would gather down their columns."""
    def gradients(x, y, a, b):
        return x.T @ y + a, y.T @ x + b

    args = [np.random.RandomState(k).randn(*s).astype(np.float32) for k, s in enumerate(((16, 8), (16, 32)))]
    made = scheduled(gradients, *args, np.ones((8, 32), np.float32), np.ones((32, 8), np.float32))
    assert str(made).count("vector i1") == len(made.steps) == 2 and "Floor" not in str(made)


def test_sums_down_columns_keep_their_lanes_beside_sums_along_rows():
    """A read and a write of a memory: the vector times the matrix would gather down the columns of the other."""
    def attended(memory, key, weights):
        return memory @ key + (key * memory).sum(1), key @ weights

    draw = np.random.RandomState(0).randn
    args = [draw(*s).astype(np.float32) for s in ((64, 64), (64,), (64, 64))]
    made = scheduled(attended, *args)
    assert len(made.steps) == 2 and str(made).count("parallel vector") == 1


def test_lanes_compute_nothing_dear_that_is_the_same_for_all_of_them():
    a, b = np.zeros(64, np.float32), np.zeros(96, np.float32)
    steps = scheduled(lambda a, b: jnp.tanh(a)[:, None] * jnp.exp(b), a, b).steps
    assert [len(s.kernel.outputs) for s in steps] == [1, 1]
    assert "t0 = tanh(p0[i0])" in text(steps[-1].kernel)
    (step,) = scheduled(lambda a, b: (2 * a)[:, None] * jnp.exp(b), a, b).steps
    assert "exp" in text(step.kernel)


def test_a_kernel_has_so_many_items_and_no_more():
    """Updates of a thousand parameters that are alike were one kernel: minutes of scheduling and of the compiler."""
    def updates(leaves, x):
        return [jnp.sin(leaf) * x for leaf in leaves]

    made = scheduled(updates, [np.ones(3, np.float32)] * 200, np.float32(2))
    written = [len(step.kernel.outputs) for step in made.steps]
    assert sum(written) == 200 and MAX_ITEMS // 2 < max(written) <= MAX_ITEMS
