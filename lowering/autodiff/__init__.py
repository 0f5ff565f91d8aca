"""Derivatives and batches of a compiled region, made ahead of time from its jaxpr by JAX's own rules.

    cut          What a backward pass is given: the cheapest values from which cheap operations make
                 all its residuals
    derive       From a jaxpr to the jaxprs of its derivative, transpose and batch
    known_sizes  A jaxpr of unknown sizes, at known ones
    region       A compiled region as a primitive of JAX, each of whose rules is again such a region
"""
