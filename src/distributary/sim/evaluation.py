"""Evaluates subscriptions for the oracle, without the filters that the systems under trial use.

A fault of `distributary.filters` would otherwise be in the answers and in what they are held against. Topics
are compared level by level, conditions are sqlglot's own tree, walked for every event, paths are lxml's XPath
1.0, and tolerances are differences.

Rules:

- A condition or path that this module does not understand (arithmetic, functions, times, filters of kinds
  that an application added) is evaluated by the filters after all; `PlainEvaluation.borrowed` says so.
- Of a tolerance, `passes` asks only whether the event carries a number for it; `moved` is the rest.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from math import inf, isnan
from typing import Any

import sqlglot
from lxml import etree
from sqlglot import exp
from sqlglot.errors import SqlglotError

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription

Truth = bool | None
"""SQL's three values; None is unknown."""
Attributes = Mapping[str, Any]


class NotUnderstoodError(Exception):
    """Something in a filter that this module leaves to the filters."""


class PlainEvaluation:
    """One subscription, evaluated from its text.

    >>> wish = PlainEvaluation(Subscription("s", "ann", topic="A/*", where="a > 2", change={"a": 1}))
    >>> wish.passes(Event("e", "A/B", {"a": 3})), wish.passes(Event("e", "A", {"a": 3}))
    (True, False)
    >>> wish.moved({"a": 3.0}, {"a": 2.0}), wish.moved({"a": 3.5}, {"a": 2.0})
    (False, True)
    """

    def __init__(self, subscription: Subscription) -> None:
        self.tolerances: Mapping[str, float] = subscription.change or {}
        self.borrowed = False
        """Whether a filter is evaluated by `distributary.filters`."""
        self._subscription = subscription
        self._checks: list[Callable[[Event], bool]] = []
        readers = {"topic": _topic_check, "where": _condition_check, "path": _path_check}
        for kind, given in subscription.filters().items():
            if kind == "change":
                self._checks.append(lambda event: bool(self.numbers(event)))
                continue
            try:
                if kind not in readers:
                    raise NotUnderstoodError(kind)
                self._checks.append(readers[kind](given))
            except NotUnderstoodError:
                self.borrowed = True
                self._checks.append(parse_filters(subscription)[kind].matches)

    def passes(self, event: Event) -> bool:
        """Whether the event matches every filter, tolerances aside."""
        return all(check(event) for check in self._checks)

    def numbers(self, event: Event) -> dict[str, float]:
        """What the event carries, as numbers, of the attributes with a tolerance."""
        found = ((name, _number(event.attributes.get(name))) for name in self.tolerances)
        return {name: number for name, number in found if number is not None}

    def moved(self, numbers: Mapping[str, float], last: Mapping[str, float]) -> bool:
        """Whether some number has moved by more than its tolerance, or is the first."""
        return any(
            name not in last
            or (number != last[name] and abs(number - last[name]) > float(self.tolerances[name]))
            for name, number in numbers.items()
        )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return inf if value > 0 else -inf
    return None if isnan(number) else number


# Topics.


def _topic_check(pattern: str) -> Callable[[Event], bool]:
    if pattern.startswith("mqtt:"):
        levels = pattern[5:].split("/")
        system = levels[0] in ("+", "#")  # topics that begin with $ are not for wildcards
        return lambda event: (
            event.topic is not None
            and not (system and event.topic.startswith("$"))
            and _fits_mqtt(levels, event.topic.split("/"))
        )
    ours = pattern.removeprefix("/").split("/")
    return lambda event: event.topic is not None and _fits(ours, event.topic.removeprefix("/").split("/"))


def _fits(pattern: list[str], topic: list[str]) -> bool:
    """Our own patterns: `*` is one level, and only `#` at the end keeps deeper topics out."""
    closed = pattern[-1] == "#"
    levels = pattern[:-1] if closed else pattern
    if len(topic) < len(levels) or (closed and len(topic) > len(levels)):
        return False
    return all(wanted in ("*", level) for wanted, level in zip(levels, topic, strict=False))


def _fits_mqtt(pattern: list[str], topic: list[str]) -> bool:
    """MQTT's filters: `+` is one level, `#` at the end any number, and none."""
    open_end = pattern[-1] == "#"
    levels = pattern[:-1] if open_end else pattern
    if len(topic) < len(levels) or (not open_end and len(topic) > len(levels)):
        return False
    return all(wanted in ("+", level) for wanted, level in zip(levels, topic, strict=False))


# Paths.


def _path_check(path: str) -> Callable[[Event], bool]:
    selects = _compiled(path)
    return lambda event: event.document is not None and bool(selects(_tree(event.document)))


@lru_cache(maxsize=4096)
def _compiled(path: str) -> Any:
    """The path as XPath 1.0; one that does not begin with `/` may match anywhere."""
    text = path.strip()
    if "Q{" in text or "|" in text or text.startswith("("):
        raise NotUnderstoodError(path)
    try:
        return etree.XPath(f"boolean({text if text.startswith('/') else '//' + text})")
    except etree.XPathSyntaxError as error:
        raise NotUnderstoodError(path) from error


