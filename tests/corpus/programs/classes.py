"""Classes: construction, inheritance, attributes, descriptors, metaclasses, operators."""

from __future__ import annotations

import math
import abc
import functools

from tests.corpus.kit import ANY, program

REGISTRY: dict = {}


class Point:
    count = 0

    def __init__(self, x, y=0):
        self.x, self.y = x, y
        self.tags = []

    def norm1(self):
        return abs(self.x) + abs(self.y)

    @property
    def total(self):
        return self.x + self.y

    @total.setter
    def total(self, value):
        self.x = value - self.y

    @classmethod
    def origin(cls):
        return cls(0, 0)

    @staticmethod
    def helper(v):
        return v + 1

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


@program
def construct_and_read(x):
    p = Point(3, 4)
    return x, p.norm1(), p.total, p, Point.origin(), Point.helper(1)


@program
def property_setter(x):
    p = Point(1, 2)
    p.total = 10
    return x, p.x


@program
def holds_arrays(x):
    p = Point(x, x * 2)
    p.x = p.x + 1
    p.total = x
    return p, p.total


@program(args=lambda: (__import__("jax.numpy").numpy.arange(3.0), Point(1, 2)))
def argument_object_mutated(x, p):
    p.x += 5
    p.tags.append("t")
    p.new = x
    return p.total


@program(args=lambda: (lambda p: (__import__("jax.numpy").numpy.arange(3.0), p, p, [p]))(Point(1, 2)))
def argument_object_aliased(x, p, q, ps):
    p.x = 10
    ps[0].y = 20
    return x + q.x + q.y, p is q, ps


class InheritanceA:
    def who(self):
        return "A"

    def call(self):
        return self.who() + "."


class InheritanceB(InheritanceA):
    def who(self):
        return "B" + super().who()


class InheritanceC(InheritanceA):
    def who(self):
        return "C" + super().who()


class InheritanceD(InheritanceB, InheritanceC):
    def who(self):
        return "D" + super().who()


@program
def inheritance(x):
    return x, InheritanceD().call(), [c.__name__ for c in InheritanceD.__mro__], isinstance(InheritanceD(), InheritanceA), issubclass(InheritanceB, InheritanceC)


class SuperWithArgumentsA:
    def __init__(self, v):
        self.v = v

    @classmethod
    def make(cls, v):
        return cls(v)


class SuperWithArgumentsB(SuperWithArgumentsA):
    def __init__(self, v):
        super(SuperWithArgumentsB, self).__init__(v + 1)

    @classmethod
    def make(cls, v):
        return super().make(v * 2)


@program
def super_with_arguments(x):
    return x, SuperWithArgumentsB.make(3).v


class SuperAttributeAndPropertyA:
    kind = "a"

    @property
    def p(self):
        return self.kind + "!"


class SuperAttributeAndPropertyB(SuperAttributeAndPropertyA):
    kind = "b"

    @property
    def p(self):
        return super().p + super().kind


@program
def super_attribute_and_property(x):
    return x, SuperAttributeAndPropertyB().p


class Base:
    subclasses: list = []

    def __init_subclass__(cls, tag="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag


@program
def init_subclass(x):
    class A(Base, tag="first"):
        pass

    class B(Base):
        pass

    return x, A.tag, B.tag


class ClassAttributesA:
    shared = []
    n = 1

    def add(self, v):
        self.shared.append(v)
        self.n += 1


@program
def class_attributes(x):
    a, b = ClassAttributesA(), ClassAttributesA()
    a.add(1)
    b.add(2)
    ClassAttributesA.n = 10
    return x, ClassAttributesA.shared, a.n, b.n, ClassAttributesA.n, a.__dict__


@program
def class_body_executes(x):
    class A:
        table = {k: k * 2 for k in range(3)}
        if len(table) == 3:
            size = "three"
        for i in range(2):
            pass
        alias = size

    return x, A.table, A.size, A.i, A.alias, A.__qualname__, A.__module__


class Getter:
    def __init__(self):
        self.real = 1

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return "dynamic " + name


@program
def getattr_hook(x):
    g = Getter()
    return x, g.real, g.other, getattr(g, "_no", "default"), hasattr(g, "_no"), hasattr(g, "yes")


class Watch:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append((name, value))
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.log.append(("del", name))
        object.__delattr__(self, name)


@program
def setattr_hook(x):
    w = Watch()
    w.a = 1
    w.b = x
    del w.a
    return x, [n for n, _ in w.log], hasattr(w, "a")


class Everything:
    def __init__(self):
        self.hits = 0

    def __getattribute__(self, name):
        if name == "magic":
            return 42
        return super().__getattribute__(name)


@program
def getattribute_hook(x):
    e = Everything()
    e.hits += 1
    return x + e.magic, e.hits


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program
def slots(x):
    s = Slotted(1)
    found = [s.a, hasattr(s, "b")]
    s.b = x
    del s.a
    try:
        s.a  # noqa: B018
    except AttributeError as error:
        found.append(str(error))
    try:
        s.c = 1
    except AttributeError as error:
        found.append(str(error))
    return x, found, s


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, kind=None):
        return self if obj is None else getattr(obj, self.name, "unset")

    def __set__(self, obj, value):
        if not isinstance(value, int):
            raise TypeError(f"{self.name} wants an int")
        setattr(obj, self.name, value)

    def __delete__(self, obj):
        delattr(obj, self.name)


