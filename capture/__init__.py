"""capture stage; see the docstrings of its modules."""
