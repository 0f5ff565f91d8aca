"""Rows of the table of callees: Python's built-in functions, the standard library, JAX's trees and state.

    class_statements  Class statements, and `type(name, bases, namespace)`: the body runs on
                      the symbolic machine, and a specimen is made
    special_classes   `class P(NamedTuple)`, `class Row(TypedDict)`, calls of `namedtuple`
    enum_classes      `class Color(Enum)`
    identities        `id(x)`: an integer that only the run can know, used as a key
    polyfills         C functions of the standard library by their twins in Python, which the
                      machine enters
    arithmetic_rows   `abs`, `pow`, `divmod`, `round` and the functions of `operator` and
                      `math`, as rows of the table of callees
    array_rows        Functions of JAX that need more said, or something else in their place,
                      where sizes are symbolic: rows of callees
    builtin_rows      Python's built-in functions and types, as rows of the table of callees
    context_variables  `ContextVar`: read by guards, set once the Graph has run
    cached_rows       Calls of `functools.lru_cache` and `functools.cache`: what the cache has
                      is read from it, by guards too
    dataclass_rows    `@dataclass` on a class that the captured code makes
    frame_rows        Rows for functions that look into the frame that calls them: its local
                      variables, the frame object
    instance_rows     `isinstance` and `issubclass`: of arrays that do not exist yet, and by
                      checks that metaclasses write in Python
    iteration_rows    Iterators and what consumes them, as rows of the table of callees:
                      `iter`, `zip`, `sum`, `itertools`
    jax_rows          What JAX offers besides computing: `jax.debug.print`, said once the Graph
                      has run, and questions about its own state
    manager_rows      Context managers that exist, entered or left by calls of their methods: JAX's
                      settings, locks
    optree_rows       `optree`, whose trees are taken apart by C++
    stdlib_rows       Rows for the standard library: what is written in C, or in Python that
                      the machine cannot enter
    tree_rows         `jax.tree.*` as rows of the table of callees
    warning_rows      Warnings: given as Python's C code gives them, by the filters as the
                      captured code has them
"""
