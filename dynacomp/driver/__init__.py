"""From a captured Graph to a Program, and what decides on the way.

    pass_list    The list of passes as a value, and which list holds now
    foreign      Backends that the program brings
    verifying    Graphs and kernels checked after each step
    recall       What another process found out about a primitive Graph is not found out again
    interpreted  A captured Graph run node by node by JAX
    placed       Graphs whose arrays live on several devices, or where the program itself puts them
    calling_back  Programs that call Python: where such a function raises, the call runs as plain Python
    history      What earlier captures of a code object saw, and what is symbolic therefore
    frame_places  Where in a frame that lies which a Source names: whether Python has just made it
    rounds       How often a compiled function is captured again: such calls become rare
    host_loops   Loops that compute nothing with arrays run to their end in Python
    classes_anew  Classes that each call makes anew: Python runs what asks for them
    timing       What is measured slower than plain Python goes back to it, for a while
    warm         What another process has captured is not captured again: entries on disk
    attempts     From a frame to a cache entry: attempts to capture it, until one compiles
    pipeline     Lowering, passes, schedule, backend, in that order
    rules        What derivative rules of the program's read and do, where a derivative is kept
    traced       The program of a Graph that is called where JAX transforms a caller
"""
