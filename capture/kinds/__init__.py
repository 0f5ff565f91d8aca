"""What each kind of Value does: attributes, operators, containers, iteration, exceptions.

    attrs               Attributes: `getattr` on Values, by Python's own rules
    stores              `setattr` and `delattr` on Values, by Python's own rules:
                        descriptors first, then the instance's own entry
    arrays              Array Values: their attributes, methods, length, iteration
    grown_lists         New lists that loops of the Graph fill: what each round appends is a
                        row of arrays, one for all rounds
    identity            Identity of Values: `a is b`, and what a guard must hold for the
                        answer to be the same in the next call
    operators           Operators on Values: arithmetic, comparison, truth, subscripts
    graph_scalars       Python numbers that the Graph computes: loop counters, flags set in
                        a branch, `float(loss)`
    indices             Indices: what C code makes of a Value where it wants an integer, by
                        `__index__`
    later               What Python makes of what the Graph computes, once it has run:
                        `np.asarray(x)`, `x.tolist()`, texts
    text                `str`, `repr`, `format` and `ascii` of Values
    keys                Keys: what Values are as dict keys and set elements, and where dicts
                        get their entries from
    containers          Containers in general: item assignment and deletion, `in`, and calls
                        of their methods by name
    sequences           Lists and tuples: subscripts, operators and methods on their Values
    dicts_and_sets      Dicts, their views, and sets: subscripts, operators and methods on
                        their Values
    deques              Deques: they are ListVs with class `deque`, and `extra` is their
                        `maxlen`
    iteration           Iteration: `iter`, `next` and whole loops over Values
    existing_iterators  Iterators that the code was given: list iterators, ranges,
                        enumerates and the like that somebody else has made
    exceptions          Exceptions as Values: what they hold, how they are chained, what
                        they say
    suspended_values    Generators that stand still, as Values and back: what the driver of
                        one keeps is what a symbolic frame holds
    emit_iterators      Iterators that are alive where captured code ends, rebuilt where
                        they stand
"""
