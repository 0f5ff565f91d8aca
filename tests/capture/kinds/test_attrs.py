"""Attributes: what a module, class or object has or lacks is guarded."""

import copy
import enum
import functools
import inspect
import random
import socket
import sys
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynacomp
from dynacomp import filters
from tests.capture.program_kit import check_one_graph


def test_an_attribute_that_a_module_did_not_have():
    module = types.ModuleType("shared")

    def program(x):
        return x + getattr(module, "extra", 1)

    compiled = dynacomp.jit(program, backend="eager")
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 1)
    module.extra = 5
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 5)


def test_the_dict_of_a_module_is_the_modules_own():
    module = types.ModuleType("made_here")

    def read():
        return module.__dict__ is vars(module), module.__dict__

    def written():
        exec("there = 5", module.__dict__)
        return module.there

    same, found = dynacomp.jit(read, backend="eager")()
    assert same and found is module.__dict__
    assert dynacomp.jit(written, backend="eager")() == 5


class Scaled:
    def __init__(self, by):
        self.by = by

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return x * self.by

    @functools.partial(jax.jit, static_argnums=0)
    def twice(self, x):
        return self(x) * 2


def test_methods_under_jax_jit_are_methods():
    def program(x):
        return Scaled(3).twice(x), jax.grad(lambda v: Scaled(2).twice(v).sum())(x)

    dynacomp.reset()
    got, want = dynacomp.jit(program, backend="eager")(jnp.ones(3)), program(jnp.ones(3))
    np.testing.assert_array_equal(jnp.stack(got), jnp.stack(want))
    assert dynacomp.stats()["breaks"] == {}


def test_methods_of_objects_with_a_part_in_c_are_found_in_their_class():
    def draw(source, x):
        return x * source.random(), source.uniform(1, 2), source.randint(1, 9), source.choice([1, 2, 3])

    ours, plain = random.Random(1), random.Random(1)
    compiled = dynacomp.jit(draw, backend="eager")
    dynacomp.reset()
    for _ in range(3):
        assert repr(compiled(ours, jnp.ones(2))) == repr(draw(plain, jnp.ones(2)))
    assert ours.getstate() == plain.getstate() and "attribute" not in dynacomp.stats()["breaks"]
    ours.uniform = plain.uniform = lambda a, b: 7.0
    assert repr(compiled(ours, jnp.ones(2))) == repr(draw(plain, jnp.ones(2)))


class Recorder:
    """A callable object, which a class may have for a method: it binds no instance."""

    def __init__(self, answer):
        self.answer, self.calls = answer, 0

    def __call__(self, *args):
        self.calls += 1
        return self.answer


HOOKS = {
    "__hash__": (5, lambda cls: ({cls(): 1, (cls(), 1): 2}.__len__(), hash(cls()))),
    "__getattr__": (8, lambda cls: (cls().foo, hasattr(cls(), "bar"))),
    "__getattribute__": (8, lambda cls: (cls().foo, cls().bar)),
    "__setattr__": (None, lambda cls: [setattr(o, "x", 1) or "x" in o.__dict__ for o in [cls()]]),
    "__delattr__": (None, lambda cls: delattr(cls(), "x")),
    "__new__": (4, lambda cls: cls()),
    "method": (4, lambda cls: (cls.method(1), cls().method(2))),
}


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("as_what", [lambda f: f, staticmethod, functools.partial, lambda f: property(lambda self: f)])
def test_special_methods_that_are_no_functions(name, as_what):
    answer, program = HOOKS[name]

    def outcome(run):
        recorder = Recorder(answer)
        cls = type("Made", (), {name: as_what(recorder)})
        try:
            return run(program)(cls), recorder.calls
        except TypeError as error:
            return str(error), recorder.calls

    dynacomp.reset()
    assert outcome(lambda f: dynacomp.jit(f, backend="eager")) == outcome(lambda f: f)
    assert dynacomp.stats()["frames_eager"].get("rejected", 0) == 0


