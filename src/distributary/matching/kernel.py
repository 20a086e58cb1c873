"""`kernel`: Numba compilation with the compiled code kept on disk whenever a place for it can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

C = TypeVar("C", bound=Callable[..., Any])


def kernel(function: C) -> C:
    """Compile `function` on first use; the machine code is cached beside the module or in NUMBA_CACHE_DIR.

    Where neither that nor the user's cache directory can be written, the function is compiled anew by
    each process rather than failing.
    """
    try:
        compiled: C = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled
