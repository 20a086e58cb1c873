"""Whether a tree pattern selects anything in a document, decided exactly.

The pattern is worked through from its last step to its first. For each step the document's nodes that accept
it, satisfy its predicates and lead on through the steps behind it are found as one set; their parents (or all
their ancestors) are then the nodes from which this step succeeds. Every step is looked at once, whatever the
pattern, so the time is at most the number of steps times the number of nodes, plus the values compared;
no order of `//` steps makes it search twice.

Text nodes are numbered behind the document's nodes; the document itself is -1, the root element's parent.
"""

from __future__ import annotations

from collections.abc import Iterable

from distributary.filters.path.document import Document
from distributary.filters.path.pattern import (
    ANY_ATTRIBUTE,
    ANY_ELEMENT,
    TEXT,
    And,
    Axis,
    Compares,
    Exists,
    LocationPath,
    Not,
    Or,
    PathStep,
    Predicate,
    accepts,
    compares,
)


def path_selects(path: LocationPath, document: Document) -> bool:
    """Whether the path selects at least one node of the document.

    >>> from distributary.filters.path.document import parse_document
    >>> from distributary.filters.path.parse import parse_branches
    >>> (path,) = parse_branches("item[author]/title")
    >>> path_selects(path, parse_document("<rss><item><title/></item><item><author/></item></rss>"))
    False
    """
    return -1 in _contexts(path, document)


def satisfies(predicate: Predicate, document: Document, nodes: Iterable[int]) -> set[int]:
    """Those of the nodes for which the predicate holds."""
    return _holding(predicate, document, set(nodes))


def _contexts(path: LocationPath, document: Document, condition: Compares | None = None) -> set[int]:
    """The nodes from which the path (of at least one step) selects a node that meets the condition."""
    contexts: set[int] | None = None
    for step in reversed(path.steps):
        nodes = _accepted(step, document)
        if contexts is not None:
            nodes &= contexts
        elif condition is not None:
            nodes = _comparing(condition, document, nodes)
        for predicate in step.predicates:
            nodes = _holding(predicate, document, nodes)
        contexts = _above(step.axis, document, nodes)
        if not contexts:
            break
    return contexts or set()


def _accepted(step: PathStep, document: Document) -> set[int]:
    if step.label == TEXT:
        return set(range(len(document), len(document) + len(document.texts)))
    by_label = document.nodes_by_label()
    if step.label in (ANY_ELEMENT, ANY_ATTRIBUTE):
        return {node for label, nodes in by_label.items() if accepts(step.label, label) for node in nodes}
    return set(by_label.get(step.label, ()))


def _above(axis: Axis, document: Document, nodes: set[int]) -> set[int]:
    parents, size = document.parents, len(document)
    owners = document.text_parents if nodes and max(nodes) >= size else []
    found = {parents[node] if node < size else owners[node - size] for node in nodes}
    if axis is Axis.CHILD:
        return found
    for node in tuple(found):
        while node >= 0 and (node := parents[node]) not in found:
            found.add(node)
    return found


def _holding(predicate: Predicate, document: Document, nodes: set[int]) -> set[int]:
    match predicate:
        case Exists(path):
            return nodes & _contexts(path, document) if path.steps else nodes
        case Compares(path):
            if path.steps:
                return nodes & _contexts(path, document, predicate)
            return _comparing(predicate, document, nodes)
        case Not(part):
            return nodes - _holding(part, document, nodes)
        case And(parts):
            for part in parts:
                nodes = _holding(part, document, nodes)
            return nodes
        case Or(parts):
            found: set[int] = set()
            for part in parts:
                found |= _holding(part, document, nodes - found)
            return found


def _comparing(condition: Compares, document: Document, nodes: set[int]) -> set[int]:
    size = len(document)
    return {
        node
        for node in nodes
        if compares(
            document.value(node) if node < size else document.texts[node - size],
            condition.operator,
            condition.literal,
        )
    }
