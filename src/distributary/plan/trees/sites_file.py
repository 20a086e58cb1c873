"""Reading what is to be planned: a TOML file, with tables in it or in CSV files beside it, or CSV alone.

    root = "fra"
    goal = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
    constraints = ["fanout <= 6"]    # optional; they may stand in the goal as well
    latency = "latency.csv"          # or a table of rows, as many as there are sites
    bandwidth = "bandwidth.csv"      # only where the goal asks for it
    symmetric = true                 # false: links may differ by direction

    [[site]]                         # or site = "sites.csv", with these as columns
    name = "fra"
    clients = 3                      # optional, as are the next two
    processing = 0.2
    wants = ["quotes"]               # in CSV with spaces between them
    parent = "ams"                   # optional, for all sites or for none: the tree of today

    [streams]                        # or streams = "streams.csv", with columns `stream` and `rate`
    quotes = 12.5                    # the rate of each stream

    [units]                          # optional: what numbers are in, for pictures; these if not said
    latency = "ms"                   # of processing times, too
    bandwidth = "Mbit/s"
    rate = "events/s"

    [metric.toll]                    # metrics of your own, by the names that the goal has for them:
    links = "toll.csv"               # of links, given as latency is;
    symmetric = true                 # optional: as links may differ by direction if nothing is said
    unit = "€"                       # optional, for pictures

    [metric.rent]
    sites = {fra = 3.5, ams = 2}     # of sites: a number for each

    [rates]                          # or rates as a pipeline measured them: see `rates`
    metrics = "metrics"              # the directory: `path` of the pipeline's [metrics]
    seconds = 3600                   # optional: the time that its events are from
    weight = 0.5                     # optional: what an event counts for, such as its size in KB

    [[site]]                         # with [rates]
    name = "ams"
    wants = ["quotes/NYSE"]          # topic patterns; the streams are the topics that match
    subscribers = ["ann", "bob"]     # clients at this site; the streams are what matched for them

Without sites, those of the latency file are taken, the first as the root. `matrices` says what latency and
bandwidth files look like. With [rates], what a subscriber wants is, for each of their subscriptions, a stream
with the rate of its matches; streams of different subscriptions count as different, also where both wanted
the same event. Every error names the file, the table or site, and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from distributary.errors import DistributaryError, FilterError
from distributary.plan.goal.expression import Goal, Place
from distributary.plan.trees import matrices
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.metrics import Metric, measured
from distributary.plan.trees.rates import PipelineRates, read_rates
from distributary.plan.trees.tree import Sites, Tree
from distributary.plan.trees.units import TreeUnits
from distributary.toml_files import (
    Names,
    Number,
    Positive,
    Text,
    read_toml,
    suggestion,
    toml_table,
    validated,
)

T = TypeVar("T", bound="PlanTables")

SITE_COLUMNS = ("name", "clients", "processing", "wants", "subscribers", "parent")
STREAM_COLUMNS = ("stream", "rate")

Links = Annotated[str | list[list[Any]], Field(description="a file name or rows of numbers")]
SpacedNames = Annotated[
    Names, BeforeValidator(lambda given: given.split() if isinstance(given, str) else given)
]


@toml_table
class SiteTable:
    """One of the [[site]] tables that every plan has."""

    name: Text
    clients: Number = 0
    processing: Number = 0
    parent: Text | None = None


@toml_table
class InterestedSite(SiteTable):
    """A [[site]] of a plan for trees."""

    wants: Names = ()
    subscribers: SpacedNames = ()


@toml_table
class RatesTable:
    """The table [rates]: which metrics to take rates from."""

    metrics: Annotated[Text, Field(description="a string, the directory of a pipeline's metrics")]
    seconds: Positive | None = None
    weight: Positive | None = None


@toml_table
class MetricTable:
    """One of the tables [metric.NAME]: a metric of the user's own, of links or of sites."""

    links: Links | None = None
    symmetric: Annotated[bool, Field(description="true or false")] = False
    sites: dict[str, Number] | None = None
    unit: Text = ""


@toml_table
class UnitsTable:
    """The table [units]: what numbers are in."""

    latency: Text = TreeUnits.latency
    bandwidth: Text = TreeUnits.bandwidth
    rate: Text = TreeUnits.rate


