"""Trials: a system under a scenario, checked against brute force; what is broken is told."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distributary.cli import trials as cli_trials
from distributary.cli.main import main
from distributary.errors import DistributaryError, DocumentError
from distributary.model import Event, Subscription
from distributary.sim.faults import Injection
from distributary.sim.oracle import ClientSubscription, Oracle
from distributary.sim.scenario import BrokenPromiseError
from distributary.sim.trials.clients import TrialData, made_up, subscriptions_of
from distributary.sim.trials.run import LEAST
from distributary.sim.trials.trial import Trial, TrialOutcome, run_trial
from distributary.systems import flooding
from distributary.systems.table import SYSTEMS
from replay import replayed_by


def small(system: str, scenario: str = "calm", **settings: Any) -> Trial:
    return Trial(system, scenario, **{"nodes": 12, "subscriptions": 40, "events": 24, **settings})


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_delivers_what_it_promises_when_all_is_calm(name: str) -> None:
    outcome = run_trial(small(name))
    assert outcome.problems == ()
    assert outcome.checked == 24
    assert outcome.due >= LEAST
    assert outcome.withdrawn == (0 if name == "ring" else 6)
    assert outcome.borrowed == 0
    assert outcome.costs["publish"].operations == 24
    assert outcome.upkeep == {}
    assert sum(outcome.loads.values()) == sum(traffic.messages for traffic in outcome.kinds.values())


@pytest.mark.parametrize("name", ["ring", "flooding", "central"])
def test_systems_keep_their_promises_after_faults(name: str) -> None:
    outcome = run_trial(small(name, "nodes", seed=2))
    assert outcome.problems == ()
    assert set(outcome.promised) <= set(outcome.fired)
    assert outcome.upkeep["NeighboursRequest"].messages > 0


def test_an_underlay_tells_stress_and_stretch() -> None:
    outcome = run_trial(small("flooding", latency="transit-stub"))
    assert outcome.underlay is not None
    assert outcome.underlay.operations == 24
    assert outcome.underlay.largest_stress >= outcome.underlay.stress >= 1
    assert outcome.underlay.largest_stretch >= outcome.underlay.stretch > 0.9


def test_a_lost_delivery_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    offer = flooding.Home.offer

    def forgetful(self: flooding.Home, event: Event) -> None:
        if not event.id.endswith("3"):
            offer(self, event)

    monkeypatch.setattr(flooding.Home, "offer", forgetful)
    trial = small("flooding", events=30, subscriptions=400)
    outcome = run_trial(trial)
    assert outcome.problems
    assert all(problem.split()[1].endswith("3") for problem in outcome.problems), "the others came"
    assert "did not reach" in outcome.problems[0]
    assert main(shlex.split(trial.command)[1:]) == 1
    assert trial.command in capsys.readouterr().err


def test_a_delivery_that_nobody_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding.Home, "offer", lambda self, event: self.node.deliver(stray(event)))
    outcome = run_trial(small("central", subscriptions=200))
    assert outcome.problems
    assert any("unasked" in problem for problem in outcome.problems)


def stray(event: Event) -> Any:
    from distributary.model import Delivery

    return Delivery(event, "nobody", ("s0",))


def test_a_fault_that_never_happens_fails_the_trial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Injection, "_begin", lambda self, fault: None)
    with pytest.raises(BrokenPromiseError, match="never injected: pause"):
        run_trial(small("ring", "pause"))
    assert main(["sim", "run", "pause", "--system", "ring", "--nodes", "12"]) == 1
    assert "run it again with: distributary sim run pause --system ring" in capsys.readouterr().err


def test_the_command_of_a_trial_runs_that_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Trial] = []

    def note(trial: Trial, *rest: object, **more: object) -> TrialOutcome:
        ran.append(trial)
        raise DistributaryError("enough")

    monkeypatch.setattr("distributary.sim.trials.trial.run_trial", note)
    trials = [
        Trial("flooding"),
        Trial("ring", "random", nodes=9, seed=5, subscriptions=7, events=3, gap=2.5, least=1),
        Trial("tree", "everything", gone=2, at_once=3, side=4, strength=1.5),
        Trial("central", "loss", workload="topics", latency="uniform:0.1-0.2", robust=True),
    ]
    for trial in trials:
        assert main(shlex.split(trial.command)[1:]) == 1
    assert ran == trials


def test_traces_of_a_trial_are_the_same_and_can_be_compared(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (str(tmp_path / f"{name}.gz") for name in ("first", "second", "third"))
    command = ["sim", "run", "loss", "--system", "ring", "--nodes", "8", "--events", "18"]
    for path, seed in ((first, "1"), (second, "1"), (third, "2")):
        assert main([*command, "--trace", path, "--seed", seed]) == 0
    shown = capsys.readouterr()
    assert "loss" in shown.out
    digests = [line.split()[-1] for line in shown.err.splitlines() if "digest" in line]
    assert digests[0] == digests[1] != digests[2]
    assert main(["sim", "compare", first, second]) == 0
    assert "the same" in capsys.readouterr().out
    assert main(["sim", "compare", first, third]) == 1
    assert "part at line" in capsys.readouterr().out


def test_several_seeds_are_run_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sim", "run", "calm", "--system", "ring", "--nodes", "5", "--events", "10"]
    assert main([*command, "--seeds", "3"]) == 0
    assert "3 of 3 seeds went well" in capsys.readouterr().err
    assert main([*command, "--seeds", "3", "--trace", "x"]) == 2
    assert "--trace is for one seed" in capsys.readouterr().err


def test_what_there_is_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*SYSTEMS, "everything", "random", "one-way partition"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["loss", "--system", "guessing"], "no system 'guessing'"),
        (["fire", "--system", "ring"], "no scenario 'fire'"),
        (["calm", "--system", "ring", "--workload", "nothing"], "no workload 'nothing'"),
        (["loss", "--system", "ring", "--nodes", "3"], "too few"),
        (["calm", "--system", "ring", "--gap", "0.2"], "too few to reach everybody"),
        (["calm", "--system", "ring", "--latency", "slow"], "no latency 'slow'"),
        (["calm", "--system", "ring", "--latency", "uniform:a-b"], "'a' is no number"),
        (["calm", "--system", "tree", "--set", "colour=3"], "has no setting 'colour'"),
        (["calm", "--system", "tree", "--set", "fanout=many"], "takes a whole number"),
        (["calm", "--system", "ring", "--trace", "x", "--seeds", "2"], "--trace is for one seed"),
    ],
)
def test_wrong_arguments_are_told(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "run", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ring", "--latency", "matrix:none.csv"], "cannot read none.csv"),
        (["attributes", "--schema", "none.toml"], "none.toml: cannot be read"),
        (["tree", "--settings", "none.toml"], "none.toml"),
        (["tree", "--events-file", "none.jsonl"], "none.jsonl"),
    ],
)
def test_a_file_that_is_not_there_is_no_wrong_argument(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "run", "calm", "--system", *arguments]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("run calm --system tree --side 3", "--side changes nothing: scenario 'calm' has no partitions"),
        (
            "run pause --system tree --strength 2",
            "--strength changes nothing: scenario 'pause' has no faults",
        ),
        ("run loss --system tree --at-once 2", "--at-once changes nothing: scenario 'loss' has no faults of"),
        (
            "run calm --system central --set copies=3",
            "setting copies changes nothing in a calm run: add --rob",
        ),
        ("run loss --system tree --set period=9", "setting period changes nothing without a setting goal"),
        ("queries --told whole", "--told changes nothing: there is no --goal"),
        ("queries --period 5", "--period changes nothing: there is no --goal"),
        (
            "queries q.toml --feeds 3 --queries 4",
            "--feeds changes nothing: the queries are those of the file",
        ),
        (
            "queries q.toml --events e.jsonl --count 9",
            "--count changes nothing: the events are those of the f",
        ),
    ],
)
def test_what_would_change_nothing_is_refused(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", *arguments.split()]) == 2
    assert complaint in capsys.readouterr().err


def test_a_workload_beside_files_of_both_is_refused_and_beside_one_it_makes_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = own_files(tmp_path)
    subscriptions = ["--subscriptions-file", files["subscriptions"], "--workload", "market"]
    command = ["sim", "run", "calm", "--system", "tree", "--nodes", "4", *subscriptions]
    assert main([*command, "--events-file", files["events"]]) == 2
    assert "--workload changes nothing: subscriptions and events are both read" in capsys.readouterr().err
    main([*command, "--least", "0"])
    assert "changes nothing" not in capsys.readouterr().err


def test_the_command_shows_no_more_problems_than_can_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flooding.Home, "offer", lambda self, event: None)
    command = ["sim", "run", "calm", "--system", "flooding", "--nodes", "5"]
    assert main([*command, "--subscriptions", "400", "--events", "30"]) == 1
    told = capsys.readouterr().err
    assert told.count("did not reach") == cli_trials.SHOWN
    assert "more" in told


def test_the_oracle_measures_tolerances_from_what_was_delivered() -> None:
    oracle = Oracle()
    subscription = Subscription("s", "ann", topic="A", change={"a": 2})
    standing = ClientSubscription(subscription, at=7)
    first, second = Event("e1", "A", {"a": 5}), Event("e2", "A", {"a": 6})
    assert oracle.wanted(first, [standing]) == {(7, "ann"): ("s",)}
    assert oracle.wanted(second, [standing]) == {(7, "ann"): ("s",)}, "nothing was delivered yet"
    oracle.note(first, [standing], now=3.0)
    assert oracle.wanted(second, [standing]) == {}
    assert oracle.wanted(second, [standing._replace(since=4.0)]) == {(7, "ann"): ("s",)}, "made anew since"
    assert oracle.wanted(Event("e3", "A/B", {"a": 6}), [standing]) == {(7, "ann"): ("s",)}, "another topic"


def test_a_run_in_which_hardly_anything_was_due_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_trial(small("flooding", subscriptions=0))
    assert outcome.problems == (
        "only 0 deliveries were due when all had healed, fewer than 10 mean nothing:"
        " give more events, subscriptions, or ones that match",
    )
    assert run_trial(small("flooding", subscriptions=0, least=0)).problems == ()
    command = ["sim", "run", "calm", "--system", "state-aware-sf", "--workload", "ranges"]
    assert main([*command, "--nodes", "8"]) == 1, "all subscriptions are refused"
    assert "only 0 deliveries were due" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--events", "0"], ["--seeds", "0"], ["--gap", "-1"], ["--strength", "0"]]
)
def test_what_would_show_nothing_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sim", "run", "calm", "--system", "ring", *arguments])


def test_ids_collide_on_purpose() -> None:
    data = made_up("market", 60, 60, seed=1)
    assert len({event.id for event in data.events}) < len({event.key for event in data.events}) == 60
    assert len({one.id for one in data.subscriptions}) < len({one.key for one in data.subscriptions}) == 60


@pytest.mark.parametrize(
    ("name", "scenario"), [("central", "partition"), ("tree", "calm"), ("flooding", "loss")]
)
def test_systems_bear_the_loss_of_nodes_for_good_and_faults_of_several_at_once(
    name: str, scenario: str
) -> None:
    trial = small(name, scenario, nodes=16, gone=3, at_once=2, side=4, strength=1.5, seed=3)
    with replayed_by(trial.command):
        outcome = run_trial(trial)
        assert outcome.problems == ()
        assert outcome.fired["crash"] == 3


def test_several_seeds_are_summed_up_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sim", "run", "loss", "--system", "ring", "--nodes", "8", "--events", "18", "--seeds", "2"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    each = [run_trial(Trial("ring", "loss", nodes=8, events=18, seed=seed)) for seed in (1, 2)]
    assert told["seeds"] == told["well"] == 2
    assert told["failed"] == []
    assert told["events"] == 36
    assert told["due"] == sum(outcome.due for outcome in each) == 24
    assert told["deliveries"] == sum(outcome.deliveries for outcome in each)
    assert told["faults"] == {"loss": sum(outcome.fired["loss"] for outcome in each)}


def test_seeds_that_fail_are_in_the_json_with_their_problems_and_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flooding.Home, "offer", lambda self, event: None)
    assert main(["sim", "run", "calm", "--system", "flooding", "--nodes", "5", "--json"]) == 1
    [failed] = json.loads(capsys.readouterr().out)["failed"]
    assert failed["command"] == "distributary sim run calm --system flooding --seed 1 --nodes 5"
    assert "did not reach" in failed["problems"][0]


def test_a_seed_that_ends_with_an_error_has_it_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "sim",
        "run",
        "calm",
        "--system",
        "ring",
        "--nodes",
        "5",
        "--latency",
        "matrix:no.csv",
        "--json",
    ]
    assert main(command) == 1
    [failed] = json.loads(capsys.readouterr().out)["failed"]
    [problem] = failed["problems"]
    assert problem.startswith("cannot read no.csv")


def test_a_trial_tells_why_subscriptions_were_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sim", "run", "calm", "--system", "state-aware-sf", "--nodes", "5", "--workload", "topics"]
    assert main(command) == 1
    told = capsys.readouterr()
    for told_at in (told.out, told.err):
        assert re.search(r"refused was subscription \S+ of \S+: change: missing", told_at)


# The user's own data and settings.

SCHEMA_FILE = """
[attributes.price]
type = "float"
minimum = 0
maximum = 100
precision = 1
"""


def own_files(folder: Path) -> dict[str, str]:
    """Files with a user's subscriptions, as JSON lines, events, as CSV, and a schema."""
    document = "<a><b>{}</b></a>"
    wishes = [
        {"id": "s", "subscriber": f"u{n}", "topic": "shop/x/y", "where": f"price > {4 * n}", "path": "/a/b"}
        for n in range(20)
    ]
    for wish in wishes:
        wish["change"] = {"price": 0.5}
    rows = [f"e{n},shop/x/y,{(n * 37) % 100},{document.format(n)}" for n in range(20)]
    texts = {
        "subscriptions.jsonl": "".join(json.dumps(wish) + "\n" for wish in wishes),
        "events.csv": "\n".join(["id,topic,price,document", *rows]) + "\n",
        "schema.toml": SCHEMA_FILE,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name.partition(".")[0]: str(folder / name) for name in texts}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_runs_with_the_users_own_records(name: str, tmp_path: Path) -> None:
    files = own_files(tmp_path)
    settings = {"schema": files["schema"]} if name.startswith("attributes") else {}
    trial = Trial(
        name,
        nodes=8,
        subscriptions_file=files["subscriptions"],
        events_file=files["events"],
        settings=settings,
    )
    if name == "ring":
        trial = replace(trial, subscriptions_file="")
    outcome = run_trial(trial)
    assert outcome.problems == ()
    assert (outcome.refused, outcome.events, outcome.checked) == (0, 20, 20)
    assert outcome.due >= 20
    assert main(shlex.split(trial.command)[1:]) == 0


