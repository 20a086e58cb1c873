"""Functions and calculations of XPath 1.0, worked out for one node at a time.

The paths in them are *near* (see `read_xpath`): what they select is found from the node in as many steps as
there are nodes selected, so that all nodes of a document together take time in proportion to its size, times
its depth for the texts that are looked at (and again, where a comparison has a path downwards on both sides).

What many nodes share is worked out once. An absolute path selects the same for every node, and one that
begins with `..` the same for all nodes with that parent: what it selects is remembered, with what comparisons
need of the values (`SharedNodes`). So is the value of a function or calculation in which all paths are of
these kinds, for each combination of what they select. And no function goes through a text that nodes share
because of one that they do not share: `read_xpath` refuses those.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import ceil, floor, inf, isfinite, isnan
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from distributary.filters.connectives import And, Not, Or
from distributary.filters.path import xpath
from distributary.filters.path.literals import literal_text, number
from distributary.filters.path.numbered import NodeSet, NumberedNodes, Numbers
from distributary.filters.path.pattern import RELATIONS
from distributary.filters.path.xpath import (
    Expression,
    XPath,
    XPathAxis,
    XPathCall,
    XPathLiteral,
    XPathOperation,
    XPathStep,
)

Scalar = str | float | bool
XML_SPACE = " \t\r\n"


class XPathSurroundings(Protocol):
    """What the evaluation of paths offers: see `evaluate.XPathEvaluation`."""

    nodes: NumberedNodes
    near: dict[int, dict[int, SharedNodes]]
    """By path: what it has selected from nodes above; from the document, where it is absolute."""
    shared: dict[int, SharedValues | None]
    """By function or calculation: its values that nodes share; None where each node has its own."""

    @property
    def languages(self) -> dict[int, str]:
        """By element: what `xml:lang` says there, in small letters."""

    def selected(self, path: XPath) -> NodeSet:
        """The nodes that an absolute path selects."""

    def passing(self, step: XPathStep) -> NodeSet:
        """The nodes that pass a step."""

    def passing_numbers(self, step: XPathStep) -> Numbers:
        """The same, as their numbers."""

    def leads(self, path: XPath, node: int, comparison: tuple[str, str | float] | None = None) -> bool:
        """Whether a path leads from a node to one whose value compares so."""


class SharedText(str):
    """A text that many nodes look at; what it is as a number is found once."""

    @cached_property
    def number(self) -> float:
        """By the rules of XPath."""
        return number(self)


class SharedNodes(list[int]):
    """What a path selects from many nodes alike, and what comparisons need of the values, found once."""

    def __init__(self, selected: Iterable[int], nodes: NumberedNodes) -> None:
        super().__init__(selected)
        self._nodes = nodes

    @cached_property
    def texts(self) -> frozenset[str]:
        """Their values."""
        return frozenset(map(self._nodes.value, self))

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Those of the values that are numbers."""
        return frozenset(each for each in map(number, self.texts) if not isnan(each))

    @cached_property
    def all_numbers(self) -> bool:
        """Whether every value is a number."""
        return not any(isnan(number(each)) for each in self.texts)

    @cached_property
    def least(self) -> float:
        """The least number, of which there is one."""
        return min(self.numbers)

    @cached_property
    def greatest(self) -> float:
        """The greatest number, of which there is one."""
        return max(self.numbers)

    @cached_property
    def first_text(self) -> SharedText:
        """The value of the first of them, which is their value as a string; empty where there is none."""
        return SharedText(self._nodes.value(self[0]) if self else "")

    def compares(self, relation: str, other: str | float) -> bool:
        """Whether the value of one of them compares so with another."""
        if relation in ("=", "!=") and isinstance(other, str):
            found = other in self.texts
            return found if relation == "=" else len(self.texts) > found
        bound = _number_of(other)
        if relation == "!=":
            differs = isnan(bound) or not self.all_numbers or len(self.numbers) > (bound in self.numbers)
            return bool(self) and differs
        if relation == "=" or not self.numbers:
            return bound in self.numbers and not isnan(bound)
        return bool(RELATIONS[relation](self.least if relation[0] == "<" else self.greatest, bound))

    def compares_with(self, relation: str, others: SharedNodes) -> bool:
        """Whether the value of one of them compares so with that of one of the others."""
        if relation == "=":
            return not self.texts.isdisjoint(others.texts)
        if relation == "!=":
            return bool(self and others) and (len(self.texts) > 1 or self.texts != others.texts)
        if not others.numbers:
            return False
        return self.compares(relation, others.greatest if relation[0] == "<" else others.least)


