"""The grammar of generated programs: kind → rows of text with holes.

A hole `<kind>` is filled by a row of that kind; what fills it takes the indentation of its line. A
`#` becomes a number that is new in each row. Rows are ordered from plain to odd, for a failing
program shrinks towards the first of them; the first row of each kind has no compound holes.

The variables: arrays `x`, `y` (arguments) and `z`; ints `n` (an argument), `i`, `j`; a string `s`, a
tuple `t`, lists `items` (an argument), `seen`, `heap`, dicts `table`, `counts`, `groups`, `lru`, sets `log`,
`frozen`, a `deque` `queue`; objects `box` (an argument), `vec`, `point`, `grade`, `serial`; the module's `TOTAL`,
`NAMES` and `TABLE`.
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
    "plain": ("i", "n", "j", "box.count", "len(items)", "TOTAL", 'opts.get("lr")'),
    "bool": ("True", "False"),
    "slice": ("1:", ":<int>", "::-1", "<number>:", "<int>:<int>", "-2:", "::2", ":"),
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
        "len({<int>, <number>})", "bisect.bisect([0, 2, 4], <int>)", "math.gcd(<int>, 6)", "int(np.int32(<int> % 9))",
        "pow(<int>, 2, 7)", "functools.reduce(lambda a, b: a * b % 31, <seq>, 1)", "counts.total()", "len(heap)",
        "sum(collections.Counter(<seq>).values())", "len(frozenset(<seq>) | log)", "operator.itemgetter(0)([<int>])",
        "cached(<int>)", "fib(<int> % 6)", "kind(<any>)", "len(jax.tree.leaves(<any>))", "len(x[<slice>])",
        "math.floor(<float>)", "next(serial)", "len(groups)", "grade.rank", "(<int>).bit_length()",
        "int(opts['lr'] * 8)",
        "Flags(<int> & 3).value", "int(x[<int> % 2])", "[<int>, <int>].index(<number>)", "box.shape[0]",
        "counts[<str>]", "len(lru)", "heap[0][0]", "sum(row[0] for row in heap)",
    ),
    "float": (
        "0.5", "<int> / 4", "float(<int>)", "1.5 * <int>", "opts['lr']", "math.sqrt(abs(<int>))", "-0.25",
        "round(<int> / 3, 2)",
        "math.exp(-abs(<float>))", "opts['lr'] * <int>", "n * 0.5", "statistics.mean(<seq>)", "np.sqrt(abs(<int>))",
        "max(<float>, 0.1)", "float(np.float32(<float>))",
    ),
    "scalar": (
        "<number>", "0.5", "n", "i", "<float>", "<int>", "opts['lr']", "TOTAL", "True", "np.float32(<float>)",
        "<int> + 0j",
    ),
    "str": (
        "s", "<letter>", "box.name", "f'{<plain>}'", "(<str> + <str>)[-6:]", "f'{<plain>:03d}{s!r}'", "str(<int>)",
        "'%s-%d' % (s, <int>)", "'{}{b}'.format(<int>, b=<letter>)", "<str>.upper()", "'-'.join(map(str, <seq>))",
        "<str>[::-1]", "s.replace('a', <letter>)", "repr(<seq>)[:8]", "Color.RED.name", "type(<arrvar>).__name__[:3]",
        "f'{float(<arrvar>[0]):.2f}'", "str(<arrvar>.dtype)", "f'{<arrvar>.shape}'", "<str>.strip('a')",
        "re.sub('[0-9]', '#', <str>)", "json.dumps(list(<seq>))", "<str>.center(5, '*')",
        "f'{<plain>:.3g}|{<plain>:>4}'",
        "''.join(sorted(<str>))", "<str>.partition('-')[0]", "' '.join(<str>.split('b'))", "str(np.float32(<float>))",
        "repr(grade)", "','.join(map(str, log))", "str(list(counts))[:9]", "str(<seq>)[:6]", "str(Flags(<int> & 3))",
    ),
    "seq": (
        "[<int>, <int>]", "(<int>,)", "range(<count>)", "[k + <int> for k in range(<count>)]", "sorted(log)[:3]",
        "[q for q in items if isinstance(q, int)][:4]", "list(range(<count>))[::-1]",
        "sorted(<seq>, key=lambda q: -q)", "tuple(countup(<count>))", "[*<seq>, <int>][-4:]", "list(map(abs, <seq>))",
        "list(filter(None, <seq>))", "[a + b for a, b in zip(<seq>, range(3))]", "[k for k, v in enumerate(<seq>)]",
        "list(vec)", "list(queue)[:3]", "list(itertools.chain(<seq>, [<int>]))[:4]", "list(reversed(<seq>))",
        "[int(q) for q in <arrvar>[:2]]",
        "list(itertools.accumulate(<seq>))", "[len(list(g)) for _, g in itertools.groupby(<seq>)]", "list(log)",
        "list(itertools.islice(itertools.count(<int>), <count>))", "[a - b for a, b in itertools.pairwise(<seq>)]",
        "list(itertools.takewhile(lambda q: q < <number>, <seq>))", "sorted(frozenset(<seq>) & {1, 2, 3})",
        "list(dict.fromkeys(<seq>))", "list(collections.OrderedDict((k % 3, k) for k in <seq>).values())",
        "heapq.nsmallest(2, <seq>)", "list(<seq>)[<slice>]", "list(map(operator.neg, <seq>))",
        "[a * b for a, b in itertools.product(<seq>, (1, 2))][:4]", "copy.copy(<seq>)", "list(frozenset(<seq>))",
        "list(range(<int> % 5, <int> % 7))", "list(slice(<int>, None).indices(4)[:2])", "list(counts.values())",
        "random.Random(<count>).sample(range(9), 2)", "list(lru)", "[q[0] for q in sorted(heap)]", "list(x.shape)",
        "(np.arange(3) + <int>).tolist()", "jax.tree.leaves([<int>, <seq>])",
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
        "jnp.sum(<arrvar>[:<int>]) + x", "jnp.zeros(abs(<int>) % 4).sum() + x", "jnp.arange(abs(<int>) % 5).sum() * x",
        "jnp.pad(<arrvar>, (0, abs(<int>) % 3))[:x.shape[0]]", "<arrvar>[x > <number>].sum() + y",
        "<arrvar>[<slice>].sum() * x",
        "jax.lax.fori_loop(0, abs(<int>) % 4, lambda i_, q: q * 0.5 + i_, x * 1.0)", "jnp.asarray(<seq>).sum() + x",
        "jax.lax.scan(lambda c, q: (c + q, c * <scalar>), x[0], x)[1]", "(<arrvar>.T @ x) * y",
        "jnp.outer(<arrvar>, x).sum(0)",
        "jax.lax.switch(abs(<int>) % 2, [lambda q: q + 1, lambda q: q * 2], <arrvar>)",
        "jnp.repeat(<arrvar>, 2)[:len(x)]",
        "jax.lax.while_loop(lambda q: (q.sum() < <number>) & (len(q) > 0), lambda q: q + 1, <arrvar>)", "leaky(<arr>)",
        "jnp.dot(x, y) + z",
        "<arrvar>[jnp.nonzero(x > <number>)[0]].sum() * y", "jax.random.normal(jax.random.key(<count>), x.shape)",
        "jnp.asarray(np.arange(x.shape[0]) * <int>) + x", "np.asarray(<arrvar>) * <number>",
        "jnp.take(<arrvar>, <count> % 2)",
        "jax.grad(lambda q: jnp.sum(jnp.where(q > <number>, q * q, 0.0) * <float>))(<arrvar> * 1.0)",
        "Pair(<int>, <arr>).b",
        "jax.vmap(lambda q, k: q * k + <int>)(<arrvar>, jnp.arange(x.shape[0]))",
        "jax.checkpoint(lambda q: q * <scalar>)(<arrvar>)",
        "jax.jvp(lambda q: q * <scalar>, (<arrvar> * 1.0,), (y * 1.0,))[1]", "jnp.mean(<arrvar>) * x", "grade(<arr>)",
        "sum(box.kids, x)", "jnp.select([x > <number>, y > 1], [<arr>, y], <number>)",
        "jnp.asarray(<arr>, jnp.float32)",
        "jax.tree.reduce(operator.add, [x, {'k': <arr>}])", "x[:, None].sum(1) * <scalar>",
        "jnp.array([<int>, <int>]).max() + x",
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
        "log <= {0, 1, 2}", "opts['lr'] > 0.3", "counts and <bool>", "<int> in counts", "grade < Grade(<int>)", "heap",
        "frozen & log", "math.isclose(<float>, 0.5)", "all(map(callable, (box.apply, <int>)))",
        "isinstance(<any>, (int, str))",
        "box.name.startswith(<letter>)", "lru.get(<int>) is not None", "<seq> < <seq>", "issubclass(type(vec), Vec)",
        "(<int>, <str>) > (<int>, s)", "np.any(np.asarray(<seq>) > <number>)", "bool(jnp.any(<arrvar> > <number>))",
    ),
    "arrtest": (
        "jnp.sum(<arrvar>) > <number>", "<arrvar>[0] < <number>", "(<arrvar> > <number>).any()",
        "jnp.all(<arrvar> == x)", "<arrvar>.max() > <int>", "float(<arrvar>[0]) > <number>",
        "jnp.sum(<arrvar>) > <number> and <test>", "not <arrvar>.min() < <number>",
    ),
    "any": (
        "<int>", "<arr>", "<str>", "<seq>", "{<int>: <arr>}", "(<int>, <arr>)", "None", "box", "[<arr>, s]", "<float>",
        "frozenset({<int>})", "collections.Counter(<seq>)", "{'k': <arr>, 'n': <int>}", "Point(<int>)",
        "Pair(<int>, <arr>)",
        "np.float32(<float>)", "b'ab'", "complex(<int>, 1)", "slice(<int>)", "grade", "frozen", "(q for q in <seq>)",
        "Color.BLUE",
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
        "counts[<str>] += <int>", "counts.update(<seq>)", "groups[<int> % 3].append(<any>)", "lru[<int> % 4] = <any>",
        "lru.popitem(last=<bool>) if len(lru) > 2 else None", "heapq.heappush(heap, (<int>, len(heap)))",
        "seen.append(heapq.heappop(heap) if heap else None)", "frozen = frozen | {<int>}", "frozen -= log",
        "items[<slice>] = <seq>", "del items[<slice>]", "x = <arrvar>[<slice>]", "seen.append(list(log))",
        "seen.append(copy.deepcopy(<any>))", "box.tag = <any>", "vars(box).pop('extra', None)", "NAMES[:] = NAMES[-2:]",
        "TABLE[<str>] = <int>", "lru.move_to_end(next(iter(lru))) if lru else None",
        "seen.append(counts.most_common(1))",
        "grade = Grade(<int>)", "del table[<int>]", "seen.append(<any>) if <test> else None", "box.kids = <seq>",
        "log ^= {<int>, <number>}", "log.difference_update(<seq>)", "seen.append(list(frozen))", "x = x + opts['lr']",
        "opts['lr'] *= 0.5", "n = n + 1", "z = jax.tree.map(lambda a, b: a - <scalar> * b, x, <arr>)",
        "queue.extend(<seq>)",
        "seen.append({k: len(v) for k, v in groups.items()})", "w = {<str>: <int> for _ in range(2)}; seen.append(w)",
        "print(f'{<arrvar>} {<plain>}')", "table |= {<int>: <str>}",
        "seen.append(max(<seq>, key=lambda q: (q % 3, q), default=0))",
        "seen.append(type(<any>).__name__)", "z, *_ = [<arr>, <int>]", "(z := <arr>)", "box.kids.clear()",
        "log.pop() if log else None",
    ),
    "raising": (
        "raise ValueError(<int>)", "{}[<int>]", "items[<int> + 7]", "1 // (<int> % 2)", "raise Custom('c', i)",
        "raise KeyError(s) from None", "int('x' + s)", "x + jnp.ones(7)", "box.missing", "raise Custom", "[].pop()",
        "jnp.zeros((2, 3)) @ x", "twice()", "(1, 2) + <seq>", "len(<int>)", "i, j = <seq>", "s + 1", "x.nothing",
        "raise StopIteration(i)", "log.remove(99)", "table[99]", "next(iter(()))", "undefined", "jnp.sum(s)",
        "heapq.heappop([])", "grade < 3", "next(serial, 1, 2)", "x[9, 9]", "jnp.reshape(x, (7,))", "counts.nothing",
        "frozen.add(1)", "Point(1, 2, 3)", "jax.grad(lambda q: q)(x)", "Pair(1)", "math.sqrt(-1)", "json.loads(s)",
        "jnp.concatenate([x, 3])", "raise Custom(s, <int>) from ValueError(i)", "Grade.nothing", "'a' + <int>",
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

        def g#():
            try:
                while True:
                    r = yield len(seen)
                    seen.append((r, <int>))
            except <error> as e:
                seen.append(type(e).__name__)
                yield <int>
            finally:
                seen.append('end')
        gen = g#()
        seen.append(next(gen))
        seen.append(gen.send(<any>))
        if <test>:
            seen.append(gen.throw(ValueError(<int>)))
        gen.close()

        def g#(a):
            r = yield from countup(a % 3)
            seen.append(r)
            yield from <seq>
        seen.extend(g#(<int>))

        async def g#(a):
            await asleep()
            <innerbody>
            return a + <int>
        seen.append(driven(g#(<int>)))

        class C#(Base):
            __slots__ = ('a', 'extra')
            def __init__(self, a, *rest):
                super().__init__(a)
                self.extra = rest
            def __getattr__(self, name):
                return name + <letter>
            def __call__(self, q):
                return super().__call__(q) + <int>
            @classmethod
            def make(cls, a):
                return cls(a, <any>)
        c = C#.make(<int>)
        i = c(<int>)
        seen.append((c.extra, c.other, c.half))

        @functools.lru_cache(maxsize=2)
        def g#(a, b=0):
            seen.append(a)
            return a * 2 + b
        seen.append([g#(<int>), g#(<int>, b=<number>), g#(<int>)])

        @dataclasses.dataclass(frozen=True, order=True)
        class D#:
            a: int
            b: object = dataclasses.field(default=None, compare=False)
        d = D#(<int>, <any>)
        seen.append((d, d < D#(<int>), hash(d) == hash(D#(d.a)), dataclasses.replace(d, a=<int>)))

        with contextlib.ExitStack() as es:
            es.callback(seen.append, <int>)
            m = es.enter_context(noted(seen, <any>))
            <block>

        def g#(start):
            def more(k=1):
                nonlocal start
                start += k
                return start
            return more
        c = g#(<int>)
        seen.append((c(), c(<int>), c.__closure__[0].cell_contents))

        memo = {}
        def g#(a):
            if a not in memo:
                memo[a] = a if a < 2 else g#(a - 1) + g#(a - 2)
            return memo[a]
        i = g#(abs(<int>) % 7)
        seen.append(memo)

        token = setting.set(<int>)
        try:
            <block>
            seen.append(setting.get())
        finally:
            setting.reset(token)

        try:
            raise ExceptionGroup('several', [ValueError(<int>), KeyError(s)])
        except* ValueError as e:
            seen.append(e.exceptions)
        except* KeyError:
            <innerbody>

        z = jax.vmap(lambda q: inside(q, <scalar>))(<arrvar>)
        y = jax.grad(lambda q: inside(q, <float>).sum())(<arrvar> * 1.0)

        def g#(q):
            <innerbody>
            return jnp.sum(q * <float>)
        z = jax.grad(g#)(<arrvar> * 1.0) + z

        first, *middle, last = <int>, *<seq>, <any>
        seen.append((first, middle, last))

        seen.append([q for q in items if (w := type(q)) is int and q > <number>])
        seen.append({a: [b for b in <seq> if b != a] for a in <seq>})

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

        w# = 0
        while queue and w# < 5:
            w# += 1
            q# = queue.popleft()
            <loopblock>

        w# = 0
        while len(items) > 1 and <test> and w# < 5:
            w# += 1
            seen.append(items.pop())
            <loopblock>

        for a#, b# in itertools.combinations(<seq>, 2):
            <loopblock>

        for k# in iter(lambda: next(serial), <number>):
            if k# > 4:
                break
            <loopblock>

        w# = 0
        while x.sum() > <number> and w# < 4:
            w# += 1
            x = x - 1
            <loopblock>
            if <test>:
                break
        else:
            <block>

        for k#, v# in groups.items():
            v#.append(<int>)
            <loopblock>

        for k# in range(abs(<int>) % 4):
            z = z * opts['lr'] + k#
            <loopblock>

        for q# in reversed(items):
            <loopblock>

        for k# in sorted(counts):
            counts[k#] -= 1
            <loopblock>

        it# = iter(<seq>)
        for k# in it#:
            i += k# + next(it#, 1)
            <loopblock>
    """),
    "leave": ("break", "continue"),
    "result": (
        "x, z, i, j, items, seen", "{'a': [x, y], 'b': table, 'c': sorted(log)}, seen", "z * i, box, seen, s, t",
        "counts, groups, lru, heap, frozen, z, seen", "grade, log, seen, table", "frozen, items, x.sum(), y[0]",
        "vec, point, queue, opts, z", "(lambda: (z, i)), seen", "[x, y, z], n, TOTAL, table",
    ),
}

HEADER = """
TOTAL, NAMES, TABLE = 1, [], {}

def f(x, y, n, box, items, opts):
    i, j, z, s, t, log, table, seen, stack = 0, 1, x, 'ab', (1, y), set(), {}, [], []
    queue, vec, point = collections.deque([1, 2], maxlen=4), Vec([1, 2]), Point(1, 2)
    counts, groups, lru, heap = collections.Counter(), collections.defaultdict(list), collections.OrderedDict(), []
    frozen, serial, grade = frozenset({1, 9}), itertools.count(2), Grade(n)
    def bump():
        nonlocal i
        i += 1
        box.count -= 1
"""
