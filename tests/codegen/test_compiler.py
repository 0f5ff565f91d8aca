"""Finding a compiler, and one-line reasons for those that are missing, fail, hang, crash or lie."""

import ctypes
import signal
import stat
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from dynacomp.capture import _native
from dynacomp.codegen import compiler
from dynacomp.codegen.cpp import backend


def script(folder, body):
    """An executable shell script that plays the compiler."""
    file = folder / "cxx"
    file.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo fake 1.0; exit 0; fi\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return (str(file),)


def reason(command):
    with pytest.raises(compiler.CompilerError) as caught:
        compiler.find(command)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_finds_one():
    found = compiler.find(())
    assert found.version and "-O2" in found.flags
    assert compiler.find(()) is found


def test_missing():
    assert "cannot run" in reason(("/nowhere/g++",))
    assert "cannot run" in backend.unavailable(("/nowhere/g++",))


def test_none_on_the_machine(monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    assert "no C++ compiler found" in reason(())


def test_fails(tmp_path):
    command = script(tmp_path, "echo 'internal error: out of cheese' >&2; exit 1")
    assert "internal error: out of cheese" in reason(command)


def test_crashes(tmp_path):
    assert "killed by signal 11" in reason(script(tmp_path, "kill -SEGV $$"))


def test_what_crashes_is_asked_for_less(tmp_path):
    """g++ 12.2 says `during GIMPLE pass: slp` and this, of some of our kernels."""
    real = compiler.find(()).command[0]
    say = "echo 'runtime.h:33:32: internal compiler error: Segmentation fault' >&2; exit 1"
    for at in compiler.SIMPLER:
        command = script(tmp_path, f'case " $* " in *" {at} "*) exec {real} "$@";; *) {say};; esac')
        assert compiler.Compiler(command, compiler.find(()).flags, "").build(SOURCE, tmp_path / "out.so") is None
    with pytest.raises(compiler.CompilerError, match="internal compiler error"):
        compiler.Compiler(script(tmp_path, say), (), "").build(SOURCE, tmp_path / "out.so")


SOURCE = 'extern "C" int one() { return 1; }'


def test_writes_nothing(tmp_path):
    assert "wrote no file" in reason(script(tmp_path, "exit 0"))


LIAR = 'while [ "$1" != -o ]; do shift; done; {}'


def test_writes_rubbish(tmp_path):
    assert "failed with status" in reason(script(tmp_path, LIAR.format('echo rubbish > "$2"')))


def test_makes_wrong_code(tmp_path):
    code = 'extern \\"C\\" int dynacomp_probe(int x) { return x; }'
    body = LIAR.format(f'echo "{code}" | g++ -shared -fPIC -xc++ - -o "$2"')
    assert "makes wrong code" in reason(script(tmp_path, body))


CONSTANTS = """#include <cstdint>
#include <cstring>
#define WRITES(name, type, ...) extern "C" __attribute__((visibility("default"))) void name(void* out) { \\
  static const type known[] = {__VA_ARGS__}; memcpy(out, known, sizeof known); }
WRITES(longs, int64_t, 0, 0, 0, 0, 3, 3, 0, 0)
WRITES(doubles, double, 2.5, 2.5, 0, 0)
WRITES(floats, float, 1, 1, 1, 1, 0, 0, 0, 0)
WRITES(ints, int32_t, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7)
"""


def test_constants_are_written_as_they_are(tmp_path):
    """g++ 12 gets those wrong whose lower half is one number, where it is tuned for a CPU of Intel's."""
    out = tmp_path / "constants.so"
    compiler.find(()).build(CONSTANTS, out)
    library = compiler.open_library(out)
    rows = (("longs", np.int64, [0] * 4 + [3, 3, 0, 0]), ("doubles", np.float64, [2.5, 2.5, 0, 0]),
            ("floats", np.float32, [1] * 4 + [0] * 4), ("ints", np.int32, [5] * 4 + [0] * 8 + [7] * 4))
    for name, dtype, want in rows:
        got = np.full(len(want), 9, dtype)
        getattr(library, name)(ctypes.c_void_p(got.ctypes.data))
        assert got.tolist() == want


def test_flags_under_which_constants_are_wrong_are_not_taken(tmp_path, monkeypatch):
    """A compiler that has the defect without those that avoid it."""
    plain = compiler._PROBE.replace("dynacomp_constants(written)", "dynacomp_constants(written); written[7] = 3")
    monkeypatch.setattr(compiler, "_PROBE", plain)
    compiler._probed.cache_clear()
    try:
        assert "makes wrong code" in reason(("g++",))
    finally:
        compiler._probed.cache_clear()


def test_makes_what_does_not_load(tmp_path):
    body = LIAR.format('case "$2" in *.so) head -c 9999 /dev/zero > "$2";; esac')
    assert "cxx makes code that does not run: its test in python failed" in reason(script(tmp_path, body))


def test_writes_a_part_of_its_file(tmp_path):
    """To load it would end the process."""
    whole = Path(_native.__file__)
    body = LIAR.format(f'head -c 9999 {whole} > "$2"')
    assert "wrote a part of its file only" in reason(script(tmp_path, body))
    assert not compiler.is_cut_off(whole)


def test_what_it_says_is_fit_for_a_terminal(tmp_path):
    assert "error:  [31mred" in reason(script(tmp_path, r"printf 'error: \033[31mred\n' >&2; exit 1"))


def test_hangs(tmp_path, monkeypatch):
    with pytest.raises(compiler.CompilerError, match="no result within 0 s"):
        compiler.run(["/bin/sleep", "20"], timeout=0.2)


def test_refused_source_says_the_first_error(tmp_path):
    with pytest.raises(compiler.CompilerError, match="error: "):
        compiler.find(()).build("int f( {", tmp_path / "x.so")


def test_command_with_arguments():
    found = compiler.find(("g++", "-g0"))
    assert found.command == ("g++", "-g0")


def test_the_wait_for_a_compiler_that_ends_early_ends_what_it_started(tmp_path):
    """The driver's own children too, and they are asked to: they remove their files then."""
    part = tmp_path / "part"
    command = script(tmp_path, f"trap 'rm -f {part}; exit 1' TERM; touch {part}; sleep 77 & wait")

    def ring(signum, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(TimeoutError):
            compiler.run([*command, "x"])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not part.exists()
    running = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout.splitlines()
    assert "sleep 77" not in running


def test_compiles_while_the_interpreter_ends(monkeypatch):
    """What `atexit` calls may be compiled then; no thread starts any more."""
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    assert compiler.run_together([["echo", "one"], ["echo", "two"]]) == ["one\n", "two\n"]


def test_work_is_done_while_a_compiler_runs_and_once():
    done = []
    with compiler.meanwhile(lambda: done.append(time.monotonic())):
        start = time.monotonic()
        compiler.run_together([["sleep", "0.5"], ["sleep", "0.5"]])
        assert len(done) == 1 and done[0] - start < 0.4
        compiler.run(["true"])
    compiler.run(["true"])
    assert len(done) == 1


def test_work_that_is_ended_ends_the_runs():
    def work():
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), compiler.meanwhile(work):
        compiler.run(["sleep", "30"])
    assert time.monotonic() - start < 10


def test_work_that_fails_runs_nothing_twice(tmp_path):
    def work():
        raise RuntimeError("of the work")

    with pytest.raises(RuntimeError, match="of the work"), compiler.meanwhile(work):
        compiler.run(["sh", "-c", f"echo once >> {tmp_path / 'ran'}; sleep 5"])
    assert (tmp_path / "ran").read_text() == "once\n"


def test_work_is_done_where_a_run_cannot_start():
    done = []
    with pytest.raises(compiler.CompilerError, match="cannot run"), compiler.meanwhile(lambda: done.append(1)):
        compiler.run(["/no/such/compiler"])
    assert done == [1]
