"""Numbers and text: arithmetic, formatting, methods, bits, big integers."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from tests.corpus.kit import program


@program
def integers(x):
    n = 2 ** 100 + 1
    return (x, n, n % 97, -7 // 2, -7 % 3, divmod(-7, 2), 7 & 3, 7 ^ 2, ~5, 1 << 70, n >> 90, n.bit_length(), int("ff", 16),
            int(3.9), (255).to_bytes(2, "big"), int.from_bytes(b"\x01\x00", "big"), abs(-3), pow(2, 10, 7), 10 ** -2)


@program
def floats(x):
    return (x, 0.1 + 0.2, 1e308 * 10, -0.0, float("nan") != float("nan"), 7.5 // 2, 7.5 % 2, (2.5).is_integer(), round(2.5),
            round(3.14159, 2), float("1e3"), (0.5).as_integer_ratio(), 1 / 3, 2 ** 0.5, (1.5).hex(), math.inf > 1)


@program
def complexes(x):
    c = 3 + 4j
    return x, c * c, abs(c), c.real, c.imag, c.conjugate(), complex("1+2j"), c == 3 + 4j, c ** 2


@program
def mathematics(x):
    return (x, math.sqrt(2), math.pi, math.floor(-2.5), math.ceil(2.1), math.gcd(12, 18), math.factorial(10), math.log(8, 2),
            math.isclose(0.1 + 0.2, 0.3), math.prod([1, 2, 3]), math.hypot(3, 4), math.comb(5, 2), math.fsum([0.1] * 10),
            math.isnan(math.nan), math.copysign(1, -0.0), math.trunc(2.7))


@program
def fractions(x):
    f = Fraction(1, 3) + Fraction(1, 6)
    return x, str(f), f.numerator, float(f), f == Fraction(1, 2)


@program(breaks={"effect": 1}, hits=False)  # its context is read at each call; each Decimal is another object
def decimals(x):
    d = Decimal("0.1") + Decimal("0.2")
    return x, str(d), d == Decimal("0.3")


@program
def booleans(x):
    return x, True + True, True & False, True ^ True, not 0, bool([]), bool("a"), isinstance(True, int), sum([True, True])


@program
def string_methods(x):
    s = "Hello, World"
    return (x, s.upper(), s.lower(), s.split(", "), s.replace("l", "L"), s.find("W"), s.count("l"), s.startswith("He"),
            s.strip("Hd"), "-".join(["a", "b"]), s.partition(", "), s[::-1], s.center(20, "*"), s.title(), s.isalpha(),
            "a,b,,c".split(","), "line\nbreak".splitlines(), "x".zfill(3), "abc".translate({97: "A"}), s.encode(), s * 2,
            "é".encode().decode(), "a" < "b", ord("a"), chr(98), s.removeprefix("He"), "%s-%d" % ("a", 3), "a" in s)


@program
def formatting(x):
    n, f, s = 42, 3.14159, "text"
    w = 8
    return (x, f"{n:05d} {f:.2f} {s:>8} {n:x} {n:#b} {f:e} {s!r} {n=} {{}}", f"{f:{w}.{2}f}|", "{:>5}".format(n),
            "{0} {1} {0}".format("a", "b"), "{name}!".format(name="n"), "%5.1f|%-5s|" % (f, "a"), format(n, ","),
            f"{1_000_000:,}", f"{'nested ' + f'{n}'}", f"{True}", f"{None}", f"{[1, 'a']}", f"{x.shape} {x.dtype}")


@program
def string_building(x):
    out = ""
    for k in range(4):
        out += str(k) + ","
    parts = [f"{k}={v}" for k, v in {"a": 1, "b": 2.5}.items()]
    return x, out, ";".join(parts), "".join(reversed("abc")), " ".join(map(str, (1, 2)))


@program
def bytes_methods(x):
    b = b"abc\x00"
    return x, b[0], b[1:], b + b"d", b.hex(), bytes(3), bytes([1, 2]), b.find(b"c"), b.decode("latin1"), list(b), b.split(b"b")


@program
def regular_expressions(x):
    m = re.match(r"(\w+)-(?P<n>\d+)", "abc-123")
    return x, m.group(1), m.group("n"), m.groups(), re.sub(r"\d", "#", "a1b2"), re.findall(r"[a-c]", "abcd"), m.span()


@program
def text_tests(x):
    return x, "abc".isidentifier(), "12".isdigit(), " ".isspace(), "a b".split(), "ab".endswith(("b", "c")), "A".casefold()


@program
def comparison_chains_of_mixed(x):
    return x, 1 == 1.0 == True, (1, 2) == (1.0, 2.0), "a" != "b" != "a", 3 > 2.5 >= 2, None is None  # noqa: E712


@program
def integer_identity(x):
    a, b = 256, 256
    c = None
    return x, a is b, c is None, True is True, "lit" is "lit"  # noqa: F632


@program
def bit_tricks(x):
    mask = 0
    for k in (1, 3, 5):
        mask |= 1 << k
    return x, mask, bin(mask), mask & (1 << 3) != 0, [k for k in range(8) if mask >> k & 1], (mask ^ 0xFF) & ~1, hex(mask)


@program
def conversions(x):
    return (x, int("12"), float("1.5"), str(3), bool(0), list("ab"), tuple([1]), set([1, 1]), dict([("a", 1)]), complex(1),
            int(True), str(b"a"), repr("a"), ascii("é"), bytes("a", "utf8"), int(" 7 "), float("inf"), oct(8))


@program
def hashes(x):
    return x, hash(1) == hash(1.0), hash("a") == hash("a"), hash((1, "a")) == hash((1, "a")), hash(frozenset([1]))
