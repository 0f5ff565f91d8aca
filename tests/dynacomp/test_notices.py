"""dynacomp.notices: one line, once per site, never silence."""

import logging
import os
import subprocess
import sys
import threading

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import notices
from dynacomp.options import TOPICS, log_topics


@pytest.fixture(autouse=True)
def forget():
    notices.reset()
    yield
    notices.reset()


def test_a_site_is_told_once_and_again_after_a_reset(caplog):
    say = lambda: notices.tell("graph break", "a.py", 3, "print is called", hint="use jax.debug.print")
    assert (say(), say()) == (True, False)
    assert [r.getMessage() for r in caplog.records] == [
        "dynacomp: a.py:3: graph break: print is called (hint: use jax.debug.print)"]
    notices.reset()
    assert say() and len(caplog.records) == 2


def test_sites_differ_by_kind_line_and_reason_but_an_id_stands_for_its_reasons():
    assert notices.tell("fallback", "a.py", 1, "no compiler")
    assert notices.tell("fallback", "a.py", 2, "no compiler")
    assert notices.tell("graph break", "a.py", 1, "no compiler")
    assert notices.tell("fallback", "a.py", 1, "3 entries", id="limit")
    assert not notices.tell("fallback", "a.py", 1, "4 entries", id="limit")
    assert [n.line for n in notices.told()] == [1, 2, 1, 1]


def test_a_notice_is_one_line():
    assert "\n" not in str(notices.Notice("fallback", "a.py", 1, "first\nsecond", "do\nthis"))
    assert str(notices.Notice("fallback", "", 0, "why")) == "dynacomp: fallback: why"


def test_threads_tell_a_site_once(caplog):
    threads = [threading.Thread(target=notices.tell, args=("fallback", "a.py", 1, "why")) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(caplog.records) == 1


def test_topics_print_only_when_asked_for(capsys):
    notices.enable(frozenset({"guards"}))
    before = notices._handler.setStream(sys.stderr)
    try:
        notices.log("guards", lambda: "x.shape == (3,)")
        notices.log("graph", lambda: pytest.fail("must not be computed"))
        assert notices.logs("guards") and not notices.logs("graph")
    finally:
        notices._handler.setStream(before)
        notices.enable(frozenset())
    assert capsys.readouterr().err == "[dynacomp.guards] x.shape == (3,)\n"


def test_help_lists_the_topics(capsys):
    assert log_topics({"DYNACOMP_LOG": "help,guards"}) == {"help", "guards"}
    notices.enable(frozenset({"help"}))
    said = capsys.readouterr().err
    assert all(topic in said for topic in TOPICS) and not any(map(notices.logs, TOPICS))
    notices.enable(frozenset())


def test_breaks_are_printed_each_time_they_are_captured(capsys):
    notices.enable(frozenset({"breaks"}))
    before = notices._handler.setStream(sys.stderr)
    try:
        for _ in range(2):
            dynacomp.reset()
            dynacomp.jit(lambda x: (x + 1, dynacomp.graph_break(), x * 2), backend="eager")(jnp.ones(2))
        dynacomp.jit(lambda x: x + jnp.ones(3), backend="eager")(jnp.ones(3))
    finally:
        notices._handler.setStream(before)
        notices.enable(frozenset())
    assert capsys.readouterr().err.count("graph break: dynacomp.graph_break()") == 2


EVERYTHING = """
import os, sys
import jax.numpy as jnp, dynacomp
f = dynacomp.jit(lambda x: (jnp.sin(x) + 1, print(end=""), x * 2), options={"cache_dir": sys.argv[1]})
f(jnp.ones(3)), f(jnp.ones(4))
"""


@pytest.mark.medium
def test_every_topic_prints_something(tmp_path):
    done = subprocess.run([sys.executable, "-c", EVERYTHING, str(tmp_path)], capture_output=True, text=True,
                          env={**os.environ, "DYNACOMP_LOG": ",".join(TOPICS)})
    assert done.returncode == 0, done.stderr
    assert {t for t in TOPICS if f"[dynacomp.{t}] " in done.stderr} == set(TOPICS)
    assert "graph break" in done.stderr and "failed guard" in done.stderr


@pytest.mark.medium
def test_a_plain_program_sees_notices_on_stderr():
    program = ("from dynacomp import notices\n"
               "notices.tell('fallback', 'a.py', 1, 'why'); notices.log('code', 'c')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={"DYNACOMP_LOG": "code", "PATH": ""})
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines() == ["dynacomp: a.py:1: fallback: why", "[dynacomp.code] c"]


def test_the_logger_can_be_silenced_like_any_other(caplog):
    with caplog.at_level(logging.ERROR, logger="dynacomp"):
        assert notices.tell("fallback", "a.py", 9, "why")
    assert not caplog.records


def test_a_handler_of_the_program_that_fails_does_not_fail_the_call(monkeypatch):
    class Failing(logging.Handler):
        def emit(self, record):
            raise RuntimeError

    dynacomp.reset()
    failing, compiled = Failing(), dynacomp.jit(lambda x: (x + 1, print(end="")), backend="eager")
    notices.LOGGER.addHandler(failing)
    try:
        assert [float(compiled(jnp.ones(2))[0][0]) for _ in range(3)] == [2, 2, 2]
    finally:
        notices.LOGGER.removeHandler(failing)
    stats = dynacomp.stats()
    assert (stats["breaks"], stats["frames_eager"]) == ({"effect": 1}, {}) and stats["cache_hits"]
