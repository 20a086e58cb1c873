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

    [rates]                          # or rates as a pipeline measured them: see `rates`
    metrics = "metrics"

Without sites, those of the latency file are taken, the first as the root. `matrices` says what latency and
bandwidth files look like. Every error names the file, the site and what would be right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.errors import DistributaryError
from distributary.plan.goal import Goal
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.matrices import (
    LATENCY,
    Names,
    completed,
    csv_rows,
    from_csv,
    from_rows,
    names_in,
)
from distributary.plan.trees.rates import with_rates
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

KEYS = ("root", "goal", "constraints", "latency", "bandwidth", "symmetric", "site", "streams", "rates")
SITE_KEYS = ("name", "clients", "processing", "wants", "subscribers", "parent")
STREAM_KEYS = ("stream", "rate")

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """What was read."""

    sites: Sites
    root: int
    goal: Goal
    today: Tree | None


def read_plan(path: Path, **instead: str | None) -> Plan:
    """Read the file; keys in `instead` that have a value stand in for those in it.

    A CSV file is taken to be that of the latencies.
    """
    given: dict[str, Any] = {}
    if path.suffix.lower() == ".csv":
        given[LATENCY] = str(path.resolve())
    else:
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DistributaryError(f"{path}: {error}") from error
    given.update({key: value for key, value in instead.items() if value is not None})
    return SitesReader(path, given).plan()


class SitesReader:
    """Reads which sites there are, and what is to be planned for trees (for queries: `query.plan_file`)."""

    def __init__(self, path: Path, given: Table) -> None:
        self.path = path
        self.given = given
        self.check_keys(given, KEYS, "the file")
        if LATENCY not in given:
            raise self.refuse("no latency; expected a file name or rows of numbers")
        self.rows = self.site_rows()
        if "rates" in given:
            self.given, self.rows = with_rates(path, given, self.rows)
        elif any("subscribers" in row for row in self.rows):
            raise self.refuse("sites have subscribers, and there is no [rates] to say what these want")
        self.names = Names(path, [row["name"] for row in self.rows])

    def refuse(self, reason: str) -> DistributaryError:
        return DistributaryError(f"{self.path}: {reason}")

    def check_keys(self, table: Table, known: Sequence[str], where: str) -> None:
        unknown = sorted(set(table) - set(known))
        if unknown:
            raise self.refuse(f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(known)}")

    def beside(self, name: str) -> Path:
        return self.path.parent / name

    def plan(self) -> Plan:
        root = self.names.index(self.given.get("root", self.names.names[0]), "root")
        return Plan(self.sites(), root, self.goal(), self.today(root))

    def goal(self) -> Goal:
        text, constraints = self.given.get("goal"), self.given.get("constraints", [])
        if not isinstance(text, str):
            raise self.refuse('no goal; expected `goal = "minimise ..."` in the file or --goal')
        if not isinstance(constraints, list) or not all(isinstance(each, str) for each in constraints):
            raise self.refuse('constraints must be a list such as ["fanout <= 6"]')
        return parse_goal("\n".join([text, *(f"subject to {each}" for each in constraints)]))

    # Sites and streams

    def site_rows(self) -> list[dict[str, Any]]:
        given = self.given.get("site")
        if isinstance(given, str):
            rows = self.table(given, SITE_KEYS)
            given = [{**row, "wants": row.get("wants", "").split()} for row in rows]
        elif given is None and isinstance(self.given[LATENCY], str):
            given = [{"name": name} for name in names_in(self.beside(self.given[LATENCY]), self.path)]
        if not isinstance(given, list) or len(given) < 2:
            raise self.refuse("at least two [[site]] entries are needed")
        for number, row in enumerate(given, 1):
            self.check_keys(row, SITE_KEYS, f"site {number}")
            if not isinstance(row.get("name"), str) or not row["name"]:
                raise self.refuse(f"site {number} has no name")
        return given

    def table(self, name: str, known: Sequence[str]) -> list[dict[str, str]]:
        """The lines of a CSV file by column; empty cells are left out."""
        (_, header), *rows = csv_rows(self.beside(name), self.path)
        self.check_keys(dict.fromkeys(header), known, name)
        return [{key: cell for key, cell in zip(header, row, strict=True) if cell} for _, row in rows]

    def streams(self) -> dict[str, float]:
        given = self.given.get("streams", {})
        if isinstance(given, str):
            rows = self.table(given, STREAM_KEYS)
            given = {row.get("stream", ""): row.get("rate") for row in rows}
        if not isinstance(given, dict):
            raise self.refuse("streams must be a file name or a table of rates")
        return {name: self.names.number(rate, f"the rate of {name!r}") for name, rate in given.items()}

    def sites(self) -> Sites:
        streams = self.streams()
        bits = {stream: 1 << at for at, stream in enumerate(streams)}
        interest = []
        for row in self.rows:
            wanted = row.get("wants", [])
            if not isinstance(wanted, list):
                raise self.refuse(f"wants of {row['name']!r} is {wanted!r}; expected a list of streams")
            unknown = [stream for stream in wanted if stream not in bits]
            if unknown:
                raise self.refuse(
                    f"site {row['name']!r} wants {unknown[0]!r}, whose rate is not in [streams]"
                )
            interest.append(sum({bits[stream] for stream in wanted}))
        return Sites(
            latency=self.matrix(LATENCY),
            bandwidth=self.matrix("bandwidth") if "bandwidth" in self.given else (),
            clients=[int(self.of_site(row, "clients")) for row in self.rows],
            processing=[self.of_site(row, "processing") for row in self.rows],
            interest=interest if streams else (),
            rates=list(streams.values()),
            names=self.names.names,
        )

    def of_site(self, row: Table, what: str) -> float:
        return self.names.number(row.get(what, 0), f"{what} of {row['name']!r}")

    def matrix(self, what: str) -> list[list[float]]:
        given = self.given[what]
        if isinstance(given, str):
            values = from_csv(self.beside(given), self.names, what)
        elif isinstance(given, list) and all(isinstance(row, list) for row in given):
            values = from_rows(given, self.names, what)
        else:
            raise self.refuse(f"{what} must be a file name or rows of numbers")
        return completed(values, self.names, what, bool(self.given.get("symmetric", True)))

    def today(self, root: int) -> Tree | None:
        if not any("parent" in row for row in self.rows):
            return None
        lacking = [row["name"] for at, row in enumerate(self.rows) if "parent" not in row and at != root]
        if lacking:
            raise self.refuse(f"site {lacking[0]!r} has no parent, and others have; give all or none")
        parents = [
            NO_PARENT if at == root else self.names.index(row["parent"], f"the parent of {row['name']!r}")
            for at, row in enumerate(self.rows)
        ]
        try:
            return Tree(tuple(parents))
        except DistributaryError as error:
            raise self.refuse(f"the parents given make no tree: {error}") from error
