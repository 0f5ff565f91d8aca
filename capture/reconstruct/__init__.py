"""From Values back to real objects: the replacement bytecode, its helpers at run time, graph breaks.

    runtime         Small helpers that replacement code calls to find and make objects at run time
    upcoming        Built-in iterators that somebody else has made, at run time: what they will
                    give, and taking it (see existing_iterators)
    emit            Values back to real objects, as bytecode: the code that runs around a compiled
                    Graph
    emit_classes    Objects of the capture's own back to real ones, as bytecode: rows of
                    `emit.MADE`, see `class_prototypes`
    emit_objects    Instances of Python classes back to real objects, as bytecode: rows of
                    `Kind.emit`
    emit_sources    Sources as bytecode: instructions that find an object which existed before the
                    call
    structures      Structures of trees that leave the capture: each call puts its own objects in
    nameless        Graphs of trees without the classes that the captured code makes: tuples stand
                    there
    array_identity  Which object an array is that the Graph chose: an input, or a new one
    readers         Python's numbers out of arrays without dimensions, at run time: what reads each kind
                    fastest
    checks          Conditions that a Graph computes and Python trusts: what replacement code does when
                    one does not hold
    output          The end of a capture: its Graph, and what runs in place of the frame
    graph_break     Graph breaks: the end of a replacement code object that stops in the middle of
                    its frame
    unnoticed       Locals that nothing reads any more at a graph break: whether they must live on
    unchanged       What a call leaves as it was, though the program stored into it
    counted_numbers  Numbers that a call changes where it finds them are inputs from the first call on
    unknown_traces  What a frame asks about the trace that runs it, where JAX's transformations run
                    its caller
    tracebacks      Tracebacks of exceptions that were raised and caught inside captured code
"""
