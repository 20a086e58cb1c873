"""A workload of the bench: our subscriptions, tables of events, and which peers can be asked the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from distributary.model import Subscription


@dataclass(frozen=True, slots=True)
class Asked:
    """What a peer's program is given: rules one a line, events one a line, and further arguments."""

    peer: str
    """A name in `bench.peers.PEERS`."""
    rules: Callable[[], Iterable[str]]
    events: Callable[[pa.Table], Iterable[str]]
    language: str
    """What rules and events are written in; peers of one language read the same files."""
    variant: tuple[str, ...] = ()
    shown: str = ""
    """What the variant is called in the table."""
    judged: bool = True
    """Whether ours is meant to be as fast at least."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The subscription of number n has the id `r<n>`; every table but the first is one round of ours."""

    name: str
    title: str
    kind: Literal["topic", "where"]
    subscriptions: Sequence[Subscription]
    tables: Sequence[pa.Table]
    peers: Sequence[Asked] = ()
    json: Callable[[pa.Table], Iterable[str]] | None = None
    """Events as JSON lines, where ours is measured from them too."""
    sql: Sequence[str] = ()
    """The rules in DuckDB's words, where it is asked."""
    sample: int = 1
    """DuckDB is asked every so many-th rule only, and its time multiplied."""
    singles: int = 300
    """How many events ours is given one by one in a round."""
    notes: Mapping[str, str] = field(default_factory=dict)
