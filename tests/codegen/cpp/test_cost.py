"""How much work loops are: inner loops count, lanes share it."""

from dynacomp.codegen.cpp.cost import work_of
from dynacomp.lowering.kernel_ir.printer import parse


def cycles(text):
    return eval(text.replace("(double)", ""), {})  # a sum of products of numbers


def test_work_grows_with_inner_loops_and_falls_with_lanes():
    small, large = (parse(f"kernel k(x: f32[64]) -> (o: f32[64]):\n    for i0 < 8:\n        for i1 < {n}:\n"
                          "            o[i1] = exp(x[i1])") for n in (4, 64))
    work = [cycles(work_of(k.body[0], 1)) for k in (small, large)]
    assert work[1] > 10 * work[0] > 0
    assert cycles(work_of(small.body[0].body[0], 8)) < cycles(work_of(small.body[0].body[0], 1))
