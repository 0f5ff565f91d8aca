"""What is left to XLA is named: in a notice, once, and in `explain`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import notices


def singular(x):
    y = x * 2
    return jax.lax.linalg.svd(y, compute_uv=False, algorithm=jax.lax.linalg.SvdAlgorithm.QR) + 1


def test_one_notice_for_each_operation_at_a_seam():
    notices.reset()
    x = np.eye(3, dtype=np.float32)
    report = dynacomp.explain(singular)(x)
    np.testing.assert_allclose(report.result, [3, 3, 3], rtol=1e-6)
    told = [n for n in notices.told() if n.kind == "seam"]
    assert len(told) == 1 and "svd" in told[0].reason
    assert told[0].file == __file__ and told[0].line == singular.__code__.co_firstlineno + 2
    assert "left to XLA" in str(report) and "svd with algorithm=SvdAlgorithm.QR" in str(report)
    dynacomp.explain(singular)(x)
    assert len([n for n in notices.told() if n.kind == "seam"]) == 1


@pytest.mark.parametrize("backend", ["auto", "xla"])
def test_what_bodies_print_keeps_its_order(backend, capsys):
    def telling(x):
        jax.debug.print("before {:.2f}", x[0])
        y = jnp.sin(x)
        jax.debug.print("after {:.2f}", y[0])
        return y

    def twice(x):
        return jax.vmap(lambda x: (telling(x), telling(x * 3)))(x[None])

    dynacomp.reset()
    compiled, said = dynacomp.jit(twice, backend=backend), []
    for fn in (twice, compiled, compiled):
        fn(jnp.linspace(0.2, 1, 4))
        jax.effects_barrier()
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2] == "before 0.20\nafter 0.20\nbefore 0.60\nafter 0.56\n"
    assert (dynacomp.stats()["frames_captured"], dynacomp.stats()["breaks"]) == (1, {})
