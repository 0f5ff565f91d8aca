"""Calls that raise: type, words and the user's lines are those of eager JAX, uncaught and caught.

Each row is a statement of a function `f(x, i, d, t, o)`: x is f32[3], i int32[2, 3], d a dict, t a
tuple, o an object. It is run as the last line of the function, inside a callee, inside a handler that
looks at the exception, and below `jax.grad` where the row can be differentiated.
"""

import re
import textwrap

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.corpus import world
from tests.corpus.differ import loaded, position

JAX = """
x + jnp.ones(7)
x @ jnp.ones(4)
i @ i
jnp.dot(i, i)
jnp.concatenate([x, i])
jnp.concatenate([])
jnp.concatenate(x, i)
jnp.stack([x, i])
x.reshape(2, 2)
x.reshape(-1, -1)
jnp.reshape(x, (7,))
jnp.zeros(-1)
jnp.zeros('a')
jnp.zeros((2, 'a'))
jnp.ones(3, dtype='nothing')
x.astype('nothing')
jnp.sum('abc')
jnp.sum(None)
jnp.sum([1, 'a'])
jnp.sum(x, axis=1)
jnp.sum(x, axis=-2)
jnp.sum(x, axis='k')
jnp.sum(x, 0, nothing=1)
jnp.sum()
x.sum(axis=3)
jnp.transpose(x, (1, 0))
i.transpose(0, 0)
jnp.swapaxes(x, 0, 1)
jnp.expand_dims(x, 5)
jnp.squeeze(x, 0)
jnp.split(x, 2)
jnp.tile(x, 'a')
jnp.repeat(x, jnp.ones(2, int))
jnp.take(x, jnp.ones(1))
x['a']
x[0.5]
x[0, 0]
x[..., ...]
x[None:'a']
x[jnp.ones(2)]
x[jnp.ones(2, bool)]
x[[0, 1]]
x[5:, 1]
x.at['a'].set(1)
x.at[0].set(jnp.ones(2))
x.at[0, 0].add(1)
x.at[0].nothing(1)
x.at.set(1)
x[0] = 1
del x[0]
x.nothing
x.shape = (1,)
x.nothing = 1
x()
x < 'a'
x + 'a'
x + None
x + d
'a' + x
x @ 2
x << 1
~x
x % 'a'
x ** None
-d
hash(x)
len(x[0])
iter(x[0])
for k in x[0]: pass
a, b = x
a, b, c, e = x
bool(x)
if x: pass
not x
x and 1
while i: pass
float(x)
int(i)
complex(x)
range(x)
[1, 2][x]
[1, 2][x[0]]
d[x]
{x}
{x: 1}
x in {1}
range(3)[x[0]]
x.item()
x.item(9)
x.at[0].set()
jnp.where(x)  + 'a'
jnp.where(x, 1)
jnp.where(x > 0, x, i[:, :2])
jnp.clip(x, 'a')
jnp.arange('a')
jnp.arange()
jnp.linspace(0, 1, -1)
jnp.einsum('ij,jk', x, i)
jnp.einsum('i,i->j', x, x)
jnp.linalg.inv(x)
jnp.linalg.cholesky(i)
jnp.fft.fft('a')
jnp.argmax(x, axis=4)
jnp.sort(x, axis=4)
jnp.broadcast_to(x, (2, 2))
jnp.asarray({})
jnp.asarray([x, i])
jnp.array([[1], [1, 2]])
jnp.array('a')
jnp.asarray(1e400, dtype=int)
jnp.int8(300) + 1000
jnp.int32(2 ** 40)
jnp.full((2,), 'a')
jax.nn.softmax(x, axis=5)
jax.nn.one_hot(x, -2)
jax.nn.relu('a')
jax.nn.gelu(x, 3, 4)
jax.random.normal(x, (2,))
jax.random.normal(jax.random.key(0), 'a')
jax.random.split(3, 'a')
jax.random.uniform(jax.random.key(0), (2,), 'int32')
jax.lax.add(x, i)
jax.lax.dot(x, i)
jax.lax.slice(x, (0,), (9,))
jax.lax.dynamic_slice(x, (0, 0), (1,))
jax.lax.concatenate([x, i], 0)
jax.lax.cond(x, lambda: 1, lambda: 2)
jax.lax.cond(True, lambda: 1, lambda: (2,))
jax.lax.cond(True, lambda a: 1, lambda a: 2)
jax.lax.scan(lambda c, a: (c, a, 1), 0, x)
jax.lax.scan(lambda c, a: (c + 0.5, a), 0, x)
jax.lax.scan(lambda c, a: (c, a), 0)
jax.lax.fori_loop(0, 'a', lambda k, c: c, x)
jax.lax.while_loop(lambda c: c, lambda c: c, x)
jax.lax.while_loop(lambda c: True, lambda c: (c, c), x)
jax.grad(lambda q: q)(x)
jax.grad(lambda q: q.sum())(i)
jax.grad(lambda q: 1)(x[0])
jax.grad(lambda q: 'a')(x)
jax.grad(lambda q: q.sum(), argnums=3)(x)
jax.grad(lambda q: q.sum())('a')
jax.grad(lambda q: q + jnp.ones(2))(x)
jax.grad(lambda q: q.nothing)(x)
jax.grad(lambda q: d['z'])(x)
jax.value_and_grad(lambda q: q.sum(), has_aux=True)(x)
jax.vmap(lambda a, b: a + b)(x, i)
jax.vmap(lambda a: a, in_axes=1)(x)
jax.vmap(lambda a: a)()
jax.vmap(lambda a: a)('a')
jax.vmap(lambda a: float(a))(x)
jax.vmap(lambda a: 1 if a > 0 else 2)(x)
jax.vmap(lambda a: a, in_axes=(0, 0))(x)
jax.jvp(lambda a: a, (x,), (i,))
jax.vjp(lambda a: a, x)[1](i)
jax.jit(lambda a: float(a))(x)
jax.jit(lambda a: 1 if a.sum() > 0 else 2)(x)
jax.jit(lambda a: a + jnp.ones(2))(x)
jax.tree.map(lambda a, b: a, {'a': x}, {'b': x})
jax.tree.map(lambda a: a.nothing, {'a': x})
jax.checkpoint(lambda a: a + jnp.ones(2))(x)
jax.numpy.nothing
jax.nothing(x)
jax.eval_shape(lambda a: a + jnp.ones(2), x)
jax.device_put(x, 'a')
jax.lax.psum(x, 'k')
"""