class SharedValues(NamedTuple):
    """The values of a function or calculation, by what each of its paths selects."""

    paths: tuple[XPath, ...]
    values: dict[tuple[int, ...], Scalar | list[int]]


NO_NODES: Final[list[int]] = []

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def truth(expression: Expression, around: XPathSurroundings, node: int, position: int, size: int) -> bool:
    """Whether an expression holds for a node, at that position of so many."""
    match expression:
        case And(parts):
            return all(truth(part, around, node, position, size) for part in parts)
        case Or(parts):
            return any(truth(part, around, node, position, size) for part in parts)
        case Not(part):
            return not truth(part, around, node, position, size)
        case XPath():
            return around.leads(expression, node)
        case XPathOperation(relation, XPath() as path, XPathLiteral(literal)) if relation in RELATIONS:
            return around.leads(path, node, (relation, literal))
    return _as_boolean(value_of(expression, around, node, position, size))


def value_of(
    expression: Expression, around: XPathSurroundings, node: int, position: int, size: int
) -> Scalar | list[int]:
    """The value of an expression for a node: a scalar, or the nodes of a path in document order."""
    match expression:
        case XPathLiteral(value):
            return value
        case XPath():
            return near_nodes(expression, around, node)
        case And() | Or() | Not():
            return truth(expression, around, node, position, size)
        case XPathCall("boolean", (XPath() as path,)):
            return around.leads(path, node)
        case XPathCall("position"):
            return float(position)
        case XPathCall("last"):
            return float(size)
        case XPathCall("lang", (XPathLiteral(str(language)),)):
            return _speaks(language, around, node)
        case XPathOperation(relation, XPath() as path, XPathLiteral(literal)) if relation in RELATIONS:
            return around.leads(path, node, (relation, literal))
    if id(expression) not in around.shared:
        around.shared[id(expression)] = _shared_values(expression)
    shared = around.shared[id(expression)]
    if shared is None:
        return _computed(expression, around, node, position, size)
    origin = tuple(id(near_nodes(path, around, node)) for path in shared.paths)
    if origin not in shared.values:
        found = _computed(expression, around, node, position, size)
        shared.values[origin] = SharedText(found) if isinstance(found, str) else found
    return shared.values[origin]


def _shared_values(expression: Expression) -> SharedValues | None:
    """Room for the values of an expression that depends on shared nodes only; None for any other."""
    if 0 in xpath.heights(expression):
        return None
    return SharedValues(tuple(part for part in xpath.parts_of(expression) if isinstance(part, XPath)), {})


def _computed(
    expression: Expression, around: XPathSurroundings, node: int, position: int, size: int
) -> Scalar | list[int]:
    """The value of a function or calculation."""
    match expression:
        case XPathOperation(relation, left, right):
            first = value_of(left, around, node, position, size)
            second = value_of(right, around, node, position, size)
            if relation in RELATIONS:
                return _compared(relation, first, second, around.nodes)
            return _calculated(relation, _as_number(first, around.nodes), _as_number(second, around.nodes))
    assert isinstance(expression, XPathCall)
    values = [value_of(each, around, node, position, size) for each in expression.arguments]
    if not values and xpath.FUNCTIONS.get(expression.function, (1, 1, ""))[:2] == (0, 1):
        values = [[node]]  # without an argument they look at the node itself
    return _called(expression.function, values, around.nodes)


