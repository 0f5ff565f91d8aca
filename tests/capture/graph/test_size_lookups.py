"""What a program that JAX traces looks up by a size, or writes of it, is what the int gives: there it is a constant."""

import dis
import numbers
import sys
import typing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import InconclusiveDimensionOperation

import dynacomp
from dynacomp.capture.graph.size_lookups import called, kind_places, places
from dynacomp.capture.graph.size_scope import Scope

TABLE = {4: 2.0, 5: 3.0}


class Named(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3, name=f"of_{x.shape[0]}")(x)


class Looking(nn.Module):
    @nn.compact
    def __call__(self, x):
        n = x.shape[0]
        return nn.Dense(3)(x) * TABLE.get(n, 5.0) * (2 if n in {6} else 1) * {4: 1.0, 5: 2.0, 6: 3.0}[n]


class Counting(nn.Module):
    @nn.compact
    def __call__(self, x):
        often = Counter([x.shape[0], 4, 4])
        return nn.Dense(3)(x) * often[4] * len({x.shape[0], 4, 5}) * len(frozenset((x.shape[0], 6)))


@dataclass(frozen=True)
class Key:
    n: int
    kind: str = "a"


class Keyed(nn.Module):
    """By way of a class's hash, whose text is the size's too; in code that was made from a text."""

    @nn.compact
    def __call__(self, x):
        key = Key(x.shape[0])
        return nn.Dense(3)(x) * {Key(4): 2.0, Key(5): 3.0}.get(key, 5.0) * MADE["scale"](x.shape[0]) * len(repr(key))


MADE: dict = {}
exec("def scale(n): return {4: 2.0, 5: 3.0}[n] if n in {4, 5} else len(f'{n}' * 3)", MADE)


class Plain(nn.Module):
    """Nothing but arithmetic and comparisons: one entry for all sizes."""

    @nn.compact
    def __call__(self, x):
        scale = dict(a=2.0).get("a")
        return nn.Dense(3)(x) * scale / x.shape[0] * (2.0 if x.shape[0] > 2 else 3.0)


def written(x):
    return hk.Linear(3, name=f"w{x.shape[0]}")(x)


def initialised(module):
    def fn(key, x):
        variables = module().init(key, x)
        return variables, module().apply(variables, x)
    return fn


def transformed(key, x):
    net = hk.transform(written)
    params = net.init(key, x)
    return params, net.apply(params, key, x)


@pytest.mark.parametrize(("fn", "captures"), [
    *((initialised(module), 2 if module is Plain else 3) for module in (Named, Looking, Counting, Keyed, Plain)),
    (transformed, 3)], ids=["named", "looking", "counting", "keyed", "plain", "haiku"])
def test_sizes_are_what_ints_are(fn, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (4, 5, 6):
        args = jax.random.key(n), jnp.ones((n, 4))
        want, have = fn(*args), compiled(*args)
        assert jax.tree.structure(have) == jax.tree.structure(want)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), have, want)
    assert dynacomp.stats()["frames_captured"] == captures and not dynacomp.stats()["breaks"]


def test_only_what_the_program_looks_up_itself_counts():
    scope = Scope(is_library=lambda file: False)
    n = scope.symbol("n", 4)
    with scope.decides():
        for ask in (lambda: {4: 1}[n], lambda: n in {4}, lambda: {n: 1}, lambda: {n}, lambda: {4: 1}.get(n),
                    lambda: frozenset((n,)), lambda: {k: k + 1 for k in [n]}):
            with pytest.raises(InconclusiveDimensionOperation, match="hash"):
                ask()
        for text in (lambda: f"{n}", lambda: str(n), lambda: repr((n, 1)), lambda: f"{n:>3}"):
            with pytest.raises(InconclusiveDimensionOperation, match="text"):
                text()
        jax.eval_shape(lambda x: jnp.cumsum(x * 2), jax.ShapeDtypeStruct((n,), "float32"))
        assert (1, 2)[n > 3] == 2
    assert f"{n + 1:>6}" == " n + 1" and str(n) in repr((n,)) and hash(n) == hash(1 * n) and {n: 1}[n] == 1


def test_libraries_know_what_they_do():
    scope = Scope()
    n = scope.symbol("n", 4)
    with scope.decides():
        assert {n: 1}[n] == 1 and n in {n} and f"{n}" == "n"


def test_the_name_of_what_is_called():
    def fn(d, n, x, set, jit):
        return d.get(n), set([n]), x.at[n].get(), jit(n)(x.shape(n)), d.a.pop(n)

    instrs = [*dis.get_instructions(fn)]
    names = [called(instrs, k) for k, i in enumerate(instrs) if i.opname == "CALL"]
    assert names == ["get", "set", "get", "jit", "shape", "jit", "pop"] or sys.flags.no_debug_ranges
    assert len(places(fn.__code__)) >= 4


class Asked(nn.Module):
    """What a size is, asked in all ways but `type(n)`."""

    @nn.compact
    def __call__(self, x):
        n = x.shape[0]
        kinds = [isinstance(n, int), isinstance(n, (str, int)), isinstance(n, numbers.Integral), n.__class__ is int,
                 isinstance(n, typing.SupportsIndex), not isinstance(n, (str, float, Sequence))]
        return asked(nn.Dense(3)(x), n, kinds)


def asked(y, n, kinds):
    size = (n, 1) if isinstance(n, int) else n
    return y * sum(2 ** k for k, holds in enumerate(kinds) if holds) + jnp.ones(size)


def asked_in_haiku(x):
    n = x.shape[0]
    return asked(hk.Linear(3)(x), n, [isinstance(n, int), isinstance(n, (str, numbers.Number)), n.__class__ is int])


def test_a_size_is_an_int_for_whoever_asks():
    module, fn = Asked(), hk.without_apply_rng(hk.transform(asked_in_haiku))
    start = jnp.ones((3, 4))
    for apply, variables in ((module.apply, module.init(jax.random.key(0), start)),
                             (fn.apply, fn.init(jax.random.key(0), start))):
        compiled, before = dynacomp.jit(lambda v, x, apply=apply: apply(v, x)), dynacomp.stats()["frames_captured"]
        for n in (3, 4, 5, 6, 1, 9):
            x = jnp.arange(4. * n).reshape(n, 4)
            np.testing.assert_allclose(compiled(variables, x), apply(variables, x), rtol=1e-6)
        assert dynacomp.stats()["frames_captured"] - before <= 3
    assert not dynacomp.stats()["breaks"]


def test_only_where_it_is_asked():
    def fn(n):
        return isinstance(n, int), len((n,)), n.__class__

    instrs = [*dis.get_instructions(fn.__code__)]
    assert len(kind_places(fn.__code__)) == 2 + (sys.version_info < (3, 12)) * 1
    assert all("CALL" in i.opname or i.argval == "__class__" for i in instrs if i.offset in kind_places(fn.__code__))
