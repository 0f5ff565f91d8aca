"""Replacement code that breaks leaves no trace: no deeper stack, no line of a traceback, no references."""

import gc
import sys
import traceback
import weakref

import dynacomp


class Thing:
    pass


def test_what_a_broken_function_deletes_is_deleted():
    def f():
        thing = Thing()
        seen = weakref.ref(thing)
        del thing
        gc.collect()
        return seen()

    assert dynacomp.jit(f)() is None


def test_a_traceback_has_one_line_of_a_function_that_broke_twice():
    def f():
        print(end="")
        print(end="")
        raise KeyError(1)

    try:
        dynacomp.jit(f)()
    except KeyError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[1:] == ["f"]


def test_the_caller_of_a_resumed_frame_is_the_function_s_caller():
    def f():
        print(end="")
        return sys._getframe(1).f_code.co_name

    assert dynacomp.jit(f)() == "test_the_caller_of_a_resumed_frame_is_the_function_s_caller"


def test_a_loop_that_breaks_needs_no_deeper_stack():
    def f(n):
        depth = set()
        for _ in range(n):
            depth.add(len(traceback.extract_stack(limit=None)))
        return depth

    assert len(dynacomp.jit(f)(300)) == 1


class Broken:
    def write(self, text):
        raise OSError("no space left")


def test_what_an_exception_takes_off_the_stack_dies_before_it_is_handled():
    def numbers(log):
        try:
            yield from range(3)
        finally:
            log.append("closed")

    def here(log):
        try:
            for n in numbers(log):
                print(n, file=Broken())
        except OSError as error:
            log.append(str(error))
        return log

    def below(log):
        def use():
            for n in numbers(log):
                print(n, file=Broken())

        try:
            use()
        except OSError as error:
            log.append(str(error))
        return log

    for f in (here, below):
        assert dynacomp.jit(f)([]) == f([]) == ["closed", "no space left"]


class Told:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


class Own(Exception):
    pass


def caught():
    try:
        raise Own
    except Own as error:
        return error


def test_a_frame_that_a_traceback_keeps_has_lost_what_the_program_lets_go_of():
    def broken(log):
        error = caught()
        told = Told(log)
        print(end="")
        del told
        return error, log[:]

    def whole():
        return caught()

    gc.collect()
    gc.disable()
    try:
        assert dynacomp.jit(broken)([])[1] == broken([])[1] == ["gone"]
        error = weakref.ref(dynacomp.jit(whole)())
        assert error() is None  # no cycle through its frames
    finally:
        gc.enable()


def test_the_caller_of_a_frame_in_a_traceback_is_the_program_s():
    def f():
        return caught()

    frame = dynacomp.jit(f)().__traceback__.tb_frame
    assert [frame.f_code.co_name, frame.f_back.f_code.co_name] == ["caught", "f"]
