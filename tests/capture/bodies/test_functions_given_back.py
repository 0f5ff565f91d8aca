"""Functions of the program's in a tree that a transformed function returns: outside they are those very functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from tests.capture.program_kit import check_one_graph


def squashed(x):
    return jnp.tanh(x)


def shifted(by):
    return lambda x: squashed(x + by)


class Model(eqx.Module):
    w: jax.Array
    act: object

    def __call__(self, x):
        return self.act(self.w * x)


def many(act, x):
    models = eqx.filter_vmap(lambda w: Model(w, act))(jnp.stack([x, x + 1]))
    given = eqx.filter_vmap(lambda m, x: m(x), in_axes=(eqx.if_array(0), None))(models, x)
    return given, models.act is act, models.act(x), models.w


def two_kinds(act, x):
    first, second, both = eqx.filter_vmap(lambda w: (Model(w, act), Model(w, squashed), [act, squashed, 3]))(x[None])
    return first(x), second(x), first.act is act, second.act is squashed, both[0] is act, both[1](x), both[2]


def made_by_the_caller(act, x):
    def own(v):
        return act(v) + x

    models = eqx.filter_vmap(lambda w: Model(w, own))(jnp.stack([x, x + 1]))
    return models.act is own, models(x)


def called_inside_as_well(act, x):
    def make(w):
        model = Model(w, act)
        return model, model(w)

    models, given = eqx.filter_vmap(make)(jnp.stack([x, x + 1]))
    return models(x), given, models.act is act


def beside_a_gradient(act, x):
    slope, model = eqx.filter_grad(lambda w: (Model(w, act)(x).sum(), Model(w, act)), has_aux=True)(x)
    return slope, model(x), model.act is act


def layers(act, x):
    keys = jax.random.split(jax.random.key(0))
    models = eqx.filter_vmap(lambda k: eqx.nn.MLP(3, 3, 3, 1, activation=act, key=k))(keys)
    arrays, rest = eqx.partition(models, eqx.is_array)
    return jax.lax.scan(lambda c, p: (eqx.combine(p, rest)(c), None), x, arrays)[0]


@pytest.mark.parametrize("program", [many, two_kinds, made_by_the_caller, called_inside_as_well, beside_a_gradient,
                                     layers])
@pytest.mark.parametrize("act", [squashed, shifted(2), shifted(jnp.ones(()))], ids=["function", "number", "array"])
def test_functions_in_what_a_body_returns(program, act):
    check_one_graph(program, (act, jnp.arange(3.0)))
