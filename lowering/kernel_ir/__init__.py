"""The Kernel IR: loops over arrays, its scalar functions, how it prints, reads back and verifies itself; what
will run it.

    loops     The Kernel IR: loops over arrays, the last thing before source code
    printer   How a Kernel prints, and how that text reads back
    verifier  Checks that a Kernel is well formed
    scalars   The scalar functions a Kernel may apply: one row each, with its NumPy reference
    machine   How much runs at once on what will run the kernels: what big folds are divided by
"""
