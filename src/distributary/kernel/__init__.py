"""What all Numba kernels share.

- `compile`: how a function becomes a kernel, and where it is kept
- `steps`: kernels as other kernels call them, which have no machine code of their own
- `progress`: tells whoever waits that kernels are compiled
- `tables`: the types of arrays, and tables of them
- `texts`: helpers for texts
"""

from distributary.kernel.compile import fused, inlined, kernel, uncounted
from distributary.kernel.progress import compiling_told
from distributary.kernel.tables import (
    CACHE_LINE,
    Bytes,
    Flags,
    Floats,
    Ints,
    Longs,
    Words,
    empty_in_line,
    read_table,
    sealed,
    sealed_arrays,
    sealed_table,
    table_arrays,
)
from distributary.kernel.texts import hash_bytes, same_text, text_order, with_room

__all__ = [
    "CACHE_LINE",
    "Bytes",
    "Flags",
    "Floats",
    "Ints",
    "Longs",
    "Words",
    "compiling_told",
    "empty_in_line",
    "fused",
    "hash_bytes",
    "inlined",
    "kernel",
    "read_table",
    "same_text",
    "sealed",
    "sealed_arrays",
    "sealed_table",
    "table_arrays",
    "text_order",
    "uncounted",
    "with_room",
]
