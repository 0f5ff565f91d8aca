"""Operators on instances: which special methods run, in which order, and what comes of NotImplemented."""

import enum
import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test.support.import_helper import import_fresh_module

import dynacomp
from tests.capture.program_kit import check_one_graph

pytestmark = pytest.mark.usefixtures("is_captured")

METHODS = [[], ["__eq__"], ["__ne__"], ["__eq__", "__ne__"], ["__lt__", "__gt__"], ["__add__"], ["__radd__", "__add__"]]
LOG = []


def make(name, base, methods):
    def method(special):
        def logged(self, other):
            LOG.append(name + special)
            return NotImplemented
        return logged

    return type(name, (base,), {special: method(special) for special in methods})


def all_operators(x, y):
    found = [x == y, x != y]
    for op in (lambda: x < y, lambda: x > y, lambda: x <= y, lambda: x + y, lambda: x - y):
        try:
            found.append(op())
        except TypeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("left, right", itertools.product(METHODS, METHODS), ids=lambda m: "+".join(m) or "none")
def test_the_methods_of_plain_python_run(left, right):
    for related in (False, True):
        a = make("A", object, left)
        b = make("B", a if related else object, right)
        one = a()
        for x, y in ((a(), b()), (b(), a()), (one, one), (a(), 1), (1, b())):
            runs = []
            for fn in (all_operators, dynacomp.jit(lambda x, y: all_operators(x, y))):
                LOG.clear()
                runs.append((fn(x, y), list(LOG)))
            assert runs[0] == runs[1]


class Number:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


def test_unequal_is_the_opposite_of_the_classes_own_equal():
    assert dynacomp.jit(lambda a, b: (a != b, a == b))(Number(1), Number(1)) == (False, True)


class Holder:
    def __init__(self, file):
        self.file = file

    def method(self):
        return self.file


def identities(holder, file, other, n, pair):
    return (holder.file is file, holder.file is other, holder.file == file, holder.file in (file, other),
            holder.file in (other,), (holder.file, other) == (file, other), [holder.file].count(file), (n, 2) in [pair])


def equalities(holder, file, other, n, pair):
    return (pair == (n, 2), holder.method == holder.method, {"a": holder.file} == {"a": file}, file != holder.file,
            (file,) < (file, 2), {1, 2} == {n, 2})


@pytest.mark.parametrize("asked", [identities, equalities])
def test_one_object_by_two_ways_is_one_object(asked):
    compiled = dynacomp.jit(asked)
    for n in (1, 2, 3, 1):
        file, other = io.StringIO(), io.StringIO()
        for pair in ((file, other), (other, file), (file, file)):
            assert compiled(Holder(file), *pair, n, (1, 2)) == asked(Holder(file), *pair, n, (1, 2))


def test_strings_that_are_computed_are_new_ones():
    def made(x):
        a = b = "xyzpdq"
        c = a[:3] + b[3:]
        print(end="")
        return x, a is b, a is c, a == c

    assert repr(dynacomp.jit(made)(jnp.ones(2))) == repr(made(jnp.ones(2)))


def test_another_copy_of_the_operator_module():
    fresh = import_fresh_module("operator", fresh=["_operator"])

    def change(x):
        a = [x, 3, 2]
        b = [1, 2]
        c = b
        return fresh.delitem(a, 1), fresh.setitem(a, 0, 5), fresh.iadd(b, [3]) is c, a, b, fresh.concat([1], [2])

    assert repr(dynacomp.jit(change)(jnp.ones(2))) == repr(change(jnp.ones(2)))


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Scaled(enum.IntEnum):
    TWICE = 2

    def __mul__(self, other):
        return "times", other


class Share(float):
    pass


HALF = Share(0.5)


