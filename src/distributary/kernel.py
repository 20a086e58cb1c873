"""What all Numba kernels share: how they are compiled, the types of their arrays, and two helpers for texts.

A kernel is a function that Numba compiles to machine code. It takes numbers, arrays, and NamedTuples of
arrays. `Ints`, `Floats` and so on are the array types that kernels use most.

Arrays that belong together are one NamedTuple, a *table*, which says once what each of them holds.
`read_table` makes such a tuple of the arrays of an index, and `table_arrays` is the way back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import DTypeLike, NDArray

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T", bound=NamedTuple)

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Machine words that are read as sets of bits or as hashes."""
Floats = NDArray[np.float64]


COMPILING = "compiling kernels for this machine, which takes a minute or two the first time ..."
"""What is told when kernels are not in the cache."""
CACHE_LINE = 64
"""Bytes that a processor fetches at once."""
LONGEST_WAIT = 120.0
"""Seconds to wait for a process that compiles the same; one that was stopped must not stop others."""

_turns: set[str] = set()
"""The source files that this process has locked; read and written under Numba's lock."""


def kernel(function: C) -> C:
    """Compile `function` on first use; the machine code is cached beside the module or in NUMBA_CACHE_DIR.

    Where neither that nor the user's cache directory can be written, the function is compiled anew by
    each process rather than failing.
    """
    return _compiled(function, forceinline=False)


def inlined(function: C) -> C:
    """Compile `function` as a part of the kernels that call it.

    For the steps of a loop: a call with tables as arguments copies the tables' descriptions each time.
    """
    return _compiled(function, forceinline=True)


def uncounted(function: C) -> C:
    """Compile `function` without counting references to its arrays, which may cost more than what it does.

    For kernels that make no array and give none back: what they are handed outlives the call.
    """
    return _compiled(function, _nrt=False)


def fused(function: C) -> C:
    """Compile `function` as a part of the kernels that call it, which are uncounted, and uncounted itself."""
    return _compiled(function, forceinline=True, _nrt=False)


def _compiled(function: C, **options: bool) -> C:
    try:
        compiled: C = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        _compile_in_turn(compiled)
    except RuntimeError:
        compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return compiled


def _compile_in_turn(compiled: Any) -> None:
    """Have processes that need a kernel at the same time compile it once: the others find it in the cache.

    The workers of Spark or of the tests start together, and each would compile the same for a minute.
    """
    compile_now = getattr(compiled, "compile", None)
    if compile_now is None:  # a plain function: Numba is switched off (NUMBA_DISABLE_JIT)
        return
    source = compiled.py_func.__code__.co_filename

    def compile_in_turn(signature: Any) -> Any:
        # Numba's own lock first: a thread that holds it may ask for the turn that this thread has.
        with global_compiler_lock, _turn(source):
            try:
                return compile_now(signature)
            except (AttributeError, ImportError):
                # Perhaps the cache is of an earlier version, and names a class that is somewhere else now.
                compiled._cache.flush()
                return compile_now(signature)

    compiled.compile = compile_in_turn


@contextmanager
def _turn(source: str) -> Iterator[None]:
    """Lock a source file, of whose kernels this process then compiles some; others wait, though not forever.

    Nothing but work is saved by waiting, so a file that cannot be opened or locked is done without.
    """
    if source in _turns or fcntl is None:  # a kernel that another of the same file calls
        yield
        return
    with ExitStack() as scope:
        with suppress(OSError):
            file = scope.enter_context(open(source, "rb")).fileno()
            deadline = time.monotonic() + LONGEST_WAIT
            while not _locked(file) and time.monotonic() < deadline:
                time.sleep(0.02)
            # Closing the file would do, were it not for a process that another thread forks meanwhile.
            scope.callback(fcntl.flock, file, fcntl.LOCK_UN)
        _turns.add(source)
        scope.callback(_turns.remove, source)
        yield


def _locked(file: int) -> bool:
    """Lock an open file unless another process has; whether that went well."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def compiling_told(tell: Callable[[str], object]) -> Iterator[None]:
    """Tell of kernels that no cache has: before the first is compiled, and at the end how long that took."""
    listener = _CompilationListener(tell)
    with event.install_listener("numba:compile", listener):
        yield
    if listener.count:
        tell(f"compiled {listener.count} kernels in {listener.seconds:,.0f} s; the next run finds them")


class _CompilationListener(event.Listener):  # type: ignore[misc]
    """Counts the kernels that are compiled; those that others call are compiled within them."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.count = 0
        self.seconds = 0.0
        self._tell = tell
        self._within = 0
        self._start = 0.0

    def on_start(self, event: event.Event) -> None:
        if not self.count and not self._within:
            self._tell(COMPILING)
        if not self._within:
            self._start = time.perf_counter()
        self._within += 1

    def on_end(self, event: event.Event) -> None:
        self._within -= 1
        if not self._within:
            self.count += 1
            self.seconds += time.perf_counter() - self._start


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


def sealed_arrays(arrays: Iterable[Any]) -> tuple[NDArray[Any], ...]:
    """All of the arrays sealed; for a kernel that takes the arrays of a table one by one."""
    return tuple(map(sealed, arrays))


def sealed_table(table: T) -> T:
    """The table with all its arrays sealed."""
    return table._make(map(sealed, table))


def read_table(table: type[T], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> T:
    """The table with these arrays, sealed; the array of a field is named by the prefix and the field."""
    return table._make(sealed(arrays[prefix + field]) for field in table._fields)


def table_arrays(table: NamedTuple, prefix: str = "") -> dict[str, NDArray[Any]]:
    """The arrays of a table by name, as `read_table` reads them."""
    return {prefix + field: array for field, array in table._asdict().items()}


def empty_in_line(count: int, kind: DTypeLike) -> NDArray[Any]:
    """An array of so many numbers, with anything in it, that begins where a line of the cache does.

    What is as long as a line then lies in one line, not in two, and is fetched in half the time.
    """
    size = np.dtype(kind).itemsize
    room = np.empty(count * size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + count * size].view(kind)


@kernel
def hash_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """The 64-bit FNV-1a hash of `data[start:end]`. Its low bits alone are weak: fold or mix it before use."""
    code = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        code = (code ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return code


@kernel
def same_text(one: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> bool:
    """Whether `one[start:end]` and `other[other_start:other_end]` are the same bytes."""
    length, same = end - start, 0
    if other_end - other_start != length:
        return False
    while same < length and one[start + same] == other[other_start + same]:
        same += 1
    return same == length


@kernel
def text_order(one: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> int:
    """Negative, zero or positive as `one[start:end]` comes before, equals or follows the other bytes."""
    length, other_length = end - start, other_end - other_start
    for at in range(min(length, other_length)):
        difference = np.int64(one[start + at]) - np.int64(other[other_start + at])
        if difference != 0:
            return int(difference)
    return int(length - other_length)


@kernel
def with_room(array: Ints, used: int, more: int) -> Ints:
    """The array, or a larger copy of it, with room for `more` after the first `used`."""
    if used + more <= len(array):
        return array
    larger = np.empty(2 * len(array) + more, np.int32)
    for at in range(used):
        larger[at] = array[at]
    return larger
