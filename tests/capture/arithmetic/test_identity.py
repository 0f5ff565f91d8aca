"""`a is b` of what the program passes, makes and computes: the same answer as Python's, in each of many calls."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.graph.avals import aval_of
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, open_function
from dynacomp.capture.values.containers import ListV, TupleV
from tests.capture.program_kit import check_one_graph


class Thing:
    pass


def program(x, a, b):
    made = [1]
    alias = made
    return x + 1, [a is b, a is not b, a is None, made is alias, made == [1], () == a, (a, b)[0] is a, x is x,
                   type(a) is type(b), [a].__class__ is list]


THING, TEXT = Thing(), "some text"
PAIRS = {
    "one_object": lambda n: (THING, THING), "made_anew": lambda n: (Thing(), Thing()),
    "the_same_made_anew": lambda n: (made := Thing(), made), "none": lambda n: (None, THING),
    "lists": lambda n: ([n], [n]), "one_list": lambda n: (made := [n], made), "tuples": lambda n: ((), ()),
    "functions": lambda n: (lambda: n, lambda: n), "one_function": lambda n: (made := lambda: n, made),
    "texts": lambda n: (TEXT, "".join(["some", " text"])), "classes": lambda n: (Thing, Thing),
    "structures": lambda n: (jax.tree.structure([n]), jax.tree.structure([n])),
    "one_structure": lambda n: (made := jax.tree.structure([n]), made),
    "big_numbers": lambda n: (10**6, 10**6 + len("") * n),
    "alternating": lambda n: (THING, THING if n % 2 else Thing())}


@pytest.mark.parametrize("name", PAIRS)
def test_in_each_call(name):
    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in range(2, 9):
        x, (a, b) = jnp.ones(n), PAIRS[name](n)
        got, want = compiled(x, a, b), program(x, a, b)
        assert got[1] == want[1] and (got[0] == want[0]).all()
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and (stats["frames_captured"] <= 4 or "function" in name)


def test_arrays_that_exist_are_themselves():
    def chosen(x, y):
        return x is y, y + 1

    compiled = dynacomp.jit(chosen)
    for n in (2, 3, 4, 5):
        x = jnp.ones(n)
        assert compiled(x, x)[0] is True and compiled(x, jnp.ones(n))[0] is False


def test_values():
    real, f = jnp.ones(2), open_function(test_values, S.Local(0, "f"), pytest.fail)
    one, other = (ArrayV(None, aval_of(real), real=r) for r in (real, jnp.ones(2)))
    assert is_same(one, ArrayV(None, aval_of(real), real=real)) and not is_same(one, other)
    assert not is_same(ArrayV(None, aval_of(real)), ArrayV(None, aval_of(real)))
    assert is_same(Const(None), Const(None)) and is_same(TupleV([]), Const(())) and not is_same(ListV([]), ListV([]))
    assert not is_same(f, Const(None)) and not is_same(TupleV([]), f)  # and it is not identified for that


def test_a_number_that_python_computes_is_no_object_of_another_type():
    @functools.total_ordering
    class Version:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return self.number == other.number

        def __lt__(self, other):
            return self.number < other.number

    def newest(x, k):
        most = k * 2.5 + 1
        later = Version(k) >= Version(3)
        return most is None, most is NotImplemented, most is True, x * (2 if later else 3)

    check_one_graph(newest, *((jnp.ones(2), k) for k in (1, 5, 7, 2, 4)), captures=3)


def named(x, fn, other):
    y = x * 2 if fn is jax.nn.relu else x * 3 if fn == jnp.tanh else x
    return y, fn is jax.nn.relu, fn is jnp.tanh, fn is other, fn in (jnp.tanh, jax.nn.relu), {jnp.tanh: 1}.get(fn, 0)


def test_functions_that_are_given_are_compared_with_those_of_modules():
    compiled = dynacomp.jit(named, backend="eager", options={"recompile_limit": 64})
    x = jnp.arange(3.0)
    given = (jax.nn.relu, jnp.tanh, jnp.sin, jax.jit(lambda x: x), lambda x: x)
    for fn in given * 2:
        for other in (jax.nn.relu, jnp.tanh, fn):
            assert str(compiled(x, fn, other)) == str(named(x, fn, other))
    assert not dynacomp.stats()["breaks"]


def test_what_a_call_makes_is_not_the_none_that_it_is_given():
    def chosen(x, given=None):
        made, box = Thing(), [x]
        made.box = box
        return x * (2 if made is given else 3), box is not given, [v for v in (made.box, given) if v is not given]

    check_one_graph(chosen, *((jnp.arange(3.0) + n, None) for n in range(5)))


def test_what_a_library_hands_on_is_the_array_that_it_was_given():
    """A function that a library calls may ask which array of the program's it gets: Python asks then."""
    def shown(pair):
        first, _ = pair
        return eqx.tree_pformat(pair, truncate_leaf=lambda leaf: leaf is first), first + 1

    def kept(pair):
        return eqx.filter(pair, lambda leaf: leaf is pair[1]), pair[0] * 2

    def under_grad(pair):
        return jax.grad(lambda x: (x * (2.0 if x is pair[0] else 3.0)).sum())(pair[0])

    for fn, at_most in ((shown, 6), (kept, 6), (under_grad, 1)):
        compiled, captures = dynacomp.jit(fn, backend="eager"), []
        dynacomp.reset()
        for n in range(5):
            pair = jnp.arange(3.0) + n, jnp.ones(3)
            assert repr(compiled(pair)) == repr(fn(pair))
            captures.append(dynacomp.stats()["frames_captured"])
        assert captures[2] == captures[-1] <= at_most


def test_what_a_library_makes_is_what_another_hands_back():
    """`n.tx is s.tx` was False where the optimiser's rate changes: one is known as made, one as read from a result."""
    struct, optax = pytest.importorskip("flax.struct"), pytest.importorskip("optax")

    @struct.dataclass
    class State:
        w: jax.Array
        tx: object = struct.field(pytree_node=False)

    def program(x, rate):
        s = State(jnp.ones(2), optax.sgd(0.1 * rate))
        n = jax.vmap(lambda v: s.replace(w=s.w + v))(x)
        return n.w, n.tx is s.tx, n.tx is optax.sgd(0.1), n.tx is None

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for rate in range(1, 7):
        assert str(compiled(jnp.arange(3.0), rate)) == str(program(jnp.arange(3.0), rate))
    assert dynacomp.stats()["frames_captured"] <= 6


def test_which_array_a_loop_chose():
    """`y is x` behind a loop of as many rounds as a size says, none perhaps, made the function plain Python."""
    def program(x):
        y = x
        for v in x:
            y = y + v
        return y is None, y is x, y

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for size in (3, 4, 5, 0, 1, 6):
        assert str(compiled(jnp.arange(float(size)))) == str(program(jnp.arange(float(size))))
    stats = dynacomp.stats()
    assert stats["frames_eager"] == {} and stats["breaks"].keys() == {"identity"} and stats["frames_captured"] <= 5


def test_a_loop_chose_no_none():
    def program(x):
        y = x
        for v in x:
            y = y + v
        return x if y is None else y

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for size in (3, 4, 5, 2, 6):
        assert str(compiled(jnp.arange(float(size)))) == str(program(jnp.arange(float(size))))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and stats["breaks"] == {}