@toml_table
class PlanTables:
    """What plans for trees and for queries have in common."""

    _: KW_ONLY
    goal: Annotated[Text, Field(description='a string such as "minimise ...", in the file or as --goal')]
    constraints: Annotated[tuple[Text, ...], Field(description='a list such as ["fanout <= 6"]')] = ()
    latency: Links
    bandwidth: Links | None = None
    symmetric: Annotated[bool, Field(description="true or false")] = True
    rates: RatesTable | None = None
    metric: dict[str, MetricTable] = field(default_factory=dict)

    @property
    def own_metrics(self) -> dict[str, Metric]:
        """The user's own metrics by name, for goals."""
        return {
            name: measured(name, Place.NODE if table.links is None else Place.LINK)
            for name, table in self.metric.items()
        }

    @property
    def own_units(self) -> dict[str, str]:
        """What the user's own metrics are in, by name."""
        return {name: table.unit for name, table in self.metric.items()}

    @property
    def statements(self) -> str:
        """The goal with the constraints."""
        return "\n".join([self.goal, *(f"subject to {each}" for each in self.constraints)])


@toml_table
class TreePlanTables(PlanTables):
    """The file of a plan for trees."""

    _: KW_ONLY
    root: Text | None = None
    site: Annotated[list[InterestedSite], Field(min_length=2, description="at least two [[site]] entries")]
    streams: dict[str, Number] = field(default_factory=dict)
    units: UnitsTable = field(default_factory=UnitsTable)


@dataclass(frozen=True)
class TreePlan:
    """What was read: the sites, the root, what the tree should be good for, and the tree of today, if any."""

    sites: Sites
    root: int
    goal: Goal
    today: Tree | None
    units: TreeUnits


def read_plan(path: Path, **instead: str | None) -> TreePlan:
    """Read the file; keys in `instead` that have a value stand in for those in it.

    A CSV file is taken to be that of the latencies.
    """
    tables = read_tables(TreePlanTables, path, instead)
    rows, streams = tables.site, tables.streams
    if tables.rates is not None:
        rows, streams = _with_measured_streams(path, tables.rates, rows, streams)
    elif any(row.subscribers for row in rows):
        raise DistributaryError(
            f"{path}: sites have subscribers, and there is no [rates] to say what these want"
        )
    names = matrices.SiteNames(path, [row.name for row in rows])
    root = names.index(tables.root or rows[0].name, "root")
    bits = {stream: 1 << at for at, stream in enumerate(streams)}
    for row in rows:
        for stream in row.wants:
            if stream not in bits:
                raise names.refused(f"site {row.name!r} wants {stream!r}, whose rate is not in [streams]")
    interest = [sum({bits[stream] for stream in row.wants}) for row in rows]
    return TreePlan(
        replace(
            read_sites(tables, rows, names),
            interest=interest if streams else (),
            rates=list(streams.values()),
        ),
        root,
        parse_goal(tables.statements, tables.own_metrics),
        _today(rows, root, names),
        TreeUnits(**asdict(tables.units), own=tables.own_units),
    )


def read_tables(kind: type[T], path: Path, instead: Mapping[str, Any]) -> T:
    """The tables of a plan's file, with those in it that are in CSV files beside it."""
    is_csv = path.suffix.lower() == ".csv"
    given: dict[str, Any] = {"latency": str(path.resolve())} if is_csv else read_toml(path)
    given |= {key: value for key, value in instead.items() if value is not None}
    if isinstance(given.get("site"), str):
        rows = _csv_table(path, given["site"], SITE_COLUMNS)
        given["site"] = [
            {**row, **({"wants": row["wants"].split()} if "wants" in row else {})} for row in rows
        ]
    elif "site" not in given and isinstance(given.get("latency"), str):
        given["site"] = [{"name": name} for name in matrices.names_in(path.parent / given["latency"], path)]
    if isinstance(given.get("streams"), str):
        if "rates" in given:
            raise DistributaryError(
                f"{path}: streams in a file and [rates] do not go together; put them into [streams]"
            )
        rows = _csv_table(path, given["streams"], STREAM_COLUMNS)
        given["streams"] = {row.get("stream", ""): row.get("rate") for row in rows}
    return validated(kind, given, str(path))