def test_a_new_that_came_later_is_a_plain_function():
    def program():
        class Late:
            pass
        Late.__new__ = lambda cls: 3
        return Late()

    class Before:
        pass

    Before.__new__ = lambda cls, x: x + 1
    assert dynacomp.jit(program, backend="eager")() == 3
    assert dynacomp.jit(lambda x: Before(x), backend="eager")(3) == 4


def test_a_metaclass_that_is_asked_once():
    asked = []

    class Meta(type):
        __setattr__ = Recorder(None)

        def __getattribute__(cls, name):
            asked.append(name)
            return 8

    class Made(metaclass=Meta):
        pass

    def program():
        Made.here = 3
        return Made.there

    assert dynacomp.jit(program, backend="eager")() == 8
    assert asked.count("there") == 1 and vars(Meta)["__setattr__"].calls == 1
    assert "here" not in type.__getattribute__(Made, "__dict__")


def test_an_exceptions_init_that_is_no_function():
    recorder = Recorder(None)
    kind = type("Odd", (ValueError,), {"__init__": recorder})
    assert dynacomp.jit(lambda: kind(1).args, backend="eager")() == (1,) and recorder.calls == 1


def test_a_module_changed_through_its_dict_or_beside_it():
    module = types.ModuleType("patched")
    module.f = jnp.sin

    def patched(x):
        before, once, twice = vars(module)["f"], module.f(x), module.f(x)
        module.f = jnp.cos
        try:
            return once, twice, module.f(x), vars(module)["f"] is jnp.cos
        finally:
            module.f = before

    def through(x):
        vars(module)["g"] = jnp.cos
        inside = module.g(x)
        del vars(module)["g"]
        return inside, hasattr(module, "g")

    for program in (patched, through):
        want = repr(program(jnp.ones(2)))
        assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(2))) == want


def test_what_replaces_a_librarys_function_is_called_at_once():
    def program(x):
        with mock.patch("jax.numpy.sin", jnp.cos), mock.patch.object(jax.numpy, "tanh", jnp.abs):
            inside = jnp.sin(x), jnp.tanh(-x)
        return inside, jnp.sin(x)

    want = repr(program(jnp.ones(2)))
    assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(2))) == want


def test_a_table_that_a_library_keeps_is_the_one_that_changes(monkeypatch):
    def program(x):
        optax.seen["b"] = len(optax.seen)
        optax.order.append(optax.seen["b"])
        return x + len(optax.seen), optax.order[-1]

    def outcome(fn):
        monkeypatch.setattr(optax, "seen", {"a": 1}, raising=False)
        monkeypatch.setattr(optax, "order", [1], raising=False)
        return repr(([fn(jnp.ones(2)) for _ in range(3)], optax.seen, optax.order))

    assert outcome(dynacomp.jit(program, backend="eager")) == outcome(program)


class Socket(socket.socket):
    @property
    def base_family(self):
        return super().family


def test_what_a_class_in_c_keeps_is_read_in_python():
    with Socket() as made:
        assert dynacomp.jit(lambda s: s.base_family)(made) == made.base_family