class Model:
    a = Typed()
    b = Typed()


@program
def data_descriptor(x):
    m = Model()
    found = [m.a]
    m.a = 3
    try:
        m.b = "no"
    except TypeError as error:
        found.append(str(error))
    found.append(m.a)
    del m.a
    return x, found, m.a, vars(m)


class Lazy:
    def __init__(self, fn):
        self.fn = fn
        self.name = fn.__name__

    def __get__(self, obj, kind=None):
        value = obj.__dict__[self.name] = self.fn(obj)
        return value


class NonDataDescriptorA:
    runs = 0

    @Lazy
    def value(self):
        self.runs += 1
        return self.runs * 10


@program
def non_data_descriptor(x):
    a = NonDataDescriptorA()
    return x, a.value, a.value, a.runs


class CachedPropertyA:
    def __init__(self, v):
        self.v, self.runs = v, 0

    @functools.cached_property
    def double(self):
        self.runs += 1
        return self.v * 2


@program
def cached_property(x):
    a = CachedPropertyA(x)
    return a.double + a.double, a.runs


class Meta(type):
    def __new__(mcs, name, bases, ns):
        cls = super().__new__(mcs, name, bases, ns)
        cls.made_by = "meta"
        return cls

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made

    def __len__(cls):
        return 7

    @property
    def shout(cls):
        return cls.__name__.upper()


class WithMeta(metaclass=Meta):
    def __init__(self, v):
        self.v = v


@program
def metaclass(x):
    w = WithMeta(3)
    return x, w.v, w.called, WithMeta.made_by, len(WithMeta), WithMeta.shout, type(WithMeta).__name__


class Vec:
    def __init__(self, *v):
        self.v = list(v)

    def __add__(self, o):
        return Vec(*(a + b for a, b in zip(self.v, o.v))) if isinstance(o, Vec) else NotImplemented

    def __radd__(self, o):
        return self if o == 0 else NotImplemented

    def __iadd__(self, o):
        self.v = [a + b for a, b in zip(self.v, o.v)]
        return self

    def __mul__(self, k):
        return Vec(*(a * k for a in self.v))

    __rmul__ = __mul__

    def __neg__(self):
        return Vec(*(-a for a in self.v))

    def __matmul__(self, o):
        return sum(a * b for a, b in zip(self.v, o.v))

    def __eq__(self, o):
        return self.v == o.v

    __hash__ = None

    def __lt__(self, o):
        return self.v < o.v

    def __len__(self):
        return len(self.v)

    def __bool__(self):
        return any(self.v)

    def __getitem__(self, i):
        return self.v[i]

    def __setitem__(self, i, value):
        self.v[i] = value

    def __delitem__(self, i):
        del self.v[i]

    def __contains__(self, value):
        return value in self.v

    def __iter__(self):
        return iter(self.v)

    def __reversed__(self):
        return reversed(self.v)

    def __call__(self, f):
        return [f(a) for a in self.v]

    def __format__(self, spec):
        return f"<{spec}:{self.v}>"

    def __index__(self):
        return 2

    def __abs__(self):
        return max(abs(a) for a in self.v)

    def __int__(self):
        return int(self.v[0])

    def __float__(self):
        return float(self.v[0])

    def __round__(self, n=0):
        return round(self.v[0], n)

    def __divmod__(self, k):
        return [divmod(a, k) for a in self.v]

    def __pow__(self, k, mod=None):
        return [pow(a, k, mod) for a in self.v]

    def __invert__(self):
        return "~"

    def __rsub__(self, o):
        return ("rsub", o)


