"""The results of a run: a table in Markdown, and as rows of the bench's report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.peers.exchange import Answer
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


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload with what ours and the peers need for it."""

    title: str
    matches: float
    ours: Ours
    peers: list[Peer]


def markdown(measured: Iterable[Compared]) -> str:
    """Microseconds of processor time an event; ours as index and Matcher, ratios to the Matcher."""
    lines = [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
    for one in measured:
        lines += [_line(cells) for cells in _rows(one)]
    return "\n".join(lines) + "\n"


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
            ratios = [f"{_number(spent / times[f'Matcher, {way}'])}x" for way in WAYS]
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
        name, spent = f"{peer.name} {peer.version}", peer.answer.microseconds
        asked = f"ours on {peer.answer.events:,} events"
        yield Result(one.title, name, "processor time an event", spent, "µs", asked)
        yield Result(one.title, name, "build", peer.answer.build, "s", asked)
        for way in WAYS:
            ratio = spent / one.ours.times[f"Matcher, {way}"]
            yield Result(one.title, f"{peer.name} / Matcher, {way}", "ratio", ratio, "x", asked)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
