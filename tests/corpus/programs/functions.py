"""Functions: parameters, closures, decorators, recursion, functools."""

from __future__ import annotations

import functools
import operator

from tests.corpus.kit import program

COUNTER = 0
CACHE: dict = {}


def kinds(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, sorted(kwargs.items())


@program
def parameter_kinds(x):
    return x, kinds(1, d=4), kinds(1, 2, 3, 4, 5, d=6, z=7, y=8), kinds(*[1, 2], **{"d": 3, "c": 9})


@program
def wrong_arguments(x):
    found = []
    for call in (lambda: kinds(), lambda: kinds(1), lambda: kinds(1, d=1, c=1, **{"d": 2}),
                 lambda: (lambda a, /: a)(a=1), lambda: (lambda *, k: k)(1), lambda: (lambda a, b, c=1: a)(),
                 lambda: (lambda a, b: a)(1, 2, 3), lambda: (lambda: 1)(1), lambda: (lambda *, a, b: 1)(),
                 lambda: (lambda a, *, b: 1)(1, c=2), lambda: (lambda a=1: a)(1, 2), lambda: (lambda a: a)(1, a=2)):
        try:
            found.append(call())
        except TypeError as error:
            found.append(str(error).replace("<lambda>", "f"))
    return x, found


@program
def nonlocal_counter(x):
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    return x * bump() + bump(), n


@program
def returned_closure(x):
    y = x + 1

    def get(k=2):
        return y * k

    return get


@program
def closures_share_a_cell(x):
    state = 0

    def up():
        nonlocal state
        state += 1

    def read():
        return state

    up()
    return up, read


@program
def late_binding(x):
    fns = [lambda: i for i in range(3)]
    bound = [lambda i=i: i for i in range(3)]
    return x, [f() for f in fns], [f() for f in bound]


@program
def mutable_default(x):
    def add(v, into=[]):  # noqa: B006
        into.append(v)
        return into

    add(1)
    return x, add(2), add.__defaults__


@program
def recursion(x):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    return x * fact(5), fact(30)


@program
def mutual_recursion(x):
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    return x, even(10), odd(7)


@program
def decorators(x):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(f(*args, **kwargs))
        return wrapper

    def with_arg(n):
        def deco(f):
            return lambda v: f(v) + n
        return deco

    @with_arg(10)
    @twice
    def inc(v):
        """doc"""
        return v + 1

    @twice
    def named(v):
        """words"""
        return v

    return inc(x), named.__name__, named.__doc__, named.__wrapped__(3)


@functools.lru_cache(maxsize=None)
def cached(n):
    return n if n < 2 else cached(n - 1) + cached(n - 2)


@program
def partials(x):
    add = functools.partial(operator.add, 3)
    key = functools.partial(sorted, key=operator.neg, reverse=False)
    nested = functools.partial(functools.partial(kinds, 1, d=2), 5)
    return add(x), key([1, 3, 2]), nested(6), add.func is operator.add, add.args


@program
def partial_returned(x):
    return functools.partial(kinds, x, d=[1])


@program
def reduce(x):
    return functools.reduce(lambda a, b: a + b * x, [1, 2, 3], 0), functools.reduce(operator.mul, [1, 2, 3, 4])


class Cell:
    def __init__(self):
        self.alive = None

    def set(self, state, extra=0):
        self.alive = (state, extra)

    on = functools.partialmethod(set, True)
    off = functools.partialmethod(set, False, extra=3)


@program
def partialmethod(x):
    c, d = Cell(), Cell()
    c.on()
    d.off()
    return x, c.alive, d.alive


@program
def singledispatch(x):
    return x, describe(1), describe("a"), describe([1, 2]), describe(2.5)


@functools.singledispatch
def describe(v):
    return "other"


@describe.register
def _(v: int):
    return "int"


@describe.register(list)
def _(v):
    return [describe(i) for i in v]


@program
def cmp_to_key(x):
    return x, sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))


@functools.total_ordering
class TotalOrderingV:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __lt__(self, other):
        return self.v < other.v


@program
def total_ordering(x):
    return x, TotalOrderingV(1) <= TotalOrderingV(2), TotalOrderingV(1) > TotalOrderingV(2), TotalOrderingV(2) >= TotalOrderingV(2), max([TotalOrderingV(1), TotalOrderingV(3), TotalOrderingV(2)], key=lambda v: v.v).v


