"""What the symbolic machine's stack and variables hold: Values, one class for each kind of Python object.

    sources      Sources: where a value came from, as a path from the frame to the object
    kind         Kinds of Values: one row for each class of Values says what the objects do that it
                 stands for
    value        A Value, and what each is asked: the object that it stands for, its type, what it
                 holds
    constant     Constants: Values whose very object is known
    computed     Values that another call may have otherwise: arrays, sizes and numbers, and what
                 libraries make of arrays
    containers   Values of containers: tuples, lists, dicts, sets, the views of dicts, slices and
                 ranges
    objects      Values of instances, by their attributes; of closure cells; of what may not be
                 looked into
    callables    Values of functions that the captured code makes, and of what is bound to
                 something: methods, `super()`, partials
    questions    What many ask about Values, each asked at one place
    iterators    Values of iterators: generators, over sequences, counting, and over other iterators
                 (see `iteration`)
    grown_items  What a list holds that loops of the Graph have filled, as data
    frames       Values of what the interpreter keeps of frames: traceback entries, and what lies on
                 the stack beside objects
    standing     Values that stand for something else: ids and keys for objects, an object of the
                 capture's own for one in C
"""