@lru_cache(maxsize=16)
def _tree(document: str) -> Any:
    # The document is text already: what it says of its encoding is past.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, encoding="utf-8")
    return etree.ElementTree(etree.fromstring(document.encode(), parser))


# Conditions.


def _condition_check(condition: str) -> Callable[[Event], bool]:
    truth = _truth(_parsed(condition))
    return lambda event: truth(_seen(event)) is True


def _seen(event: Event) -> Attributes:
    """What a condition sees of an event: its id and topic too, and objects of which it has an attribute."""
    present = {name: value for name, value in event.attributes.items() if value is not None}
    inside = (name.split(".")[:depth] for name in present for depth in range(1, name.count(".") + 1))
    objects: Attributes = {".".join(parts): {} for parts in inside}
    return {"id": event.id, "topic": event.topic, **objects, **present}


@lru_cache(maxsize=4096)
def _parsed(condition: str) -> exp.Expression:
    try:
        return sqlglot.parse_one(condition, dialect="postgres")
    except SqlglotError as error:
        raise NotUnderstoodError(condition) from error


_COMPARISONS: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def _truth(node: Any) -> Callable[[Attributes], Truth]:
    """A function that gives the truth of a condition for an event's attributes."""
    truth = _unnegated(node)
    return (lambda event: _negated(truth(event))) if node.args.get("negate") else truth


def _unnegated(node: Any) -> Callable[[Attributes], Truth]:
    """The same, as if there were no `not` inside, as in `a not in (1, 2)`."""
    if isinstance(node, exp.Paren):
        return _truth(node.this)
    if isinstance(node, exp.Not):
        inner = _truth(node.this)
        return lambda event: _negated(inner(event))
    if isinstance(node, exp.And | exp.Or):
        first, second = _truth(node.this), _truth(node.expression)
        joined = _both if isinstance(node, exp.And) else _either
        return lambda event: joined(first(event), second(event))
    if isinstance(node, exp.Between):
        value, low, high = (_value(node.args[part]) for part in ("this", "low", "high"))
        return lambda event: _both(
            _compared(operator.le, low(event), value(event)),
            _compared(operator.le, value(event), high(event)),
        )
    if isinstance(node, exp.In):
        return _is_in(node)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        value = _value(node.this)
        return lambda event: value(event) is None
    if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
        return _like(_value(node.this), node.expression.this)
    if type(node) in _COMPARISONS:
        compare, left, right = _COMPARISONS[type(node)], _value(node.this), _value(node.expression)
        return lambda event: _compared(compare, left(event), right(event))
    if isinstance(node, exp.Boolean):
        constant = bool(node.this)
        return lambda event: constant
    raise NotUnderstoodError(node)


def _is_in(node: exp.In) -> Callable[[Attributes], Truth]:
    value, items = _value(node.this), [_value(item) for item in node.expressions]
    if not items:
        raise NotUnderstoodError(node)

    def found(event: Attributes) -> Truth:
        result: Truth = False
        for item in items:
            result = _either(result, _compared(operator.eq, value(event), item(event)))
        return result

    return found


def _like(value: Callable[[Attributes], Any], pattern: str) -> Callable[[Attributes], Truth]:
    if "\\" in pattern:
        raise NotUnderstoodError(pattern)
    wild = {"%": ".*", "_": "."}
    fits = re.compile("".join(wild.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL).fullmatch

    def like(event: Attributes) -> Truth:
        text = value(event)
        return fits(text) is not None if isinstance(text, str) else None

    return like


def _value(node: Any) -> Callable[[Attributes], Any]:
    """A function that gives an operand: an attribute, or a literal."""
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Column):
        name = ".".join(part.name for part in node.parts)
        return lambda event: event.get(name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        number = _numeral("-" + node.this.this)
        return lambda event: number
    if isinstance(node, exp.Literal):
        literal = node.this if node.is_string else _numeral(node.this)
        return lambda event: literal
    if isinstance(node, exp.Boolean):
        truth = bool(node.this)
        return lambda event: truth
    raise NotUnderstoodError(node)


def _numeral(text: str) -> int | Decimal:
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def _sort(value: Any) -> str | None:
    """What kind of value it is; values of different kinds cannot be compared, and some with nothing."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float | Decimal) and value == value else None


def _compared(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> Truth:
    if {type(left), type(right)} == {Decimal, float}:
        left, right = float(left), float(right)  # a decimal that meets a double is rounded to one
    sort = _sort(left)
    return compare(left, right) if sort is not None and sort == _sort(right) else None


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _both(first: Truth, second: Truth) -> Truth:
    if first is False or second is False:
        return False
    return True if first and second else None


def _either(first: Truth, second: Truth) -> Truth:
    return _negated(_both(_negated(first), _negated(second)))
