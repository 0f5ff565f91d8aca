"""Flax NNX: mutable modules, RNG streams, BatchNorm statistics, optimizers, split and merge."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from tests.frameworks.registry import caught, model

KEY = jax.random.key(0)
X, Y = jax.random.normal(KEY, (8, 6)), jax.random.normal(jax.random.key(1), (8, 2))
IMAGES = jax.random.normal(KEY, (4, 8, 8, 1))
TOKENS = jax.random.randint(KEY, (2, 7), 0, 11)


def seen(module):
    """The values of a module's Variables."""
    return jax.tree.map(lambda v: jax.random.key_data(v) if jnp.issubdtype(v.dtype, jax.dtypes.prng_key) else v,
                        nnx.to_pure_dict(nnx.state(module)))


class MLP(nnx.Module):
    def __init__(self, din, dmid, dout, *, rngs: nnx.Rngs):
        self.linear1 = nnx.Linear(din, dmid, rngs=rngs)
        self.bn = nnx.BatchNorm(dmid, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.linear2 = nnx.Linear(dmid, dout, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.dropout(self.bn(self.linear1(x))))
        return self.linear2(x)


@model(slow=True)
def mlp_batchnorm_dropout(jit):
    net = MLP(6, 16, 2, rngs=nnx.Rngs(0, dropout=1))
    optimizer = nnx.Optimizer(net, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)

    @jit
    def train_step(net, optimizer, x, y):
        def loss_fn(net):
            return jnp.mean((net(x) - y) ** 2)

        loss, grads = nnx.value_and_grad(loss_fn)(net)
        optimizer.update(net, grads)
        return loss

    @jit
    def predict(net, x):
        return net(x)

    losses = [train_step(net, optimizer, X, Y) for _ in range(6)]
    net.eval()
    outputs = [predict(net, X[:n]) for n in (8, 3, 5, 1)]
    return losses, outputs, seen(net), seen(optimizer)


class CNN(nnx.Module):
    def __init__(self, *, rngs):
        self.conv1 = nnx.Conv(1, 4, kernel_size=(3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(4, 8, kernel_size=(3, 3), rngs=rngs)
        self.linear = nnx.Linear(2 * 2 * 8, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.conv1(x)), window_shape=(2, 2), strides=(2, 2))
        x = nnx.avg_pool(nnx.relu(self.conv2(x)), window_shape=(2, 2), strides=(2, 2))
        return self.linear(x.reshape(x.shape[0], -1))


@model(slow=True)
def cnn_with_metrics(jit):
    net = CNN(rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
    labels = jnp.array([0, 1, 2, 1])

    @jit
    def train_step(net, optimizer, metrics, batch):
        def loss_fn(net):
            logits = net(batch["image"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean(), logits

        (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(net)
        metrics.update(loss=loss, logits=logits, labels=batch["label"])
        optimizer.update(net, grads)

    for _ in range(5):
        train_step(net, optimizer, metrics, {"image": IMAGES, "label": labels})
    return metrics.compute(), seen(net)


class Block(nnx.Module):
    def __init__(self, width, heads, *, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(width, 2 * width, rngs=rngs), nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        mask = nnx.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Transformer(nnx.Module):
    def __init__(self, vocabulary, width, depth, *, rngs):
        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, 2, rngs=rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, vocabulary, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@model(slow=True)
def transformer(jit):
    net = Transformer(11, 8, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adamw(1e-2), wrt=nnx.Param)

    @jit
    def train_step(net, optimizer, tokens):
        def loss_fn(net):
            logits = net(tokens[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        loss, grads = nnx.value_and_grad(loss_fn)(net)
        optimizer.update(net, grads)
        return loss

    @jit
    def infer(net, tokens):
        return net(tokens).argmax(-1)

    return [train_step(net, optimizer, TOKENS) for _ in range(5)], [infer(net, TOKENS[:, :n]) for n in (3, 5, 6)]


@model(slow=True)
def recurrent(jit):
    rngs = nnx.Rngs(0)
    net = nnx.RNN(nnx.GRUCell(6, 5, rngs=rngs), rngs=rngs)
    sequences = jax.random.normal(KEY, (3, 4, 6))

    @jit
    def step(net, x):
        grads = nnx.grad(lambda net: (net(x) ** 2).mean())(net)
        state = nnx.state(net, nnx.Param)
        nnx.update(net, jax.tree.map(lambda p, g: p - 0.1 * g, state, grads))
        return net(x)

    return [step(net, sequences) for _ in range(5)], seen(net)


@model(slow=True)
def split_merge_functional(jit):
    net = MLP(6, 8, 2, rngs=nnx.Rngs(0))
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    tx = optax.sgd(0.05, momentum=0.9)

    @jit
    def step(params, rest, slots, x, y):
        def loss_fn(params):
            net = nnx.merge(graphdef, params, rest, copy=True)
            loss = jnp.mean((net(x) - y) ** 2)
            return loss, nnx.state(net, nnx.Not(nnx.Param))

        (loss, rest), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        updates, slots = tx.update(grads, slots, params)
        return optax.apply_updates(params, updates), rest, slots, loss

    slots, losses = tx.init(params), []
    for _ in range(5):
        params, rest, slots, loss = step(params, rest, slots, X, Y)
        losses.append(loss)
    return losses, nnx.to_pure_dict(params)


class Counter(nnx.Module):
    def __init__(self):
        self.count = nnx.Variable(jnp.array(0))
        self.names = nnx.List([])

    def __call__(self, x):
        self.count[...] += 1
        if x.shape[0] > 4:
            self.last = nnx.Variable(x.sum())
        return x * self.count


@model(eager=("raises",))  # what raises runs in Python
def state_that_modules_keep(jit):
    counter = Counter()
    step = jit(lambda counter, x: counter(x))
    outputs = [step(counter, X[:n]) for n in (2, 2, 6, 6)]
    return outputs, counter.count[...], counter.last[...], caught(jit(lambda c: c.missing), counter)


@model
def rng_streams(jit):
    rngs = nnx.Rngs(0, noise=7)

    @jit
    def draw(rngs, x):
        return x + jax.random.normal(rngs.noise(), x.shape), jax.random.uniform(rngs.params())

    return [draw(rngs, X) for _ in range(4)], rngs.noise.count[...]


class LoRA(nnx.Module):
    def __init__(self, *, rngs):
        self.base = nnx.Linear(6, 4, rngs=rngs)
        self.lora = nnx.LoRA(6, 2, 4, base_module=self.base, rngs=rngs)

    def __call__(self, x):
        return self.lora(x)


@model(slow=True)
def lora_trains_its_own_parameters(jit):
    net = LoRA(rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.LoRAParam)
    diff = nnx.DiffState(0, nnx.LoRAParam)

    @jit
    def step(net, optimizer, x):
        loss, grads = nnx.value_and_grad(lambda net: (net(x) ** 2).sum(), argnums=diff)(net)
        optimizer.update(net, grads)
        return loss

    return [step(net, optimizer, X) for _ in range(5)], seen(net)


@model
def jit_inside(jit):
    net = MLP(6, 8, 2, rngs=nnx.Rngs(0))
    net.eval()
    inner = nnx.jit(lambda net, x: net(x))
    return [jit(lambda net, x: inner(net, x) * 2)(net, X) for _ in range(3)]
