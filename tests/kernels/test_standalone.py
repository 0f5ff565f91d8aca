"""Kernel templates by themselves: the source of a call, its symbols, and a library that is compiled once."""

import jax  # noqa: F401  (its own LAPACK, which the library links to)
import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build, compiled, free_symbols, source

M, N = sympy.symbols("m n", integer=True, positive=True)


def call(**params):
    given = dict(batch=1, m=M, n=N, k=4, a_strides=(0, 4, 1), b_strides=(0, N, 1)) | params
    return Call("matmul", ("float32",) * 3, given)


def test_symbols_of_a_call_are_its_sizes_in_order():
    assert call().symbols == ("m", "n") and call(m=3, n=5, b_strides=(0, 5, 1)).symbols == ()
    assert free_symbols(((M, [N]), 3)) == {M, N} and free_symbols("text") == set()


def test_the_source_reads_sizes_and_names_each_header_once():
    text = source({"one": call(), "two": call(m=3)})
    assert text.count("#include") == len({line for line in text.split("\n") if line.startswith("#include")})
    one = text[text.index("void one("):text.index("void two(")]
    assert "m = sizes[0]" in one and "n = sizes[1]" in one
    assert "m = sizes" not in text[text.index("void two("):]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build({"product": call()}, tmp_path_factory.mktemp("standalone"))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7), (40, 33)])
def test_one_library_serves_every_size(library, m, n):
    drawn = np.random.RandomState(m)
    a, b = (drawn.randn(*s).astype(np.float32) for s in ((m, 4), (4, n)))
    (out,) = library.run("product", {"m": m, "n": n}, [a, b], [np.zeros((m, n), np.float32)])
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_arrays_of_other_dtypes_are_refused(library):
    wrong = [np.zeros((2, 4)), np.zeros((4, 2), np.float32)]
    with pytest.raises(TypeError, match="float64"):
        library.bind("product", {"m": 2, "n": 2}, wrong, [np.zeros((2, 2), np.float32)])


def test_what_is_compiled_is_kept_by_its_text_and_command(tmp_path):
    text, log = 'extern "C" int one() { return 1; }', tmp_path / "ran"
    command = ("sh", "-c", f'echo x >> {log}; exec g++ -shared -fPIC "$@"', "g++")
    first = compiled(text, tmp_path, command)
    assert compiled(text, tmp_path, command) == first and log.read_text().count("x") == 1
    assert compiled(text + " ", tmp_path, command) != first and log.read_text().count("x") == 2
