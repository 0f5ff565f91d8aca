"""Derivatives and batches of a compiled region, made ahead of time from its jaxpr by JAX's own rules.

    derive  From a jaxpr to the jaxprs of its derivative, transpose and batch
    region  A compiled region as a primitive of JAX, each of whose rules is again such a region
"""
