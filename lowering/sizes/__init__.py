"""Sizes and positions as SymPy expressions.

    symbols   The two kinds of integer symbols in kernels and shapes
    indexing  Index arithmetic on SymPy: flat offsets, and taking them apart again without divisions
    dims      Symbolic sizes in lowered Graphs: a `Size` (while tracing) becomes SymPy, and goes back
"""
