"""`distributary plan`: what it prints and writes, and how it refuses what it cannot plan with."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distributary.cli.main import main
from distributary.plan.trees.drawing import DrawnTree, TreePictureUnits, tree_svg
from distributary.plan.trees.tree import Sites, star
from distributary.plan.trees.units import TreeUnits
from plan.pictures.drawn import SVG, group, notes, words

GOAL = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
MATRIX = "site,a,b,c\na,0,5,9\nb,5,0,3\nc,9,3,0\n"
SITES = """
root = "a"
goal = "{goal}"
latency = "latency.csv"
[[site]]
name = "a"
[[site]]
name = "b"
parent = "a"
[[site]]
name = "c"
parent = "a"
"""


def written(tmp_path: Path, text: str = SITES, matrix: str = MATRIX, goal: str = GOAL) -> str:
    (tmp_path / "latency.csv").write_text(matrix)
    file = tmp_path / "sites.toml"
    file.write_text(text.replace("{goal}", goal))
    return str(file)


def test_the_tree_the_costs_the_moves_and_the_comparison_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, picture = tmp_path / "tree.json", tmp_path / "tree.svg"
    assert main(["plan", written(tmp_path), "--json", str(record), "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a\n└── b  5\n    └── c  8\n")
    assert "today: 9\nplanned: 8, with 1 site under another parent" in out
    assert "c: from a to b  (its cost: 9 to 8; the whole would cost 9 without)" in out
    found = json.loads(record.read_text())
    assert found["parents"] == {"b": "a", "c": "b"}
    assert (found["before"], found["after"]) == (9.0, 8.0)
    assert found["comparison"]["star"] == {"cost": 9.0, "broken": []}
    assert set(found["comparison"]) == {"star", "minimum spanning tree", "random", "best effort"}
    drawn = picture.read_text()
    assert words(drawn, "before") == [
        "Today: 9 ms",
        "0 ms",
        "2 ms",
        "4 ms",
        "6 ms",
        "8 ms",
        "a",
        "b  5 ms",
        "c  9 ms",
    ]
    assert words(drawn, "planned")[0] == "Planned: 8 ms"
    assert len(list(group(drawn, "planned").iter(f"{SVG}circle"))) == 3


def test_numbers_in_a_picture_have_the_units_that_the_file_says(tmp_path: Path) -> None:
    units = """
        [units]
        latency = "µs"
        rate = "KB/s"
        [metric.toll]
        links = [[0, 2, 3], [2, 0, 4], [3, 4, 0]]
        unit = "€"
        [streams]
        quotes = 12.5
    """
    text = SITES.replace('name = "c"', 'name = "c"\nwants = ["quotes"]') + units
    file, picture = written(tmp_path, text), tmp_path / "tree.svg"
    assert main(["plan", file, "--svg", str(picture)]) == 0
    drawn = picture.read_text()
    assert words(drawn, "planned")[0] == "Planned: 8 µs"
    assert "a link that carries 10 KB/s" in words(drawn, "legend")
    assert "b to c: 3 µs, 12.5 KB/s" in notes(drawn, "planned")
    tolls = "minimise aggregate(SUM, toll, BROKERS)"
    assert main(["plan", file, "--goal", tolls, "--svg", str(picture)]) == 0
    assert words(picture.read_text(), "planned")[0] == "Planned: 5 €"


def test_without_a_tree_of_today_the_plan_is_drawn_alone(tmp_path: Path) -> None:
    file, picture = written(tmp_path, SITES.replace('parent = "a"', "")), tmp_path / "tree.svg"
    assert main(["plan", file, "--svg", str(picture)]) == 0
    assert 'class="before"' not in picture.read_text()
    assert words(picture.read_text(), "planned")[0] == "Planned: 8 ms"


def test_standard_output_gets_the_record_alone_and_the_terminal_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["plan", file, "--json", "-"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["parents"] == {"b": "a", "c": "b"}
    assert "planned: 8" in told.err
    assert "wrote" not in told.err
    assert main(["plan", file, "--svg", "-"]) == 0
    ElementTree.fromstring(capsys.readouterr().out)
    assert main(["plan", file, "--svg", "-", "--json", "-"]) == 2
    assert not (tmp_path / "-").exists()


def test_links_may_be_given_as_pairs_and_one_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, matrix="from,to,value\na,b,5\na,c,9\nc,b,3\n")
    assert main(["plan", file]) == 0
    assert capsys.readouterr().out.startswith("a\n└── b  5\n    └── c  8\n")


def test_rates_bandwidths_clients_and_a_goal_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    latency = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    bandwidth = [[0, 9, 1], [9, 0, 5], [1, 5, 0]]
    [[site]]
    name = "a"
    [[site]]
    name = "b"
    clients = 2
    wants = ["quotes"]
    [[site]]
    name = "c"
    wants = ["quotes", "news"]
    [streams]
    quotes = 10
    news = 3
    """
    file = written(tmp_path, text)
    wide = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"
    assert main(["plan", file, "--goal", wide]) == 0
    assert "planned: 5" in capsys.readouterr().out
    assert main(["plan", file, "--goal", "minimise aggregate(SUM, superfluous data, BROKERS)"]) == 0
    assert "planned: 0" in capsys.readouterr().out


