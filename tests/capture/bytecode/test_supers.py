"""`super()` without arguments finds its object after graph breaks, where frames have other arguments."""

import dynacomp


class Base:
    def __init__(self, size=0):
        self.size = size

    def grown(self, by):
        return self.size + by


class Derived(Base):
    def __init__(self, alpha, zeta):
        print(end="")
        own = lambda: self
        super().__init__(alpha)
        print(end="")
        assert own() is self
        super().__init__(self.size + zeta)

    def grown(self, a, b=3):
        print(end="")
        for _ in range(3):
            print(end="")
            b += super().grown(a)
        return b, super().grown(a)


def test_super_after_breaks():
    made = dynacomp.jit(Derived)(1, 2)
    assert made.size == 3
    assert dynacomp.jit(made.grown)(5) == (27, 8)


class Proxy:
    """Pretends to be an instance of another class, to which `super` believes it."""

    def __init__(self, target):
        self._target = target

    @property
    def __class__(self):
        return type(self._target)


class Overriding(Base):
    def grown(self, by):
        return super(Overriding, self).grown(by), super().grown(by)  # noqa: UP008


def test_super_of_a_proxy_calls_a_method_with_the_proxy():
    proxy = Proxy(Overriding())
    proxy.size = 3
    assert dynacomp.jit(Overriding.grown)(proxy, 4) == (7, 7)


class Shadow:
    size = 7


class Shadowed(Base):
    def asked(self):
        try:
            return super().size
        except TypeError as error:
            return str(error)


def test_what_the_program_calls_super_is_called(monkeypatch):
    monkeypatch.setitem(globals(), "super", Shadow)
    assert dynacomp.jit(Shadowed().asked)() == Shadowed().asked() == 7
