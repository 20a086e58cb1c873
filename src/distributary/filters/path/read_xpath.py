"""From elementpath's token tree to the XPath of `xpath`, with what cannot be decided in bounded time refused.

Every path that is accepted is decided in time linear in the document, times its depth where it looks at
values (and times its depth again where it compares values of nodes below with each other). That takes four
rules, and each error says which one a path breaks and what to write:

- A position is counted anywhere on the child, attribute, self and parent axes. On the other axes, where a
  node stands at as many positions as there are nodes to begin from, one predicate of a step may ask for a
  position, and only for one (`[2]`, `[last()]`) or for all up to or from one (`position() < 3`). On the
  preceding axis none may.
- A function, and a comparison with anything but a plain number or string, looks at *near* nodes: `.`, `..`
  and what is above, their children, children of these and attributes, or everything below one of them
  (`.//b`); or at an absolute path, which is the same for all nodes.
- A function that goes through a text (`contains` and its like) goes through one from above the node, or of
  an absolute path, only if nothing else that it looks at is further down: `contains(., /a)` but not
  `contains(/a, .)`.
- `( )[ ]` groups are read at the beginning of a whole path only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from math import isfinite
from typing import Any, NoReturn

from distributary.errors import FilterError
from distributary.filters.connectives import And, Not, Or
from distributary.filters.path import xpath
from distributary.filters.path.literals import literal_text, number
from distributary.filters.path.namespaces import XML_NAMESPACE
from distributary.filters.path.xpath import (
    Expression,
    XPath,
    XPathAxis,
    XPathCall,
    XPathGroup,
    XPathLiteral,
    XPathOperation,
    XPathStep,
)

MAX_OPERATORS = 64
"""Operators inside one another."""

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NUMBERS = ("(integer)", "(decimal)", "(float)")
_AXES = {axis.value: axis for axis in XPathAxis}
_KIND_TESTS = {"node": xpath.NODE, "text": xpath.TEXT, "comment": xpath.COMMENT}
_CALCULATIONS = ("+", "-", "*", "div", "mod")
_CHILDLESS = (xpath.TEXT, xpath.COMMENT)
_DOWNWARD = (
    XPathAxis.CHILD,
    XPathAxis.ATTRIBUTE,
    XPathAxis.DESCENDANT,
)
NEAR = (
    "functions and calculations look at near nodes: ., .., children and attributes, or .//name; or at a path "
    "that starts with /"
)
READ_THROUGH = {"contains": 1, "substring-before": 1, "substring-after": 1, "substring": 1, "translate": 3}
"""Functions that go through texts from one end to the other, and how many of their arguments these are."""
SHARED_TEXT = (
    "would go through this text again for every node; let it begin at the node itself, or no further up than "
    "the other arguments do"
)
RANGES = "on this axis write a position once, as [2], [last()] or [position() < 3]"


def bare(token: Any) -> Any:
    """What stands inside the parentheses, if there are any."""
    while token.symbol == "(" and len(token) == 1:
        token = token[0]
    return token


def operands(token: Any, *symbols: str) -> list[Any]:
    """The operands of a left-leaning chain of one operator, in the order written."""
    found: list[Any] = []
    pending = [token]
    while pending:
        token = bare(pending.pop())
        if token.symbol in symbols and len(token) == 2:
            pending += (token[1], token[0])
        else:
            found.append(token)
    return found


def name_of(token: Any) -> str | None:
    """The name or `*` that a token means; None when it means something else."""
    if token.symbol == "(name)":
        return str(token.value)
    if token.symbol == "*" and len(token) == 0:
        return xpath.ANY_NAME
    if token.symbol == "Q{" and token[1].symbol == "(name)":
        uri, name = str(token[0].value), str(token[1].value)
        if not _is_written(uri, token):
            return None
        return f"Q{{{uri}}}{name}" if uri else name
    if token.symbol == ":" and token[0].value == "xml" and token[1].symbol == "(name)":
        return f"Q{{{XML_NAMESPACE}}}{token[1].value}"
    return None


def _is_written(uri: str, token: Any) -> bool:
    """Whether a URI stands between the braces as it was read: the grammar takes quotes out of it."""
    source, start = token.parser.source, token.span[1]
    return "{" not in uri and source[start : source.find("}", start)].strip() == uri


def double_of(token: Any) -> float:
    """The value of a number's token; infinite when it is too large."""
    try:
        return float(token.value)
    except OverflowError:
        return float("inf")


