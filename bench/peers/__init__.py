"""Peers in the open: other matching engines on our workloads, in the same run, their answers checked.

python -m bench peers                      all of them (at full size, a long run)
python -m bench peers --quick              small versions, a few minutes
python -m bench peers --only flights       one workload ...
python -m bench peers --only nats,duckdb   ... or some peers

Go (NATS, quamina, hypermatch), a JDK of 21 or newer with Maven (Event Ruler, Esper, Lucene Monitor) and cargo
(a-tree) are used where they are installed; a peer that cannot be built is listed as skipped, with the reason.
Programs, downloads and exchanged files are kept in `build/peers`. The table is written to
`build/peers/table.md`; a run of some workloads leaves the rows of the others as they were measured last.

- `workload`: what is asked; `topics`, `rules`, `tables`, `flights`: the workloads
- `ours`: the ways in which we answer; `duck`: DuckDB, rule by rule
- `exchange`: files written for the peers' programs, and their answers; `toolchains`: building those programs
- `table`: the results as a table in Markdown
- `harness` and a folder for each peer: the programs, in the peers' own languages
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from importlib.metadata import version

from bench.peers import duck, exchange, ours, rules, table, tables, toolchains, topics
from bench.peers.exchange import FOLDER, Pairs
from bench.peers.table import Compared, Peer
from bench.peers.workload import Asked, Workload
from bench.report import Result

PEERS: dict[str, tuple[str, Callable[[], toolchains.Program]]] = {
    "nats": ("NATS", partial(toolchains.go, "nats", "github.com/nats-io/nats-server/v2")),
    "quamina": ("quamina", partial(toolchains.go, "quamina", "quamina.net/go/quamina/v2")),
    "hypermatch": ("hypermatch", partial(toolchains.go, "hypermatch", "github.com/SchwarzIT/hypermatch")),
    "ruler": ("Event Ruler", partial(toolchains.maven, "ruler", "event-ruler")),
    "esper": ("Esper", partial(toolchains.maven, "esper", "esper-runtime")),
    "lucene": ("Lucene Monitor", partial(toolchains.maven, "lucene", "lucene-monitor")),
    "atree": ("a-tree", partial(toolchains.cargo, "atree", "a-tree")),
}
"""The peers' programs by the name of their folder: what they are called, and how each is built."""


