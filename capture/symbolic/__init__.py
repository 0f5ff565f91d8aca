"""The symbolic machine, and what it finds out: guards, side effects.

    guards                  Guards: what must hold of a Source for a compiled entry to
                            be used again
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
    twins                   One list, dict or struct found at two places: two Values, for as long as
                            nothing tells them apart
    escapes                 What code that existed before the call can read of what the
                            captured code changes
    libraries               Which callables are whose: the libraries that promise
                            purity, and everything else
    generators              Generators: `send`, `throw` and `close` on suspended
                            symbolic frames
    generator_finalization  Generators that are dropped before their end: CPython closes
                            them at once, and what waits in them runs
"""
