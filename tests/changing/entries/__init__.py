"""Small functions as users write them, one idiom each, by family; see `tests/changing/kit.py`."""