class XPathReader:
    """The walk over one text's token tree. `allowed` is what an error says can be written."""

    def __init__(self, text: str, allowed: str) -> None:
        self.text = text
        self.allowed = allowed
        self.depth = 0

    def branch(self, token: Any) -> XPath:
        """A branch of a filter; one that does not start with `/` may begin anywhere."""
        path = self._path(token, outermost=True)
        if path.absolute or path.group is not None:
            return path
        return replace(path, absolute=True, steps=_tidied((xpath.EVERYWHERE, *path.steps)))

    def _path(self, token: Any, *, outermost: bool = False) -> XPath:
        parts: list[tuple[Any, Any]] = []  # a separator and what follows it, last first
        while token.symbol in ("/", "//") and len(token) == 2:
            parts.append((token, token[1]))
            token = token[0]
        steps: list[XPathStep] = []
        group: XPathGroup | None = None
        absolute = token.symbol in ("/", "//")
        if absolute:
            if len(token) == 0:
                self.refuse(token, "`/` alone is every document; name an element or an attribute")
            if token.symbol == "//":
                steps.append(xpath.EVERYWHERE)
            steps.append(self._step(token[0]))
        else:
            group = self._group(token) if outermost else None
            if group is None:
                steps.append(self._step(token))
        for separator, part in reversed(parts):
            if separator.symbol == "//":
                steps.append(xpath.EVERYWHERE)
            steps.append(self._step(part))
            self._check_order(part, steps)
        return XPath(absolute, _tidied(steps), group)

    def _group(self, token: Any) -> XPathGroup | None:
        """The group that a path begins with, if it does."""
        predicates: list[Any] = []
        while token.symbol == "[":
            predicates.append(token[1])
            token = token[0]
        if token.symbol != "(" or len(token) != 1:
            return None
        paths = tuple(self.branch(part) for part in operands(token, "|", "union"))
        return XPathGroup(paths, tuple(map(self._predicate, reversed(predicates))))

    def _step(self, token: Any) -> XPathStep:
        predicates: list[Any] = []
        core = token
        while core.symbol == "[":
            predicates.append(core[1])
            core = core[0]
        step = self._plain_step(core)
        read = tuple(map(self._predicate, reversed(predicates)))
        self._check_positions(token, step.axis, read)
        return replace(step, predicates=read)

    def _plain_step(self, token: Any) -> XPathStep:
        symbol = token.symbol
        if symbol in (".", ".."):
            return xpath.HERE if symbol == "." else xpath.ABOVE
        if symbol == "@" and len(token) == 1:
            return XPathStep(XPathAxis.ATTRIBUTE, self._name(token[0]))
        if symbol in _AXES and len(token) == 1 and token.label != "kind test":
            return XPathStep(_AXES[symbol], self._test(token[0]))
        return XPathStep(XPathAxis.CHILD, self._test(token))

    def _test(self, token: Any) -> str:
        symbol = token.symbol
        if symbol in _KIND_TESTS and len(token) == 0:
            return _KIND_TESTS[symbol]
        if symbol == "processing-instruction":
            if len(token) == 0:
                return xpath.INSTRUCTION
            return f"processing-instruction({literal_text(str(token[0].value))})"
        return self._name(token)

    def _name(self, token: Any) -> str:
        name = name_of(token)
        if name is None:
            raise self.unknown(token)
        return name

    def _check_order(self, token: Any, steps: list[XPathStep]) -> None:
        """Refuse a step below a node that has nothing below it."""
        earlier = [step for step in steps[:-1] if step not in (xpath.HERE, xpath.EVERYWHERE)]
        if not earlier:
            return
        before = earlier[-1]
        childless = before.test in _CHILDLESS or before.test.startswith("processing-instruction")
        if (childless or before.axis is XPathAxis.ATTRIBUTE) and steps[-1].axis in _DOWNWARD:
            sign = "@" if before.axis is XPathAxis.ATTRIBUTE else ""
            self.refuse(token, f"nothing comes after {sign}{before.test}")

    def _check_positions(self, token: Any, axis: XPathAxis, predicates: tuple[Expression, ...]) -> None:
        asking = [each for each in predicates if xpath.depends_on_position(each)]
        if not asking or axis in xpath.ONE_ORIGIN:
            return
        if axis is XPathAxis.PRECEDING:
            self.refuse(token, "positions are not counted on the axis preceding; use preceding-sibling")
        if len(asking) > 1 or range_of(asking[0]) is None:
            self.refuse(token, RANGES)

    def _predicate(self, token: Any) -> Expression:
        read = self._expression(token)
        if xpath.kind_of(read) == xpath.NUMBER:
            return XPathOperation("=", xpath.POSITION, read)
        return read

    def _expression(self, token: Any) -> Expression:
        self.depth += 1
        if self.depth > MAX_OPERATORS:
            self.refuse(token, f"operators are nested more than {MAX_OPERATORS} deep")
        try:
            return self._read(bare(token))
        finally:
            self.depth -= 1

    def _read(self, token: Any) -> Expression:
        symbol = token.symbol
        if symbol in ("and", "or") and len(token) == 2:
            parts = _flat(map(self._expression, operands(token, symbol)), And if symbol == "and" else Or)
            return And(parts) if symbol == "and" else Or(parts)
        if symbol == "not" and len(token) == 1:
            return Not(self._expression(token[0]))
        if symbol in ("|", "union"):
            return Or(tuple(map(self._path, operands(token, "|", "union"))))
        if symbol in MIRRORED and len(token) == 2:
            return self._comparison(token)
        if symbol in _CALCULATIONS and len(token) == 2:
            return XPathOperation(symbol, self._near(token[0]), self._near(token[1]))
        if symbol in "+-" and len(token) == 1:
            if symbol == "+":
                self.refuse(token, "write a number without +")
            return XPathCall("-", (self._near(token[0]),))
        if symbol in NUMBERS or symbol == "(string)":
            return XPathLiteral(self._literal(token))
        if symbol in xpath.FUNCTIONS and token.label == "function":
            return self._call(token)
        return self._path(token)

    def _comparison(self, token: Any) -> Expression:
        left, right, relation = self._expression(token[0]), self._expression(token[1]), token.symbol
        if isinstance(left, XPathLiteral) and not isinstance(right, XPathLiteral):
            left, right, relation = right, left, MIRRORED[relation]
        if isinstance(left, XPath) and isinstance(right, XPathLiteral):
            # A string on the other side of `<` and the like is compared as a number.
            value = right.value
            if relation not in ("=", "!=") and isinstance(value, str) and isfinite(number(value)):
                right = XPathLiteral(number(value) + 0.0)
        else:
            for side, part in ((left, token[0]), (right, token[1])):
                self._check_near(part, side)
        for side, part in ((left, token[0]), (right, token[1])):
            if isinstance(side, Or) and bare(part).symbol in ("|", "union"):
                self.refuse(part, "write two comparisons with `or` between them")
        return XPathOperation(relation, left, right)

    def _call(self, token: Any) -> Expression:
        name, count = token.symbol, len(token)
        least, most, _ = xpath.FUNCTIONS[name]
        if not least <= count <= most:
            self.refuse(token, f"{name}() takes {least if least == most else f'{least} or {most}'} arguments")
        if name == "boolean":
            inner = self._expression(token[0])
            return inner if xpath.kind_of(inner) == xpath.BOOLEAN else XPathCall(name, (inner,))
        arguments = tuple(map(self._near, token))
        if name in xpath.OF_NODES and arguments and not isinstance(arguments[0], XPath):
            self.refuse(token[0], f"{name}() takes a path")
        if name == "lang" and not isinstance(arguments[0], XPathLiteral):
            self.refuse(token[0], "lang() takes a string such as 'en'")
        self._check_read_through(token, name, arguments)
        return XPathCall(name, arguments)

    def _check_read_through(self, token: Any, name: str, arguments: tuple[Expression, ...]) -> None:
        """Refuse a function that goes through a text from above for every node below anew."""
        lowest = min(chain.from_iterable(map(xpath.heights, arguments)), default=0)
        for part, argument in zip(token, arguments[: READ_THROUGH.get(name, 0)], strict=False):
            texts = xpath.kind_of(argument) in (xpath.STRING, xpath.NODES)
            if texts and max(xpath.heights(argument), default=0) > lowest:
                self.refuse(part, f"{name}() {SHARED_TEXT}")

    def _near(self, token: Any) -> Expression:
        read = self._expression(token)
        if isinstance(read, Or) and bare(token).symbol in ("|", "union"):
            self.refuse(token, "give one path here")
        self._check_near(token, read)
        return read

    def _check_near(self, token: Any, read: Expression) -> None:
        if isinstance(read, XPath) and not is_near(read):
            self.refuse(token, NEAR)

    def _literal(self, token: Any) -> str | float:
        if token.symbol == "(string)":
            literal = str(token.value)
            if "'" in literal and '"' in literal:
                self.refuse(token, "a string holds ' or \" but not both, as XPath 1.0 has no way to write it")
            return literal
        found = double_of(token)
        if not isfinite(found):
            self.refuse(token, "a number this large has no double-precision value")
        return found

    def unknown(self, token: Any) -> FilterError:
        """The error for a token that is good XPath and no part of a path filter."""
        symbol = token.symbol
        reason = f"{str(token.value if symbol[0] == '(' else symbol)!r} is not supported; {self.allowed}"
        if symbol == "namespace":
            reason = "the axis namespace is not supported; compare namespace-uri() of an element"
        elif symbol == "$":
            reason = f"there are no variables; {self.allowed}"
        elif symbol == "Q{":
            reason = "write a name in a namespace as Q{uri}name, the URI without quotes around it and braces"
        elif symbol == ":":
            reason = "prefixes are bound to nothing here; write a name in a namespace as Q{uri}name"
        elif symbol == "(":
            reason = "parentheses go around conditions, or around the beginning of a whole path"
        return FilterError(reason, field="path", text=self.text, position=token.span[0])

    def refuse(self, token: Any, reason: str) -> NoReturn:
        """Raise the error that says so of a token."""
        raise FilterError(reason, field="path", text=self.text, position=token.span[0])


