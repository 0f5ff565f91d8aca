"""The grammar of generated programs: kind → rows of text with holes.

A hole `<kind>` is filled by a row of that kind; what fills it takes the indentation of its line. A
`#` becomes a number that is new in each row. Rows are ordered from plain to odd, for a failing
program shrinks towards the first of them; the first row of each kind has no compound holes.

The variables: arrays `x`, `y` (arguments) and `z`; ints `n` (an argument), `i`, `j`; a string `s`, a
tuple `t`, lists `items` (an argument), `seen`, a dict `table`, a set `log`, a `deque` `queue`; objects
`box` (an argument) and `vec`; the module's `TOTAL` and `NAMES`.
"""

from __future__ import annotations

import textwrap


def blocks(text: str) -> tuple[str, ...]:
    """Rows of several lines, with an empty line between two of them."""
    return tuple(textwrap.dedent(text).strip("\n").split("\n\n"))


GRAMMAR: dict[str, tuple[str, ...]] = {
    # --- terminals
    "number": ("0", "1", "2", "3", "-1", "5", "-3"),
    "count": ("1", "2", "3", "0"),
    "intvar": ("i", "j"),
    "arrvar": ("z", "x", "y"),
    "letter": ("'a'", "'b'", "'cd'", "''"),
    "op": ("+", "-", "*"),
    "compare": (">", "<", "==", "!=", ">=", "<="),
    "plain": ("i", "n", "j", "box.count", "len(items)", "TOTAL"),
    "bool": ("True", "False"),
    "error": ("ValueError", "KeyError", "Custom", "(KeyError, ZeroDivisionError)", "Exception", "LookupError"),
    # --- expressions
    "int": (
        "<number>", "<intvar>", "n", "(<int> <op> <int>) % 97", "len(items)", "box.count", "abs(<int>)",
        "max(<int>, <int>)", "min(<int>, <int>, <number>)", "x.shape[0]", "x.ndim", "divmod(<int>, 3)[1]",
        "len(table)", "(lambda q: q + <int>)(<int>)", "sum(k for k in range(<int> % 4))", "int(box.name == <letter>)",
        "(<int> if <test> else <int>)", "sum([k * <int> for k in range(<count>)])", "len(<str>)", "twice(<int>)",
        "spread(<int>, <number>, k=<int>)",
        "spread(*range(<count>), **{'k': <int>})", "total(*<seq>)",
        "box.double", "len(vec)", "vec[<count> % len(vec)]", "functools.reduce(operator.add, <seq>, <int>)", "~<int>",
        "max(<seq>, default=<number>)", "next(iter(<seq>), <number>)", "point.a", "Color.RED.value", "<int> // 2",
        "int(jnp.sum(<arrvar>) > <number>)", "round(<int> / 2)", "bool(<test>)", "int(float(<int>) * 1.5)",
        "len(queue)", "sum(1 for q in items if isinstance(q, int))", "hash(<int>) % 7", "(<int> & 6) | 1",
        "(<int>, <int>)[<int> % 2]", "(table.get(<int>, <number>) if isinstance(table.get(<int>, 0), int) else 1)",
        "ord(<letter> or 'z')", "box.counter()", "(int(<str>) if <str>.isdigit() else <number>)", "[*<seq>, <int>][-1]",
        "TOTAL",
    ),
    "float": (
        "0.5", "<int> / 4", "float(<int>)", "1.5 * <int>", "opts['lr']", "math.sqrt(abs(<int>))", "-0.25",
        "round(<int> / 3, 2)",
    ),
    "scalar": ("<number>", "0.5", "n", "i", "<float>", "<int>", "opts['lr']", "TOTAL"),
    "str": (
        "s", "<letter>", "box.name", "f'{<plain>}'", "(<str> + <str>)[-6:]", "f'{<plain>:03d}{s!r}'", "str(<int>)",
        "'%s-%d' % (s, <int>)", "'{}{b}'.format(<int>, b=<letter>)", "<str>.upper()", "'-'.join(map(str, <seq>))",
        "<str>[::-1]", "s.replace('a', <letter>)", "repr(<seq>)[:8]", "Color.RED.name", "type(<arrvar>).__name__[:3]",
        "f'{float(<arrvar>[0]):.2f}'", "str(<arrvar>.dtype)", "f'{<arrvar>.shape}'", "<str>.strip('a')",
    ),
    "seq": (
        "[<int>, <int>]", "(<int>,)", "range(<count>)", "[k + <int> for k in range(<count>)]", "sorted(log)[:3]",
        "[q for q in items if isinstance(q, int)][:4]", "list(range(<count>))[::-1]",
        "sorted(<seq>, key=lambda q: -q)", "tuple(countup(<count>))", "[*<seq>, <int>][-4:]", "list(map(abs, <seq>))",
        "list(filter(None, <seq>))", "[a + b for a, b in zip(<seq>, range(3))]", "[k for k, v in enumerate(<seq>)]",
        "list(vec)", "list(queue)[:3]", "list(itertools.chain(<seq>, [<int>]))[:4]", "list(reversed(<seq>))",
        "[int(q) for q in <arrvar>[:2]]",
    ),
    "arr": (
        "<arrvar>", "(<arr> <op> <arrvar>)", "(<arrvar> <op> <scalar>)", "(<scalar> <op> <arrvar>)",
        "jnp.maximum(<arr>, <scalar>)", "jnp.tanh(<arr>)", "-<arr>", "(<arrvar> / 2)", "box.value",
        "jnp.where(<arrvar> > <number>, <arr>, <arr>)", "<arrvar>.at[<count> % 2].set(<scalar>)",
        "helper(<arr>, <scalar>)", "jnp.sum(<arr>) * y", "jnp.roll(<arr>, <int>)", "<arrvar>.at[0].add(<scalar>)",
        "jnp.clip(<arr>, -2, <number>)", "jnp.full_like(<arrvar>, <scalar>)", "jnp.full(x.shape, <scalar>)",
        "jnp.cumsum(<arr>, axis=0)", "<arrvar>[::-1]", "jnp.ones(x.shape[0]) * <scalar>", "jnp.arange(x.shape[0])",
        "<arrvar>.astype(jnp.int32)", "abs(<arrvar>)", "jnp.stack([<arr>, <arr>])[<count> % 2]",
        "jnp.asarray(<scalar>) + x", "jax.nn.relu(<arr>)", "scaled(<arr>)", "<arrvar>[jnp.argsort(<arrvar>)]",
        "(<arr> if <test> else <arr>)", "jnp.zeros_like(x) + <float>", "opts['w'] * x",
        "jax.grad(lambda q: jnp.sum(q * q * <float>))(<arrvar> * 1.0)", "jax.vmap(lambda q: q * <scalar>)(<arrvar>)",
        "jnp.sort(<arrvar>)", "layer(<arr>)", "vec.scale(<arrvar>)", "functools.partial(helper, b=<scalar>)(<arr>)",
        "(lambda a, b=<scalar>: a * b)(<arr>)", "sum((q for q in [x, y, z]), <scalar>)", "<arrvar>.reshape(-1)",
        "jnp.concatenate([<arrvar>[1:], <arrvar>[:1]])", "<arrvar>.sum(axis=0, keepdims=True) + x", "<arrvar> ** 2",
        "jnp.sum(<arrvar>, axis=-1) + <arrvar>", "jnp.asarray(np.asarray(<arrvar>))", "<arrvar>.astype('float16')",
        "x + <arrvar>[<count> % 2]", "jnp.where(<arrvar> == <arrvar>, <scalar>, <scalar>) + x",
        "(<arrvar> > <number>)", "jax.lax.cond(jnp.sum(<arrvar>) > <number>, lambda q: q * 2, lambda q: q, <arrvar>)",
        "jnp.array(x)", "jnp.minimum(*[<arr>, <arr>])", "jax.tree.map(lambda a: a + <scalar>, {'k': <arr>})['k']",
        "jnp.mod(<arrvar>, 3)", "jax.lax.stop_gradient(<arr>)", "float(jnp.sum(<arrvar>)) * x",
        "jnp.linspace(0, 1, x.shape[0])", "+<arrvar>",
        "jax.value_and_grad(lambda q: (q * x * 1.0).sum())(<float>)[1] * y",
    ),
    "test": (
        "<int> > <number>", "<int> <compare> <int>", "<int> % 2", "not <int>", "<int> in items[:2]", "items",
        "not log", "0 <= <int> < 5", "<int> > 1 and <int> < 3", "<int> or <int>", "box.name == 'a'", "x.ndim == 1",
        "<bool>", "isinstance(n, int)", "isinstance(x, jax.Array)", "isinstance(<int>, bool)", "box is None", "x is y",
        "x is z", "<str> < <str>", "s", "<letter> in s", "any(q > <number> for q in <seq>)", "all(<seq>)",
        "<seq> == <seq>", "vec", "vec == Vec(<seq>)", "<int> in vec", "hasattr(box, 'extra')", "callable(box)",
        "x.shape[0] > 3", "x.dtype == jnp.float32", "<int> in table", "'k' in opts",
        "isinstance(box, Box) and box.count > <number>", "items is box.kids",
        "point == Point(<number>, 2)", "not (<test>)", "point.a < j", "None is table.get(<int>)", "len(x) > 2",
        "<int> is not None", "z.shape == x.shape", "type(n) is int",
    ),
    "arrtest": (
        "jnp.sum(<arrvar>) > <number>", "<arrvar>[0] < <number>", "(<arrvar> > <number>).any()",
        "jnp.all(<arrvar> == x)", "<arrvar>.max() > <int>", "float(<arrvar>[0]) > <number>",
        "jnp.sum(<arrvar>) > <number> and <test>", "not <arrvar>.min() < <number>",
    ),
    "any": (
        "<int>", "<arr>", "<str>", "<seq>", "{<int>: <arr>}", "(<int>, <arr>)", "None", "box", "[<arr>, s]", "<float>",
    ),
    # --- statements
    "simple": (
        "<intvar> = <int>", "<arrvar> = <arr>", "<intvar> <op>= <int>", "z <op>= <arr>", "s = <str>",
        "t = (<int>, <arr>)", "items.append(<int>)", "box.count += <int>", "box.value = <arr>", "items.reverse()",
        "box.name = <letter>", "table[<int>] = <any>", "items[:] = items[-3:]", "table.setdefault(<int>, [])",
        "bump()", "log.add(<int>)", "items.insert(0, <arr>)", "items.extend(log)", "table.pop(<int>, None)",
        "box.kids.append(<int>)", "swap = items, box; items, box = swap", "print(<str>)", "print(<int>, <seq>)",
        "print(<arrvar>)", "i, *rest = [<int>, *<seq>]", "j, (i, s) = <int>, (<int>, <str>)", "seen.append(<any>)",
        "del items[1:]", "items = [q for q in items if not isinstance(q, int) or q > <number>]",
        "seen += [float(jnp.sum(z))]", "table = {k: v for k, v in table.items() if k != <number>}",
        "z = sum((x * k for k in range(<count>)), y)", "log |= {k % 3 for k in range(<count>)}",
        "j = len([0 for a in items[:3] for b in log])", "x, y = y, x", "table.update({<int>: <int>}, k=<int>)",
        "items.sort(key=lambda q: q if isinstance(q, int) else 0)", "log.discard(<int>)", "queue.appendleft(<int>)",
        "queue.append(<arr>)", "queue.rotate(<count>)", "vec += [<int>]", "vec = vec + Vec(<seq>)", "vec[0] = <int>",
        "point = dataclasses.replace(point, a=<int>)", "assert <test>, <str>",
        "setattr(box, <letter> or 'extra', <int>)", "box.double = <int>", "seen.append(sorted(log))",
        "opts['k'] = <any>", "opts.pop('lr') if len(opts) > 2 else None", "queue.pop() if queue else None",
        "NAMES.append(<str>)", "log = log - {<int>}", "items += [<int>]", "items *= <count>; del items[4:]",
        "seen.extend(divmod(<int>, 4))", "box['k'] = <int>", "seen.append(z.tolist())",
        "seen.append(jnp.sum(<arr>).item())", "table = dict(table, last=<int>)", "table = {**table, 'z': <arr>}",
        "i, j = j, i", "t = t[:1] + (<any>,)", "z = box.apply(lambda q: q * <scalar>, <arr>)",
        "seen.append([int(q) for q in <arrvar>[:2]])", "z = jnp.asarray(z, x.dtype)", "seen.append(f'{<plain>} {s}')",
        "box.kids, items = items, box.kids", "stack.append(<any>); stack.pop()",
        "it = iter(<seq>); seen.append(next(it, None)); seen.extend(it)", "a, b = map(abs, (<int>, <int>)); i = a - b",
        "del box.extra", "z = z.at[jnp.array([0, 1])].multiply(<scalar>)", "log.update(<seq>)", "seen.append(x is y)",
        "z = jnp.broadcast_to(jnp.asarray(<scalar>), x.shape) + 0 * z",
    ),
    "raising": (
        "raise ValueError(<int>)", "{}[<int>]", "items[<int> + 7]", "1 // (<int> % 2)", "raise Custom('c', i)",
        "raise KeyError(s) from None", "int('x' + s)", "x + jnp.ones(7)", "box.missing", "raise Custom", "[].pop()",
        "jnp.zeros((2, 3)) @ x", "twice()", "(1, 2) + <seq>", "len(<int>)", "i, j = <seq>", "s + 1", "x.nothing",
        "raise StopIteration(i)", "log.remove(99)", "table[99]", "next(iter(()))", "undefined", "jnp.sum(s)",
    ),
    "call": (
        "g#(<int>)", "g#(<int>, <int>)", "g#(a=<int>)", "g#(b=<int>, *(<int>,))", "sum(g#(q) for q in range(2))",
        "max(map(g#, (<int>, <int>)))", "functools.partial(g#, b=<int>)(<int>)",
    ),
    "compound": blocks("""
        if <test>:
            <block>
        else:
            <block>

        if <test>:
            <block>

        if <test>:
            <block>
        elif <test>:
            <block>
        else:
            <block>

        if <arrtest>:
            <block>
        else:
            <block>

        if <arrtest>:
            <block>

        if <test>:
            <raising>

        if (i := <int>) > 1 and (j := i - 1) < 4:
            <block>

        while (i := i - 1) > 2:
            <block>

        if <test>:
            return <int>

        try:
            <block>
        except <error> as e:
            seen.append(str(e)[:30])

        try:
            <block>
            if <test>:
                <raising>
        except <error> as e:
            seen.append(type(e).__name__)
            <block>

        try:
            <block>
            <raising>
        except <error>:
            <block>
        else:
            <block>
        finally:
            <block>

        try:
            <block>
            <raising>
        except <error> as e:
            print(<str>)
            raise

        try:
            <raising>
        except <error> as e:
            raise Custom('from', <int>) from e

        try:
            <raising>
        except <error>:
            raise Custom('in', <int>)

        try:
            <block>
        finally:
            <block>

        try:
            try:
                <raising>
            finally:
                <block>
        except <error> as e:
            seen.append(e.args)

        with Noting(seen, swallow=<bool>) as m:
            <block>

        with Noting(seen, swallow=<bool>):
            <block>
            if <test>:
                <raising>

        with noted(seen, <int>) as m, Noting(seen, <bool>):
            <block>

        with contextlib.suppress(ValueError, LookupError):
            <block>
            <raising>

        def g#(a, b=<int>):
            nonlocal i, j, x, y, z, s, t, items, log, table, box, seen, queue, vec, point
            <body>
            return (a + b + <int>) % 50
        i = <call>

        def g#(a, *args, b=<int>, **kwargs):
            nonlocal i, z
            <innerbody>
            return a + b + len(args) + len(kwargs)
        j = <call>

        def g#(a=1):
            nonlocal i, j, x, y, z, s, t, items, log, table, box, seen, queue, vec, point
            <body>
            yield <int>
            <body>
            yield a
        for k# in g#(<int>):
            seen.append(k#)

        def g#(a=1):
            for q in range(a % 3):
                r = yield q + <int>
                seen.append(r)
            return <int>
        gen = g#(<int>)
        seen.append(next(gen, None))
        seen.extend(gen)

        def g#(a):
            return a if a <= 0 else g#(a - 1) + <number>
        i = g#(<int> % 4)

        class C#:
            tag = <int>
            def __init__(self, a):
                self.a = a
            def get(self, b=<number>):
                return self.a + b + self.tag
            @property
            def p(self):
                return self.a * 2
        c = C#(<int>)
        i = c.get() + c.p
        C#.tag = <int>
        j = c.get(<int>)

        match <any>:
            case int() | float():
                <block>
            case [a, *_]:
                <block>
            case {'k': v}:
                <block>
            case str() as w:
                <block>
            case _:
                <block>

        match (<int>, <seq>):
            case (0, _):
                <block>
            case (a, [b, *c]) if a > b:
                <block>
            case (1 | 2, q):
                <block>

        match point:
            case Point(a=1):
                <block>
            case Point(a, b) if a > b:
                <block>
            case _:
                <block>

        fs = [lambda q, k=k: q + k + <int> for k in range(<count>)]
        i = sum(h(<int>) for h in fs)

        def g#():
            global TOTAL
            TOTAL = (TOTAL + <int>) % 9
            <innerbody>
        g#()

        @traced(seen)
        def g#(a, b=<int>):
            return a * b
        i = <call>
    """),
    "loop": blocks("""
        for k# in range(<count>):
            <loopblock>

        for k# in list(items)[:3]:
            <loopblock>

        w# = <count>
        while w# > 0:
            w# -= 1
            <loopblock>

        for k#, v# in enumerate(<seq>):
            i = k# + v#
            <loopblock>
        else:
            <block>

        for k# in countup(<count>):
            <loopblock>

        for k#, q# in zip(range(3), items):
            <loopblock>

        for k#, v# in list(table.items())[:3]:
            <loopblock>

        for k# in <seq>:
            j += k#
            if <test>:
                <leave>
            <loopblock>
        else:
            <block>

        w# = 0
        while True:
            w# += 1
            if w# > <count> or <test>:
                break
            <loopblock>

        w# = 0
        while jnp.sum(x) < <int> and w# < 3:
            w# += 1
            x = x + 1

        for k# in range(<count>):
            if <arrtest>:
                <leave>
            <loopblock>

        for k# in range(<count>):
            try:
                <loopblock>
            except <error> as e:
                seen.append(str(e)[:9])
                <leave>
            finally:
                <block>

        for k# in range(<count>):
            with Noting(seen, <bool>):
                if <test>:
                    <leave>
                <loopblock>

        for k# in range(<count>):
            print(k#, <str>)
            <loopblock>

        for k# in x[:2]:
            y = y + k#
            <loopblock>

        for box.name in <letter>:
            <loopblock>

        it# = iter(<seq>)
        for k# in it#:
            i += k# + next(it#, 1)
            <loopblock>
    """),
    "leave": ("break", "continue"),
    "result": (
        "x, z, i, j, items, seen", "{'a': [x, y], 'b': table, 'c': sorted(log)}, seen", "z * i, box, seen, s, t",
        "vec, point, queue, opts, z", "(lambda: (z, i)), seen", "[x, y, z], n, TOTAL, table",
    ),
}

HEADER = """
TOTAL, NAMES = 1, []

def f(x, y, n, box, items, opts):
    i, j, z, s, t, log, table, seen, stack = 0, 1, x, 'ab', (1, y), set(), {}, [], []
    queue, vec, point = collections.deque([1, 2], maxlen=4), Vec([1, 2]), Point(1, 2)
    def bump():
        nonlocal i
        i += 1
        box.count -= 1
"""
