"""codegen stage; see the docstrings of its modules."""
