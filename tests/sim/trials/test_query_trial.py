"""Trials of query networks: right answers whatever happens, and wrong ones are seen."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.flow import answer, interpret
from distributary.plan.queries.goals import NAMED_GOALS
from distributary.sim.trials import query_trial
from distributary.sim.trials.query_answers import answers_due, differences, out_of_order, promised_order
from distributary.sim.trials.query_trial import QueryTrial, run_query_trial
from distributary.sim.trials.query_workload import BEGIN, feed_catalogue, feed_events
from replay import replayed_by

FIRST = 1000 * (int(os.environ.get("DISTRIBUTARY_SEED", "1")) - 1)
"""Of `make chaos SEED=N`: another N tries others."""
SMALL = QueryTrial(nodes=6, queries=6, feeds=4, events=80, seconds=60)
FILE = Path(__file__).parents[3] / "examples" / "queries.toml"


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_the_interpreters_while_operators_move_under_faults(seed: int) -> None:
    trial = replace(SMALL, seed=seed, scenario="messages", changes=15, withdrawals=2)
    with replayed_by(trial.command):
        outcome = run_query_trial(trial)
        assert outcome.problems == ()
        assert outcome.results > 10
        assert outcome.changed["withdrawn"] == 2
        assert sum(outcome.changed.get(what, 0) for what in ("moved", "divided", "replicated")) == 15
        assert all(outcome.fired[kind] for kind in ("loss", "duplication", "reordering", "delay spike"))


@pytest.mark.parametrize(("seed", "scenario"), [(0, "calm"), (1, "loss")])
def test_answers_are_right_when_nodes_are_gone_for_good(seed: int, scenario: str) -> None:
    trial = replace(SMALL, seed=seed, scenario=scenario, nodes=8, changes=20, gone=2, seconds=100.0)
    with replayed_by(trial.command):
        outcome = run_query_trial(trial)
        assert outcome.problems == ()
        assert outcome.changed["went on elsewhere"] > 0


def test_nodes_cannot_be_gone_faster_than_that_is_noticed() -> None:
    with pytest.raises(DistributaryError, match="2 nodes one after the other take 90 seconds at least"):
        QueryTrial(gone=2, seconds=60)
    with pytest.raises(DistributaryError, match="with nodes that are gone, scenarios are calm, loss"):
        QueryTrial(gone=1, scenario="pause")


@pytest.mark.parametrize("goal", NAMED_GOALS)
def test_a_network_that_follows_a_goal_moves_operators_and_answers_right(goal: str) -> None:
    trial = replace(SMALL, nodes=12, queries=4, goal=goal, period=6.0, latency="wide-area")
    with replayed_by(trial.command):
        outcome = run_query_trial(trial)
        assert outcome.problems == ()
        assert outcome.changed["moves in all"] > 0
        assert outcome.traffic["statistics"].bytes > 0


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(40))
def test_answers_are_right_under_every_fault_that_nodes_can_bear(seed: int) -> None:
    goal = ["", *NAMED_GOALS][seed % 4]
    trial = QueryTrial(
        seed=FIRST + seed, nodes=12, scenario="everything", changes=25, withdrawals=4, goal=goal
    )
    with replayed_by(trial.command):
        assert run_query_trial(trial).problems == ()


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (run_query_trial(replace(SMALL, scenario="loss", changes=5)) for _ in range(2))
    assert replace(one, seconds=0) == replace(other, seconds=0)


def test_items_that_are_missing_doubled_or_wrong_are_seen() -> None:
    catalogue = feed_catalogue(queries=5, feeds=3, seed=2)
    items = answer(catalogue, feed_events(catalogue, 60, 30.0, 2)).streams
    sources = {name: items[name] for name in catalogue.sources}
    found = {name: list(stream) for name, stream in interpret(catalogue, sources).streams.items()}
    due = answers_due(catalogue, sources, ())
    assert differences(due, found) == []
    output = next(name for query in catalogue.queries for name in catalogue.outputs(query) if found[name])
    first = found[output][0]
    for wrong in ([], [first, first], [replace(first, time=first.time + 1)]):
        assert differences(due, {**found, output: [*wrong, *found[output][1:]]})
    places = promised_order(catalogue, sources)
    assert out_of_order(places, found) == []
    backwards = {name: stream[::-1] for name, stream in found.items()}
    told = {problem.split()[0] for problem in out_of_order(places, backwards)}
    assert told == {name for name, place in places.items() if place and len(due[name]) > 1}
    assert len(told) > 2


def test_a_rush_is_shed_and_every_answer_of_the_shares_told_comes(capsys: pytest.CaptureFixture[str]) -> None:
    trial = replace(SMALL, nodes=3, queries=8, events=900, speed=8.0, rush=6.0, shed=True, seed=2)
    with replayed_by(trial.command):
        outcome = run_query_trial(trial)
        assert outcome.problems == ()
        assert any(one.share < 1 for one in outcome.told)
        assert main(shlex.split(trial.command)[1:]) == 0
        out = capsys.readouterr().out
        assert "queries that were thinned out" in out
        assert "0 problems" in out


def test_slow_nodes_may_finish_what_waits_for_them_before_answers_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = replace(SMALL, speed=0.5, seconds=10, queries=4)
    with replayed_by(trial.command):
        outcome = run_query_trial(trial)
        assert outcome.problems == ()
        assert outcome.virtual_seconds > trial.seconds + 3 * query_trial.REST
    monkeypatch.setattr(query_trial, "PATIENCE", 1.0)
    (told,) = run_query_trial(trial).problems
    assert told.endswith(" items still wait for processors 121 seconds after the last event")


def test_a_rush_puts_so_many_times_more_events_into_the_middle_third() -> None:
    trial = replace(SMALL, events=4000, rush=6.0)
    times = [event.attributes["at"] - BEGIN for event in trial.given]
    thirds = [sum(third * 20_000 <= at < (third + 1) * 20_000 for at in times) for third in range(3)]
    assert times == sorted(times)
    assert thirds[1] / thirds[0] == pytest.approx(6, rel=0.2)
    assert thirds[1] / thirds[2] == pytest.approx(6, rel=0.2)


def test_shedding_needs_processors_and_nodes_that_stay() -> None:
    with pytest.raises(DistributaryError, match="processors that take no time: give a speed"):
        QueryTrial(shed=True)
    with pytest.raises(DistributaryError, match="load is not shed with nodes that are gone"):
        QueryTrial(shed=True, speed=10.0, gone=1)
    with pytest.raises(DistributaryError, match="a speed is at least 0, and a rush above 0"):
        QueryTrial(rush=0.0)


def test_one_query_at_least_is_not_withdrawn_and_none_where_load_is_shed() -> None:
    with pytest.raises(DistributaryError, match="of 6 queries 6 cannot be withdrawn"):
        run_query_trial(replace(SMALL, withdrawals=6))
    with pytest.raises(DistributaryError, match="not withdrawn where load is shed"):
        QueryTrial(shed=True, speed=10.0, withdrawals=1)


def test_scenarios_without_a_promise_are_refused() -> None:
    with pytest.raises(DistributaryError, match="no scenario 'amnesia' for queries; there are calm, loss"):
        QueryTrial(scenario="amnesia")


def test_the_command_runs_a_file_with_its_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events.jsonl"
    records = [
        {"id": f"e{n}", "topic": "trades", "symbol": "OTE", "price": 8.5, "size": 60 * n % 200, "at": 900 * n}
        for n in range(100)
    ]
    late = {**records[0], "id": "late"}
    events.write_text("".join(json.dumps(record) + "\n" for record in [*records, late]))
    trial = QueryTrial(str(FILE), str(events), scenario="loss", nodes=4, goal="load", seconds=40, seed=3)
    assert main(shlex.split(trial.command)[1:]) == 0
    out = capsys.readouterr().out
    assert "2 queries, 101 events, 1 set aside" in out
    assert "0 problems" in out


def test_events_that_give_no_answers_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"id": "e1", "topic": "trades", "symbol": "OTE"}\n')
    command = ["sim", "queries", str(FILE), "--events", str(events), "--nodes", "4", "--seconds", "10"]
    assert main(command) == 1
    told = capsys.readouterr()
    assert "set aside was e1 of trades: " in told.out
    assert "no query had any answer, which means nothing" in told.err
