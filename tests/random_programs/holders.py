"""What random programs have of containers that loops fill: counts and arrays by name, rows by number, queues, trees of
dicts, iterators that stay alive, objects that functions share. Rows as in productions.py, added to its.

`POOL` is a global that programs change, compared after each call.
"""

from __future__ import annotations

HEADER = '''
POOL = {"rows": [jnp.zeros(3), jnp.ones(3)], "count": collections.Counter(), "last": ("a", 0), "by": {}}

class Table:
    """Items by name and by number, changed through methods and operators."""
    def __init__(self, **items): self.items, self.reads = dict(items), 0
    def __getitem__(self, key):
        self.reads += 1
        return self.items[key] if key in self.items else self.__missing__(key)
    def __missing__(self, key): return len(self.items)
    def __setitem__(self, key, v): self.items[key] = v
    def __delitem__(self, key): del self.items[key]
    def __contains__(self, key): return key in self.items
    def __iter__(self): return iter(self.items)
    def __len__(self): return len(self.items)
    def __ior__(self, other):
        self.items.update(other)
        return self

class Lazy(dict):
    def __missing__(self, key):
        self[key] = made = len(self) * 0.5
        return made

class Clamped:
    """A descriptor that keeps a number between two others, and counts."""
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, owner): return self if obj is None else getattr(obj, self.name, 0)
    def __set__(self, obj, v):
        obj.sets = getattr(obj, "sets", 0) + 1
        setattr(obj, self.name, min(max(v, -2), 9))

class Knob:
    level = Clamped()
    def __init__(self, level): self.level = level

def running(start):
    """A mean that goes on: send it a number, get the mean."""
    total, count, mean = start, 1, start
    while True:
        got = yield mean
        if got is None: return mean
        total, count = total + got, count + 1
        mean = total / count

def deeper(tree, *path):
    for key in path: tree = tree.setdefault(key, {})
    return tree

def merged(*tables, **more):
    found = {}
    for table in (*tables, more):
        for key, v in table.items(): found[key] = found[key] + v if key in found else v
    return found

def twice(fn):
    calls = []
    def inner(*args):
        calls.append(len(args))
        return fn(*args) * len(calls)
    inner.calls = calls
    return inner
'''

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "word": ("name", "'a'", "'b'", "name + 'x'", "name[:1]", "f'{name}{<few>}'", "'ab'[<few> % 2]", "name or 'k'"),
    "spot": ("<few> % 3", "-1", "0", "1", "n % 3", "-(1 + <few> % 3)"),
    "table": (
        "{'a': <num>, 'b': <num>}", "{'a': x, name: <array>}", "{name: <num>, 'k': <int>}", "dict(a=<num>, b=<int>)",
        "dict.fromkeys('ab', <num>)", "{w: i * <num> for i, w in enumerate(('a', name, 'z'))}", "TABLE.copy()",
        "collections.OrderedDict(b=<num>, a=<int>)", "collections.Counter({name: <int>, 'a': 2})",
        "dict(zip('abc', <list>))", "merged({'a': <num>}, {name: <num>}, b=1)", "{**TABLE, name: <num>}"),
    "rows": ("[x, x * <num>, <array>]", "[<num>, <int>, <num>]", "[x[:3], x[1], <num>]", "[x] * 3",
             "[jnp.zeros_like(x) for _ in range(3)]", "list((<int>, <num>, x))"),
    "any": (
        "sorted(<table>)", "list(<table>.items())", "<table>.get(<word>, <num>)", "(<word> in <table>)",
        "len(<table>)", "[*<table>.values()]", "max(<table>, key=len)", "<rows>[<spot>]", "<rows>[::-1]",
        "<rows>[<spot>:]", "list(reversed(<rows>))", "[*itertools.chain(<rows>, <list>)]",
        "list(itertools.islice(itertools.cycle(<rows>), <few>))", "next(iter(<table>))", "Table(a=<num>)[<word>]",
        "Lazy(a=<num>)[<word>]", "Knob(<num>).level", "set(<table>) - {<word>}", "{w: len(w) for w in <table>}",
        "collections.Counter(<text>).most_common(1)", "<table>.keys() & {'a', <word>}", "tuple(<table>)[-1]",
        "list(zip(<table>, <rows>))", "[i for i, v in enumerate(<rows>) if i != <spot>]", "<table> == <table>",
        "' '.join(sorted(<table>))", "list(map(type, <rows>)) == [type(x)] * 3", "{<word>: <rows>}.popitem()",
        "list(itertools.groupby(sorted(map(len, <table>))))[0][0]", "sorted(<table>.items(), key=lambda kv: kv[0])",
        "functools.reduce(lambda a, kv: a + kv[1], <table>.items(), 0 * x)", "<table> | {'k': <num>}"),
}

STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("table",), "{0} = <table>"),
    (("rows",), "{0} = <rows>"),
    (("word",), "{0} = <word>"),
    (("any",), "{0} = <table>\nfor i in range(<few>):\n    {0}[<word>] = {0}.get(<word>, 0) + <num>"),
    (("any",), "{0} = {{'a': x, 'b': x * 2}}\nfor i in range(n):\n    {0}[<word>] = {0}['a'] * 0.5 + i"),
    (("any",), "{0} = {{'a': 0, 'b': 1, name: 2}}\nfor i in range(<few>):\n    {0}[name] += 1\n"
               "    {0}['a'] += {0}[name]"),
    (("any",), "{0} = {{'h': x, name: x}}\nfor i in range(<few>):\n    {0}['h'] = jnp.tanh({0}[name] + i)\n"
               "    {0}[name] = {0}['h'] * <num>"),
    (("any",), "{0} = <rows>\nfor i in range(<few>):\n    {0}[<spot>] = {0}[<spot>] * 0.5 + i"),
    (("any",), "{0} = <rows>\nfor i in range(len({0})):\n    {0}[i] = {0}[i - 1] + <num>"),
    (("any",), "{0} = [0] * (1 + <few>)\nfor i in range(len({0})): {0}[i] = x * i if <bool> else {0}[i - 1]"),
    (("any",), "{0} = []\nfor i in range(<few>):\n    {0}.append({0}[-1] + x if {0} else x * <num>)"),
    (("any",), "{0} = []\nfor i in range(<few>):\n    if i % 2: {0}.insert(0, i)\n    else: {0}.append(x[0] * i)"),
    (("any",), "{0} = {{}}\nfor i in range(<few>): {0}.setdefault(i % 2, []).append(i * <num>)"),
    (("any",), "{0} = collections.defaultdict(int)\nfor w in ('a', name, 'b', name): {0}[w] += <int>"),
    (("any",), "{0} = collections.defaultdict(lambda: x * 0)\nfor w in ('a', name, <word>): {0}[w] = {0}[w] + <num>"),
    (("any",), "{0} = collections.Counter(<text>)\n{0}.update(name)\n{0}[<word>] -= <int>"),
    (("any",), "{0} = collections.OrderedDict(<table>)\n{0}[<word>] = <num>\n{0}.move_to_end(next(iter({0})))"),
    (("any",), "q = collections.deque(<rows>, maxlen=3)\nfor i in range(<few>):\n    q.append(q.popleft())\n    "
               "q.rotate(1)\n"
               "{0} = [*q]"),
    (("any",), "q = [(<num>, 'a'), (<int>, name)]\nq.sort()\nq.append((<num>, 'z'))\n{0} = [w for _, w in sorted(q)]"),
    (("any",), "t = <table>\nit = iter(t.items())\nfirst = next(it)\nprint(name)\n{0} = (first, list(it))"),
    (("any",), "r = <rows>\nit = iter(r)\nnext(it)\nr.append(<num>)\nprint('more')\n{0} = list(it)"),
    (("any",), "it = zip(<rows>, <list>)\n{0} = []\nfor a, b in it:\n    {0}.append(a * b)\n    if <bool>: break\n"
               "{0}.extend(it)"),
    (("any",), "t = <table>\nt[<word>] = <num>\nit = map(str, t)\nprint(len(t))\n{0} = list(it)"),
    (("any",), "t = Table(a=<num>, b=x)\nt[<word>] = <num>\nt |= {{'k': <int>}}\n"
               "for i in range(<few>): t['a'] = t['a'] + t[<word>]\n{0} = (t.items, t.reads, len(t), name in t)"),
    (("any",), "t = Lazy()\nfor i in range(<few>): t[<word>] += i\n{0} = dict(t)"),
    (("any",), "knob = Knob(<num>)\nfor i in range(<few>): knob.level += <num>\n{0} = (knob.level, knob.sets)"),
    (("any",), "mean = running(<num>)\n{0} = [next(mean)]\nfor v in <list>: {0}.append(mean.send(v))\nmean.close()"),
    (("any",), "mean = running(x[0])\nnext(mean)\nprint('mean')\n{0} = mean.send(<num>)"),
    (("any",), "t = {{}}\ndeeper(t, name, 'k')[<few>] = <num>\ndeeper(t, 'a')['x'] = x\n{0} = t"),
    (("any",), "t = {{'p': {{'w': x, 'b': x[0]}}, 'n': 0}}\nfor i in range(<few>):\n    "
               "t['p']['w'] = t['p']['w'] - 0.1 * i\n"
               "    t['n'] += 1\n{0} = t"),
    (("any",), "t = {{'p': {{'w': x}}, name: {{'w': x * 2}}}}\nfor k in t: t[k]['w'] = t[k]['w'] + <num>\n{0} = t"),
    (("any",), "t = {{'p': {{'w': x}}, name: {{'w': x * 2}}}}\nfor i in range(<few>):\n    for k in ('p', name):\n"
               "        t[k] = {{**t[k], 'w': t[k]['w'] * <num> + i}}\n{0} = t"),
    (("any",), "scale = twice(lambda v: v * <num>)\n{0} = [scale(x), scale(<num>), scale.calls]"),
    (("any",), "count = 0\ndef visit(v):\n    nonlocal count\n    count += 1\n    return v * count\n"
               "{0} = [visit(x) for _ in range(<few>)] + [count]"),
    (("any",), "log = []\nfor i in range(<few>):\n    try:\n        log.append(check(i * <num>))\n"
               "    except ValueError: continue\n    except KeyError: break\n    finally: log.append(-i)\n{0} = log"),
    (("any",), "a = b = <rows>\na[0] = <num>\nb.append(x)\n{0} = (a is b, len(a), b[0])"),
    (("any",), "a = [<num>]\nt = {{'a': a, name: a}}\nt['a'].append(<int>)\n{0} = (t, a)"),
    (("any",), "a, b = {{'k': x}}, {{'k': x}}\nfor i in range(<few>):\n    a, b = b, a\n    "
               "a['k'] = b['k'] + i\n{0} = (a, b)"),
    (("any",), "a, b = <num>, <num>\nfor i in range(<few>): a, b = b, a + b\n{0} = (a, b)"),
    (("any",), "y, z = x, x * 0\nfor i in range(n):\n    y, z = z + <num>, y\n{0} = (y, z)"),
    (("any",), "y, k = x, 0\nwhile k < <few>:\n    y = y + k\n    k += 1\n    if k == <int>: continue\n    "
               "y = y * 2\n{0} = (y, k)"),
    (("any",), "y, k, seen = x, 0, []\nwhile y.sum() < 20 and k < 6:\n    y = y + 2\n    k += 1\n    "
               "seen.append(k * <num>)\n"
               "{0} = (y, k, seen)"),
    (("any",), "t = {{'a': 0, name: 1}}\ny = x\nwhile y.sum() < 20:\n    y = y + 3\n    t[name] = t['a'] + 1\n"
               "    t['a'] = t[name] + 1\n"
               "{0} = (y, t)"),
    (("any",), "{0} = [[0] * 3 for _ in range(3)]\nfor i in range(3):\n    "
               "for j in range(<few> % 4): {0}[i][j] = i * j + <num>"),
    (("any",), "{0} = {{(i, j): i * <num> + j for i in range(<few>) for j in range(2)}}\n{0}[n, 0] = <num>"),
    (("any",), "s1 = {{<word>, 'a'}}\ns1.add(<word>)\ns1.discard('b')\n"
               "{0} = (sorted(s1), name in s1, s1 | {{'z'}} > s1)"),
    (("any",), "del items[:1]\nitems.extend(<list>)\n{0} = (len(items), items.index(items[-1]), items.count(<num>))"),
    (("any",), "m = <table>\nm.update({{<word>: <num>}}, k=<num>)\n{0} = (m.pop(<word>, None), list(m), m.get('k'))"),
    (("any",), "setattr(box, ('v', 'count')[<few> % 2], <int>)\n{0} = getattr(box, ('v', 'count')[n % 2])"),
    (("any",), "for i in range(<few>):\n    setattr(box, 'v', getattr(box, ('v', 'count')[n % 2]) + 1)\n{0} = box.v"),
    (("any",), "POOL['last'] = (name, <num>)\n{0} = POOL['last'][1] * x"),
    ((), "POOL['count'][name] += <int>"),
    ((), "POOL['by'][<word>] = POOL['by'].get(<word>, 0) + 1\n"
         "if len(POOL['by']) > 4: POOL['by'].pop(next(iter(POOL['by'])))"),
    ((), "POOL['rows'][<few> % 2] = POOL['rows'][n % 2] * 0.5 + x[:3]"),
    ((), "POOL['rows'][0], POOL['rows'][1] = POOL['rows'][1], POOL['rows'][0] + <num>"),
    ((), "for i in range(<few>): POOL['count'][name] = POOL['count'][<word>] + 1"),
    ((), "for i in range(<few>): TABLE['a'] = TABLE.get(name, 0) + i"),
    ((), "for w in ('a', name): TABLE[w] = TABLE.get(w, 0) + <num>"),
    ((), "for i in range(<few>): STATE['w'] = STATE['w'] * 0.5 + i"),
)
