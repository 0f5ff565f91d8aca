"""The handlers of the bytecode instructions, by what they do.

    unguarded_inputs  Inputs that the captured code does not look at: they need no guard
    coroutines        Opcodes of coroutines: `await`, `async with`, `async for`, asynchronous generators
    build             Opcodes that make objects: containers and what unpacks them, text, functions
    flow              Opcodes that move control: jumps, loops, calls, returns
    exceptions        Opcodes of exceptions: `raise`, `except`, `finally`, `with`
    generators        Opcodes of generators: `yield`, `yield from`; intrinsics
    matching          Opcodes of `match` statements
    imports           Opcodes of import statements in functions
    groups            Exception groups: `except*`, and the methods of groups
    names             Opcodes that load, store and delete what has a name: constants, locals, cells and
                      globals
    stack             Opcodes that compute on the stack: attributes, operators, subscripts
"""
