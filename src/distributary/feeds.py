"""Web feeds: RSS (2.0 and its relatives, 1.0 in RDF) and Atom documents, and their items as events.

Rules:

- No entity is expanded and nothing is fetched while a feed is read. A document that is malformed, or that is
  no feed, is refused with the reason; an item without title and text is set aside with its own, and the other
  items are read.
- What an item says is its *content*: title, author, categories and text. Its event's id is made of the feed
  and the content, so that the same content is the same event, whoever reads it, under whatever id the feed
  gives it; and an item that was changed is another event.
- An event's document is the item in RSS 2.0, also where the feed was Atom: one path serves both.

Cost: linear in the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from lxml import etree

from distributary.errors import DistributaryError, DocumentError, InputError
from distributary.model import Event, Value
from distributary.quarantine import Rejection, rejection

TOPIC = "feeds"
"""The first level of the topics of all items; the name of the feed follows."""
MAX_BYTES = 16 * 1024 * 1024
"""A longer document is refused unread."""

ENDINGS = (".xml", ".rss", ".atom")
"""Of files that are taken for feeds."""

FEEDS = ("rss", "RDF", "feed")
ITEMS = ("item", "entry")
DATES = ("pubDate", "published", "date", "updated")
"""Elements that say when an item was published, the best first."""
TEXTS = ("encoded", "content", "description", "summary")
"""Elements that hold its text, the fullest first."""


@dataclass(frozen=True, slots=True)
class FeedItem:
    """What a feed says of one item."""

    id: str
    """As the feed has it: its guid or id, else its link, else made of the content."""
    title: str
    author: str = ""
    categories: tuple[str, ...] = ()
    text: str = ""
    link: str = ""
    published: int | None = None
    """Seconds since 1970; None when the feed does not say, or not so that it can be read."""

    @property
    def content(self) -> str:
        """A digest of what the item says; links and dates may change without its saying anything new."""
        parts = (self.title, self.author, *self.categories, "", self.text)
        return sha256("\x00".join(parts).encode()).hexdigest()[:16]

    def event(self, feed: str) -> Event:
        """The item as an event of the feed of that name, whose levels are levels of the topic.

        >>> item = FeedItem("7", "Rain", author="Ines", categories=("weather", "sea"), published=60)
        >>> event = item.event("local/harbour")
        >>> event.topic, event.attributes["category"], event.attributes["published"]
        ('feeds/local/harbour', 'weather', 60)
        >>> event.document.splitlines()[0]
        '<rss version="2.0"><channel><title>local/harbour</title>'
        """
        document = write_feed(feed, [self])
        optional: dict[str, Value] = {
            "author": self.author,
            "category": self.categories[0] if self.categories else "",
            "link": self.link,
        }
        attributes: dict[str, Value] = {"feed": feed, "item": self.id, "title": self.title}
        attributes.update((name, value) for name, value in optional.items() if value)
        if self.published is not None:
            attributes["published"] = self.published
        attributes["bytes"] = len(document.encode())
        return Event(f"{feed}:{self.content}", f"{TOPIC}/{feed}", attributes, document)


@dataclass(frozen=True, slots=True)
class ReadFeed:
    """A feed's document as it was read."""

    title: str
    items: tuple[FeedItem, ...]
    """In the order of the document."""
    rejected: tuple[str, ...] = ()
    """Why items were set aside, each with its place in the document."""


def read_feed(document: str | bytes) -> ReadFeed:
    """Read a document, or raise `DocumentError`.

    >>> read_feed("<rss><channel><title>News</title><item><title>Rain</title></item><item/></channel></rss>")
    ReadFeed(title='News', items=(FeedItem(id='913a4553ffb12a93', title='Rain', author='', categories=(), \
text='', link='', published=None),), rejected=('item 2 has neither title nor text',))
    """
    root = _parsed(document)
    if _name(root) not in FEEDS:
        raise DocumentError(f"is no feed: its root is <{_name(root)}>, not <rss>, <feed> or <rdf:RDF>")
    channel = next((child for child in root if _name(child) == "channel"), root)
    items: list[FeedItem] = []
    rejected: list[str] = []
    for number, element in enumerate(_items(root), 1):
        item = _item(element)
        if item is None:
            rejected.append(f"item {number} has neither title nor text")
        else:
            items.append(item)
    title = next((_all_text(child) for child in channel if _name(child) == "title"), "")
    return ReadFeed(title, tuple(items), tuple(rejected))


