"""Subscriptions from CSV: every field, tolerances in two forms, and what is wrong told with its line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.files import read_subscriptions
from distributary.model import Subscription
from distributary.quarantine import Rejection
from distributary.store import open_store

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
CELLS = st.text(st.sampled_from("ab,;\"'\n \t=é"), max_size=12)


def read(tmp_path: Path, text: str | bytes) -> list[Subscription | Rejection]:
    place = tmp_path / "wishes.csv"
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return [one if isinstance(one, Rejection) else one[1] for one in read_subscriptions(str(place))]


def test_all_fields_come_from_csv_and_empty_cells_are_absent(tmp_path: Path) -> None:
    text = """id,subscriber,topic,where,path,change
s1,ann,quotes/NYSE/*,"price > 8.3",,
s2,bob,,"name = 'O''Neill' and city in ('a', 'b')",,price=0.05;volume=100
s3,cy,A,,//item[author],"{""price"": 0.5}"

s4,dan,B
"""
    assert read(tmp_path, text) == [
        Subscription("s1", "ann", topic="quotes/NYSE/*", where="price > 8.3"),
        Subscription(
            "s2",
            "bob",
            where="name = 'O''Neill' and city in ('a', 'b')",
            change={"price": 0.05, "volume": 100.0},
        ),
        Subscription("s3", "cy", topic="A", path="//item[author]", change={"price": 0.5}),
        Subscription("s4", "dan", topic="B"),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_first_line_says_what_separates(tmp_path: Path, separator: str) -> None:
    rows = [["subscriber", "id", "topic"], ["ann", "s1", "A/B"]]
    text = "\ufeff" + "\r\n".join(separator.join(row) for row in rows)
    assert read(tmp_path, text) == [Subscription("s1", "ann", topic="A/B")]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("id,subscriber,tpoic", "'tpoic' is no field of a subscription; did you mean topic"),
        ("id,subscriber,topic,topic", "names 'topic' twice"),
        ("id,topic", "subscriber is missing"),
        ("", "'' is no field|is missing"),
        ("s1,ann,A", "'s1' is no field"),
    ],
)
def test_a_first_line_that_names_no_fields_is_refused(tmp_path: Path, head: str, told: str) -> None:
    with pytest.raises(DistributaryError, match=told):
        read(tmp_path, f"{head}\ns1,ann,A\n")


def test_what_is_wrong_is_set_aside_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [
        b"id,subscriber,topic,change",
        b"s1,ann,A,price",
        b"s2,ann,A,price=much",
        b's3,ann,"A',
        b'B",1',
        b"s4,ann,A,,,,",
        b"s5,\xff,A,",
        b"s6,ann,,",
        b's7,"a"b,A,',
        b"s8,ann,A,price=-1",
        b"s9,ann,A,price=1;price=2",
        b"s10,ann,C,price=1",
    ]
    *wrong, last = read(tmp_path, b"\n".join(lines))
    assert last == Subscription("s10", "ann", topic="C", change={"price": 1.0})
    assert all(isinstance(one, Rejection) for one in wrong)
    told = {
        one.place.rpartition(":")[2]: (one.field, one.reason) for one in wrong if isinstance(one, Rejection)
    }
    assert list(told) == ["2", "3", "4", "6", "7", "8", "9", "10", "11"]
    assert told["2"] == ("change", "'price' is no tolerance; write price=0.05, or {\"price\": 0.05}")
    assert told["3"][0] == "change"
    assert told["6"] == (None, "has 7 cells where the first line has 4")
    assert told["7"] == ("subscriber", "is not UTF-8")
    assert "is no CSV" in told["9"][1]
    assert told["11"] == ("change", "names 'price' twice; keep one of them")


@given(
    st.lists(
        st.tuples(TEXTS, TEXTS, st.dictionaries(TEXTS, st.floats(0, 1e9), min_size=1, max_size=2)),
        unique_by=lambda row: row[0],
    )
)
def test_what_a_writer_of_csv_writes_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, dict[str, float]]]
) -> None:
    place = tmp_path_factory.mktemp("csv")
    with (place / "given.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "subscriber", "topic", "change"])
        writer.writerows([id, subscriber, "A", json.dumps(change)] for id, subscriber, change in rows)
    assert read(place, (place / "given.csv").read_bytes()) == [
        Subscription(id, subscriber, topic="A", change=change) for id, subscriber, change in rows
    ]


@given(st.lists(st.lists(CELLS, max_size=5), max_size=5))
def test_any_text_is_subscriptions_or_rejections(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    text = "id,subscriber,topic,change\n" + "\n".join(",".join(row) for row in rows)
    read(tmp_path_factory.mktemp("csv"), text)


def test_import_takes_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wishes.csv").write_text("id,subscriber,topic,change\ns1,ann,A,price=0.5\ns2,bob,,\n")
    store, aside = str(tmp_path / "store"), str(tmp_path / "aside.jsonl")
    given = ["subscriptions", "--store", store, "import", str(tmp_path / "wishes.csv"), "--quarantine", aside]
    assert main(given) == 3
    assert "wishes.csv:3" in capsys.readouterr().err
    kept = [one for _, one in open_store(store).subscriptions(1)]
    assert kept == [Subscription("s1", "ann", topic="A", change={"price": 0.5})]
