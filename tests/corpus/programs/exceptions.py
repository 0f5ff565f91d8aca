"""Exceptions: raising, catching, chaining, cleaning up, leaving a frame half-way."""

from __future__ import annotations

from tests.corpus.kit import ANY, program

LOG: list = []


class Custom(Exception):
    def __init__(self, code, detail=""):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


class Plain(ValueError):
    pass


class Worded(Exception):
    def __str__(self):
        return "worded:" + repr(self.args)


@program
def caught_by_name(x):
    try:
        raise ValueError("bad", 3)
    except ValueError as error:
        return x + 1, error.args, str(error)


@program
def caught_by_tuple(x):
    try:
        {}["missing"]
    except (IndexError, KeyError) as error:
        return x * 2, repr(error)


@program
def else_and_finally(x):
    steps = []
    try:
        steps.append("try")
    except Exception:
        steps.append("except")
    else:
        steps.append("else")
    finally:
        steps.append("finally")
    return x, steps


def _returns(steps, x):
    try:
        return x + len(steps)
    finally:
        steps.append("late")


@program
def finally_after_return(x):
    steps = ["first"]
    return _returns(steps, x), steps


def _overrides():
    try:
        return "try"
    finally:
        return "finally"  # noqa: B012


@program
def finally_overrides_return(x):
    return x, _overrides()


@program
def custom_exception(x):
    try:
        raise Custom(7, detail="why")
    except Custom as error:
        return x - 1, error.code, error.detail, error.args, str(error)


@program
def custom_without_init(x):
    try:
        raise Plain("text", 2)
    except ValueError as error:
        return type(error).__name__, error.args, str(error), x


@program
def custom_str(x):
    try:
        raise Worded(1, 2)
    except Worded as error:
        return str(error), f"{error}", x


@program
def holds_an_array(x):
    try:
        raise Custom(1, detail=x * 2)
    except Custom as error:
        return error.detail + 1


