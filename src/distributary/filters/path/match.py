"""Whether a tree pattern selects anything in a document, decided exactly.

The pattern is worked through from its last step to its first. For each step the document's nodes that accept
it, satisfy its predicates and lead on through the steps behind it are found as one set; their parents (or all
their ancestors) are then the nodes from which this step succeeds. Every step is looked at once, whatever the
pattern, so the time is at most the number of steps times the number of nodes, plus the values compared;
no order of `//` steps makes it search twice.

That is `Evaluation`, which does not know what the nodes are: here those of a document, in `cover` those of
another pattern. A path that says more than a pattern is asked (see `evaluate`) only where the pattern that
it implies is found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from distributary.filters.path import pattern
from distributary.filters.path.document import Document
from distributary.filters.path.evaluate import xpath_selects
from distributary.filters.path.pattern import And, Axis, Compares, Exists, LocationPath, Not, Or, Predicate


def path_selects(path: LocationPath, document: Document) -> bool:
    """Whether the path selects at least one node of the document.

    >>> from distributary.filters.path.document import parse_document
    >>> from distributary.filters.path.parse import parse_branches
    >>> (path,) = parse_branches("item[author]/title")
    >>> path_selects(path, parse_document("<rss><item><title/></item><item><author/></item></rss>"))
    False
    """
    if -1 not in _DocumentEvaluation(document).contexts(path):
        return False
    return path.exact is None or xpath_selects(path.exact, document)


class Evaluation(ABC):
    """Tree patterns on numbered nodes; a subclass says which nodes there are and how they hang together."""

    @abstractmethod
    def accepted(self, label: str) -> set[int]:
        """The nodes that a step with this label accepts."""

    @abstractmethod
    def above(self, axis: Axis, nodes: set[int]) -> set[int]:
        """The nodes from which a step on this axis leads to one of these."""

    @abstractmethod
    def comparing(self, comparison: Compares, nodes: set[int]) -> set[int]:
        """Those of the nodes whose own value compares so."""

    def contexts(self, path: LocationPath, comparison: Compares | None = None) -> set[int]:
        """The nodes from which the path (of at least one step) selects a node that compares so."""
        contexts: set[int] | None = None
        for step in reversed(path.steps):
            nodes = self.accepted(step.label)
            if contexts is not None:
                nodes &= contexts
            elif comparison is not None:
                nodes = self.comparing(comparison, nodes)
            for predicate in step.predicates:
                nodes = self.holding(predicate, nodes)
            contexts = self.above(step.axis, nodes)
            if not contexts:
                break
        return contexts or set()

    def holding(self, predicate: Predicate, nodes: set[int]) -> set[int]:
        """Those of the nodes for which the predicate holds."""
        match predicate:
            case Exists(path):
                return nodes & self.contexts(path)
            case Compares(path):
                if path.steps:
                    return nodes & self.contexts(path, predicate)
                return self.comparing(predicate, nodes)
            case Not(part):
                return nodes - self.holding(part, nodes)
            case And(parts):
                for part in parts:
                    nodes = self.holding(part, nodes)
                return nodes
            case Or(parts):
                found: set[int] = set()
                for part in parts:
                    found |= self.holding(part, nodes - found)
                return found


class _DocumentEvaluation(Evaluation):
    """On the nodes of a document; text nodes are numbered behind them, and -1 is the root's parent."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def accepted(self, label: str) -> set[int]:
        document = self.document
        if label == pattern.TEXT:
            return set(range(len(document), len(document) + len(document.texts)))
        by_label = document.nodes_by_label()
        if label in (pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE):
            return {node for each in by_label if pattern.accepts(label, each) for node in by_label[each]}
        return set(by_label.get(label, ()))

    def above(self, axis: Axis, nodes: set[int]) -> set[int]:
        parents, size = self.document.parents, len(self.document)
        owners = self.document.text_parents if nodes and max(nodes) >= size else []
        found = {parents[node] if node < size else owners[node - size] for node in nodes}
        if axis is Axis.CHILD:
            return found
        for node in tuple(found):
            while node >= 0 and (node := parents[node]) not in found:
                found.add(node)
        return found

    def comparing(self, comparison: Compares, nodes: set[int]) -> set[int]:
        document, size = self.document, len(self.document)
        operator, literal = comparison.operator, comparison.literal
        found = set()
        for node in nodes:
            value = document.value(node) if node < size else document.texts[node - size]
            if pattern.compares(value, operator, literal):
                found.add(node)
        return found
