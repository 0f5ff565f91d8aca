"""Which modules of CPython's `test` package run strictly: those about the language and its built-in types."""

MODULES = tuple("""
test_closures test_dict test_generators test_list test_scope
""".split())
