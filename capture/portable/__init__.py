"""Cache entries for other processes: what an entry is made of as plain data, and the entry again.

    homes       Where a process keeps its modules: which files are libraries'
    instances   Objects of classes that Python code defines, taken apart and put together
    prints      Objects as digests that say whether another process has the same
    paths       The ways to objects without a name, from those that a guard reads
    references  Objects as data that another process finds again: by name, or by their place in a call
    graphs      Captured Graphs as such data, and the Graphs again
    record      The parts of an entry as such data, and the entry again

Whatever is not known to be the same in another process is no part of a record: `Unportable` is raised, and the entry
stays in this process.
"""
