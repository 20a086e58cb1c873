"""Reading matrices of links between sites: rows of numbers, or CSV files.

A CSV file holds a matrix (a first row and a first column of names), or links (three columns, the first two
called `from` and `to`), which then need to be given one way only if they are symmetric.

Rules: every pair must be there, once; no value is negative; a matrix that should be symmetric is so to one in
a hundred; a site's latency to itself is 0 or left out, as anything else tells of columns in disorder. Every
error names the file, the sites and what would be right; all missing pairs are counted.

Cost: linear in the pairs, in arrays: a million pairs take a second.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary.plan.trees.tree import NO_PARENT, Tree

ALIKE = 0.01
"""How far the two directions of a symmetric link may differ, as a share of the larger."""

LATENCY = "latency"

Floats = NDArray[np.float64]
"""A matrix read; not a number where nothing was given."""


class SiteNames:
    """The sites by name; `file` is what errors begin with."""

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        self.file = file
        self.names = list(names)
        self.places = {name: at for at, name in enumerate(names)}
        twice = [name for at, name in enumerate(names) if self.places[name] != at]
        if twice:
            raise self.refused(f"site {twice[0]!r} is there twice")

    def __len__(self) -> int:
        return len(self.names)

    def refused(self, reason: str) -> DistributaryError:
        """The error for a fault of the file, to be raised."""
        return DistributaryError(f"{self.file}: {reason}")

    def index(self, name: Any, where: str) -> int:
        """The number of the site of this name; `where` is where the name stands."""
        place = self.places.get(name) if isinstance(name, str) else None
        if place is None:
            raise self.refused(f"{where}: there is no site {name!r}")
        return place

    def tree(self, parents: Mapping[str, str], root: int, where: str = "") -> Tree:
        """The tree by the names of parents; who has none is directly under the root."""
        found = [root] * len(self)
        for name, parent in parents.items():
            site = self.index(name, f"the parents given{where}")
            found[site] = self.index(parent, f"the parent of {name!r}{where}")
        found[root] = NO_PARENT
        try:
            return Tree(tuple(found))
        except DistributaryError as error:
            raise self.refused(f"the parents given{where} make no tree: {error}") from error

    def pair(self, what: str, one: int, other: int) -> str:
        """What a link's value is called in an error."""
        return f"{what} from {self.names[one]!r} to {self.names[other]!r}"

    def number(self, value: Any, what: str) -> float:
        """A cell as a number that is not negative."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not math.isfinite(number) or number < 0:
            raise self.refused(f"{what} is {value!r}; expected a number that is not negative")
        return number

    def numbers(self, cells: Sequence[str], where: str) -> Floats:
        """A row of cells as numbers; an empty cell is none."""
        return np.array([self.number(cell, where) if cell else math.nan for cell in cells])


def csv_rows(path: Path, file: Path) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty, with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            rows = [(number, row) for number, row in enumerate(csv.reader(opened), 1) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise DistributaryError(f"{file}: {path.name}: {error}") from error
    if not rows:
        raise DistributaryError(f"{file}: {path.name} is empty")
    rows = [(number, [cell.strip() for cell in row]) for number, row in rows]
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise DistributaryError(
                f"{file}: {path.name} line {number}: {len(row)} cells where the first line has {width}"
            )
    return rows


def names_in(path: Path, file: Path) -> list[str]:
    """The sites that a CSV file speaks of, in its order."""
    (_, header), *rows = csv_rows(path, file)
    if not _links(header):
        return header[1:]
    return list(dict.fromkeys(name for _, row in rows for name in row[:2]))


def _links(header: Sequence[str]) -> bool:
    return len(header) == 3 and list(header[:2]) == ["from", "to"]


def read_links(
    given: str | Sequence[Sequence[Any]], names: SiteNames, what: str, symmetric: bool
) -> list[list[float]]:
    """The whole matrix, from a file beside the plan's or from rows of numbers."""
    values = (
        from_csv(names.file.parent / given, names, what)
        if isinstance(given, str)
        else from_rows(given, names, what)
    )
    return completed(values, names, what, symmetric)


def from_csv(path: Path, names: SiteNames, what: str) -> Floats:
    """What a file says."""
    (_, header), *rows = csv_rows(path, names.file)
    if _links(header):
        return _from_links(path, rows, names, what)
    columns = [names.index(name, f"{path.name} line 1") for name in header[1:]]
    twice = [name for at, name in enumerate(header[1:]) if columns.index(columns[at]) != at]
    if twice:
        raise names.refused(f"{path.name} line 1: {twice[0]!r} is there twice")
    values = np.full((len(names), len(names)), math.nan)
    seen: set[int] = set()
    for number, row in rows:
        where = f"{path.name} line {number}"
        one = names.index(row[0], where)
        if one in seen:
            raise names.refused(f"{where}: there is a line for {row[0]!r} already")
        seen.add(one)
        values[one, columns] = names.numbers(row[1:], where)
    return values


def _from_links(path: Path, rows: Sequence[tuple[int, list[str]]], names: SiteNames, what: str) -> Floats:
    values = np.full((len(names), len(names)), math.nan)
    for number, (first, second, cell) in rows:
        where = f"{path.name} line {number}"
        one, other = names.index(first, where), names.index(second, where)
        if not math.isnan(values[one, other]):
            raise names.refused(f"{where}: {names.pair(what, one, other)} was there before")
        values[one, other] = names.number(cell, where)
    return values


def from_rows(rows: Sequence[Sequence[Any]], names: SiteNames, what: str) -> Floats:
    """What rows of numbers say, as many as there are sites."""
    count = len(names)
    if len(rows) != count or any(len(row) != count for row in rows):
        raise names.refused(f"{what} must have {count} rows of {count} numbers, one for each site")
    return np.array(
        [
            [names.number(value, names.pair(what, one, other)) for other, value in enumerate(row)]
            for one, row in enumerate(rows)
        ]
    )


def completed(values: Floats, names: SiteNames, what: str, symmetric: bool) -> list[list[float]]:
    """The whole matrix, where every pair was given; those given one way only count both ways if they may."""
    own = np.diagonal(values)
    if what == LATENCY and np.any(own > 0):
        site = int(np.argmax(own > 0))
        raise names.refused(f"{names.pair(what, site, site)} is {own[site]}; expected 0 or nothing")
    np.fill_diagonal(values, 0.0)
    if symmetric:
        values = np.where(np.isnan(values), values.T, values)
        apart = np.abs(values - values.T) > ALIKE * np.maximum(values, values.T)
        if apart.any():
            one, other = (int(place) for place in np.argwhere(apart)[0])
            raise names.refused(
                f"{names.pair(what, one, other)} is {values[one, other]} and {values[other, one]} back; "
                "if that is meant, say `symmetric = false`"
            )
    missing = np.argwhere(np.isnan(values))
    if len(missing):
        one, other = (int(place) for place in missing[0])
        more = f", and {len(missing) - 1} more pairs" if len(missing) > 1 else ""
        raise names.refused(f"{names.pair(what, one, other)} is missing{more}")
    matrix: list[list[float]] = values.tolist()
    return matrix


def read_matrices(paths: Sequence[Path]) -> list[list[list[float]]]:
    """Matrices between the same sites, from CSV files alone; the first file says which sites there are.

    Links may differ by direction; one that is given one way only is the same both ways.
    """
    names = names_in(paths[0], paths[0])
    matrices = []
    for path in paths:
        known = SiteNames(path, names)
        values = from_csv(path, known, "the value")
        matrices.append(completed(np.where(np.isnan(values), values.T, values), known, "the value", False))
    return matrices