@program
def global_statement(x):
    global COUNTER
    COUNTER += 1
    COUNTER = COUNTER * 2
    return x + COUNTER


@program
def global_deleted(x):
    global FRESH
    FRESH = 5
    y = x + FRESH
    del FRESH
    try:
        FRESH  # noqa: B018
    except NameError as error:
        return y, str(error)


@program
def memo_in_a_global(x):
    def fib(n):
        if n not in CACHE:
            CACHE[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
        return CACHE[n]

    return x, fib(20)


@program
def function_attributes(x):
    def f(v):
        f.calls += 1
        return v + f.calls

    f.calls = 0
    return f(f(x)), f.calls, f.__name__


@program
def star_expressions(x):
    a, *b, c = [1, 2, 3, 4]
    d = [*b, *"hi", *(9,)]
    e = {**{"a": 1}, "b": 2, **{"a": 3}}
    (p, q), r = (1, 2), 3
    return x, a, b, c, d, e, p, q, r


@program
def lambda_defaults_and_kwonly(x):
    f = lambda a, *, b=2, **k: (a, b, k)  # noqa: E731
    return x, f(1), f(1, b=3, c=4)


@program
def argument_introspection(x):
    def f(a, b=1, *c, d=2):
        pass

    return x, f.__defaults__, f.__kwdefaults__, f.__code__.co_varnames, f.__qualname__


@program
def keyword_dict_is_fresh(x):
    def f(**kw):
        kw["z"] = 1
        return kw

    d = {"a": 1}
    return x, f(**d), d


@program
def nested_nonlocal(x):
    def a():
        n = 1

        def b():
            nonlocal n
            n += 1

            def c():
                nonlocal n
                n *= 10
                return n
            return c() + n
        return b(), n
    return x, a()


@program
def delete_local(x):
    y = 1
    del y
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return x, str(error)


@program
def unbound_free_variable(x):
    def f():
        return late

    try:
        f()
    except NameError as error:
        late = 1
        return x, str(error), f(), late


@program
def map_filter_lambda(x):
    return x, list(map(lambda a, b: a + b, [1, 2], [3, 4])), list(filter(None, [0, 1, "", "a"]))


class CallsItselfByAttributeF:
    def __call__(self, v, n=2):
        return v if n == 0 else self(v * 2, n - 1)


@program
def calls_itself_by_attribute(x):
    return CallsItselfByAttributeF()(x)


@program
def imports_inside(x):
    import math
    from os import path as p
    import os.path as q
    from collections import OrderedDict, deque as dq

    return x * math.floor(2.5), p is q, OrderedDict.__name__, dq([1])


@program
def walrus(x):
    if (n := len([1, 2, 3])) > 2:
        n += 1
    found = [y for k in range(5) if (y := k * k) > 3]
    return x, n, found, y


@program
def chained_comparison(x):
    a = 3
    return x, 1 < a < 5, 1 < a > 4, 1 < 2 < 3 < a, a == 3 != 4


@program
def conditional_expressions(x):
    return x, 1 if x.ndim == 1 else 2, [] or "b", 0 and 1, None or x.shape[0], not []


@program
def cells_of_a_closure(x):
    a = x + 1

    def reads():
        return a

    cells, out = reads.__closure__, []
    out += [cells[0].cell_contents, cells_of_a_closure.__closure__, reads.__closure__ is cells, len(cells)]
    cells[0].cell_contents = x * 2
    out += [reads(), a]
    del cells[0].cell_contents
    for compute in (reads, lambda: a):
        try:
            compute()
        except NameError as error:
            out.append((type(error).__name__, str(error), error.name))
    try:
        print(a)
    except NameError as error:
        out.append((type(error).__name__, str(error), error.name))
    return out


@program(breaks={"effect": 2})
def variables_without_a_value(x):
    def reads():
        return late

    out = []
    for _ in range(2):
        for compute in (reads, lambda: late):
            try:
                compute()
            except NameError as error:
                out.append(str(error))
        try:
            out.append(late)
        except NameError as error:
            out.append((type(error).__name__, str(error), error.name))
        print("and")
        late = x
        del late
    late = x + 1
    return out, reads()