def test_records_of_the_users_own_can_be_given_from_python() -> None:
    data = TrialData(
        [Subscription("s", f"u{n}", topic="A") for n in range(3)], [Event(f"e{n}", "A/B") for n in range(5)]
    )
    outcome = run_trial(Trial("tree", nodes=4), data=data)
    assert (outcome.problems, outcome.due, outcome.events) == ((), 15, 5)


def test_a_document_that_cannot_be_read_stops_the_trial_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"id": "e1", "document": "<a/>"}\n{"id": "e2", "document": "<a>"}\n')
    assert main(["sim", "run", "calm", "--system", "flooding", "--events-file", str(path)]) == 1
    assert f"{path}:2: document: no element found" in capsys.readouterr().err
    data = TrialData([Subscription("s", "ann", path="/a")], [Event("e2", document="<a>")])
    with pytest.raises(DocumentError):
        run_trial(Trial("flooding", nodes=4), data=data)


def test_malformed_records_stop_the_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "subscriptions.jsonl"
    good = '{"id": "s", "subscriber": "ann", "topic": "A"}\n'
    for text, complaint in ((good + good, ":2: there is a second s of ann"), (good + "{}\n", ":2: id:")):
        file.write_text(text)
        assert main(["sim", "run", "calm", "--system", "tree", "--subscriptions-file", str(file)]) == 1
        assert complaint in capsys.readouterr().err


