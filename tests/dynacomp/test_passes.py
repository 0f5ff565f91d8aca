"""dynacomp.passes, as somebody outside uses it: nothing but the public names."""

import logging
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import passes

X = jnp.linspace(-2.0, 2.0, 12).reshape(3, 4)


def swish(x):
    return x * jax.nn.sigmoid(x)


def program(x):
    return swish(x) + 1


RELU = passes.default().insert(passes.rewriter(swish, jax.nn.relu), before="dead_code")
RELUED = np.maximum(X, 0) + 1


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def region(fn, *args, **how):
    (found,) = dynacomp.explain(fn, **how)(*args).regions
    return found


# --- the list


def test_the_list_is_a_value():
    listed = passes.default()
    assert RELU.names[:-1] == (*listed.names[:-1], "rewrite_swish") and RELU.remove("rewrite_swish") == listed
    assert listed.insert(swish, after="simplify").names.index("swish") == listed.names.index("simplify") + 1
    assert listed.replace("simplify", swish).names == listed.names
    assert {listed: 1}[RELU.remove("rewrite_swish")] and "primitive simplify" in str(listed)
    assert [p.name for p in listed.insert(swish, level="kernels").at("kernels")] == ["swish"]


@pytest.mark.parametrize("change, text", [
    (lambda p: p.remove("simplifi"), "did you mean 'simplify'"),
    (lambda p: p.insert(lambda g: g), "needs a name"),
    (lambda p: p.insert(swish, name="simplify"), "already"),
    (lambda p: p.insert(swish, level="machine"), "none of captured, primitive, kernels"),
    (lambda p: p.insert(swish, level="kernels", before="simplify"), "not the kernels one"),
    (lambda p: p.insert(swish, before="simplify", after="simplify"), "not both"),
])
def test_what_makes_no_list_is_refused(change, text):
    with pytest.raises(ValueError, match=text):
        change(passes.default())


def test_the_option_is_checked():
    with pytest.raises(ValueError, match=r"dynacomp\.passes\.Passes"):
        dynacomp.jit(program, options={"passes": [swish]})
    with pytest.raises(TypeError, match=r"passes\.default"):
        passes.set_passes([swish])


# --- in force


def test_for_one_function():
    compiled, plain = dynacomp.jit(program, options={"passes": RELU}), dynacomp.jit(program)
    for x in (X, X * 2, X):
        np.testing.assert_allclose(compiled(x), np.maximum(x, 0) + 1, rtol=1e-6)
        np.testing.assert_allclose(plain(x), program(x), rtol=1e-6)
    assert dynacomp.stats()["graphs"] == 2 and dynacomp.stats()["externs"] == {}
    assert "logistic" not in str(region(program, X, options={"passes": RELU}).lowered)


def test_for_all_and_back_again():
    compiled = dynacomp.jit(program)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), program(X), rtol=1e-6)
        with passes.using(RELU):
            assert passes.current() is RELU
            np.testing.assert_allclose(compiled(X), RELUED, rtol=1e-6)
    assert passes.current() == passes.default()
    before = passes.set_passes(RELU)
    try:
        np.testing.assert_allclose(compiled(X), RELUED, rtol=1e-6)
    finally:
        assert passes.set_passes(before) is RELU


def test_it_holds_below_graph_breaks_and_with_new_sizes(capsys):
    def broken(x):
        y = swish(x)
        print("here")
        return y + 1

    compiled = dynacomp.jit(broken, options={"passes": RELU})
    for n in (3, 4, 5, 6):
        np.testing.assert_allclose(compiled(jnp.ones((n, 4)) * -1), np.ones((n, 4)), rtol=1e-6)
    assert capsys.readouterr().out == "here\n" * 4


def test_gradients_go_through_passes():
    grad = dynacomp.jit(lambda x: jax.grad(lambda x: program(x).sum())(x), options={"passes": RELU})
    np.testing.assert_allclose(grad(X), jax.grad(lambda x: program(x).sum())(X), rtol=1e-5)  # no such place in it


@pytest.mark.parametrize("level", ["captured", "primitive", "kernels"])
def test_a_pass_of_each_level_sees_its_form_once(level):
    seen = []

    def look(form):
        seen.append(form)
        return form

    compiled = dynacomp.jit(program, options={"passes": passes.default().insert(look, level=level)})
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), program(X), rtol=1e-6)
    assert [type(s) for s in seen] == [passes.Schedule if level == "kernels" else passes.Graph]
    passes.verify(seen[0])
    np.testing.assert_allclose(passes.interpret(seen[0], X)[0], program(X), rtol=1e-6)


def test_a_captured_pass_swaps_what_the_program_called():
    def tanh(graph):
        swapped = {}
        for n in graph.nodes:
            name = getattr(n.target, "__name__", "")
            args = tuple(swapped.get(a, a) for a in n.args) if n.op != "output" else (
                tuple(swapped[o] for o in n.args[0]),)
            swapped[n] = replace(n, args=args, target=jnp.tanh if name == "sigmoid" else n.target)
        return replace(graph, nodes=tuple(swapped.values()))

    for backend in ("auto", "xla", "eager"):
        compiled = dynacomp.jit(program, backend=backend,
                                options={"passes": passes.default().insert(tanh, level="captured")})
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), X * jnp.tanh(X) + 1, rtol=1e-6)


