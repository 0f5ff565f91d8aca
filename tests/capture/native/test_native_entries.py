"""Entries, result templates, and the cache that hangs off code objects."""

import gc
import weakref

import pytest

from dynacomp.capture import _native as native

from .native_kit import active, direct, isolated  # noqa: F401

pytestmark = pytest.mark.usefixtures("isolated")


def fresh(result=None):
    """A function with a code object of its own."""
    namespace = {}
    exec(f"def fn(*args): return {result!r}", namespace)
    return namespace["fn"]


def run(fn, *args, **kwargs):
    return native.CompiledFunction(fn)(*args, **kwargs)


def entry_of(steps=(), program=lambda *args: args, **options):
    return native.Entry(native.GuardProgram(steps), program=program, **options)


def test_a_program_gets_registers_and_sizes():
    def fn(a, b): ...
    steps = [("local", 0, 0), ("local", 1, 1), ("int_size", 0, 0), ("int_size", 1, 1)]
    entry = direct(fn, lambda *args: args, steps, inputs=(1, 0, 1), sizes=(1,))
    assert run(fn, 3, 4) == (4, 3, 4, 4)
    assert entry.hits == 1 and native.entries(fn.__code__) == [entry]


def test_templates():
    def fn(a): ...
    marker = object()
    template = ("tuple", [("out", 1), ("list", [("out", 0), ("reg", 0)]),
                          ("dict", ["k", 2], [("const", marker), ("tuple", [])]),
                          ("call", dict, [("dict", [], [])], {"x": ("out", 0), "y": ("reg", 0)})])
    direct(fn, lambda a: ("o0", "o1"), [("local", 0, 0)], inputs=(0,), template=template)
    out = run(fn, marker)
    assert out == ("o1", ["o0", marker], {"k": marker, 2: ()}, {"x": "o0", "y": marker})
    assert out[1][1] is marker


@pytest.mark.parametrize("template, error", [
    (3, ValueError), ((), ValueError), (("what", 1), ValueError), (("tuple",), ValueError),
    (("reg", 5), ValueError), (("out", -1), ValueError), (("dict", [1], []), ValueError),
    (("dict", [1], [("out",)]), ValueError),
    (("call", dict, [], []), TypeError), (("tuple", [("list", 3)]), TypeError), (("out", "x"), TypeError),
])
def test_bad_templates_are_refused(template, error):
    with pytest.raises(error):
        entry_of([("local", 0, 0)], template=template)


@pytest.mark.parametrize("result, error", [((), IndexError), (3, TypeError), ([1], TypeError)])
def test_a_program_that_returns_too_little(result, error):
    fn = fresh()
    direct(fn, lambda: result, template=("tuple", [("const", 1), ("list", [("out", 0)])]))
    with pytest.raises(error):
        run(fn)


@pytest.mark.parametrize("options, error", [
    ({}, TypeError), ({"program": len, "fn_code": fresh().__code__}, TypeError), ({"fn_code": 3}, TypeError),
    ({"program": len, "inputs": (4,)}, ValueError), ({"program": len, "sizes": (0,)}, ValueError),
    ({"program": len, "inputs": (-1,)}, ValueError), ({"program": len, "inputs": ("x",)}, TypeError),
])
def test_bad_entries_are_refused(options, error):
    guards = native.GuardProgram([("local", 0, 0)])
    with pytest.raises(error):
        native.Entry(guards, **options)
    native.Entry(guards, program=len)  # the guards are still free


def test_guards_and_entries_have_one_owner():
    guards = native.GuardProgram([])
    entry = native.Entry(guards, program=len)
    with pytest.raises(ValueError):
        native.Entry(guards, program=len)
    native.add_entry(fresh().__code__, entry)
    with pytest.raises(ValueError):
        native.add_entry(fresh().__code__, entry)


def test_hits_move_to_the_front():
    fn = fresh()
    first = [("local", 0, 0), ("item", 1, 0, 0)]
    entries = [direct(fn, lambda i=i: i, [*first, ("eq", 1, i)]) for i in range(4)]
    assert native.entries(fn.__code__) == entries[::-1]
    assert run(fn, 1) == 1 and native.entries(fn.__code__)[0] is entries[1]
    assert run(fn, 0) == 0 and native.entries(fn.__code__) == [entries[i] for i in (0, 1, 3, 2)]
    assert [e.hits for e in entries] == [1, 1, 0, 0]


def test_entries_are_found_by_key():
    fn = fresh("plain")
    one, two = object(), object()
    direct(fn, lambda: 1, key=one)
    direct(fn, lambda: 2, key=two)
    calls = [native.CompiledFunction(fn, key=key)() for key in (one, two, object(), None)]
    assert calls == [1, 2, "plain", "plain"]