def test_a_tolerance_in_csv_is_a_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "subscriptions.csv"
    head = "id,subscriber,topic,change\n"
    file.write_text(head + 's1,ann,A,"{""price"": 0.05, ""size"": 2}"\ns2,ann,A,\n')
    first, second = subscriptions_of(str(file))
    assert (first.change, second.change) == ({"price": 0.05, "size": 2.0}, None)
    command = ["sim", "run", "calm", "--system", "tree", "--subscriptions-file", str(file)]
    for text, complaint in (
        ("price=0.05", "row 1: change: "),
        ('"{""price"": ""low""}"', "change: the tolerance of 'price'"),
        ('"{""price"": -1}"', "change"),
        ('"{""price"": 1, ""price"": 2}"', "given twice"),
    ):
        file.write_text(head + f's1,ann,A,"{{""price"": 0.05}}"\ns2,ann,A,{text}\n')
        assert main(command) == 1
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_setting_of_a_system_can_be_given_as_its_default(name: str) -> None:
    options = SYSTEMS[name].options
    settings = {option.name: option.default for option in options if option.default is not None}
    default = run_trial(small(name, robust=True))
    assert replace(
        run_trial(small(name, robust=True, settings=settings)), seconds=0, trial=default.trial
    ) == (replace(default, seconds=0)), "the defaults that are told are those that hold"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hope-kbsp", {"length": "512", "hashes": 3, "budget": 4, "facets": 2, "history": 8, "copies": 1}),
        ("hope-kbpp", {"dimension": 4, "dimensions": "4,5"}),
        ("state-aware-mfd", {"span": 4, "maximum": 20, "window": 0.5}),
        ("attributes", {"rebalance": 60, "overlap": 10, "refresh": 20}),
        (
            "tree",
            {
                "fanout": 3,
                "goal": "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)",
                "unit": 4,
                "period": 20,
            },
        ),
    ],
)
def test_settings_change_the_run_and_nothing_of_its_answers(name: str, settings: dict[str, Any]) -> None:
    outcome = run_trial(small(name, robust=True, settings=settings))
    assert outcome.problems == ()
    assert outcome.kinds != run_trial(small(name, robust=True)).kinds