TOLLS = """
[metric.toll]
links = [[0, 4, 9], [1, 0, 2], [1, 1, 0]]
[metric.rent]
sites = {a = 1, b = 5, c = 2}
"""


def test_metrics_of_ones_own_are_named_by_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, SITES + TOLLS)
    assert main(["plan", file, "--goal", "minimise aggregate(SUM, toll, BROKERS)"]) == 0
    assert "planned: 6" in capsys.readouterr().out, "a to b for 4, from there to c for 2"
    assert main(["plan", file, "--goal", "minimise aggregate(SUM, toll + rent * fanout, BROKERS)"]) == 0
    assert "planned: 11" in capsys.readouterr().out, "4 + 5 and 2; the root has no link, and so no cost"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[1, 1, 0]]", "]", "toll must have 3 rows of 3 numbers"),
        ("b = 5, ", "", "[metric.rent] has no value for site 'b'"),
        ("b = 5", "d = 5", "[metric.rent]: there is no site 'd'"),
        ("sites =", "symmetric = false #", "[metric.rent]: expected either `links` or `sites`"),
        ("links = [", "symmetric = true\nlinks = [", "toll from 'a' to 'b' is 4.0 and 1.0 back"),
    ],
)
def test_what_is_wrong_with_ones_own_metrics_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    assert old in TOLLS
    assert main(["plan", written(tmp_path, SITES + TOLLS.replace(old, new))]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ("site,a,b,c\na,0,5,\nb,5,0,3\nc,,3,0\n", "latency from 'a' to 'c' is missing, and 1 more pairs"),
        (
            "site,a,b,c\na,0,5,9\nb,7,0,3\nc,9,3,0\n",
            "is 5.0 and 7.0 back; if that is meant, say `symmetric = false`",
        ),
        ("site,a,b,c\na,0,5,9\nb,5,0,-3\nc,9,3,0\n", "latency.csv line 3 is '-3'; expected a number"),
        ("site,a,b,c\na,0,5,9\nb,5,0,x\nc,9,3,0\n", "latency.csv line 3 is 'x'; expected a number"),
        ("site,a,b,d\na,0,5,9\n", "latency.csv line 1: there is no site 'd'"),
        ("site,a,b,b\na,0,5,9\n", "latency.csv line 1: 'b' is there twice"),
        ("site,a,b,c\na,0,5,9\na,0,6,9\n", "latency.csv line 3: there is a line for 'a' already"),
        ("site,a,b,c\na,7,5,9\nb,5,0,3\nc,9,3,0\n", "from 'a' to 'a' is 7.0; expected 0 or nothing"),
        ("from,to,value\na,b,5\na,b,6\n", "line 3: latency from 'a' to 'b' was there before"),
        ("site,a,b,c\na,0,nan,9\nb,5,0,3\nc,9,3,0\n", "latency.csv line 2 is 'nan'; expected a number"),
        ("site,a,b,c\na,0,5\n", "line 2: 3 cells where the first line has 4"),
        ("", "latency.csv is empty"),
    ],
)
def test_what_is_wrong_with_a_matrix_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], matrix: str, reason: str
) -> None:
    assert main(["plan", written(tmp_path, matrix=matrix)]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('root = "a"', 'root = "z"', "root: there is no site 'z'"),
        ('root = "a"', 'route = "a"', "route: there is no such key; did you mean root?"),
        ('name = "c"', 'name = "b"', "site 'b' is there twice"),
        (
            'name = "c"',
            'title = "c"',
            "[site 3] title: there is no such key; known are name, clients, processing, parent",
        ),
        ('name = "c"\nparent = "a"', 'name = "c"\nparent = "c"', "make no tree"),
        ('name = "c"\nparent = "a"', 'name = "c"', "give all or none"),
        ('name = "c"', 'name = "c"\nwants = ["x"]', "whose rate is not in [streams]"),
        ('latency = "latency.csv"', "latency = [[0, 1], [1, 0]]", "3 rows of 3 numbers"),
        ('latency = "latency.csv"', 'latency = "none.csv"', "none.csv"),
        ('latency = "latency.csv"', "", "latency: is missing; it must be a file name or rows of numbers"),
        (
            'goal = "{goal}"',
            "",
            'goal: is missing; it must be a string such as "minimise ...", in the file or as --goal',
        ),
        ('goal = "{goal}"', 'goal = "minimise it"', "'it' is neither defined nor a metric"),
        ('root = "a"', "root = ", "Invalid value"),
    ],
)
def test_what_is_wrong_with_the_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    assert old in SITES
    assert main(["plan", written(tmp_path, SITES.replace(old, new))]) == 1
    assert reason in capsys.readouterr().err


