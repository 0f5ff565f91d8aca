"""Why graphs break and frames run eagerly: one row per reason, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """`text` is the reason as a notice says it; `hint` is what the user can do."""

    text: str
    hint: str = ""


REASONS: dict[str, Reason] = {
    "argument": Reason("an argument that a graph cannot hold", "pass arrays, pytrees or plain Python values"),
    "attempts": Reason("the capture did not settle", "please report it with the function"),
    "attribute": Reason("an attribute whose lookup runs unknown code"),
    "body": Reason("a function that its transformation never called"),
    "branch": Reason("control flow on the content of an array", "jax.numpy.where or jax.lax.cond keep it in the graph"),
    "builtins": Reason("builtins that the compiler itself runs on are replaced, as by a test that mocks them"),
    "call": Reason("a call into code that cannot be captured"),
    "concrete": Reason("a JAX function that needs concrete values", "give it a fixed size, e.g. jnp.nonzero(size=...)"),
    "churn": Reason("captures whose results serve hardly a call", "make the objects that change once, outside"),
    "config": Reason("JAX is asked to check or run every operation by itself",
                     "jax_debug_nans, jax_debug_infs, jax_disable_jit, jax_no_execution, jax_check_tracer_leaks, "
                     "jax_debug_key_reuse and jax_transfer_guard do"),
    "dear": Reason("captures have taken longer than the program runs: Python runs what is new, until it has run longer",
                   "pass changing values as arrays, or raise recompile_limit"),
    "deleted": Reason("an array that was donated or deleted"),
    "depth": Reason("calls nested too deeply to inline"),
    "donation": Reason("a call that may delete what it is given, where that must happen in Python"),
    "died": Reason("an object that the entry's guards look at died while it was compiled", "keep it alive"),
    "effect": Reason("a side effect that must happen in Python", "move it out of the code that must be fast"),
    "effect_in_body": Reason("a side effect inside a transformed function", "return the value instead"),
    "frame": Reason("code that looks at its own frame", "pass the values that it needs"),
    "guards": Reason("more objects to guard than a compiled entry can hold", "pass less, or split the function"),
    "hash": Reason("a dict key or set element that is not a constant"),
    "host": Reason("called by a library that keeps the state of modules out of sight",
                   "compile the function that calls the module's init or apply"),
    "idle": Reason("a long computation in Python alone, on data that changes from call to call"),
    "identity": Reason("a question about object identity that guards cannot hold"),
    "import": Reason("an import that has not happened yet", "import it at the top of the module"),
    "internal": Reason("a defect in dynacomp", "please report it with the function"),
    "interrupt": Reason("a signal handler or a callback of the garbage collection, which may run anywhere"),
    "iterator": Reason("an iterator that cannot be looked into"),
    "leaves": Reason("an array's content is needed in Python"),
    "limit": Reason("too many recompilations", "pass changing values as arrays, or raise recompile_limit"),
    "live": Reason("an object that is alive at a later graph break, and that only Python can make"),
    "long_loop": Reason("a long Python loop: it runs in Python, its body compiled", "jax.lax.scan is faster still"),
    "heard": Reason("called under a trace of another library, which hears each of JAX's operations",
                    "compile the function that sets that trace"),
    "mesh": Reason("called while JAX maps its caller over a mesh, which gets plain JAX operations",
                   "put jax.jit around the mapped function"),
    "objects": Reason("more new objects than replacement code can build", "make fewer of them, or split the function"),
    "opaque": Reason("an object that cannot be looked into"),
    "opcode": Reason("a bytecode that is not captured"),
    "operator": Reason("an operator on objects that cannot be looked into"),
    "placement": Reason("where an intermediate array lives"),
    "raises": Reason("the program raises"),
    "restless": Reason("there was something to capture in call after call: Python runs what is new in most calls now",
                       "pass changing values as arrays, or raise recompile_limit"),
    "slower": Reason("compiled calls were measured slower than plain ones", 'options={"measure": False} insists'),
    "resume": Reason("a graph break at a place where the frame cannot be resumed"),
    "contents": Reason("a container whose content changes from call to call: Python reads it",
                       "a NumPy array of a fixed or symbolic size needs no break"),
    "growing": Reason("a long loop around an array that grows: it runs in Python, its body compiled for all sizes",
                      "store into one of full length, x.at[i].set(...), to keep it in the graph"),
    "rounds": Reason("a loop whose number of rounds changes: it runs in Python, its body compiled",
                     "jax.lax.fori_loop or scan keep it in the graph"),
    "scalar": Reason("arithmetic that may raise, on a changing Python number"),
    "scalar_branch": Reason("control flow on a changing Python number", "pass it as an array, or keep it fixed"),
    "scalar_constant": Reason("a changing Python value that the graph needs as a constant"),
    "size_constant": Reason("a size that changes, where only a constant serves",
                            "give it a fixed size, or pad to a few sizes"),
    "stance": Reason("a recompilation that the stance forbids"),
    "store": Reason("a store that cannot be replayed"),
    "too_long": Reason("a Python loop too long to unroll", "jax.lax.fori_loop or scan keep it in the graph"),
    "tracer": Reason("a question about a value that a JAX transformation may trace"),
    "user": Reason("dynacomp.graph_break()"),
    "with": Reason("a context manager that cannot be entered symbolically"),
}
