"""Numbers, strings and sizes that change from call to call, and what Python or NumPy makes of them in each call.

    size_values      Symbolic sizes as Python ints: arithmetic, and comparisons that become guards
    dynamic_scalars  Python numbers that change from call to call: arithmetic on them stays in Python
    scalar_ranges    Operations that raise for some numbers only, on Python numbers that change from call to call
    host_functions   Pure functions of numbers and strings that change from call to call: Python computes them in
                     each call
    applied          Calls of NumPy's whose arguments change from call to call
    asked_numbers    Numbers that change and that a library asks something, while capture traces it
    graph_inputs     Inputs of the Graph: placeholders for what exists before the call, each with its Source
    given_arrays     NumPy arrays that exist before the call: constants by their content, or data
    host_arrays      NumPy arrays made of numbers that change: NumPy computes them in each call, before the program
                     runs
    told_sizes       Sizes that objects of JAX tell, a jaxpr or what an array is like, and those objects at other sizes
    narrowing        Python ints that JAX converts to a narrower type: eager JAX raises OverflowError for those that
                     do not fit
    slices           Slices of arrays whose ends are ints that change: `x[:k]`, also below zero and beyond the array
"""
