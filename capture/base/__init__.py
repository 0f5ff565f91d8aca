"""What everything else leans on: how symbolic execution leaves its path, interrupts, tables by identity.

    errors          The ways in which symbolic execution leaves its straight path
    interrupts      Exceptions that the program's signal handlers raise while ours runs
    key_order       Dicts whose keys are names, attributes among them, and whether something has asked in which
                    order they stand
    carriers        Carriers: arrays without elements, whose shapes tell a compiled program the
                    sizes that no array of it has
    identity_table  A table whose keys are objects by identity, held weakly where Python can
    marks           What is remembered of an object from one call to the next, without keeping it
    remembered      `remembered`: what is computed of a class or a function once, for as long as
                    that lives
    locks           A lock for small tables that threads share, which neither a fork nor a
                    finalizer turns into a trap
    classes         What is read of a class, and of an instance, without running code of the program
    hashes          What rests on hashes, of which another process has others
    literals        Objects that are their value: Python's literals, and tuples and frozensets
                    of them
    rows            Rows of tables, functions `row(cap, *args, **kwargs)`: which calls they have parameters for
    of_class        `of_class`: the things of one class among others
    inside_tracers  What tracers of derivatives have inside, which Python may look at
    numpy_errors    NumPy's floating-point errors raise, or are ignored, while ours computes
    itertools_py    Lazy iterators of `itertools` as Python generators, which the machine enters like any other
    loops_py        `sum`, `list`, `reduce` and `jax.tree.map` of many items, as loops in Python, likewise
    groups_py       Exception groups as Python: what `except*` and the methods of groups do, likewise
    namespaces_py   `types.SimpleNamespace` as Python, in place of its methods in C
    collector       Python's garbage collector, while the symbolic machine runs
"""
