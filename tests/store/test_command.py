"""`distributary subscriptions`: what it changes, prints and sets aside, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from distributary import Subscription, files
from distributary.cli.main import main
from distributary.store import open_store

RECORDS = [
    {
        "id": "s1",
        "subscriber": "ann",
        "topic": "quotes/NYSE/*",
        "where": "price > 8.3",
        "change": {"price": 0.05},
    },
    {"id": "s2", "subscriber": "bob", "path": "//item[author]"},
]


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def subscriptions(*arguments: str) -> int:
    return main(["subscriptions", "--store", "store", *arguments])


def lines(path: str, *records: Any) -> str:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def listed(capsys: pytest.CaptureFixture[str], *more: str) -> list[Any]:
    capsys.readouterr()
    assert subscriptions("list", "--json", *more) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_add_and_remove_make_versions_and_print_them(capsys: pytest.CaptureFixture[str]) -> None:
    first = ["add", "--id", "s1", "--subscriber", "ann", "--topic", "quotes/NYSE/*", "--where", "price > 8.3"]
    assert subscriptions(*first, "--change", "price=0.05") == 0
    assert subscriptions("add", "--id", "s2", "--subscriber", "bob", "--path", "//item[author]") == 0
    assert subscriptions("remove", "s1") == 0
    assert capsys.readouterr().out == "version 1\nversion 2\nversion 3\n"
    assert listed(capsys) == RECORDS[1:]
    assert listed(capsys, "--version", "2") == RECORDS
    assert listed(capsys, "--version", "2", "--subscriber", "ann") == RECORDS[:1]


def test_a_list_for_people_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    subscriptions("import", lines("subs.jsonl", *RECORDS))
    capsys.readouterr()
    assert subscriptions("list") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        's1\tann\ttopic quotes/NYSE/*, where price > 8.3, change {"price": 0.05}',
        "s2\tbob\tpath //item[author]",
    ]
    assert "2 subscriptions at version 1" in printed.err


def test_an_id_that_is_registered_is_replaced_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    again = ["add", "--id", "s1", "--subscriber", "cid", "--topic", "weather"]
    assert subscriptions(*again) == 0
    assert subscriptions(*again) == 1
    assert "'s1'" in capsys.readouterr().err
    assert subscriptions(*again, "--replace") == 0
    assert capsys.readouterr().out == "version 2\n"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_import_makes_one_commit_and_sets_the_rest_aside(
    ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"subs.{ending}"
    malformed = {"id": "s3", "subscriber": "ann", "where": "price >"}
    if ending == "jsonl":
        places = [f"{name}:2", f"{name}:4"]
        lines(name, RECORDS[0], malformed, RECORDS[1], RECORDS[0])
    else:
        places = [f"{name} row 1", f"{name} row 3"]
        first, second = map(Subscription.from_record, RECORDS)
        table = files.subscriptions_to_table([first, first, second, first])
        rows = table.to_pylist()
        rows[1] = dict.fromkeys(rows[0]) | malformed
        parquet.write_table(pa.Table.from_pylist(rows, table.schema), name)
    assert subscriptions("import", name) == 3
    printed = capsys.readouterr()
    assert printed.out == "version 1\n"
    assert "2 set aside" in printed.err
    aside = [json.loads(line) for line in Path("quarantine.jsonl").read_text().splitlines()]
    assert [(one["place"], one["field"]) for one in aside] == list(zip(places, ["where", "id"], strict=True))
    assert listed(capsys) == RECORDS


def test_what_is_registered_is_refused_by_an_import_or_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    subscriptions("import", lines("subs.jsonl", *RECORDS))
    changed = {**RECORDS[1], "subscriber": "cid"}
    new = {"id": "s3", "subscriber": "ann", "topic": "a"}
    assert subscriptions("import", lines("more.jsonl", changed, new), "--quarantine", "aside/bad.jsonl") == 3
    assert "more.jsonl:1" in Path("aside/bad.jsonl").read_text()
    assert listed(capsys) == [*RECORDS, new]
    assert subscriptions("import", "more.jsonl", "--replace") == 0
    assert listed(capsys) == [RECORDS[0], changed, new]


@pytest.mark.parametrize("bad", [{"id": "s3"}, {"id": "s3", "subscriber": "a", "topic": "a//b"}, RECORDS[0]])
def test_a_strict_import_changes_nothing_when_one_is_malformed(
    bad: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions("import", lines("subs.jsonl", RECORDS[0]))
    assert subscriptions("import", lines("more.jsonl", RECORDS[1], bad), "--strict") == 4
    assert "more.jsonl:2" in capsys.readouterr().err
    assert listed(capsys) == RECORDS[:1]


@pytest.mark.parametrize("action", [["list"], ["remove", "s1"], ["compact"]])
def test_a_store_that_is_not_there_is_neither_read_nor_made(
    action: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert subscriptions(*action) == 1
    assert "no subscription store" in capsys.readouterr().err
    assert not Path("store").exists()


def test_wrong_arguments_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("price", "=1", "price=much"):
        with pytest.raises(SystemExit) as stopped:
            subscriptions("add", "--id", "s1", "--subscriber", "ann", "--change", wrong)
        assert stopped.value.code == 2
        assert "NAME=NUMBER" in capsys.readouterr().err
    assert subscriptions("add", "--id", "s1", "--subscriber", "ann") == 1
    assert "no filter" in capsys.readouterr().err
    assert subscriptions("remove", "s1") == 1


def test_a_database_is_a_store_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/subs.db"
    command = ["subscriptions", "--store", url, "--workspace", str(tmp_path / "workspace")]
    assert main([*command, "import", lines("subs.jsonl", *RECORDS)]) == 0
    assert main([*command, "compact"]) == 0
    assert capsys.readouterr().out == "version 1\nversion 1\n"
    store = open_store(url, workspace=tmp_path / "workspace")
    assert [one.to_record() for _, one in store.subscriptions()] == RECORDS
    assert list((tmp_path / "workspace").rglob("*.arrow"))
    store.close()


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("mysql://host/name", "PostgreSQL or SQLite"),
        ("sqlite://", "needs a file"),
        ("postgresql+nodriver://host/name", "nodriver"),
        ("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=2", "127.0.0.1"),
        ("://", "URL"),
    ],
)
def test_a_database_that_cannot_be_used_is_an_error_that_says_why(
    location: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["subscriptions", "--store", location, "list"]) == 1
    assert told in capsys.readouterr().err


def test_a_directory_of_something_else_is_not_made_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    Path("store").mkdir()
    lines("store/precious.jsonl", *RECORDS)
    assert subscriptions("import", "store/precious.jsonl") == 1
    assert "precious.jsonl" in capsys.readouterr().err
    assert [path.name for path in Path("store").iterdir()] == ["precious.jsonl"]


def test_check_tells_what_is_damaged_and_repair_goes_on_with_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in (1, 2, 3):
        subscriptions("add", "--id", f"s{number}", "--subscriber", "ann", "--topic", f"a/{number}")
    assert subscriptions("check") == 0
    assert (
        "nothing is damaged; what is registered at the newest version, 3, is whole" in capsys.readouterr().err
    )
    log = Path("store", "log", f"{2:020d}.arrow")
    log.write_bytes(log.read_bytes()[:-1])
    assert subscriptions("list") == 1
    told = capsys.readouterr().err
    assert "what version 2 changed is lost, and with it what was registered at versions 2 to 3" in told
    assert subscriptions("check") == 1
    told = capsys.readouterr().err
    assert "lost: what version 2 changed" in told
    assert "what is registered is certain up to version 1 of 3" in told
    assert subscriptions("repair") == 0
    assert "repaired:" in capsys.readouterr().err
    assert subscriptions("check") == 0
    assert [record["id"] for record in listed(capsys)] == ["s1", "s3"]
    assert subscriptions("repair") == 0
    assert "nothing was damaged" in capsys.readouterr().err
