"""How a translation unit is shared out among compilers that run side by side.

What g++ takes for a kernel follows from how long its text is: 25 ms and 11 us for a character (68 kernels of four
models' steps, r^2 0.91; lines tell less), so that weights are in characters. Each kernel names its job under every
number of jobs, and the text is the same whatever that is:

    #if KERNEL_JOB(1, 0, 2, 3, 1, 4, 0) == DYNACOMP_JOB      // of two jobs the second's, of three the first's, ...

Job 0 holds the entry points as well, and the templates that the unit itself must hold, which take longer than many
kernels: the kernels are the other jobs' then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

MAX_JOBS = 8
KERNEL, ENTRY = 2300, 0.3  # characters that a kernel's being there is worth, and a character of the entry points
ENOUGH = 9000  # of a job: each reads the headers and is one more process, which takes as long as a third of that
TEMPLATE = 4 * ENOUGH


def jobs_for(kernels: int, characters: int, threads: int, own_templates: bool) -> int:
    """How many compilers to run for so many kernels in a text of so many characters."""
    weight = KERNEL * kernels + characters + TEMPLATE * own_templates
    return max(1, min(threads, int(weight / ENOUGH), MAX_JOBS, kernels + own_templates))


def macro() -> Iterator[str]:
    """The definition of KERNEL_JOB."""
    names = [f"of{n}" for n in range(2, MAX_JOBS + 1)]
    chosen = "".join(f"DYNACOMP_JOBS == {n} ? {name} : " for n, name in enumerate(names, 2))
    yield from ("#ifndef DYNACOMP_JOBS", "#define DYNACOMP_JOBS 1", "#define DYNACOMP_JOB 0", "#endif")
    yield f"#define KERNEL_JOB({', '.join(names)}) ({chosen}0)"


def shared_out(kernels: Mapping[int, int], entry: int, own_templates: bool) -> dict[int, str]:
    """The arguments of KERNEL_JOB for each kernel. kernels: how many characters each has; entry: the entry points."""
    columns = [_shared(kernels, entry, own_templates, jobs) for jobs in range(2, MAX_JOBS + 1)]
    return {key: ", ".join(str(column[key]) for column in columns) for key in kernels}


def _shared(kernels: Mapping[int, int], entry: int, own_templates: bool, jobs: int) -> dict[int, int]:
    """The job of each kernel: the longest first, each to whoever has least to do (R. L. Graham, "Bounds on
    Multiprocessing Timing Anomalies", 1969)."""
    loads = [(0.0, job) for job in range(1, jobs)]
    if not own_templates:
        loads.append((ENTRY * entry, 0))
    heapq.heapify(loads)
    found = {}
    for key, size in sorted(kernels.items(), key=lambda item: -item[1]):
        load, found[key] = loads[0]
        heapq.heapreplace(loads, (load + KERNEL + size, found[key]))
    return found
