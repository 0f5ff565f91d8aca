"""What is iterated over while capturing."""

import jax
import jax.numpy as jnp

import dynacomp


def flattened(x):
    return x.reshape(-1, *x.shape[2:]), [2 * n for n in x.shape[2:]], sum(x.shape[2:]), *x.shape[2:]


def test_sizes_left_over_may_be_none():
    compiled, before = dynacomp.jit(flattened, backend="xla"), dynacomp.stats()["breaks"]
    for x in (jnp.ones((2, 3)), jnp.ones((2, 3, 4))):
        want, got = flattened(x), compiled(x)
        assert got[0].shape == want[0].shape and got[1:] == want[1:]
    assert dynacomp.stats()["breaks"] == before


def test_a_generator_that_passes_a_break_keeps_its_keyword_arguments():
    def options(*args, first=0, **others):
        yield args, first, others

    def program(x):
        late = options(1, first=[x], second={"a": x})
        print(end="")
        return next(late), x + 1

    assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(2))) == repr(program(jnp.ones(2)))


def test_a_long_array_is_gone_through_by_python():
    """One Graph with a node for each part would take longer to compile than anything that is done with them."""

    def rises(x):
        found, last = [], x[0]
        for v in x[1:]:
            if v > last + 0.1:
                last = v
                found.append(v * 2)
        return jnp.stack(found)

    x = jnp.sort(jax.random.uniform(jax.random.key(0), (3000,)))
    compiled, before = dynacomp.jit(rises), dynacomp.stats()["graphs"]
    assert (compiled(x) == rises(x)).all()
    assert dynacomp.stats()["graphs"] - before < 8
    assert len(dynacomp.jit(lambda x: [v + 1 for v in x])(x[:40])) == 40
