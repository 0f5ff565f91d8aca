"""From the captured Graph to a Schedule of loop kernels; in rooms, each of which imports only those listed before
it.

    sizes       Sizes and positions as SymPy expressions
    kernel_ir   The Kernel IR: loops over arrays, its scalar functions, how it prints, reads back
                and verifies itself, and what will run it
    primitives  The closed set of primitives, and how a captured Graph becomes one of them through
                JAX's own tracing
    autodiff    Derivatives and batches of a compiled region, made ahead of time from its jaxpr by
                JAX's own rules
    passes      Passes over primitive Graphs, and the one list of them
    rules       How each primitive becomes loops, and what cannot
    fuse        From a primitive Graph to fused Kernels in a Schedule with planned memory
    interpret   Interpreters of Kernels and Schedules in NumPy: the oracles of the backends
"""
