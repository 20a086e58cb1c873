"""Whether this process calls kernels now, and whether those that nodes need are compiled on this machine.

A kernel is compiled when it is first called on a machine, and then kept in Numba's cache. All kernels of a
node take some two minutes of one core, in which its process would answer nobody: others would take the node
for one that is gone. So a live node whose kernels are not in the cache does without them
(`KERNELS.withheld`): filters are evaluated one by one, which answers the same and costs more. Another process
compiles them (`rehearsal`), and leaves a record of which files of the cache there must be, for which sources,
Python, Numba and processor. This module loads no Numba.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
SOURCES = ("kernel", "matching", "systems/rehearsal.py")
"""What has kernels or calls them, below the package."""
RECORD = "distributary-kernels.json"


class KernelUse:
    """Asked by whoever has a way without kernels."""

    def __init__(self) -> None:
        self.withheld = False


KERNELS = KernelUse()
"""Of this process."""


def are_compiled() -> bool:
    """Whether the cache has every kernel that a node needs, for this machine and these sources."""
    wanted = fingerprint()
    for place in record_places():
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads((place / RECORD).read_text())
            if record["fingerprint"] == wanted:
                return all(map(os.path.exists, record["files"]))
    return False


def note_compiled(files: Iterable[str]) -> bool:
    """Leave a record that these files of the cache are all that nodes need; whether that was possible."""
    text = json.dumps({"fingerprint": fingerprint(), "files": sorted(files)})
    for place in record_places():
        unfinished = place / f"{RECORD}.{os.getpid()}"
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(text)
            unfinished.replace(place / RECORD)
            return True
    return False


def record_places() -> Iterator[Path]:
    """Where a record may be, best first: where Numba has its cache."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
        return
    yield PACKAGE / "kernel" / "__pycache__"
    with suppress(RuntimeError):  # nobody's home is known
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def fingerprint() -> str:
    """What compiled kernels are good for: sources, versions, the processor, and how Numba is set."""
    parts = [sys.version, platform.machine(), _processor()]
    for name in ("numba", "llvmlite", "numpy"):
        with suppress(PackageNotFoundError):
            parts.append(f"{name} {version(name)}")
    parts += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    for source in SOURCES:
        found = PACKAGE / source
        for file in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            stat = file.stat()
            parts.append(f"{file} {stat.st_mtime_ns} {stat.st_size}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _processor() -> str:
    """The model of the processor and what it can do, for which code is compiled."""
    lines: list[str] = []
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        lines = [line for line in first if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join(lines) or platform.processor()
