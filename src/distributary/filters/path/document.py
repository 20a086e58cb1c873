"""XML documents, parsed once and safely: no network, no external entity, no bomb, no absurd depth.

A parsed document is flat: its nodes (elements and attributes) in document order, each with its label, its
parent and its *path class*. Nodes of one path class have the same labels from the root down to them; a
document of a thousand nodes usually has a few dozen classes, and a pattern without values and branches is
decided by the classes alone. Comments and processing instructions stand aside: they end a text node, as XPath
has it, and only paths that ask for them look at them.

Rules:

- Expat reads the text in one pass and calls back for every tag, so each limit below is enforced before
  anything beyond it is stored. Time and memory are linear in the text, whatever it says. What Expat refuses
  because of a name of XML's fifth edition is read a second time (see `fifth_edition`).
- A document type declaration may describe elements and attributes, and nothing in it is ever fetched. One
  that declares entities or default values (anything that adds to what is written in the text) is refused
  at that declaration, so no expansion can even begin. `&lt;` and its like, and `&#38;`, work as ever. Where
  the declarations stand outside of the document, references to entities are read as far as their values are
  known (see `entities`), and others are refused.
- The text is a Python string: the encoding that its XML declaration names does not matter.
- Values are taken when asked for: `value` joins the text nodes below an element then, and not before.
- Whatever goes wrong while one document is read is a `DocumentError` of that document, memory that runs out
  included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn
from xml.parsers import expat

from distributary.errors import DocumentError
from distributary.filters.path.entities import entity_declarations, find_unknown_reference, known_entities
from distributary.filters.path.fifth_edition import stand_ins
from distributary.filters.path.namespaces import DECLARATION
from distributary.filters.path.path_classes import MAX_ATTRIBUTES as MAX_ATTRIBUTES
from distributary.filters.path.path_classes import MAX_DEPTH as MAX_DEPTH
from distributary.filters.path.path_classes import KnownClasses, without_declarations

MAX_LENGTH = 16 * 1024 * 1024
"""Characters of a document; a longer one is refused unread."""
MAX_NODES = 500_000
"""Elements and attributes together; and again comments and processing instructions together."""

_NAME_ERRORS = tuple(
    expat.errors.codes[message]
    for message in (expat.errors.XML_ERROR_INVALID_TOKEN, expat.errors.XML_ERROR_SYNTAX)
)
"""What Expat says of a name that it does not know."""


class Aside(NamedTuple):
    """A comment or a processing instruction."""

    target: str | None
    """What a processing instruction is for; None for a comment."""
    value: str
    parent: int
    """The element it stands in; -1 for the document."""
    node: int
    """How many nodes begin before it, and how many text nodes stand before it."""
    text: int


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
    prefixes: list[str]
    """The prefix that the nodes' names are written with, by path class; "" for none."""
    asides: list[Aside]
    """The comments and processing instructions in document order."""
    derived: dict[str, Any] = field(default_factory=dict, repr=False)
    """What has been worked out about it, by name."""

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
        found: list[int] | None = self.derived.get("text_parents")
        if found is None:
            found = self.derived["text_parents"] = self._find_text_parents()
        return found

    def nodes_by_label(self) -> dict[str, list[int]]:
        """The nodes that carry each label, ascending."""
        found: dict[str, list[int]] | None = self.derived.get("nodes_by_label")
        if found is None:
            found = {label: [] for label in self.labels}
            by_class = [found[label] for label in self.labels]
            for node, path_class in enumerate(self.classes):
                by_class[path_class].append(node)
            self.derived["nodes_by_label"] = found
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
    try:
        return _read(text)
    except DocumentError:
        raise
    except MemoryError:
        reason = "takes more memory than there is"
    except Exception as error:
        # One document must not stop the others, whatever it has found.
        reason = f"cannot be read: {type(error).__name__}: {error}"
    raise DocumentError(reason, field="document", text=text)


