"""Hostile input: what each gets, how long that takes, and how much memory beyond the input itself.

Every input is made and read in a process of its own. `INPUTS` is the table: an input's name, how it is made
for a size (1 is the whole of it), how it is read, and what must be said of it. docs/input.md has the numbers.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from bench.report import Result
from distributary.errors import DistributaryError
from distributary.files import read_events
from distributary.matching.matcher import Matcher, RejectedInput
from distributary.model import Subscription
from distributary.quarantine import Rejection

SMALL = 0.01
"""The size of inputs in the quick version."""


@dataclass(frozen=True)
class HostileInput:
    """Something that comes in to do harm, and what is said of it."""

    make: Callable[[float], Any]
    read: Callable[[Any], str]
    """What was said of it: the first rejection, or that it was taken."""
    says: str
    """A part of that, for the whole input."""


def lines(content: bytes) -> str:
    """Read a file of JSON lines."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "events.jsonl"
        path.write_bytes(content)
        return first_rejection(list(read_events(str(path))))


def first_rejection(read: list[Any]) -> str:
    """What was said of the first that was rejected."""
    rejected = [one for one in read if isinstance(one, Rejection)]
    return rejected[0].reason if rejected else f"{len(read):,} accepted"


def tables(content: tuple[str, bytes]) -> str:
    """Read a file that holds a table."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"events.{content[0]}"
        path.write_bytes(content[1])
        try:
            return first_rejection(list(read_events(str(path))))
        except DistributaryError as error:
            return str(error)


def matched(table: pa.Table) -> str:
    """Match a table."""
    rejected: list[RejectedInput] = []
    Matcher([Subscription("s1", "ann", topic="A")]).match_batch(table, rejected=rejected)
    return str(rejected[0].error)


def _many(size: float, count: int) -> int:
    return max(1, round(size * count))


def _names(size: float) -> bytes:
    children = b",".join(b'"%d":1' % number for number in range(_many(size, 100_000)))
    return b'{"id":"e","' + b"n" * 1_000_000 + b'":{' + children + b"}}"


def _bad_table(size: float) -> pa.Table:
    rows = _many(size, 1_000_000)
    topics = [b"A"] * (rows - 1) + [b"A/\xff"]
    ids = pa.array(range(rows), pa.int64()).cast(pa.string())
    return pa.table({"id": ids, "topic": pa.array(topics).view(pa.string())})


def _cut_parquet(size: float) -> tuple[str, bytes]:
    stream = io.BytesIO()
    parquet.write_table(pa.table({"id": [f"e{n}" for n in range(_many(size, 100_000))]}), stream)
    return "parquet", stream.getvalue()[:-9]


INPUTS = {
    "one line of 100 MiB": HostileInput(
        lambda size: b"x" * _many(size, 100 << 20), lines, "longer than 64 MiB"
    ),
    "20 million empty arrays in a line": HostileInput(
        lambda size: b'{"id":"e","x":[' + b"[]," * _many(size, 20_000_000) + b"0]}",
        lines,
        "more than 500,000 values",
    ),
    "as many values as are taken: 240,000 objects": HostileInput(
        lambda size: b'{"id":"e","x":[' + b'{"a":0},' * _many(size, 240_000) + b"0]}", lines, "1 accepted"
    ),
    "a text of 60 MiB of escaped quotes": HostileInput(
        lambda size: b'{"id":"e","x":"' + b'\\"' * _many(size, 30 << 20) + b'"}', lines, "1 accepted"
    ),
    "arrays nested 400,000 deep": HostileInput(
        lambda size: b'{"id":"e","x":' + b"[" * _many(size, 400_000), lines, "nested more than 100 deep"
    ),
    "a number of 10 million digits": HostileInput(
        lambda size: b'{"id":"e","x":' + b"7" * _many(size, 10_000_000) + b"}",
        lines,
        "more than 1,000 digits",
    ),
    "`1e999999999`": HostileInput(
        lambda size: b'{"id":"e","x":1e999999999}', lines, "more than 1,000 digits"
    ),
    "`1e400`": HostileInput(lambda size: b'{"id":"e","x":1e400}', lines, "1 accepted"),
    "100,000 attributes below a name of a million characters": HostileInput(_names, lines, "dotted names"),
    "a key given twice": HostileInput(lambda size: b'{"id":"e","id":"f"}', lines, "given twice"),
    "`NaN`": HostileInput(lambda size: b'{"id":"e","x":NaN}', lines, "no JSON number"),
    "a byte that is not UTF-8": HostileInput(
        lambda size: b'{"id":"caf\xe9"}', lines, "not UTF-8: 0xe9 at byte 10"
    ),
    "a file in UTF-16": HostileInput(
        lambda size: ('{"id": "e1"}\n' * _many(size, 100_000)).encode("utf-16"),
        lines,
        "the file is in UTF-16",
    ),
    "10 MiB of random bytes": HostileInput(
        lambda size: Random(1).randbytes(_many(size, 10 << 20)), lines, "not UTF-8"
    ),
    "a table of a million rows, one not UTF-8": HostileInput(
        _bad_table, matched, "topic: not UTF-8: 0xff at byte 2"
    ),
    "a Parquet file that breaks off": HostileInput(_cut_parquet, tables, "cannot read"),
}


def run(quick: bool) -> list[Result]:
    """Read every input in a process of its own; RuntimeError when something else is said of it."""
    results = []
    for name in INPUTS:
        size = SMALL if quick else 1.0
        told = subprocess.run(
            [sys.executable, "-m", "bench.hostile", name, str(size)],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, mebibytes, said = told.stdout.split(" ", 2)
        if not quick and INPUTS[name].says not in said:
            raise RuntimeError(f"of {name} was said: {said}")
        checked = "what is said of each"
        results.append(Result("hostile input", name, "time", float(seconds), "s", checked))
        results.append(Result("hostile input", name, "memory", float(mebibytes), "MiB", checked))
    return results


def measure(name: str, size: float) -> tuple[float, float, str]:
    """Seconds, mebibytes beyond the input, and what was said, of an input read in this process."""
    hostile = INPUTS[name]
    hostile.read(hostile.make(SMALL / 10))  # what is loaded or compiled once is not the input's
    made = hostile.make(size)
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    start = time.perf_counter()
    said = hostile.read(made)
    return time.perf_counter() - start, max(0.0, _memory("VmHWM") - before), said


def _memory(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(*measure(sys.argv[1], float(sys.argv[2])))
