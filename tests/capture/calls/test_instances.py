"""What happens when a class of the program is called, where its bases are a library's."""

import asyncio
import collections
import dataclasses
import enum

import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState

import dynacomp
from dynacomp.capture.calls import calls
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


def test_a_class_that_its_library_registers_when_it_is_first_called():
    distrax = pytest.importorskip("distrax")

    class Constant(distrax.Distribution):
        def __init__(self, at):
            super().__init__()
            self.at = at

        def _sample_n(self, key, n):
            return jnp.broadcast_to(self.at, (n,))

        def log_prob(self, value):
            return -(value - self.at) ** 2

        @property
        def event_shape(self):
            return ()

    def made(x):
        return jax.tree.leaves(Constant(x)), Constant(x + 1)

    leaves, second = dynacomp.jit(made, backend="eager")(jnp.ones(()))
    assert [x.shape for x in leaves] == [()] and jax.tree.leaves(second)[0] == 2


def test_a_frozen_class_of_a_library_stays_frozen():
    def change(x):
        state = TrainState.create(apply_fn=None, params={"w": x}, tx=optax.sgd(0.1))
        try:
            state.step = 3
        except dataclasses.FrozenInstanceError:
            return "frozen"

    assert dynacomp.jit(change, backend="eager")(jnp.ones(2)) == change(jnp.ones(2)) == "frozen"


class Big(enum.IntEnum):
    HUGE = 2**64


class Letter(enum.StrEnum):
    X = "x"

    def upper(self):
        return "overridden"

    def __len__(self):
        return 9


@pytest.mark.parametrize("asked", [
    lambda _: [int.__repr__(x) for x in (Big.HUGE, True)],
    lambda _: (str.upper(Letter.X), str.__len__(Letter.X)),
    lambda table: dict.copy(table),
], ids=["repr", "str", "dict"])
def test_a_method_of_a_base_is_not_the_one_that_a_class_puts_in_its_place(asked):
    table = collections.OrderedDict(a=1)
    found, expected = dynacomp.jit(asked)(table), asked(table)
    assert repr(found) == repr(expected) and type(found) is type(expected)


class Decoding(ValueError):
    def __init__(self, message, position):
        print(end="")  # the graph breaks here, and the exception exists afterwards
        ValueError.__init__(self, f"{message} at {position}")


class Named(ImportError):
    def __init__(self, name):
        super().__init__("no such module", name=name, path="/")


class Numbered(OSError):
    def __init__(self, number):
        print(end="")
        super().__init__(number, "odd")


def test_an_exception_that_exists_is_initialised_again():
    def made(x):
        named, numbered = Named("n"), Numbered(x)
        return str(Decoding("bad", x)), named.args, named.name, named.path, numbered.args, numbered.errno

    assert dynacomp.jit(made)(2) == made(2)


def test_the_inequality_of_object_asks_for_equality():
    class Valued:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return self.value == other.value if isinstance(other, Valued) else NotImplemented

        def __ne__(self, other):
            return super().__ne__(other)

    def asked(x):
        return x != Valued(1), x != Valued(2), object.__ne__(x, Valued(1)), object.__ne__(x, 1), object.__ne__(1, 1)

    assert dynacomp.jit(asked)(Valued(1)) == asked(Valued(1))


def test_an_instance_s_table_is_found_past_the_class_s_own_getattribute():
    class Watched:
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    def table(obj):
        return object.__getattribute__(obj, "__dict__")

    def change(x, obj):
        found, made = table(obj), table(Watched())
        found["a"] = made["a"] = x + 1
        print(end="")
        found["b"] = made["b"] = x + 2
        return found, made, table(obj).get("a")

    asked = []
    got, want = dynacomp.jit(change)(1, Watched()), change(1, Watched())
    assert got == want and not asked


def test_a_table_that_python_cannot_read():
    class Beside:
        pass

    class Task(asyncio.Future, Beside):
        pass

    loop = asyncio.new_event_loop()
    future = Task(loop=loop)
    future.get_name = lambda: "own"

    @dynacomp.jit
    def ask(future):
        return future.get_name(), future.done()

    assert ask(future) == ("own", False)
    loop.close()


class Passing:
    def __new__(cls, *args, **kwargs):
        return super().__new__(cls, *args, **kwargs)


@dataclasses.dataclass
class Given(Passing):
    x: jax.Array


class Bare:
    pass


class Mixed:
    def __init__(self, x=None, **rest):
        super().__init__(**rest)
        self.x = x


class Unasked:
    def __new__(cls, *args):
        made = super().__new__(cls)
        object.__init__(made, *args)
        return made


class Twice(Unasked):
    def __init__(self, *args):
        super().__init__(*args)


