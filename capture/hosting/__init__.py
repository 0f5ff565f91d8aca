"""Code of the program's that a library runs while JAX traces it: heard, guarded, and put back what it changes.

    code_names       What the code of a function names: attributes, globals, types that it may ask for
    outward          What code does that is seen outside the program: shown, logged, written, asked of a clock or the
                     system
    outside          What code can change besides its arguments: watched while JAX traces it, and put back
    rebuilt          Copies of existing callables and objects with other content in some places, for those and for
                     library objects
    library_effects  What a library's call has changed besides making its result, noticed once it has run on tracers
    made_anew        Library callables that the program makes anew for each call: known by their structure, once one
                     was seen to be another object
    host_contexts    The contexts that a library runs the program's code in: thread-local objects of its modules,
                     which it reads whatever it is given
    hearing          Which of the program's functions start while a library runs, and what they may not do there
    library_reads    What the program's own code reads when a library runs it: guarded, for no bytecode of it was
                     captured
    hosted           The program's functions for a library that runs them in a context of its own, as Haiku does: real
                     functions, which no stand-in replaces
"""
