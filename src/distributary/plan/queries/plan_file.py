"""Reading queries that are to be placed: a TOML file as for trees (`plan.sites_file`), and what queries need.

    queries = "queries.toml"         # sources and queries, as docs/queries.md has them
    goal = "minimise aggregate(SUM, incoming rate, BROKERS)"
    constraints = ["node load <= 500"]           # optional
    latency = "latency.csv"          # as for trees; so are bandwidth, symmetric and [[site]]
    rules = ["migration", "replication"]         # optional; also partition; migration alone if not said
    filtering = true                 # optional: what a filter does not let pass is left out on the way to it
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
- Every error names the file, the thing and what would be right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.file import read_catalogue
from distributary.plan.goal import Goal
from distributary.plan.queries.blocks import blocks_of
from distributary.plan.queries.catalogue import ITEMS, RATE, WorkloadStatistics, workload_of
from distributary.plan.queries.generator import at_clients
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import NO_DUTIES, Duties, Placement, SiteNetwork
from distributary.plan.queries.rules import MIGRATIONS, PARTITION, REPLICATION, QueryRule
from distributary.plan.trees.rates import KEYS as RATE_KEYS
from distributary.plan.trees.rates import Rates, read_rates
from distributary.plan.trees.sites_file import SitesReader
from distributary.plan.trees.tree import NO_PARENT, Tree

QUERIES = "queries"
SITES = ("latency", "bandwidth", "symmetric", "site")
KEYS = (
    QUERIES,
    "goal",
    "constraints",
    *SITES,
    "rules",
    "matching",
    "filtering",
    "source",
    "client",
    "operator",
    "tree",
    "duties",
    "rates",
)
SOURCE_KEYS = ("site", "rate", "items")
OPERATOR_KEYS = ("selectivity", "growth", "cost", "site")
DUTY_KEYS = tuple(field.name for field in fields(Duties))

RULES: Mapping[str, Sequence[QueryRule]] = {
    "migration": MIGRATIONS,
    "replication": (REPLICATION,),
    "partition": (PARTITION,),
}

Table = Mapping[str, Any]


@dataclass(frozen=True)
class QueryPlan:
    """What was read: the goal, which rules may be used, and where everything is at first."""

    goal: Goal
    rules: tuple[QueryRule, ...]
    start: Placement
    today: bool
    """Whether the file says where operators run now; if not, they are at their clients'."""


def asks_for_queries(path: Path) -> bool:
    """Whether the file is one for queries: it names a file of them."""
    return path.suffix.lower() != ".csv" and QUERIES in _tables(path)


def read_query_plan(path: Path, goal: str | None = None) -> QueryPlan:
    """Read the file; `goal` stands in for the one in it."""
    given = _tables(path)
    return _Reader(path, given if goal is None else {**given, "goal": goal}).plan()


