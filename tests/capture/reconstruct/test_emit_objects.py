"""`reconstruct.emit_objects`: instances that the captured code has made are made again, of whatever class."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import TraceTag

import dynacomp
from tests.capture.program_kit import check_one_graph


class Stack(list):
    pass


class Table(dict):
    pass


class Names(set):
    pass


class Count(int):
    pass


class Queue(collections.deque):
    pass


class Slotted:
    __slots__ = ("one", "two")


class Holder:
    def __init__(self, **held):
        vars(self).update(held)

    def __repr__(self):
        return f"Holder({vars(self)})"


def of_built_in_classes(x):
    stack, table, queue = Stack([x, 1]), Table(a=x), Queue([1, x], 2)
    stack.append(x + 1)
    table["b"] = stack
    queue.append("last")
    return stack, table, queue, Names({"n"}), Count(3)


def of_attributes(x):
    slotted, holder = Slotted(), Holder(x=x, gone=1)
    slotted.two = holder
    del holder.gone
    holder.itself = (holder.x, slotted.two is holder)
    return holder, slotted.two, hasattr(slotted, "one")


def test_new_objects_are_made_again():
    x = jnp.arange(3.0)
    check_one_graph(of_built_in_classes, (x,), (-x,))
    check_one_graph(of_attributes, (x,), (-x,))


class Trainer:
    """What it holds is made by a library, of whole objects: those that come later are put in before it."""

    __slots__ = ("rate", "__dict__")

    def __init__(self, x, rate):
        self.step = x.sum()
        self.update = jax.vmap(jax.tree_util.Partial(jnp.multiply, x[0]))
        self.rate = rate
        self.state = [x * rate]
        self.kind = "sgd"


def test_attributes_stand_in_the_order_in_which_they_were_set():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, rate: Trainer(x, rate))
    for n in range(3):
        made, x = compiled(jnp.ones(3), 2.0 + n), jnp.arange(3.0)
        assert [*vars(made)] == [*vars(Trainer(x, 2.0))] and made.rate == 2.0 + n
        np.testing.assert_allclose(made.update(x), x)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


class Traced(jax.core.Trace):
    """Attributes in slots alone, as all objects of JAX's machinery have them."""

    __slots__ = ("parent", "tag")

    def __init__(self, parent, tag):
        self.tag = tag
        self.parent = parent
        super().__init__()


def test_objects_with_slots_alone_have_no_order_of_attributes():
    """One was asked for its `__dict__`: AttributeError, where a slot's content is made last (quax's traces)."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: Traced(x + 1, TraceTag()))
    for n in range(3):
        made = compiled(jnp.ones(3) * n)
        assert made.parent.tolist() == [n + 1.0] * 3 and type(made.tag) is TraceTag
        assert made.is_valid() and made._weakref() is made
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