def test_csv_files_alone_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latency, bandwidth = tmp_path / "latency.csv", tmp_path / "bandwidth.csv"
    latency.write_text("from,to,latency\na,b,5\na,c,9\nc,b,3\n")
    bandwidth.write_text("site,a,b,c\na,0,9,1\nb,9,0,5\nc,1,5,0\n")
    sites, streams = tmp_path / "sites.csv", tmp_path / "streams.csv"
    sites.write_text("name,clients,wants,parent\na,0,,\nb,2,quotes,a\nc,1,quotes news,a\n")
    streams.write_text("stream,rate\nquotes,10\nnews,3\n")
    wide = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"
    assert main(["plan", str(latency), "--goal", GOAL]) == 0
    assert capsys.readouterr().out.startswith("a\n└── b  5\n    └── c  8\n")
    assert main(["plan", str(latency), "--goal", wide, "--bandwidth", str(bandwidth), "--root", "c"]) == 0
    assert capsys.readouterr().out.startswith("c\n└── b  5\n    └── a  5\n")
    data = "minimise aggregate(SUM, superfluous data, BROKERS)"
    given = ["plan", str(latency), "--goal", data, "--sites", str(sites), "--streams", str(streams)]
    assert main(given) == 0
    assert "today: 0\nplanned: 0" in capsys.readouterr().out


def test_constraints_may_stand_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SITES.replace('root = "a"', 'root = "a"\nconstraints = ["fanout <= 1"]').replace(
        'parent = "a"', ""
    )
    file = written(tmp_path, text, goal=GOAL.replace("MAX", "AVERAGE"))
    assert main(["plan", file]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a\n└── b  5\n    └── c  8\n")
    assert "star" in out
    assert "breaks fanout <= 1: at a it is 2" in out


def test_a_move_that_makes_room_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, goal=GOAL + "; subject to fanout <= 1")
    assert main(["plan", file]) == 0
    assert "there it would break fanout <= 1: at a it is 2" in capsys.readouterr().out


def test_many_sites_are_drawn_in_rings_and_few_in_rows() -> None:
    for count in (20, 200):
        sites, costs = Sites(latency=[[0] * count] * count), [None, *[7] * (count - 1)]
        planned = DrawnTree("planned", "Planned: 7", star(count), costs, {1}, 7)
        drawn = tree_svg(sites, [planned], "a < b", TreePictureUnits(TreeUnits(), "ms"))
        circles = list(group(drawn, "planned").iter(f"{SVG}circle"))
        assert len(circles) == count
        assert len({each.attrib["cx"] for each in circles}) == (
            2 if count == 20 else pytest.approx(101, abs=2)
        )
        assert sum(each.attrib["class"] == "new" for each in group(drawn, "planned").iter(f"{SVG}path")) == 1


def test_a_constraint_that_cannot_be_met_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goal = GOAL + "; subject to fanout <= 2; subject to aggregate(SUM, link latency, PATH) <= 4"
    assert main(["plan", written(tmp_path, goal=goal)]) == 1
    error = capsys.readouterr().err
    assert "no tree can keep the constraint aggregate(SUM, link latency, PATH) <= 4" in error
    assert "for c at best it is 8, on the path a, b, c" in error


def test_the_example_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(Path(__file__).parents[2] / "examples" / "sites.toml")]) == 0
    out = capsys.readouterr().out
    assert "planned: 240, with 1 site under another parent" in out
    assert "breaks fanout <= 3: at frankfurt it is 9" in out
