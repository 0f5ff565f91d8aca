"""What random programs are made of: rows of statements and expressions, with holes for others.

A hole is `<kind>`: an expression of that kind, or a variable of it that is in scope. A statement says which kinds of
variables it leaves behind: `"num": ("{0} = <num> * 2",)` makes a new one, `{0}`, `{1}`; lines that end in a colon take
`<body>`, a few statements. `HEADER` are the classes and functions of a program's module, at global scope.

A program's function is `f(x, n, s, flag, name, items, box)`: an array, an int, a float, a bool, a string, a list of
numbers that it may change, an instance that it may change.
"""

from __future__ import annotations

HEADER = '''
import contextlib, dataclasses, enum, functools, itertools, math, operator, collections
import numpy as np, jax, jax.numpy as jnp, jax.flatten_util
from jax import lax
TOTAL, SEEN, TABLE = 0, [], {"a": 1, "b": 2.5}

class Box:
    __slots__ = ("v", "count")
    def __init__(self, v): self.v, self.count = v, 0
    def add(self, d):
        self.count += 1
        self.v = self.v + d
        return self
    def __eq__(self, other): return isinstance(other, Box) and self.v == other.v
    __hash__ = None
    def __repr__(self): return f"Box({self.v!r}, {self.count})"

class Base:
    scale = 2
    def __init__(self, w, **more):
        self.w = w
        self.__dict__.update(more)
    @property
    def double(self): return self.w * self.scale
    @double.setter
    def double(self, d): self.w = d / self.scale
    @classmethod
    def of(cls, w): return cls(w, made=True)
    @staticmethod
    def half(a): return a / 2
    def __call__(self, y): return y * self.w + self.bias()
    def bias(self): return 1
    def __getitem__(self, i): return (self.w, self.scale)[i]
    def __len__(self): return 2
    def __add__(self, other): return type(self)(self.w + getattr(other, "w", other))
    def __radd__(self, other): return self + other
    def __lt__(self, other): return self.w < other.w
    def __bool__(self): return self.w > 1

class Child(Base):
    scale = 3
    def __init__(self, w, k=0.5, **more):
        super().__init__(w, **more)
        self.k = k
    def bias(self): return super().bias() + self.k
    def __getattr__(self, missing):
        if missing.startswith("no_"): return len(missing)
        raise AttributeError(missing)

@dataclasses.dataclass
class Point:
    a: float
    b: float = 1.5
    tags: list = dataclasses.field(default_factory=list)
    def norm(self): return (self.a ** 2 + self.b ** 2) ** 0.5

@dataclasses.dataclass(frozen=True, order=True)
class Key:
    k: int
    t: str = "t"

Pair = collections.namedtuple("Pair", "left right")

class Mode(enum.Enum):
    LOW, HIGH = 1, 2

class Guarded:
    def __init__(self, log, swallow): self.log, self.swallow = log, swallow
    def __enter__(self):
        self.log.append("in")
        return self
    def __exit__(self, kind, error, tb):
        self.log.append(kind.__name__ if kind else "out")
        return self.swallow and kind is not None and issubclass(kind, (ValueError, KeyError, ZeroDivisionError))

@contextlib.contextmanager
def noted(log, what):
    log.append(what)
    try: yield len(log)
    finally: log.append(-1)

def steps(a, k):
    for i in range(k):
        got = yield a + i
        if got: a = got

def evens(values):
    return (v for v in values if v % 2 == 0)

def nested(values):
    for v in values:
        yield from (v, v + 1)

def counter(start):
    def step(d=1):
        nonlocal start
        start += d
        return start
    return step

def scaled(k):
    return lambda y: y * k

def total(d):
    global TOTAL
    TOTAL = TOTAL + d
    return TOTAL

def traced(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        SEEN.append(fn.__name__)
        return fn(*args, **kwargs)
    return inner

@traced
def mixed(a, *rest, k=2, **more):
    return a + sum(rest) * k + len(more)

def check(v):
    if v < 0: raise ValueError(f"negative: {v}")
    if v > 50: raise KeyError(v)
    return v
'''

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "int": (
        "n", "n", "1", "2", "3", "-1", "7", "x.shape[0]", "len(items)", "len(name)", "(<int> + <int>)",
        "(<int> - <int>)", "(<int> * <int>)", "(<int> // 3)", "(<int> % 3)", "(<int> // (<int> or 1))",
        "(<int> % (<int> or 1))", "(-<int>)", "abs(<int>)", "min(<int>, <int>)", "max(<int>, 2)", "int(<num>)",
        "round(<num>)", "math.floor(<num>)", "divmod(<int>, 3)[1]", "(<int> if <bool> else <int>)", "len(<list>)",
        "(<int> & 3)", "(<int> ^ <int>)", "(<int> << 1)", "sum(range(<few>))", "len(<text>)",
        "Mode(1 + <int> % 2).value", "<text>.count('a')", "box.count", "sum(<ints>)", "len({<int>, <int>, <int>})",
        "(<int> or <int>)", "hash(<int>)", "int(f'{<int>}')", "x[:<int>].size", "operator.index(<int>)",
        "Key(<int>).k", "total(<int>)"),
    "num": (
        "s", "s", "0.5", "-0.0", "2.0", "<int>", "(<num> + <num>)", "(<num> - <num>)", "(<num> * <num>)",
        "(<num> / 2)", "(<num> // 2)", "(<num> % 3)", "(<num> % -2)", "float(<int>)", "(-<num>)", "abs(<num>)",
        "min(<num>, <num>)", "max(<num>, 1)", "round(<num>, 1)", "math.sqrt(abs(<num>))", "math.sin(<num>)",
        "(<num> if <bool> else <num>)", "sum(<list>)", "max(<list>)", "math.copysign(1, <num>)", "float('inf')",
        "float('nan')", "(<int> / (<int> or 2))", "(abs(<num>) ** 0.5)", "(<num> or <num>)", "(<num> and <num>)",
        "Base(<num>).double", "Child(<num>).bias()", "Point(<num>).norm()", "Base.half(<num>)", "box.v", "TABLE['b']",
        "mixed(<num>, <int>, k=<num>)", "scaled(<num>)(<num>)", "float(str(<num>))", "math.fmod(<num>, 2)",
        "divmod(<num>, 2)[0]", "Pair(<num>, <int>).left", "min(<num>, <num>, key=abs)",
        "Child(<num>, k=<num>).no_such", "functools.reduce(operator.add, <list>, 0)", "math.hypot(<num>, <num>)",
        "next(steps(<num>, 2))", "(lambda a, b=<num>: a - b)(<num>)", "sum(v * v for v in <list>)",
        "complex(<num>, 1).real", "math.inf * <num>", "float(np.float32(<num>))"),
    "bool": (
        "flag", "(<num> < <num>)", "(<int> == <int>)", "(<num> >= 1)", "(not <bool>)", "(<bool> and <bool>)",
        "(<bool> or <bool>)", "(0 < <num> < 3)", "(<int> in (1, 2, 5))", "(name == 'b')", "isinstance(<num>, float)",
        "bool(<num>)", "(<int> in items)", "(<text> != name)", "any(v > 1 for v in <list>)", "(<num> != <num>)",
        "math.isnan(<num>)", "Mode(1 + <int> % 2) is Mode.HIGH", "(Key(<int>) < Key(<int>))", "bool(<list>)",
        "(x.shape[0] > 3)", "name.startswith('a')", "(Box(<num>) == Box(<num>))", "bool(Base(<num>))",
        "(type(<num>) is int)", "(name in TABLE)"),
    "text": (
        "name", "'a'", "f'{<int>}'", "f'{<num>:.2f}'", "f'{<int>:>4}|'", "str(<bool>)", "'%s-%d' % (name, <int>)",
        "name * <few>", "repr(<num>)", "(name + <text>)", "<text>.upper()", "'{:+.1e}'.format(<num>)",
        "f'{name!r:>6}'", "','.join(map(str, <list>))", "name[:<int>]", "f'{<num>!r}'", "repr(Key(<int>))",
        "str(x.dtype)", "repr(Point(<num>))", "<text>.replace('a', name)", "name.ljust(<few>, '.')", "f'{<int>:04d}'",
        "str(Mode.LOW)"),
    "few": (
        "(<int> % 4)", "2", "3", "(n % 3)", "min(abs(n), 4)", "len(items) % 4", "x.shape[0] % 5"),
    "ints": (
        "[1, 2, 3]", "range(<few>)", "[<int>, <int>]", "sorted((<int>, <int>, 2))", "list(evens(range(<int> % 6)))"),
    "list": (
        "items", "[<num>, <num>]", "[<num>, 1, <int>]", "[v + <num> for v in items]", "list(steps(<num>, 2))",
        "[*items, <num>]", "sorted([<num>, <int>, 0.25])", "list(range(1, 2 + <few>))", "[<num>] * (1 + <few>)",
        "list(nested([<int>, <num>]))", "[v for v in items if v > <num>] + [<num>]",
        "list(map(scaled(<num>), items))", "[a * b for a, b in zip(items, [<num>, <int>])] + [1]",
        "list(itertools.accumulate([<num>, <int>, 2]))", "[i + v for i, v in enumerate(items)] + [<int>]",
        "list({<int>: 1, <int>: 2})", "[v for k, v in sorted({'a': <num>, name: <int>}.items())]",
        "list(Pair(<num>, <int>))", "items[::-1] + [0]", "items[<int>:] + [<num>]",
        "list(itertools.takewhile(lambda v: v < <num>, items)) + [<num>]"),
    "numpy": (
        "np.float32(<num>)", "np.int32(<few>)", "np.float64(<num>)", "np.asarray(<list>, np.float32).sum()",
        "np.sqrt(np.float32(abs(<num>)))", "np.bool_(<bool>)", "np.arange(1 + <few>).sum()", "np.maximum(<num>, 1)"),
    "scalar": (
        "x.sum()", "x[0]", "x.max()", "jnp.asarray(<num>)", "jnp.float32(<num>)", "(<scalar> * <num>)",
        "(<scalar> + <int>)", "x[<int> % x.shape[0]]", "jnp.where(<bool>, <num>, <num>)", "jnp.dot(x, x)",
        "jnp.where(x[0] > <num>, <num>, <int>)", "lax.cond(x[0] > 0, lambda v: v * <num>, lambda v: v + <int>, x[1])",
        "jax.grad(lambda v: jnp.sum(v * v) * <num>)(x)[0]", "jax.grad(lambda v: v * <num>)(1.5)",
        "(<num> - <scalar>)", "jax.value_and_grad(lambda v: (v ** 2).sum() * <int>)(x)[0]",
        "jnp.minimum(<scalar>, <num>)", "lax.fori_loop(0, <few>, lambda i, v: v * 0.5 + <num>, x[0])",
        "(<scalar> // 2)", "(<scalar> % <numpy>)",
        "lax.while_loop(lambda v: v < 3, lambda v: v + 1 + abs(<num>), x[0])", "jnp.sum(x[:<int>])",
        "Base(<num>)(x[1])", "jnp.asarray(<int>, jnp.int32)", "jnp.int8(<int> % 100)", "(jnp.int32(<int>) / 2)",
        "jnp.max(jnp.stack([x[0], x[1] * <num>]))", "jnp.float16(<num>)", "(jnp.float16(2) * <num>)",
        "(jnp.asarray(<int>) * <numpy>)", "jax.jit(lambda v, k: v * k)(x[0], <num>)", "jnp.sign(<scalar>)",
        "jnp.round(<scalar>)", "jnp.polyval(jnp.array([1.0, 2.0]), <num>)", "jnp.clip(<scalar>, -1, 1)",
        "jnp.linspace(0, <num>, 3)[1]", "jnp.asarray(<bool>)", "(~jnp.asarray(<bool>))", "(<scalar> > <num>)"),
    "array": (
        "x", "(x * <num>)", "(x + <int>)", "(x - <scalar>)", "(<array> * <num>)", "(<array> + <array>)",
        "jnp.where(x > <num>, x, <num>)", "x.at[<int> % x.shape[0]].set(<num>)", "x.at[0].add(<num>)",
        "x.at[:<int>].multiply(<num>)", "jnp.roll(x, <int>)", "jnp.full_like(x, <num>)", "jnp.clip(x, -1, <num>)",
        "jnp.where(<bool>, x, <num>)", "x[::-1]", "jnp.tanh(x * <num>)", "jax.vmap(lambda v: v * <num> + <int>)(x)",
        "jax.vmap(lambda v, k: v * k, (0, None))(x, <num>)", "(x ** <few>)",
        "lax.scan(lambda c, v: (c + v * <num>, c), jnp.float32(0), x)[1]",
        "jax.grad(lambda v: jnp.sum(jnp.sin(v) * <num>))(x)", "jnp.power(jnp.abs(x), <num>)",
        "(<num> / (1 + jnp.abs(x)))", "Base(<num>)(x)", "Child(<num>)(x)", "scaled(<num>)(x)",
        "lax.cond(<bool>, lambda v: v * 2, lambda v: v - <num>, x)", "jnp.cumsum(x) * <num>",
        "(x.astype(jnp.int32) // 2)", "(x % <num>)", "jnp.maximum(x, <num>)", "jax.jit(lambda v: v + <num>)(x)",
        "jnp.arange(x.shape[0]) * <num>", "jax.checkpoint(lambda v: jnp.sin(v) * <num>)(x)",
        "jnp.select([x > <num>, x < 0], [x, <num>], <int>)", "(x > <num>)", "lax.map(lambda v: v * <num>, x)",
        "jax.jvp(lambda v: v * <num>, (x,), (x,))[1]", "(x.astype(jnp.float16) * <num>)",
        "functools.reduce(lambda a, b: a * b, [x, <num>, 2])", "sum([x, x * <num>])", "x.astype(jnp.int32) + <int>"),
    "sliced": (
        "x[:<int>]", "x[<int>:]", "x[-<few>:]", "x[<few>:-1]", "x[::1 + <few>]", "jnp.arange(<few>)",
        "jnp.zeros(<few>)", "jnp.full((<few>, 2), <num>)", "jnp.stack([x] * (1 + <few>))", "jnp.asarray(<list>)",
        "jnp.array(<list>, jnp.float32)", "jnp.repeat(x, 1 + <few>)", "jnp.concatenate([x, x[:<int>]])",
        "jnp.arange(<num> % 4)", "lax.iota(jnp.int32, 1 + <few>)"),
    "jax": (
        "jax.device_put(<num>)", "jax.device_put((x, <num>))", "x.aval.str_short()", "jax.typeof(x * <num>).shape",
        "jax.tree_util.Partial(jnp.add, <num>).args", "jax.tree_util.Partial(jnp.add, <num>)(x)", "repr(x.aval)",
        "(jax.ShapeDtypeStruct(x.shape, x.dtype) == jax.ShapeDtypeStruct((<int>,), x.dtype))", "(x.shape == (<int>,))",
        "repr(jax.eval_shape(lambda v: v * <num>, x))", "(x.aval == jax.core.ShapedArray((<few>,), x.dtype))",
        "str(jax.tree.structure((x, [<num>])))", "jax.tree.leaves({'a': <num>, 'b': x})", "jnp.result_type(x, <num>)",
        "(jnp.shape(<num>), jnp.ndim(<num>))", "f'{x.shape} {x.dtype}'", "str(jax.make_jaxpr(lambda v: v * 2)(x))",
        "jax.eval_shape(lambda v, k: (v * k, v.sum()), x, <num>)", "hash(x.shape) == hash((<int>,))",
        "x.aval.update(dtype=<dtype>)",
        "jnp.promote_types(<dtype>, x.dtype)", "jnp.zeros(x.shape, <dtype>)", "jnp.asarray(<num>, <dtype>)",
        "x.nbytes", "len(x)",
        "jax.tree.map(lambda a, b: a is b, (x, <num>), (x, <num>))",
        "jax.tree.reduce(operator.add, [<num>, x[0], <int>])",
        "jnp.finfo(x.dtype).max > <num>", "jax.tree.structure((<num>, x)) == jax.tree.structure((1, 2))",
        "jnp.iinfo(jnp.int8).max + <int>",
        "jax.tree_util.tree_map_with_path(lambda path, v: (jax.tree_util.keystr(path), v), {'a': <num>, name: x})",
        "jax.lax.stop_gradient((x, <num>))", "jnp.array(<num>).astype(<dtype>)", "jax.device_get((x, <num>))",
        "x.sharding == x.sharding"),
    "dtype": ("jnp.float32", "jnp.float16", "jnp.bfloat16", "jnp.int32", "jnp.int8", "jnp.uint8", "jnp.bool_"),
    "any": (
        "<jax>", "<int>", "<num>", "<bool>", "<text>", "<list>", "<numpy>", "<scalar>", "<array>", "<sliced>",
        "(<int>, <num>)", "{name: <num>, 'k': <array>}", "Pair(<num>, <array>)", "{<int>: <text>}",
        "[<scalar>, <num>]", "{<int>, <int>}"),
}

