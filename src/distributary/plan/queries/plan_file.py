"""Reading queries that are to be placed: a TOML file as for trees (`sites_file`), and what queries need.

    queries = "queries.toml"         # sources and queries, as docs/queries.md has them
    goal = "minimise aggregate(SUM, incoming rate, BROKERS)"
    constraints = ["node load <= 500"]           # optional
    latency = "latency.csv"          # as for trees; so are bandwidth, symmetric and [[site]]
    rules = ["migration", "replication"]         # optional; also partition; migration alone if not said
    filtering = true                 # optional: what a filter does not let pass is left out on the way to it
    fanout = 4                       # optional: a site sends an operator's stream to so many others, at most
    matching = 0.1                   # optional: cycles an item for every link that a site forwards on

    [[site]]
    name = "fra"
    speed = 2.0                      # optional: processor cycles a millisecond, 1 if not said

    [source.trades]
    site = "fra"                     # who publishes it: the root of its tree
    rate = 16000                     # bytes a second
    items = 100                      # items a second

    [client]
    busy = "lon"                     # who wants the query's results: a site for every query

    [operator."busy.large"]          # optional, as is every key; or "busy.UNIT", a super-operator as a whole
    selectivity = 0.1                # items out for an item in
    growth = 0.5                     # bytes of an item that goes out, against one that comes in
    cost = 2.0                       # processor cycles an item
    site = "lon"                     # where it runs today; else at its client's

    [tree.fra]                       # optional: the tree below a publishing site, by parents
    lon = "ams"                      # sites that are not named are directly under the root

    [duties.lon]                     # optional, as is every key: what a site does besides these queries
    load = 300                       # processor cycles a second, in `node load`
    incoming = 5000                  # bytes a second from other sites, in `incoming rate`
    forwarding = 5000                # bytes a second to other sites, in `forwarding rate`
    operators = 4                    # how many operators it runs, in `operators`
    cycles = 6.0                     # what an item costs all of these, in `node delay`

    [rates]                          # optional: rates and selectivities as a pipeline measured them
    metrics = "metrics"              # as for trees; `weight` is the bytes of an item

Rules:

- A measured source's items are those of all topics that its pattern matches; an operator's are those of the
  topic it publishes with (`query/operator`), and its selectivity is them by what it reads. What the file
  gives itself counts more than what was measured; what is neither is guessed as `catalogue` says.
- Every error names the file, the table and key, and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from distributary.flow.catalogue import Catalogue
from distributary.flow.language.file import read_catalogue
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.blocks import blocks_of
from distributary.plan.queries.catalogue import ITEMS, RATE, WorkloadStatistics, workload_of
from distributary.plan.queries.generator import at_clients
from distributary.plan.queries.goals import UNITS, parse_query_goal
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import NO_DUTIES, Duties, Placement, SiteNetwork
from distributary.plan.queries.rules import MIGRATIONS, PARTITION, REPLICATION, QueryRule
from distributary.plan.queries.spreading import StreamSpreading, preference_of
from distributary.plan.trees.matrices import SiteNames
from distributary.plan.trees.rates import PipelineRates, read_rates
from distributary.plan.trees.sites_file import PlanTables, SiteTable, read_sites, read_tables
from distributary.plan.trees.tree import Tree
from distributary.toml_files import Number, Positive, Text, Truth, read_toml, toml_table

RULES: Mapping[str, Sequence[QueryRule]] = {
    "migration": MIGRATIONS,
    "replication": (REPLICATION,),
    "partition": (PARTITION,),
}
RuleNames = Annotated[
    list[Literal["migration", "replication", "partition"]],
    Field(min_length=1, description="a list of migration, replication, partition"),
]


@toml_table
class ComputingSite(SiteTable):
    """A [[site]] of a plan for queries."""

    speed: Positive = 1.0


@toml_table
class PublishedSource:
    """A table [source.NAME]."""

    site: Text
    rate: Number | None = None
    items: Number | None = None


@toml_table
class OperatorTable:
    """A table [operator.NAME]."""

    selectivity: Number | None = None
    growth: Number | None = None
    cost: Number | None = None
    site: Text | None = None


@toml_table
class DutiesTable:
    """A table [duties.SITE]."""

    load: Number = 0
    incoming: Number = 0
    forwarding: Number = 0
    operators: Annotated[int, Field(ge=0, description="a whole number that is not negative")] = 0
    cycles: Number = 0


@toml_table
class QueryPlanTables(PlanTables):
    """The file of a plan for queries."""

    _: KW_ONLY
    queries: Annotated[Text, Field(description="the name of a TOML file with queries")]
    site: Annotated[list[ComputingSite], Field(min_length=2, description="at least two [[site]] entries")]
    rules: RuleNames = field(default_factory=lambda: ["migration"])
    matching: Number = 0
    filtering: Truth = False
    fanout: Annotated[int, Field(ge=1, description="a whole number of at least 1")] | None = None
    source: dict[str, PublishedSource] = field(default_factory=dict)
    client: dict[str, Text] = field(default_factory=dict)
    operator: dict[str, OperatorTable] = field(default_factory=dict)
    tree: dict[str, dict[str, Text]] = field(default_factory=dict)
    duties: dict[str, DutiesTable] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryPlan:
    """What was read: the goal, which rules may be used, and where everything is at first."""

    goal: Goal
    rules: tuple[QueryRule, ...]
    start: Placement
    today: bool
    """Whether the file says where operators run now; if not, they are at their clients'."""
    units: Mapping[str, str]
    """What each statistic that a goal may name is in, those of the user's own among them."""


