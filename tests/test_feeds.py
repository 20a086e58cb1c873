"""Feeds are read whatever their format, items are told apart by what they say, and nothing bad is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError, DocumentError
from distributary.feeds import FeedItem, read_feed, read_folder, write_feed
from distributary.filters.path.filter import PathFilter

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Harbour</title>
<entry><id>urn:1</id><title type="html">Ferry &lt;late&gt;</title><link href="http://a.example/1"/>
<author><name>Ines</name></author><category term="sea"/><updated>2003-12-13T18:30:02Z</updated>
<summary>By an hour.</summary></entry></feed>"""

RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Harbour</title></channel>
<item rdf:about="x"><title>Ferry &lt;late&gt;</title><link>http://a.example/1</link><dc:creator>Ines</dc:creator>
<dc:subject>sea</dc:subject><description>By an hour.</description>
<dc:date>2003-12-13T18:30:02+00:00</dc:date></item>
</rdf:RDF>"""

ITEM = FeedItem(
    "urn:1", "Ferry <late>", "Ines", ("sea",), "By an hour.", "http://a.example/1", published=1071340202
)

texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc", "Cs"))).map(
    str.strip
)
items = st.builds(
    FeedItem,
    texts.filter(bool),
    texts.filter(bool),
    texts,
    st.lists(texts.filter(bool), unique=True, max_size=3).map(tuple),
    texts,
    texts,
    st.none() | st.integers(0, 4_000_000_000),
)


@given(texts, st.lists(items, max_size=4))
def test_what_was_written_is_read(title: str, written: list[FeedItem]) -> None:
    assert read_feed(write_feed(title, written)).items == tuple(written)
    assert read_feed(write_feed(title, written)).title == title


def test_rss_and_atom_say_the_same() -> None:
    assert read_feed(ATOM).items == (ITEM,)
    assert read_feed(ATOM.encode()).items == (ITEM,)
    assert read_feed(RDF).items == (replace(ITEM, id="http://a.example/1"),)
    assert read_feed(ATOM).title == read_feed(RDF).title == "Harbour"


def test_an_item_is_the_same_event_while_it_says_the_same() -> None:
    event = ITEM.event("local/harbour")
    for same in (replace(ITEM, id="other"), replace(ITEM, link="http://b"), replace(ITEM, published=5)):
        assert same.event("local/harbour").id == event.id
    for other in (
        replace(ITEM, title="Ferry"),
        replace(ITEM, author="Hadi"),
        replace(ITEM, categories=("sea", "late")),
        replace(ITEM, categories=(), text="sea\x00By an hour."),
        replace(ITEM, text="By two hours."),
    ):
        assert other.event("local/harbour").id != event.id
    assert ITEM.event("local/other").id != event.id


def test_an_atom_entry_is_found_by_paths_over_rss() -> None:
    event = read_feed(ATOM).items[0].event("local/harbour")
    assert PathFilter.parse("/rss/channel/item[author='Ines' and category='sea']/title").matches(event)
    assert event.attributes["published"] == 1071340202


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("<rss><channel>", "no well-formed document"),
        ("", "no well-formed document"),
        (b"\xff\xfe\x00", "no well-formed document"),
        ("<html><body/></html>", "is no feed: its root is <html>"),
        ("<!DOCTYPE rss [<!ENTITY a 'b'>]><rss><channel/></rss>", "declares entities"),
        (
            "<!DOCTYPE rss [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><rss><channel/></rss>",
            "declares entities",
        ),
        ("<rss><channel><item><title>a&nbsp;b</title></item></channel></rss>", "no well-formed document"),
        ("x" * (16 * 1024 * 1024 + 1), "at most 16777216 are read"),
    ],
)
def test_what_is_no_feed_is_refused(document: str | bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_feed(document)


def test_a_bad_item_does_not_cost_the_others() -> None:
    found = read_feed(
        "<rss><channel><item/><item><title>Rain</title><pubDate>soon</pubDate></item></channel></rss>"
    )
    assert found.rejected == ("item 1 has neither title nor text",)
    assert [(item.title, item.published) for item in found.items] == [("Rain", None)]


def test_of_a_folder_the_good_feeds_are_read_and_the_others_set_aside(tmp_path: Path) -> None:
    (tmp_path / "harbour.atom").write_text(ATOM)
    (tmp_path / "broken.xml").write_text("<rss>")
    (tmp_path / "gone.rss").symlink_to(tmp_path / "nowhere")
    (tmp_path / "half.rss").write_text(write_feed("half", [ITEM]).replace("<item>", "<item/><item>"))
    (tmp_path / "notes.txt").write_text("nothing")
    found, rejected = read_folder(tmp_path)
    assert {name: list(feed.items) for name, feed in found.items()} == {"harbour": [ITEM], "half": [ITEM]}
    reasons = {Path(one.place).name: one.reason for one in rejected}
    assert set(reasons) == {"broken.xml", "gone.rss", "half.rss"}
    assert "no well-formed document" in reasons["broken.xml"]
    assert reasons["gone.rss"] == "cannot be read: No such file or directory"
    assert reasons["half.rss"] == "item 1 has neither title nor text"
    with pytest.raises(DistributaryError, match="is no folder"):
        read_folder(tmp_path / "notes.txt")