# The kinds of the variables that a statement makes, and its lines.
STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("int",), "{0} = <int>"),
    (("num",), "{0} = <num>"),
    (("bool",), "{0} = <bool>"),
    (("text",), "{0} = <text>"),
    (("list",), "{0} = <list>"),
    (("scalar",), "{0} = <scalar>"),
    (("array",), "{0} = <array>"),
    (("any",), "{0} = <any>"),
    (("any",), "{0} = <jax>"), (("any",), "{0} = <jax>"), (("any",), "{0} = <sliced>"),
    (("any",), "{0} = <numpy>"),
    (("scalar",), "{0} = <scalar> * <numpy>"),
    ((), "items.append(<num>)"),
    ((), "if items: items.pop()"),
    ((), "items[:] = <list>"),
    ((), "items.sort()"),
    ((), "items[0:1] = [<num>, <num>]"),
    ((), "items.insert(<int>, <num>)"),
    ((), "items += [<num>]"),
    ((), "if len(items) > 1: del items[0]"),
    ((), "box.add(<num>)"),
    ((), "box.v = <num>"),
    ((), "SEEN.append(<text>)"),
    ((), "TABLE[name] = <num>"),
    ((), "TABLE.pop(name, None)"),
    ((), "TABLE.setdefault(<text>, <num>)"),
    ((), "total(<num>)"),
    ((), "print(<text>, <int>)"),
    ((), "globals()['TOTAL'] = <num>"),
    (("num", "int"), "{0}, {1} = <num>, <int>"),
    (("num", "list"), "{0}, *{1} = [<num>, *<list>]"),
    (("num",), "{0} = 0\nfor i in range(<few>):\n    {0} += i * <num>"),
    (("num",), "{0} = <num>\nfor v in <list>:\n    if v > <num>: break\n    {0} = {0} + v\nelse:\n    {0} = -1"),
    (("array",), "{0} = x\nfor i, v in enumerate(<list>):\n    {0} = {0} * v + i"),
    (("int",), "{0} = <int> % 7\nwhile {0} > 2:\n    {0} -= 2"),
    (("num",), "if <bool>:\n    {0} = <num>\nelif <bool>:\n    {0} = <int>\nelse:\n    {0} = <num>"),
    (("array",), "if <bool>:\n    {0} = <array>\nelse:\n    {0} = x"),
    ((), "if <bool>:\n<body>"),
    ((), "for i in range(<few>):\n<body>"),
    ((), "if <bool>: return {{'early': <any>, 'x': x * <num>}}"),
    (("num",),
     "try:\n    {0} = check(<num>)\nexcept ValueError as error:\n    {0} = len(str(error))\n"
     "except KeyError as error:\n    {0} = error.args[0]\nfinally:\n    SEEN.append('checked')"),
    (("num",),
     "try:\n    {0} = <num> / <int>\nexcept ZeroDivisionError as error:\n    {0} = str(error)[:5].count('d')"),
    (("any",), "try:\n    {0} = items[<int>]\nexcept IndexError as error:\n    {0} = str(error)"),
    (("any",), "try:\n    {0} = TABLE[<text>]\nexcept KeyError as error:\n    {0} = error.args"),
    (("text",),
     "try:\n    {0} = str(int(<num>))\nexcept (OverflowError, ValueError) as error:\n    {0} = str(error)"),
    (("list",), "{0} = []\nwith Guarded({0}, True):\n    {0}.append(check(<num>))"),
    (("list", "int"), "{0} = []\nwith noted({0}, <num>) as {1}:\n    {0}.append(<int>)"),
    (("num",), "step = counter(<num>)\nstep(<int>)\n{0} = step() + step(<num>)"),
    (("num", "any"),
     "point = Point(<num>, b=<num>)\npoint.tags.append(<int>)\npoint.a += <num>\n"
     "{0}, {1} = point.norm(), point.tags"),
    (("num",),
     "model = Child(<num>, k=<num>, extra=<int>)\nmodel.double = <num>\n"
     "{0} = model.w + model.extra + model[1] + len(model)"),
    (("array",), "model = Base.of(<num>) + <num>\n{0} = model(x) if hasattr(model, 'made') else x * 3"),
    (("array", "num"), "model = Base(<num>)\nmodel.w = model.w * 2\n{0} = model(x)\n{1} = model.double"),
    (("any",), "fields = dataclasses.replace(Point(<num>), b=<num>)\n{0} = dataclasses.asdict(fields)"),
    (("any",),
     "found = {{k: <num> for k in ('a', name)}}\nfound[<text>] = <num>\n{0} = sorted(found.items(), key=str)"),
    (("any",),
     "groups = collections.defaultdict(list)\nfor v in <list>: groups[v > <num>].append(v)\n{0} = dict(groups)"),
    (("any",), "seen = set()\nfor v in <list>: seen.add(v)\nseen |= {{<int>}}\n{0} = (len(seen), <int> in seen)"),
    (("any",),
     "def inner(a, b=<num>, *rest, **more): return a * b + len(rest) + more.get('c', <num>)\n"
     "{0} = (inner(<num>), inner(1, <num>, 3, c=<int>))"),
    (("any",), "walker = steps(<num>, 4)\nfirst = next(walker)\n{0} = [first, walker.send(<num>), *walker]"),
    (("any",), "fns = [lambda a, i=i: a * i + <num> for i in range(1 + <few>)]\n{0} = [fn(<num>) for fn in fns]"),
    (("any",), "fns = [lambda a: a * i for i in range(1 + <few>)]\n{0} = [fn(<num>) for fn in fns]"),
    (("any",),
     "match <int>:\n    case 1 | 2: {0} = <num>\n    case k if k < 0: {0} = (k, <num>)\n"
     "    case _: {0} = <text>"),
    (("any",),
     "match Pair(<num>, <int>):\n    case Pair(left=0.5): {0} = 'half'\n"
     "    case (a, b) if a > b: {0} = a - b\n    case _: {0} = None"),
    (("any",), "{0} = jax.vmap(lambda v: lax.scan(lambda c, k: (c * <num> + k, c + v), v, x)[0])(x)"),
    (("any",),
     "{0} = jax.value_and_grad(lambda p: jnp.sum(p['w'] * x) * <num> + p['b'])({{'w': x, 'b': <num> * 1.0}})"),
    (("any",), "{0} = jax.tree.map(lambda v: v * <num>, {{'a': x, 'b': [<num>, <int>]}})"),
    (("any",), "best = max(<list>, key=lambda v: -abs(v - <num>))\n{0} = (best, [v is best for v in items])"),
    (("any",), "{0} = [(i, j) for i in range(<few>) for j in range(i) if i + j != <int>]"),
    (("any",), "{0} = {{str(k): k * <num> for k in <list>}}"),
    (("any",), "total_of = functools.partial(mixed, <num>, k=<num>)\n{0} = (total_of(), total_of(<int>, z=1))"),
    (("any",), "k = <int>\nk += <int>\nk *= 2\n{0} = (k, k % 5, -k // 3)"),
    (("any",), "{0} = (x[0] > <num>) & (x[1] < <num>)"),
    (("any",), "class Local(Base):\n    scale = <num>\n{0} = (Local(<num>).double, Local(<int>)(x))"),
    (("any",),
     "@dataclasses.dataclass\nclass Made:\n    q: float = <num>\n    def up(self): return self.q + <num>\n"
     "{0} = (Made().up(), Made(<num>).up())"),
)