def _tables(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DistributaryError(f"{path}: {error}") from error


class _Reader:
    def __init__(self, path: Path, given: Table) -> None:
        self.path = path
        self.given = given
        self.check_keys(given, KEYS, "the file")
        rows = given.get("site")
        self.speeds: list[Any] = []
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            self.speeds = [row.get("speed", 1.0) for row in rows]
            rows = [{key: value for key, value in row.items() if key != "speed"} for row in rows]
        about_sites = {key: given[key] for key in SITES if key in given}
        self.sites = SitesReader(path, about_sites | ({"site": rows} if rows is not None else {}))
        self.names = self.sites.names

    def refuse(self, reason: str) -> DistributaryError:
        return DistributaryError(f"{self.path}: {reason}")

    def check_keys(self, table: Table, known: Sequence[str], where: str) -> None:
        unknown = sorted(set(table) - set(known))
        if unknown:
            raise self.refuse(f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(known)}")

    def table(self, name: str, inside: bool = True) -> dict[str, Any]:
        """A table of the file, or an empty one; with `inside`, one of tables."""
        found = self.given.get(name, {})
        good = isinstance(found, dict) and (
            not inside or all(isinstance(row, dict) for row in found.values())
        )
        if not good:
            raise self.refuse(f"{name} must be {f'tables such as [{name}.NAME]' if inside else 'a table'}")
        return dict(found)

    def known(self, names: Sequence[str], table: Table, what: str) -> None:
        for name in table:
            if name not in names:
                raise self.refuse(f"there is no {what} {name!r}; there are {', '.join(names) or 'none'}")

    # The parts

    def plan(self) -> QueryPlan:
        goal = self.goal()
        catalogue = self.catalogue()
        publishers = self.publishers(catalogue)
        roots = sorted(set(publishers.values()))
        measured = self.measured(catalogue)
        workload = workload_of(
            catalogue,
            self.clients(catalogue),
            {name: roots.index(site) for name, site in publishers.items()},
            measured,
            filtering=self.filtering(),
        )
        network = SiteNetwork(
            self.sites.sites(),
            self.trees(roots),
            [self.positive(speed, "speed of a site") for speed in self.speeds],
            self.names.number(self.given.get("matching", 0), "matching"),
            self.duties(),
            self.filtering(),
        )
        start = at_clients(workload, network)
        today = self.today(catalogue, workload)
        return QueryPlan(goal, self.rules(), start.moved(today), bool(today))

    def goal(self) -> Goal:
        text, constraints = self.given.get("goal"), self.given.get("constraints", [])
        if not isinstance(text, str):
            raise self.refuse('no goal; expected `goal = "minimise ..."` in the file or --goal')
        if not isinstance(constraints, list) or not all(isinstance(each, str) for each in constraints):
            raise self.refuse('constraints must be a list such as ["node load <= 500"]')
        return parse_query_goal("\n".join([text, *(f"subject to {each}" for each in constraints)]))

    def catalogue(self) -> Catalogue:
        name = self.given[QUERIES]
        if not isinstance(name, str):
            raise self.refuse(f"{QUERIES} is {name!r}; expected the name of a TOML file with queries")
        path = self.path.parent / name
        catalogue = read_catalogue(_tables(path))
        catalogue.check()
        if not catalogue.queries:
            raise self.refuse(f"{path} has no queries")
        return catalogue

    def rules(self) -> tuple[QueryRule, ...]:
        given = self.given.get("rules", ["migration"])
        if not isinstance(given, list) or not given or any(name not in RULES for name in given):
            raise self.refuse(f"rules is {given!r}; expected a list of {', '.join(RULES)}")
        return tuple(rule for name in given for rule in RULES[name])

    def filtering(self) -> bool:
        given = self.given.get("filtering", False)
        if not isinstance(given, bool):
            raise self.refuse(f"filtering is {given!r}; expected true or false")
        return given

    def publishers(self, catalogue: Catalogue) -> dict[str, int]:
        given = self.table("source")
        self.known(list(catalogue.sources), given, "source")
        for name, row in given.items():
            self.check_keys(row, SOURCE_KEYS, f"source {name!r}")
        found = {}
        for name in catalogue.sources:
            if "site" not in given.get(name, {}):
                raise self.refuse(f'no site publishes {name!r}; expected `site = "..."` in [source.{name}]')
            found[name] = self.names.index(given[name]["site"], f"the site of source {name!r}")
        return found

    def clients(self, catalogue: Catalogue) -> dict[str, int]:
        given = self.table("client", inside=False)
        self.known(list(catalogue.queries), given, "query")
        lacking = [name for name in catalogue.queries if name not in given]
        if lacking:
            raise self.refuse(f'nobody wants {lacking[0]!r}; expected `{lacking[0]} = "SITE"` in [client]')
        return {name: self.names.index(given[name], f"the client of {name!r}") for name in given}

    def trees(self, roots: Sequence[int]) -> tuple[Tree, ...]:
        given = self.table("tree")
        self.known([self.names.names[root] for root in roots], given, "publishing site")
        return tuple(self.tree(root, given.get(self.names.names[root], {})) for root in roots)

    def tree(self, root: int, given: Table) -> Tree:
        name = self.names.names[root]
        parents = [root] * len(self.names)
        parents[root] = NO_PARENT
        for site, parent in given.items():
            at = self.names.index(site, f"[tree.{name}]")
            if at == root:
                raise self.refuse(f"[tree.{name}] gives {name!r} a parent, and it is the root")
            parents[at] = self.names.index(parent, f"the parent of {site!r} in [tree.{name}]")
        try:
            return Tree(tuple(parents))
        except DistributaryError as error:
            raise self.refuse(f"[tree.{name}] is no tree: {error}") from error

    def duties(self) -> list[Duties]:
        """What each site does besides these queries; an empty list if no site does anything."""
        given = self.table("duties")
        if not given:
            return []
        self.known(self.names.names, given, "site")
        for name, row in given.items():
            self.check_keys(row, DUTY_KEYS, f"[duties.{name}]")
        found = {name: self.duties_at(name, row) for name, row in given.items()}
        return [found.get(name, NO_DUTIES) for name in self.names.names]

    def duties_at(self, name: str, given: Table) -> Duties:
        found = {key: self.names.number(value, f"{key} of [duties.{name}]") for key, value in given.items()}
        operators = found.pop("operators", 0.0)
        if not operators.is_integer():
            raise self.refuse(f"operators of [duties.{name}] is {operators}; expected a whole number")
        return Duties(operators=int(operators), **found)

    def operators(self, catalogue: Catalogue) -> dict[str, Table]:
        given = self.table("operator")
        units = dict.fromkeys(bound.unit for bound in catalogue.operators if bound.unit is not None)
        self.known([*(bound.name for bound in catalogue.operators), *units], given, "operator")
        for name, row in given.items():
            self.check_keys(row, OPERATOR_KEYS, f"operator {name!r}")
        return given

    def today(self, catalogue: Catalogue, workload: QueryWorkload) -> dict[int, int]:
        """Where operators run now, by number; one that stands for several is where any of them says."""
        given = self.operators(catalogue)
        places = {operator.name: index for index, operator in enumerate(workload.operators)}
        found: dict[int, int] = {}
        for block in blocks_of(catalogue).blocks:
            for name in (*block.stands_for, block.name):
                if "site" in given.get(name, {}):
                    site = self.names.index(given[name]["site"], f"the site of operator {name!r}")
                    found[places[block.name]] = site
        return found

    # Numbers

    def positive(self, value: Any, what: str) -> float:
        number = self.names.number(value, what)
        if not number:
            raise self.refuse(f"{what} is 0; expected a number above 0")
        return number

    def measured(self, catalogue: Catalogue) -> WorkloadStatistics:
        """What the file gives, and for the rest what the metrics say."""
        sources, operators = self.table("source"), self.operators(catalogue)

        def given(tables: Mapping[str, Table], key: str) -> dict[str, float]:
            return {
                name: self.names.number(row[key], f"{key} of {name!r}")
                for name, row in tables.items()
                if key in row
            }

        rates, weight = self.rates()
        items, bytes_ = given(sources, "items"), given(sources, "rate")
        selectivity, growth = given(operators, "selectivity"), given(operators, "growth")
        if rates is not None:
            items = self.source_items(catalogue, rates, items)
            sizes = {name: _size(rates, name, weight) for name in catalogue.sources}
            bytes_ = {**{name: sizes[name] * items[name] for name in catalogue.sources}, **bytes_}
            selectivity = {**measured_selectivities(catalogue, rates, items, selectivity), **selectivity}
            growth = {**measured_growth(catalogue, rates), **growth}
        return WorkloadStatistics(
            {**dict.fromkeys(catalogue.sources, RATE), **bytes_},
            {**dict.fromkeys(catalogue.sources, ITEMS), **items},
            selectivity,
            growth,
            given(operators, "cost"),
        )

    def rates(self) -> tuple[Rates | None, float | None]:
        """The metrics, if there are any, and the bytes of an item, if those are given."""
        if "rates" not in self.given:
            return None, None
        table = self.table("rates", inside=False)
        self.check_keys(table, RATE_KEYS, "[rates]")
        if not isinstance(table.get("metrics"), str):
            raise self.refuse('[rates] needs `metrics = "..."`, the directory of a pipeline\'s metrics')
        seconds = self.positive(table["seconds"], "seconds of [rates]") if "seconds" in table else None
        weight = self.positive(table["weight"], "weight of [rates]") if "weight" in table else None
        return read_rates(self.path.parent / table["metrics"], seconds), weight

    def source_items(
        self, catalogue: Catalogue, rates: Rates, given: Mapping[str, float]
    ) -> dict[str, float]:
        found = dict(given)
        for name, source in catalogue.sources.items():
            if name in found:
                continue
            if name in rates.streams:
                found[name] = rates.streams[name].rate
                continue
            topics = rates.topics_of(source.topic) if source.topic is not None else []
            if not topics:
                raise self.refuse(
                    f"the metrics have no topic of source {name!r}; expected `items` in [source.{name}]"
                )
            found[name] = sum(rates.topics[topic].rate for topic in topics)
        return found


def _size(rates: Rates, source: str, weight: float | None) -> float:
    """The bytes of an item: as given, as measured, or 1."""
    measured = rates.streams[source].size if source in rates.streams else None
    return weight if weight is not None else measured or 1.0


def measured_selectivities(
    catalogue: Catalogue, rates: Rates, items: Mapping[str, float], given: Mapping[str, float]
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


def _rate(catalogue: Catalogue, rates: Rates, stream: str) -> float | None:
    """The items a second of a stream, if they were measured; in older metrics, by its topic."""
    if stream in rates.streams:
        return rates.streams[stream].rate
    topic = catalogue.streams[stream].topic
    return rates.topics[topic].rate if topic is not None and topic in rates.topics else None


def measured_growth(catalogue: Catalogue, rates: Rates) -> dict[str, float]:
    """What the bytes of an item that goes out are to those of one that comes in, where both were measured."""
    found: dict[str, float] = {}
    for bound in catalogue.operators:
        read = [rates.streams[stream] for stream in bound.inputs if stream in rates.streams]
        items, size = sum(one.items for one in read), sum(one.bytes for one in read)
        given = rates.streams.get(bound.streams[0])
        if given is not None and given.size is not None and size:
            found[bound.name] = given.size / (size / items)
    return found
