"""What is computed of constants alone is known where a call, or Python, has to look at it: sizes, masks, indices."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = (jnp.arange(1.0, 5.0),), (jnp.arange(3.0, 7.0),)


def levels(x):
    return x * jnp.arange(int(jnp.ceil(jnp.log2(x.shape[0])))).sum()


def halves(x):
    for _ in range(int(jnp.log2(jnp.array(x.shape[0])).astype(int))):
        x = x[::2] + x[1::2]
    return x


def every_other(x):
    return x[jnp.arange(4) % 2 == 0], x[jnp.nonzero(jnp.array([1, 0, 1, 1]))[0]], x[jnp.where(jnp.arange(4) > 1)]


def chosen_indices(x):
    return x[jnp.array([0, 2, 1])[jnp.array([True, False, True])]]


def parts(x):
    distinct = jnp.unique(jnp.array([3, 1, 1]))
    return jnp.split(x, jnp.array([1, 3])), jnp.repeat(x, jnp.array([1, 2, 3, 0])), distinct * x[0]


def shapes(x):
    return x.reshape(jnp.prod(jnp.array([2, 2]))), jnp.reshape(x, (jnp.array(2), -1)), jnp.zeros(jnp.array(3)) + x[:3]


def listed(x):
    for weight in jnp.array([0.5, 2.0]).tolist():
        x = x * weight
    shared = jnp.array([1, 2]).tolist()
    shared.append(x.shape[0])
    return x.reshape(tuple(jnp.array([2, 2]).tolist())), [float(i) * x for i in jnp.arange(2)], shared


def blocks(x):
    ends = jnp.array([0, 2, 3])
    for i in range(2):
        x = x.at[ends[i]:ends[i + 1]].set(x.at[ends[i]:ends[i + 1]].get() * 2)
    return x


@pytest.mark.parametrize("program", [levels, halves, every_other, chosen_indices, parts, shapes, listed, blocks])
def test_what_constants_decide_is_asked_in_the_graph(program):
    check_one_graph(program, *X)


def test_at_sizes_that_change():
    check_one_graph(lambda x: (jnp.split(x, jnp.array([1, 2])), x[:4][jnp.arange(4) % 2 == 0]),
                    *((jnp.arange(k + 4.0),) for k in range(4)), captures=2)


def test_what_the_frame_is_given_is_not_settled():
    def some(x, mask):
        return x[mask]

    compiled = dynacomp.jit(some, backend="eager")
    for k in range(4):
        mask = jnp.arange(4) > k
        assert compiled(X[0][0], mask).tolist() == X[0][0][mask].tolist()
    assert dynacomp.stats()["breaks"]


def test_a_program_without_inputs_is_not_run_while_capturing():
    def count(limit):
        x = jnp.zeros(3)
        for _ in range(200):
            x = x + 1
            if int(x[0]) > limit:
                break
        return x

    compiled = dynacomp.jit(count, backend="eager")
    for limit in (90, 3, 90):
        assert compiled(limit).tolist() == count(limit).tolist()
    assert dynacomp.stats()["operations"] < 200


def test_each_call_makes_its_own_array():
    donating = jax.jit(lambda a: a + 1, donate_argnums=0)

    def program(x):
        chosen = jnp.nonzero(jnp.array([1, 0, 1, 1]))[0]
        more = donating(jnp.nonzero(jnp.array([1, 0, 1, 1]))[0])
        return x[:int(more.sum())] + 1, chosen, more

    check_one_graph(program, *X)
    compiled = dynacomp.jit(program)
    first = compiled(X[0][0])[1]
    first.delete()
    assert compiled(X[0][0])[1].tolist() == [0, 2, 3]


def test_in_a_jitted_function_jax_refuses():
    @jax.jit
    def scaled(x):
        return x * int(jnp.log2(8.0))

    with pytest.raises(jax.errors.ConcretizationTypeError):
        dynacomp.jit(lambda x: scaled(x) + 1)(X[0][0])


def test_a_call_that_fails_fails_as_it_does_in_python():
    def wrong(x):
        return jnp.split(x, jnp.array([[1, 2]])), x[jnp.arange(5) > 2]

    check_refused(wrong, X[0][0])


def check_refused(program, x):
    with pytest.raises(Exception) as plain:  # noqa: PT011
        program(x)
    with pytest.raises(plain.type) as compiled:
        dynacomp.jit(program, backend="eager")(x)
    assert str(compiled.value) == str(plain.value)


@pytest.mark.parametrize("kind", [int, float, bool])
def test_a_key_of_random_numbers_is_no_number(kind):
    def program(key):
        return kind(key)

    key = jax.random.key(0)
    assert outcome(dynacomp.jit(program, backend="eager"), (key,)) == outcome(program, (key,))