def range_of(predicate: Expression) -> tuple[str, Expression, float] | None:
    """A predicate that asks for a range of positions, as it compares: with last() or 0, plus a number.

    What is compared is `position()` or `last()`, and comes first: ("=", ...) is `position()`, and a relation
    behind `last` is `last()`. None for any other predicate.

    >>> range_of(XPathOperation("=", xpath.POSITION, XPathOperation("-", xpath.LAST, XPathLiteral(1.0))))
    ('=', XPathCall(function='last', arguments=()), -1.0)
    """
    match predicate:
        case XPathOperation(relation, XPathCall("position"), right) if relation in MIRRORED:
            bound = _bound_of(right)
            return None if bound is None else (relation, *bound)
        case XPathOperation(relation, left, XPathCall("position")) if relation in MIRRORED:
            bound = _bound_of(left)
            return None if bound is None else (MIRRORED[relation], *bound)
        case XPathOperation(relation, XPathCall("last"), right) if relation in MIRRORED:
            bound = _bound_of(right)
            return None if bound is None or bound[0] == xpath.LAST else (f"last {relation}", *bound)
    return None


def _bound_of(expression: Expression) -> tuple[Expression, float] | None:
    """A number, or last(), or last() plus or minus a number: what a position is compared with."""
    match expression:
        case XPathLiteral(float(value)):
            return XPathLiteral(0.0), value
        case XPathCall("-", (XPathLiteral(float(value)),)):
            return XPathLiteral(0.0), -value
        case XPathCall("last"):
            return xpath.LAST, 0.0
        case XPathOperation("+" | "-" as sign, XPathCall("last"), XPathLiteral(float(value))):
            return xpath.LAST, value if sign == "+" else -value
    return None


