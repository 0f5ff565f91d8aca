"""From a primitive Graph to fused Kernels in a Schedule with planned memory.

    items      What has to be computed: the realised nodes of a primitive Graph as Items
    buffers    Which nodes of a primitive Graph have buffers, and which buffer each value is in
    groups     Which Items share a kernel
    units      Units: the steps to be, as they grow while items, templates and nodes for XLA are
               added in graph order
    stages     Inside one kernel: which items share an inner loop, and where values live between
               loops
    merging    Neighbouring loops become one wherever no index expression tells them apart
    rewriting  The values of a Group over the loops of one kernel: the first two steps of emission
    emit       From a Group of items to a Kernel: loops, shared values, stores
    digits     Lanes that take their position apart become two loops, of which the inner one's lie side by side
    crossing   Rows too short for lanes of their own: the lanes go across the rows
    blocking   What is left to do with a row's folds is done for a block of rows at once, lane by lane
    hoisting   What a row's lanes compute alike for every row is computed once, into a row of scratch
    splitting  Big folds with few results, in two stages, so that all threads have work
    schedule   The Schedule: what a backend gets, one whole Graph as steps over planned buffers
    control    Loops and branches as steps that hold the Schedules of their bodies
    in_place   What a loop carries and changes in parts is changed where it is
    seams      What a Schedule leaves to XLA, operation by operation: for notices and `explain`
    memory     Where temporaries live, planned by their lifetimes: in the arena, or in outputs not yet
               written
    assembly   The last step to a Schedule: which buffers there are, where they live, what the caller
               gives and gets
    fusion     From a primitive Graph to a Schedule: what is computed where, in how many kernels
"""
