"""Which values have buffers: what templates, outputs and several readers read; reshapes read another's."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.lowering.fuse.buffers import Buffers
from dynacomp.lowering.fuse.items import op_name
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import same_as_eager

X = np.random.RandomState(0).randn(64, 48).astype(np.float32)


def buffers(function, *args):
    return Buffers(optimise(lower_function(function, *args)))


def named(made, op):
    return [n for n in made.graph.calls if op_name(n) == op]


def test_what_one_reader_computes_again_cheaply_has_no_buffer():
    made = buffers(lambda x: jnp.exp(x) + 1, X)
    (exp,) = named(made, "exp")
    assert exp.name not in made.reader.realised and made.results() <= made.reader.realised


def test_what_a_template_reads_has_a_buffer_and_strides():
    made = buffers(lambda x, y: jnp.exp(x) @ y.T, X, X)
    (dot,) = made.templates
    (exp,) = named(made, "exp")
    assert exp.name in made.reader.realised and not made.copies
    assert [buffer for buffer, _ in made.operand_views[dot]] == [exp.name, made.graph.placeholders[1].name]


def test_an_operand_without_fitting_strides_is_copied():
    function = lambda x, y: x[::2, ::-1] @ y
    made = buffers(function, np.concatenate([X, X]), X[:48])
    (dot,) = made.templates
    read = [buffer for buffer, _ in made.operand_views[dot]]
    assert made.copies.get(dot) or read[0] in made.reader.realised - {p.name for p in made.graph.placeholders}
    same_as_eager(function, np.concatenate([X, X]), X[:48], scale=4)


def test_an_output_that_reshapes_a_value_takes_its_buffer():
    made = buffers(lambda x: jnp.exp(x).reshape(-1), X)
    (exp,), (output,) = named(made, "exp"), made.graph.output
    assert made.results() == {exp.name} and made.views == {output.name: exp.name}
    assert made.shapes[exp.name] == ((64 * 48,), np.dtype("float32"))
    both = buffers(lambda x: (jnp.exp(x), jnp.exp(x).reshape(-1)), X)
    assert len(both.results()) == 2, "each output owns its memory"


def test_a_reshape_of_a_realised_value_reads_it():
    function = lambda x: (x.sum(1), (x - x.sum(1).reshape(8, 8).max()) * 2)
    made = buffers(function, X)
    root = next(n for n in made.graph.calls if op_name(n) == "reduce_sum")
    views = {n: to for n, to in made.reader.views.items() if to == root.name}
    assert all(made.stored(name) == root.name for name in views) and made.stored(root.name) == root.name
    same_as_eager(function, X)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_results_of_a_step_that_nobody_takes_have_names_too(used):
    made = buffers(lambda x: [jnp.linalg.qr(x)[k] for k in used], X)
    many = next(n for n in made.graph.calls if isinstance(n.aval, tuple))
    names = made.results_of(many)
    assert len(set(names)) == len(many.aval) and set(names) <= made.shapes.keys()
