"""`distributary plan` with queries: what it prints and writes, and how it refuses what it cannot place."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distributary.cli.main import main
from distributary.plan.queries.drawing import DrawnPlacement, placement_svg, spread_streams
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.plan_file import read_query_plan
from plan.pictures.drawn import notes, words
from plan.trees.test_rates import write_batch

EXAMPLE = Path(__file__).parents[2] / "examples" / "queries_on_sites.toml"
QUERIES = """
[sources.trades]
topic = "trades/*"
time = "at"
schema = { size = "integer", at = "integer" }
[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size >= 100" }
[[queries.busy.operators]]
name = "few"
truncate = { from = "large", window = "1 minute", items = 2 }
"""
GOAL = 'goal = "minimise aggregate(SUM, incoming rate, BROKERS)"'
PLAN = f"""
queries = "queries.toml"
{GOAL}
latency = [[0, 5, 9], [5, 0, 3], [9, 3, 0]]
site = [{{ name = "a" }}, {{ name = "b" }}, {{ name = "c", speed = 2 }}]
[source.trades]
site = "a"
rate = 1000
items = 10
[client]
busy = "c"
[operator."busy.large"]
selectivity = 0.2
[operator."busy.few"]
selectivity = 0.1
[tree.a]
c = "b"
"""


def written(tmp_path: Path, plan: str = PLAN, queries: str = QUERIES) -> str:
    (tmp_path / "queries.toml").write_text(queries)
    file = tmp_path / "plan.toml"
    file.write_text(plan)
    return str(file)


def test_where_operators_run_what_moved_and_the_comparison_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, picture = tmp_path / "plan.json", tmp_path / "plan.svg"
    assert main(["plan", written(tmp_path), "--json", str(record), "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "a  load 12\n  busy.large  filter of trades\n  busy.few  truncate of busy.large\nc  load 0\n"
    )
    assert "all at their clients: 2,000\nplanned: 20, with 2 operators elsewhere" in out
    # If only the filter went back to c, trades would go there by way of b, and what it lets pass to a.
    assert "busy.large: from c to a  (the whole would cost 2,220 without)" in out
    found = json.loads(record.read_text())
    assert (found["before"], found["after"]) == (2000.0, 20.0)
    assert found["operators"]["busy.few"]["site"] == "a"
    assert found["links"] == [{"from": "a", "to": "c", "rate": 20.0}]
    costs = {name: other["cost"] for name, other in found["comparison"].items()}
    assert costs == {"CLIENT-STAR": 1000.0, "CLIENT-TREE": 2000.0, "SOURCE": 20.0, "GLOBAL": 20.0}
    drawn = picture.read_text()
    written_there = {"publishes trades", "busy.large (filter)", "client of busy"}
    assert {"Planned: 20 B/s", "20 B/s", *written_there} <= set(words(drawn, "planned"))
    assert {"All at their clients: 2,000 B/s", "1,000 B/s", *written_there} <= set(words(drawn, "before"))
    assert {"a to b: 1,000 B/s, 5 ms", "b to c: 1,000 B/s, 3 ms"} <= set(notes(drawn, "before"))


READERS = """
[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size >= 100" }
""" + "".join(
    f"""
[[queries.{name}.operators]]
name = "few"
truncate = {{ from = "busy.large", window = "{number} minutes", items = 2 }}
"""
    for number, name in enumerate(("one", "two", "three"), 1)
)
SPREAD = """
queries = "queries.toml"
goal = "minimise aggregate(MAX, aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate, BROKERS)"
latency = [[0, 5, 6, 7], [5, 0, 3, 9], [6, 3, 0, 2], [7, 9, 2, 0]]
site = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
[source.trades]
site = "a"
rate = 1000
items = 10
[client]
busy = "a"
one = "b"
two = "c"
three = "d"
[operator."busy.large"]
selectivity = 0.5
"""


@pytest.mark.parametrize("fanout", [None, 3, 2, 1])
def test_streams_that_spread_by_trees_are_counted_and_shown(
    fanout: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three sites read what the filter at a lets pass, 500 bytes a second each."""
    queries = QUERIES[: QUERIES.index("[[queries")] + READERS
    plan = SPREAD if fanout is None else f"fanout = {fanout}\n{SPREAD}"
    file = written(tmp_path, plan, queries)
    start = read_query_plan(Path(file)).start
    assert (
        spread_streams(start)
        == {None: {}, 3: {}, 2: {0: {1: 0, 2: 0, 3: 2}}, 1: {0: {1: 0, 2: 1, 3: 2}}}[fanout]
    )
    assert main(["plan", file, "--json", "-"]) == 0
    told = capsys.readouterr()
    record = json.loads(told.out)
    straight = fanout in (None, 3)
    assert record["before"] == {None: 1500.0, 3: 1500.0, 2: 1000.0, 1: 500.0}[fanout]
    assert ("spreads by a tree" in told.err) == bool(record["trees"])
    if straight:
        assert record["trees"] == {}


def test_a_tree_that_the_plan_ends_with_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = QUERIES[: QUERIES.index("[[queries")] + READERS
    held = 'constraints = ["node load <= 16"]\nfanout = 1\n' + SPREAD
    held += "".join(f'[operator."{name}.few"]\ncost = 3\n' for name in ("one", "two", "three"))
    assert main(["plan", written(tmp_path, held, queries), "--json", "-"]) == 0
    told = capsys.readouterr()
    assert "busy.large spreads by a tree: b from a, c from b, d from c" in told.err
    assert json.loads(told.out)["trees"] == {"busy.large": {"b": "a", "c": "b", "d": "c"}}


def test_metrics_of_ones_own_decide_where_operators_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = 'goal = "minimise aggregate(SUM, rent * operators, BROKERS)"'
    rents = "[metric.rent]\nsites = {a = 5, b = 1, c = 9}\n"
    assert main(["plan", written(tmp_path, PLAN.replace(GOAL, goal) + rents)]) == 0
    assert "planned: 2" in capsys.readouterr().out, "both operators at b"


def test_operators_start_where_they_run_today(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    today = PLAN.replace("selectivity = 0.1", 'selectivity = 0.1\nsite = "b"')
    assert main(["plan", written(tmp_path, today)]) == 0
    out = capsys.readouterr().out
    assert "\ntoday: " in out
    assert "busy.few: from b to a" in out


def test_a_limit_that_cannot_be_kept_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limited = PLAN.replace("latency =", 'constraints = ["node load <= 3"]\nlatency =')
    assert main(["plan", written(tmp_path, limited)]) == 0
    assert "the plan still breaks 1 limit: node load <= 3: at " in capsys.readouterr().out


def test_operators_are_split_where_the_rules_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = PLAN.replace(GOAL, 'goal = "minimise aggregate(MAX, node load, BROKERS)"')
    split = split.replace("latency =", 'rules = ["migration", "partition"]\nlatency =')
    assert main(["plan", written(tmp_path, split)]) == 0
    assert "busy.large/1: new, at " in capsys.readouterr().out


def test_what_a_site_does_besides_takes_its_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limited = PLAN.replace("latency =", 'constraints = ["node load <= 12"]\nlatency =')
    busy = f"{limited}\n[duties.a]\nload = 2\noperators = 1\n"
    assert main(["plan", written(tmp_path, busy)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a  load 12, 2 besides\n  busy.large  filter of trades\n")
    assert "busy.few" in out.partition("\nc  load ")[2]
    network = read_query_plan(Path(written(tmp_path, busy))).start.network
    assert [(duties.load, duties.operators) for duties in network.duties] == [(2, 1), (0, 0), (0, 0)]


def test_in_a_network_that_filters_a_filter_has_no_reason_to_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = QUERIES.partition('[[queries.busy.operators]]\nname = "few"')[0]
    plan = PLAN.replace('[operator."busy.few"]\nselectivity = 0.1\n', "").replace('c = "b"', "")
    assert main(["plan", written(tmp_path, plan, alone)]) == 0
    assert "busy.large: from c to a" in capsys.readouterr().out
    assert main(["plan", written(tmp_path, f"filtering = true\n{plan}", alone)]) == 0
    assert "all at their clients: 200\nplanned: 200, with 0 operators elsewhere" in capsys.readouterr().out


UNIT = QUERIES.replace(
    "[[queries.busy.operators]]",
    '[queries.busy]\nsuper = { both = ["large", "few"] }\n[[queries.busy.operators]]',
    1,
)


def test_a_super_operator_is_placed_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = f'rules = ["migration", "replication", "partition"]\n{PLAN}'
    assert main(["plan", written(tmp_path, rules, UNIT)]) == 0
    out = capsys.readouterr().out
    # Ten items at the filter and two at the other; of twenty bytes in a hundred, a tenth goes out.
    assert out.startswith(
        "a  load 12\n  busy.both  super-operator of trades\nc  load 0\n  busy  gets busy.both\n"
    )
    assert "all at their clients: 2,000\nplanned: 20, with 1 operator elsewhere" in out
    assert "busy.both: from c to a  (the whole would cost 2,000 without)" in out


@pytest.mark.parametrize("name", ["busy.both", "busy.few"])
def test_a_super_operator_runs_where_it_or_one_of_its_members_is_said_to(tmp_path: Path, name: str) -> None:
    plan = PLAN.replace('[operator."busy.few"]\nselectivity = 0.1\n', f'[operator."{name}"]\nsite = "b"\n')
    start = read_query_plan(Path(written(tmp_path, plan, UNIT))).start
    assert [one.name for one in start.workload.operators] == ["busy.both", "busy"]
    assert start.hosts == (1, 2)


def test_trees_are_improved_as_well_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limited = PLAN.replace("latency =", 'constraints = ["node load <= 12"]\nlatency =')
    pinned = limited.replace("selectivity = 0.2", "selectivity = 3.0")
    assert main(["plan", written(tmp_path, pinned), "--trees"]) == 0
    assert "tree of a: c under a" in capsys.readouterr().out


def test_rates_and_selectivities_are_those_of_the_metrics(tmp_path: Path) -> None:
    write_batch(
        tmp_path / "metrics", 0, (0, 10), [("trades/A", 60, 0), ("trades/B", 40, 0), ("busy/large", 25, 0)]
    )
    plan = PLAN.replace("rate = 1000\nitems = 10\n", "").replace(
        '[operator."busy.large"]\nselectivity = 0.2\n', ""
    )
    plan += '[rates]\nmetrics = "metrics"\nweight = 50\n'
    workload = read_query_plan(Path(written(tmp_path, plan))).start.workload
    assert (workload.sources[0].items, workload.sources[0].rate) == (10.0, 500.0)
    assert [operator.selectivity for operator in workload.operators] == [0.25, 0.1, 0]
    given = plan + '[operator."busy.large"]\nselectivity = 0.5\n'
    assert read_query_plan(Path(written(tmp_path, given))).start.workload.operators[0].selectivity == 0.5


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('busy = "c"', "", "nobody wants 'busy'; expected `busy = \"SITE\"` in [client]"),
        ('busy = "c"', 'busy = "d"', "the client of 'busy': there is no site 'd'"),
        ('busy = "c"', 'busy = "c"\nidle = "c"', "there is no query 'idle'; there are busy"),
        (
            '[source.trades]\nsite = "a"\nrate = 1000\nitems = 10\n',
            "",
            "no site publishes 'trades'; expected",
        ),
        ('site = "a"\n', "", "[source.trades] site: is missing; it must be a string"),
        ("[source.trades]", "[source.quotes]", "there is no source 'quotes'; there are trades"),
        (
            "items = 10",
            "items = -1",
            "[source.trades] items: is -1 (a whole number); it must be a number that is not negative",
        ),
        ('"busy.large"', '"busy.big"', "there is no operator 'busy.big'; there are busy.large, busy.few"),
        (
            "selectivity",
            "select",
            "[operator.busy.large] select: there is no such key; did you mean selectivity?",
        ),
        ("[tree.a]", "[tree.b]", "there is no publishing site 'b'; there are a"),
        ('c = "b"', 'c = "c"', "the parents given in [tree.a] make no tree"),
        ('c = "b"', 'a = "b"', "[tree.a] gives 'a' a parent, and it is the root"),
        ("speed = 2", "speed = 0", "[site 3] speed: is 0 (a whole number); it must be a number above 0"),
        ("[tree.a]", "[duties.z]\n[tree.a]", "there is no site 'z'; there are a, b, c"),
        (
            "[tree.a]",
            "[duties.a]\nlod = 1\n[tree.a]",
            "[duties.a] lod: there is no such key; did you mean load?",
        ),
        ("[tree.a]", "[duties]\na = 1\n[tree.a]", "[duties.a]: is 1 (a whole number); it must be a table"),
        (
            "[tree.a]",
            "[duties.a]\nload = -1\n[tree.a]",
            "[duties.a] load: is -1 (a whole number); it must be a number that is not negative",
        ),
        (
            "[tree.a]",
            "[duties.a]\noperators = 1.5\n[tree.a]",
            "[duties.a] operators: is 1.5 (a number); it must be a whole number",
        ),
        (GOAL, f"{GOAL}\nfiltering = 1", "filtering: is 1 (a whole number); it must be true or false"),
        (GOAL, "", "goal: is missing; it must be a string such as"),
        (
            GOAL,
            f'{GOAL}\nrules = ["magic"]',
            'rules: is ["magic"] (a list); it must be a list of migration, replication',
        ),
        (GOAL, f"{GOAL}\nroot = 'a'", "root: there is no such key"),
        ('"queries.toml"', '"none.toml"', "none.toml"),
        (
            '"queries.toml"',
            "3",
            "queries: is 3 (a whole number); it must be the name of a TOML file with queries",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    assert old in PLAN
    assert main(["plan", written(tmp_path, PLAN.replace(old, new))]) == 1
    assert reason in capsys.readouterr().err


def test_faulty_queries_are_refused_with_their_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", written(tmp_path, queries=QUERIES.replace("size >= 100", "weight >= 100"))]) == 1
    assert "query 'busy', operator 'large'" in capsys.readouterr().err


def test_options_of_trees_and_of_queries_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", written(tmp_path), "--root", "a"]) == 2
    assert "--root is for plans of trees" in capsys.readouterr().err
    assert main(["plan", str(EXAMPLE.parent / "sites.toml"), "--trees"]) == 2
    assert "--trees is for plans of queries" in capsys.readouterr().err


def test_the_example_is_placed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLE)]) == 0
    out = capsys.readouterr().out
    assert "planned: 6,265, with 7 operators elsewhere" in out
    assert "breaks 1 limit" in out


def test_a_picture_of_many_operators_counts_those_it_has_no_room_for() -> None:
    network = random_network(sites=6, trees=2, seed=1)
    placement = at_clients(feed_workload(network, 30, seed=1), network)
    picture = placement_svg([DrawnPlacement("planned", "", placement)], "many & more")
    ElementTree.fromstring(picture)
    assert " more</text>" in picture
    assert "many &amp; more" in picture
