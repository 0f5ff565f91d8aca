"""dynacomp.options: defaults, precedence, and messages for what is wrong."""

import os
import tempfile
from pathlib import Path

import pytest

from dynacomp.options import (
    MODES,
    Options,
    available_cpus,
    checked,
    default_cache_dir,
    from_environment,
    log_topics,
    resolve,
)


def test_defaults_come_from_an_empty_environment():
    options = resolve(environ={})
    assert (options.backend, options.dynamic, options.fullgraph) == ("auto", None, False)
    assert options.threads == available_cpus() >= 1
    assert options.cxx == ()
    assert options.cache_dir == Path.home() / ".cache" / "dynacomp"


def test_environment_is_read():
    options = from_environment(
        {"DYNACOMP_THREADS": " 3 ", "CXX": "ccache 'my g++'", "DYNACOMP_CACHE_DIR": "/tmp/here"})
    assert (options.threads, options.cxx, options.cache_dir) == (3, ("ccache", "my g++"), Path("/tmp/here"))
    assert default_cache_dir({"XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/dynacomp")


def test_options_win_over_the_mode_and_the_mode_over_the_environment():
    environ = {"DYNACOMP_THREADS": "3"}
    assert resolve(mode="exact", environ=environ).numerics == "exact"
    assert resolve(mode="exact", options={"numerics": "default"}, environ=environ).numerics == "default"
    assert resolve(options={"threads": 1}, environ=environ).threads == 1
    assert resolve(options={"cxx": "clang++ -v"}, environ=environ).cxx == ("clang++", "-v")
    assert resolve(options={"cache_dir": "~/c"}, environ=environ).cache_dir == Path.home() / "c"


@pytest.mark.parametrize("arguments, message", [
    ({"mode": "defualt"}, "did you mean 'default'"),
    ({"options": {"numeric": "exact"}}, "did you mean 'numerics'"),
    ({"options": {"numerics": "fast"}}, "one of 'default', 'exact'"),
    ({"options": {"threads": 0}}, "at least 1"),
    ({"options": {"threads": True}}, "at least 1"),
    ({"options": {"backend": "cpp"}}, "an argument of dynacomp.jit"),
    ({"options": {"cache_dir": 3}}, "a folder"),
    ({"options": {"cache_dir": "/tmp/a\0b"}}, "a folder"),
    ({"options": {"cxx": 3}}, "a command"),
    ({"backend": None}, "list_backends"),
    ({"dynamic": 1}, "True, False or None"),
    ({"fullgraph": "yes"}, "True or False"),
])
def test_a_bad_value_says_what_would_be_right(arguments, message):
    with pytest.raises(ValueError, match=message):
        resolve(environ={}, **arguments)


def test_options_must_be_a_mapping():
    with pytest.raises(TypeError, match="must be a dict"):
        resolve(options=["numerics"], environ={})


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_bad_thread_counts_name_the_variable(text):
    with pytest.raises(ValueError, match="DYNACOMP_THREADS"):
        from_environment({"DYNACOMP_THREADS": text})


def test_log_topics():
    assert log_topics({"DYNACOMP_LOG": "breaks, code,"}) == {"breaks", "code"}
    assert log_topics({}) == frozenset()
    with pytest.raises(ValueError, match="DYNACOMP_LOG.*'kernel'.*did you mean 'kernels'"):
        log_topics({"DYNACOMP_LOG": "kernel"})


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_resolves_to_a_hashable_value(mode):
    options = resolve(mode=mode, environ={})
    assert hash(options) == hash(resolve(mode=mode, environ={}))
    assert checked(options) is options and isinstance(options, Options)


def test_home_folders_of_nobody(monkeypatch):
    with pytest.raises(ValueError, match="cache folder '~nobody there/c'"):
        resolve(options={"cache_dir": "~nobody there/c"})
    with pytest.raises(ValueError, match="cache folder '~nobody there/c'"):
        default_cache_dir({"DYNACOMP_CACHE_DIR": "~nobody there/c"})
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where neither HOME nor the system knows one
    assert default_cache_dir({}) == Path(tempfile.gettempdir()) / f"dynacomp-{os.getuid()}"
