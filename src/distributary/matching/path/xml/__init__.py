"""XML documents read from their bytes, by kernels: those that are provably well-formed and plain.

- `characters`: texts, values, comments and instructions, as far as they are plain
- `names`: from written names, with the namespaces in force, to the numbers of labels
- `scan`: the documents of a batch, one after another, as trees in arrays

What is not plain, and whatever is malformed, is left to `filters.path.document`. Nothing is exported here,
because the modules load Numba.
"""
