"""What a line of a peer's rules means, read by code of its own: the oracle of the bench's translations."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

Holds = Callable[[Any], bool]
"""Whether a rule holds for an event that was read."""

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
}


class Language(NamedTuple):
    """How the lines of a peer's files are read."""

    rule: Callable[[str], Holds]
    event: Callable[[str], Any]


def _pattern(line: str) -> Holds:
    """Event Ruler's and quamina's: each name has alternatives, of which one must hold."""
    rule = json.loads(line)
    return lambda event: all(_one_of(tests, event[name]) for name, tests in rule.items())


def _one_of(tests: list[Any], value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(_fits(test, each) for test in tests for each in values)


def _fits(test: Any, value: Any) -> bool:
    match test:
        case {"numeric": [first, low, second, high]}:
            return COMPARED[first](value, low) and COMPARED[second](value, high)
        case {"anything-but": others}:
            return value not in others
        case {"shellstyle": text}:
            return fnmatchcase(value, text)
    return bool(test == value)


def _expression(line: str) -> Holds:
    """a-tree's: Python's own, but for two signs."""
    code = compile(line.replace(" = ", " == ").replace(" <> ", " != "), "a rule", "eval")
    return lambda event: bool(eval(code, {}, event))


def _listed(line: str) -> Holds:
    """The conditions that Esper's and Lucene's programs build by calls."""
    rule = json.loads(line)
    return lambda event: all(_compared(event[name], operator, values) for name, operator, values in rule)


def _compared(value: Any, operator: str, values: list[Any]) -> bool:
    if operator == "between":
        low, high = values
        return bool(low <= value <= high)
    assert operator in ("=", "<>", "in")
    return (value in values) == (operator != "<>")


def _hypermatch(line: str) -> Holds:
    """hypermatch's: a condition for each property."""
    rule = json.loads(line)
    return lambda event: all(_condition(test, event[name]) for name, test in rule.items())


def _properties(line: str) -> dict[str, list[str]]:
    return {each["Path"]: each["Values"] for each in json.loads(line)}


def _condition(test: dict[str, Any], values: list[str]) -> bool:
    ((operator, asked),) = test.items()
    match operator:
        case "equals":
            return asked in values
        case "wildcard":
            return any(fnmatchcase(value, asked) for value in values)
        case "allOf":
            return all(_condition(each, values) for each in asked)
        case "anyOf":
            return any(_condition(each, values) for each in asked)
    assert operator == "anythingBut"
    return not any(_condition(each, values) for each in asked)


def _subject(line: str) -> Holds:
    """NATS's: as many tokens, and `*` for any one."""
    rule = _tokens(line)
    return lambda event: (
        len(rule) == len(event) and all(one in ("*", other) for one, other in zip(rule, event, strict=True))
    )


def _tokens(line: str) -> list[str]:
    return line.split(".")


LANGUAGES = {
    "json": Language(_pattern, json.loads),
    "unnamed": Language(_pattern, json.loads),
    "expressions": Language(_expression, json.loads),
    "lists": Language(_listed, json.loads),
    "hypermatch": Language(_hypermatch, _properties),
    "subjects": Language(_subject, _tokens),
}
"""By their names in `bench.peers.workload.Asked`."""
