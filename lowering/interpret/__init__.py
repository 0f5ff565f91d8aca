"""Interpreters of Kernels and Schedules in NumPy: the oracles of the backends.

    kernels    Runs a Kernel in NumPy: the oracle for everything that makes or compiles Kernels
    schedules  Runs a Schedule step by step: Kernels by their interpreter, templates by their
               references, XLA calls by the graph's own reference
"""
