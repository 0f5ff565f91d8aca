"""CompiledFunction: binding, being a function, and how its calls are resolved."""

import copy
import functools
import gc
import inspect
import itertools
import pickle
import threading
import weakref

import pytest

from dynacomp.capture import _native as native

from .native_kit import direct, isolated  # noqa: F401

pytestmark = pytest.mark.usefixtures("isolated")


def documented(x: int, y: float = 2.0) -> float:
    """Says so."""
    return x + y


documented.tag = "tagged"
original = documented
documented = native.CompiledFunction(documented)


class Model:
    scale = 3

    @native.CompiledFunction
    def __call__(self, x):
        return self.scale * x


def seen_locals(fn, *args, **kwargs):
    """What on_miss is given as locals."""
    seen = []
    compiled = native.CompiledFunction(fn, on_miss=lambda fn, code, locals: seen.append(locals))
    result = compiled(*args, **kwargs)
    return seen[0] if seen else None, result


def test_it_looks_like_the_function():
    assert documented.__name__ == "documented" and documented.__doc__ == "Says so."
    assert documented.__qualname__ == "documented" and documented.__module__ == __name__
    assert documented.__annotations__ == {"x": int, "y": float, "return": float}
    assert documented.__wrapped__ is original
    assert documented.__defaults__ == (2.0,) and documented.tag == "tagged"
    assert inspect.signature(documented) == inspect.signature(original)
    assert inspect.unwrap(documented) is original
    assert inspect.getsource(documented) == inspect.getsource(original)
    assert "dynacomp.jit" in repr(documented) and callable(documented)
    assert functools.wraps(documented)(lambda: 0).__name__ == "documented"
    with pytest.raises(AttributeError):
        documented.nothing  # noqa: B018


def test_it_takes_attributes_and_weak_references():
    compiled = native.CompiledFunction(lambda: 1)
    compiled.mine, compiled.__name__ = 5, "renamed"
    assert compiled.mine == 5 and compiled.__name__ == "renamed"
    assert vars(compiled) == {"mine": 5, "__name__": "renamed"}
    ref = weakref.ref(compiled)
    del compiled
    assert ref() is None
    assert len({documented: 1}) == 1


def test_it_pickles_and_copies_by_name():
    assert pickle.loads(pickle.dumps(documented)) is documented
    assert copy.copy(documented) is documented and copy.deepcopy([documented])[0] is documented
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(native.CompiledFunction(lambda: 1))


def test_it_is_a_method():
    model = Model()
    assert model(2) == 6 and Model.__call__(model, 2) == 6 and model.__call__(x=2) == 6
    assert model.__call__.__self__ is model
    steps = [("local", 0, 0), ("local", 1, 1)]
    direct(Model.__call__.__wrapped__, lambda self, x: ("compiled", self, x), steps, (0, 1))
    assert model(2) == ("compiled", model, 2)


def test_it_wraps_a_bound_method():
    class Thing:
        def method(self, x, y=1):
            return (self, x, y)

    thing = Thing()
    compiled = native.CompiledFunction(thing.method)
    assert compiled(2) == (thing, 2, 1) and str(inspect.signature(compiled)) == "(x, y=1)"
    assert seen_locals(thing.method, 2, y=5)[0] == (thing, 2, 5)
    assert seen_locals(thing.method, 2)[0] == (thing, 2, 1)


@pytest.mark.parametrize("bad", [3, len, int, "text", None, functools.partial(print)])
def test_it_wraps_python_functions_only(bad):
    with pytest.raises(TypeError, match="Python function"):
        native.CompiledFunction(bad)


def f0(): return ()
def f1(a): return (a,)
def f2(a, b=2): return (a, b)
def f3(a, /, b, *, c=3): return (a, b, c)
def f4(*args): return (args,)
def f5(a, b=2, /, *args, c, d=4, **kw): return (a, b, c, d, args, kw)
def f6(**kw): return (kw,)
def f7(a, *, b): return (a, b)


CALLS = [(args, kw) for args in [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]
         for n in range(3) for names in itertools.combinations("abcz", n)
         for kw in [dict(zip(names, (10, 20)))]]


@pytest.mark.parametrize("fn", [f0, f1, f2, f3, f4, f5, f6, f7], ids=lambda f: str(inspect.signature(f)))
def test_arguments_bind_as_cpython_binds_them(fn):
    bound = 0
    for args, kw in CALLS:
        try:
            expected = fn(*args, **kw)
        except TypeError as error:
            with pytest.raises(TypeError) as ours:
                native.CompiledFunction(fn, on_miss=lambda *a: pytest.fail("must not bind"))(*args, **kw)
            assert str(ours.value) == str(error)
        else:
            locals, result = seen_locals(fn, *args, **kw)
            assert locals == result == expected
            bound += 1
    assert bound


def test_odd_keywords():
    class Name(str):
        pass

    assert seen_locals(f6, **{"not an identifier": 1, "é": 2})[0] == ({"not an identifier": 1, "é": 2},)
    assert native.CompiledFunction(f2)(1, **{Name("b"): 5}) == (1, 5)
    with pytest.raises(TypeError):
        native.CompiledFunction(f6)(**{1: 2})


