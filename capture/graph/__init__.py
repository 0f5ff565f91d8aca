"""The Graph that capture makes and every later stage reads, and the sizes in it.

    avals            What is known of an array before it exists: shape, dtype and weak type
    graph            The Graph: a straight line of Nodes, FX-like, at both levels of the compiler
    printer          How a Graph prints: as readable Python, one node a line, its Aval in a comment
    parser           Reads a printed Graph back: `parse(str(graph), references(graph), graph.consts)`
                     is that graph
    verifier         Is a Graph well formed? Run between passes, it finds the pass that broke something
    interpreter      Runs a Graph node by node: the oracle for every pass, and how JAX traces a Graph
    answering        Numbers of Python's that a library asks something while JAX traces it
    known_traces     What JAX has made of a call when it was captured, bound in its place where the
                     Graph is traced
    graph_sizes      The sizes in a Graph: its symbols, and the Graph with other sizes in their place
    sizes            Sizes: expressions of symbolic ints
    size_evaluation  Their values: in Python, and as the postfix program that guards run
    size_scope       Scopes: what is known of the sizes of one capture, and what was decided by their
                     values in the call at hand
    size_lookups     Where code that JAX traces looks a size up
    size_orders      How a Size compares with what is neither a Size nor an int
    descriptions     What says how an array is, and is none: whether a size in one changes
    sized_calls      Functions of JAX that ask for Python ints where the program may have symbolic sizes,
                     written with arrays instead
    sized_parts      Functions of JAX that repeat an array, or divide it, as often as sizes say
    silence          Warnings that JAX gives while ours has it trace: nobody is to see them, or compiled code gives them
    known_powers     Powers by one int that Python could look at, as arrays
"""
