"""Kernels are shared out by their length, each to one job under every number of jobs."""

import pytest

from dynacomp.codegen.cpp.jobs import ENOUGH, ENTRY, KERNEL, MAX_JOBS, jobs_for, macro, shared_out

SIZES = {k: 900 + 4000 * (k % 7 == 3) + 37 * k for k in range(40)}


def loads(sizes, entry, own, jobs):
    """What each of so many jobs has to do."""
    found = [0.0 if own else ENTRY * entry, *[0.0] * (jobs - 1)]
    for key, text in shared_out(sizes, entry, own).items():
        found[int(text.split(", ")[jobs - 2])] += KERNEL + sizes[key]
    return found


@pytest.mark.parametrize("jobs", range(2, MAX_JOBS + 1))
def test_each_has_about_as_much_to_do(jobs):
    found = loads(SIZES, 8000, False, jobs)
    assert max(found) - min(found) <= KERNEL + max(SIZES.values()) and max(found) < 1.1 * sum(found) / jobs


def test_long_entry_points_are_work_too():
    found = shared_out({0: 1000, 1: 1000, 2: 1000}, 100_000, False)
    assert {text.split(", ")[0] for text in found.values()} == {"1"}


def test_own_templates_are_the_first_jobs():
    assert loads(SIZES, 8000, True, 3)[0] == 0 and loads(SIZES, 8000, True, 2)[1] > 0


def test_there_are_no_more_than_pay():
    assert jobs_for(1, 3000, 8, False) == 1
    assert jobs_for(8, 3 * ENOUGH, 8, False) == 5 and jobs_for(8, 3 * ENOUGH, 2, False) == 2
    assert jobs_for(2, 30 * ENOUGH, 8, False) == 2, "no more than kernels"
    assert jobs_for(400, 100 * ENOUGH, 64, False) == MAX_JOBS
    assert jobs_for(0, 500, 8, True) == 1, "a template alone"


def test_the_macro_takes_the_place_of_the_number_of_jobs():
    text = [*macro()][-1]
    assert text.startswith("#define KERNEL_JOB(of2, of3,") and "DYNACOMP_JOBS == 3 ? of3 :" in text