def _read(text: str) -> Document:
    reader = _Reader(text, text)
    try:
        return reader.read()
    except expat.ExpatError as error:
        refusal = reader.explained(error)
        chosen = stand_ins(text) if error.code in _NAME_ERRORS else {}
    if chosen is None:
        reason = "has too many different characters that names can have since XML 1.0's fifth edition"
        raise DocumentError(reason, field="document", text=text)
    if not chosen:
        raise refusal
    reader = _Reader(text, text.translate(chosen))
    try:
        return _renamed(reader.read(), {given: taken for taken, given in chosen.items()})
    except expat.ExpatError as error:
        raise reader.explained(error) from None


def _renamed(document: Document, characters: dict[int, int]) -> Document:
    """Replace these characters in all that was read, in place."""
    texts = (document.labels, document.texts, document.attribute_values, document.prefixes)
    for each in texts:
        each[:] = [text.translate(characters) for text in each]
    document.asides[:] = [
        aside._replace(
            target=None if aside.target is None else aside.target.translate(characters),
            value=aside.value.translate(characters),
        )
        for aside in document.asides
    ]
    return document


class _Reader:
    """One pass of Expat over one text; its handlers fill the lists of a `Document`.

    `given` is the text as it came, which errors show; `text` has the same length.
    """

    def __init__(self, given: str, text: str) -> None:
        self.given = given
        self.text = text
        self.document = Document([], [], [], [], [], [], [], [], [], [])
        try:
            self.data = text.encode()
        except UnicodeEncodeError as error:
            reason = "half of a surrogate pair is no character"
            raise DocumentError(reason, field="document", text=given, position=error.start) from None
        self.public_id: str | None = None
        self.declared_outside = False
        """Whether Expat passes over references to entities that it does not know."""
        self.in_declaration = False
        self.declaration_end = 0
        self.error_byte = 0
        self.open_nodes = [-1]
        parser = expat.ParserCreate("utf-8")
        parser.ordered_attributes = True
        parser.buffer_text = True
        # One text node must arrive in one piece, however long it is.
        parser.buffer_size = max(len(self.data), 1024)
        parser.StartElementHandler, parser.EndElementHandler = self._element_handlers()
        parser.CharacterDataHandler = self.document.texts.append
        parser.CommentHandler, parser.ProcessingInstructionHandler = self._aside_handlers()
        parser.StartDoctypeDeclHandler = self._begin_declaration
        parser.EndDoctypeDeclHandler = self._end_declaration
        parser.EntityDeclHandler = self._refuse_entity
        parser.AttlistDeclHandler = self._refuse_default
        parser.SkippedEntityHandler = self._skip_entity
        parser.NotStandaloneHandler = self._note_outside
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_UNLESS_STANDALONE)
        parser.ExternalEntityRefHandler = self._read_known_entities
        self.parser: Any = parser

    def read(self) -> Document:
        """The document; an `ExpatError`, which `explained` explains, when it is malformed."""
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError:
            self.error_byte = self.parser.ErrorByteIndex
            raise
        finally:
            # The parser holds the handlers and they hold this reader: without the cycle nothing waits for
            # the garbage collector, however many documents are read.
            self.parser = None
        if self.declared_outside:
            self._refuse_unknown_references()
        return self.document

    def explained(self, error: expat.ExpatError) -> DocumentError:
        """What Expat found wrong, and where."""
        reason = expat.errors.messages.get(error.code, "malformed")
        return self._refusal(reason, error.lineno, error.offset, self.error_byte)

    def _element_handlers(self) -> tuple[Any, Any]:
        """The two handlers that run for every tag; what they touch is local to keep them quick."""
        document, refuse = self.document, self._refuse
        classes, parents = document.classes, document.parents
        texts, text_starts, text_ends = document.texts, document.text_starts, document.text_ends
        attribute_values = document.attribute_values
        known = KnownClasses(document.labels, document.prefixes, document.class_parents, refuse)
        below, aliases = known.below, known.aliases
        open_nodes, open_classes = self.open_nodes, [-1]
        # As long as no more declarations can come, attributes need not be looked through for them.
        declarations_left = self.text.count(DECLARATION)

        def start(name: str, attributes: list[str]) -> None:
            nonlocal declarations_left
            node = len(classes)
            if node >= MAX_NODES:
                refuse(f"more than {MAX_NODES} elements and attributes")
            parent_class = open_classes[-1]
            if attributes and declarations_left:
                attributes, declared = without_declarations(attributes, refuse)
                declarations_left -= len(declared) // 2
                path_class = below[parent_class + 1].get((name, *declared) if declared else name)
                if path_class is None:
                    path_class = known.add_element(parent_class, name, declared)
            else:
                path_class = below[parent_class + 1].get(name)
                if path_class is None:
                    path_class = known.add_element(parent_class, name)
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
                refuse(f"an element has more than {MAX_ATTRIBUTES} attributes")
            here = below[path_class + 1]
            for at in range(0, len(attributes), 2):
                attribute_class = here.get("@" + attributes[at])
                if attribute_class is None:
                    attribute_class = known.add_attribute(path_class, attributes[at])
                classes.append(attribute_class)
                parents.append(node)
                text_starts.append(len(attribute_values))
                text_ends.append(-1)
                attribute_values.append(attributes[at + 1])
            if aliases and path_class in aliases:
                known.check_attributes(classes[node + 1 :])

        def end(name: str) -> None:
            text_ends[open_nodes.pop()] = len(texts)
            open_classes.pop()

        return start, end

    def _aside_handlers(self) -> tuple[Any, Any]:
        """The handlers of comments and processing instructions; those of a declaration are no nodes."""
        document, open_nodes = self.document, self.open_nodes
        asides, classes, texts = document.asides, document.classes, document.texts

        def add(target: str | None, value: str) -> None:
            if self.in_declaration:
                return
            if len(asides) >= MAX_NODES:
                self._refuse(f"more than {MAX_NODES} comments and processing instructions")
            asides.append(Aside(target, value, open_nodes[-1], len(classes), len(texts)))

        return lambda value: add(None, value), add

    def _begin_declaration(self, name: str, system_id: str | None, public_id: str | None, _: int) -> None:
        self.in_declaration = True
        self.public_id = public_id

    def _end_declaration(self) -> None:
        self.in_declaration = False
        self.declaration_end = self._position(self.parser.CurrentByteIndex)

    def _refuse_entity(self, name: str, *_: object) -> None:
        self._refuse(
            f"declares the entity {name!r}; only the predefined ones and character references are read"
        )

    def _refuse_default(self, element: str, attribute: str, kind: str, default: str | None, _: int) -> None:
        if default is not None:
            self._refuse(
                f"declares a default value for {attribute!r} of {element!r}; write it where it applies"
            )

    def _note_outside(self) -> int:
        self.declared_outside = True
        return 1

    def _skip_entity(self, name: str, is_parameter: int) -> None:
        if is_parameter:
            # After declarations that cannot be read, Expat takes no others: none is known any more.
            self.declared_outside = True
            self.public_id = None

    def _read_known_entities(self, context: str, *_: object) -> int:
        """What Expat calls for the declarations outside: those that everybody knows are read from here."""
        parser = self.parser.ExternalEntityParserCreate(context)
        parser.EntityDeclHandler = None
        parser.Parse(entity_declarations(self.public_id), True)
        return 1

    def _refuse_unknown_references(self) -> None:
        known = known_entities(self.public_id)
        unknown = find_unknown_reference(self.text, self.declaration_end, known)
        if unknown is not None:
            raise DocumentError(
                f"refers to the entity {self.given[slice(*unknown.span(1))]!r}, which the document does not "
                "declare; what stands outside is never fetched. Write the character, or its number (&#160;)",
                field="document",
                text=self.given,
                position=unknown.start(),
            )

    def _refuse(self, reason: str) -> NoReturn:
        parser = self.parser
        raise self._refusal(
            reason, parser.CurrentLineNumber, parser.CurrentColumnNumber, parser.CurrentByteIndex
        )

    def _refusal(self, reason: str, line: int, column: int, byte: int) -> DocumentError:
        return DocumentError(
            f"{reason} (line {line}, column {column})",
            field="document",
            text=self.given,
            position=self._position(byte),
        )

    def _position(self, byte: int) -> int:
        return len(self.data[:byte].decode(errors="ignore"))
