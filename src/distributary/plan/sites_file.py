"""Reading what is to be planned: a TOML file, with matrices in it or in CSV files beside it.

    root = "fra"
    goal = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
    latency = "latency.csv"          # or a table of rows, as many as there are sites
    bandwidth = "bandwidth.csv"      # only where the goal asks for it
    symmetric = true                 # false: links may differ by direction

    [[site]]
    name = "fra"
    clients = 3                      # optional, as are the next two
    processing = 0.2
    wants = ["quotes"]
    parent = "ams"                   # optional, for all sites or for none: the tree of today

    [streams]
    quotes = 12.5                    # the rate of each stream

A CSV file holds a matrix (a first row and a first column of names), or links (columns `from`, `to`, `value`),
which then need to be given one way only if they are symmetric.

Rules: every pair must be there, no value is negative, and a matrix that should be symmetric is so to one in a
hundred. Every error names the file, the sites and what would be right; all missing pairs are counted.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.errors import DistributaryError
from distributary.plan.goal import Goal
from distributary.plan.goal_text import parse_goal
from distributary.plan.tree import NO_PARENT, Sites, Tree

ALIKE = 0.01
"""How far the two directions of a symmetric link may differ, as a share of the larger."""

KEYS = ("root", "goal", "latency", "bandwidth", "symmetric", "site", "streams")
PAIRS = ["from", "to", "value"]
"""The first line of a file of links."""
SITE_KEYS = ("name", "clients", "processing", "wants", "parent")


@dataclass(frozen=True)
class Plan:
    """What was read."""

    sites: Sites
    root: int
    goal: Goal
    today: Tree | None


def read_plan(path: Path, goal: str | None = None) -> Plan:
    """Read the file; `goal` stands in for the one in it."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DistributaryError(f"{path}: {error}") from error
    return _Reader(path, given).plan(goal)


def read_matrices(paths: Sequence[Path]) -> list[list[list[float]]]:
    """Matrices between the same sites, from CSV files alone; the first file says which sites there are.

    Links may differ by direction; one that is given one way only is the same both ways.
    """
    first = _Reader(paths[0], {"symmetric": False})
    first.name_sites(first.names_in(paths[0]))
    matrices = []
    for path in paths:
        reader = _Reader(path, first.given)
        reader.name_sites(first.names)
        links: dict[tuple[int, int], float] = {}
        reader.read_csv(path, links)
        for (one, other), value in list(links.items()):
            links.setdefault((other, one), value)
        matrices.append(reader.completed("the value", links))
    return matrices


