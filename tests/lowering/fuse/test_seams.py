"""What is left to XLA is named: in a notice, once, and in `explain`."""

import jax
import numpy as np

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