def test_clear_and_reset_forget():
    fn, other = fresh("plain"), fresh("plain")
    for f in (fn, other):
        direct(f, lambda: "compiled")
    native.mark_skip(other.__code__)
    assert run(fn) == "compiled" and run(other) == "plain" and native.is_skipped(other.__code__)
    native.clear(fn.__code__)
    assert run(fn) == "plain" and native.entries(fn.__code__) == []
    native.reset()
    assert native.entries(other.__code__) == [] and not native.is_skipped(other.__code__)
    assert native.counters()["hits"] == 0
    assert native.entries(fresh().__code__) == [] and not native.is_skipped(fresh().__code__)


def test_entries_die_with_their_code():
    fn = fresh()
    entry = weakref.ref(direct(fn, lambda: 1))
    assert entry() is not None
    del fn
    gc.collect()
    assert entry() is None


def test_an_entry_dies_with_what_it_guards():
    class Temporary: ...
    class Program:
        def __call__(self): ...

    fn, obj, program = fresh("plain"), Temporary(), Program()
    entry = direct(fn, program, [("local", 0, 0), ("item", 1, 0, 0), ("is", 1, obj)],
                   template=("const", program), info=program)
    gone = weakref.ref(program)
    del program
    assert run(fn, obj) is gone()
    del obj
    gc.collect()
    assert not entry.valid and not entry.guards.valid and gone() is None
    assert native.entries(fn.__code__) == [] and run(fn, 1) == "plain"


def test_an_entry_that_dies_while_it_runs():
    class Temporary: ...

    fn, marker, held = fresh("plain"), object(), [Temporary()]

    def program(a):
        held.clear()
        native.clear(fn.__code__)
        gc.collect()
        return (a,)

    template = ("list", [("out", 0), ("const", marker)])
    entry = direct(fn, program, [("local", 0, 0), ("is_not", 0, held[0])], inputs=(0,), template=template)
    assert run(fn, 1) == [(1,), marker]
    assert run(fn, 1) == "plain" and not entry.valid and entry.program is None


def test_a_code_entry_runs_over_the_same_globals_and_closure():
    cell = 5

    def fn(a, *args, k=2, **kw):
        return (a, args, k, kw, cell, __name__)

    def replacement(a, k, args, kw):
        return ("new", a, args, k, kw, cell, __name__)

    native.add_entry(fn.__code__, native.Entry(native.GuardProgram([]), fn_code=replacement.__code__))
    assert run(fn, 1, 2, z=3) == ("new", 1, (2,), 2, {"z": 3}, 5, __name__)
    cell = 6
    assert run(fn, 1)[5] == 6
    assert native.is_skipped(replacement.__code__)


def test_a_code_entry_takes_the_registers_that_its_guards_have_filled():
    def fn(a, b): ...

    def replacement(a, b, inputs):
        return a, b, inputs

    steps = [("local", 0, 1), ("local", 1, 0), ("number", 2, 0, "add", 1)]
    entry = native.Entry(native.GuardProgram(steps), fn_code=replacement.__code__, inputs=(2, 0))
    native.add_entry(fn.__code__, entry)
    for b in range(4):
        assert run(fn, 10, b) == (10, b, (10 + b, b))
    with pytest.raises(ValueError, match="do not write"):
        native.Entry(native.GuardProgram([]), fn_code=replacement.__code__, inputs=(2,))


def test_a_code_entry_that_does_not_fit_is_an_error():
    def fn(a): ...
    native.add_entry(fn.__code__, native.Entry(native.GuardProgram([]), fn_code=fresh().__code__))
    with pytest.raises(SystemError, match="takes 0 arguments"):
        run(fn, 1)


def test_exceptions_pass_through():
    fn = fresh()

    def program():
        raise KeyboardInterrupt

    direct(fn, program)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run(fn)
    assert not native.is_active()


def test_a_check_whose_list_changes_underneath():
    """A program that recompiles its own function, as a recompile inside a nested call does."""
    fn = fresh("plain")

    def program(a):
        if a[0] > 0:
            native.clear(fn.__code__)
            direct(fn, program, [("local", 0, 0)], inputs=(0,))
            return native.run_eager(lambda: a[0])
        return 0

    direct(fn, program, [("local", 0, 0)], inputs=(0,))
    assert [run(fn, i) for i in (1, 0, 2)] == [1, 0, 2]
    with active():
        assert fn(3) == 3


def test_a_reset_does_not_make_user_code_of_what_runs():
    """Replacement code that is under way when the cache is reset is still not captured."""
    namespace = {}
    exec("def fn(a): return a\ndef new(a): return [a]\ndef own(a): return a", namespace)
    entry = native.Entry(native.GuardProgram([]), fn_code=namespace["new"].__code__)
    native.add_entry(namespace["fn"].__code__, entry)
    native.mark_skip(namespace["own"].__code__, False, True)
    native.mark_skip(namespace["fn"].__code__)
    native.reset()
    assert [native.is_skipped(namespace[n].__code__) for n in ("new", "own", "fn")] == [True, True, False]
