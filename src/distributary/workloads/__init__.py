"""Seeded workloads: subscriptions and events like those of the seed documents, in any number.

Each module named in `WORKLOADS` makes one workload with two functions of the same form:

    subscriptions(count, *, seed, ...) -> Iterator[Subscription]
    events(count, *, seed, ...)        -> Iterator[Event]

The same seed gives the same output on every machine. Further keyword arguments that are plain values are the
workload's options.

- `topics`, `ranges`, `rules`, `market`, `mixed`, `sensors`, `quotes`, `watches`: events of all kinds
- `documents`, `xml_types`, `xml_paths`, `xml_collection`: XML documents and paths over them
- `xml_folder`: a folder of XML files of yours; `quote_files`: files of quotes
- `feeds`: web feeds; `stock_days`: the stock application of 002
- `options`: what can be set with `distributary generate --set`
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Protocol, cast

from distributary.model import Event, Subscription

WORKLOADS = {
    "market": "quotes and news: topics, conditions, paths and tolerances, alone and together",
    "mixed": "quotes, sensor readings and RSS documents, with subscriptions of every kind",
    "sensors": "readings of sensors in rooms: topics, thresholds, batteries and tolerances",
    "topics": "hierarchical topics of 7 levels with one wildcard each (000, section IV)",
    "ranges": "4 range constraints of 10 attributes, each a fifth of the domain",
    "rules": "3 to 5 equality and range conditions, about 10 matches an event",
    "documents": "XML of nine document types and XPath filters (001, Table 3.1)",
    "xml_collection": "3,680 XML documents of all sizes and twig paths without values (001, section 3.3)",
    "feeds": "items of 700 web feeds and clients with profiles over them (003, section 4.6)",
    "watches": "quotes with documents, watched by topic, band, path and tolerance at once, for all systems",
    "quotes": "minute quotes of 30 stocks and tolerances on their price (002, section 5)",
}
"""The workloads by the name of their module, and what they are."""


class Workload(Protocol):
    """What every module here offers."""

    def subscriptions(self, count: int, *, seed: int) -> Iterator[Subscription]:
        """So many subscriptions; the same seed gives the same."""

    def events(self, count: int, *, seed: int) -> Iterator[Event]:
        """So many events; the same seed gives the same."""


def workload(name: str) -> Workload:
    """The workload of that name.

    >>> [event.id for event in workload("topics").events(2, seed=1)]
    ['e0', 'e1']
    """
    return cast(Workload, import_module(f"distributary.workloads.{name}"))
