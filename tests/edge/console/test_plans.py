"""Plans that the console shows: those that `distributary plan` writes, and nothing else."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.edge.console.plans import (
    MOST_BYTES,
    MOST_PLANS,
    PlanFile,
    comparison_rows,
    listed,
    move_rows,
    read,
)

EXAMPLES = Path(__file__).parents[3] / "examples"
PLAN = {"goal": "g", "before": 2, "after": 1, "moves": [], "comparison": {}}


@pytest.mark.parametrize("name", ["sites", "queries_on_sites"])
def test_a_plan_of_trees_or_of_queries_is_shown_as_it_was_written(tmp_path: Path, name: str) -> None:
    written, drawn = tmp_path / f"{name}.json", tmp_path / f"{name}.svg"
    assert main(["plan", str(EXAMPLES / f"{name}.toml"), "--json", str(written), "--svg", str(drawn)]) == 0
    [file] = listed(tmp_path)
    shown, record = read(tmp_path, file), json.loads(written.read_text())
    assert shown.plan is not None, shown.heading
    kind, _, picture = shown.picture.partition(",")
    assert (kind, base64.b64decode(picture)) == ("data:image/svg+xml;base64", drawn.read_bytes())
    assert (shown.plan.before, shown.plan.after) == (record["before"], record["after"])
    thing = "site" if name == "sites" else "operator"
    assert [[row[key] for key in ("what", "from", "to", "why")] for row in move_rows(shown.plan)] == [
        [move[thing], move["from"] or "new", move["to"], move["reason"]] for move in record["moves"]
    ]
    rows = comparison_rows(shown.plan)
    assert [row["plan"] for row in rows] == ["before", "planned", *record["comparison"]]
    broken = [bool(other["broken"]) for other in record["comparison"].values()]
    assert [bool(row["breaks"]) for row in rows[2:]] == broken


def test_the_plan_that_was_written_last_comes_first(tmp_path: Path) -> None:
    for number in range(MOST_PLANS + 2):
        (tmp_path / f"p{number}.json").write_text(json.dumps(PLAN))
        os.utime(tmp_path / f"p{number}.json", (number, number))
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "other.txt").write_text("")
    found = listed(tmp_path)
    assert (found[0].name, len(found)) == (f"p{MOST_PLANS + 1}", MOST_PLANS)
    assert listed(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "Invalid JSON"),
        ("{}", "goal: Field required"),
        (json.dumps(PLAN | {"before": "much"}), "before: Input should be a valid number"),
        (json.dumps(PLAN | {"moves": [{"to": "b"}]}), "moves.0.reason: Field required"),
        (" " * (MOST_BYTES + 1), "more than"),
    ],
)
def test_what_is_no_plan_is_told_with_the_reason(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "p.json").write_text(content)
    shown = read(tmp_path, PlanFile("p", 0.0))
    assert (shown.plan, shown.picture) == (None, "")
    assert told in shown.heading


def test_a_plan_without_a_picture_is_shown_without_one(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(PLAN))
    shown = read(tmp_path, PlanFile("p", 0.0))
    assert shown.plan is not None
    assert shown.heading == "written 1970-01-01 00:00:00 UTC; no picture, p.svg: No such file or directory"