class _Reader:
    def __init__(self, path: Path, given: Mapping[str, Any]) -> None:
        self.path = path
        self.given = given
        self.names: list[str] = []
        self.places: dict[str, int] = {}

    def refuse(self, reason: str) -> DistributaryError:
        return DistributaryError(f"{self.path}: {reason}")

    def plan(self, goal: str | None) -> Plan:
        self.check_keys(self.given, KEYS, "the file")
        rows = self.given.get("site")
        if not isinstance(rows, list) or len(rows) < 2:
            raise self.refuse("at least two [[site]] entries are needed")
        for number, row in enumerate(rows, 1):
            self.check_keys(row, SITE_KEYS, f"site {number}")
            if not isinstance(row.get("name"), str) or not row["name"]:
                raise self.refuse(f"site {number} has no name")
        self.name_sites([row["name"] for row in rows])
        root = self.index(self.given.get("root", self.names[0]), "root")
        text = goal or self.given.get("goal")
        if not isinstance(text, str):
            raise self.refuse('no goal; expected `goal = "minimise ..."` in the file or --goal')
        return Plan(self.sites(rows), root, parse_goal(text), self.today(rows, root))

    def name_sites(self, names: list[str]) -> None:
        self.names = names
        self.places = {name: at for at, name in enumerate(names)}
        twice = [name for at, name in enumerate(names) if self.places[name] != at]
        if twice:
            raise self.refuse(f"site {twice[0]!r} is there twice")

    def check_keys(self, table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        unknown = sorted(set(table) - set(known))
        if unknown:
            raise self.refuse(f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(known)}")

    def index(self, name: Any, what: str) -> int:
        place = self.places.get(name) if isinstance(name, str) else None
        if place is None:
            raise self.refuse(f"{what}: there is no site {name!r}")
        return place

    def sites(self, rows: Sequence[Mapping[str, Any]]) -> Sites:
        if "latency" not in self.given:
            raise self.refuse("no latency; expected a file name or rows of numbers")
        streams = self.given.get("streams", {})
        order = list(streams)
        interest = []
        for row in rows:
            bits = 0
            for stream in row.get("wants", []):
                if stream not in order:
                    raise self.refuse(
                        f"site {row['name']!r} wants {stream!r}, whose rate is not in [streams]"
                    )
                bits |= 1 << order.index(stream)
            interest.append(bits)
        return Sites(
            latency=self.matrix("latency"),
            bandwidth=self.matrix("bandwidth") if "bandwidth" in self.given else (),
            clients=[int(self.number(row.get("clients", 0), f"clients of {row['name']!r}")) for row in rows],
            processing=[
                self.number(row.get("processing", 0), f"processing of {row['name']!r}") for row in rows
            ],
            interest=interest if order else (),
            rates=[self.number(streams[stream], f"the rate of {stream!r}") for stream in order],
            names=self.names,
        )

    def number(self, value: Any, what: str) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not math.isfinite(number) or number < 0:
            raise self.refuse(f"{what} is {value!r}; expected a number that is not negative")
        return number

    def today(self, rows: Sequence[Mapping[str, Any]], root: int) -> Tree | None:
        given = [row for row in rows if "parent" in row]
        if not given:
            return None
        lacking = [row["name"] for at, row in enumerate(rows) if "parent" not in row and at != root]
        if lacking:
            raise self.refuse(f"site {lacking[0]!r} has no parent, and others have; give all or none")
        parents = [
            NO_PARENT if at == root else self.index(row["parent"], f"the parent of {row['name']!r}")
            for at, row in enumerate(rows)
        ]
        try:
            return Tree(tuple(parents))
        except DistributaryError as error:
            raise self.refuse(f"the parents given make no tree: {error}") from error

    # Matrices

    def matrix(self, what: str) -> list[list[float]]:
        given = self.given[what]
        links: dict[tuple[int, int], float] = {}
        if isinstance(given, str):
            self.read_csv(self.path.parent / given, links)
        elif isinstance(given, list) and all(isinstance(row, list) for row in given):
            self.read_rows(what, given, links)
        else:
            raise self.refuse(f"{what} must be a file name or rows of numbers")
        return self.completed(what, links)

    def read_rows(self, what: str, rows: list[list[Any]], links: dict[tuple[int, int], float]) -> None:
        count = len(self.names)
        if len(rows) != count or any(len(row) != count for row in rows):
            raise self.refuse(f"{what} must have {count} rows of {count} numbers, one for each site")
        for one, row in enumerate(rows):
            for other, value in enumerate(row):
                if one != other:
                    where = f"{what} from {self.names[one]!r} to {self.names[other]!r}"
                    links[one, other] = self.number(value, where)

    def csv_rows(self, path: Path) -> list[tuple[int, list[str]]]:
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = [(number, row) for number, row in enumerate(csv.reader(file), 1) if row]
        except (OSError, UnicodeDecodeError) as error:
            raise self.refuse(f"{path.name}: {error}") from error
        if not rows:
            raise self.refuse(f"{path.name} is empty")
        return [(number, [cell.strip() for cell in row]) for number, row in rows]

    def names_in(self, path: Path) -> list[str]:
        """The sites that a CSV file speaks of, in its order."""
        (_, header), *rows = self.csv_rows(path)
        if header != PAIRS:
            return header[1:]
        return list(dict.fromkeys(name for _, row in rows for name in row[:2]))

    def read_csv(self, path: Path, links: dict[tuple[int, int], float]) -> None:
        rows = self.csv_rows(path)
        header = rows[0][1]
        pairs = header == PAIRS
        columns = [] if pairs else [self.index(name, f"{path.name} line 1") for name in header[1:]]
        for number, row in rows[1:]:
            where = f"{path.name} line {number}"
            if len(row) != len(header):
                raise self.refuse(f"{where}: {len(row)} cells where the first line has {len(header)}")
            one = self.index(row[0], where)
            targets = [self.index(row[1], where)] if pairs else columns
            for other, value in zip(targets, row[2:] if pairs else row[1:], strict=True):
                if one != other and value:
                    links[one, other] = self.number(value, where)

    def completed(self, what: str, links: dict[tuple[int, int], float]) -> list[list[float]]:
        symmetric = self.given.get("symmetric", True)
        if symmetric:
            for (one, other), value in list(links.items()):
                back = links.setdefault((other, one), value)
                if abs(back - value) > ALIKE * max(back, value):
                    pair = f"{what} from {self.names[one]!r} to {self.names[other]!r}"
                    raise self.refuse(
                        f"{pair} is {value} and {back} back; if that is meant, say `symmetric = false`"
                    )
        everyone = range(len(self.names))
        missing = [(a, b) for a in everyone for b in everyone if a != b and (a, b) not in links]
        if missing:
            one, other = missing[0]
            raise self.refuse(
                f"{what} from {self.names[one]!r} to {self.names[other]!r} is missing"
                + (f", and {len(missing) - 1} more pairs" if len(missing) > 1 else "")
            )
        return [[0.0 if a == b else links[a, b] for b in everyone] for a in everyone]
