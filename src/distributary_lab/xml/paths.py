"""What the experiments on XML matching share: parsed documents and paths of the collection, and a clock."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import numpy as np

from distributary.filters.path.filter import PathFilter
from distributary.filters.path.pattern import And, Compares, Exists, LocationPath, Not, Or, Predicate
from distributary.matching.path.signature import Item
from distributary.model import Event
from distributary.workloads import xml_collection
from distributary.workloads.xml_types import TYPES, DocumentType
from distributary_lab.experiment import Row, seed_from

MADE = (
    "Documents are made after the element and attribute counts of Table 3.1, with a median of 4 KB; the "
    "thesis took 3,680 of the Niagara project, 3 GB in all. Paths come from a generator in the manner of "
    "YFilter's."
)

MOST_RUNS = 30


def documents(count: int, random: np.random.Generator, size: int = 4_000) -> list[Event]:
    """So many documents of the collection; all of one size when that is not the collection's own."""
    spread = 1.0 if size == 4_000 else 0.0
    return list(xml_collection.events(count, seed=seed_from(random), size=size, spread=spread))


def paths(
    count: int,
    random: np.random.Generator,
    depth: int = 7,
    branching: float = 0.35,
    types: Sequence[DocumentType] = TYPES,
) -> list[PathFilter]:
    """So many twigs over the types, each type having its share."""
    share, more = divmod(count, len(types))
    return [
        PathFilter.parse(made.path)
        for number, kind in enumerate(types)
        for made in xml_collection.subscriptions(
            share + (number < more), seed=seed_from(random), types=[kind], depth=depth, branching=branching
        )
    ]


def depth_of(path_filter: PathFilter) -> int:
    """The depth of an expression, section 3.3.2: that of the deepest linear path in it.

    >>> depth_of(PathFilter.parse("/bib/book[author/last]/title"))
    4
    """
    return max(map(_path_depth, path_filter.branches))


def relationship_pairs(items: set[Item]) -> int:
    """How many of the items are pairs of a parent and a child."""
    return sum(isinstance(item, tuple) for item in items)


def least_seconds(action: Callable[[], object], fewest: int = 3, enough: float = 0.1) -> float:
    """The processor time of the least of several runs, without the garbage collector.

    There are runs until there were the fewest and they took enough seconds. It is not the time on the wall: a
    machine that is busy otherwise would be measured along.
    """
    taken: list[float] = []
    gc.disable()
    try:
        while len(taken) < fewest or (sum(taken) < enough and len(taken) < MOST_RUNS):
            start = time.process_time()
            action()
            taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(taken)


def keep_least(row: Row, name: str, action: Callable[[], object], count: int) -> None:
    """Time an action that does something so many times; the row keeps the least microseconds for one."""
    microseconds = least_seconds(action, fewest=1, enough=0.02) * 1e6 / count
    row[name] = min(float(row.get(name, microseconds)), microseconds)


def _path_depth(path: LocationPath) -> int:
    below = (
        number + _predicate_depth(predicate)
        for number, step in enumerate(path.steps, 1)
        for predicate in step.predicates
    )
    return max([len(path.steps), *below])


def _predicate_depth(predicate: Predicate) -> int:
    match predicate:
        case Exists(path) | Compares(path, _, _):
            return _path_depth(path)
        case And(parts) | Or(parts):
            return max(map(_predicate_depth, parts))
        case Not(part):
            return _predicate_depth(part)
