"""What each kind of Value does: attributes, containers, iteration, exceptions, texts.

    attrs               Attributes: `getattr` on Values, by Python's own rules
    stores              `setattr` and `delattr` on Values, by Python's own rules: descriptors first, then the
                        instance's own entry
    given_items         Items of the dicts, lists and tuples that a call is given, under a key that changes from
                        call to call
    text                `str`, `repr`, `format` and `ascii` of Values
    keys                Keys: what Values are as dict keys and set elements, and where dicts get their entries from
    membership          `x in container` of numbers and texts that change, or of a set that has others in each call
    changing_keys       Keys that change from call to call, in dicts
    changing_members    Elements that change from call to call, in sets
    containers          Containers in general: item assignment and deletion, `in`, and calls of their methods by
                        name
    sequences           Lists and tuples: subscripts, operators and methods on their Values
    dicts_and_sets      Dicts, their views, and sets: subscripts, operators and methods on their Values
    deques              Deques: they are ListVs with class `deque`, and `extra` is their `maxlen`
    iteration           Iteration: `iter`, `next` and whole loops over Values
    any_order           Going through all attributes of an object in an order that does not matter
    whole_loops         Functions that go through all items of something, as loops where that is a symbolic number
                        of items
    generator_loops     Loops over generators of the program that are loops themselves: `for batch in batches(x, 32)`
    existing_iterators  Iterators that the code was given: list iterators, ranges, enumerates and the like that
                        somebody else has made
    exceptions          Exceptions as Values: what they hold, how they are chained, what they say
    suspended_values    Generators that stand still, as Values and back: what the driver of one keeps is what a
                        symbolic frame holds
    emit_iterators      Iterators that are alive where captured code ends, rebuilt where they stand
"""
