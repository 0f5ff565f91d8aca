"""What operators do with Values: arithmetic, comparison, truth, identity, subscripts, by arrays and numbers first.

    pairs          What is decided by the kinds of two Values: who computes `a + b`, who says whether they are equal
    identity       Identity of Values: `a is b`, and what a guard must hold for the answer to be the same in the
                   next call
    indices        Indices: what C code makes of a Value where it wants an integer, by `__index__`
    later          What Python makes of what the Graph computes, once it has run: `np.asarray(x)`, `x.tolist()`,
                   texts
    graph_scalars  Python numbers that the Graph computes: loop counters, flags set in a branch, `float(loss)`
    arrays         Array Values: their attributes, methods, length, iteration
    moving_slices  Slices of arrays that move with a loop's counter and keep their width
    masked_updates  Updates of an array where a mask says so, by one number: `x.at[x < 0].set(0)`
    powers         Powers by one int: whether JAX can look at the exponent decides the type
    tree_structures  Structures of trees compared: functions beside the leaves
    trace_states   Is what JAX has said of a trace about the one that runs the frame?
    ufunc_overrides  NumPy's functions of elements on objects whose classes say what becomes of them
    numpy_operands  An operator of NumPy's array or number and an object on its right: who computes it
    unlike         What equals nothing of another kind: a number is never None, a text, a class or a tuple, whatever
                   number it is
    operators      Operators on Values: arithmetic, comparison, truth
    equality       Whether two objects are equal, as containers ask it of their elements
    ranges         Ranges with an end that is a size: their length, their items
    subscripts     Subscripts of Values: `obj[key]`, as the kind of `obj` has it
"""
