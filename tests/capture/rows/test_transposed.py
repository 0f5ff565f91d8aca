"""`zip(*batch)` of lists of another length in each call: tuples of rows, and plain Python's values and types."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.rows.test_stored_rows import captures

SIZES = (5, 7, 6, 9, 1, 0, 3, 5)
Step = collections.namedtuple("Step", "state action reward")


def steps(n, made=Step):
    return [made(jnp.asarray(np.random.RandomState(i).randn(3), jnp.float32), i, i / 2) for i in range(n)]


def pairs(n):
    return [tuple(x) for x in steps(n)]


def stacked(batch):
    states, actions, rewards = zip(*batch)
    return jnp.stack(states), jnp.array(actions), np.mean(rewards), len(states)


def kept(batch):
    states, actions, rewards = zip(*batch)
    return states, actions, type(rewards) is tuple, states[:] is states, states[0] * 2


def parts(batch):
    states, actions, rewards = map(list, zip(*batch[1:]))
    actions.append(0)
    return jnp.stack(states[1:]), actions, rewards[::-1]


def sliced(batch):
    states, _, rewards = zip(*batch)
    return jnp.stack(states[1:]), rewards[::-1], states[-1], rewards[1]


def loop(batch):
    states, actions, rewards = zip(*batch)
    total = 0.0
    for state, reward in zip(states, rewards):
        total = total + state.sum() * reward
    return total, sum(rewards), max(actions), 1 in actions


def named(batch):
    batch = Step(*zip(*batch))
    return jax.grad(lambda w: (jnp.stack(batch.state) @ w * jnp.array(batch.reward)).sum())(jnp.ones(3))


def of_names(batch):
    return sum(step.state.sum() * step.reward for step in batch), jnp.stack([step.state for step in batch])


def there_and_back(batch):
    return list(zip(*zip(*batch))), batch[0][0] * 2


@pytest.mark.parametrize("fn", [stacked, kept, sliced, loop, there_and_back])
def test_one_entry_for_all_lengths(fn):
    assert captures(fn, SIZES, given=pairs) <= 5


@pytest.mark.parametrize("fn", [named, of_names])
def test_named_tuples(fn):
    assert captures(fn, SIZES[:4], given=steps) == 2


def compared(batch):
    states, actions, _ = zip(*batch)
    same = actions == tuple(range(len(batch)))
    return states[0], same, actions != (0, 1), hash(actions), {actions: 1}, actions + (1,)


def wrong_number(batch):
    states, actions = zip(*batch)
    return states[0] * 2


def refused(batch):
    states, *_ = zip(*batch)
    found = []
    for use in (lambda: states.append(1), lambda: states.__setitem__(0, 1), lambda: states < (1,)):
        try:
            use()
        except (AttributeError, TypeError) as error:
            found.append(str(error))
    return found, states[0] * 2


def uneven(batch):
    columns = list(zip(*[x[:2 if i % 5 else 1] for i, x in enumerate(batch)]))
    return len(columns), jnp.stack(columns[0])


@pytest.mark.parametrize("fn", [compared, wrong_number, refused, uneven])
def test_the_rest_is_right(fn):
    captures(fn, SIZES[:5], given=pairs, breaks=True)


def best_of(batch):
    best = None
    for step in batch:
        if best is None or step[1] > best[1]:
            best = step
    return best, best[0] * 2, [step is best for step in batch], id(best) == id(batch[-1])


def odd_ones(batch):
    kept = [step for step in batch if step[1] % 2]
    return len(kept), [any(step is other for other in batch) for step in kept], batch[0][0] + 1


@pytest.mark.parametrize("fn", [best_of, odd_ones])
def test_a_row_is_the_object_in_the_list(fn):
    captures(fn, SIZES[:4] + (5, 7), given=pairs, breaks=True)
    compiled = dynacomp.jit(best_of, backend="eager")
    for n in (5, 7, 6, 9):
        batch = pairs(n)
        assert compiled(batch)[0] is batch[-1]
