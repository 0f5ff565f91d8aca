"""`reconstruct.emit_sources`: every kind of Source can be loaded, and programs find the objects again."""

import functools

import jax.numpy as jnp

from dynacomp.capture.reconstruct.emit_sources import _SOURCES
from dynacomp.capture.symbolic import lessons
from dynacomp.capture.values import sources
from tests.capture.program_kit import check_one_graph

QUESTIONS = {lessons.Data}  # asked of a policy, never loaded


def kinds(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from kinds(sub)


def test_every_source_that_has_a_form_has_a_row():
    named = {cls for cls in kinds(sources.Source) if cls.__module__ == sources.__name__ and hasattr(cls, "form")}
    assert named and _SOURCES.keys() <= set(kinds(sources.Source)) and not _SOURCES.keys() & QUESTIONS
    assert {sources.Local, sources.Closure, sources.Global, sources.Attr, sources.Item, sources.Key} <= _SOURCES.keys()


class Model:
    def __init__(self):
        self.layers = [{"w": jnp.ones(3)}]
        self.step = functools.partial(scaled, by=2.0)


def scaled(x, by):
    return x * by


KEPT = Model()


def through_places(model, pair, *rest, **options):
    return model.layers, pair[1], rest[0], options["deep"], KEPT.layers[0]["w"] + model.step(model.layers[0]["w"])


def test_objects_are_found_where_they_were():
    pair = ("a", [1])
    check_one_graph(lambda: through_places(KEPT, pair, pair, deep=KEPT.layers), ())
