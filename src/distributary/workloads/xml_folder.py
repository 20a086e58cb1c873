"""A folder of a user's own XML files as a workload: the files are the events, paths are made over them.

What the files contain is gathered into a document type for each root element (which child occurs below which
element, and which short values the leaves have), and paths are walks down those types, as for the types of
`xml_types`. Files are read one at a time and not kept, once to gather and once more when they become events.
A file that cannot be read or is no well-formed document is set aside with the reason, and stops nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from distributary.errors import DistributaryError, DocumentError, InputError
from distributary.filters.path.document import MAX_LENGTH, Document, parse_document
from distributary.model import Event, Subscription
from distributary.quarantine import Rejection, rejection
from distributary.workloads import documents
from distributary.workloads.xml_types import DocumentType, ObservedElement

PATTERN = "**/*.xml"
MAX_BYTES = 4 * MAX_LENGTH
"""A character has at most four bytes, so a longer file is refused unread."""

LONGEST_VALUE = 40
MOST_VALUES = 100
"""Values that paths may compare with are this short, and for each leaf there are no more of them."""

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
BLANK = re.compile(r"\s")


def read_folder(directory: Path, pattern: str = PATTERN) -> Iterator[tuple[Event, Document] | Rejection]:
    """The files of a folder and the folders in it, in the order of their names; their names are the ids."""
    for path in _files(directory, pattern):
        yield read_file(path, path.relative_to(directory).as_posix())


def read_file(path: Path, name: str) -> tuple[Event, Document] | Rejection:
    """A file as an event of that id, with its document parsed; or why it is set aside."""
    text = ""
    try:
        text = _decoded(_bytes_of(path))
        return Event(name, document=text), parse_document(text)
    except InputError as error:
        return rejection(str(path), error, text)


class XmlFolder:
    """The workload of a folder. `types` is what was gathered, `rejected` what was set aside."""

    def __init__(self, directory: Path, pattern: str = PATTERN) -> None:
        self.directory = directory
        self.rejected: list[Rejection] = []
        self._names: list[str] = []
        gathered: dict[str, _Gathered] = {}
        for read in read_folder(directory, pattern):
            if isinstance(read, Rejection):
                self.rejected.append(read)
                continue
            event, document = read
            self._names.append(event.id)
            gathered.setdefault(document.labels[0], _Gathered()).add(document)
        if not self._names:
            reason = f"; the first: {self.rejected[0]}" if self.rejected else ""
            raise DistributaryError(f"no document in {directory} (files are found by {pattern}){reason}")
        self.types = tuple(each.document_type(root) for root, each in gathered.items())

    def events(self, count: int, *, seed: int) -> Iterator[Event]:
        """So many of the files in random order, or all of them when there are no more."""
        names = list(self._names)
        Random(f"folder {seed}").shuffle(names)
        for name in names[:count]:
            read = read_file(self.directory / name, name)
            if isinstance(read, Rejection):
                self.rejected.append(read)
            else:
                yield read[0]

    def subscriptions(
        self,
        count: int,
        *,
        seed: int,
        depth: int = 6,
        wildcard: float = 0.1,
        descendant: float = 0.15,
        branching: float = 0.35,
        connectives: float = 0.3,
        valued: float = 0.7,
        distinct: bool = False,
    ) -> Iterator[Subscription]:
        """Subscriptions over the files' types, in a style (see `xml_paths.Style`)."""
        return documents.subscriptions(
            count,
            seed=seed,
            types=self.types,
            depth=depth,
            wildcard=wildcard,
            descendant=descendant,
            branching=branching,
            connectives=connectives,
            valued=valued,
            distinct=distinct,
        )


@dataclass
class _Gathered:
    """What documents of one root element contain."""

    children: dict[str, dict[str, None]] = field(default_factory=dict)
    values: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        for parent, child in document.relationships():
            # The grammar separates names by blanks, which a namespace may contain.
            if not BLANK.search(parent + child):
                self.children.setdefault(parent, {}).setdefault(child)
        inner = set(document.parents)
        for node in range(len(document)):
            if node not in inner:
                self._add_value(document.label(node), document.value(node))

    def _add_value(self, label: str, value: str) -> None:
        known = self.values.setdefault(label, {})
        fit = value.isprintable() and 0 < len(value) <= LONGEST_VALUE and not {"'", '"'} <= set(value)
        if fit and len(known) < MOST_VALUES:
            known.setdefault(value)

    def document_type(self, root: str) -> DocumentType:
        content = {
            parent: " ".join(f"{child}?" for child in sorted(below, key=_is_attribute))
            for parent, below in self.children.items()
        }
        inner = (label for label in content if label not in self.values)
        leaves = {label: ObservedElement(tuple(values)) for label, values in self.values.items()}
        return DocumentType(root, root, content, {**leaves, **dict.fromkeys(inner, ObservedElement())})


def _is_attribute(label: str) -> bool:
    return label.startswith("@")


def _files(directory: Path, pattern: str) -> list[Path]:
    if not directory.is_dir():
        raise DistributaryError(f"{directory} is no folder; name one that holds XML files")
    return sorted(path for path in directory.glob(pattern) if path.is_file())


def _bytes_of(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DocumentError(f"has {size} bytes; at most {MAX_LENGTH} characters are read")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def _decoded(content: bytes) -> str:
    """The text, by its byte order mark, else by its XML declaration, else in UTF-8."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), None)
    if encoding is None:
        declared = DECLARED.match(content[:200])
        encoding = declared[1].decode() if declared else "utf-8"
    try:
        return content.decode(encoding)
    except LookupError:
        raise DocumentError(f"declares the encoding {encoding!r}, which is not known") from None
    except UnicodeDecodeError as error:
        raise DocumentError(f"is not {encoding}: byte {error.start} is {error.reason}") from None
