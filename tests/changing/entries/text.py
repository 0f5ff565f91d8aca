"""Text and numbers around graph breaks: progress lines, formatted losses, f-strings, logs."""

import io
import sys

import jax.numpy as jnp

import dynacomp
from tests.changing.kit import entry, mat, vec

PLAIN = ("grad",)
NONE = ()
STEPS = tuple((5, i) for i in range(1, 11))


@entry(lambda n, i: (vec(n), i), STEPS, variants=NONE, frames=2)
def progress_line(x, step):
    loss = (x / step).mean()
    print(f"step {step}: loss {loss:.3f}")
    return x - loss


@entry(lambda n, i: (vec(n), i), STEPS, variants=NONE, frames=2)
def progress_line_by_float(x, step):
    loss = float((x / step).mean())
    print("step", step, "loss", round(loss, 3))
    return x - loss, loss


@entry(lambda n, i: (vec(n), i), STEPS, variants=NONE, frames=2)
def text_used_after_the_print(x, step):
    text = f"{(x * step).sum():.2f}"
    print(text)
    y = x + step
    return y, text + "!"


@entry(variants=NONE, frames=2)
def size_is_printed(x):
    n = x.shape[0]
    print("size", n)
    return x * n


@entry(variants=NONE, frames=3)
def two_prints(x):
    n = x.shape[0]
    print(f"{n} rows")
    y = x * n
    print(f"mean {float(y.mean()):.2f}")
    return y / n, n + 1


@entry(variants=NONE, frames=2)
def asked_for(x):
    n, y = x.shape[0], x * 2
    dynacomp.graph_break()
    return y * n, n * n


@entry(lambda n: (vec(n), n * 3), variants=NONE, frames=2)
def number_is_alive(x, k):
    y = x * k
    dynacomp.graph_break()
    return y + k, k // 2


@entry(variants=NONE, frames=2)
def slice_after_a_break(x):
    half = x.shape[0] // 2
    dynacomp.graph_break()
    return x[:half] * half


@entry(variants=NONE, frames=2)
def written_to_a_stream(x):
    out = io.StringIO()
    out.write(f"{x.shape[0]:05d}")
    return x * 2, out.getvalue()


@entry(variants=NONE, frames=2)
def written_to_stdout(x):
    sys.stdout.write(f"{x.shape[0]} of {x.dtype}\n")
    return x + 1


@entry(lambda n, i: (vec(n), i), STEPS, variants=NONE, frames=2)
def every_third_step_prints(x, step):
    y = x * 0.5
    if step % 3 == 0:
        print("at", step)
    return y + step


@entry(lambda n, s: (vec(n), s), tuple((5, s) for s in ("a", "b", "c", "dd", "e", "f", "g", "h", "i")),
       variants=NONE, frames=2)
def names_are_printed(x, name):
    y = x * 2
    print(name, y.shape)
    return y + len(name)


@entry(lambda n, i: (vec(n), {"step": i}), STEPS, variants=NONE, frames=2)
def dictionary_is_printed(x, info):
    y = x * 0.1
    print(info)
    info["loss"] = info["step"] * 2
    return y * info["loss"], info


@entry(lambda n: (mat(n, 2),), variants=NONE, frames=3)
def loop_that_prints(x):
    for epoch in range(2):
        x = x * 0.5
        print(epoch, x.shape[0])
    return x


@entry(lambda n: (mat(n, 2),), variants=NONE, frames=2)
def item_becomes_a_number(x):
    k = int(x.shape[0] + x[0, 0])
    print(k)
    return x * k, k


@entry(variants=NONE, frames=2)
def mean_becomes_a_condition(x):
    y = x / x.shape[0]
    if float(y.sum()) > 2.5:
        return y * 2
    return jnp.sqrt(y)
