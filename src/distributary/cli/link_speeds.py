"""How quick the links of a network on this machine are made to be: `distributary network up --latency`.

Given is a file or a model of the simulator's (`sim.networks`), such as `wide-area`:

- `.csv`: a square of round-trip times in milliseconds, as the simulator reads it. Its places are called as
  the nodes, or by their numbers; if none is, the first node stands at the first place, and so on.
- `.jsonl`: a pair of nodes a line, `{"from": "node-1", "to": 2, "ms": 80, "mbit": 10}`: the round trip in
  milliseconds and, if there is one, the bandwidth in Mbit a second. A pair that stands there once is the same
  in both directions.

What goes one way takes half of the round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, json

from distributary.errors import DistributaryError

Tables = dict[str, dict[str, dict[str, float]]]
"""For each node its tables `delays` and `bandwidths`, by the names of the others."""


class LinkLine(Struct, rename={"start": "from", "end": "to"}, forbid_unknown_fields=True):
    """A line of a file: two nodes and what is between them."""

    start: str | int
    end: str | int
    ms: Annotated[float, Meta(ge=0)] = 0.0
    mbit: Annotated[float, Meta(gt=0)] | None = None


def link_speeds(given: str, seed: int, network: str, names: Sequence[str]) -> Tables:
    """The tables of each node's file; DistributaryError when a file cannot be read or lacks a node."""
    path = Path(given)
    match path.suffix:
        case ".csv":
            return _from_matrix(path, names)
        case ".jsonl":
            return _from_lines(path, names)
    return _from_model(given, seed, network, names)


def _from_model(given: str, seed: int, network: str, names: Sequence[str]) -> Tables:
    from distributary.sim.networks import latency_of
    from distributary.systems.membership import address_of

    latency = latency_of(given, seed)
    addresses = {name: address_of(network, name) for name in names}
    return {
        one: {
            "delays": {
                other: round(1000 * latency.delay(0.0, addresses[one], addresses[other], ""), 3)
                for other in names
                if other != one
            }
        }
        for one in names
    }


def _from_matrix(path: Path, names: Sequence[str]) -> Tables:
    from distributary.sim.latency import read_matrix

    places, times = read_matrix(path)
    known = {place: row for row, place in enumerate(places)}
    rows = [known.get(name, known.get(str(number))) for number, name in enumerate(names, 1)]
    if rows == [None] * len(names):
        rows = [row if row < len(places) else None for row in range(len(names))]
    standing: dict[str, int] = {}
    for name, row in zip(names, rows, strict=True):
        if row is None:
            raise DistributaryError(f"{path}: has no place for {name}")
        standing[name] = row
    return {
        one: {"delays": {other: times[standing[one]][standing[other]] / 2 for other in names if other != one}}
        for one in names
    }


def _from_lines(path: Path, names: Sequence[str]) -> Tables:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DistributaryError(f"cannot read {path}: {error.strerror}") from None
    between: dict[tuple[str, str], LinkLine] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            one, other, link = _pair(f"{path}:{number}", line, names)
            between[one, other] = link
    tables: Tables = {name: {"delays": {}, "bandwidths": {}} for name in names}
    for one, other in sorted({*between, *((other, one) for one, other in between)}):
        link = between.get((one, other)) or between[other, one]
        tables[one]["delays"][other] = link.ms / 2
        if link.mbit is not None:
            tables[one]["bandwidths"][other] = link.mbit
    return tables


def _pair(place: str, line: bytes, names: Sequence[str]) -> tuple[str, str, LinkLine]:
    try:
        link = json.decode(line, type=LinkLine)
    except DecodeError as error:
        raise DistributaryError(f"{place}: {error}") from None
    one, other = (_node(each, names) for each in (link.start, link.end))
    if one is None or other is None or one == other:
        raise DistributaryError(
            f"{place}: from and to are two of {names[0]} to {names[-1]}, or their numbers,"
            f" not {link.start!r} and {link.end!r}"
        )
    return one, other, link


def _node(given: str | int, names: Sequence[str]) -> str | None:
    """The name of a node that is given by its name or number."""
    if given in names:
        return str(given)
    text = str(given)
    number = int(text) if text.isascii() and text.isdecimal() else 0
    return names[number - 1] if 1 <= number <= len(names) else None
