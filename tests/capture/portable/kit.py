"""Objects without a name of their own, which records find by ways or refuse."""


class Plain:
    def __init__(self, x):
        self.x = x


def made(by, default=1):
    def inner(x, y=default):
        return x * by + y
    return inner
