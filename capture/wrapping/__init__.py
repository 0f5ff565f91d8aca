"""From real objects to Values: objects, classes, NumPy arrays, numbers and sizes that change.

    builder             From real objects to Values: what the frame finds outside itself,
                        with the guards it implies
    graph_inputs        Inputs of the Graph: placeholders for what exists before the call,
                        each with its Source
    constants           Values for objects that are born during the capture: constants, and
                        results of library calls
    builtin_subclasses  Payloads: the built-in part of instances of subclasses of list,
                        dict, tuple, set, int, str,
    class_prototypes    Specimens: real objects of the capture's own, for what the program's
                        classes are made of
    class_attrs         Attributes of classes: read along the MRO, guarded, stored and
                        deleted
    object_attrs        Attributes of instances of Python classes, as
                        `object.__getattribute__` finds them
    dynamic_scalars     Python numbers that change from call to call: arithmetic on them
                        stays in Python
    scalar_ranges       Operations that raise for some numbers only, on Python numbers that
                        change from call to call
    folding             Folding: what depends on constants alone is computed while capturing
    pytree_shells       Shells: real instances of user classes with Values in their
                        attributes
    ndarrays            NumPy arrays whose content is known while capturing: NumPy's own
                        functions run on them at once
    changing_contents   Containers whose content changes from call to call: the graph breaks
                        where they are read
    size_values         Symbolic sizes as Python ints: arithmetic, and comparisons that
                        become guards
    slices              Slices of arrays whose ends are ints that change: `x[:k]`, also below
                        zero and beyond the array
    narrowing           Python ints that JAX converts to a narrower type: eager JAX raises
                        OverflowError for those that do not fit
    applied             Calls of NumPy's whose arguments change from call to call
    host_arrays         NumPy arrays made of numbers that change: NumPy computes them in
                        each call, before the program runs
    host_functions      Pure functions of numbers and strings that change from call to call:
                        Python computes them in each call
    spelled_sizes       NumPy's whole numbers as sizes, where a call has to know them:
                        `jnp.zeros(np.prod(x.shape))`
"""