LAZY = """
T = "the module's"
def asked():
    Outer = T
    class Scope:
        Outer = str
        T = int
        def method[U: T](self): ...
        type Alias = T
        type Free = Outer
        type Later = Undefined
    Scope.T = float
    try:
        return Scope.Later.__value__
    except NameError:
        return Scope.method.__type_params__[0].__bound__, Scope.Alias.__value__, Scope.Free.__value__
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695")
def test_types_are_evaluated_when_the_program_asks_for_them():
    space = {}
    exec(LAZY, space)
    with filters.strict(pytest):  # what evaluates them too
        assert dynacomp.jit(space["asked"])() == (float, float, str)


@pytest.mark.parametrize("read", [
    lambda record: "%(name)s" % ({"name": "default"} | vars(record)),
    lambda record: dict(record.__dict__),
    lambda record: [*vars(record)],
    lambda record: vars(copy.copy(record)),
], ids=["or", "dict", "names", "copy"])
def test_all_attributes_are_guarded_to_be_all(read):
    compiled = dynacomp.jit(read, backend="eager")
    for given in ({"m": 1}, {"m": 1, "name": 2}, {"name": 2, "m": 1}, {"m": 1}):
        made = Plain()
        vars(made).update(given)
        assert repr(compiled(made)) == repr(read(made))


class Plain:
    pass


@pytest.mark.parametrize("name, new", [
    ("__annotations__", {"x": "int"}), ("__doc__", "new"), ("__module__", "new"), ("__name__", "new"),
    ("__qualname__", "new"), ("__kwdefaults__", {"k": 1}), ("extra", 5), ("__wrapped__", 5)])
@pytest.mark.parametrize("kind", ["global", "argument", "method"])
def test_what_a_function_keeps_is_read_at_each_call(kind, name, new):
    def made(x: int):
        """old"""

    class Holder:
        method = made

    def asked(given):
        found = {"global": made, "argument": given, "method": Holder.method}[kind]
        return getattr(found, name, "missing")

    compiled = dynacomp.jit(asked, backend="eager")
    assert compiled(made) == asked(made)
    setattr(made, name, new)
    assert compiled(made) is asked(made) is new


def test_annotations_stay_one_object():
    def asked(fn):
        def wrapper(y: int):
            pass

        functools.update_wrapper(wrapper, fn)
        return wrapper, fn.__annotations__ is fn.__annotations__

    wrapper, same = dynacomp.jit(asked, backend="eager")(test_annotations_stay_one_object)
    assert same and wrapper.__annotations__ is test_annotations_stay_one_object.__annotations__


def test_a_member_that_is_being_made():

    class Level(enum.IntEnum):
        LOW = 1

    nameless = int.__new__(Level, 7)  # so far has the class come when it tells its entries their names
    assert dynacomp.jit(lambda member: member.bit_length())(nameless) == 3


def test_what_a_library_object_hands_out_to_be_changed_is_that_object():
    def f(a, found=[]):  # noqa: B006
        return a, found

    @dynacomp.jit
    def add(signature, x):
        signature.parameters["found"].default.append(x + 1)
        return signature.parameters["found"].default

    assert add(inspect.signature(f), 1) is f.__defaults__[0] and f(0) == (0, [2])


def test_what_a_new_function_keeps_in_c_is_there():
    def f(x):
        def inner():
            return x

        return x, hasattr(inner, "__closure__"), hasattr(inner, "other"), inner.__closure__[0].cell_contents is x

    assert repr(dynacomp.jit(f, backend="eager")(jnp.ones(3))) == repr(f(jnp.ones(3)))


class OfInstances(property):
    """A property of instances; the class has another value."""

    def __init__(self, fget, of_class):
        super().__init__(fget)
        self.of_class = of_class

    def __get__(self, obj, cls=None):
        return self.of_class if obj is None else property.__get__(self, obj, cls)


class Labelled:
    label = OfInstances(lambda self: "instance", "class")
    plain = property(lambda self: 3)


def test_a_property_may_say_something_else_of_the_class():
    def f(x):
        return x + Labelled().plain, Labelled.label, Labelled().label, type(Labelled.plain).__name__

    compiled = dynacomp.jit(f)
    assert repr(compiled(jnp.ones(3))) == repr(f(jnp.ones(3))) == repr(compiled(jnp.ones(3)))


def test_a_signature_of_its_own_is_asked():
    def f(x):
        def g(a: int) -> int:
            return a

        g.__signature__ = 34
        try:
            return x, inspect.signature(g)
        except TypeError as error:
            return x, str(error)[:30]

    assert repr(dynacomp.jit(f)(jnp.ones(3))) == repr(f(jnp.ones(3)))


def test_only_the_type_asks_getattr_not_what_it_calls_to_find_an_attribute():
    def f(x):
        log = []

        class Falls:
            def __getattr__(self, name):
                log.append(name)
                return x * 2 if name == "twice" else super().__getattribute__(name)

        class Catches:
            def __getattribute__(self, name):
                try:
                    return object.__getattribute__(self, name)
                except AttributeError:
                    log.append(f"caught {name}")
                    if name == "found":
                        return x + 5
                    raise

            def __getattr__(self, name):
                log.append(f"asked for {name}")
                if name == "made":
                    return x
                raise AttributeError(f"no {name}")

        for ask in (lambda: Falls().nothing, lambda: object.__getattribute__(Falls(), "twice"), lambda: Catches().none):
            try:
                ask()
            except AttributeError as error:
                log.append((str(error), error.name, error.__context__))
        return Falls().twice + Catches().found + Catches().made, hasattr(Falls(), "q"), getattr(Catches(), "q", 3), log

    check_one_graph(f, (jnp.ones(3),), (jnp.arange(3.0),))


def test_what_a_property_of_a_librarys_constant_raises_is_the_programs():
    constraints = pytest.importorskip("numpyro.distributions.constraints")

    def f(x):
        try:
            return x, hasattr(constraints.dependent, "event_dim")
        except NotImplementedError as error:
            return x + 1, str(error)

    check_one_graph(f, (jnp.ones(3),))


def test_wrappers_of_library_functions():
    def program(x):
        @functools.wraps(jnp.sin)
        def of_jax(v):
            return jnp.sin(v)

        @functools.wraps(optax.l2_loss)
        def of_a_library(v):
            return v * 2

        @functools.wraps(jax.nn.relu)  # which jax.custom_jvp has made
        def of_an_object(v):
            return jax.nn.relu(v) * 3

        same = of_a_library.__annotations__ is optax.l2_loss.__annotations__
        noted = of_an_object.__wrapped__ is jax.nn.relu, [*of_an_object.__dict__], of_an_object.__name__
        return (of_jax(x) + of_a_library(x) + of_an_object(x), of_jax.__name__, same, noted,
                of_a_library.__wrapped__ is optax.l2_loss)

    check_one_graph(program, (jnp.arange(3.0),), (jnp.ones(3),))


def noting(**attrs):
    made = functools.partial(jnp.multiply, 2.0)
    made.__dict__.update(attrs)
    return made


def of_partial(x, p):
    try:
        tag = p.tag
    except AttributeError:
        tag = "none"
    return p(x), tag, getattr(p, "tag", 7), hasattr(p, "__name__"), getattr(p, "__wrapped__", None) is jnp.multiply


def test_what_a_given_partial_notes_is_found():
    """It seemed to note nothing (wrong)."""
    given = [noting(), noting(tag="a"), noting(tag="b"), functools.update_wrapper(noting(), jnp.multiply), noting()]
    dynacomp.reset()
    compiled = dynacomp.jit(of_partial, backend="eager")
    for p in given * 2:
        assert str(compiled(jnp.arange(3.0), p)) == str(of_partial(jnp.arange(3.0), p))
    assert dynacomp.stats()["frames_captured"] <= 5 and not dynacomp.stats()["breaks"]


def test_what_a_new_partial_has_from_its_class():
    def program(x):
        p = functools.partial(jnp.multiply, 2.0)
        try:
            table = p.__dict__
        except AttributeError:
            table = "none"
        return p(x), table, p.__doc__[:7], p.__class__ is functools.partial

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        assert str(compiled(jnp.arange(3.0))) == str(program(jnp.arange(3.0)))


def test_what_a_new_partial_has_of_its_class_or_of_what_it_wraps():
    def program(x):
        p = functools.partial(jnp.multiply, 2.0)
        q = functools.partial(jnp.multiply, 2.0)
        q.__module__ = "mine"
        return p(x), p.__module__, getattr(p, "__module__", None), p.__doc__[:7], q.__module__

    check_one_graph(program, (jnp.arange(3.0),), (jnp.ones(3),))


def within(x, p):
    q = functools.partial(p)
    return q(x), q.func is p


def test_a_partial_that_notes_something_stays_itself_in_another():
    """As it does in CPython, which takes the parts of those without a dict."""
    dynacomp.reset()
    compiled = dynacomp.jit(within, backend="eager")
    for p in (noting(tag=1), functools.partial(jnp.multiply, 2.0), noting(tag=2), noting(), noting(tag=3)):
        assert compiled(jnp.arange(3.0), p)[1] == within(jnp.arange(3.0), p)[1] == (p.__reduce__()[2][3] is not None)
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


def test_such_a_partial_made_before_a_break():
    def program(x):
        p = functools.partial(jnp.multiply, 2.0)
        p.tag = 3
        q = functools.partial(p, where=True)
        dynacomp.graph_break()
        return x * 2, q.func is p, q.keywords, p.tag

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        assert str(compiled(jnp.arange(3.0))) == str(program(jnp.arange(3.0)))


def test_what_functions_made_anew_lack():
    def program(f, x):
        try:
            x = f.missing
        except AttributeError as error:
            said = str(error), error.name, error.obj is f
        return f(x) + getattr(f, "scale", 1), said

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(1, 6):
        result, said = compiled(lambda x, n=n: x * n, jnp.ones(2))
        assert (result == n + 1).all() and said == ("'function' object has no attribute 'missing'", "missing", True)
    assert dynacomp.stats()["frames_captured"] <= 2


def test_a_wrapper_of_a_partial():
    """functools.wraps broke the graph where it reads what a partial notes."""
    def program(x, p):
        made = functools.partial(jnp.multiply, 2.0)

        @functools.wraps(made)
        def of_made(y):
            return made(y) + 1

        @functools.wraps(p)
        def of_given(y):
            return p(y) - 1

        return of_made(x) * of_given(x), of_made.__module__, of_given.__wrapped__ is p, getattr(of_given, "tag", None)

    def given():
        return functools.partial(jnp.add, 1.0), noting(tag="a"), noting(tag="b"), noting()

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    ours, pythons = given(), given()
    for mine, pythons_own in (*zip(ours, pythons), *zip(ours, pythons)):
        assert str(compiled(jnp.arange(3.0), mine)) == str(program(jnp.arange(3.0), pythons_own))
        assert mine.__reduce__()[2] == pythons_own.__reduce__()[2]
    assert dynacomp.stats()["frames_captured"] <= 4 and not dynacomp.stats()["breaks"]


def test_a_partial_that_was_asked_for_its_dict_stays_itself_in_another():
    def program(x):
        p = functools.partial(jnp.multiply, 2.0)
        table = p.__dict__
        q = functools.partial(p, where=True)
        dynacomp.graph_break()
        table["tag"] = 3
        return x * 2, q.func is p, p.tag, functools.partial(p).func is p, p

    def unchanged(x):
        p = functools.partial(jnp.multiply, 2.0)
        assert not p.__dict__
        return x * 2, p

    for fn in program, unchanged:
        compiled = dynacomp.jit(fn, backend="eager")
        for _ in range(2):
            mine, pythons = compiled(jnp.arange(3.0)), fn(jnp.arange(3.0))
            assert str(mine[:-1]) == str(pythons[:-1]) and mine[-1].__reduce__()[2] == pythons[-1].__reduce__()[2]


def test_what_is_noted_on_a_given_partial_through_its_dict():
    def program(x, p):
        p.__dict__["tag"] = x.shape[0]
        return p(x), p.tag, p.__dict__

    compiled = dynacomp.jit(program, backend="eager")
    for n in (2, 3, 2):
        p, q = functools.partial(jnp.multiply, 2.0), functools.partial(jnp.multiply, 2.0)
        assert str(compiled(jnp.ones(n), p)) == str(program(jnp.ones(n), q)) and p.__dict__ == q.__dict__
