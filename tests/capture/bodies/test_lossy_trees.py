"""Objects of a library that note something beside the leaves of their trees keep it, as in eager JAX."""

import types

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp
from tests.capture.program_kit import check_one_graph

SOURCE = '''
import functools
import jax
import jax.numpy as jnp

class Kinds(tuple):
    pass

class Marked:
    """An array, of which may be known that it is zero: JAX's trees do not say so."""

    def __init__(self, array, kinds, zero=None):
        self.array, self.kinds, self.zero = array, kinds, zero

    @functools.cached_property
    def size(self):
        return self.array.size

    def parts(self):
        yield self.array
        yield from self.kinds

jax.tree_util.register_pytree_node(Marked, lambda m: ((m.array,), m.kinds), lambda k, c: Marked(*c, k))

def zeros(like):
    return Marked(jnp.zeros_like(like), Kinds(("a", "b")), True)

def plain(array):
    return Marked(array * 2, Kinds(("a",)))

def scaled(marked, by):
    assert marked.size >= 0
    return marked if marked.zero else Marked(marked.array * by, marked.kinds, marked.zero)

def linear(x):
    made = jax.tree_util.Partial(jnp.multiply, x * 2)
    made.noted = (True, x.ndim)
    return x.sum(), made

def total(marked):
    first, *kinds = marked.parts()
    return first.sum() + len(kinds), [k + "!" for k in marked.kinds]
'''
LIB = types.ModuleType("marking_library")
exec(SOURCE, LIB.__dict__)
dynacomp.register_library("marking_library", pure=True)
KINDS = LIB.Kinds("ab")


def described(x):
    made = x if isinstance(x, tuple) else (x,)
    return [(type(m), m.zero, m.kinds, np.asarray(m.array).tolist()) if isinstance(m, LIB.Marked) else repr(m)
            for m in made]


def check(fn, make, nodes=None):
    compiled = dynacomp.jit(fn)
    before = dynacomp.stats()
    for k in range(5):
        assert described(compiled(make(k))) == described(fn(make(k)))
    after = dynacomp.stats()
    assert after["breaks"] == before["breaks"] and after["frames_captured"] - before["frames_captured"] <= 2
    if nodes is not None:
        assert after["operations"] - before["operations"] <= nodes


def ones(k):
    return jnp.ones(2 + k)


def test_made_in_the_compiled_code():
    check(lambda x: LIB.scaled(LIB.zeros(x), 3.0), ones)
    check(lambda x: (LIB.zeros(x), x + 1), ones)


def test_given_to_it():
    check(lambda m: LIB.scaled(m, 3.0), lambda k: LIB.Marked(jnp.zeros(2 + k), KINDS, True))
    check(lambda m: LIB.scaled(m, 3.0), lambda k: LIB.Marked(jnp.ones(2 + k), KINDS, False))


def test_jax_forgets_it_as_ever():
    check(lambda x: jax.tree.map(lambda leaf: leaf + 1, LIB.zeros(x)), ones)
    check(lambda x: jax.jit(LIB.zeros)(x), ones)
    check(lambda x: jax.vmap(LIB.zeros)(x), ones)


def test_what_is_no_more_than_its_tree_is_one_node():
    check(lambda x: LIB.plain(x), ones, nodes=6)


def test_generators_and_tuples_of_libraries():
    check(lambda x: LIB.total(LIB.plain(x)), ones)
    check(lambda x: tuple(LIB.plain(x).parts()), ones)
    check(lambda x: tuple(k * 2 for k in LIB.plain(x).kinds) + (x + 1,), ones)


def functions(x):
    y, f = LIB.linear(x)
    return y, f(x), f.noted, getattr(f, "other", None), hasattr(f, "func")


def kept(x, f):
    return f(x) + 1, f.noted, getattr(f, "other", None)


def test_functions_note_beside_their_trees():
    """`jax.linearize` does, of late: the graph broke there."""
    check_one_graph(functions, *((ones(k),) for k in range(3)), captures=2)
    check_one_graph(kept, *((ones(k), LIB.linear(ones(k))[1]) for k in range(3)), captures=2)


def test_a_linearized_function_says_what_it_says():
    def program(x, k):
        y, push = jax.linearize(lambda w: (w ** 2 * k, 3.0), x)
        return y, push(x), getattr(push, "out_nzs", None)

    check_one_graph(program, *((ones(k), k + 0.5) for k in range(3)), captures=2)


def test_what_a_given_function_notes_is_guarded():
    def program(x, f):
        return f(x), getattr(f, "tag", "none")

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for tag in (None, "a", "b", None, "a", "c"):
        f = jax.tree_util.Partial(jnp.multiply, 2.0)
        vars(f).update({} if tag is None else {"tag": tag})
        assert compiled(ones(1), f)[1] == (tag or "none")
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]
