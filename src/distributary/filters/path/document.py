"""XML documents, parsed once and safely: no network, no external entity, no bomb, no absurd depth.

A parsed document is flat: its nodes (elements and attributes) in document order, each with its label, its
parent and its *path class*. Two nodes have the same path class when the labels from the root down to them
are the same; a document of a thousand nodes usually has a few dozen classes, and a pattern without values
and branches is decided by the classes alone. Comments and processing instructions are no nodes, but they
end a text node, as XPath has it.

Rules:

- Expat reads the text in one pass and calls back for every tag, so each limit below is enforced before
  anything beyond it is stored. Time and memory are linear in the text, whatever it says.
- A document type declaration may describe elements and attributes, and nothing in it is ever fetched. One
  that declares entities or default values (anything that adds to what is written in the text) is refused
  at that declaration, so no expansion can even begin. `&lt;` and its like, and `&#38;`, work as ever.
- The text is a Python string: the encoding that its XML declaration names does not matter.
- Values are taken when asked for: `value` joins the text nodes below an element then, and not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from distributary.errors import DocumentError

MAX_LENGTH = 16 * 1024 * 1024
"""Characters of a document; a longer one is refused unread."""
MAX_DEPTH = 256
"""Elements inside one another."""
MAX_NODES = 500_000
"""Elements and attributes together."""
MAX_ATTRIBUTES = 1_000
"""Attributes of one element."""

ENTITY_REFERENCE = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)([^\s#&;<>]+);")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A parsed document, its nodes in document order (an element, then its attributes, then its children).

    >>> document = parse_document("<rss><item id='7'>One <b>two</b></item><item/></rss>")
    >>> [document.label(node) for node in range(len(document.classes))]
    ['rss', 'item', '@id', 'b', 'item']
    >>> document.labels, document.classes
    (['rss', 'item', '@id', 'b'], [0, 1, 2, 3, 1])
    >>> document.value(1), document.value(2)
    ('One two', '7')
    """

    labels: list[str]
    """`item`, `Q{uri}item`, `@name` or `@Q{uri}name`, by path class."""
    class_parents: list[int]
    """The path class of the parent, by path class; -1 for the root's. A parent comes before its children."""
    classes: list[int]
    """The path class, by node."""
    parents: list[int]
    """The parent node, by node; -1 for the root. An attribute's parent is the element that carries it."""
    texts: list[str]
    """The text nodes in document order, none of them empty."""
    text_starts: list[int]
    """By node: the first text node below an element; for an attribute, its place in `attribute_values`."""
    text_ends: list[int]
    """By node: one beyond the last text node below an element; -1 for an attribute."""
    attribute_values: list[str]
    """The attributes' values in document order."""
    _derived: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """How many nodes it has: elements and attributes."""
        return len(self.classes)

    def label(self, node: int) -> str:
        """The label of a node."""
        return self.labels[self.classes[node]]

    def value(self, node: int) -> str:
        """The node's string-value: an attribute's value, or all text below an element, joined."""
        start, end = self.text_starts[node], self.text_ends[node]
        if end < 0:
            return self.attribute_values[start]
        return self.texts[start] if end - start == 1 else "".join(self.texts[start:end])

    @property
    def text_parents(self) -> list[int]:
        """The element that each text node is a child of, by text node."""
        found: list[int] | None = self._derived.get("text_parents")
        if found is None:
            found = self._derived["text_parents"] = self._find_text_parents()
        return found

    def nodes_by_label(self) -> dict[str, list[int]]:
        """The nodes that carry each label, ascending."""
        found: dict[str, list[int]] | None = self._derived.get("nodes_by_label")
        if found is None:
            found = {label: [] for label in self.labels}
            by_class = [found[label] for label in self.labels]
            for node, path_class in enumerate(self.classes):
                by_class[path_class].append(node)
            self._derived["nodes_by_label"] = found
        return found

    def relationships(self) -> Iterator[tuple[str, str]]:
        """The (parent, child) labels of every path class but the root's, each pair once."""
        pairs = (
            (self.labels[parent], label)
            for parent, label in zip(self.class_parents, self.labels, strict=True)
            if parent >= 0
        )
        return iter(dict.fromkeys(pairs))

    def _find_text_parents(self) -> list[int]:
        """Close elements as document order leaves them: each owns what no element inside it has taken."""
        owners: list[int] = []
        open_nodes = [-1]

        def close(node: int) -> None:
            owners.extend([node] * (self.text_ends[node] - len(owners)))

        for node, parent in enumerate(self.parents):
            if self.text_ends[node] < 0:
                continue
            while open_nodes[-1] != parent:
                close(open_nodes.pop())
            owners.extend([parent] * (self.text_starts[node] - len(owners)))
            open_nodes.append(node)
        for node in reversed(open_nodes[1:]):
            close(node)
        return owners


def parse_document(text: str) -> Document:
    """Read a document, or raise `DocumentError` that says where it is malformed or why it is refused.

    >>> parse_document("<a></b>")
    Traceback (most recent call last):
    distributary.errors.DocumentError: document: mismatched tag (line 1, column 5) at position 5 of '<a></b>'
    """
    if len(text) > MAX_LENGTH:
        raise DocumentError(f"has {len(text)} characters; at most {MAX_LENGTH} are read", field="document")
    return _Reader(text).read()