def test_a_rule_is_given_each_call_with_its_keywords():
    """`rebuild` at the captured level: a computed keyword is the rewritten one, and the output may be any pytree."""
    def doubled(node, builder):
        if node.target is jnp.tanh:
            again = builder.append(replace(node, name=builder.fresh("once")))
            return builder.call(jnp.add, (again, again), {}, node.aval)

    def clipped(x):
        return {"low": jnp.clip(x, min=jnp.tanh(x.min())), "const": (3, None), "high": jnp.tanh(x)}

    listed = passes.default().insert(lambda graph: passes.rebuild(graph, doubled), name="twice", level="captured")
    compiled = dynacomp.jit(clipped, options={"passes": listed})
    for n in (4, 5, 6, 4):
        x = jnp.linspace(-2, 2, n)
        got = compiled(x)
        assert got["const"] == (3, None)
        np.testing.assert_allclose(got["low"], jnp.clip(x, min=2 * jnp.tanh(x.min())), rtol=1e-6)
        np.testing.assert_allclose(got["high"], 2 * jnp.tanh(x), rtol=1e-6)
    assert dynacomp.stats()["graphs"] == 2 and not dynacomp.stats()["breaks"]


def test_a_rule_over_primitives_sees_what_a_gradient_computes():
    def exact(node, builder):
        seen.append(node.target.name)
        if node.target.name == "tanh":
            (argument,) = node.args
            return builder.append(replace(node, name=builder.fresh("tanh"), args=(argument,)))

    seen, graph = [], passes.lower(jax.grad(lambda x: jnp.tanh(x).sum()), X)
    made = passes.rebuild(graph, exact)
    assert seen == [n.target.name for n in graph.calls] and passes.diff(graph, made) == ""
    (tanh,) = [n for n in made.calls if n.target.name == "tanh"]
    assert all(tanh in passes.nodes_in(u.args) for u in passes.users_of(made)[tanh])


def test_what_does_not_fit_is_not_interpreted():
    found = region(lambda x, w: x @ w, X, X.T)
    for form in (found.graph, found.lowered, found.schedule):
        with pytest.raises(TypeError, match="takes 2 inputs .*, not 1"):
            passes.interpret(form, X)
        with pytest.raises(TypeError, match="input 'w' of graph .* not an array of shape"):
            passes.interpret(form, X, X.T[1:])


# --- a pass that does wrong


def raises(graph):
    raise KeyError("lost")


def drops_output(graph):
    last = graph.nodes[-1]
    return replace(graph, nodes=(*graph.nodes[:-1], replace(last, args=((),), aval=())))


def drops_output_but_not_its_aval(graph):
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], args=((),))))


def returns_nothing(graph):
    return None


def changes_dtype(graph):
    other = passes.lower(lambda x: x.astype(jnp.bfloat16), X)
    return other


@pytest.mark.parametrize("bad, text", [(raises, "KeyError"), (drops_output, "0 outputs of 1"),
                                       (drops_output_but_not_its_aval, "0 outputs of 1"),
                                       (returns_nothing, "returned None"), (changes_dtype, "output 0 was")])
def test_its_change_is_left_out_and_told(bad, text, caplog):
    listed = passes.default().insert(bad)
    with caplog.at_level(logging.WARNING, "dynacomp"):
        compiled = dynacomp.jit(lambda x: program(x), options={"passes": listed})
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), program(X), rtol=1e-6)
    (said,) = [r.getMessage() for r in caplog.records]
    assert "pass left out" in said and f"pass {bad.__name__}" in said and text in said
    with pytest.raises(dynacomp.CompileError, match=text):
        dynacomp.jit(lambda x: program(x), fullgraph=True, options={"passes": listed})(X)


# --- over Graphs


def test_explain_shows_all_forms():
    found = region(program, X, backend="cpp")
    for form in (found.graph, found.lowered, found.schedule):
        passes.verify(form)
        np.testing.assert_allclose(passes.interpret(form, X)[0], program(X), rtol=1e-6)
    assert "jax.nn.sigmoid(x)" in str(found.graph) and "logistic(x)" in str(found.lowered)
    assert "parallel" in str(found.schedule)


def test_lower_diff_and_count():
    graph = region(program, X).graph
    lowered = passes.lower(graph)
    assert str(passes.lower(lowered)) == str(lowered) and passes.diff(lowered, lowered) == ""
    made = passes.rewrite(lowered, swish, jax.nn.relu)
    changed = passes.diff(lowered, made)
    assert "-    logistic" in changed and "+    max" in changed
    assert passes.count(graph) == passes.count(lowered) == passes.count(passes.lower(program, X))
    assert passes.count(made).flops == passes.count(lowered).flops - X.size


def test_the_cost_of_a_region_of_unknown_sizes():
    found = region(lambda x, w: x @ w, X, X.T, dynamic=True)
    cost = passes.count(found.graph)
    assert len(cost.flops.free_symbols) >= 1
    sizes = {s.name: 4 for s in cost.flops.free_symbols}
    assert cost.at(**sizes).flops == 2 * 4 ** len(sizes) * (1 if len(sizes) == 3 else 12 // 4 ** (len(sizes) - 1))


def test_verify_says_what_is_wrong():
    graph = passes.lower(program, X)
    with pytest.raises(passes.GraphError, match="not defined before it"):
        passes.verify(replace(graph, nodes=tuple(n for n in graph.nodes if n is not graph.calls[0])))
