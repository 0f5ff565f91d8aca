"""`reconstruct.emit_objects`: instances that the captured code has made are made again, of whatever class."""

import collections

import jax.numpy as jnp

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