PYTHON = """
d['missing']
d[[]]
d.missing
d.pop('missing')
t[9]
t['a']
t[0] = 1
del t[0]
t.nothing
o.nothing
o.nothing = x + jnp.ones(2)
o(1)
o + 1
o[0]
len(o)
iter(o)
del o.nothing
[].pop()
[][0]
[1].remove(2)
[1].index(2)
next(iter([]))
a, b = t
a, *b = []
int('x')
float('x')
int([])
'a' + 1
1 + 'a'
'a' * 'b'
1 / 0
1 % 0
2 ** 'a'
-'a'
'a' < 1
nothing
world
len(3)
iter(3)
3()
3[0]
None.a
None()
None + 1
sum(['a'])
max([])
max(1, 'a')
sorted([1, 'a'])
range('a')
range(1, 2, 0)
zip(3)
list(map(len, [1]))
'%d' % 'a'
'{}{}'.format(1)
'{x}'.format(y=1)
f'{1:q}'
'a'.join([1])
'a'.nothing()
'abc'.index('z')
isinstance(1, 'a')
issubclass(1, int)
getattr(1, 2)
hasattr(1, 2)
setattr(o, 2, 3)
(lambda a: a)()
(lambda a: a)(1, 2)
(lambda a, *, b: a)(1)
(lambda a: a)(b=1)
(lambda: 1)(**{1: 2})
(lambda *a: a)(*3)
(lambda a: a)(1, **{'a': 2})
twice(1, 2, 3)
twice(b=x)
Point()
Point(1, 2, 3)
Color(99)
Color['GREEN']
raise 1
raise Custom from 1
raise StopIteration(3)
raise KeyError('k') from ValueError('v')
raise Custom('c', 3)
assert False
assert not d, 'message'
import nothing.there
from math import nothing
math.sqrt(-1)
math.sqrt('a')
class A(3): pass
class A(int, str): pass
with 3: pass
{}.fromkeys(3)
set([[]])
open('/nowhere/at/all')
"""

VARIANTS = {
    "line": "{row}",
    "callee": "def g():\n    {row}\ng()",
    "caught": "try:\n    {row}\nexcept Exception as e:\n    return type(e), str(e), e.args",
    "loop": "for k in range(2):\n    if k:\n        {row}\n    x = x + 1",
}


class Thing:
    """An object with nothing in it."""


def arguments():
    return jnp.arange(3.0), jnp.ones((2, 3), jnp.int32), {"a": 1}, (1, 2, 3), Thing()


def rows():
    return [r for r in (JAX + PYTHON).splitlines() if r]


def source(row, variant):
    body = VARIANTS[variant].format(row=row)
    return "def f(x, i, d, t, o):\n" + textwrap.indent(body, "    ") + "\n"


def told(what):
    """Its text, without the identity of a tracer and the column at which that was made, which new code has not."""
    return re.sub(r"object id \d+|(?<=:)-?\d+(?= \()", "object id", str(what))


def outcome(f):
    try:
        result = f(*arguments())
    except Exception as error:
        return type(error), told(error), position(error, f.__code__.co_filename)
    return told(result)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", rows())
def test_raises_as_eager(row):
    dynacomp.reset()
    for variant in VARIANTS:
        plain = loaded(source(row, variant), {**world.NAMES, "jax": jax, "jnp": jnp})["f"]
        want = outcome(plain)
        for backend in ("eager",):
            compiled = dynacomp.jit(plain, backend=backend)
            assert outcome(compiled) == want, variant
            assert outcome(compiled) == want, f"{variant}, again"