def near_nodes(path: XPath, around: XPathSurroundings, node: int) -> list[int]:
    """The nodes that a near path selects from a node, in document order."""
    nodes = around.nodes
    if path.absolute:
        kept = around.near.setdefault(id(path), {})
        if 0 not in kept:
            kept[0] = SharedNodes(np.flatnonzero(around.selected(path)).tolist(), nodes)
        return kept[0]
    steps = path.steps
    place = 0
    while place < len(steps) and steps[place].axis is XPathAxis.PARENT:
        if node == 0:
            return NO_NODES
        node = int(nodes.parent[node])
        if not around.passing(steps[place])[node]:
            return NO_NODES
        place += 1
    if not place:
        return _downwards(steps, around, node)
    remembered = around.near.setdefault(id(path), {})
    if node not in remembered:
        remembered[node] = SharedNodes(_downwards(steps[place:], around, node), nodes)
    return remembered[node]


def _downwards(steps: tuple[XPathStep, ...], around: XPathSurroundings, node: int) -> list[int]:
    nodes = around.nodes
    if steps and (steps[-1].axis is XPathAxis.DESCENDANT or steps[0] == xpath.EVERYWHERE):
        numbers = around.passing_numbers(steps[-1])
        low, high = np.searchsorted(numbers, [node + 1, int(nodes.end[node])])
        below: list[int] = numbers[low:high].tolist()
        return below
    found = [node]
    for step in steps:
        passing = around.passing(step)
        if step.axis is XPathAxis.SELF:
            found = [each for each in found if passing[each]]
        else:
            # The set has only children, or only attributes, as the axis is.
            found = [each for one in found for each in nodes.children(one) if passing[each]]
    return found


def _called(function: str, values: list[Any], nodes: NumberedNodes) -> Scalar:
    if function == "-":
        return -_as_number(values[0], nodes)
    if function in ("true", "false"):
        return function == "true"
    first = values[0]
    if function == "count":
        return float(len(first))
    if function == "sum":
        return float(sum(number(nodes.value(each)) for each in first))
    if function in ("name", "local-name", "namespace-uri"):
        return _name(function, first, nodes)
    if function == "boolean":
        return _as_boolean(first)
    if function in ("number", "floor", "ceiling", "round"):
        return _rounded(function, _as_number(first, nodes))
    texts = [_as_string(each, nodes) for each in values]
    if function == "substring":
        return _substring(texts[0], *(_as_number(each, nodes) for each in values[1:]))
    return _of_strings(function, *texts)


def _of_strings(function: str, text: str, other: str = "", third: str = "") -> Scalar:
    match function:
        case "string":
            return text
        case "starts-with":
            return text.startswith(other)
        case "contains":
            return other in text
        case "substring-before":
            before, found, _ = text.partition(other) if other else ("", "", "")
            return before if found else ""
        case "substring-after":
            return text.partition(other)[2] if other else text
        case "string-length":
            return float(len(text))
        case "normalize-space":
            return " ".join(part for part in text.translate(_SPACES).split(" ") if part)
        case _:
            table: dict[int, int | None] = {}
            for at, character in enumerate(other):
                table.setdefault(ord(character), ord(third[at]) if at < len(third) else None)
            return text.translate(table)


_SPACES = str.maketrans(dict.fromkeys(XML_SPACE, " "))


def _substring(text: str, start: float, length: float = inf) -> str:
    """Characters are numbered from 1, and numbers are rounded, as XPath 1.0 has it."""
    first = _rounded("round", start)
    last = first + _rounded("round", length)
    if isnan(first) or isnan(last):
        return ""
    low, high = max(first, 1.0), min(last, len(text) + 1.0)
    return text[int(low) - 1 : int(high) - 1] if low < high else ""


def _name(function: str, found: list[int], nodes: NumberedNodes) -> str:
    if not found:
        return ""
    prefix, uri, local = nodes.label(found[0])
    if function == "name":
        return f"{prefix}:{local}" if prefix else local
    return local if function == "local-name" else uri


