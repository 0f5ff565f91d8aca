"""What the tests of `dynacomp.capture._native` share: short ways to build guards and entries."""

import pytest

from dynacomp.capture import _native as native


@pytest.fixture
def isolated():
    """No callbacks but the test's own, and nothing left over from it."""
    before = native.set_callback(None), native.set_filter(None)
    native.reset()
    yield
    active = native.is_active()
    native.reset()
    native.set_callback(before[0])
    native.set_filter(before[1])
    assert not active


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


class active:
    """Captures the frames of this thread, with these callbacks, while in the `with` block."""

    def __init__(self, on_miss=None, filter=None):
        self.callbacks = on_miss, filter

    def __enter__(self):
        self.before = native.set_callback(self.callbacks[0]), native.set_filter(self.callbacks[1])
        native.mark_skip(active.__exit__.__code__)
        native.enter()

    def __exit__(self, *exc):
        native.leave()
        native.set_callback(self.before[0])
        native.set_filter(self.before[1])
