"""Passes over primitive Graphs, and the one list of them.

    pipeline  The list of passes over primitive Graphs, in the order in which they run
    core      What every Graph pass is made of, and the two simplest passes: dead code and common
              subexpressions
    fold      Constant folding: what depends on no input is computed while compiling
    loops     What a loop need not carry, compute or collect
    pairs     Complex numbers that a loop carries, and takes apart in each step, are carried as two
              arrays
    products  A product that is only read transposed is computed transposed: `(a @ b).T` is `b.T @
              a.T`, whose operands are read through their strides, so that no copy is left
    patterns  Patterns: plain functions of arrays, found in primitive Graphs, and rewritten by other such
              functions
    attention  Attention as one node: `softmax(scale * q k^T + bias) v`, however einsums, masks and
              dimensions of one spell it
    triangles  Masks made of positions alone: what they are on each side of a line, whatever their sizes
    kernels   Kernels that the program brings for patterns of several operations, and the pass that puts
              them in
    recompute  What a step keeps for later, and what it computes again: less memory where much would be kept for long
    cost      What a primitive Graph costs: operations and bytes, by Op, for known sizes or as expressions
              of the unknown ones
    simplify  Algebra that changes no bit: one row per Op name, a function of the node that gives what
              to use instead, or None
"""
