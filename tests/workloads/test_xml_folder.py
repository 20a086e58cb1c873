"""A folder of XML files as a workload: what is read, what is set aside, and paths over what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.quarantine import Rejection
from distributary.workloads.xml_folder import XmlFolder, read_folder

FEED = """<?xml version="1.0"?>
<rss version="2.0"><channel><title>It's news</title>
  <item><title>One</title><price>3.5</price></item>
  <item><title>Two</title></item>
</channel></rss>"""
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><entry xml:lang="en"><title>T</title></entry></feed>'
NESTED = "<list><item><list><item/></list></item></list>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "feed.xml").write_text(FEED)
    (tmp_path / "below" / "atom.xml").write_text(ATOM)
    (tmp_path / "nested.xml").write_text(NESTED)
    (tmp_path / "notes.txt").write_text("not <xml")
    return tmp_path


def test_files_are_events_named_after_them_in_order(folder: Path) -> None:
    read = [one for one in read_folder(folder) if not isinstance(one, Rejection)]
    assert [event.id for event, _ in read] == ["below/atom.xml", "feed.xml", "nested.xml"]
    assert read[1][0].document == FEED
    assert read[1][1].labels[0] == "rss"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<a><b></a>", "mismatched tag"),
        (b"", "no element found"),
        (b"<a>\xff</a>", "is not utf-8: byte 3"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "'klingon', which is not known"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares the entity 'b'"),
    ],
)
def test_a_bad_file_is_set_aside_with_the_reason_and_stops_nothing(
    folder: Path, content: bytes, reason: str
) -> None:
    (folder / "bad.xml").write_bytes(content)
    workload = XmlFolder(folder)
    (rejected,) = workload.rejected
    assert rejected.place == str(folder / "bad.xml")
    assert reason in rejected.reason
    assert len(list(workload.events(10, seed=1))) == 3


@pytest.mark.parametrize(
    "content",
    [
        "<a>ä</a>".encode("utf-8-sig"),
        "<a>ä</a>".encode("utf-16"),
        "<?xml version='1.0' encoding='ISO-8859-1'?><a>ä</a>".encode("latin-1"),
    ],
)
def test_the_encoding_is_the_one_the_file_declares(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.xml").write_bytes(content)
    (event,) = XmlFolder(tmp_path).events(1, seed=1)
    assert parse_document(event.document or "").value(0) == "ä"


def test_events_come_in_an_order_of_the_seed_and_no_more_than_there_are(folder: Path) -> None:
    workload = XmlFolder(folder)
    assert list(workload.events(2, seed=1)) == list(workload.events(2, seed=1))
    assert len(list(workload.events(2, seed=1))) == 2
    assert sorted(event.id for event in workload.events(9, seed=4)) == sorted(
        ["below/atom.xml", "feed.xml", "nested.xml"]
    )


def test_a_file_that_goes_bad_meanwhile_is_set_aside_then(folder: Path) -> None:
    workload = XmlFolder(folder)
    (folder / "feed.xml").unlink()
    assert len(list(workload.events(9, seed=1))) == 2
    assert [Path(one.place).name for one in workload.rejected] == ["feed.xml"]


def test_paths_are_filters_over_what_the_files_contain_and_some_select_them(folder: Path) -> None:
    workload = XmlFolder(folder)
    documents = [parse_document(event.document or "") for event in workload.events(9, seed=1)]
    filters = [PathFilter.parse(made.path) for made in workload.subscriptions(300, seed=2)]
    selected = [each for each in filters if any(selects(each, document) for document in documents)]
    assert len(selected) > 100
    texts = " ".join(each.text for each in filters)
    wanted = {"channel", "entry", "@version", "price", "2.0", "It's news"}
    assert {label for label in wanted if label in texts} == wanted


def test_plain_child_paths_over_one_file_select_it(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(FEED)
    style = {"wildcard": 0.0, "descendant": 0.0, "branching": 0.0, "connectives": 0.0, "valued": 0.0}
    tree = etree.ElementTree(etree.fromstring(FEED.encode()))
    for made in XmlFolder(tmp_path).subscriptions(50, seed=3, **style):  # type: ignore[arg-type]
        assert tree.xpath(made.path or "")


def test_a_folder_without_documents_is_an_error_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="no document in"):
        XmlFolder(tmp_path)
    (tmp_path / "bad.xml").write_text("<")
    with pytest.raises(DistributaryError, match=r"the first: .*bad\.xml"):
        XmlFolder(tmp_path)
    with pytest.raises(DistributaryError, match="is no folder"):
        XmlFolder(tmp_path / "missing")


def test_the_command_generates_from_a_folder_and_sets_bad_files_aside(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.xml").write_text("<a>")
    out = tmp_path_factory.mktemp("made")
    arguments = ["generate", "documents", "--folder", str(folder), "--out", str(out), "--set", "depth=2"]
    assert main([*arguments, "--subscriptions", "20"]) == 3
    assert len((out / "events.jsonl").read_text().splitlines()) == 3
    assert len((out / "subscriptions.jsonl").read_text().splitlines()) == 20
    assert "bad.xml" in (out / "quarantine.jsonl").read_text()
    assert main(["generate", "topics", "--folder", str(folder), "--out", str(out)]) == 1
    assert main(["generate", "topics", "--set", "depth=2", "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "goes with the workload documents" in told
    assert "this workload has levels=7" in told
