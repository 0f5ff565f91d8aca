"""From real objects to Values: what the frame finds outside itself, and what is born during the capture.

    builder             From real objects to Values: what the frame finds outside itself, with the guards it implies
    existing_tables     Dicts and sets that the code was given, and the keys in them, which may hash and compare in the
                        program's code
    immutability        What never changes: which objects known by their identity alone may be looked into while
                        capturing
    alike_objects       Objects of JAX that say the same: jaxprs, types of arrays, shardings, which a program makes anew
                        in each call
    alike_classes       Classes that a program makes anew in each call: known by what they say
    constants           Values for objects that are born during the capture: constants, and results of library calls
    builtin_subclasses  Payloads: the built-in part of instances of subclasses of list, dict, tuple, set, int, str,
    class_prototypes    Specimens: real objects of the capture's own, for what the program's classes are made of
    class_attrs         Attributes of classes: read along the MRO, guarded, stored and deleted
    object_attrs        Attributes of instances of Python classes, as `object.__getattribute__` finds them
    folding             Folding: what depends on constants alone is computed while capturing
    pytree_shells       Shells: real instances of user classes with Values in their attributes
    ndarrays            NumPy arrays whose content is known while capturing: NumPy's own functions run on them at
                        once
    seeded_generators   NumPy's generators of random numbers whose seeds, or the sizes that they are asked for, change
    changing_contents   Containers whose content changes from call to call: the graph breaks where they are read
    keyed_tables        Dicts with keys that change from call to call: their entries, as Values have them
    partial_tables      Dicts that the code was given, of which only what is asked for is guarded
    partial_sets        Sets of which not all is known: what was added to them and taken out
    given_lists         Lists that a call is given, of another length in each call: what their items have in common
    spelled_sizes       NumPy's whole numbers as sizes, where a call has to know them: `jnp.zeros(np.prod(x.shape))`
"""
