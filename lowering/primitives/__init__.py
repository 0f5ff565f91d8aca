"""The closed set of primitives, and how a captured Graph becomes one of them through JAX's own tracing.

    attention        Attention as an Op of ours: what the pass `fuse_attention` finds, and
                     `kernels/attention.h` computes
    own              Primitives beside JAX's: real ones, that JAX evaluates, differentiates, batches and
                     compiles, and Ops of ours
    ops              The closed set of primitives that a lowered Graph may call: one row each
    exact            Ops on constants, by NumPy where that gives the bits of eager JAX
    control          Control flow as Ops: `scan`, `while_loop` and `cond`, whose bodies are primitive
                     Graphs
    control_rules    How JAX's loops and branches become the Ops of `control`: one row each
    liveness         Which equations of a jaxpr its results depend on: JAX's tracing keeps what nobody uses
    translate        From a captured Graph to a primitive Graph: trace it through JAX,
                     translate the jaxpr
    translate_rules  How jaxpr equations that are not primitives of ours become ones that are:
                     three tables
    unfolding        Primitives that we do not know, of libraries and of programs, as what their
                     lowering computes
    complex_rules    Complex numbers as pairs of floats: what every primitive does to real and imaginary
                     parts
    complex_functions  Arithmetic and elementary functions of complex numbers, on pairs of real arrays
    product_rules    Products of matrices and convolutions of dtypes that no kernel multiplies, as
                     ones that a kernel does
    reduce_rules     Reductions by a function of the program's, windows of them, and running ones, as
                     simpler primitives
    special_rules    Special functions, approximate ones and solvers that stand for a composition of
                     simpler primitives
    messages         `debug.print` and `debug.callback` where eager JAX shows weak types
    placing          Programs that decide where their arrays live: on several devices, or on
                     another than the default one
    high_types       Values of types that the program defines itself, which are no arrays
    specialise       Puts known sizes into a primitive Graph: symbolic Avals, parameters and
                     extern jaxprs become static
"""
