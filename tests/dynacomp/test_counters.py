"""dynacomp.counters: exact under threads, JSON-able, reset to zero."""

import json
import threading

import pytest

from dynacomp import counters


@pytest.fixture(autouse=True)
def fresh():
    counters.reset()
    yield
    counters.reset()


def test_every_counter_is_shown_from_the_start():
    shown = counters.stats()
    assert list(shown) == list(counters.COUNTERS)
    assert all(value == ({} if counters.COUNTERS[name].key else 0) for name, value in shown.items())


def test_counting_and_reset():
    counters.count("graphs")
    counters.count("operations", by=5)
    counters.count("breaks", "print")
    counters.count("breaks", "print")
    shown = json.loads(json.dumps(counters.stats()))
    assert (shown["graphs"], shown["operations"], shown["breaks"]) == (1, 5, {"print": 2})
    counters.reset()
    assert counters.stats()["breaks"] == {} and counters.stats()["operations"] == 0


def test_stats_is_a_copy():
    counters.count("breaks", "print")
    counters.stats()["breaks"]["print"] = 99
    assert counters.stats()["breaks"] == {"print": 1}


def test_wrong_names_and_keys_are_refused():
    with pytest.raises(KeyError):
        counters.count("graph")
    with pytest.raises(ValueError, match="takes a key \\(reason\\)"):
        counters.count("breaks")
    with pytest.raises(ValueError, match="takes no key"):
        counters.count("graphs", "cpp")
    with pytest.raises(ValueError, match="has keys"):
        counters.add_source("breaks", lambda: 0)


def test_timed_counts_also_what_raises():
    with counters.timed("capture"):
        pass
    with pytest.raises(ZeroDivisionError), counters.timed("lowering"):
        1 / 0  # noqa: B018
    assert set(counters.stats()["compile_seconds"]) == {"capture", "lowering"}
    assert all(s > 0 for s in counters.stats()["compile_seconds"].values())


def test_a_source_counts_from_when_it_was_added_and_from_each_reset(monkeypatch):
    monkeypatch.setattr(counters, "_sources", {})
    monkeypatch.setattr(counters, "_baseline", {})
    native = [10]
    counters.add_source("cache_hits", lambda: native[0])
    assert counters.stats()["cache_hits"] == 0
    native[0] += 3
    counters.count("cache_hits")
    assert counters.stats()["cache_hits"] == 4
    counters.reset()
    native[0] += 2
    assert counters.stats()["cache_hits"] == 2


def test_threads_lose_nothing():
    def work():
        for _ in range(2000):
            counters.count("operations")
            counters.count("breaks", "print")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counters.stats()["operations"] == 16000 and counters.stats()["breaks"] == {"print": 16000}
