"""The command line: what it writes, what it tells, and how it exits."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from distributary import Event, Subscription, files
from distributary.cli.main import main
from distributary.files import read_events, read_subscriptions
from distributary.matching import bulk
from distributary.workloads import WORKLOADS
from properties.oracle import MatcherOracle

SUBSCRIPTIONS = [
    {"id": "s2", "subscriber": "bob", "topic": "quotes"},
    {"id": "s1", "subscriber": "ann", "topic": "quotes/NYSE/*", "where": "price > 8.3 and price < 8.7"},
    {"id": "s3", "subscriber": "ann", "path": "//item[author]"},
    {"id": "s4", "subscriber": "bob", "change": {"price": 1}},
]
EVENTS = [
    {"id": "e2", "topic": "quotes/NYSE/OTE", "price": 8.4},
    {"id": "e1", "topic": "quotes/NYSE/OTE", "price": 9.0},
    {"id": "e3", "document": "<rss><item><author/></item></rss>"},
    {"id": "e4", "topic": "weather"},
]
MATCHES = [("e2", "s1"), ("e2", "s2"), ("e2", "s4"), ("e1", "s2"), ("e3", "s3")]


def write(path: Path, records: list[Any]) -> str:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def match(tmp_path: Path, subscriptions: list[Any], events: list[Any], *more: str) -> int:
    return main(
        [
            "match",
            "--subscriptions",
            write(tmp_path / "subs.jsonl", subscriptions),
            "--events",
            write(tmp_path / "events.jsonl", events),
            "--out",
            str(tmp_path / "matches.jsonl"),
            *more,
        ]
    )


def written(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def pairs(path: Path) -> list[tuple[str, str]]:
    return [(one["event"], one["subscription"]) for one in written(path)]


@pytest.mark.parametrize("chunk", ["1", "2", "8192"])
def test_matches_come_in_the_order_of_events_then_by_subscription_id(tmp_path: Path, chunk: str) -> None:
    assert match(tmp_path, SUBSCRIPTIONS, EVENTS, "--chunk", chunk) == 0
    assert pairs(tmp_path / "matches.jsonl") == MATCHES
    assert not (tmp_path / "quarantine.jsonl").exists()


def test_deliveries_hand_an_event_to_a_subscriber_once(tmp_path: Path) -> None:
    assert match(tmp_path, SUBSCRIPTIONS, EVENTS[:1], "--deliveries") == 0
    assert written(tmp_path / "matches.jsonl") == [
        {"event": "e2", "subscriber": "ann", "subscriptions": ["s1"]},
        {"event": "e2", "subscriber": "bob", "subscriptions": ["s2", "s4"]},
    ]


def test_standard_input_and_output_are_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fed = io.TextIOWrapper(io.BytesIO("".join(json.dumps(one) + "\n" for one in EVENTS).encode()))
    monkeypatch.setattr("sys.stdin", fed)
    code = main(["match", "--subscriptions", write(tmp_path / "s.jsonl", SUBSCRIPTIONS), "--events", "-"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [(one["event"], one["subscription"]) for one in lines] == MATCHES


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_tables_are_files_too(tmp_path: Path, ending: str) -> None:
    names = {}
    for what, table in {
        "subs": files.subscriptions_to_table(map(Subscription.from_record, SUBSCRIPTIONS)),
        "events": files.events_to_table(map(Event.from_record, EVENTS)),
    }.items():
        names[what] = str(tmp_path / f"{what}.{ending}")
        if ending == "parquet":
            parquet.write_table(table, names[what])
        else:
            feather.write_feather(table, names[what])
    out = str(tmp_path / "matches.jsonl")
    arguments = ["--subscriptions", names["subs"], "--events", names["events"], "--out", out, "--chunk", "3"]
    assert main(["match", *arguments]) == 0
    assert pairs(tmp_path / "matches.jsonl") == MATCHES


def test_malformed_rows_of_a_table_are_set_aside_with_their_place(tmp_path: Path) -> None:
    table = pa.table({"id": ["e1", None, "e3"], "topic": ["quotes", "quotes", ""]})
    parquet.write_table(table, tmp_path / "events.parquet")
    subscriptions = write(tmp_path / "subs.jsonl", SUBSCRIPTIONS[:1])
    out = str(tmp_path / "matches.jsonl")
    events = str(tmp_path / "events.parquet")
    assert main(["match", "--subscriptions", subscriptions, "--events", events, "--out", out]) == 3
    assert pairs(tmp_path / "matches.jsonl") == [("e1", "s2")]
    set_aside = written(tmp_path / "quarantine.jsonl")
    assert [(one["place"], one["field"]) for one in set_aside] == [
        (f"{events} row 1", "id"),
        (f"{events} row 2", "topic"),
    ]


def test_a_file_that_is_no_table_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.parquet").write_text("not a table")
    subscriptions = write(tmp_path / "subs.jsonl", SUBSCRIPTIONS)
    arguments = ["--subscriptions", subscriptions, "--events", str(tmp_path / "events.parquet")]
    assert main(["match", *arguments]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_malformed_input_is_set_aside_and_the_rest_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad_subscriptions = [
        {"id": "b1", "subscriber": "eve", "where": "price >"},
        {"id": "b2", "subscriber": "eve"},
        {"id": "s1", "subscriber": "eve", "topic": "twice"},
        "not json",
    ]
    bad_events = [{"topic": "A"}, {"id": "b5", "document": "<a>"}, {"id": "b6", "topic": ""}]
    code = match(tmp_path, SUBSCRIPTIONS + bad_subscriptions, bad_events + EVENTS)
    assert code == 3
    assert pairs(tmp_path / "matches.jsonl") == MATCHES
    set_aside = written(tmp_path / "quarantine.jsonl")
    places = [Path(one["place"]).name for one in set_aside]
    assert places[:4] == [f"subs.jsonl:{line}" for line in (5, 6, 7, 8)]
    assert sorted(places[4:]) == [f"events.jsonl:{line}" for line in (1, 2, 3)]
    assert {one["field"] for one in set_aside} == {"where", "subscription", "id", None, "document", "topic"}
    told = capsys.readouterr().err
    assert "7 set aside" in told
    assert "subs.jsonl:5: where:" in told


LONG = "x" * 5000


@pytest.mark.parametrize("lot", [300, 7, 1])
def test_malformed_subscriptions_are_set_aside_in_the_order_of_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lot: int
) -> None:
    """Whether they cannot be read or have an id that is taken, which is told with the line that has it."""
    monkeypatch.setattr(bulk, "FEW", 0)
    monkeypatch.setattr(bulk, "LOT", lot)
    random = Random(lot)
    lines: list[Any] = []
    first: dict[str, int] = {}
    expected: list[tuple[int, str]] = []
    for line in range(1, 41):
        name = random.choice([*(f"s{number}" for number in range(12)), LONG])
        if random.random() < 0.3:
            lines.append("not json")
            expected.append((line, ""))
        else:
            lines.append({"id": name, "subscriber": "ann", "topic": "quotes"})
            if name in first:
                shown = name if name != LONG else LONG[:117] + "..."
                kept = f"{tmp_path}/subs.jsonl:{first[name]}"
                expected.append((line, f"{shown!r} is registered already, by {kept}, which is kept"))
            first.setdefault(name, line)
    assert match(tmp_path, lines, []) == 3
    found = written(tmp_path / "quarantine.jsonl")
    assert [one["place"] for one in found] == [f"{tmp_path}/subs.jsonl:{line}" for line, _ in expected]
    reasons = [one["reason"] if one["field"] == "id" else "" for one in found]
    assert reasons == [told for _, told in expected]
    assert match(tmp_path, lines, [], "--strict") == 4


def test_the_rate_in_the_summary_is_that_after_the_first_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(tmp_path, SUBSCRIPTIONS, EVENTS) == 0
    assert "events/s" not in capsys.readouterr().err
    assert match(tmp_path, SUBSCRIPTIONS, EVENTS, "--chunk", "2") == 0
    assert re.search(r"matches \([\d,]+ events/s\)", capsys.readouterr().err)


def test_strict_stops_at_the_first_malformed_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(tmp_path, SUBSCRIPTIONS, [EVENTS[0], {"topic": "A"}], "--strict") == 4
    assert not (tmp_path / "matches.jsonl").exists()
    assert "events.jsonl:2: id:" in capsys.readouterr().err


def test_a_slow_subscription_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clauses = " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(10))
    event = {"id": "e", **{f"a{n}": 1 for n in range(10)}}
    assert match(tmp_path, [{"id": "s", "subscriber": "ann", "where": clauses}], [event]) == 0
    assert pairs(tmp_path / "matches.jsonl") == [("e", "s")]
    assert "slow: subscription 's'" in capsys.readouterr().err


def test_an_engine_can_be_chosen_and_gives_the_same_matches(tmp_path: Path) -> None:
    engines = ["topic=tree", "where=counting", "path=automaton", "change=sf"]
    more = [part for engine in engines for part in ("--engine", engine)]
    assert match(tmp_path, SUBSCRIPTIONS, EVENTS, *more) == 0
    assert pairs(tmp_path / "matches.jsonl") == MATCHES


@pytest.mark.parametrize(("options", "found"), [("", [("e", "s")]), (",signatures=trusted", [])])
def test_a_signature_that_denies_its_document_counts_only_where_it_is_trusted(
    tmp_path: Path, options: str, found: list[tuple[str, str]]
) -> None:
    wish = {"id": "s", "subscriber": "ann", "path": "/a"}
    event = {"id": "e", "document": "<a/>", "signature": "64/1:0"}
    assert match(tmp_path, [wish], [event], "--engine", f"path=bloom:length=64{options}") == 0
    assert pairs(tmp_path / "matches.jsonl") == found


def test_a_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "--subscriptions", str(tmp_path / "no.jsonl"), "--events", "-"]) == 1
    assert "no.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["match"], ["check"], ["explain", "--event", "e1"]], ids=lambda c: c[0])
def test_both_cannot_come_from_standard_input(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--subscriptions", "-", "--events", "-"]) == 2
    assert "cannot both come from standard input" in capsys.readouterr().err


def test_wrong_arguments_exit_with_two() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["match"])
    assert caught.value.code == 2


@pytest.mark.parametrize("command", ["match", "generate", "demo"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"distributary {command}" in capsys.readouterr().out.partition("examples:")[2]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_generated_files_are_the_same_for_a_seed_and_match_as_the_oracle_says(
    tmp_path: Path, workload: str
) -> None:
    for name in ("one", "two"):
        arguments = ["generate", workload, "--subscriptions", "40", "--events", "12", "--seed", "3"]
        assert main([*arguments, "--out", str(tmp_path / name)]) == 0
    for name in ("subscriptions.jsonl", "events.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    oracle = MatcherOracle()
    subscriptions, events = tmp_path / "one/subscriptions.jsonl", tmp_path / "one/events.jsonl"
    for _, subscription in read_subscriptions(str(subscriptions)):  # type: ignore[misc]
        oracle.add(subscription)
    expected = [
        (event.id, found)
        for _, event in read_events(str(events))  # type: ignore[misc]
        for found in oracle.match(event)
    ]
    out = tmp_path / "matches.jsonl"
    files = ["--subscriptions", str(subscriptions), "--events", str(events), "--out", str(out)]
    assert main(["match", *files]) == 0
    assert pairs(out) == expected