def workloads(quick: bool) -> Iterator[tuple[str, Callable[[], Workload]]]:
    """The names of all workloads, and how each is made."""
    rounds = 3
    for count in (10_000,) if quick else (100_000, 1_000_000):
        rows = 5_000 if quick else 50_000
        yield f"topics-{count}", partial(topics.workload, count, rows, rounds)
    count, rows = (10_000, 5_000) if quick else (100_000, 50_000)
    yield "topics-repeating", partial(topics.repeating, count, rows, rounds)
    count, rows = (5_000, 5_000) if quick else (100_000, 20_000)
    for make in (rules.mixed, rules.equalities, rules.one_range, rules.alternatives, rules.hypermatch):
        yield make.__name__.replace("_", "-"), partial(make, count, rows, rounds)
    count, rows, sample = (5_000, 5_000, 50) if quick else (100_000, 10_000, 200)
    yield "ranges", partial(tables.of_ranges, count, rows, rounds, sample)
    for count in (100,) if quick else (100, 1_000, 5_000, 10_000):
        rows = 5_000 if quick else 6_000 if count == 10_000 else 12_000
        sample = max(1, count // 500)  # so that no round of DuckDB's takes minutes on a busy machine
        yield f"flights-{count}", partial(tables.over_flights, count, rows, 3, sample)


def known(quick: bool) -> list[str]:
    """What can be asked for: workloads, and peers."""
    return [*(name for name, _ in workloads(quick)), *PEERS, "duckdb"]


def unknown(quick: bool, only: Collection[str]) -> list[str]:
    """What is asked for and neither a peer nor a part of a workload's name."""
    peers, names = {*PEERS, "duckdb"}, [name for name, _ in workloads(quick)]
    return [part for part in only if part not in peers and not any(part and part in name for name in names)]


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    """Measure the workloads and peers named in `only`, or whose names contain one (default: all)."""
    names = [name for name, _ in workloads(quick)]
    some = [name for name in names if _named(name, names, only)] or names
    peers = {part for part in only if not any(part in name for name in names)}
    compared = []
    for name, make in workloads(quick):
        if name in some:
            _say(f"{name}: making it")
            compared.append(_compared(make(), quick, peers))
            if not peers:
                table.keep(compared[-1], name, quick)
    print(table.markdown(compared))
    if not peers:
        print(f"rows measured last, of all workloads: {table.write(names, quick)}")
    return [result for one in compared for result in table.results(one)]


def _named(name: str, names: Collection[str], only: Collection[str]) -> bool:
    """Whether a workload is asked for: by its name, or by a part of it that is nobody's whole name."""
    return any(part == name or (part in name and part not in names) for part in only)


def _compared(workload: Workload, quick: bool, peers: Collection[str]) -> Compared:
    """Ours and the peers on one workload; AssertionError when an answer differs."""
    _say(f"{workload.name}: ours")
    mine = ours.measured(workload)
    matches = len(mine.pairs.events) / workload.tables[0].num_rows
    measured = []
    for asked in workload.peers:
        if not peers or asked.peer in peers:
            _say(f"{workload.name}: {asked.peer} {asked.shown}")
            measured.append(_asked(workload, asked, mine.pairs, 3 if quick else 5))
    if workload.sql and (not peers or "duckdb" in peers):
        _say(f"{workload.name}: DuckDB")
        measured += _duckdb(workload, mine.pairs, 2 if quick else 3)
    return Compared(workload.title, matches, mine, measured)


def _asked(workload: Workload, asked: Asked, expected: Pairs, seconds: float) -> Peer:
    shown = f"{PEERS[asked.peer][0]} {asked.shown}".strip()
    program = _built(asked.peer)
    if isinstance(program, str):
        return Peer(shown, "", None, f"skipped: {program}")
    folder = FOLDER / workload.name
    rules, events = folder / f"rules.{asked.language}", folder / f"events.{asked.language}"
    exchange.written(folder, rules.name, asked.rules())
    exchange.written(folder, events.name, asked.events(workload.tables[0]))
    try:
        answer = exchange.answered(program.command, rules, events, seconds, *asked.variant)
    except exchange.FailedError as failed:
        return Peer(shown, program.version, None, f"failed: {failed}")
    answer.check(expected, shown)
    return Peer(shown, program.version, answer, workload.notes.get(asked.peer, ""), asked.judged)


def _duckdb(workload: Workload, expected: Pairs, rounds: int) -> list[Peer]:
    """DuckDB given all events at once, and a few at a time."""
    asked = expected.rules % workload.sample == 0
    held = Pairs(expected.events[asked], expected.rules[asked])
    note = f"1 rule in {workload.sample} asked, time multiplied" if workload.sample > 1 else ""
    given = workload.sql, workload.tables[0]
    answers = {
        "DuckDB, rule by rule": duck.answered(*given, rounds, workload.sample),
        f"DuckDB, {ours.SMALL} events at a time": duck.answered_by_parts(
            *given, ours.SMALL, rounds, workload.sample
        ),
    }
    for shown, answer in answers.items():
        answer.check(held, shown)
    return [Peer(shown, version("duckdb"), answer, note) for shown, answer in answers.items()]


@cache
def _built(peer: str) -> toolchains.Program | str:
    """The peer's program, or why there is none."""
    _say(f"building {peer}")
    try:
        return PEERS[peer][1]()
    except toolchains.MissingError as missing:
        return str(missing)


def _say(what: str) -> None:
    """Progress, since this takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
