"""The symbolic machine, what it holds (Values, by their Sources) and what it finds out (guards, side effects).

    sources                 Sources: where a value came from, as a path from the frame
                            to the object
    guards                  Guards: what must hold of a Source for a compiled entry to
                            be used again
    kind                    Kinds of Values: one row for each class of Values says what the
                            objects do that it stands for
    values                  Values: what the symbolic machine's stack and variables hold
    questions               What many ask about Values, each asked at one place
    iterator_values         Values of iterators: generators, over sequences, counting, and over
                            other iterators (see `iteration`)
    grown_items             What a list holds that loops of the Graph have filled, as
                            data
    frame_values            Values of what the interpreter keeps of frames: traceback
                            entries, and what lies on the stack beside objects
    standing_values         Values that stand for something else: ids and keys for objects,
                            an object of the capture's own for one in C
    operations              What modules low in capture need of modules above them
    effects                 The log of side effects: what happens once the Graph has run,
                            phase by phase
    lessons                 What a capture is told: the lessons of the attempts before it,
                            and what earlier calls of the frame had
    state                   What one attempt to capture a frame accumulates, by what it is
                            about: the parts of a `Capture`
    machine                 The symbolic machine: a Capture (one attempt to capture a
                            frame) and its Frames
    undo_log                Changes to mutable Values that can be taken back
    side_effects            Changes to what existed before the call: noted while capturing,
                            replayed after the Graph
    libraries               Which callables are whose: the libraries that promise
                            purity, and everything else
    generators              Generators: `send`, `throw` and `close` on suspended
                            symbolic frames
    generator_finalization  Generators that are dropped before their end: CPython closes
                            them at once, and what waits in them runs
"""