class _Reader:
    """One pass of Expat over one text; its handlers fill the lists of a `Document`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.document = Document([], [], [], [], [], [], [], [])
        try:
            self.data = text.encode()
        except UnicodeEncodeError as error:
            reason = "half of a surrogate pair is no character"
            raise DocumentError(reason, field="document", text=text, position=error.start) from None
        parser = expat.ParserCreate("utf-8", "}")
        parser.ordered_attributes = True
        parser.buffer_text = True
        # One text node must arrive in one piece, however long it is.
        parser.buffer_size = max(len(self.data), 1024)
        parser.StartElementHandler, parser.EndElementHandler = self._element_handlers()
        parser.CharacterDataHandler = self.document.texts.append
        parser.CommentHandler = _end_text
        parser.ProcessingInstructionHandler = _end_text
        parser.EntityDeclHandler = self._refuse_entity
        parser.AttlistDeclHandler = self._refuse_default
        parser.NotStandaloneHandler = self._refuse_references
        self.parser: Any = parser

    def read(self) -> Document:
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "malformed")
            raise self._refusal(reason, error.lineno, error.offset, self.parser.ErrorByteIndex) from None
        finally:
            # The parser holds the handlers and they hold this reader: without the cycle nothing waits for
            # the garbage collector, however many documents are read.
            self.parser = None
        return self.document

    def _element_handlers(self) -> tuple[Any, Any]:
        """The two handlers that run for every tag; what they touch is local to keep them quick."""
        document = self.document
        labels, class_parents = document.labels, document.class_parents
        classes, parents = document.classes, document.parents
        texts, text_starts, text_ends = document.texts, document.text_starts, document.text_ends
        attribute_values = document.attribute_values
        below: list[dict[str, int]] = [{}]  # by path class + 1, so that -1 finds the document's
        depths = [0]
        open_nodes = [-1]
        open_classes = [-1]

        def new_class(parent_class: int, name: str, label: str) -> int:
            depth = depths[parent_class + 1] + 1
            if depth > MAX_DEPTH and label[0] != "@":
                self._refuse(f"elements are nested more than {MAX_DEPTH} deep")
            path_class = below[parent_class + 1][name] = len(labels)
            labels.append(label)
            class_parents.append(parent_class)
            below.append({})
            depths.append(depth)
            return path_class

        def start(name: str, attributes: list[str]) -> None:
            node = len(classes)
            if node >= MAX_NODES:
                self._refuse(f"more than {MAX_NODES} elements and attributes")
            parent_class = open_classes[-1]
            path_class = below[parent_class + 1].get(name)
            if path_class is None:
                path_class = new_class(parent_class, name, _label(name))
            classes.append(path_class)
            parents.append(open_nodes[-1])
            text_starts.append(len(texts))
            text_ends.append(-1)
            open_nodes.append(node)
            open_classes.append(path_class)
            if attributes:
                start_attributes(node, path_class, attributes)

        def start_attributes(node: int, path_class: int, attributes: list[str]) -> None:
            if len(attributes) > 2 * MAX_ATTRIBUTES:
                self._refuse(f"an element has more than {MAX_ATTRIBUTES} attributes")
            known = below[path_class + 1]
            for at in range(0, len(attributes), 2):
                name = "@" + attributes[at]
                attribute_class = known.get(name)
                if attribute_class is None:
                    attribute_class = new_class(path_class, name, "@" + _label(attributes[at]))
                classes.append(attribute_class)
                parents.append(node)
                text_starts.append(len(attribute_values))
                text_ends.append(-1)
                attribute_values.append(attributes[at + 1])

        def end(name: str) -> None:
            text_ends[open_nodes.pop()] = len(texts)
            open_classes.pop()

        return start, end

    def _refuse_entity(self, name: str, *_: object) -> None:
        self._refuse(
            f"declares the entity {name!r}; only the predefined ones and character references are read"
        )

    def _refuse_default(self, element: str, attribute: str, kind: str, default: str | None, _: int) -> None:
        if default is not None:
            self._refuse(
                f"declares a default value for {attribute!r} of {element!r}; write it where it applies"
            )

    def _refuse_references(self) -> int:
        """Declarations stand outside the text: Expat would silently drop a reference to one of them."""
        unknown = ENTITY_REFERENCE.search(self.text)
        if unknown is not None:
            raise DocumentError(
                f"refers to the entity {unknown[1]!r}, which is not declared in the document; what stands "
                "outside it is never fetched",
                field="document",
                text=self.text,
                position=unknown.start(),
            )
        return 1

    def _refuse(self, reason: str) -> None:
        parser = self.parser
        raise self._refusal(
            reason, parser.CurrentLineNumber, parser.CurrentColumnNumber, parser.CurrentByteIndex
        )

    def _refusal(self, reason: str, line: int, column: int, byte: int) -> DocumentError:
        return DocumentError(
            f"{reason} (line {line}, column {column})",
            field="document",
            text=self.text,
            position=len(self.data[:byte].decode(errors="ignore")),
        )


def _label(name: str) -> str:
    """Expat writes a name in a namespace as `uri}name`."""
    return "Q{" + name if "}" in name else name


def _end_text(*_: object) -> None:
    """Having a handler for it makes Expat hand over the text before it as a text node of its own."""
