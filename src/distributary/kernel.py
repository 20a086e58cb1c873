"""What our Numba kernels share: how they are compiled, and the form in which they take arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

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


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """The array plain, contiguous and read-only, so that built and memory-mapped ones are of one type.

    A kernel is compiled for each combination of types it is called with, which takes seconds each time.
    """
    flags = array.flags
    if type(array) is np.ndarray and not flags.writeable and flags.c_contiguous:
        return array
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view