def is_near(path: XPath) -> bool:
    """Whether functions may look at a path: upwards, then down by children or to everything below."""
    if path.absolute:
        return True
    steps = list(path.steps)
    while steps and steps[0].axis is XPathAxis.PARENT:
        steps.pop(0)
    if len(steps) == 2 and steps[0] == xpath.EVERYWHERE:
        return steps[1].axis in (XPathAxis.CHILD, XPathAxis.ATTRIBUTE)
    if len(steps) == 1 and steps[0].axis is XPathAxis.DESCENDANT:
        return not any(map(xpath.depends_on_position, steps[0].predicates))
    return all(step.axis in (XPathAxis.CHILD, XPathAxis.ATTRIBUTE, XPathAxis.SELF) for step in steps)


def _flat(parts: Iterable[Expression], kind: Any) -> tuple[Expression, ...]:
    """The parts, with those of parts that are of the same kind in their place."""
    return tuple(one for part in parts for one in (part.parts if isinstance(part, kind) else (part,)))


def _tidied(steps: Iterable[XPathStep]) -> tuple[XPathStep, ...]:
    """The steps without those that lead nowhere else: `.` beside another step, and `//` after `//`."""
    kept: list[XPathStep] = []
    for step in steps:
        if step == xpath.HERE and kept:
            continue
        if kept == [xpath.HERE]:
            kept.clear()
        if not (step == xpath.EVERYWHERE and kept and kept[-1] == xpath.EVERYWHERE):
            kept.append(step)
    return tuple(kept)
