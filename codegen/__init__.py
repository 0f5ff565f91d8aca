"""From a Schedule to a Program: the backends, the on-disk cache, the C++ compiler, and what launches compiled
code.

    cpp         The C++ backend: Kernels as vectorised loops, one translation unit for a Schedule
    triton      The Triton backend: Kernels as `@triton.jit` functions, compiled ahead of time, launched
                or interpreted
    backends    The one table of backends: what turns a lowered Graph into a Program
    cache       The on-disk cache of compiled code: content-addressed, owned by the user alone, verified
    choices     Branches of which one is XLA's: which is chosen is read at run time, and that one alone runs
    compiler    Finds a C++ compiler, makes sure that it works, and runs it
    dims        Sizes at run time: reading them off arguments, and evaluating SymPy expressions of them
    native_ops  C++ functions that the program brings: inside our translation units, and as custom calls of
                XLA
    prebuilt    What an installation compiles ahead: the templates that many programs call, the header of every
                unit, and which compiler works
    program     Programs: compiled code as a callable on jax Arrays
    records     What one process found out and another need not: records beside the compiled code
    scratch     Temporary folders that outlive their process as little as can be
    toolchain   The C++ compiler that an earlier process has found
    xla         The XLA backend: a whole primitive Graph as one `jax.jit` program
"""
