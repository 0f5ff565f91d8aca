"""`wrapping.pytree_shells`: JAX's registry takes apart what the captured code has made, and puts it together again."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.wrapping.pytree_shells import asks_types
from tests.capture.program_kit import check_one_graph


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    steps: int
    name: str = dataclasses.field(default="state", metadata={"static": True})


class Stack(list):
    pass


Pair = collections.namedtuple("Pair", "one two")


def of_classes(x):
    state = State(x, 3)
    return jax.tree.map(lambda leaf: leaf * 2, state), jax.tree.leaves(state), state.name


def of_containers(x):
    table = collections.OrderedDict(b=x, a=Pair(x + 1, None))
    leaves, tree = jax.tree.flatten([table, (x, {"k": 2})])
    return leaves, tree.unflatten(leaves), jax.tree.structure(table) == jax.tree.structure(table)


def of_a_leaf(x):
    stack = Stack([x, 1])
    return len(jax.tree.leaves(stack)), jax.tree.leaves({"a": collections.deque([x])})[0][0]


def test_trees_of_new_objects():
    x = jnp.arange(3.0)
    check_one_graph(of_classes, (x,), (-x,))
    check_one_graph(of_containers, (x,), (-x,))
    check_one_graph(of_a_leaf, (x,), (-x,))


@dataclasses.dataclass(frozen=True, eq=False)
class Axis:
    """Told apart by its identity alone."""

    size: int


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Named:
    x: jax.Array
    axes: tuple = dataclasses.field(metadata={"static": True})


def new_axes(x, given):
    new = Axis(4)
    one, two = jax.tree.map(jnp.add, (Named(x, (given, new)), Named(x, (new,))),
                            (Named(x, (given, new)), Named(x, (new,))))
    mapped = jax.vmap(lambda n: Named(n.x * 2, (*n.axes, new)))(one)
    value, slope = jax.value_and_grad(lambda n: (n.x ** 2).sum())(one)
    assert one.axes[0] is given and one.axes[1] is new and two.axes[0] is new
    assert mapped.axes[0] is given and mapped.axes[1] is mapped.axes[2] is new
    assert slope.axes[0] is given and slope.axes[1] is new
    structure = jax.tree.structure(one)
    assert structure == jax.tree.structure(slope) and structure != jax.tree.structure(Named(x, (given, Axis(4))))
    return value, mapped.x


def changed_axis(x):
    axis = Axis(4)
    named = jax.tree.map(jnp.sin, Named(x, (axis,)))
    object.__setattr__(axis, "size", 5)
    object.__setattr__(named.axes[0], "more", 6)
    again = jax.tree.map(jnp.sin, named)
    object.__delattr__(axis, "more")
    return again.x, again.axes[0].size, hasattr(jax.tree.map(jnp.cos, again).axes[0], "more")


def test_what_a_structure_keeps_beside_its_leaves_is_the_object_itself():
    x, kept = jnp.arange(3.0), [Axis(3) for _ in range(3)]
    check_one_graph(new_axes, *((x + n, axis) for n, axis in enumerate(kept)))
    check_one_graph(changed_axis, (x,), (-x,))


def test_a_class_that_is_registered_later_is_no_leaf_any_more():
    def answers(compile):
        class Late:
            def __init__(self, x):
                self.x = x

        def leaves(late, y):
            found = jax.tree.leaves((late, y))
            return len(found), found[0] is late, jax.tree.map(lambda leaf: leaf, late) is late, y * 2

        run, kept, found = compile(leaves), Late(jnp.ones(2)), []
        for n in range(10):
            if n == 4:
                jax.tree_util.register_pytree_node(Late, lambda late: ((late.x,), None), lambda _, x: Late(*x))
            found.append(run(kept if n % 2 else Late(kept.x), jnp.full(3, n))[:3])
        return found

    dynacomp.reset()
    assert answers(dynacomp.jit) == answers(lambda fn: fn)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["frames_eager"]


class Tracker:
    def __init__(self, name):
        self.name, self.ids = name, {id(self)}


class Tracked(list):
    """A list that notes beside its items who tracks it; its trees are its items."""

    def __init__(self, items, tracker):
        super().__init__(items)
        self.tracker = tracker


class Titled(Tracked):
    """Whose structure says what the tracker's name is."""


class Kept(Tracked):
    """Whose structure keeps the tracker."""


for _cls, _beside in ((Tracked, lambda v: None), (Titled, lambda v: v.tracker.name), (Kept, lambda v: v.tracker)):
    jax.tree_util.register_pytree_node(
        _cls, lambda v, beside=_beside: (tuple(v), beside(v)), lambda beside, items: list(items))


def test_what_is_beside_the_items_is_looked_at_by_who_asks():
    def total(x, items):
        return x + sum(jax.tree.leaves(jax.vmap(lambda x, t: sum(t), in_axes=(0, None))(x, items)))

    x = jnp.arange(3.0)
    for cls, asked in ((Tracked, False), (Titled, True), (Kept, True)):
        items = cls([x.sum(), x.max()], Tracker("a"))
        (region,) = dynacomp.explain(total, backend="eager")(x, items).regions
        assert all((what in str(region.guards)) == asked for what in (".name", ".ids")), region.guards


