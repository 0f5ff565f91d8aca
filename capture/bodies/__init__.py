"""Bodies, the user's functions that JAX calls: captured as graphs, with the trees and tracers that go in and out.

    hidden_tracers    Arrays where JAX does not look for leaves: in bound methods, closures and partials that an
                      object keeps
    body_variants     Ways: a body that JAX calls more than once, with arguments of different kinds
    trees             Trees put together of a structure and Values, as `jax.tree.unflatten` does
    lossy_trees       Objects that are more than their trees
    treedef_contents  What the structure of a tree says beside its leaves: keys, classes, and what classes keep out
                      of sight
    function_signatures  What `inspect` says of a function that the machine holds
    kept_traces       What JAX keeps of the functions that it has traced: the first trace counts
    subgraphs         Bodies: user functions that a JAX transformation calls, captured as subgraphs
    placement         Where arrays that do not exist yet will live, and which of them eager JAX has as tracers
"""
