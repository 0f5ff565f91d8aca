"""Each object, in each place: twelve calls with objects made anew give what plain Python gives.

One of fifty cases is a usual test, all of them are slow ones. None runs plainly for a defect of ours, and what changes
like a number is captured a few times only.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.made_anew.objects import OBJECTS
from tests.made_anew.places import PLACES

NUMBERS = (0, 1, 2, 3, 1, 0, 5, 2, 7, 4, 4, 0)
DEFECTS = {"internal", "attempts"}
SETTLED = ("int", "float", "tuple", "dict", "dc", "slots", "obj", "objmeth", "fn", "fn2", "partial", "ja", "npf")
FEW = ("argument", "attribute", "closure", "partial", "vmap", "equinox", "a_default", "in_a_method", "compiled_anew",
       "in_a_global")


def outcome(run, i, x):
    try:
        return jax.tree.map(lambda a: (str(np.asarray(a)), str(getattr(a, "dtype", type(a))),
                                       bool(getattr(a, "weak_type", False))), run(i, x))
    except Exception as error:
        return type(error), str(error)[:80]


def check(kind, place):
    make, use = OBJECTS[kind]
    dynacomp.reset()
    plain = PLACES[place](use, make, lambda f: f)
    compiled = PLACES[place](use, make, lambda f: dynacomp.jit(f, backend="eager"))
    x = jnp.array([1.0, 2.0, 3.0])
    for number, i in enumerate(NUMBERS):
        assert outcome(compiled, i, x) == outcome(plain, i, x), f"call {number}, of {i}"
    assert not DEFECTS & dynacomp.stats()["frames_eager"].keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(50)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_made_anew(kind, place):
    check(kind, place)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", FEW)
@pytest.mark.parametrize("kind", SETTLED)
def test_captures_settle(kind, place):
    check(kind, place)
    assert dynacomp.stats()["frames_captured"] <= 6
