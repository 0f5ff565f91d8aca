"""Calls of JAX and of pure libraries as nodes of the Graph: their arguments, results and effects.

    trace_call           Calls that become nodes of the Graph: JAX, and the libraries that promise purity
    abstract_evaluation  What a call of a library returns, and does, found by running it on tracers
    traces               The jaxpr of a function of arrays, of such a call, and what the next attempt has where that
                         fails
    settled              What a call has to look at, and the Graph computes of constants alone
    alike_calls          Calls that are alike give results that are alike: evaluated once
    donors               Calls of jitted functions that delete what they are given: where they do
    onlookers            Who sees what a call of a library is given: JAX alone, or others, which may ask for more
    lowered_args         Values as node arguments: what stands in a Graph's node, or becomes so under a trace
    lowered_parts        What lowered arguments hold, and the call with the sizes at hand
    settings             JAX's settings that hold inside a `with` statement: asked and traced under them
    passthrough          What a library's call gives back as it went in: Python numbers, and arrays
    given_numpys         NumPy arrays that a library's call is given: its Python deals with them as NumPy does
    handed_on            Which arguments of a call or a jaxpr are results of it, as they are: eager JAX gives back the
                         very array there
    endless_loops        Loops of a library call that may never end, for arrays that a check would have refused
    failures             What becomes of a library call that fails on tracers: eager JAX's own exception, or it is
                         entered
    library_objects      Library callables that hold user functions: `jax.value_and_grad(loss)`,
                         `jax.custom_vjp(f)`,
    plain_numbers        Calls of `jax.custom_jvp(f)` that are given no array: `f` alone runs
    equinox_modules      Equinox's modules: what their metaclass does when one is made, and when it may be changed
"""
