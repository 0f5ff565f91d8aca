"""The Triton backend: Kernels as `@triton.jit` functions, compiled ahead of time, launched or interpreted.

    aot        Launches ahead of time: Triton source to a GPU's machine code, with no GPU at hand
    backend    The Triton backend: the same Kernels as GPU code
    call       What one launch needs to run: a `Call`, made from a Launch or a matmul, for whoever
               runs it
    emit       Writes one launch: the statements of the Kernel IR as lines of a `@triton.jit`
               function
    expr       Expressions of the Kernel IR as Triton text, with the axes that each value has
    gpu        Triton Programs on a GPU: all kernels of a Schedule inside one jitted XLA executable
    host       Triton Programs without a GPU: every kernel in Triton's interpreter, on NumPy buffers
    index      SymPy index expressions as Triton text
    interpret  Triton's interpreter as a way to run launches without a GPU: in this process, on NumPy
               buffers
    launch     What runs on the GPU one after the other: a Kernel's top level cut into launches
    lib        Device functions that generated Triton kernels call: what Triton's language has no one
               word for
    modules    Generated Triton source as Python functions, to compile or to interpret
    scalars    How Triton spells each scalar function: one row for each row of
               `dynacomp.lowering.kernel_ir.scalars`
    seam       Templates that Triton leaves to XLA: each row of `SEAMS` is the template in JAX, on
               flat buffers
    source     Kernels as Triton source: one Kernel becomes one or more launches, each a
               `@triton.jit` function
    steps      A Schedule step by step, for engines that run Triton Calls: the walk that host and GPU
               share
"""