@program
def operators(x):
    a, b = Vec(1, 2), Vec(3, 4)
    c = a + b
    a += b
    return (x, c.v, a.v, (a * 2).v, (2 * a).v, (-a).v, a @ b, a == b, a != b, a < b, sum([b, b]).v, abs(Vec(-3, 1)),
            divmod(b, 2), b ** 2, pow(b, 2, 5), ~a, 5 - a)


@program
def container_protocol(x):
    v = Vec(5, 6, 7)
    v[0] = 9
    del v[1]
    return (x, len(v), bool(Vec(0)), v[1], v[-1], 9 in v, 3 in v, list(v), list(reversed(v)), v(lambda a: a + 1),
            [10, 20, 30][v], v[0:1], sorted(Vec(3, 1)), max(v), tuple(v), "yes" if v else "no")


@program
def conversions(x):
    v = Vec(2, 5)
    return x, int(v), float(v), round(Vec(2.567), 1), f"{v:spec}", format(v, "q"), range(10)[v]


@program(breaks=ANY, hits=False)
def unsupported_operands(x):
    found = []
    for f in (lambda: Vec(1) + 1, lambda: Vec(1) - 1, lambda: Vec(1) < 3, lambda: hash(Vec(1)), lambda: {Vec(1)},
              lambda: Vec(1)["a"], lambda: object() < object(), lambda: object()[0], lambda: object()(),
              lambda: len(object()), lambda: iter(object()), lambda: -object(), lambda: 1 in object(),
              lambda: Point(), lambda: object() + object(), lambda: abs(object()), lambda: Slotted()):
        try:
            f()
        except (TypeError, AttributeError) as error:
            found.append((type(error).__name__, str(error)))
    return x, found


@program
def object_operators_with_arrays(x):
    v = Vec(x, x + 1)
    w = v * 2
    return w.v, (v + w).v


class Left:
    def __add__(self, o):
        return "left"


class Right(Left):
    def __radd__(self, o):
        return "right"


@program
def reflected_by_subclass(x):
    return x, Left() + Right(), Left() + Left(), Right() + Left()


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    @abc.abstractmethod
    def name(self): ...


class Square(Shape):
    def __init__(self, s):
        self.s = s

    def area(self):
        return self.s ** 2

    @property
    def name(self):
        return "square"


@program
def abstract_classes(x):
    try:
        Shape()
    except TypeError as error:
        return x, str(error), Square(3).area(), Square(x).area(), isinstance(Square(1), Shape), Square(1).name


@program
def isinstance_of_abcs(x):
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized

    things = ([], {}, (), "a", 1, None, lambda: 1, Vec(1), Point(1), {1}, x.shape)
    kinds = (Iterable, Mapping, Sequence, Sized, Hashable, Callable)
    return x, [[isinstance(t, k) for k in kinds] for t in things]


@program
def objects_as_keys(x):
    d = {Point(1, 2): "a", Point(3, 4): "b"}
    return x, d[Point(1, 2)], Point(3, 4) in d, Point(5, 6) in d, len({Point(1, 1), Point(1, 1)})


@program
def identity_keys(x):
    a, b = Getter.__new__(Getter), Vec.__new__(Vec)
    d = {id: 1, Getter: 2, a.__class__: 3}
    return x, d[Getter], a is a, a is not b


class Singleton:
    instance = None

    def __new__(cls, *args):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

    def __init__(self, v=0):
        self.v = v


@program
def new_and_init(x):
    a, b = Singleton(1), Singleton(2)
    return x, a is b, a.v


class Odd:
    def __new__(cls):
        return 5

    def __init__(self):
        raise RuntimeError("never")


@program
def new_returns_other(x):
    return x + Odd()


@program
def bound_methods(x):
    p = Point(1, 2)
    f = p.norm1
    g = Point.norm1
    p.x = 10
    return x, f(), g(p), f.__self__ is p, f.__func__ is g, f.__name__


@program
def dynamic_attributes(x):
    p = Point(1)
    for n, name in enumerate(("alpha", "beta")):
        setattr(p, name, n)
    delattr(p, "alpha")
    return x, p.beta, getattr(p, "alpha", None), sorted(vars(p)), hasattr(p, "beta")


