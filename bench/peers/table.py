"""The results of a run: a table in Markdown, and as rows of the bench's report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.exchange import FOLDER, Answer
from bench.peers.ours import Ours
from bench.report import Result

WAYS = ("batches", "64", "one")
HEADINGS = (
    "workload",
    "matches an event",
    "ours, batches",
    "64 events",
    "one event",
    "from JSON",
    "peer",
    "its time",
    "/ batches",
    "/ 64",
    "/ one",
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer on a workload; without an answer, the note says why."""

    name: str
    version: str
    answer: Answer | None
    note: str
    judged: bool = True
    """Whether ours is meant to be as fast at least."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload with what ours and the peers need for it."""

    title: str
    matches: float
    ours: Ours
    peers: list[Peer]


def keep(measured: Compared, name: str, quick: bool) -> None:
    """Remember the rows of a workload until it is measured again."""
    folder = _kept(quick)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[*cells, time.strftime("%Y-%m-%d %H:%M")] for cells in _rows(measured)]
    (folder / f"{name}.json").write_text(json.dumps(rows))


def write(names: Iterable[str], quick: bool) -> Path:
    """The file with the table of all workloads, each as it was measured last."""
    files = [_kept(quick) / f"{name}.json" for name in names]
    rows = [cells for file in files if file.exists() for cells in json.loads(file.read_text())]
    path = FOLDER / ("table-quick.md" if quick else "table.md")
    path.write_text(_table([*HEADINGS, "measured"], rows))
    return path


def _kept(quick: bool) -> Path:
    return FOLDER / "rows" / ("quick" if quick else "full")


def markdown(measured: Iterable[Compared]) -> str:
    """Microseconds of processor time an event; ours as index and Matcher, ratios to the Matcher.

    Bold ratios are those where ours is behind.
    """
    return _table(HEADINGS, [cells for one in measured for cells in _rows(one)])


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _rows(one: Compared) -> Iterator[list[str]]:
    times = one.ours.times
    mine = [one.title, _number(one.matches)]
    mine += [f"{_number(times[f'index, {way}'])}, {_number(times[f'Matcher, {way}'])}" for way in WAYS]
    mine.append(_number(times["Matcher, JSON"]) if "Matcher, JSON" in times else "")
    for peer in one.peers or [Peer("", "", None, "")]:
        name = " ".join(part for part in (peer.name, peer.version) if part)
        if peer.answer is None:
            yield [*mine, f"{name} ({peer.note})" if peer.note else name, "", "", "", ""]
        else:
            name = f"{name} ({peer.note})" if peer.note else name
            spent = peer.answer.microseconds
            ratios = [_ratio(spent / times[f"Matcher, {way}"]) for way in WAYS]
            yield [*mine, name, _number(spent), *ratios]
        mine = [""] * len(mine)


def results(one: Compared) -> Iterator[Result]:
    """The same as rows of the bench's report."""
    answered = [peer for peer in one.peers if peer.answer is not None]
    checked = ", ".join(peer.name for peer in answered) or "each other"
    yield Result(one.title, "ours", "matches an event", one.matches, "rules", checked)
    for way, microseconds in one.ours.times.items():
        yield Result(one.title, f"ours: {way}", "processor time an event", microseconds, "µs", checked)
    yield Result(one.title, "ours: Matcher", "build", one.ours.build, "s", checked)
    for peer in answered:
        assert peer.answer is not None
        target = ">= 1 x" if peer.judged else ""
        name, spent = f"{peer.name} {peer.version}", peer.answer.microseconds
        asked = f"ours on {peer.answer.events:,} events"
        yield Result(one.title, name, "processor time an event", spent, "µs", asked)
        yield Result(one.title, name, "build", peer.answer.build, "s", asked)
        for way in WAYS:
            ratio = spent / one.ours.times[f"Matcher, {way}"]
            yield Result(one.title, f"{peer.name} / Matcher, {way}", "ratio", ratio, "x", asked, target)


def _ratio(value: float) -> str:
    return f"**{_number(value)}x**" if value < 1 else f"{_number(value)}x"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"
