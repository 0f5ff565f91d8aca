"""Code objects as data: read, followed, cut into resume functions and the segments of generators.

    code                A code object as the symbolic machine reads it: instructions, jumps,
                        exception table
    control_flow_graph  The ways through a code object: successors, meeting places, loops,
                        live names
    stack_effects       How many values each instruction takes off the stack or looks at,
                        and which ones no graph breaks at
    line_tables         Code objects made of instructions, with the table of lines and columns that
                        each stands for
    resume              Resume functions: the rest of a frame after a graph break, as a code
                        object of its own
    stretches           Code that runs as it is, in Python, up to the places where compiled
                        code is to go on
    supers              `super()` without arguments, in code that runs in another frame than
                        its own
    genexprs            Generator expressions as functions of one item
    assignments         Functions that do nothing but store arguments in the first one: the
                        `__init__` of dataclasses
    own_stores          Methods that store into the object whose they are
    handing_on          Classes whose code only hands on what their objects hold, when JAX takes
                        these apart
    suspensions         Where a generator, coroutine or async generator suspends, and what
                        its frame holds there
    loop_exits          Where the loops are left that a resume function goes on in: the resume
                        functions for there
    segments            Generators cut into plain functions: a *flat* code object, and the
                        segments that enter it
    drivers             Drivers: the generators, coroutines and async generators that run
                        the segments of a captured one
    generator_plan      How the generators of one function run: the segments that their
                        drivers share, and driving from outside
"""
