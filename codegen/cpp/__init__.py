"""The C++ backend: Kernels as vectorised loops, one translation unit for a Schedule.

    backend   The C++ backend: a Schedule becomes one translation unit, one native call
    columns   Work down long columns, in passes: lanes are columns, and each pass goes down rows that
              lie far apart
    cost      How much work a loop body is, in rough cycles: it decides the grain of threads and
              unrolling
    expr      Kernel expressions as C++: scalars outside a vector loop, lanes inside it
    folds     Reductions and running folds in C++: accumulators, one iteration's fold, lanes into a
              scalar
    index     SymPy index expressions as C++ `int64_t` expressions, and how they move along a vector
              loop
    jobs      How a translation unit is shared out among compilers that run side by side
    known     What is known where code stands, and the conditions that it decides
    loops     Kernel statements as C++: loops, threads, reductions, stores
    recall    A compiled Schedule as a record, and its Program out of one: nothing is planned, written
              or compiled again
    runs      Woven stores that do the same to neighbours in memory: no lane is shuffled
    scatter   Read-modify-write stores whose lanes never meet: the rows of a scatter, spread over
              threads and lanes
    sections  A vector loop cut where its conditions change their answers: padding, pieces that are
              joined, a grid that is rolled
    segments  Cuts a Schedule at its ExternSteps: native segments, each a Schedule of its own, with
              XLA between them
    shape     What a kernel's loops ask for: lanes per register, and scratch buffers
    steps     The steps of a Schedule as C++ statements: calls of kernels and templates, loops, branches
    stores    Stores in C++: contiguous lanes, scattered lanes, and read-modify-write lane after lane
    tiles     Tiles for loads that run across memory: a transposition goes through a small square in
              the L1 cache
    types     How dtypes, constants and folds are spelled in C++
    unit      One translation unit for a whole Schedule: its kernels, its templates, its entry points
"""
