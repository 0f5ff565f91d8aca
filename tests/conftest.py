"""What every test shares: quiet, deterministic JAX, one cache of compiled code, golden files.

`golden(name, text)` compares `text` with the file `golden/<name>` beside the test, and rewrites
that file under `pytest --update-golden`.

`MEDIUM` names the files and folders that compile so much that `make test-fast` leaves them out. `BARELY_OPTIMISED`
names those that ask what is captured and what it computes, not how fast it is: most of what XLA makes there is used
once. They take a third less where XLA optimises little and writes kernels in its older way (`EMITTERS`). `EXACT` are
those among them that ask how far ours is from what XLA makes for users.

`@pytest.mark.sampled(n)` is for large grids of like cases: one of n is a test like others (DYNACOMP_TEST_SEED says
which ones), the rest are slow tests. `by` names the parameter whose cases stay together. DYNACOMP_TEST_SHARE=n does
the same to all tests, DYNACOMP_TEST_SHARE_OF_JAX=n to those in the rooms `OF_JAX`, whose answers depend little on the
interpreter; DYNACOMP_TEST_TURN says whose turn it is.
"""

import atexit
import gc
import os
import signal
import threading
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("DYNACOMP_CACHE_DIR", str(ROOT / "build" / "test-cache"))
os.environ.setdefault("DYNACOMP_VERIFY", "1")
os.environ.setdefault("DYNACOMP_CAPTURE_IDLE", "1")  # most tests are of capture, and look at frames without arrays
# What XLA compiles is compiled once, by whatever worker, under whatever Python, however often JAX's caches are cleared:
# without it most tests take twice as long.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "test-cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax  # noqa: E402
from jax._src import compiler  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib.mlir import ir  # noqa: E402
from jax._src.lru_cache import LRUCache  # noqa: E402

import dynacomp  # noqa: E402
from dynacomp import counters  # noqa: E402
from dynacomp.capture import _native, frame  # noqa: E402

_native.settle(1, True)  # guards that have settled are asked one by one as well


@dynacomp.disable
def put_at_once(cache: LRUCache, key: str, value: bytes) -> None:
    """An entry of JAX's cache appears whole: other workers read it meanwhile."""
    entry = Path(str(cache.path)) / f"{key}-cache"
    if not entry.exists():
        part = entry.with_name(f"{key}.{os.getpid()}")
        part.write_bytes(value)
        part.replace(entry)


@dynacomp.disable
def options_of(*args, _options=compiler.get_compile_options, **kwargs):
    """What XLA is told, which JAX has no setting for."""
    found = _options(*args, **kwargs)
    if jax.config.read("jax_disable_most_optimizations"):
        found.env_option_overrides = [*found.env_option_overrides, *EMITTERS]
    return found


@dynacomp.disable
def context_of_thread(_make=mlir.make_ir_context, _kept=threading.local()):  # noqa: B008
    """MLIR's context for one lowering: half of what a lowering takes is to make one. Each serves fifty lowerings of its
    thread (later versions of JAX have one serve ten by themselves), but none inside another, which would stand in the
    other's module; what is interned in it goes with it."""
    if ir.Context.current is not None:
        return _make()
    left, context = getattr(_kept, "context", (0, None))
    if not left:
        left, context = 50, _make()
    _kept.context = left - 1, context
    return context


# XLA's option to write kernels as it did before 2025; later versions have no others.
EMITTERS = [("xla_cpu_use_fusion_emitters", False)] if jax.__version_info__ < (0, 11) else []
LRUCache.put = put_at_once
compiler.get_compile_options = options_of
if jax.__version_info__ < (0, 11):
    mlir.make_ir_context = context_of_thread

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as shells have it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: what is imported stays

MANY_BYTES = 3 << 29
MEDIUM = ("benchmarks", "capture/base/test_interrupts.py", "capture/base/test_remembered.py",
          "capture/bytecode/test_segments.py", "capture/control_flow/test_rolled_loops.py",
          "capture/native/test_native_arrays.py", "capture/native/test_native_hook.py",
          "capture/native/test_native_leaks.py", "capture/native/test_native_sanitized.py",
          "capture/test_transform_table.py", "capture/test_weak_keys.py", "capture/bodies/test_subgraphs.py",
          "changing",
          "codegen/conformance", "codegen/cpp/test_backend.py", "codegen/cpp/test_types.py", "codegen/test_cache.py",
          "codegen/test_program.py", "codegen/triton/test_programs.py", "codegen/test_xla.py",
          "codegen/triton/test_scalars.py", "codegen/triton/test_seam.py", "corpus", "dynacomp/test_custom.py",
          "dynacomp/test_explain.py",
          "dynacomp/test_hostile_input.py", "dynacomp/test_hostile_world.py", "dynacomp/test_lifetimes.py",
          "dynacomp/test_memory.py", "dynacomp/test_misses.py", "dynacomp/test_sanitized.py",
          "dynacomp/test_threads.py", "dynacomp/test_tracing.py", "examples", "frameworks", "jax_suite", "kernels",
          "lowering/fuse/test_fusion.py", "lowering/fuse/test_fusion_symbolic.py",
          "lowering/kernel_ir/test_scalars.py", "lowering/primitives/test_ops.py",
          "lowering/passes/test_attention.py", "lowering/test_random_programs.py",
          "lowering/primitives/test_placing.py", "lowering/primitives/test_translate.py", "strict")