@pytest.mark.parametrize("make", [
    Given, Mixed, Unasked, Twice, Bare, lambda x: Mixed(x, y=x), lambda x: Passing(), lambda x: Twice(),
    lambda x: object.__new__(Bare, x), lambda x: object.__init__(Bare(), x), lambda x: object.__init__(Mixed(x), x),
    lambda x: Bare().__init__(y=x)])
def test_what_object_refuses(make):
    def ask(x):
        y = x * 2
        try:
            return y, type(make(y)).__name__
        except TypeError as error:
            return y, str(error)

    compiled = dynacomp.jit(ask, fullgraph=True)
    for n in range(3):
        x = jnp.arange(2.0 + n)
        assert str(compiled(x)) == str(ask(x))


@dataclasses.dataclass
class Point:
    x: object
    y: int = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPoint:
    x: object
    y: int = 2


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x, y=None):
        self.x = x


class Narrow:
    __slots__ = ("x",)

    def __init__(self, x, y):
        self.x = x
        self.y = y  # there is no place for it


class WithProperty:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    @property
    def x(self):
        return self._x + 1

    @x.setter
    def x(self, value):
        self._x = value * 10


class Noting:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "noted", (*getattr(self, "noted", ()), name))


class Error(Exception):
    def __init__(self, x, y):
        self.x = x
        self.y = y


class Swapped(Point):
    x = 5  # a default of the class


@pytest.mark.parametrize(("make", "frames"), [
    (lambda x, n: vars(Point(x, n)), 0), (lambda x, n: vars(Point(y=n, x=x)), 0), (lambda x, n: vars(Point(x)), 0),
    (lambda x, n: (p := FrozenPoint(x=x, y=n)).x + p.y, 0), (lambda x, n: Slotted(x, n).x, 0),
    (lambda x, n: vars(Swapped(x, n)), 0), (lambda x, n: vars(dataclasses.replace(Point(x, 1), y=n)), None),
    (lambda x, n: (p := WithProperty(x, n)).x + p.y, None), (lambda x, n: Noting(x, n).noted, None),
    (lambda x, n: Error(x, n).y, None), (lambda x, n: outcome(lambda x: Point(), (x,)), None),
    (lambda x, n: outcome(lambda x: Point(x, 1, 2), (x,)), None),
    (lambda x, n: outcome(lambda x: FrozenPoint(x), (x,)), None),
    (lambda x, n: outcome(lambda x: Narrow(x, n), (x,)), None)])
def test_an_init_that_stores_its_arguments(make, frames, monkeypatch):
    entered, real = [], calls.inline

    def inline(cap, fn, *rest):
        entered.append(fn.name)
        return real(cap, fn, *rest)

    monkeypatch.setattr(calls, "inline", inline)
    check_one_graph(lambda x, n: (x + 1, make(x, n)), (X, 1), (X, 4), captures=2)
    assert frames is None or entered.count("__init__") == frames


def test_the_dict_of_an_exception_holds_what_was_stored_there():
    def program(x, n):
        made = Error(x, n)
        return x + n, made.args, vars(made), vars(ValueError(n))

    compiled = dynacomp.jit(program, backend="eager")
    for n in (1, 4, 7):
        assert repr(compiled(X, n)) == repr(program(X, n))


class Holder:
    __slots__ = ("content",)

    def __init__(self, content):
        self.content = content


class Bases(type):
    __mro__ = ()


class Odd(metaclass=Bases):
    pass


MRO, CONTENT = type.__dict__["__mro__"].__get__, Holder.__dict__["content"].__get__


def read_by_hand(x, n):
    """What `inspect` does so that no code of the program runs."""
    member, classes = Holder.__dict__["content"], type.__dict__["__dict__"].__get__(Holder)
    return x * 2, CONTENT(Holder(n)), member.__get__(Holder(x), Holder), member.__get__(None, Holder) is member, \
        MRO(Holder)[0] is Holder, "content" in classes


def test_descriptors_in_c_read_what_an_object_keeps_there():
    check_one_graph(read_by_hand, *((X, n) for n in (2.5, 3.5, 4.5, 5.5)), captures=2)
    check_one_graph(lambda held: CONTENT(held) + 1, *((Holder(X + n),) for n in range(3)))


@pytest.mark.parametrize("program", [
    lambda x: CONTENT(x), lambda x: MRO(3), lambda x: CONTENT(None, None), lambda x: CONTENT(Holder.__new__(Holder)),
    lambda x: len(MRO(Odd))])
def test_descriptors_in_c_refuse_what_is_not_theirs(program):
    assert outcome(dynacomp.jit(program, backend="eager"), (X,)) == outcome(program, (X,))