@program
def raise_from(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise Custom(2) from inner
    except Custom as error:
        return x, error.__cause__, error.__suppress_context__, repr(error.__context__)


@program
def raise_from_none(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise Custom(2) from None
    except Custom as error:
        return x, error.__cause__, error.__suppress_context__


@program
def implicit_context(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")  # noqa: B904
    except ValueError as error:
        return x, type(error.__context__), error.__context__.args, error.__cause__


@program
def bare_raise(x):
    steps = []
    try:
        try:
            raise ValueError("again")
        except ValueError:
            steps.append("seen")
            raise
    except ValueError as error:
        steps.append(str(error))
    return x, steps


@program
def nested_handlers(x):
    steps = []
    for n in range(4):
        try:
            try:
                if n == 1:
                    raise KeyError(n)
                if n == 2:
                    raise IndexError(n)
                steps.append(n)
            except KeyError as e:
                steps.append(("key", e.args))
            finally:
                steps.append("f")
        except LookupError as e:
            steps.append(("lookup", str(e)))
    return x, steps


@program
def exception_through_calls(x):
    def inner(n):
        if n == 0:
            raise ZeroDivisionError("deep")
        return inner(n - 1)

    try:
        inner(5)
    except ArithmeticError as error:
        return x + 5, str(error)


@program
def division_by_zero(x):
    found = []
    for f in (lambda: 1 / 0, lambda: 1 // 0, lambda: 1 % 0, lambda: 1.0 / 0, lambda: divmod(1, 0), lambda: 0 ** -1):
        try:
            f()
        except ZeroDivisionError as error:
            found.append(str(error))
    return x, found


@program(breaks=ANY, hits=False)
def builtin_errors(x):
    found = []
    for f in (lambda: [][3], lambda: {}["k"], lambda: (1, 2)[9], lambda: "a" + 1, lambda: int("z"), lambda: None.a,
              lambda: len(3), lambda: [1].remove(2), lambda: {}.popitem(), lambda: [].pop(), lambda: next(iter([])),
              lambda: "abc".index("z"), lambda: [3].index(4), lambda: set().pop(), lambda: {1}.remove(5),
              lambda: (lambda a: a)(), lambda: (lambda a: a)(1, 2), lambda: (lambda a: a)(b=1), lambda: {[]: 1},
              lambda: float("x"), lambda: [1, "a"] < [1, 2], lambda: int.frobnicate, lambda: (3)[0], lambda: max([]),
              lambda: chr(-1), lambda: "%d" % "a", lambda: "{}".format(), lambda: sorted([1, "a"]),
              lambda: iter(5), lambda: [*3], lambda: 1 < "a", lambda: -"a", lambda: [] + (), lambda: (1).foo,
              lambda: dict([1]), lambda: bytes([300]), lambda: "a" * 1.5, lambda: isinstance(1, 2)):
        try:
            f()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return x, found


@program(eager=("raises",))
def escapes(x):
    raise ValueError("out")


@program(eager=("raises",))
def escapes_after_effects(x):
    LOG.append(1)
    LOG.append(x + 1)
    y = [1][5]
    return y


@program(eager=("raises",))
def escapes_from_a_callee(x):
    def callee(d):
        d["a"] = 1
        return d["b"]

    LOG.append("before")
    return callee({})


@program(eager=("raises",))
def escapes_chained(x):
    try:
        x.frobnicate
    except AttributeError as error:
        raise Custom(3) from error


@program(eager=("raises",))
def shape_error(x):
    return x + x[:3]


@program
def shape_error_caught(x):
    try:
        return x + x[:3]
    except TypeError as error:
        return x, str(error)


@program
def asserts(x):
    assert x.shape == (6,), "fine"
    try:
        assert x.ndim == 2, f"ndim {x.ndim}"
    except AssertionError as error:
        return x, str(error)


@program
def name_is_unbound_after(x):
    error = 3
    try:
        raise ValueError
    except ValueError as error:  # noqa: F841
        pass
    try:
        return error
    except UnboundLocalError as e:
        return x, str(e)


@program
def in_a_loop_with_continue_and_break(x):
    seen = []
    for n in range(10):
        try:
            if n % 2:
                continue
            if n == 6:
                break
            seen.append(n)
        finally:
            seen.append("f")
    return x, seen


@program
def notes(x):
    try:
        error = ValueError("base")
        error.add_note("more")
        raise error
    except ValueError as e:
        return x, e.__notes__


@program
def stop_iteration_value(x):
    def gen():
        yield 1
        return x + 1

    g = gen()
    next(g)
    try:
        next(g)
    except StopIteration as stop:
        return stop.value


@program
def attribute_error_fields(x):
    try:
        object().nothing
    except AttributeError as error:
        return x, str(error), error.name


@program
def key_error_of_tuple(x):
    try:
        return {(1, 2): 3}[(1, 3)]
    except KeyError as error:
        return x, error.args


@program
def exception_groups(x):
    found = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        found.append(group.exceptions[0].args)
    except* KeyError as group:
        found.append(len(group.exceptions))
    return x, found


@program
def reraise_other_in_finally(x):
    try:
        try:
            raise ValueError("first")
        finally:
            {}["second"]
    except KeyError as error:
        return x, error.args, type(error.__context__).__name__


@program
def exception_as_value(x):
    errors = [ValueError("a"), Custom(4), Plain()]
    return x, errors, [isinstance(e, ValueError) for e in errors]


@program
def raise_class_and_instance(x):
    found = []
    for what in (KeyError, KeyError("i"), Plain, Plain("p")):
        try:
            raise what
        except Exception as error:
            found.append((type(error), error.args, error is what))
    try:
        raise 5
    except TypeError as error:
        found.append(str(error))
    return x, found


class Few:
    first = 1

    def missing(self):
        return object.__getattribute__(self, "second")


@program
def attribute_errors_know_what_was_missed(x):
    few, seen = Few(), []
    for attempt in (lambda: few.second, few.missing, lambda: undefined):  # noqa: F821
        try:
            attempt()
        except (AttributeError, NameError) as error:
            seen.append((error.name, getattr(error, "obj", None) is few, str(error)))
    return x + 1, seen


@program
def cycles_of_contexts(x):
    a, b = ValueError("a"), KeyError("b")
    a.__context__, b.__context__ = b, a
    try:
        try:
            raise a
        except ValueError:
            raise TypeError("c")  # noqa: B904
    except TypeError as error:
        return x + 1, error.__context__ is a, a.__context__ is b, b.__context__ is a


@program
def notes_that_are_no_list(x):
    error = ValueError(1)
    error.add_note("one")
    error.add_note("two")
    seen = [list(error.__notes__)]
    error.__notes__ = 42
    try:
        error.add_note("three")
    except TypeError as wrong:
        seen.append(str(wrong))
    return x + 1, seen, error.__notes__


@program
def members_kept_in_c(x):
    made = [StopIteration(5), SystemExit("bye"), OSError(2, "gone", "file"), ImportError("no", name="n", path="p"),
            UnicodeDecodeError("utf-8", b"ab", 0, 1, "why"), KeyError("k"), SyntaxError("s", ("f", 1, 2, "t"))]
    return (x, made[0].value, made[1].code, made[2].errno, made[2].filename, made[2].args, made[3].name, made[3].path,
            made[4].reason, made[4].start, made[6].lineno, [str(e) for e in made], made)


class Asked(type):
    def __instancecheck__(cls, obj):
        raise RuntimeError("asked")

    __subclasscheck__ = __instancecheck__


class Kind(Exception, metaclass=Asked):
    pass


@program
def classes_are_not_asked_what_they_are(x):
    try:
        try:
            raise ValueError(1)
        except Kind:
            return x
    except ValueError:
        return x + 1
