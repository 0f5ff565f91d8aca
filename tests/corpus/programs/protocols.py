"""What classes say of themselves by special methods that are not the usual ones."""

from tests.corpus.kit import program


class NotIterable:
    __iter__ = None

    def __getitem__(self, at):
        return at


class NotContainer:
    __contains__ = None

    def __iter__(self):
        return iter([3])


@program
def methods_that_are_none(x):
    out = []
    for compute in (lambda: iter(NotIterable()), lambda: list(NotIterable()), lambda: 3 in NotIterable(),
                    lambda: 3 in NotContainer(), lambda: list(NotContainer())):
        try:
            out.append(compute())
        except TypeError as error:
            out.append(str(error))
    return x + NotIterable()[2], out
