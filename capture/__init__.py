"""What happens to a Python frame until it is a Graph, guards and new bytecode; in rooms, each of which imports
only those listed before it.

    base          What everything else leans on: how symbolic execution leaves its path,
                  interrupts, tables by identity
    graph         The Graph that capture makes and every later stage reads, and the sizes in it
    bytecode      Code objects as data: read, followed, cut into resume functions and the segments
                  of generators
    values        What the symbolic machine holds: Values, one class for each kind of Python object,
                  and the Sources of those that were there before
    symbolic      The symbolic machine, and what it finds out (guards, side effects)
    numbers       Numbers, strings and sizes that change from call to call, and what Python or NumPy
                  makes of them
    wrapping      From real objects to Values: objects, classes, NumPy arrays
    bodies        Bodies, the user's functions that JAX calls, captured as graphs; trees, and tracers
                  that hide
    hosting       Code of the program's that a library runs while JAX traces it: heard, guarded, and
                  put back what it changes
    tracing       Calls of JAX and of pure libraries as nodes of the Graph: their arguments,
                  results and effects
    reconstruct   From Values back to real objects: the replacement bytecode, its helpers at run
                  time, graph breaks
    arithmetic    What operators do with Values: arithmetic, comparison, truth, identity, subscripts
    rows          Lists of another length in each call, as rows of arrays
    kinds         What each kind of Value does: attributes, containers, iteration, exceptions, texts
    control_flow  Branches and loops that arrays decide, as `cond`, `while_loop`, `fori_loop` and
                  `scan` of the Graph
    calls         What happens when a Value is called: functions, classes, methods, rules that
                  users give
    builtins      Rows of the table of callees: Python's built-in functions, the standard library,
                  JAX's trees and state
    opcodes       The handlers of the bytecode instructions, by what they do
    frame         Capturing a frame: from a function and its arguments to a Graph, guards, and
                  what runs in place of the frame
    entries       Cache entries: what the C side checks and runs, made of what was captured and of
                  the compiled Graph
    portable      Entries as data that another process reads, and the same entries again where all is
                  as it was
    suspended     Generators, coroutines and async generators in place of which a driver runs:
                  which functions run their segments
    stretched     Frames that run in Python, unguarded, up to where compiled code goes on
"""
