# Two commands from a fresh clone: `make demo`, `make test`. `make help` lists the others.
#
# Packages are byte-compiled when first imported, not when installed: half the time of `make env`.
# VENV is made with PYTHON (the first supported interpreter that .ci/pythons finds) and rebuilt when
# pyproject.toml or a C source changes. Bytecode is written even where the shell forbids it: without it
# each of the many processes that the tests start compiles JAX and the frameworks from their sources.

VENV ?= .venv
PYTHON ?=
TESTS ?= tests
JOBS ?= 2
PY := $(VENV)/bin/python
SOURCES := dynacomp capture lowering codegen kernels
unexport PYTHONDONTWRITEBYTECODE
NATIVE := $(shell find $(SOURCES) -name '*.c' -o \( -path '*_native*' -o -path '*_launch*' \) -name '*.h')
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.PHONY: help env demo test test-fast test-slow test-gpu test-all lint bench bench-changing bench-lengths bench-first clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

env: $(VENV)/.built $(VENV)/.prebuilt  ## make the environment and install the package into it

demo: env  ## run the examples under eager, jax and dynacomp, and print one table
	$(PY) examples/demo.py

test: env  ## every test but the slow ones and those that need a GPU
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not gpu" $(TESTS)

test-fast: env  ## the tests to run after each edit, under a minute
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not gpu and not medium" $(TESTS)

test-slow: env  ## the tests that take minutes
	$(PYTEST) -n $(JOBS) --dist worksteal -m slow $(TESTS)

test-gpu: env  ## the tests that need a GPU
	JAX_PLATFORMS= $(PYTEST) -m gpu $(TESTS)

test-all:  ## every test, under every supported interpreter found
	@status=0; while read -r version python; do \
	    echo "== Python $$version: $$python"; \
	    $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON=$$python </dev/null || status=1; \
	done < <(.ci/pythons); exit $$status

lint: env build/typed  ## ruff and mypy
	$(PY) -m ruff check .
	MYPYPATH=build/typed $(PY) -m mypy -p dynacomp

bench: env  ## fused regions and loops against eager JAX and jax.jit; what a call costs; derivatives from outside; whole models; a training step's memory; six tables
	$(PY) benchmarks/regions.py
	$(PY) benchmarks/regions.py --loops
	$(PY) benchmarks/guards.py
	$(PY) benchmarks/outside.py
	$(PY) benchmarks/models.py
	$(PY) benchmarks/training.py

bench-changing: env  ## functions whose sizes and numbers change, against plain Python: what fails; then bench-lengths
	@status=0; $(PY) benchmarks/changing.py || status=1; $(PY) benchmarks/lengths.py || status=1; exit $$status

bench-lengths: env  ## sixty-four lengths through a small GPT, against jax.jit and programs for one length
	$(PY) benchmarks/lengths.py

bench-first: env  ## what the first call costs, against jax.jit's, in fresh processes; a second process too
	$(PY) benchmarks/first.py --stages

clean:  ## remove what was built (not the environments)
	rm -rf build dist *.egg-info
	find $(SOURCES) -name '*.so' -delete
	rm -rf kernels/prebuilt

SHELL := bash

$(VENV)/.deps: pyproject.toml
	@python="$(PYTHON)"; [ -n "$$python" ] || python=$$(.ci/pythons first) || exit 1; \
	    [ -x $(PY) ] || "$$python" -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check "setuptools>=77" wheel
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-compile -e ".[dev]"
	@touch $@

$(VENV)/.built: $(VENV)/.deps $(NATIVE) $(wildcard setup.py)
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# The templates that many programs call, compiled for this machine; a program compiles what is not there.
$(VENV)/.prebuilt: $(VENV)/.built $(wildcard kernels/*.h) kernels/templates.py kernels/common.py codegen/compiler.py codegen/prebuilt.py
	$(PY) -m dynacomp.codegen.prebuilt
	@touch $@

# The five folders as the one package that they install as, for mypy, which reads no package-dir.
build/typed: FORCE
	@rm -rf $@ && mkdir -p $@/dynacomp
	@ln -s $(CURDIR)/dynacomp/*.py $(CURDIR)/dynacomp/*/ $@/dynacomp/
	@ln -s $(addprefix $(CURDIR)/,$(filter-out dynacomp,$(SOURCES))) $@/dynacomp/

FORCE:
