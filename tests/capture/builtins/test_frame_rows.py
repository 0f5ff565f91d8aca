"""Functions that look at the frame that calls them see what they see in plain Python."""

import inspect
import re
import sys

import jax.numpy as jnp
import pytest

import dynacomp


def plain_locals(x):
    a = 3  # noqa: F841
    b = lambda: a
    print(end="")
    c = 5
    return sorted(locals()), locals()["c"], b()


def comprehension(x):
    return [sorted(locals()) for y in range(2)]


def evaluated(x):
    a = 3  # noqa: F841
    print(end="")
    exec("q = a + 1")
    return eval("a + 1"), eval("a + 2", {"a": 5}), eval("k", {}, {"k": 4})


def directory(x):
    a = 4
    print(end="")
    return dir(), vars()["a"], "real" in dir(a)


def frame_object(x):
    y = 4  # noqa: F841
    print(end="")
    return sys._getframe().f_locals["y"], inspect.currentframe().f_locals["y"], sys._getframe(1).f_code.co_name


def callee(x):
    z = x * 2
    return plain_locals(z), z


def generator(x):
    def numbers():
        a = 4
        yield sorted(locals())
        b = a
        yield sorted(locals()), b

    return list(numbers())


@pytest.mark.parametrize("fn", [plain_locals, comprehension, evaluated, directory, frame_object, callee, generator])
def test_it_sees_what_plain_python_sees(fn):
    x = jnp.arange(3.0)
    compiled = dynacomp.jit(fn)
    for _ in range(2):
        assert str(compiled(x)) == str(fn(x))


class Bijector:
    def __init__(self, scale, *rest, name=None, **options):
        parameters = dict(locals())
        self.parameters = {k: v for k, v in parameters.items() if k not in ("self", "__class__")}
        self.scale = scale
        super().__init__()  # so that there is a cell

    def __call__(self, x):
        return x * self.scale


def constructor(x, n):
    made = Bijector(x + n, n, key=x)
    return made(x), made.parameters, made


def updated(x, n):
    y = n
    first = locals()
    z = x * n
    second = locals()
    del y
    inner = lambda: z
    third = locals()
    return first is third, list(first), list(second), list(third), third["z"], inner(), "y" in vars()


@pytest.mark.parametrize("fn", [constructor, updated])
def test_locals_is_a_dict_of_the_graphs_values(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, fullgraph=True)
    for n in range(10):
        x = jnp.arange(3.0 + n // 4)
        wanted, got = fn(x, n), compiled(x, n)
        assert re.sub("0x.*", "", str(wanted)) == re.sub("0x.*", "", str(got))
    assert dynacomp.stats()["frames_captured"] <= 3


class Settings:
    """Refuses names that objects have anyway, as ConfigDict does."""

    def __init__(self, **fields):
        object.__setattr__(self, "fields", {})
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name in dir(super()):
            raise AttributeError(name)
        self.fields[name] = value

    def __getattr__(self, name):
        return self.fields[name]


class Below(Settings):
    def names(self):
        return [name for name in dir(super()) if not name.startswith("__")]


def settings(x, n):
    made = Settings(rate=n, scaled=x * n)
    made.shifted = made.scaled + 1
    try:
        made.__class__ = 3
    except AttributeError as error:
        return made.shifted, made.rate, str(error)


def names_of_built_in_objects(x, n):
    return x + n, dir("a"), len(dir([x])), "real" in dir(n), dir(None)[0]


@pytest.mark.parametrize("fn", [settings, names_of_built_in_objects])
def test_dir_of_what_has_the_names_of_its_class(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, fullgraph=True)
    for n in range(10):
        x = jnp.arange(3.0 + n // 4)
        assert str(compiled(x, 0.5 + n)) == str(fn(x, 0.5 + n))
    assert dynacomp.stats()["frames_captured"] <= 3


def test_dir_of_what_has_names_of_its_own():
    def names(x):
        return Below(a=x).names(), x + 1

    compiled = dynacomp.jit(names)
    for _ in range(2):
        assert str(compiled(jnp.ones(2))) == str(names(jnp.ones(2)))
