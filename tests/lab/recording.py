"""Rows of small grids, recorded, for the tests of checks: the quick ones, or what takes a second or two.

After changing what an experiment measures, record it again: `python tests/lab/recording.py NAME...`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from distributary_lab.experiment import Point, Row, Value, grid, point_random
from distributary_lab.registry import find
from distributary_lab.systems.comparison import COMPARED
from distributary_lab.tree import bottleneck
from distributary_lab.tree.traffic import GOALS

PLACE = Path(__file__).parent / "recorded"
SEED = 1
CALM = {"changing": [False], "copies": [1]}
BUSY = {"changing": [True], "length": [1024]}
LIMITS = ["5 10 100"]
SITES = {"part": [1], "runs": [1]}
HEARING = {"hears": ["everybody worst"], "run": [1]}
RUNNING = {"queries": [3], "feeds": [3], "events": [20], "seconds": [20]}
SMALLER: dict[str, Sequence[Point]] = {
    "hope-multicast": grid(nodes=[8, 16, 32], saturation=[0.2, 0.5, 0.75]),
    "hope-upkeep": grid(nodes=[4, 8, 16], length=[0, 128, 1024], seconds=[60], **CALM),
    "hope-replication": grid(nodes=[8, 16], copies=[1, 2, 8], seconds=[10], **BUSY),
    "placement-bandwidth": grid(nodes=[12], queries=[10, 20], run=[1]),
    "placement-bandwidth-limits": grid(nodes=[12], queries=[20], limits=LIMITS, run=[1]),
    "placement-replication": grid(nodes=[12], queries=[15], run=[1]),
    "placement-latency": grid(nodes=[12], queries=[20], run=[1]),
    "placement-response": grid(nodes=[10, 14], queries=[15], run=[1]),
    "placement-latency-limit": grid(nodes=[12], queries=[30], run=[1]),
    "placement-load": grid(nodes=[12], queries=[30], run=[1]),
    "placement-load-sizes": grid(nodes=[8, 14], queries=[30], run=[1]),
    "placement-statistics": grid(nodes=[12], queries=[30], tops=["4 8 0"], run=[1]),
    "placement-partition": (
        *grid(nodes=[12], queries=[20], operators=["mixed"], run=[1]),
        *grid(nodes=[12], queries=[4], operators=["filters"], run=[1]),
    ),
    "placement-traffic-nodes": (
        *grid(on=["planner"], nodes=[10, 24], queries=[25], tops=["0 8 4"], **HEARING),
        *grid(on=["nodes"], nodes=[4, 8], tops=["0 3 2"], **HEARING, **RUNNING),
    ),
    "placement-traffic-metrics": (
        *grid(on=["planner"], nodes=[10], queries=[12], top=[3], periods=[3], run=[1]),
        *grid(on=["nodes"], nodes=[4], top=[3], run=[1], **RUNNING),
    ),
    "placement-joint": grid(nodes=[10], queries=[12], run=[1]),
    "placement-springs": grid(nodes=[10], queries=[15], run=[1]),
    "placement-shedding": grid(nodes=[10], queries=[20], overloads=["1.5 3"], run=[1]),
    "queries-live-upkeep": grid(
        nodes=[5], queries=[2, 6], feeds=[4], events=[30], seconds=[20], goal=["load"], run=[1]
    ),
    "queries-live-sizes": grid(
        nodes=[4, 6, 8], queries=[3], feeds=[3], events=[20], seconds=[20], goal=["load"], run=[1]
    ),
    "queries-live-gain": grid(nodes=[5], queries=[3], feeds=[3], events=[40], seconds=[60], run=[1]),
    "tree-total-latency": grid(nodes=[16], run=[1, 2]),
    "tree-average-latency": grid(nodes=[20, 40], **SITES),
    "tree-maximum-latency": grid(nodes=[20, 100], **SITES),
    "tree-maximum-latency-annealing": grid(nodes=[6, 8], **SITES),
    "tree-scope": grid(nodes=[12, 20], **SITES),
    "tree-load": grid(nodes=[12], run=[1, 2]),
    "tree-drift": grid(nodes=[8], goal=["average"], run=[1]),
    "tree-bottleneck": grid(
        nodes=[10, 70], network=bottleneck.NETWORKS, start=bottleneck.STARTS, part=[1], runs=[1]
    ),
    "tree-bottleneck-limits": grid(
        nodes=[12], network=bottleneck.NETWORKS, start=bottleneck.STARTS, part=[1], runs=[1]
    ),
    "tree-bottleneck-annealing": grid(
        nodes=[5, 6], rules=["local", "hybrid"], network=bottleneck.NETWORKS[::2], part=[1], runs=[1]
    ),
    "tree-fanout-limits": grid(nodes=[12], part=[1], runs=[1], all_methods=[True]),
    "tree-redundant-data": grid(nodes=[12], **SITES),
    "tree-bandwidth-consumption": grid(nodes=[12], **SITES),
    "tree-traffic": grid(nodes=[8], feeds=[20], metric=list(GOALS)[:4], run=[0]),
    "tree-approximation": grid(nodes=[8], broadcast_periods=["0 1"], most_periods=[10], run=[0]),
    "state-aware-distributions": grid(
        maximum=[16, 64], nodes=[100], span=[16], minutes=[6], sources=[6], subscribers=[10], every=[1.5]
    ),
    "state-aware-sizes": tuple(
        {"distributions": "Par-Uni", "maximum": 64, "nodes": nodes, "span": span}
        | {"minutes": 6, "sources": 6, "subscribers": 10, "every": 1.5}
        for nodes, span in ((100, 16), (200, 16), (400, 16), (400, 4), (800, 16))
    ),
    "broker-delay": grid(system=["flooding"], bytes=[100, 10_000, 1_000_000], events=[2], round=[1]),
    "xml-matching": (
        *grid(sweep=["filters"], paths=["linear", "twigs"], size=[4_000], documents=[2], repeat=[0]),
        *grid(sweep=["depth"], paths=["twigs"], size=[4_000], documents=[2], repeat=[0]),
    ),
    "wide-area-tree": grid(nodes=[4]),
    "state-aware-balance": grid(nodes=[40], items=[8], subscriptions=[100], minutes=[3], repetition=[0]),
    "topic-tree-size": (
        *grid(levels=[4, 10], subscriptions=[1_000], values=[50]),
        *grid(levels=[10], subscriptions=[2_000], values=[50, 5_000]),
    ),
    "topic-costs": grid(
        repeat=[0], subscriptions=[1_000, 2_000], algorithm=["tree", "hash", "regex", "shapes"]
    ),
    "systems-side-by-side": grid(nodes=[12], system=COMPARED, subscriptions=[30], events=[12]),
    "systems-recovery": grid(nodes=[8], system=COMPARED[:3]),
}
"""By experiment: points in place of those of the quick grid."""


def plain(value: Value) -> Value:
    """A value as JSON has it; of a float six digits are enough to be judged."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool | str):
        return value
    return float(f"{value:.6g}") if float(value) != int(value) else int(value)


def record(name: str) -> Path:
    """Run the quick grid of an experiment and keep its rows, those of a column in one list."""
    (experiment,) = find(name)
    rows = [
        {**point, **row}
        for index, point in enumerate(SMALLER.get(name, experiment.quick))
        for row in experiment.run(point, point_random(SEED, experiment.name, index))
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [plain(row[name]) if name in row else None for row in rows] for name in names}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(column)}" for name, column in columns.items())
    place = PLACE / f"{experiment.name}.json"
    place.write_text(f"{{\n{lines}\n}}\n")
    return place


@cache
def _columns(name: str) -> dict[str, list[Value | None]]:
    columns: dict[str, list[Value | None]] = json.loads((PLACE / f"{name}.json").read_text())
    return columns


def recorded(name: str) -> list[Row]:
    """The rows of an experiment's quick grid, as they were recorded."""
    columns = _columns(name)
    return [
        {column: value for column, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(record(each))
