"""Bad and odd arguments: on the first call and after good ones, what eager JAX returns or raises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.dynacomp.hostile_kit import same

X = jnp.arange(4.0)
M23, M32 = jnp.ones((2, 3)), jnp.ones((3, 2))


@pytest.mark.parametrize("backend", ["cpp", "eager"])
def test_wrong_types(backend):
    same(lambda a, b: jnp.abs(a) + b, (X, 1.0), ("s", 1.0), (None, 1.0), (object, 1.0), (X, "s"), (X, None), (X, [1]),
         ([1.0], 1), (X, 2.0), (), (X,), (X, X, X), backend=backend)


@pytest.mark.parametrize("backend", ["cpp", "eager"])
def test_shapes_that_do_not_fit(backend):
    same(lambda a, b: a + b, (X, X), (X, jnp.ones(3)), (jnp.ones(5), jnp.ones(5)), (jnp.ones(5), jnp.ones(3)),
         (M23, M32), (X, jnp.ones((2, 1))), (jnp.ones(6), jnp.ones(6)), backend=backend)
    same(lambda a, b: a @ b, (M23, M32), (M23, M23), (jnp.ones((4, 5)), jnp.ones((5, 2))), (M32, M32),
         (jnp.float32(1), X), backend=backend)


OPERATIONS = {
    "reshape": (lambda a, n: a.reshape(n, -1), [(X, 2), (X, 3), (X, 4), (X, 0), (X, 5)]),
    "index": (lambda a, i: a[i], [(X, 1), (X, 10), (X, -5), (X, "a"), (X, (1, 2)), (X, None), (X, 1.5),
                                  (X, slice(1, 3)), (X, [1, 2]), (X, jnp.array([1, 2])), (X, True)]),
    "truth": (lambda a: 1 if a else 2, [(jnp.array(1),), (jnp.array([1, 2]),), (jnp.array([]),), (jnp.array(0),)]),
    "int": (lambda a: int(a), [(jnp.array(1.5),), (jnp.ones(2),), (jnp.array(np.nan),)]),
    "attribute": (lambda a: a.no_such, [(X,), (3,)]),
    "len": (lambda a: len(a), [(X,), (jnp.array(1),), (X[:2],)]),
    "iteration": (lambda a: [v + 1 for v in a], [(X,), (jnp.array(1),), (M23,)]),
    "unpacking": (lambda a: (lambda p, q: p * q)(*a), [(X[:2],), (X[:3],), (M23,)]),
    "astype": (lambda a, d: a.astype(d), [(X, jnp.int32), (X, "float16"), (X, "zz"), (X, bool), (X, complex)]),
    "shift": (lambda a, n: a << n, [(jnp.arange(3), 1), (X, 1), (jnp.arange(3), 40)]),
    "division": (lambda a, n: a // n, [(jnp.arange(3), 0), (3, 0), (X, 0), (3, 2)]),
    "concatenate": (lambda a, b: jnp.concatenate([a, b]), [(X, X), (X, M23), (X, jnp.ones(3))]),
    "stack": (lambda a: jnp.stack(a).sum(0), [([X, X],), ([X, X, X],), ([],), ((X,),), ([X, X[:3]],)]),
    "none": (lambda a, b=None: a if b is None else a + b, [(X, None), (X, X), (X,), (X, 0.0)]),
    "grad": (lambda a: jax.grad(lambda v: v * 2)(a), [(X,), (jnp.float32(1),), (jnp.int32(1),)]),
    "vmap": (lambda a, b: jax.vmap(jnp.add)(a, b), [(X, X), (X, jnp.ones(3)), (jnp.ones(()), X)]),
    "scan": (lambda a: jax.lax.scan(lambda c, v: (c + v, c), 0, a), [(X,), (X[:2],)]),
    "cond": (lambda a: jax.lax.cond(a[0] > 0, lambda v: v, lambda v: v.sum(), a), [(X,)]),
    "item": (lambda a: a.__setitem__(0, 1), [(X,), (X,)]),
    "order of a dict": (lambda d: [*d, jax.tree.leaves(d)[0]], [({"a": X, "b": X + 1},), ({"b": X + 1, "a": X},)]),
    "numpy": (lambda a: jnp.abs(a) * 2 + a, [
        (np.arange(4.0),), (np.arange(8, dtype=np.float32)[::2],), (np.arange(6).reshape(2, 3).T,),
        (np.ones((2, 2), ">f4"),), (np.array(["a"]),), (np.array([None]),), (np.ones(3, np.float16),),
        (np.float64(2),)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name):
    fn, calls = OPERATIONS[name]
    same(fn, *calls, backend="eager")


def test_nan_and_infinities():
    same(lambda a: (a / 0, jnp.max(a), a.sum(), jnp.sort(a), jnp.sign(a)), (jnp.array([-1.0, 0, np.inf, np.nan]),),
         (jnp.array([-0.0, -np.inf]),), backend="cpp")


def test_empty_arrays():
    same(lambda a: (a.sum(), a * 2, a @ a.T, a.reshape(-1), jnp.concatenate([a, a])), (jnp.ones((0, 3)),),
         (jnp.ones((3, 0)),), (M23,), (jnp.ones((0, 0)),), backend="cpp")
    same(lambda a: a.max(), (X,), (X[:0],), (X[:3],), (X[:0],), backend="cpp")


def test_scalars_of_every_kind():
    same(lambda a: (a + 1, a * a), (jnp.float32(2),), (2.0,), (2,), (True,), (np.float64(3),), (np.float32(3),),
         (np.int8(3),), (1 + 2j,), backend="eager")
    same(lambda a, b: a * b, (jnp.asarray(2.0), jnp.ones(3, jnp.bfloat16)), (jnp.float32(2), jnp.ones(3, jnp.bfloat16)),
         (2.0, jnp.ones(3, jnp.bfloat16)), (np.float32(2), jnp.ones(3, jnp.bfloat16)), (2, jnp.ones(3, jnp.int8)),
         backend="cpp")


@pytest.mark.parametrize("a", [X, jnp.arange(3)], ids=["float", "int"])
def test_huge_ints_raise(a):
    same(lambda a, n: a + n, (a, 2**31), (a, 2**40), (a, 2**70), (a, -2**31 - 1), (a, 5), backend="eager",
         given_up=True)


def test_huge_ints_raise_after_small_ones():
    f, a = dynacomp.jit(lambda a, n: a + n, backend="cpp"), jnp.arange(3)
    for n in (1, 2, 3, 4):
        assert f(a, n)[0] == n
    for n in (2**31, 2**40, 2**70, -2**31 - 1):
        with pytest.raises(OverflowError):
            f(a, n)
    assert f(a, 5)[0] == 5


def test_donated_arrays():
    def donated():
        x = jnp.ones(4)
        x.delete()
        return (x,)

    same(lambda a: a + 1, (X,), donated, (X,), backend="cpp")


def test_an_exception_half_way_leaves_the_heap_as_eager_does():
    def partly(d):
        d["n"] = d.get("n", 0) + 1
        d["seen"].append(jnp.sum(d["x"]))
        y = d["x"] @ d["w"]
        d["done"] = True
        return y

    calls = [lambda w=w: ({"seen": [], "x": X, "w": w},) for w in (X, X[:3], X, "s", None, jnp.ones((4, 2)))]
    for backend in ("cpp", "eager"):
        same(partly, *calls, backend=backend)


def test_numpy_changed_between_calls():
    a, held = np.ones(3, np.float32), np.ones(3, np.float32)

    def calls():
        for n in range(3):
            a[0] = held[1] = n
            yield lambda: (a,)

    same(lambda a: jnp.asarray(a) * held, *calls(), backend="cpp")


def test_sharded_arrays():
    """Two devices need a process of their own; here one device under explicit shardings."""
    device = jax.devices()[0]
    mesh = jax.sharding.Mesh(np.array([device]), ("d",))
    spread = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
    same(lambda a: a * 2 + 1, (X,), (spread,), (jax.device_put(X, device),), (X,))


def test_too_much_memory_is_jaxs_exception():
    """Programs look for it, and halve their batch."""
    same(lambda a, n: jnp.broadcast_to(a[:, None, None], (4, n, n)) * 2 + 1, (X, 3), (X, 5), (X, 20_000_000), (X, 4),
         backend="cpp")
    assert dynacomp.stats()["frames_captured"] == 2