def test_unknown_settings_are_refused_with_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sim", "run", "calm", "--system", "central", "--nodes", "8"]
    assert main([*command, "--set", "copys=3"]) == 2
    assert "no setting 'copys'; its settings are copies, refresh" in capsys.readouterr().err
    file = tmp_path / "settings.toml"
    file.write_text("copies = 3\nrefresh = -1\n")
    assert main([*command, "--settings", str(file), "--robust"]) == 2
    assert "setting refresh of system 'central' takes a number above 0, not -1" in capsys.readouterr().err
    assert main([*command, "--settings", str(file), "--set", "refresh=20", "--robust"]) == 0
    assert main(["sim", "list", "--settings"]) == 0
    assert "budget" in capsys.readouterr().out


def test_options_of_workloads_are_checked() -> None:
    with pytest.raises(DistributaryError, match="'ranges' has no option 'color'; its options are attributes"):
        Trial("attributes", workload="ranges:color=3")
    with pytest.raises(DistributaryError, match="constrained of workload 'ranges' is a number, not 'two'"):
        Trial("attributes", workload="ranges:constrained=two")


def test_the_page_tells_every_setting_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text()
    for name, system in SYSTEMS.items():
        for option in system.options:
            rows = [line for line in page.splitlines() if line.startswith(f"| `{option.name}` |")]
            assert any(f"| {option.default} | {option.about} |" in row and name in row for row in rows), (
                option
            )


@pytest.mark.parametrize("name", ["central", "flooding", "tree"])
def test_to_conditions_it_is_the_simulators_time(name: str) -> None:
    # Each event is offered until some seconds after 1970 began; the clock on the wall is far beyond.
    offers = [
        Event(f"e{number}", "offers", {"until": f"1970-01-01T00:0{number % 6}:30"}) for number in range(40)
    ]
    asked = [Subscription("s", "ann", where="until > now()")]
    trial = Trial(name, "messages", nodes=10)
    outcome = run_trial(trial, data=TrialData(asked, offers))
    assert outcome.problems == ()
    assert 0 < outcome.due < outcome.checked
    assert run_trial(trial, data=TrialData(asked, offers)).deliveries == outcome.deliveries
