"""What happens when a Value is called: functions, classes, methods, rules that users give.

    calls            Calls: what happens when a Value is called
    signatures       Arguments to parameters: how a call of a Python function fills its frame
    jitted           What a call of `jax.jit(f)` does beside calling `f`
    tree_order       Which trees look otherwise once JAX has taken them apart and put them together
    donations        What a jitted function does to the arrays that it is given: it deletes them
    entering         How a library function is entered that no changing size can pass
    instances        Making objects: classes called by the captured code, and `object`'s own
                     methods
    class_checks     Checks that metaclasses write in Python, `__instancecheck__`: answered
                     once for all objects of a class
    payload_methods  What instances of subclasses of built-in classes inherit: methods,
                     attributes, `__new__`, `__init__`
    c_objects        Objects of classes in C that the captured code makes of constants:
                     generators of random numbers, byte arrays, text streams, locks
    prints           `print`: to a stream of the captured code's own, or once the Graph has run
    user_rules       Rules that users give for callees: one node, a constant, or another
                     function in its place
    sys_modules      `sys.modules`: a dict to which every import adds
    dm_tree          `tree` (dm-tree): its functions in C++ as Python, which the machine enters
    weak_references  `weakref.ref(obj)` of objects that the captured code can reach
    callbacks        `jax.pure_callback`: a call of Python that stays in the Graph
    registered_classes  Classes that the captured code makes and registers with JAX as trees
    cache_layout     Where CPython keeps what `functools.lru_cache` has
    made_caches      `functools.cache` and `lru_cache` on a function that the captured code makes
    copies           `copy.copy` and `copy.deepcopy` of Values
"""
