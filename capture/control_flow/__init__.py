"""Branches and loops that arrays decide, as `cond`, `while_loop`, `fori_loop` and `scan` of the Graph.

    branches        `if` on an array as a `cond` node, instead of a graph break
    loops           `while` on an array, and `for` with a `break` that depends on one, as a `while_loop` node
    limited_loops   Loops on arrays in the functions of gradients, which derivatives go through backwards
    rolled_loops    Long loops of Python as one node: `fori_loop` for `range`, `while_loop` for `while`
    long_loops      Long Python loops are not unrolled: they become one node, or Python runs them
    growing_arrays  Loops around arrays that grow: Python runs them, and their body is compiled once for all sizes
    appended_rows   What the rounds of a loop append to lists, when the loop is one node
    numbers_behind  Python numbers behind a loop that is one node
    python_loops    Loops whose number of rounds changes from call to call: Python runs them, and their body is
                    compiled once
    iterations      One iteration of a loop, run symbolically with placeholders for what it carries
    loop_numbers    Python numbers of a loop's rounds that need all their bits: Python computes those of all rounds
                    before the loop runs
    loop_state      The state of a loop that becomes a node: what its iterations carry from one to the next
    rebuilt         Dicts and lists that each round of a loop makes anew
    merge           One Value for what different ways through the code have made of it
    raising         Conditions of which only one side can be captured: checks at the end of the Graph
    hoisting        What a gradient's function computes of values that Python can see, outside of it
    openings        Conditions on numbers and sizes that change, which the Graph is to decide in each call
    conditions      Jumps on arrays, and on numbers that the Graph computes: what each becomes
"""
