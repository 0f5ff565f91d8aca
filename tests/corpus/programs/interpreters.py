"""Programs that read another language, and compute with arrays what it says: machines, parsers, tokenisers."""

import collections
import operator
import re

import jax
import jax.numpy as jnp

from tests.corpus.kit import program



def sine(x):
    return jnp.sin(x)


def total(x):
    return jnp.sum(x)


# --- a machine with a stack


class MachineError(Exception):
    pass


def run(code, env, limit=200):
    stack, at, calls, steps = [], 0, [], 0
    while at < len(code):
        steps += 1
        if steps > limit:
            raise MachineError("limit")
        op, *args = code[at]
        at += 1
        match op, args:
            case "push", [value]:
                stack.append(value)
            case "load", [name]:
                if name not in env:
                    raise MachineError(f"no {name}")
                stack.append(env[name])
            case "store", [name]:
                env[name] = stack.pop()
            case "apply", [fn, count]:
                taken = stack[-count:]
                del stack[-count:]
                stack.append(fn(*taken))
            case "less", [name]:
                env[name] -= 1
            case "jump if", [name, there]:
                at = there if env[name] else at
            case "call", [there]:
                calls.append(at)
                at = there
            case "return", []:
                if not calls:
                    return stack.pop(), steps
                at = calls.pop()
            case _:
                raise MachineError(f"what is {op}?")
    return stack, steps


LOOP = [("load", "x"), ("store", "sum"), ("call", 5), ("load", "sum"), ("return",), ("load", "sum"), ("load", "x"),
        ("apply", operator.mul, 2), ("apply", sine, 1), ("push", 0.5), ("apply", operator.add, 2),
        ("store", "sum"), ("less", "n"), ("jump if", "n", 5), ("return",)]


@program
def stack_machine(x):
    env = {"x": x, "n": 3}
    found = run(LOOP, env)
    refused = []
    for code in ([("load", "y")], [("fly",)], [("push", 1), ("call", 0)]):
        try:
            run(code, env)
        except MachineError as error:
            refused.append(str(error))
    return found, env["n"], refused


# --- a parser that makes closures

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*)|(\w+)|(.))")
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
FUNCTIONS = {"sin": sine, "sum": total}


class Parser:
    def __init__(self, text):
        self.tokens = [m.groups() for m in TOKEN.finditer(text.strip())]
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None, None)

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else (None, None, None)

    def expect(self, sign):
        if self.take()[2] != sign:
            raise SyntaxError(f"{sign} expected, token {self.at}")

    def chain(self, part, signs):
        left = part()
        while self.peek()[2] in signs:
            sign, before = SIGNS[self.take()[2]], left
            after = part()
            left = lambda env, sign=sign, a=before, b=after: sign(a(env), b(env))  # noqa: E731
        return left

    def expression(self):
        return self.chain(self.term, ("+", "-"))

    def term(self):
        return self.chain(self.factor, ("*", "/"))

    def factor(self):
        number, name, sign = self.take()
        if number:
            return lambda env, value=float(number): value
        if name and self.peek()[2] == "(":
            self.take()
            inside = self.expression()
            self.expect(")")
            if name not in FUNCTIONS:
                raise SyntaxError(f"no function {name}")
            return lambda env, fn=FUNCTIONS[name], a=inside: fn(a(env))
        if name:
            return lambda env: env[name]
        if sign == "(":
            inside = self.expression()
            self.expect(")")
            return inside
        raise SyntaxError(f"unexpected {sign}")


@program
def parsed_formulas(x):
    found = []
    for text in ("x*2 + sin(y)", "sum(x*y) / (3 - 1.5)", "x + + 3", "tan(x)"):
        try:
            formula = Parser(text).expression()
            slope = jax.grad(lambda x, f=formula: jnp.sum(f({"x": x, "y": x * 2})))(x)
            found.append((formula({"x": x, "y": x * 2}), slope))
        except SyntaxError as error:
            found.append(error.msg)
    return found


# --- a tokeniser that is trained


def pairs_of(words):
    counts = collections.Counter()
    for word, n in words.items():
        for pair in zip(word, word[1:]):
            counts[pair] += n
    return counts


def merged(words, pair):
    out = collections.Counter()
    for word, n in words.items():
        parts, i = [], 0
        while i < len(word):
            both = word[i:i + 2] == pair
            parts.append("".join(pair) if both else word[i])
            i += 2 if both else 1
        out[tuple(parts)] += n
    return out


@program
def byte_pairs(x):
    words, merges = collections.Counter(map(tuple, "the cat sat on the mat and the rat".split())), []
    for _ in range(4):
        counts = pairs_of(words)
        merges.append(max(counts, key=lambda p: (counts[p], p)))
        words = merged(words, merges[-1])
    names = sorted({part for word in words for part in word})
    ids = jnp.array([names.index(part) for word in words for part in word])
    table = jnp.outer(jnp.arange(len(names), dtype=jnp.float32), x)
    return table[ids].mean(0), "|".join("".join(m) for m in merges), dict(words)


# --- a tagger


@program
def most_likely_tags(x):
    tags = ["D", "N", "V"]
    seen = [[("the", "D"), ("dog", "N"), ("barks", "V")], [("a", "D"), ("cat", "N"), ("sees", "V"), ("the", "D")]]
    follows = collections.defaultdict(lambda: collections.defaultdict(float))
    for sentence in seen:
        for (_, a), (_, b) in zip(sentence, sentence[1:]):
            follows[a][b] += 1
    moves = jnp.log(jnp.array([[follows[a][b] + 0.1 for b in tags] for a in tags]))
    score, back = x[:3], []
    for step in range(3):
        paths = score[:, None] + moves + jnp.roll(x, step)[:3]
        back.append(paths.argmax(0))
        score = paths.max(0)
    best = score.argmax()
    path = [best]
    for choice in reversed(back):
        path.append(choice[path[-1]])
    return jnp.stack(path[::-1]), score.max()
