"""Classes that captured code makes: each call makes its own, and no graph breaks."""

import abc
import collections.abc
import copy
import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of, same

X = jnp.arange(3.0)
VERSIONED = 1 << 19  # Py_TPFLAGS_VALID_VERSION_TAG


class Base:
    size = 1

    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v


class Registering:
    known: list = []

    def __init_subclass__(cls, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag
        cls.known.append(cls.__name__)


def shown(obj):
    """What tells one class from another, and an instance, without its identity."""
    if isinstance(obj, (tuple, list)):
        return type(obj)(map(shown, obj))
    if isinstance(obj, type):
        return (obj.__module__, obj.__qualname__, list(vars(obj)), [c.__qualname__ for c in obj.__mro__],
                obj.__doc__, obj.__flags__ & ~VERSIONED)
    return (shown(type(obj)), shown(list(vars(obj).items()))) if hasattr(
        obj, "__dict__") and not isinstance(obj, jax.Array) else obj


def check(fn, breaks=0, use=shown):
    """Plainly, compiled, and compiled again, with other values."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for x in (X, X, X + 1):
        assert same(use(compiled(x)), use(fn(x)))
    assert sum(dynacomp.stats()["breaks"].values()) == breaks, dynacomp.stats()["breaks"]
    assert not dynacomp.stats()["frames_eager"]
    return compiled


def test_methods_see_the_class_through_its_cell_its_name_and_super():
    def f(x):
        class Local(Base):
            w = x * 2

            def __init__(self, v):
                super().__init__(v * 3)

            def get(self):
                return super().get() + self.w

            def kind(self):
                return __class__ is Local and type(self) is Local

        o = Local(x)
        return o.get(), o.kind(), isinstance(o, Base), issubclass(Local, Base), Local.size, repr(Local)

    check(f)


def test_a_class_that_is_returned_is_a_new_one_in_each_call():
    def f(x):
        class Local(Base):
            """Says what it is."""

            w = x * 2
            names: list = []

            def get(self):
                return super().get() + self.w

            def kind(self):
                return Local

        return Local

    compiled = check(f)
    first, second = compiled(X), compiled(X)
    assert first is not second and first.names is not second.names
    assert first(1).kind() is first and same(second(X).get(), f(X)(X).get())
    assert first.kind.__qualname__ == f(X).kind.__qualname__


def test_instances_have_the_class_that_was_made():
    def f(x):
        class Local(Base):
            def get(self):
                return super().get() + x

        return Local(x * 3), Local(1), Local

    check(f)
    a, b, cls = dynacomp.jit(f, backend="eager")(X)
    assert type(a) is type(b) is cls and same(a.get(), X * 3 + X)


def test_every_execution_of_the_statement_makes_another_class():
    def f(x):
        made = []
        for i in range(3):
            class Local:
                n = i

                def get(self):
                    return x * self.n

            made.append(Local)
        return [cls().get() for cls in made], made[0] is made[1], len({id(cls) for cls in made}), made

    check(f)


def test_what_a_body_runs_is_run_once_and_its_exceptions_are_the_programs():
    def f(x, log):
        class Local:
            table = {k: k * 2 for k in range(3)}
            for i in range(2):
                log.append(i)
            del i
            here = [x, *table]

        try:
            class Lost:
                log.append("before")
                raise KeyError("late")
        except KeyError as error:
            log.append(str(error))
        return Local.table, Local.here, hasattr(Local, "i"), log

    assert not breaks_of(f, lambda: (X, []), lambda: (X + 1, []))


def test_classes_made_of_classes_of_the_same_capture():
    def f(x):
        class A:
            def size(self):
                return x

            def more(self):
                return self.size() + 1

        class B(A):
            def size(self):
                return super().size() * 10

        class C(B, Base):
            class Inner(A):
                pass

        return C(3).more(), C(x).get(), C.Inner().more(), [c.__name__ for c in C.__mro__], C(4), C.Inner

    check(f)


def test_descriptors_of_the_language():
    def f(x):
        class Local:
            def __init__(self):
                self.v = x

            @property
            def twice(self):
                """Two of it."""
                return self.v * 2

            @twice.setter
            def twice(self, v):
                self.v = v / 2

            @functools.cached_property
            def once(self):
                return self.v + 1

            @classmethod
            def make(cls):
                return cls()

            @staticmethod
            def plus(y):
                return y + 1

        o = Local.make()
        o.twice = x + 4
        return o.twice, o.once, o.plus(x), Local.plus(1), Local.twice.__doc__, o, Local

    check(f)


def test_operators_and_hooks():
    def f(x):
        class V:
            def __init__(self, v):
                self.v = v

            def __add__(self, other):
                return V(self.v + other.v)

            def __eq__(self, other):
                return True

            def __call__(self, y):
                return self.v * y

            def __iter__(self):
                return iter([self.v, 2])

            def __getattr__(self, name):
                return name

            def __new__(cls, v):
                return super().__new__(cls)

            def __init_subclass__(cls):
                cls.depth = 1

            def __class_getitem__(cls, item):
                return cls, item

        class W(V):
            pass

        a = V(x)
        return (a + a).v, a == 1, a(x), list(a), a.other, V.__hash__, W.depth, W[3], W(x)

    check(f)


def test_attributes_stored_later():
    def f(x):
        class Local:
            gone = 1

        Local.w = x
        Local.get = lambda self: self.w + 1
        Local.__add__ = lambda self, other: (self.w, other)
        Local.itself = (Local,)
        del Local.gone
        return Local().get(), Local() + 1, hasattr(Local, "gone"), Local.itself[0] is Local, vars(Local()), Local().w

    check(f)
    assert "itself" in vars(dynacomp.jit(returning_itself, backend="eager")(X))


def returning_itself(x):
    class Local:
        pass

    Local.itself = (Local,)
    return Local


def test_subclasses_tell_their_bases():
    def f(x):
        class A(Registering, tag=x):
            pass

        class B(A):
            def __init_subclass__(cls, **kwargs):
                super().__init_subclass__(tag="c")

        class C(B):
            pass

        return A.tag, B.tag, C.tag, Registering.known[-3:], A, C

    check(f)


def test_refused_classes_say_what_they_say_in_python():
    def f(x):
        def asked(make):
            try:
                make()
            except TypeError as error:
                return str(error)

        def keywords():
            class Local(Base, size=1):
                pass

        class Later(Base):
            pass

        def order():
            class Local(Base, Later):
                pass

        return asked(keywords), asked(order), asked(lambda: type("A", (bool,), {})), x

    check(f)


def test_type_with_three_arguments():
    def f(x):
        made = type("Made", (Base,), {"w": x, "get": lambda self: self.w + self.v})
        return made(2).get(), made.__module__, made

    check(f)


def test_slots():
    def f(x):
        class Local:
            __slots__ = ["a", "b"]

            def __init__(self):
                self.a = x

        o = Local()
        try:
            o.c = 1
        except AttributeError as error:
            said = str(error)
        return o.a, said, Local.__slots__, Local, hasattr(o, "__dict__"), o.__slots__ is Local.__slots__

    check(f)


def test_exceptions():
    def f(x):
        class Wrong(ValueError):
            def __init__(self, v):
                super().__init__("wrong")
                self.v = v

        try:
            raise Wrong(x)
        except ValueError as error:
            return error.v, str(error), error.args, type(error) is Wrong

    check(f)


def test_derivatives_of_methods():
    def f(x):
        class Model:
            def __init__(self, w):
                self.w = w

            def loss(self, y):
                return jnp.sum(jnp.sin(self.w * y))

        def inside(w):
            class Scaled(Base):
                def loss(self):
                    return jnp.sum(jax.jit(jnp.sin)(self.v * x))

            return Scaled(w).loss()

        return (jax.grad(lambda w: Model(w).loss(x))(x), jax.grad(Model(x).loss)(x), jax.grad(inside)(x),
                jax.vmap(lambda v: Model(v).loss(2.0))(x))

    check(f)


def test_annotations_and_text():
    def f(x):
        class Local:
            """Doc."""

            a: int
            b: float = 3.0

        return Local.__annotations__, Local.__doc__, Local.b, x, Local

    check(f)


def test_classes_as_keys_and_operands():
    def f(x):
        class A:
            pass

        class B:
            pass

        table = {A: x, B: 2}
        return table[A], A == B, A is A, A in (B,), [A, B].index(B), id(A) == id(B), len({A, B, A}), [*table]

    check(f)


def test_what_a_classmethod_copies_of_its_function_is_there_before():
    def f(x):
        def wrapped(cls, arg: int):
            """Doc."""

        @classmethod
        @functools.wraps(wrapped)
        def method(cls, *args):
            return args

        print(end="")
        return x, method.__name__, method.__doc__, method.__annotations__, method.__qualname__

    compiled = dynacomp.jit(f, backend="eager")
    for _ in range(2):
        assert same(compiled(X), f(X))


def test_a_class_lives_across_a_break():
    def f(x):
        class Local(Base):
            def get(self):
                return super().get() * x

        o = Local(x)
        print(end="")
        return o.get(), Local.__name__, type(o) is Local

    check(f, breaks=1)


def test_a_class_that_nothing_keeps_is_known_to_its_base():
    class Parent:
        pass

    def f(x):
        class Local(Parent):
            pass

        return x * 2

    compiled = dynacomp.jit(f, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for n in range(3):
            compiled(X)
            assert [c.__name__ for c in Parent.__subclasses__()] == ["Local"] * (n + 1)
    finally:
        gc.enable()
    gc.collect()
    assert not Parent.__subclasses__()


def test_calls_leave_nothing_behind():
    def f(x):
        class Local(Base):
            w = x

            def get(self):
                return super().get()

        return Local(1)

    compiled = dynacomp.jit(f, backend="eager")
    compiled(X)
    gc.collect()
    refs = [weakref.ref(type(compiled(X))) for _ in range(3)]
    before = len(gc.get_objects())
    for _ in range(300):
        compiled(X)
    gc.collect()
    assert not any(ref() for ref in refs)
    assert len(gc.get_objects()) < before + 300


def test_a_base_that_changes_is_noticed():
    class Other(Base):
        pass

    def f(x):
        class Local(Other):
            pass

        return x * Local.size, Local(x).get()

    compiled = dynacomp.jit(f, backend="eager")
    assert same(compiled(X), f(X))
    Other.get = lambda self: self.v * 5
    Other.size = 2
    assert same(compiled(X), f(X))
    Base.size = 3
    try:
        del Other.size
        assert same(compiled(X), f(X))
    finally:
        Base.size = 1


def test_a_cell_that_exists_is_told_of_its_class():
    class Other:
        def kind(self):
            return __class__

    def f(x):
        type("Made", (), {"__classcell__": Other.kind.__closure__[0]})
        return x, Other().kind().__name__

    check(f)
    assert Other().kind().__name__ == "Made"


def test_copies_of_instances():
    def f(x):
        class Local:
            def __init__(self):
                self.v = [x]

        o = Local()
        a, b = copy.copy(o), copy.deepcopy(o)
        return a.v is o.v, b.v is o.v, type(a) is Local, vars(b)

    check(f)


class Named:
    """A descriptor that knows where it is."""

    def __set_name__(self, owner, name):
        self.name, owner.names = name, (*getattr(owner, "names", ()), name)

    def __get__(self, obj, cls=None):
        return self if obj is None else vars(obj)[self.name] * 2

    def __set__(self, obj, value):
        vars(obj)[self.name] = value + 1

    def __delete__(self, obj):
        del vars(obj)[self.name]


def test_descriptors_of_the_program():
    def f(x):
        class Asking:
            def __get__(self, obj, cls):
                return obj is None, cls.__name__

        class Local:
            a, b, asked = Named(), Named(), Asking()

        o = Local()
        o.a, o.b = x, 3
        told = o.a, o.b, Local.a.name, Local.names, o.asked, Local.asked, Local.a is Local.a
        del o.b
        return told, vars(o), o, Local

    compiled = check(f)
    cls = compiled(X)[-1]
    assert cls.names == ("a", "b") and cls.b.name == "b" and vars(cls)["names"] == ("a", "b")


def test_jitted_methods():
    def f(x):
        class Local:
            twice = jax.jit(lambda y: y * 2)
            thrice = staticmethod(jax.jit(lambda y: y * 3))

        return Local.twice(x), Local.thrice(x), Local().thrice(x)

    check(f)


class Meta(type):
    def __init__(cls, *args):
        super().__init__(*args)
        cls.made = True


def metaclass(x):
    class Local(metaclass=Meta):
        w = x

    return Local.w


def asked_in_c(x):
    class Wrong(Exception):
        pass

    def refuse():
        raise Wrong("no")

    class Local(metaclass=abc.ABCMeta):  # noqa: B024
        __subclasses__ = refuse

    try:
        issubclass(int, Local)
    except Wrong as error:
        return x, str(error)


def own_dict(x):
    class Local:
        w = x

    return vars(Local)["w"]


def another_cell(x):
    class Other:
        def kind(self):
            return __class__

    try:
        class Local:
            def kind(self):
                return __class__

            __classcell__ = Other.kind.__closure__[0]
    except TypeError as error:
        return x, str(error)


def test_a_cell_of_another_class_is_refused():
    compiled = dynacomp.jit(another_cell, backend="eager")
    for _ in range(2):
        assert same(compiled(X), another_cell(X))


@pytest.mark.parametrize("fn", [asked_in_c, metaclass, own_dict])
def test_what_cannot_be_captured_is_pythons(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        assert same(compiled(X), fn(X))
    assert dynacomp.stats()["breaks"]


class Calling(type):
    """Makes classes as `type` does, and has its say in what is done with them."""

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = 5
        return made

    def __instancecheck__(cls, obj):
        return True


class Called(metaclass=Calling):
    pass


class Abstract(abc.ABCMeta):
    pass


def test_metaclasses_that_make_classes_as_type_does():
    def f(x):
        class Local(Called):
            def __init__(self, v):
                self.v = v

        made = Local(x)
        return made.v * made.extra, isinstance(3, Local), type(Local) is Calling, Local

    check(f)


def test_subclasses_of_abc_meta():
    def f(x):
        class Local(metaclass=Abstract):
            @abc.abstractmethod
            def area(self):
                ...

        class Square(Local):
            def area(self):
                return x * x

        class Mixed(Local, collections.abc.Sized):
            pass

        try:
            return Local()
        except TypeError as error:
            return str(error), Square().area(), type(Square) is Abstract, type(Mixed) is Abstract

    check(f)


class CallingAbstract(Calling, abc.ABCMeta):
    pass


class Derived(metaclass=CallingAbstract):
    pass


def test_the_most_derived_metaclass_makes_the_class():
    def f(x):
        class Plain:
            pass

        class Local(Plain, Called, Derived):
            @abc.abstractmethod
            def area(self):
                ...

        try:
            Local()
        except TypeError as error:
            return x * 2, type(Local) is CallingAbstract, str(error), Local.__abstractmethods__

    check(f)


def test_metaclasses_that_do_not_go_together():
    def f(x):
        class A(metaclass=Abstract):
            pass

        try:
            class B(A, Called):
                pass
        except TypeError as error:
            return x * 2, str(error)

    check(f)


class Shape(abc.ABC):
    kinds: list = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.kinds.append(cls.__name__)

    @abc.abstractmethod
    def area(self):
        ...

    def twice(self):
        return self.area() * 2


def test_abstract_classes():
    def f(x):
        class Square(Shape):
            def area(self):
                return x * x

        class Flat(Shape):
            @property
            @abc.abstractmethod
            def name(self):
                ...

        class Table(collections.abc.Mapping):
            def __getitem__(self, key):
                return x

            def __iter__(self):
                return iter("ab")

            def __len__(self):
                return 2

        try:
            Flat()
        except TypeError as error:
            said = str(error)
        return (Square().twice(), said, sorted(Flat.__abstractmethods__), isinstance(Square(), Shape),
                issubclass(int, Flat), dict(Table()), Table().get("z"), Shape.kinds[-2:], Square, Flat())

    def g(x):
        try:
            return f(x)
        except TypeError as error:
            return x, str(error)

    check(g)


class Told:
    def __init__(self, abstract):
        self.__isabstractmethod__ = abstract


def test_abc_asks_what_stands_in_a_namespace_whether_it_is_abstract():
    def f(x):
        class Plan(abc.ABC):
            open, closed = Told([1]), Told([])

            @functools.singledispatchmethod
            @abc.abstractmethod
            def step(self, y):
                ...

        class Fixed(Plan):
            open = 3

            def step(self, y):
                return x * y

        class Half(Fixed):
            open = Told(True)

        said = []
        for cls in (Plan, Half):
            try:
                cls()
            except TypeError as error:
                said.append(str(error))
        return Fixed().step(2.0), said, sorted(Plan.__abstractmethods__), Plan, Half

    check(f)


@pytest.mark.parametrize("slots", [{}, {"__slots__": ()}, {"__slots__": ("a",)}])
@pytest.mark.parametrize("root", [object, type("Empty", (), {"__slots__": ()}), abc.ABC, dict, Exception])
def test_bases_of_any_layout_are_not_told_twice(root, slots):
    told = []

    class Parent(root):
        vars().update(slots)

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            told.append(cls.__name__)

    def f(x):
        class Local(Parent):
            w = x

        class Slotted(Local):
            __slots__ = ("b",)

        return x, told[-2:], Local, Slotted, Local.__base__ is Parent, Slotted.__dictoffset__

    check(f)
    assert len(told) == 12 and not any(c.__name__ == "Quiet" for c in Parent.__subclasses__())