def _rounded(function: str, value: float) -> float:
    if not isfinite(value) or function == "number":
        return value
    if function == "round":
        return float(floor(value + 0.5)) if abs(value) < 2**52 else value
    return float(floor(value) if function == "floor" else ceil(value))


def _calculated(sign: str, first: float, second: float) -> float:
    if sign == "+":
        return first + second
    if sign == "-":
        return first - second
    if sign == "*":
        return first * second
    with np.errstate(all="ignore"):
        if sign == "div":
            return float(np.float64(first) / np.float64(second))
        return float(np.fmod(np.float64(first), np.float64(second)))


def _compared(relation: str, first: Any, second: Any, nodes: NumberedNodes) -> bool:
    """By the rules of XPath 1.0: for paths, whether any of the nodes compares so."""
    if isinstance(first, bool) or isinstance(second, bool):
        one, other = _as_boolean(first), _as_boolean(second)
        return bool(RELATIONS[relation](one, other))
    if isinstance(first, SharedNodes) and isinstance(second, SharedNodes):
        return first.compares_with(relation, second)
    if isinstance(first, SharedNodes) or (isinstance(second, list) and not isinstance(second, SharedNodes)):
        first, second, relation = second, first, _MIRRORED[relation]  # what is shared comes second
    if isinstance(second, SharedNodes):
        others = {nodes.value(each) for each in first} if isinstance(first, list) else (first,)
        return any(second.compares(_MIRRORED[relation], each) for each in others)
    if isinstance(first, list) and isinstance(second, list):
        return _any_pair(relation, list(map(nodes.value, first)), list(map(nodes.value, second)))
    if isinstance(second, list):
        return any(_scalars_compare(relation, first, nodes.value(each)) for each in second)
    if isinstance(first, list):
        return any(_scalars_compare(relation, nodes.value(each), second) for each in first)
    return _scalars_compare(relation, first, second)


def _scalars_compare(relation: str, first: str | float, second: str | float) -> bool:
    if relation not in ("=", "!=") or isinstance(first, float) or isinstance(second, float):
        first, second = _number_of(first), _number_of(second)
    return bool(RELATIONS[relation](first, second))


def _any_pair(relation: str, firsts: list[str], seconds: list[str]) -> bool:
    """Whether any pair of values compares so, without looking at each pair."""
    if not firsts or not seconds:
        return False
    if relation == "=":
        return not set(firsts).isdisjoint(seconds)
    if relation == "!=":
        return len({*firsts, *seconds}) > 1
    numbers = [[each for each in map(number, texts) if not isnan(each)] for texts in (firsts, seconds)]
    if not all(numbers):
        return False
    least_first = relation[0] == "<"
    one, other = (min, max) if least_first else (max, min)
    return bool(RELATIONS[relation](one(numbers[0]), other(numbers[1])))


def _speaks(language: str, around: XPathSurroundings, node: int) -> bool:
    """Whether the nearest `xml:lang` at or above the node names the language, or a kind of it."""
    nodes = around.nodes
    while node > 0:
        spoken = around.languages.get(node)
        if spoken is not None:
            return spoken == language.lower() or spoken.startswith(language.lower() + "-")
        node = int(nodes.parent[node])
    return False


def _as_boolean(value: Any) -> bool:
    if isinstance(value, float):
        return value != 0 and not isnan(value)
    return bool(value)


def _as_number(value: Any, nodes: NumberedNodes) -> float:
    if isinstance(value, bool):
        return float(value)
    return _number_of(value if not isinstance(value, list) else _as_string(value, nodes))


def _number_of(value: str | float) -> float:
    if isinstance(value, SharedText):
        return value.number
    return number(value) if isinstance(value, str) else value


def _as_string(value: Any, nodes: NumberedNodes) -> str:
    if isinstance(value, SharedNodes):
        return value.first_text
    if isinstance(value, list):
        return nodes.value(value[0]) if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return literal_text(value + 0.0)
    return str(value)
