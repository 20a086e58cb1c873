"""Whether a full XPath (see `xpath`) selects anything in a document, decided exactly.

A path is followed from its beginning, step by step, as sets of nodes (see `numbered`). Whether a predicate's
path leads anywhere is worked out for all nodes at once, from its last step to its first, by the axes turned
round; so every step is looked at once, whatever the path, and takes a few passes over the nodes.

Positions: a step's list begins anew at every node that it begins from. On the child axis and its like each
node is in one list only, so its position is counted once. On the others the nodes that pass the test and the
predicates before are numbered once; each list is a stretch of that numbering, and a predicate that asks for a
range of positions cuts a stretch out of it (see `positions`).

Functions and calculations are worked out node by node (see `scalars`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from distributary.filters.connectives import And, Not, Or
from distributary.filters.path import scalars, xpath
from distributary.filters.path.document import Document
from distributary.filters.path.namespaces import XML_NAMESPACE
from distributary.filters.path.numbered import NodeSet, NumberedNodes, Numbers, numbered
from distributary.filters.path.pattern import RELATIONS, compares
from distributary.filters.path.positions import PositionLists, ranked
from distributary.filters.path.xpath import (
    Expression,
    XPath,
    XPathAxis,
    XPathCall,
    XPathLiteral,
    XPathOperation,
    XPathStep,
)

LANG = f"@Q{{{XML_NAMESPACE}}}lang"


def xpath_selects(path: XPath, document: Document) -> bool:
    """Whether the path selects at least one node of the document.

    >>> from distributary.filters.path.document import parse_document
    >>> second = XPathStep(XPathAxis.CHILD, "b", (XPathOperation("=", xpath.POSITION, XPathLiteral(2.0)),))
    >>> path = XPath(True, (xpath.EVERYWHERE, second))
    >>> xpath_selects(path, parse_document("<a><b/><b/></a>")), xpath_selects(path, parse_document("<b/>"))
    (True, False)
    """
    return bool(XPathEvaluation(numbered(document)).selected(path).any())


class XPathEvaluation:
    """Paths on the nodes of one document."""

    def __init__(self, nodes: NumberedNodes) -> None:
        self.nodes = nodes
        self.near: dict[int, dict[int, scalars.SharedNodes]] = {}
        self.shared: dict[int, scalars.SharedValues | None] = {}
        self._passing: dict[int, NodeSet] = {}
        self._passing_numbers: dict[int, Numbers] = {}
        self._absolute: dict[int, NodeSet] = {}
        self._leads: dict[tuple[int, tuple[str, str | float] | None], NodeSet] = {}

    @cached_property
    def languages(self) -> dict[int, str]:
        """By element: what `xml:lang` says there, in small letters."""
        document, of_node = self.nodes.document, self.nodes.of_node
        marked = document.nodes_by_label().get(LANG, [])
        return {int(of_node[document.parents[each]]): document.value(each).lower() for each in marked}

    def selected(self, path: XPath) -> NodeSet:
        """The nodes that an absolute path, or one that begins with a group, selects."""
        key = id(path)
        if key not in self._absolute:
            nodes = self.nodes.only(0)
            if path.group is not None:
                nodes = np.logical_or.reduce([self.selected(part) for part in path.group.paths])
                for predicate in path.group.predicates:
                    numbers = np.flatnonzero(nodes)
                    size = np.full(len(numbers), len(numbers))
                    nodes[numbers] = self.truths(predicate, numbers, np.arange(1, len(numbers) + 1), size)
            for step in path.steps:
                nodes = self._forwards(step, nodes)
            self._absolute[key] = nodes
        return self._absolute[key].copy()

    def passing(self, step: XPathStep) -> NodeSet:
        """The nodes that pass the test and the predicates of a step on an axis with `ONE_ORIGIN`."""
        key = id(step)
        if key not in self._passing:
            everywhere = self.nodes.along(step.axis, self.nodes.everything())
            self._passing[key] = self._filtered(step, everywhere & self._accepted(step))
        return self._passing[key]

    def passing_numbers(self, step: XPathStep) -> Numbers:
        """The same, as their numbers."""
        key = id(step)
        if key not in self._passing_numbers:
            self._passing_numbers[key] = np.flatnonzero(self.passing(step))
        return self._passing_numbers[key]

    def leads(self, path: XPath, node: int, comparison: tuple[str, str | float] | None = None) -> bool:
        """Whether a path leads from a node to one whose value compares so."""
        key = id(path), comparison
        if key not in self._leads:
            self._leads[key] = self._leading(path, comparison)
        return bool(self._leads[key][node])

    def truths(self, predicate: Expression, numbers: Numbers, position: Numbers, size: Numbers) -> NodeSet:
        """For each of these nodes, whether the predicate holds there at that position of so many."""
        match predicate:
            case And(parts) | Or(parts):
                all_of = isinstance(predicate, And)
                found = np.full(len(numbers), all_of)
                for part in parts:
                    rest = np.flatnonzero(found == all_of)
                    found[rest] = self.truths(part, numbers[rest], position[rest], size[rest])
                return found
            case Not(part):
                return ~self.truths(part, numbers, position, size)
            case XPath():
                return self._leading(predicate)[numbers]
            case XPathCall("boolean", (XPath() as path,)):
                return self._leading(path)[numbers]
            case XPathOperation(relation, XPath(_, (xpath.HERE,)), XPathLiteral(literal)) if (
                relation in RELATIONS
            ):
                return self._comparing(numbers, relation, literal)[numbers]
            case XPathOperation(relation, XPath() as path, XPathLiteral(literal)) if relation in RELATIONS:
                return self._leading(path, (relation, literal))[numbers]
            case XPathOperation(
                relation, XPathCall("position" | "last") as left, XPathLiteral(float(literal))
            ) if relation in RELATIONS:
                return np.asarray(RELATIONS[relation](position if left == xpath.POSITION else size, literal))
        rows = zip(numbers.tolist(), position.tolist(), size.tolist(), strict=True)
        return np.fromiter((scalars.truth(predicate, self, *row) for row in rows), np.bool_, len(numbers))

    def _leading(self, path: XPath, comparison: tuple[str, str | float] | None = None) -> NodeSet:
        """The nodes from which a path selects a node (whose value compares so)."""
        nodes = self.nodes
        if path.absolute:
            found = self.selected(path)
            if comparison is not None:
                found = self._comparing(np.flatnonzero(found), *comparison)
            return np.full(nodes.size, bool(found.any()))
        found = nodes.everything()
        if comparison is not None:
            last = path.steps[-1]
            found = self._comparing(np.flatnonzero(nodes.accepted(last.axis, last.test)), *comparison)
        for step in reversed(path.steps):
            found = self._backwards(step, found)
        return found

    def _comparing(self, numbers: Numbers, relation: str, literal: str | float) -> NodeSet:
        value = self.nodes.value
        found = np.zeros(self.nodes.size, np.bool_)
        found[numbers] = np.fromiter(
            (compares(value(number), relation, literal) for number in numbers.tolist()),
            np.bool_,
            len(numbers),
        )
        return found

    def _accepted(self, step: XPathStep) -> NodeSet:
        return self.nodes.accepted(step.axis, step.test)

    def _forwards(self, step: XPathStep, origins: NodeSet) -> NodeSet:
        """The nodes that a step leads to from these."""
        if _counts_afresh(step):
            lists, later = self._lists(step)
            return self._holding(later, lists.along(origins))
        return self._filtered(step, self.nodes.along(step.axis, origins) & self._accepted(step))

    def _backwards(self, step: XPathStep, targets: NodeSet) -> NodeSet:
        """The nodes from which a step leads to some of these."""
        if _counts_afresh(step):
            lists, later = self._lists(step)
            return lists.against(self._holding(later, targets))
        if any(map(xpath.depends_on_position, step.predicates)):
            return self.nodes.against(step.axis, targets & self.passing(step))
        return self.nodes.against(step.axis, self._filtered(step, targets & self._accepted(step)))

    def _lists(self, step: XPathStep) -> tuple[PositionLists, tuple[Expression, ...]]:
        """The lists of a step whose origins have lists of their own, and the predicates after the count."""
        place = next(at for at, each in enumerate(step.predicates) if xpath.depends_on_position(each))
        counted = self._holding(step.predicates[:place], self._accepted(step))
        lists = PositionLists(self.nodes, step.axis, counted, step.predicates[place])
        return lists, step.predicates[place + 1 :]

    def _filtered(self, step: XPathStep, nodes: NodeSet) -> NodeSet:
        """Those of the nodes for which the predicates of a step hold; each node is in one list."""
        for predicate in step.predicates:
            numbers = np.flatnonzero(nodes)
            position, size = np.ones(len(numbers), np.int64), np.ones(len(numbers), np.int64)
            if step.axis in (XPathAxis.CHILD, XPathAxis.ATTRIBUTE):
                position, size = ranked(self.nodes.parent[numbers])
            nodes = np.zeros(self.nodes.size, np.bool_)
            nodes[numbers] = self.truths(predicate, numbers, position, size)
        return nodes

    def _holding(self, predicates: tuple[Expression, ...], nodes: NodeSet) -> NodeSet:
        """Those of the nodes for which these predicates hold, none of which asks for a position."""
        for predicate in predicates:
            numbers = np.flatnonzero(nodes)
            none: Any = np.zeros(len(numbers), np.int64)
            nodes = np.zeros(self.nodes.size, np.bool_)
            nodes[numbers] = self.truths(predicate, numbers, none, none)
        return nodes


def _counts_afresh(step: XPathStep) -> bool:
    """Whether a step asks for positions on an axis where each origin has a list of its own."""
    return step.axis not in xpath.ONE_ORIGIN and any(map(xpath.depends_on_position, step.predicates))
