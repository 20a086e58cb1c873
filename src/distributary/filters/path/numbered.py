"""All nodes of a document, numbered in document order: what the axes of XPath are worked out on.

Node 0 is the document; elements, attributes, texts, comments and processing instructions follow, an element's
attributes right behind it. Everything below a node has the numbers up to its `end`. A set of nodes is an
array of truths, one for each node, and an axis maps sets to sets: each in a few passes over the arrays,
whatever the sets.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path import xpath
from distributary.filters.path.document import Document
from distributary.filters.path.xpath import XPathAxis

NodeSet = NDArray[np.bool_]
Numbers = NDArray[np.int64]

DOCUMENT, ELEMENT, ATTRIBUTE, TEXT, COMMENT, INSTRUCTION = range(6)
"""The kinds of nodes."""


class NumberedNodes:
    """The nodes of one document. Make it with `numbered`, which keeps it as long as the document lives."""

    def __init__(self, document: Document) -> None:
        self.document = document
        nodes, texts, asides = len(document), len(document.texts), document.asides
        starts, aside_nodes = _starts(document), np.array([each.node for each in asides], np.int64)
        aside_texts = np.array([each.text for each in asides], np.int64)
        own, text = np.arange(nodes), np.arange(texts)
        self.of_node: Numbers = 1 + own + starts + np.searchsorted(aside_nodes, own, "right")
        """The number of each node of the document (see `Document`), and of each text and aside."""
        self.of_text: Numbers = (
            1 + np.searchsorted(starts, text, "right") + text + np.searchsorted(aside_texts, text, "right")
        )
        self.of_aside: Numbers = 1 + aside_nodes + aside_texts + np.arange(len(asides))
        self.size = 1 + nodes + texts + len(asides)
        self.kind = np.zeros(self.size, np.int8)
        self.kind[self.of_node] = np.where(np.array(document.text_ends, np.int64) < 0, ATTRIBUTE, ELEMENT)
        self.kind[self.of_text] = TEXT
        self.kind[self.of_aside] = [COMMENT if each.target is None else INSTRUCTION for each in asides]
        self.place = np.zeros(self.size, np.int64)
        """By number: the place among the document's nodes, texts or asides."""
        for numbers in (self.of_node, self.of_text, self.of_aside):
            self.place[numbers] = np.arange(len(numbers))
        self.parent = self._parents()
        self.end = self._ends()
        self.is_attribute: NodeSet = self.kind == ATTRIBUTE

    def value(self, number: int) -> str:
        """The string-value of a node."""
        kind, place = self._one_by_one[number]
        document = self.document
        if kind in (ELEMENT, ATTRIBUTE):
            return document.value(place)
        if kind == TEXT:
            return document.texts[place]
        return "".join(document.texts) if kind == DOCUMENT else document.asides[place].value

    def label(self, number: int) -> tuple[str, str, str]:
        """The prefix, the namespace and the local name of a node; all empty where it has no name."""
        document = self.document
        kind, place = self._one_by_one[number]
        if kind in (ELEMENT, ATTRIBUTE):
            path_class = document.classes[place]
            uri, _, local = document.labels[path_class].removeprefix("@").removeprefix("Q{").rpartition("}")
            return document.prefixes[path_class], uri, local
        target = document.asides[place].target if kind == INSTRUCTION else None
        return "", "", target or ""

    def everything(self) -> NodeSet:
        """The set of all nodes."""
        return np.ones(self.size, np.bool_)

    def only(self, number: int) -> NodeSet:
        """The set of one node."""
        found = np.zeros(self.size, np.bool_)
        found[number] = True
        return found

    def accepted(self, axis: XPathAxis, test: str) -> NodeSet:
        """The nodes that pass a test on an axis, wherever they are."""
        document, kind = self.document, self.kind
        principal = ATTRIBUTE if axis is XPathAxis.ATTRIBUTE else ELEMENT
        simple = {xpath.TEXT: TEXT, xpath.COMMENT: COMMENT, xpath.INSTRUCTION: INSTRUCTION}
        if test == xpath.NODE:
            return self.everything()
        if test in simple:
            return np.equal(kind, simple[test])
        if test == xpath.ANY_NAME:
            return np.equal(kind, principal)
        found = np.zeros(self.size, np.bool_)
        if test.startswith("processing-instruction("):
            wanted = test[len("processing-instruction(") + 1 : -2]
            found[self.of_aside] = [each.target == wanted for each in document.asides]
            return found
        label = "@" + test if principal == ATTRIBUTE else test
        found[self.of_node[document.nodes_by_label().get(label, [])]] = True
        return found

    def along(self, axis: XPathAxis, nodes: NodeSet) -> NodeSet:
        """The nodes that an axis leads to from some of these."""
        match axis:
            case XPathAxis.CHILD:
                return self._below(nodes) & ~self.is_attribute
            case XPathAxis.ATTRIBUTE:
                return self._below(nodes) & self.is_attribute
            case XPathAxis.DESCENDANT:
                return self._within(nodes) & ~self.is_attribute
            case XPathAxis.DESCENDANT_OR_SELF:
                return (self._within(nodes) & ~self.is_attribute) | nodes
            case XPathAxis.SELF:
                return nodes
            case XPathAxis.PARENT:
                return self._above(nodes)
            case XPathAxis.ANCESTOR:
                return self._around(nodes)
            case XPathAxis.ANCESTOR_OR_SELF:
                return self._around(nodes) | nodes
            case XPathAxis.FOLLOWING:
                numbers = np.arange(self.size)
                first = self.end[nodes].min(initial=self.size)
                return self._plain(numbers >= first)
            case XPathAxis.PRECEDING:
                last = np.flatnonzero(nodes).max(initial=0)
                return self._plain(self.end <= last)
            case _:
                return self._siblings(nodes, axis is XPathAxis.FOLLOWING_SIBLING)

    def against(self, axis: XPathAxis, nodes: NodeSet) -> NodeSet:
        """The nodes from which an axis leads to some of these."""
        plain = nodes & ~self.is_attribute
        match axis:
            case XPathAxis.CHILD:
                return self._above(plain)
            case XPathAxis.ATTRIBUTE:
                return self._above(nodes & self.is_attribute)
            case XPathAxis.DESCENDANT:
                return self._around(plain)
            case XPathAxis.DESCENDANT_OR_SELF:
                return self._around(plain) | nodes
            case XPathAxis.SELF:
                return nodes
            case XPathAxis.PARENT:
                return self._below(nodes)
            case XPathAxis.ANCESTOR:
                return self._within(nodes)
            case XPathAxis.ANCESTOR_OR_SELF:
                return self._within(nodes) | nodes
            case XPathAxis.FOLLOWING:
                last = np.flatnonzero(plain).max(initial=-1)
                found: NodeSet = self.end <= last
                return found
            case XPathAxis.PRECEDING:
                first = self.end[plain].min(initial=self.size)
                behind: NodeSet = np.arange(self.size) >= first
                return behind
            case _:
                return self._siblings(plain, axis is XPathAxis.PRECEDING_SIBLING)

    def children(self, number: int) -> list[int]:
        """The children and attributes of a node, in document order."""
        order, low = self._children
        return order[low[number] : low[number + 1]]

    @cached_property
    def _children(self) -> tuple[list[int], list[int]]:
        order = np.argsort(self.parent[1:], kind="stable") + 1
        low = np.searchsorted(self.parent[order], np.arange(self.size + 1))
        return order.tolist(), low.tolist()

    @cached_property
    def _one_by_one(self) -> list[tuple[int, int]]:
        """By number: the kind and the place, for those who look at one node after another."""
        return list(zip(self.kind.tolist(), self.place.tolist(), strict=True))

    def _plain(self, nodes: NodeSet) -> NodeSet:
        return nodes & ~self.is_attribute

    def _below(self, nodes: NodeSet) -> NodeSet:
        found = nodes[self.parent]
        found[0] = False
        return found

    def _above(self, nodes: NodeSet) -> NodeSet:
        found = np.zeros(self.size, np.bool_)
        found[self.parent[np.flatnonzero(nodes[1:]) + 1]] = True
        return found

    def _within(self, nodes: NodeSet) -> NodeSet:
        """What is below some of the nodes, attributes too."""
        change = np.zeros(self.size + 1, np.int64)
        numbers = np.flatnonzero(nodes)
        change[numbers + 1] += 1
        np.subtract.at(change, self.end[numbers], 1)
        return np.cumsum(change)[:-1] > 0

    def _around(self, nodes: NodeSet) -> NodeSet:
        """What some of the nodes are below."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(nodes)])
        return before[self.end] > before[np.arange(1, self.size + 1)]

    def _siblings(self, nodes: NodeSet, following: bool) -> NodeSet:
        """The siblings that come after (or before) some of the nodes; attributes have none."""
        numbers = np.flatnonzero(nodes & ~self.is_attribute)
        numbers = numbers[numbers > 0]
        here = np.arange(self.size)
        if following:
            outermost = np.full(self.size, self.size)
            np.minimum.at(outermost, self.parent[numbers], numbers)
            found = here > outermost[self.parent]
        else:
            outermost = np.full(self.size, -1)
            np.maximum.at(outermost, self.parent[numbers], numbers)
            found = here < outermost[self.parent]
        found &= ~self.is_attribute
        found[0] = False
        return found

    def _parents(self) -> Numbers:
        """The parent of each node; 0 for those of the document, and for itself."""
        document = self.document
        shifted = np.concatenate([np.zeros(1, np.int64), self.of_node])  # so that -1 finds the document
        parent = np.zeros(self.size, np.int64)
        parent[self.of_node] = shifted[np.array(document.parents, np.int64) + 1]
        parent[self.of_text] = shifted[np.array(document.text_parents, np.int64) + 1]
        parent[self.of_aside] = shifted[np.array([each.parent for each in document.asides], np.int64) + 1]
        return parent

    def _ends(self) -> Numbers:
        parents, ends = self.parent.tolist(), list(range(1, self.size + 1))
        for number in range(self.size - 1, 0, -1):
            above = parents[number]
            if ends[number] > ends[above]:
                ends[above] = ends[number]
        return np.array(ends, np.int64)


def _starts(document: Document) -> Numbers:
    """By node: how many texts come before it; an attribute stands where its element does."""
    starts = np.array(document.text_starts, np.int64)
    attributes = np.flatnonzero(np.array(document.text_ends, np.int64) < 0)
    starts[attributes] = starts[np.array(document.parents, np.int64)[attributes]]
    return starts


def numbered(document: Document) -> NumberedNodes:
    """The numbered nodes of a document, made once."""
    kept: dict[str, Any] = document.derived
    found: NumberedNodes | None = kept.get("numbered")
    if found is None:
        found = kept["numbered"] = NumberedNodes(document)
    return found
