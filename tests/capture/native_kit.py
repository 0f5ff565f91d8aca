"""What the tests of `dynacomp.capture._native` share: short ways to build guards and entries."""

import contextlib

from dynacomp.capture import _native as native


def check(steps, *locals, fn=None):
    """The index of the first of `steps` that fails for these arguments, or -1."""
    return native.GuardProgram(steps).check(fn or (lambda: None), locals)


def holds(*checks, value):
    """Do all `checks`, each on register 0, hold for `value`?"""
    return check([("local", 0, 0), *checks], value) == -1


def direct(fn, program, steps=(), inputs=(), **options):
    """Puts an entry that calls `program` into the cache of fn's code, and returns it."""
    entry = native.Entry(native.GuardProgram(steps), program=program, inputs=inputs, **options)
    native.add_entry(fn.__code__, entry)
    return entry


@contextlib.contextmanager
def active(on_miss=None, filter=None):
    """Captures the frames of this thread, with these callbacks."""
    before = native.set_callback(on_miss), native.set_filter(filter)
    native.enter()
    try:
        yield
    finally:
        native.leave()
        native.set_callback(before[0])
        native.set_filter(before[1])
