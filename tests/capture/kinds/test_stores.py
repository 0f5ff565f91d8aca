"""`kinds.stores` and what Keras does with arrays and lists of its own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(6.0).reshape(2, 3)


def compiled_like_plain(program, *args):
    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", fullgraph=True)
    for _ in range(3):
        want, got = program(*args), made(*args)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1


def test_a_traced_array_takes_no_attribute():
    def loss(x):
        y, took = jnp.sin(x), 1.0
        try:
            y.note = "seen"
        except AttributeError:
            took = 2.0
        return (y * took).sum()

    compiled_like_plain(lambda x: jax.grad(loss)(x), X)
    compiled_like_plain(lambda x: jax.vmap(loss)(x), X)


def test_names_for_what_is_computed_by_explicit_calls():
    def program(x):
        scope = jax.named_scope("layer")
        scope.__enter__()
        y = x * 2
        scope.__exit__(None, None, None)
        with jax.named_scope("other"):
            return y + 1

    compiled_like_plain(program, X)


class Tracked(list):
    def __init__(self, values, owner):
        super().__init__(values)
        self.owner = owner


def test_a_list_of_the_programs_class_that_has_attributes_is_passed_as_it_is():
    axes = Tracked([0, 1], "layer")
    compiled_like_plain(lambda x, axes: jnp.mean(x, axes), X, axes)
    made = dynacomp.jit(lambda x, axes: jnp.mean(x, axes), backend="eager")
    for axes in (Tracked([0], "a"), Tracked([1], "a"), Tracked([0, 1], "b")):
        np.testing.assert_allclose(made(X, axes), jnp.mean(X, axes), rtol=1e-6)


def test_what_the_program_has_noted_on_an_array_is_read():
    def program(x):
        return x * getattr(x, "scale", 1.0) + (2.0 if hasattr(x, "note") else 0.0)

    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager")
    plain, scaled, noted = X + 0, X + 0, X + 0
    scaled.scale, noted.note = 3.0, "seen"
    for x in (plain, scaled, noted, plain, scaled):
        np.testing.assert_array_equal(made(x), program(x))
    assert 1 < dynacomp.stats()["frames_captured"] <= 4 and not dynacomp.stats()["breaks"]


def test_notes_on_arrays_that_stay_in_the_graph():
    """Keras notes the mask of a layer's result on it, and attention takes it off again."""
    def program(x):
        y = jnp.sin(x)
        y._mask = None
        y.scale = 3.0
        held = {"y": y}
        z = held["y"] * y.scale + (0.0 if getattr(y, "_mask", 1) is None else 1.0)
        return z, hasattr(z, "scale"), hasattr(held["y"], "scale")

    compiled_like_plain(program, X)


def test_an_array_that_leaves_has_its_notes():
    def program(x):
        y = jnp.sin(x)
        y.note = "seen"
        return y, y * 2

    made = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        y, twice = made(X)
        assert y.note == "seen" and not hasattr(twice, "note")
        np.testing.assert_array_equal(twice, program(X)[1])


def stored_in_arguments(x, y, z):
    x.tag = (x * 2, "t")
    seen = getattr(y, "tag", None) is None
    first = x.tag[0]
    z.mask = None
    x.tag = 3
    return first + 1, seen, x.tag, y.mask if hasattr(y, "mask") else "no"


def test_attributes_of_arrays_that_exist():
    """They are stored after the graph; which arguments are one object is guarded."""
    def arguments(k):
        x, y = jnp.arange(3.0) + k, jnp.ones(3)
        return [(x, y, y), (x, x, y), (x, y, x), (x, x, x), (x, y, jnp.zeros(3))][k % 5]

    dynacomp.reset()
    compiled = dynacomp.jit(stored_in_arguments, backend="eager")
    for k in range(15):
        outcomes = []
        for fn in (stored_in_arguments, compiled):
            given = arguments(k)
            outcomes.append(str((fn(*given), [vars(v) for v in given])))
        assert outcomes[0] == outcomes[1]
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] <= 5


class AttrDict(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


def test_a_method_of_c_under_another_special_name_is_a_hook():
    def stored(x):
        config = AttrDict(rate=1, old=0)
        config.more, config.rate = x, 2
        del config.old
        return x * config.rate, dict(config), len(config), vars(config), config.nothing

    check_one_graph(stored, (jnp.ones(2),))


def test_and_of_an_object_that_exists():
    def stored(x, config):
        config.more = x
        del config.old
        return "more" in config, config["more"] * 2

    want, got = AttrDict(old=0), AttrDict(old=0)
    dynacomp.reset()
    assert repr(dynacomp.jit(stored, backend="eager")(jnp.ones(2), got)) == repr(stored(jnp.ones(2), want))
    assert repr(got) == repr(want) and not vars(got) and not dynacomp.stats()["frames_eager"]


def counted(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        wrapper.calls += 1
        wrapper.last = args[0]
        return fn(*args)
    wrapper.calls = 0
    return wrapper


def test_what_a_program_notes_on_a_function_that_exists():
    def program(x, n):
        layer.tag = f"of {n}"
        before, seen = layer.calls, layer.last is x
        for _ in range(2):
            x = layer(x)
        del layer.tag
        return x, before, layer.calls, seen, layer.last, hasattr(layer, "tag"), list(vars(layer))

    layer = counted(jnp.sin)
    layer.last = None

    def fresh(x, n):
        layer.calls, layer.last = n, x
        return program(x, n)

    check_one_graph(fresh, (X, 3), (X + 1, 3), (X[:1], 5), captures=2)
    layer = counted(jnp.sin)
    made = dynacomp.jit(lambda x: layer(x) * layer.calls, backend="eager", fullgraph=True)
    for n in range(1, 5):
        np.testing.assert_allclose(made(X), jnp.sin(X) * n, rtol=1e-6)
        assert layer.calls == n and layer.last is X
    assert dynacomp.stats()["frames_captured"] == 2 + 2


def test_a_missing_note_is_an_error_of_the_program():
    def note(x):
        return x

    def program(x):
        try:
            del note.absent
        except AttributeError as error:
            return x + 1, str(error)
        return x, ""

    check_one_graph(program, (X,))