def read_folder(folder: Path) -> tuple[dict[str, ReadFeed], list[Rejection]]:
    """The feeds in the files of a folder (.xml, .rss, .atom), by the files' names, and what is set aside.

    A file that cannot be read or is no feed is set aside, as is every item that cannot be read.
    """
    if not folder.is_dir():
        raise DistributaryError(f"{folder} is no folder; name one that holds feeds")
    found: dict[str, ReadFeed] = {}
    rejected: list[Rejection] = []
    for path in sorted(path for path in folder.iterdir() if path.suffix in ENDINGS):
        try:
            found[path.stem] = feed = read_feed(path.read_bytes())
        except OSError as error:
            unread = InputError(f"cannot be read: {error.strerror or error}")
            rejected.append(rejection(str(path), unread, ""))
        except InputError as error:
            rejected.append(rejection(str(path), error, ""))
        else:
            rejected.extend(Rejection(str(path), None, reason, "") for reason in feed.rejected)
    return found, rejected


def write_feed(title: str, items: Sequence[FeedItem]) -> str:
    """A document in RSS 2.0.

    >>> read_feed(write_feed("News", [FeedItem("7", "Rain & wind")])).items
    (FeedItem(id='7', title='Rain & wind', author='', categories=(), text='', link='', published=None),)
    """
    parts = [f'<rss version="2.0"><channel><title>{escape(title)}</title>']
    for item in items:
        parts.append("\n<item>")
        parts.extend(f"<{name}>{escape(value)}</{name}>" for name, value in _elements(item) if value)
        parts.append("</item>")
    parts.append("\n</channel></rss>")
    return "".join(parts)


def _elements(item: FeedItem) -> Iterator[tuple[str, str]]:
    yield "guid", item.id
    yield "title", item.title
    yield "link", item.link
    yield "author", item.author
    for category in item.categories:
        yield "category", category
    if item.published is not None:
        yield "pubDate", format_datetime(datetime.fromtimestamp(item.published, UTC), usegmt=True)
    yield "description", item.text


def _parsed(document: str | bytes) -> Any:
    content = document.encode() if isinstance(document, str) else document
    if len(content) > MAX_BYTES:
        raise DocumentError(f"has {len(content)} bytes; at most {MAX_BYTES} are read")
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        encoding="utf-8" if isinstance(document, str) else None,
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, LookupError, ValueError) as error:
        raise DocumentError(f"is no well-formed document: {error}") from None
    declared: Any = root.getroottree().docinfo.internalDTD
    if declared is not None and next(declared.iterentities(), None) is not None:
        raise DocumentError("declares entities, which are not expanded")
    return root


def _items(root: Any) -> Iterator[Any]:
    """In RSS 2.0 items are below the channel, in RSS 1.0 and Atom below the root."""
    for child in root:
        if _name(child) in ITEMS:
            yield child
        elif _name(child) == "channel":
            yield from (one for one in child if _name(one) in ITEMS)


def _item(element: Any) -> FeedItem | None:
    parts: dict[str, list[Any]] = {}
    for child in element:
        parts.setdefault(_name(child), []).append(child)
    title, text = _text(parts, "title"), _text(parts, *TEXTS)
    if not title and not text:
        return None
    link = _text(parts, "link") or next((one.get("href", "") for one in parts.get("link", ())), "")
    categories = parts.get("category", [])
    named = [_all_text(one) for one in [*categories, *parts.get("subject", ())]]
    item = FeedItem(
        _text(parts, "guid", "id") or link,
        title,
        _author(parts),
        tuple(dict.fromkeys(one for one in [*named, *(one.get("term", "") for one in categories)] if one)),
        text,
        link,
        _seconds(_text(parts, *DATES)),
    )
    return item if item.id else replace(item, id=item.content)


def _author(parts: Mapping[str, Sequence[Any]]) -> str:
    """Plain text in RSS, a name inside the element in Atom."""
    for one in [*parts.get("author", ()), *parts.get("creator", ())]:
        named = (child for child in one if _name(child) == "name")
        return _all_text(next(named, one))
    return ""


def _seconds(text: str) -> int | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _name(element: Any) -> str:
    """Without its namespace: feeds do not agree on those."""
    return str(element.tag).rpartition("}")[2]


def _text(parts: Mapping[str, Sequence[Any]], *names: str) -> str:
    """The text of the first of these that there is and says anything."""
    texts = (_all_text(one) for name in names for one in parts.get(name, ()))
    return next((text for text in texts if text), "")


def _all_text(element: Any) -> str:
    return "".join(element.itertext()).strip()