def by_level(x, n):
    level = Level.HIGH
    found = [level * n, n - level, n // level, level ** 2 + n, n * 0.5 / level, type(level * n)]
    level += n
    return x * found[0], found, level


@pytest.mark.parametrize("program, captures", [
    (by_level, 2),  # the first, and one where the number changes
    (lambda x, n: (x * n, Scaled.TWICE * 3, Scaled.TWICE + n), 2)])
def test_members_that_are_numbers_with_ones_that_change(program, captures):
    """An operator that the class leaves to int is int's: it is computed in each call; the program's own is asked."""
    check_one_graph(program, *((jnp.arange(3.0), n) for n in (2, 5, 7, 9, 4)), captures=captures)


@pytest.mark.parametrize("program", [
    lambda x, n: (x * n, HALF + n, n + HALF, n * HALF - n), lambda x, n: (x * n, (n * 0.5) / HALF, HALF - n * 0.5)])
def test_instances_of_float_with_numbers_that_change(program):
    """The method of the number on the right is asked where that of the instance on the left leaves it."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (2, 5, 7):
        assert repr(compiled(jnp.arange(3.0), n)) == repr(program(jnp.arange(3.0), n))
    assert not dynacomp.stats()["frames_eager"]


NAN = float("nan")
FLOATS = (1.0, 2.0, NAN, 3.0, NAN, NAN, 2.0, 1.0, 5.0, NAN)


@pytest.mark.parametrize("program", [
    lambda x, one, other: (x * 2, one < other, one == other, one >= other, one != other),
    lambda x, one, other: (x * 2, one[0] in [*other], other.count(one[0]), one[0] == other[0]),
    lambda x, one, other: (x * 2, ("a", one) < ("a", other), min(one, other) == one)])
def test_tuples_of_floats_that_change(program):
    """The first items that differ decide, not what each number is; one that is no number equals itself, as the same
    object: `nan in [nan]` was asked with `==` alone."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(20):
        args = jnp.arange(3.0), (FLOATS[i % 10], 1.0), (FLOATS[i * 3 % 10], float(i % 3))
        assert repr(compiled(*args)) == repr(program(*args))
    assert dynacomp.stats()["frames_captured"] <= 9 and not dynacomp.stats()["frames_eager"]


def test_tuples_of_numbers_that_change_by_another_amount_in_each_call():
    check_one_graph(lambda x, a, b: x * a[0] if a < b else x + b[1], *(
        (jnp.arange(3.0), (i + 0.5, 1), (i + 2.5, i)) for i in range(8)), captures=2)


class Wrapping(type):
    """As Equinox's `tree ** ω`: the class is an operand."""

    def __rpow__(cls, value):
        LOG.append("rpow")
        return cls(value)

    def __mul__(cls, other):
        return ("mul", other)

    def __lt__(cls, other):
        return ("lt", other)

    def __neg__(cls):
        return "neg"

    def __rsub__(cls, other):
        return NotImplemented


class Wrapped(metaclass=Wrapping):
    def __init__(self, value):
        self.value = value


class Other(metaclass=Wrapping):
    pass


def test_operators_of_classes_are_those_of_their_metaclass():
    def program(x, n):
        try:
            Wrapped - Other
        except TypeError as error:
            refused = str(error)
        trees = [(tree**Wrapped).value for tree in (x, (x, 1), [x, None], {"x": x}, n, 2.0, None)]
        return trees, Wrapped * x, Wrapped * Other, (x, x) > Wrapped, -Wrapped, Wrapped == Other, refused, x * n

    LOG.clear()
    check_one_graph(program, (jnp.ones(2), 1.5), (jnp.zeros(2), 1.5))
    assert LOG and len(LOG) % 7 == 0


def test_functions_made_anew_are_compared_by_identity():
    """`==` of two of them asked which they are: a capture for each call."""
    def program(fns, x):
        one, two = fns
        return one == two, one != fns[0], (one,) == (fns[0],), (one,) == (two,), one == None, x + 1  # noqa: E711

    compiled = dynacomp.jit(program, backend="eager")
    for n in range(6):
        fns = (lambda x, n=n: x * n), (lambda x, n=n: x - n)
        assert repr(compiled(fns, jnp.ones(3))) == repr(program(fns, jnp.ones(3)))
    assert compiled((fns[0], fns[0]), jnp.ones(3))[:4] == (True, False, True, True)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"]


def test_a_librarys_object_and_one_that_the_program_has_entered():
    """An operator of lineax around a function, and one that is a product with a number: the graph broke at `+`."""
    lx = pytest.importorskip("lineax")

    def program(a, b, s):
        of = lx.FunctionLinearOperator(lambda v: a @ v, jax.ShapeDtypeStruct(b.shape, b.dtype))
        shifted = of + lx.IdentityLinearOperator(of.in_structure()) * s
        return shifted.mv(b), shifted.as_matrix(), shifted.T.mv(b)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k, n in enumerate((3, 4, 5, 3, 6)):
        given = jnp.eye(n) * n + 0.1, jnp.arange(float(n)), jnp.float32(1 + k / 10)
        for got, want in zip(compiled(*given), program(*given), strict=True):
            assert jnp.allclose(got, want, rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


class Metres(float):
    pass


class Count(int):
    pass


@pytest.mark.parametrize("number", [Metres(2.5), Count(3), enum.IntEnum("Level", "LOW HIGH").HIGH], ids=str)
def test_numbers_of_subclasses_have_a_dtype_beside_numpys(number):
    """NumPy takes plain numbers alone for such as have none; they were given to JAX, as for its own arrays."""
    def fn(x, n):
        return x * n, n * x, x + n, n - x, x > n, x.sum() * n, n * x.max()

    compiled = dynacomp.jit(fn, backend="eager")
    for x in (np.arange(3, dtype=np.float32), np.arange(3), np.arange(3, dtype=np.float16), jnp.arange(3.0)):
        for got, want in zip(compiled(x, number), fn(x, number)):
            assert type(got) is type(want) and got.dtype == want.dtype and str(got) == str(want)