def _csv_table(path: Path, name: str, known: Sequence[str]) -> list[dict[str, str]]:
    """The lines of a CSV file by column; empty cells are left out."""
    (_, header), *rows = matrices.csv_rows(path.parent / name, path)
    for column in header:
        if column not in known:
            raise DistributaryError(
                f"{path}: {name}: there is no column {column}; {suggestion(column, known)}"
            )
    return [{key: cell for key, cell in zip(header, row, strict=True) if cell} for _, row in rows]


def read_sites(tables: PlanTables, rows: Sequence[SiteTable], names: matrices.SiteNames) -> Sites:
    """The sites and the links between them."""
    for name, table in tables.metric.items():
        if (table.links is None) == (table.sites is None):
            raise names.refused(f"[metric.{name}]: expected either `links` or `sites`")
    latency, bandwidth = (
        matrices.read_links(given, names, what, tables.symmetric) if given is not None else ()
        for what, given in ((matrices.LATENCY, tables.latency), ("bandwidth", tables.bandwidth))
    )
    return Sites(
        latency=latency,
        bandwidth=bandwidth,
        clients=[int(row.clients) for row in rows],
        processing=[row.processing for row in rows],
        names=names.names,
        link_metrics={
            name: matrices.read_links(table.links, names, name, table.symmetric)
            for name, table in tables.metric.items()
            if table.links is not None
        },
        site_metrics={
            name: _of_sites(name, table.sites, names)
            for name, table in tables.metric.items()
            if table.sites is not None
        },
    )


def _of_sites(metric: str, given: Mapping[str, float], names: matrices.SiteNames) -> list[float]:
    """The values of a metric of sites, each of which must have one."""
    for name in given:
        names.index(name, f"[metric.{metric}]")
    lacking = [name for name in names.names if name not in given]
    if lacking:
        raise names.refused(f"[metric.{metric}] has no value for site {lacking[0]!r}")
    return [given[name] for name in names.names]


def _with_measured_streams(
    path: Path, table: RatesTable, rows: Sequence[InterestedSite], given: Mapping[str, float]
) -> tuple[list[InterestedSite], dict[str, float]]:
    """The sites with streams in place of topic patterns and subscribers, and the rates of those streams.

    Streams whose rates were given keep their name and rate; all else that a site wants is a pattern.
    """
    measured = read_rates(path.parent / table.metrics, table.seconds)
    weight = table.weight or 1.0
    streams = dict(given)
    sites = []
    for row in rows:
        wants: list[str] = []
        for want in row.wants:
            topics = [] if want in streams else _topics(path, measured, want, row.name)
            wants += topics or [want]
            streams |= {topic: weight * measured.topics[topic].rate for topic in topics}
        for subscriber in row.subscribers:
            own = measured.subscriptions_of(subscriber)
            if not own:
                raise DistributaryError(
                    f"{path}: site {row.name!r} has the subscriber {subscriber!r}, who matched nothing"
                )
            rates = {f"subscription {one}": weight * measured.subscriptions[one].rate for one in own}
            wants += rates
            streams |= rates
        sites.append(replace(row, wants=tuple(dict.fromkeys(wants)), subscribers=()))
    return sites, streams


def _topics(path: Path, measured: PipelineRates, pattern: str, site: str) -> list[str]:
    """The topics that were measured and match."""
    try:
        found = measured.topics_of(pattern)
    except FilterError as error:
        raise DistributaryError(f"{path}: site {site!r} wants {pattern!r}: {error}") from error
    if not found:
        raise DistributaryError(
            f"{path}: site {site!r} wants {pattern!r}, of which the metrics have no topic"
        )
    return found


def _today(rows: Sequence[SiteTable], root: int, names: matrices.SiteNames) -> Tree | None:
    """The tree that the sites' parents make, if they have any."""
    parents = {row.name: row.parent for row in rows if row.parent is not None and row is not rows[root]}
    lacking = [row.name for row in rows if row.name not in parents and row is not rows[root]]
    if not any(row.parent for row in rows):
        return None
    if lacking:
        raise names.refused(f"site {lacking[0]!r} has no parent, and others have; give all or none")
    return names.tree(parents, root, "")