def test_defaults_are_read_at_the_call():
    def fn(a=1, *, k=2):
        return a, k
    compiled = native.CompiledFunction(fn)
    assert compiled() == (1, 2)
    fn.__defaults__, fn.__kwdefaults__ = (5,), {"k": 6}
    assert seen_locals(fn)[0] == (5, 6)
    fn.__code__ = (lambda a, *, k: ("new", a, k)).__code__
    assert compiled() == ("new", 5, 6)


def test_many_parameters():
    n = 100
    names = [f"a{i}" for i in range(n)]
    namespace = {}
    exec(f"def fn({', '.join(names)}, last=None): return ({', '.join(names)}, last)", namespace)
    fn = namespace["fn"]
    assert seen_locals(fn, *range(n))[0] == (*range(n), None)
    backwards = {name: i for i, name in enumerate(reversed(names))}
    assert seen_locals(fn, **backwards)[0] == (*reversed(range(n)), None)
    direct(fn, lambda *a: a, [("local", i, i) for i in range(n + 1)], inputs=reversed(range(n + 1)))
    assert native.CompiledFunction(fn)(*range(n)) == (None, *reversed(range(n)))


def helper(x):
    return x + 1


def outer(x):
    return helper(x) * 2


def test_answers_of_on_miss():
    asked = []

    def answer(value):
        asked.clear()
        def on_miss(fn, code, locals):
            asked.append((fn.__name__, native.is_active()))
            return value if fn is outer else None
        return native.CompiledFunction(outer, on_miss=on_miss)

    assert answer(None)(1) == 4 and asked == [("outer", False)]
    assert answer(True)(1) == 4 and asked == [("outer", False), ("helper", False)]
    entry = native.Entry(native.GuardProgram([]), program=lambda: "direct")
    assert answer(entry)(1) == "direct"
    code = native.Entry(native.GuardProgram([]), fn_code=(lambda x: ("code", helper(x))).__code__)
    assert answer(code)(1) == ("code", 2) and asked == [("outer", False), ("helper", False)]
    with pytest.raises(TypeError, match="on_miss returns"):
        answer(7)(1)


def test_nested_compiled_functions_use_their_own_callback():
    asked = []

    def recording(name):
        return lambda fn, code, locals: asked.append((name, fn.__name__)) or True

    inner = native.CompiledFunction(lambda x: helper(x), on_miss=recording("inner"))
    whole = native.CompiledFunction(lambda x: (inner(x), helper(x)), on_miss=recording("whole"))
    assert whole(1) == (2, 2)
    assert asked == [("whole", "<lambda>"), ("inner", "<lambda>"), ("inner", "helper"), ("whole", "helper")]


def test_current_is_the_function_being_run():
    seen = []
    compiled = native.CompiledFunction(lambda: seen.append(native.current()), on_miss=lambda *a: True)
    compiled()
    assert seen == [compiled] and native.current() is None


def test_skip_marks_and_generators():
    asked = []
    compiled = native.CompiledFunction(outer, on_miss=lambda fn, *a: asked.append(fn.__name__))
    native.mark_skip(outer.__code__)
    assert compiled(1) == 4 and asked == ["helper"]
    native.mark_skip(outer.__code__, True)
    assert compiled(1) == 4 and asked == ["helper"]

    def numbers():
        yield helper(1)

    asked = []
    numbers_compiled = native.CompiledFunction(numbers, on_miss=lambda fn, *a: asked.append(fn.__name__))
    assert list(numbers_compiled()) == [2] and asked == ["numbers"]


def test_disabled_and_paused_calls_run_plainly():
    direct(outer, lambda: "compiled")
    compiled = native.CompiledFunction(outer)
    assert compiled(1) == "compiled" and native.run_eager(compiled, (1,)) == 4
    native.set_enabled(False)
    try:
        assert compiled(1) == 4
    finally:
        native.set_enabled(True)


def test_a_function_whose_frames_are_hooked_while_it_is_called():
    """Recursion through the compiled function itself."""
    entries = []

    def on_miss(fn, code, locals):
        entries.append(locals)
        return True

    def count(n):
        return 0 if n == 0 else 1 + compiled(n - 1)

    compiled = native.CompiledFunction(count, on_miss=on_miss)
    assert compiled(5) == 5 and entries == [(5,), (4,), (3,), (2,), (1,), (0,)]


def test_cycles_are_collected():
    def make():
        def fn():
            return compiled
        compiled = native.CompiledFunction(fn, key=fn)
        compiled.me = compiled
        return weakref.ref(compiled), weakref.ref(fn)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_subclasses():
    class Jitted(native.CompiledFunction):
        def lower(self):
            return self.__name__

        extra = 1

    made = Jitted(original)
    assert made(1) == 3.0 and made.lower() == "documented" and made.extra == 1 and made.tag == "tagged"
    ref = weakref.ref(made)
    del made
    assert ref() is None


def test_threads_share_a_compiled_function():
    def fn(x, y=0, **kw):
        return "plain"

    for i in range(4):
        direct(fn, lambda x: x, [("local", 0, 0), ("eq", 0, i)], inputs=(0,))
    compiled = native.CompiledFunction(fn)
    wrong = []

    def run():
        for i in range(2000):
            if compiled(i % 5, kw=1) != (i % 5 if i % 5 < 4 else "plain"):
                wrong.append(i)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
