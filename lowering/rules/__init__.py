"""How each primitive becomes loops, and what cannot.

    reader     The value of a graph node at one position, as a loop expression
    gather     How ops that read at computed positions map their result's positions to their
               operands'
    layout     How each op that only moves elements maps a position of its result to positions of its
               operands
    limits     Between which numbers a whole-numbered expression lies, and what that spares
    pairs      Complex arrays in loops: pairs of floats in memory, never a value
    pointwise  How each pointwise op becomes a scalar expression: one row each
    reduce     How each reduction becomes a fold: what is folded, over which extra loops, from which
               values
    scatter    How scatters become loops
    templates  How ops that want a hand-written kernel become TemplateSteps: one row of
               `TEMPLATE_RULES` each
    window     How windowed ops become loops: pooling, its sums, and the gradient of max-pooling
    support    What loops can compute, and why not when they cannot: the reasons that users read at a
               seam
"""
