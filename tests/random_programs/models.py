"""What random programs have of models and training: pytrees, mutable objects that hold arrays, optimisers, state that
stays between calls, functions with rules of their own, loops that arrays end. Rows as in productions.py, added to its.

`STATE` is a global that programs change, compared after each call; its arrays have three elements, as `x` at least.
"""

from __future__ import annotations

HEADER = '''
STATE = {"w": jnp.array([1.0, -0.5, 2.0]), "step": 0, "log": [], "kept": None}

@jax.tree_util.register_pytree_node_class
class Layer:
    def __init__(self, w, b=0.0, act="tanh"): self.w, self.b, self.act = w, b, act
    def tree_flatten(self): return (self.w, self.b), self.act
    @classmethod
    def tree_unflatten(cls, act, leaves): return cls(*leaves, act=act)
    def __call__(self, y): return getattr(jnp, self.act)(y * self.w + self.b)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    w: jax.Array
    b: jax.Array
    depth: int = dataclasses.field(default=2, metadata={"static": True})
    def apply(self, y):
        for i in range(self.depth): y = jnp.tanh(y * self.w + self.b) + i
        return y

class Trainer:
    def __init__(self, lr, k):
        self.lr, self.losses, self.best = lr, [], None
        self.params = {"w": jnp.ones(3) * k, "b": jnp.float32(0)}
    def loss(self, p, y): return jnp.mean((p["w"] * y - p["b"]) ** 2)
    def step(self, y):
        value, grads = jax.value_and_grad(self.loss)(self.params, y)
        self.params = jax.tree.map(lambda p, g: p - self.lr * g, self.params, grads)
        self.losses.append(value)
        if self.best is None or value < self.best: self.best = value
        return value

Optimiser = collections.namedtuple("Optimiser", "init update")

def momentum(lr, decay=0.9):
    def init(p): return jax.tree.map(jnp.zeros_like, p)
    def update(g, state):
        state = jax.tree.map(lambda s, d: decay * s + d, state, g)
        return jax.tree.map(lambda s: -lr * s, state), state
    return Optimiser(init, update)

@jax.custom_vjp
def clipped(v, k): return v * k
clipped.defvjp(lambda v, k: (v * k, (v, k)), lambda kept, g: (jnp.clip(g, -1, 1) * kept[1], (g * kept[0]).sum()))

@jax.custom_jvp
def bent(v): return jnp.abs(v)
bent.defjvp(lambda primals, tangents: (bent(*primals), tangents[0] * 0.5))

@functools.partial(jax.jit, static_argnums=1)
def powered(v, k): return v ** k

@functools.partial(jax.jit, static_argnames="mode")
def reduced(v, mode="sum"): return getattr(jnp, mode)(v)

@functools.lru_cache(None)
def basis(k): return jnp.arange(k) * 0.5

def halves(y):
    while y.shape[0] > 1:
        y = y[: y.shape[0] // 2] + y[-(y.shape[0] // 2):]
        yield y

def shrunk(y, k):
    for i in range(5):
        if float(jnp.abs(y).max()) < k: break
        y = y * 0.5
    return y, i

def positive(y):
    if y[0] > 0: raise ValueError(f"first: {y.shape}")
    return -y

def chunks(y, k):
    for i in range(0, y.shape[0], k): yield y[i:i + k]
'''

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "key": ("jax.random.key(<few>)", "jax.random.PRNGKey(0)", "jax.random.fold_in(jax.random.key(1), <few>)",
            "jax.random.split(jax.random.key(0), 1 + <few>)[0]"),
    "tree": (
        "{'w': x, 'b': <scalar>}", "[x, <array>]", "(x, {'a': <scalar>, 'k': [x]})", "Layer(x, <scalar>)",
        "Params(x, <scalar>, depth=<few>)", "Params(<array>, <scalar>)", "jax.tree.map(lambda v: v * <num>, <tree>)",
        "jax.tree.map(jnp.zeros_like, <tree>)", "{name: <array>, 'z': <array>}", "Layer(<num>, <scalar>)"),
    "matrix": (
        "jnp.outer(x, x)", "x[:, None] * jnp.ones((1, 1 + <few>))", "jnp.stack([x, <array>])",
        "jnp.outer(x, <array>).T", "jnp.eye(x.shape[0])", "jnp.tile(x, (1 + <few>, 1))", "x[None]", "jnp.diag(x)",
        "jnp.arange(x.shape[0] * (1 + <few>)).reshape(x.shape[0], -1)", "jnp.broadcast_to(x, (1 + <few>, x.shape[0]))"),
    "scalar": (
        "<matrix>.sum()", "jnp.einsum('i,i->', x, x)", "jnp.linalg.norm(<matrix>)", "jnp.trace(jnp.outer(x, x))",
        "sum(v.sum() for v in jax.tree.leaves(<tree>))", "reduced(x, mode='max' if <bool> else 'sum')",
        "clipped(x[0], <num>)", "jax.grad(clipped, (0, 1))(x[0], <num> * 1.0)[<few> % 2]", "jax.grad(bent)(x[0])",
        "STATE['w'].sum()", "x.mean() + STATE['step']", "jax.random.uniform(<key>)", "x[jnp.argmax(x)]",
        "jnp.float32(float(x[0]))", "jax.hessian(lambda v: jnp.sum(v ** 3) * <num>)(x)[0, 0]", "x.sum().item()",
        "jax.grad(lambda p: sum(jnp.sum(v ** 2) for v in jax.tree.leaves(p)) * <num>)({'a': x, 'b': x})['a'][1]"),
    "array": (
        "<matrix>.sum(0)", "(<matrix> @ jnp.ones((1,)) if <bool> else x)", "jnp.outer(x, x) @ x", "Layer(x, <num>)(x)",
        "Layer(<num>, <scalar>, act='sin' if <bool> else 'tanh')(x)", "Params(x, <scalar>, depth=<few>).apply(x)",
        "clipped(x, <num>)", "powered(x, <few>)", "bent(x)", "jax.grad(lambda v: clipped(v, <num>).sum())(x)",
        "jax.vmap(bent)(x)", "basis(x.shape[0])", "(basis(x.shape[0]) * <num>)", "jax.random.normal(<key>, x.shape)",
        "jax.random.permutation(<key>, x)", "jnp.sort(x)", "x[jnp.argsort(-x)]", "shrunk(x, 1 + abs(<num>))[0]",
        "x.reshape(-1, 1)[:, 0]", "jnp.where(x > x.mean(), <array>, x)", "jax.nn.softmax(x * <num>)",
        "jax.nn.relu(x - <num>)", "jnp.concatenate([x[1:], x[:1]])", "jnp.flip(x)", "x.at[1:].set(x[:-1])",
        "lax.dynamic_slice(x, (<few>,), (2,))[:1] + x", "lax.dynamic_update_slice(x, jnp.ones(2), (<few>,))",
        "jax.jacfwd(lambda v: jnp.sin(v) * <num>)(x).sum(0)", "jax.jvp(bent, (x,), (x,))[1]",
        "jax.vmap(lambda v: Layer(v, <num>)(v))(x)", "jnp.vectorize(lambda v: v * <num>)(x)",
        "jax.vmap(jax.grad(lambda v: v * v * <num>))(x)", "lax.scan(lambda c, v: (c * <num>, c + v), x[0], x)[1]",
        "lax.switch(<few> % 3, [jnp.sin, jnp.cos, lambda v: v * <num>], x)", "lax.associative_scan(jnp.add, x)",
        "(x if <bool> else <array>)", "np.asarray(x) * <num>", "jnp.asarray(np.asarray(x) + <int>)",
        "jax.lax.stop_gradient(x) * <num>", "jnp.interp(x, jnp.array([0.0, 1.0]), jnp.array([<num>, 2.0]))"),
    "any": (
        "jax.tree.leaves(<tree>)", "str(jax.tree.structure(<tree>))", "<matrix>", "<matrix>.shape", "list(halves(x))",
        "shrunk(x, 1 + abs(<num>))", "[c.sum() for c in chunks(x, 1 + <few>)]",
        "[c.shape for c in chunks(x, 1 + <few>)]",
        "jax.tree.map(jnp.shape, jax.tree.leaves(<tree>))", "jax.random.randint(<key>, (<few>,), 0, 1 + <few>)",
        "jax.random.key_data(<key>)", "x.tolist()", "[float(v) for v in x]", "np.asarray(x)", "STATE['kept']",
        "jax.flatten_util.ravel_pytree(<tree>)[0]", "jnp.unique(jnp.round(x)).shape", "jnp.nonzero(x > <num>)[0]",
        "dict(zip('abc', x))", "x[x > <num>]", "max(x[0], x[1])", "sorted([x[0], x[1], x[2]])", "divmod(x, 2)",
        "jnp.histogram(x, bins=2 + <few>)[0]", "jnp.split(x, [1 + <few> % 2])", "bool((x > <num>).any())",
        "(x == <array>).all() if <bool> else None", "jax.eval_shape(Layer(x, <num>), x).shape"),
}

STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("tree",), "{0} = <tree>"),
    (("matrix",), "{0} = <matrix>"),
    (("key",), "{0} = <key>"),
    ((), "STATE['step'] += 1"),
    ((), "STATE['w'] = STATE['w'] * 0.5 + x[:3]"),
    ((), "STATE['w'] = STATE['w'].at[<int> % 3].set(<num>)"),
    ((), "STATE['log'].append(STATE['step'])"),
    ((), "STATE['log'].append(x[0])\nif len(STATE['log']) > 3: STATE['log'].pop(0)"),
    ((), "STATE['kept'] = <array>"),
    ((), "STATE['kept'] = x if STATE['kept'] is None else STATE['kept'][:3] + x[:3]"),
    ((), "STATE[name] = <array>\nif len(STATE) > 6: STATE.pop(name)"),
    ((), "box.v = <array>\nbox.count += 1"),
    ((), "box.add(x)\nbox.v = box.v * <num>"),
    ((), "items.append(x[0])"),
    ((), "items[:] = [x * <num>, <num>]"),
    (("any",), "trainer = Trainer(<num>, <num>)\nfor i in range(<few>): trainer.step(x[:3])\n"
               "{0} = (trainer.losses, trainer.params, trainer.best)"),
    (("any",), "opt = momentum(0.1 * <num>)\np = {{'w': x, 'b': [x[0]]}}\nstate = opt.init(p)\n"
               "for i in range(<few>):\n    g = jax.grad(lambda p: jnp.sum(p['w'] ** 2 * p['b'][0]) * <num>)(p)\n"
               "    up, state = opt.update(g, state)\n    p = jax.tree.map(jnp.add, p, up)\n{0} = (p, state)"),
    (("any",), "model = Layer(x, <scalar>)\ng = jax.grad(lambda m: m(x).sum() * <num>)(model)\n"
               "{0} = (g.w, g.b, g.act)"),
    (("any",), "p = Params(x, <scalar>, depth=<few>)\np = jax.tree.map(lambda v: v + <num>, p)\n{0} = (p.w, p.depth)"),
    (("any",), "p = dataclasses.replace(Params(x, x), b=<array>)\n{0} = (p.apply(x), p.b is x)"),
    (("any",), "best = None\nfor v in (x, <array>, <array>):\n    if best is None or v.sum() > best.sum(): best = v\n"
               "{0} = best"),
    (("any",), "y = x\nwhile jnp.abs(y).sum() > 1 + abs(<num>): y = y * 0.25\n{0} = y"),
    (("any",), "try: {0} = positive(x * <num>)\nexcept ValueError as error: {0} = str(error)"),
    (("any",), "try: {0} = x + <array>[:<few>]\nexcept (TypeError, ValueError) as error: {0} = type(error).__name__"),
    (("any",), "try: {0} = jnp.reshape(x, (<few>, 2))\nexcept TypeError as error: {0} = 'no'"),
    (("any",), "a = np.zeros(3)\na[<int> % 3] = <num>\na += 1\n{0} = (a, jnp.asarray(a, jnp.float32) * x[:3])"),
    (("any",), "a = np.asarray(x).copy()\na[0] = <num>\n{0} = a * 2"),
    (("array",), "{0} = x\nfor v in x: {0} = {0} + v * <num>"),
    (("array",), "{0} = x\nfor c in chunks(x, 2): {0} = {0} * c[0]"),
    (("any",), "cache = {{}}\nfor i in range(<few>):\n    cache[i] = cache.get(i - 1, x) * <num>\n{0} = cache"),
    (("any",), "def body(c, v):\n    c = c * <num> + v\n    return c, (c, v)\n{0} = lax.scan(body, x[0], x)"),
    (("any",), "seen = []\ndef f1(v):\n    seen.append(v.shape)\n    return v * <num>\n"
               "{0} = (jax.vmap(f1)(x), len(seen))"),
    (("any",), "traced = []\n@jax.jit\ndef f2(v):\n    traced.append(1)\n    return v + <num>\n"
               "{0} = (f2(x), f2(x * 2), len(traced))"),
    (("any",), "f3 = jax.value_and_grad(lambda v, k: ((v * k).sum(), {{'aux': v + k}}), has_aux=True)\n"
               "{0} = f3(x, <num>)"),
    (("any",), "out, pull = jax.vjp(lambda v: jnp.sin(v) * <num>, x)\n{0} = (out, pull(x))"),
    (("any",), "out, push = jax.linearize(lambda v: v ** 2 * <num>, x)\n{0} = push(out)"),
    (("any",), "hook = []\n{0} = jax.tree.map(lambda v: hook.append(v.ndim) or v * 2, {{'a': x, 'b': x[0]}})\n"
               "STATE['log'].extend(hook)\ndel STATE['log'][:-4]"),
    (("any",), "fs = {{'sin': jnp.sin, 'dbl': lambda v: v * <num>}}\n{0} = [g(x) for g in fs.values()]"),
    (("any",), "flat, back = jax.flatten_util.ravel_pytree({{'a': x, 'b': <scalar>}})\n{0} = back(flat * <num>)"),
    (("any",), "lo, hi = -3.0, 3.0 + abs(<num>)\nfor i in range(4):\n    mid = (lo + hi) / 2\n"
               "    if jnp.sum(x - mid) > 0: lo = mid\n    else: hi = mid\n{0} = (lo, hi)"),
    (("any",), "q = collections.deque([x], maxlen=1 + <few>)\nfor i in range(3): q.append(q[-1] + <num>)\n"
               "{0} = list(q)"),
    (("any",), "{0} = [*map(lambda v: v * <num>, chunks(x, 2))]"),
    (("any",), "k1, k2 = jax.random.split(<key>)\n{0} = (jax.random.normal(k1, (1 + <few>,)), jax.random.bits(k2))"),
)