def test_a_structure_that_hangs_on_what_is_beside():
    def names(x, items):
        return x + 1, jax.tree.structure(items) == jax.tree.structure(Titled([1.0, 2.0], Tracker("a")))

    compiled = dynacomp.jit(names, backend="eager")
    for name in ("a", "b", "a", "c"):
        items = Titled([jnp.ones(2), jnp.ones(2)], Tracker(name))
        assert compiled(jnp.ones(2), items)[1] == names(jnp.ones(2), items)[1] == (name == "a")


class Sorted(Tracked):
    """The order of whose items hangs on the class of the tracker, which is asked for in a helper."""


def in_order(tracked):
    return tuple(tracked) if type(tracked.tracker) is Tracker else tuple(tracked)[::-1]


class Careless(Tracked):
    """Swallows all that looking raises."""


def careless(tracked):
    try:
        return tuple(tracked), tracked.tracker.name
    except Exception:
        return (), None


jax.tree_util.register_pytree_node(Sorted, lambda v: (in_order(v), None), lambda _, items: list(items))
jax.tree_util.register_pytree_node(Careless, careless, lambda _, items: list(items))


def test_an_unseen_object_is_not_taken_for_another():
    def weighed(x, items):
        return jax.vmap(lambda v, t: v + t[0] - 2 * t[1], in_axes=(0, None))(x, items)

    for cls in (Sorted, Careless):
        compiled = dynacomp.jit(weighed, backend="eager")
        for n in range(3):
            items = cls([jnp.float32(n), jnp.float32(7)], Tracker("a"))
            assert (compiled(jnp.arange(3.0), items) == weighed(jnp.arange(3.0), items)).all()
    assert asks_types(Sorted) and not asks_types(Careless) and not asks_types(Tracked) and not asks_types(list)


def test_a_defaultdict_of_a_function_made_anew():
    """JAX takes it apart by its factory, for which a Value was no function."""
    def program(x, table):
        return {k: v + table["z"] for k, v in jax.tree.map(lambda v: v * 2, {"a": x, "t": table})["t"].items()}

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(5):
        made = [collections.defaultdict(lambda i=i: i + 1.0, a=jnp.arange(3.0)) for _ in range(2)]
        assert str(compiled(jnp.arange(3.0), made[0])) == str(program(jnp.arange(3.0), made[1]))
    assert "internal" not in dynacomp.stats()["frames_eager"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Sized:
    x: jax.Array
    rows: object
    of: tuple = dataclasses.field(metadata={"static": True})


def sized(x):
    return Sized(x, len(x) * 2, (len(x), {"half": len(x) // 2}))


@jax.jit
def scaled(s):
    return dataclasses.replace(s, x=s.x * s.of[0] + jnp.zeros(s.of[0]) + s.of[1]["half"], rows=s.rows + 1)


def given_to_jit(x, y):
    made = scaled(sized(x))
    return made.x, made.rows, made.of


def given_to_others(x, y):
    def loss(s):
        return jnp.sum(s.x * s.of[0])

    s = dataclasses.replace(sized(x), rows=None)
    rows = jax.vmap(lambda s: s.x + s.of[0])(s)
    return jax.grad(loss)(s).x, rows, jax.lax.scan(lambda s, y: (dataclasses.replace(s, x=s.x * y), s.of[0]), s, y)[1]


def in_containers(x, y):
    kept = Pair(len(x), [len(x) + 1]), collections.OrderedDict(n=len(x))
    made = jax.vmap(lambda s: Sized(s.x * s.of[0].one, None, s.of))(Sized(x, None, kept))
    return made.x, made.of, jax.tree.map(lambda x: x + made.of[1]["n"], Sized(y, None, kept[1]))


def beside_leaves_of_the_programs(x, y):
    """Nothing in the structure says a size."""
    leaves, tree = jax.tree.flatten((sized(x), y), is_leaf=lambda node: isinstance(node, Sized))
    return leaves[0].of, tree, y + 1


def in_two_trees(x, y):
    """The sizes of both are symbols of their own."""
    made = jax.tree.map(lambda a, b: a + b, sized(x), sized(y))
    return made.x, made.rows, made.of


def in_a_structure(x, y):
    return x + 1, str(jax.tree.structure(sized(x)))


def test_sizes_beside_the_leaves_may_change():
    """Each of them was a constant, a capture for each."""
    inputs = [(jnp.arange(float(n)), jnp.ones(n)) for n in (3, 6, 4, 5)]
    for program in (given_to_jit, given_to_others, in_two_trees, beside_leaves_of_the_programs):
        check_one_graph(program, *inputs, captures=2)
    for program in (in_a_structure, in_containers):  # where nobody finds them again
        check_one_graph(program, *inputs, captures=4)


def test_trees_whose_sizes_differ():
    compiled = dynacomp.jit(in_two_trees, backend="eager")
    compiled(jnp.ones(3), jnp.ones(3))
    for n in (3, 5, 4):
        with pytest.raises(ValueError, match="different pytree metadata"):
            compiled(jnp.ones(n), jnp.ones(n + 1))
        assert compiled(jnp.ones(n), jnp.ones(n))[2] == (n, {"half": n // 2})
