"""Compiling the kernels that the demonstration's workers will need, before they need them.

Numba compiles a kernel when it is first called and keeps it in a cache on disk, where workers find it. Left
to the workers, each of them would compile the same. Compiling takes one core, so kinds of filters are
divided among processes, which run while the engine starts:

    python -m distributary.cli.demo.kernels path
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from distributary.cli.demo.script import SCHEMA
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.model import Subscription
from distributary.workloads import mixed

SHARES = (("topic", "where", "change"), ("path",))
"""The kinds that a process compiles; both take about as long."""
FROZEN, ADDED = 150, 50
"""Subscriptions in the index that is opened, and those that are added to it."""
ARROW = {"STRING": pa.string(), "DOUBLE": pa.float64(), "BIGINT": pa.int64(), "TIMESTAMP": pa.int64()}
"""How Spark's types reach the kernels."""


@contextmanager
def compiling(log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that compile; what they have to say goes to the log, and none outlives the block."""
    with log.open("ab") as said:
        processes = [
            subprocess.Popen([sys.executable, "-m", __name__, *kinds], stdout=said, stderr=said)
            for kinds in SHARES
        ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compile_kernels(kinds: Sequence[str]) -> None:
    """Do with subscriptions of these kinds all that a worker does."""
    made = _subscriptions(set(kinds))
    table = _events()
    batch = EventBatch.from_table(table)
    with tempfile.TemporaryDirectory() as place:
        Matcher(made[:FROZEN], serials=range(FROZEN)).freeze(f"{place}/index")
        matcher = Matcher.open(f"{place}/index")
        for subscription in made[FROZEN:]:
            matcher.add(subscription)
        for subscription in made[:ADDED]:
            matcher.remove(subscription.id)
        matcher.tolerant_rows(batch)
        matcher.matches(batch, tolerances="leave")
        matcher.matches(batch)
        topics = table["topic"].unique().to_pylist()
        memories = matcher.recall(topics)
        matcher.forget()
        matcher.restore(topics, memories)
        matcher.matches(batch)


def _subscriptions(kinds: set[str]) -> list[Subscription]:
    made = mixed.subscriptions(100 * (FROZEN + ADDED), seed=0)
    fitting = (one for one in made if one.filters().keys() <= kinds)
    return [next(fitting) for _ in range(FROZEN + ADDED)]


def _events() -> pa.Table:
    """Events as a worker gets them: with every column of the schema."""
    columns = [column.split() for column in SCHEMA.split(",")]
    schema = pa.schema([(name, ARROW[kind]) for name, kind in columns])
    return pa.Table.from_pylist(
        [{**event.to_record(), "at": 0} for event in mixed.events(64, seed=0)], schema
    )


if __name__ == "__main__":
    compile_kernels(sys.argv[1:])
