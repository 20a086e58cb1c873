"""A folder of a user's XML files as a workload: the files are the events, paths are generated over them.

The structure of the files is collected into a document type for each root element (which child occurs below
which element, and which short values the leaves have), and paths are walks down those types, as for the types
of `xml_types`. Files are read one at a time and not kept: once to collect, and again when they become events.
A file that cannot be read or is not well-formed is rejected with the reason; the others are used.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from distributary.errors import DistributaryError, DocumentError, InputError
from distributary.filters.path.document import MAX_LENGTH, Document, parse_document
from distributary.model import Event
from distributary.quarantine import Rejection, rejection
from distributary.workloads import documents
from distributary.workloads.xml_types import DocumentType, ObservedElement

PATTERN = "**/*.xml"
MAX_BYTES = 4 * MAX_LENGTH
"""A character has at most four bytes, so a larger file is rejected unread."""

LONGEST_VALUE = 40
MOST_VALUES = 100
"""The longest value that paths compare with, and the most values kept for each leaf."""

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
BLANK = re.compile(r"\s")


def read_folder(directory: Path) -> Iterator[tuple[Event, Document] | Rejection]:
    """The files of a folder and its subfolders, in the order of their names, which become the event ids."""
    if not directory.is_dir():
        raise DistributaryError(f"{directory} is no folder; name one that holds XML files")
    for path in sorted(directory.glob(PATTERN)):
        if path.is_file():
            yield read_file(path, path.relative_to(directory).as_posix())


def read_file(path: Path, name: str) -> tuple[Event, Document] | Rejection:
    """A file as an event with that id and its parsed document, or its rejection."""
    text = ""
    try:
        text = _decoded(_bytes_of(path))
        return Event(name, document=text), parse_document(text)
    except InputError as error:
        return rejection(str(path), error, text)


class XmlFolder:
    """The workload of a folder: `types` are the collected document types, `rejected` the rejected files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rejected: list[Rejection] = []
        self._names: list[str] = []
        structures: dict[str, _Structure] = {}
        for read in read_folder(directory):
            if isinstance(read, Rejection):
                self.rejected.append(read)
                continue
            event, document = read
            self._names.append(event.id)
            structures.setdefault(document.labels[0], _Structure()).add(document)
        if not self._names:
            reason = f"; the first: {self.rejected[0]}" if self.rejected else ""
            raise DistributaryError(f"no document in {directory} (files are found by {PATTERN}){reason}")
        self.types = tuple(each.document_type(root) for root, each in structures.items())
        self.subscriptions = partial(documents.subscriptions, types=self.types, distinct=False)
        """Subscriptions over the files' types, with the options of `documents.subscriptions`."""

    def events(self, count: int, *, seed: int) -> Iterator[Event]:
        """`count` files in random order, or all when there are fewer."""
        names = list(self._names)
        Random(f"folder {seed}").shuffle(names)
        for name in names[:count]:
            read = read_file(self.directory / name, name)
            if isinstance(read, Rejection):
                self.rejected.append(read)
            else:
                yield read[0]


@dataclass
class _Structure:
    """The structure of the documents with one root element."""

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
            parent: " ".join(f"{child}?" for child in sorted(below, key=lambda child: child.startswith("@")))
            for parent, below in self.children.items()
        }
        inner = (label for label in content if label not in self.values)
        leaves = {label: ObservedElement(tuple(values)) for label, values in self.values.items()}
        return DocumentType(root, root, content, {**leaves, **dict.fromkeys(inner, ObservedElement())})


def _bytes_of(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DocumentError(f"has {size} bytes; at most {MAX_LENGTH} characters are read")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def _decoded(content: bytes) -> str:
    """Decode by the byte order mark, else by the XML declaration, else as UTF-8."""
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
