"""What was compiled keeps no program alive: a namespace dies with its last user, whatever was captured of it."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(8.0)
PROGRAMS = {
    "whole": "k = 2\ndef f(a): return a * k",
    "break": "def f(a):\n b = a + 1\n print(end='')\n return b * 2",
    "inlined": "def g(a):\n print(end='')\n return a + 1\ndef f(a): return g(a) * 2 + g(a)",
    "global": "n = 0\ndef f(a):\n global n\n n += 1\n print(end='')\n n += 1\n return a * n",
    "deleted global": "n = 0\ndef f(a):\n global n\n del n\n print(end='')\n n = 3\n return a",
    "inner function": "def f(a):\n k = lambda v: v + a\n print(end='')\n return k(a)",
    "returned function": "def f(a):\n def k(v): return v + a\n return k",
    "handler": "def f(a):\n try:\n  print(end='')\n  raise ValueError(a)\n except ValueError:\n  print(end='')\n"
               "  return a",
    "raises": "def f(a):\n b = a + 1\n print(end='')\n raise KeyError(3)",
    "loop": "def f(a):\n for i in range(3):\n  a = a + i\n  print(end='')\n return a",
    "generator inside": "def g(a):\n for i in range(3):\n  print(end='')\n  yield a + i\ndef f(a): return sum(g(a))",
    "generator": "def f(a):\n for i in range(3):\n  yield a + i",
    "coroutine": "async def f(a):\n return a + 1",
    "class": "class C:\n def __init__(self, a): self.a = a\n def m(self):\n  print(end='')\n  return self.a * 2\n"
             "def f(a): return C(a).m() + 1",
    "returned object": "class C:\n def __init__(self, a): self.a = a\ndef f(a): return C(a + 1)",
    "subclass of dict": "class C(dict):\n def m(self): return self['a']\ndef f(a):\n c = C(a=a)\n print(end='')\n"
                        " return c.m()",
    "exception class": "class E(Exception): pass\ndef f(a):\n try: raise E(a)\n except E as e: return e.args[0] + 1",
    "context": "class W:\n def __enter__(self): return 2\n def __exit__(self, *a): print(end='')\ndef f(a):\n"
               " with W() as w:\n  a = a * w\n  print(end='')\n  return a + 1",
    "comprehension": "def f(a): return [a + i for i in range(3) if not print(end='')]",
    "condition": "def f(a):\n if a.sum() > 3:\n  print(end='')\n  a = a + 1\n return a",
    "number": "def f(a): return a * float(a.sum())",
    "default": "class D: pass\ndef f(a, d=D()): return a + 1, d",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass P:\n x: object\ndef f(a):\n p = P(a)\n"
                 " print(end='')\n"
                 " return dataclasses.replace(p, x=p.x + 1).x",
}


class Mark:
    """Stands in a namespace; it lives as long as that."""


def drain(result):
    if hasattr(result, "__next__"):
        list(result)
    elif hasattr(result, "send"):
        with pytest.raises(StopIteration):
            result.send(None)


def ran(source):
    """Runs `f` of a fresh namespace; references to the namespace, to f's code and to the result's owner."""
    namespace = {"mark": Mark()}
    exec(source, namespace)
    try:
        drain(dynacomp.jit(namespace["f"], backend="eager")(X))
    except KeyError:
        assert "raise KeyError" in source
    return weakref.ref(namespace["mark"]), weakref.ref(namespace["f"].__code__)


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_a_namespace_dies(source):
    dead = [ran(source) for _ in range(3)]
    gc.collect()
    assert [(mark(), code()) for mark, code in dead[:-1]] == [(None, None)] * 2
    assert dead[-1][0]() is None


def watched(x, n):
    held = Mark()
    alive = weakref.ref(held)
    for _ in range(n):
        held.seen = x.sum()
    del held
    return alive() is None


def test_objects_that_a_loop_changes_die_when_the_program_lets_go_of_them():
    dynacomp.reset()
    program = dynacomp.jit(watched, backend="eager")
    assert all(program(X, 2) for _ in range(3))  # in the call that captures, too
    assert dynacomp.stats()["frames_captured"] and not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.grad])
def test_argument_of_the_call_that_makes_sizes_symbolic_dies_with_it(wrap):
    fn = wrap(dynacomp.jit(lambda x, held: jax.vmap(jnp.sin)(x).sum() + jnp.zeros(x.shape).sum()))
    for n in (3, 4, 5):
        held = Mark()
        watch = weakref.ref(held)
        fn(jnp.ones(n), held)
        del held
        assert watch() is None


def derived(x):
    held = Mark()
    held.scale = 2.0

    def scaled(v):
        return (v * held.scale).sum()

    print(end="")
    return jax.grad(scaled)(x), weakref.ref(held)


def test_what_a_transformed_function_holds_dies_with_it():
    dynacomp.reset()
    program = dynacomp.jit(derived, backend="eager")
    gc.disable()
    try:
        assert [program(X)[1]() for _ in range(3)] == [None] * 3
    finally:
        gc.enable()
    assert dynacomp.stats()["breaks"] == {"effect": 1}