@program
def instance_dict(x):
    p = Point(1)
    p.__dict__["direct"] = 5
    p.__dict__.update(more=6)
    d = vars(p)
    p.later = 7
    return x, p.direct, p.more, d["later"], "later" in d


@program
def default_repr_of_values(x):
    return x, repr([Point(1), (Point(2), {"k": Point(3)})]), str(Point(4)), f"{Point(5)}", f"{Point(6)!r:>14}"


@program
def type_calls(x):
    p = Point(1)
    q = type(p)(2, 3)
    made = type("Made", (Point,), {"extra": 5})
    return x, q, type(p) is Point, made(1).extra, made.__name__


class Box:
    def __class_getitem__(cls, item):
        return (cls.__name__, item)


@program
def class_getitem(x):
    return x, Box[int], Box[1, 2], list[int] == list[int]


class Loud:
    def say(self):
        return super().say().upper()


class Dog:
    def say(self):
        return "woof"


class Big(Loud, Dog):
    pass


@program
def mixins_and_mro(x):
    return x, Big().say()


class ChainedSettersNode:
    def __init__(self, v, nxt=None):
        self.v, self.next = v, nxt


@program
def chained_setters(x):
    head = None
    for v in range(4):
        head = ChainedSettersNode(v, head)
    out, at = [], head
    while at is not None:
        out.append(at.v)
        at = at.next
    head.next.next.v = x
    return out, head


class CyclicObjectsNode:
    pass


@program
def cyclic_objects(x):
    a, b = CyclicObjectsNode(), CyclicObjectsNode()
    a.other, b.other = b, a
    a.items = [a, b]
    b.value = x * 2
    return a


class ComparisonFallsBackA:
    def __eq__(self, o):
        return NotImplemented


@program
def comparison_falls_back(x):
    a = ComparisonFallsBackA()
    return x, a == 1, a != 1, a == a, a in [a], [a] == [a], 1 == a


class PropertyDeleterA:
    def __init__(self):
        self._v = 1

    @property
    def v(self):
        return self._v

    @v.deleter
    def v(self):
        self._v = "gone"


@program
def property_deleter(x):
    a = PropertyDeleterA()
    del a.v
    try:
        a.v = 2
    except AttributeError as error:
        return x, a.v, str(error)


class Dying:
    alive = 0

    def __init__(self):
        Dying.alive += 1

    def __del__(self):
        Dying.alive -= 1


@program(breaks=ANY)
def finalisers_run_in_time(x):
    seen = []
    for _ in range(3):
        it = Dying()
        seen.append(Dying.alive)
        del it
        seen.append(Dying.alive)
    return x + 1, seen, Dying.alive


@program
def missing_module_attributes(x):
    return x + 1, getattr(math, "absent", 3), hasattr(math, "pi")


class Counted:
    made = 0
    log: list = []

    def __init__(self):
        type(self).made += 1
        Counted.log.append("made")


@program
def class_attribute_stores(x):
    a, _ = Counted(), Counted()
    Counted.extra = "e"
    setattr(Counted, "other", x + 1)
    r = x * Counted.made, Counted.extra, a.extra, a.other, a.made
    del Counted.extra
    del Counted.other
    return r, hasattr(a, "extra"), hasattr(Counted, "other")


class Guarded(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, min(value, 3))


class WithGuarded(metaclass=Guarded):
    limit = 1


@program
def metaclass_setattr(x):
    WithGuarded.limit = 5
    return x * WithGuarded.limit, WithGuarded.limit


@program
def class_made_inside(x):
    class Layer:
        rate = x + 1

        def __init__(self, w):
            self.w = w

        def __call__(self, y):
            return self.w * y + type(self).rate

    class Scaled(Layer):
        def __init__(self, w, scale):
            super().__init__(w)
            self.scale = scale

        def __call__(self, y):
            return super().__call__(y) * self.scale

    layers = [Layer(2.0), Scaled(3.0, x)]
    for layer in layers:
        x = layer(x)
    return x, [type(layer).__name__ for layer in layers], isinstance(layers[1], Layer), layers


@program
def class_made_for_each(x):
    made = []
    for scale in (1, 2):
        class Times:
            by = scale

            @classmethod
            def of(cls, y):
                return y * cls.by

        made.append(Times)
    Times.by = 5
    return [cls.of(x) for cls in made], made[0] is made[1], [cls.by for cls in made]