BARELY_OPTIMISED = ("capture", "changing", "codegen", "corpus", "dynacomp", "frameworks", "lowering", "settling")
EXACT = ("codegen/conformance", "codegen/cpp/test_accuracy.py")
OF_JAX = ("arithmetic", "bodies", "graph", "hosting", "numbers", "rows", "tracing", "wrapping")
OF_JAX_PATHS = tuple(str(ROOT / "tests" / "capture" / name) for name in OF_JAX)
MEDIUM_PATHS = tuple(str(ROOT / "tests" / name) for name in MEDIUM)
BARELY_PATHS = tuple(str(ROOT / "tests" / name) for name in BARELY_OPTIMISED)
EXACT_PATHS = tuple(str(ROOT / "tests" / name) for name in EXACT)


def pytest_ignore_collect(collection_path, config):
    """Leave medium files unread where they are not asked for: they import every framework."""
    return True if "not medium" in config.option.markexpr and is_medium(collection_path) else None


def pytest_collection_modifyitems(items):
    for item in items:
        assert " at 0x" not in item.name, f"{item.nodeid}: an address in a name differs between the workers of a run"
        if is_medium(item.path):
            item.add_marker(pytest.mark.medium)
        if (zlib.crc32(item.nodeid.encode()) + TURN) % share_of(item.path):
            item.add_marker(pytest.mark.slow)
        for marker in item.iter_markers("sampled"):
            if not is_in_sample(item.callspec, *marker.args, **marker.kwargs):
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """What was imported stays: the many collections that tests ask for need not walk through it each time."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config):
    """A worker of a run has told all that it found: who waits for it need not wait until a gigabyte of objects is taken
    to pieces one by one. What clears up behind the process is called all the same."""
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        os._exit(0)
    gc.unfreeze()


SEED = int(os.environ.get("DYNACOMP_TEST_SEED", "0"))
TURN = int(os.environ.get("DYNACOMP_TEST_TURN", "0"))
SHARE = int(os.environ.get("DYNACOMP_TEST_SHARE", "1"))
SHARE_OF_JAX = int(os.environ.get("DYNACOMP_TEST_SHARE_OF_JAX", SHARE))


def is_in_sample(case, one_of: int, by: str = "") -> bool:
    """Whether a case of a grid is one of the sample; of those that have one value of the parameter `by`, all are."""
    chosen = str(case.params[by]) if by else case.id
    return (zlib.crc32(chosen.encode()) + SEED) % one_of == 0


def share_of(path: Path) -> int:
    """Of how many tests like these one is run."""
    return SHARE_OF_JAX if str(path).startswith(OF_JAX_PATHS) else SHARE


def is_medium(path: Path) -> bool:
    return str(path).startswith(MEDIUM_PATHS)


def pytest_runtest_setup(item):
    """Whether XLA optimises is settled by the file; what it has compiled for others is forgotten between the two."""
    barely = str(item.path).startswith(BARELY_PATHS) and not str(item.path).startswith(EXACT_PATHS)
    if jax.config.read("jax_disable_most_optimizations") != barely:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", barely)


@pytest.hookimpl(trylast=True)  # fixtures look at counters when their test has ended
def pytest_runtest_teardown(item, nextitem):
    """What is left of a file's tests is no garbage: the collections that later tests ask for need not walk through it.
    Where it has become much, it is looked through, and what JAX keeps of thousands of tests is let go of."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if resident() > MANY_BYTES:
        dynacomp.reset()
        jax.clear_caches()
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def resident() -> int:
    """The bytes of memory that this process holds; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """A defect of ours is an error in every test: no other test decides whether it is worked around, or is counted."""
    counters.reset()
    monkeypatch.setattr(frame, "strict_errors", True)


@pytest.fixture
def is_captured():
    """For tests that compare results: what they ran was captured, or found to raise; none was left to Python for
    another reason."""
    dynacomp.reset()
    yield
    stats = dynacomp.stats()
    eager = stats["frames_eager"]
    assert (stats["frames_captured"] or eager) and set(eager) <= {"raises"}, eager


@pytest.fixture
def lenient(monkeypatch, strict):
    """For tests of what users see of a defect: a notice, and a right answer."""
    monkeypatch.setattr(frame, "strict_errors", False)


@pytest.fixture
def golden(request):
    """A function (name, text) that compares with, or updates, the golden file of that name."""

    def check(name: str, text: str) -> None:
        file = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"{file} is missing: run pytest --update-golden and read what it writes"
        assert text == file.read_text(), f"{file} differs: if the new text is right, pytest --update-golden"

    return check