def asks_for_queries(path: Path) -> bool:
    """Whether the file is one for queries: it names a file of them."""
    return path.suffix.lower() != ".csv" and "queries" in read_toml(path)


def read_query_plan(path: Path, goal: str | None = None) -> QueryPlan:
    """Read the file; `goal` stands in for the one in it."""
    tables = read_tables(QueryPlanTables, path, {"goal": goal})
    return _Reader(path, tables).plan()


class _Reader:
    """Brings together what the file's tables, its queries and the metrics say."""

    def __init__(self, path: Path, tables: QueryPlanTables) -> None:
        self.path = path
        self.tables = tables
        self.names = SiteNames(path, [row.name for row in tables.site])
        self.catalogue = self._catalogue()
        units = dict.fromkeys(bound.unit for bound in self.catalogue.operators if bound.unit is not None)
        operators = [*(bound.name for bound in self.catalogue.operators), *units]
        self._check_known("source", tables.source, list(self.catalogue.sources))
        self._check_known("query", tables.client, list(self.catalogue.queries))
        self._check_known("operator", tables.operator, operators)
        self._check_known("site", tables.duties, self.names.names)

    def _catalogue(self) -> Catalogue:
        path = self.path.parent / self.tables.queries
        catalogue = read_catalogue(read_toml(path))
        catalogue.check()
        if not catalogue.queries:
            raise self.names.refused(f"{path} has no queries")
        return catalogue

    def _check_known(self, what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
        for name in given:
            if name not in known:
                there = ", ".join(known) or "none"
                raise self.names.refused(f"there is no {what} {name!r}; there are {there}")

    def plan(self) -> QueryPlan:
        goal = parse_query_goal(self.tables.statements, self.tables.own_metrics)
        publishers = self._publishers()
        roots = sorted(set(publishers.values()))
        workload = workload_of(
            self.catalogue,
            self._clients(),
            {name: roots.index(site) for name, site in publishers.items()},
            self._measured(),
            filtering=self.tables.filtering,
        )
        network = SiteNetwork(
            read_sites(self.tables, self.tables.site, self.names),
            self._trees(roots),
            [row.speed for row in self.tables.site],
            self.tables.matching,
            self._duties(),
            self.tables.filtering,
            self._spreading(goal),
        )
        today = self._today(workload)
        rules = tuple(rule for name in self.tables.rules for rule in RULES[name])
        start = at_clients(workload, network).moved(today)
        return QueryPlan(goal, rules, start, bool(today), {**UNITS, **self.tables.own_units})

    def _spreading(self, goal: Goal) -> StreamSpreading | None:
        """How operators' streams spread, if the file says to how many sites one site sends them at most."""
        fanout = self.tables.fanout
        return None if fanout is None else StreamSpreading(fanout, preference_of(goal))

    def _publishers(self) -> dict[str, int]:
        for name in self.catalogue.sources:
            if name not in self.tables.source:
                raise self.names.refused(
                    f'no site publishes {name!r}; expected `site = "..."` in [source.{name}]'
                )
        return {
            name: self.names.index(self.tables.source[name].site, f"the site of source {name!r}")
            for name in self.catalogue.sources
        }

    def _clients(self) -> dict[str, int]:
        given = self.tables.client
        for name in self.catalogue.queries:
            if name not in given:
                raise self.names.refused(f'nobody wants {name!r}; expected `{name} = "SITE"` in [client]')
        return {name: self.names.index(given[name], f"the client of {name!r}") for name in given}

    def _trees(self, roots: Sequence[int]) -> tuple[Tree, ...]:
        given = self.tables.tree
        names = [self.names.names[root] for root in roots]
        self._check_known("publishing site", given, names)
        for name in given:
            if name in given[name]:
                raise self.names.refused(f"[tree.{name}] gives {name!r} a parent, and it is the root")
        return tuple(
            self.names.tree(given.get(name, {}), root, f" in [tree.{name}]")
            for name, root in zip(names, roots, strict=True)
        )

    def _duties(self) -> list[Duties]:
        """What each site does besides these queries; an empty list if no site does anything."""
        given = {name: Duties(**asdict(row)) for name, row in self.tables.duties.items()}
        return [given.get(name, NO_DUTIES) for name in self.names.names] if given else []

    def _today(self, workload: QueryWorkload) -> dict[int, int]:
        """Where operators run now, by number; one that stands for several is where any of them says."""
        given = {name: row.site for name, row in self.tables.operator.items() if row.site is not None}
        places = {operator.name: index for index, operator in enumerate(workload.operators)}
        found: dict[int, int] = {}
        for block in blocks_of(self.catalogue).blocks:
            for name in (*block.stands_for, block.name):
                if name in given:
                    site = self.names.index(given[name], f"the site of operator {name!r}")
                    found[places[block.name]] = site
        return found

    def _measured(self) -> WorkloadStatistics:
        """What the file gives, and for the rest what the metrics say."""

        def given(tables: Mapping[str, Any], key: str) -> dict[str, float]:
            found = {name: getattr(row, key) for name, row in tables.items()}
            return {name: value for name, value in found.items() if value is not None}

        catalogue, table = self.catalogue, self.tables.rates
        items, bytes_ = given(self.tables.source, "items"), given(self.tables.source, "rate")
        known = ("selectivity", "growth", "cost")
        selectivity, growth, cost = (given(self.tables.operator, key) for key in known)
        if table is not None:
            rates = read_rates(self.path.parent / table.metrics, table.seconds)
            items = self._source_items(rates, items)
            sizes = {name: _size(rates, name, table.weight) for name in catalogue.sources}
            bytes_ = {**{name: sizes[name] * items[name] for name in catalogue.sources}, **bytes_}
            selectivity = {**measured_selectivities(catalogue, rates, items, selectivity), **selectivity}
            growth = {**measured_growth(catalogue, rates), **growth}
        return WorkloadStatistics(
            {**dict.fromkeys(catalogue.sources, RATE), **bytes_},
            {**dict.fromkeys(catalogue.sources, ITEMS), **items},
            selectivity,
            growth,
            cost,
        )

    def _source_items(self, rates: PipelineRates, given: Mapping[str, float]) -> dict[str, float]:
        """The items a second of each source: as given, as measured, or those of its topics together."""
        found = dict(given)
        for name, source in self.catalogue.sources.items():
            if name in found:
                continue
            if name in rates.streams:
                found[name] = rates.streams[name].rate
                continue
            topics = rates.topics_of(source.topic) if source.topic is not None else []
            if not topics:
                raise self.names.refused(
                    f"the metrics have no topic of source {name!r}; expected `items` in [source.{name}]"
                )
            found[name] = sum(rates.topics[topic].rate for topic in topics)
        return found


def _size(rates: PipelineRates, source: str, weight: float | None) -> float:
    """The bytes of an item: as given, as measured, or 1."""
    measured = rates.streams[source].size if source in rates.streams else None
    return weight if weight is not None else measured or 1.0


def measured_selectivities(
    catalogue: Catalogue, rates: PipelineRates, items: Mapping[str, float], given: Mapping[str, float]
) -> dict[str, float]:
    """The selectivity of every operator whose output the metrics have, by what it reads.

    Operators in between that were not measured are taken to have the selectivity given, or 1.
    """
    flows = dict(items)
    found: dict[str, float] = {}
    for bound in catalogue.operators:
        read = sum(flows[stream] for stream in bound.inputs)
        seen = [rate for stream in bound.streams if (rate := _rate(catalogue, rates, stream)) is not None]
        if seen and read:
            found[bound.name] = seen[0] / read  # the two streams of a split are the same
        produced = read * given.get(bound.name, found.get(bound.name, 1.0))
        flows.update(dict.fromkeys(bound.streams, produced))
    return found


def _rate(catalogue: Catalogue, rates: PipelineRates, stream: str) -> float | None:
    """The items a second of a stream, if they were measured; in older metrics, by its topic."""
    if stream in rates.streams:
        return rates.streams[stream].rate
    topic = catalogue.streams[stream].topic
    return rates.topics[topic].rate if topic is not None and topic in rates.topics else None


def measured_growth(catalogue: Catalogue, rates: PipelineRates) -> dict[str, float]:
    """What the bytes of an item that goes out are to those of one that comes in, where both were measured."""
    found: dict[str, float] = {}
    for bound in catalogue.operators:
        read = [rates.streams[stream] for stream in bound.inputs if stream in rates.streams]
        items, size = sum(one.items for one in read), sum(one.bytes for one in read)
        given = rates.streams.get(bound.streams[0])
        if given is not None and given.size is not None and size:
            found[bound.name] = given.size / (size / items)
    return found
