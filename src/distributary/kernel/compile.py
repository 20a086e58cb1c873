"""How kernels are compiled and cached: once on a machine, by one process while others wait for it.

A kernel is a function that Numba compiles to machine code. It takes numbers, arrays, and NamedTuples of
arrays. Those that other kernels call are compiled within them (`steps`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock

from distributary.kernel.progress import PROGRESS
from distributary.kernel.steps import called_as_step, step_of

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

C = TypeVar("C", bound=Callable[..., Any])

SELDOM = 50_000
"""New objects after which garbage is collected while Numba compiles; by Python's rule, after 700, that takes
an eighth of the time."""
LONGEST_WAIT = 300.0
"""Seconds to wait for a process that compiles the same; one that was stopped must not stop others."""

_turns: set[str] = set()
"""The source files that this process has locked; read and written under Numba's lock."""

event.register("numba:compile", PROGRESS)


def kernel(function: C) -> C:
    """Compile `function` on first use; the machine code is cached beside the module or in NUMBA_CACHE_DIR.

    Where neither that nor the user's cache directory can be written, the function is compiled anew by
    each process rather than failing.
    """
    return _compiled(function)


def inlined(function: C) -> C:
    """Compile `function` as a part of the kernels that call it.

    For the steps of a loop: a call with tables as arguments copies the tables' descriptions each time.
    """
    return _compiled(function, inline=True)


def uncounted(function: C) -> C:
    """Compile `function` without counting references to its arrays, which may cost more than what it does.

    For kernels that make no array and give none back: what they are handed outlives the call.
    """
    return _compiled(function, _nrt=False)


def fused(function: C) -> C:
    """Compile `function` as a part of the kernels that call it, which are uncounted, and uncounted itself."""
    return _compiled(function, inline=True, _nrt=False)


def _compiled(function: C, *, inline: bool = False, **options: Any) -> C:
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        return _with_step(function, options, inline=inline, cache=True)
    except RuntimeError:
        return _with_step(function, options, inline=inline, cache=False)


def _with_step(function: C, options: dict[str, Any], *, inline: bool, cache: bool) -> C:
    """The function for Python, and as a step for the kernels that call it."""
    compiled: C = numba.njit(cache=cache, **options)(function)
    if hasattr(compiled, "compile"):  # else a plain function: Numba is switched off (NUMBA_DISABLE_JIT)
        step = step_of(function, options, inline=inline, cache=cache)
        called_as_step(compiled, step)
        if cache:
            _compile_in_turn(compiled)
            _compile_in_turn(step)
    return compiled


def _compile_in_turn(compiled: Any) -> None:
    """Have processes that need a kernel at the same time compile it once: the others find it in the cache.

    The workers of Spark or of the tests start together, and each would compile the same for a minute.
    """
    compile_now = compiled.compile
    source = compiled.py_func.__code__.co_filename

    def compile_in_turn(signature: Any) -> Any:
        # Numba's own lock first: a thread that holds it may ask for the turn that this thread has.
        with global_compiler_lock, _turn(source), _garbage_kept():
            compiled._cache._cache_file._source_stamp = _stamps(compiled)
            try:
                return compile_now(signature)
            except (AttributeError, ImportError):
                # Perhaps the cache is of an earlier version, and names a class that is somewhere else now.
                compiled._cache.flush()
                return compile_now(signature)

    compiled.compile = compile_in_turn


def _stamps(compiled: Any) -> tuple[str, ...]:
    """What Numba knows the sources by that this kernel is compiled from: what its cache is good for.

    Numba itself looks at the file that a kernel stands in, and would go on to use it when one changes whose
    kernels it calls. (Constants of a file without kernels are seen by nobody.)
    """
    files: dict[str, str] = {}
    left = [compiled]
    while left:
        each = left.pop()
        function = each.py_func
        if function.__code__.co_filename not in files:
            files[function.__code__.co_filename] = str(each._cache._impl.locator.get_source_stamp())
            left += filter(_is_cached, function.__globals__.values())
    return tuple(sorted(files.values()))


def _is_cached(value: Any) -> bool:
    return isinstance(getattr(value, "_cache", None), FunctionCache)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect garbage more seldom, if at all."""
    usual = gc.get_threshold()
    gc.set_threshold(usual[0] and max(usual[0], SELDOM), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


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
