"""What is said of a condition: misspelt names, kinds that do not compare, what is never or always true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from distributary.filters.lint.findings import Severity
from distributary.filters.lint.kinds_of import READS_TEXT, compares, kinds_compare, type_of_operand
from distributary.filters.lint.schema import Container, EventSchema, ValueType
from distributary.filters.where import expression as tree
from distributary.filters.where import write as whole
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Kind, kind_of
from distributary.filters.where.write import write_name

TESTS = tree.IsNull | tree.TruthConstant
"""Leaves that take values of every kind."""
MAX_REMARKS = 100
"""So much is said of one condition."""
MAX_SHOWN = 200
"""So many characters of a part are shown."""


class Remark(NamedTuple):
    """What is said of a part of a filter."""

    severity: Severity
    what: str
    message: str
    advice: str = ""


def condition_remarks(filter: WhereFilter, schema: EventSchema | None) -> list[Remark]:
    """All that is said of a condition, each once, up to `MAX_REMARKS`."""
    expression = filter.expression
    leaves = list(tree.all_leaves(expression))
    found = [remark for leaf in leaves for remark in _null_remarks(leaf)]
    if schema is not None:
        found += _unknown_attributes(expression, schema)
        for leaf in leaves:
            found += _clashes(leaf, schema)
    if filter.conjunctions == () and not any(remark.what == "never true" for remark in found):
        found.append(Remark(Severity.ERROR, "never true", "no event can match: it contradicts itself"))
    if filter.slow:
        found.append(Remark(Severity.WARNING, "slow", f"is evaluated event by event: {filter.slow}"))
    found = list(dict.fromkeys(found))
    if len(found) > MAX_REMARKS:
        more = Remark(Severity.NOTE, "not told", f"{len(found) - MAX_REMARKS:,} more findings in this filter")
        return [*found[:MAX_REMARKS], more]
    return found


def _null_remarks(leaf: tree.Leaf) -> Iterator[Remark]:
    literals = tree.literals_of(leaf) if isinstance(leaf, tree.Compare | tree.Between | tree.In) else ()
    if None not in literals or isinstance(leaf, tree.CompareAttributes | TESTS):
        return
    name = write_operand(leaf.attribute)
    if isinstance(leaf, tree.In) and len(set(leaf.literals)) > 1:
        message = f"{name} in (..., null) is never false, so that NOT IN with it is never true"
        yield Remark(Severity.WARNING, "never true", message, f"leave null out, or add {name} is null")
        return
    negative = "not " if getattr(leaf, "operator", "=") == "<>" else ""
    yield Remark(
        Severity.ERROR, "never true", f"{write(leaf)} is never true", f"write {name} is {negative}null"
    )


def _unknown_attributes(expression: tree.Expression, schema: EventSchema) -> Iterator[Remark]:
    severity = Severity.ERROR if schema.complete else Severity.WARNING
    texts = {
        leaf.right: leaf.left
        for leaf in tree.leaves(expression)
        if isinstance(leaf, tree.CompareAttributes) and isinstance(leaf.right, str)
    }
    inside = set(_names_of_elements(expression, schema))
    for name in tree.attributes_of(expression):
        if schema.type_of(name) is not None or name in inside:
            continue
        near = schema.nearest(name)
        advice = f"write {write_name(near)}" if near else "name one that they have"
        left = texts.get(name)
        if left is not None and (not isinstance(left, str) or schema.type_of(left) is not None):
            advice = (advice + ", or " if near else "write ") + f"{write_literal(name)} for the text"
        seen = "" if schema.complete else " in those that were looked at"
        message = f"the events have no attribute {name!r:.200}{seen}"
        yield Remark(severity, "unknown attribute", message, advice)


def _names_of_elements(expression: tree.Expression, schema: EventSchema) -> Iterator[str]:
    """Of `props['utm']`, which is `props.utm` where maps are flattened: the name that needs not be there."""
    for leaf in tree.leaves(expression):
        for operand in tree.operands_of(leaf):
            yield from _names_in(operand, schema)


def _names_in(argument: Any, schema: EventSchema) -> Iterator[str]:
    if isinstance(argument, tree.Computation):
        if argument.function == "element" and len(argument.arguments) == 3:
            names = [each.name for each in argument.arguments if isinstance(each, tree.AttributeReference)]
            if any(schema.type_of(name) is not None for name in names):
                yield from names
        for each in argument.arguments:
            yield from _names_in(each, schema)
    elif isinstance(argument, tree.CONDITIONS):
        yield from _names_of_elements(argument, schema)


def _clashes(leaf: tree.Leaf, schema: EventSchema) -> list[Remark]:
    """What a leaf compares that does not compare: it is then unknown for every event."""
    severity = Severity.ERROR if schema.complete else Severity.WARNING
    found: list[Remark] = []

    def report(message: str, advice: str) -> None:
        found.append(Remark(severity, "type clash", message, advice))

    types = [type_of_operand(operand, schema, report) for operand in tree.operands_of(leaf)]
    if found or isinstance(leaf, TESTS) or any(type_.kinds is None for type_ in types):
        return found
    if isinstance(leaf, tree.CompareAttributes):
        if not kinds_compare(*types):
            left, right = write_operand(leaf.left), write_operand(leaf.right)
            report(
                f"{write(leaf)} is never true: {left} is {types[0]}, {right} is {types[1]}",
                f"cast one of them, as in cast({left} as text)",
            )
        return found
    name, type_ = write_operand(leaf.attribute), types[0]
    if isinstance(leaf, tree.Truth | tree.IsTruth):
        if type_.kinds is not None and Kind.BOOLEAN not in type_.kinds:
            report(
                f"{write(leaf)} is never true: {name} is {type_}, not a boolean",
                f"compare {name} with a value",
            )
        return found
    if isinstance(leaf, tree.Like | tree.MatchesPattern):
        if type_.kinds is not None and Kind.TEXT not in type_.kinds:
            report(f"{write(leaf)} is never true: {name} is {type_}, not a text", _for_pattern(name, type_))
        return found
    strange = [each for each in tree.literals_of(leaf) if each is not None and not compares(type_, each)]
    if strange:
        partly = isinstance(leaf, tree.In) and len(strange) < len(leaf.literals)
        always = f"cannot hold for {write_literal(strange[0])}" if partly else "is never true"
        message = f"{write(leaf)} {always}: {name} is {type_}{_not_a(type_, strange[0])}"
        advice = _advice(name, type_, strange[0])
        found.append(Remark(Severity.WARNING if partly else severity, "type clash", message, advice))
    return found


def _not_a(type_: ValueType, literal: Any) -> str:
    kind = kind_of(literal)
    if kind is Kind.TEXT and (type_.kinds or frozenset()) & set(READS_TEXT):
        return f", and {write_literal(literal)} is not written as ISO 8601"
    return f", not {kind.value}" if kind is not None else ""


def _advice(name: str, type_: ValueType, literal: Any) -> str:
    kinds, written = type_.kinds or frozenset(), write_literal(literal)
    if Container.ARRAY in kinds:
        return f"write array_contains({name}, {written})"
    if kinds & {Container.MAP, Container.OBJECT}:
        return f"name what is inside, as in {name}.part"
    if kinds & set(READS_TEXT):
        return "write such as '12:30:00'" if Kind.TIME in kinds else "write such as '2026-06-01T12:30:00Z'"
    if Kind.NUMBER in kinds and isinstance(literal, str):
        return f"write {_short(literal)}" if _is_numeric(literal) else "write a number"
    if Kind.TEXT in kinds:
        return (
            f"write '{literal}', or cast({name} as double)"
            if kind_of(literal) is Kind.NUMBER
            else "write a text"
        )
    if Kind.BOOLEAN in kinds:
        return f"write {name} or not {name}"
    return f"compare with {type_}"


def write(leaf: tree.Leaf) -> str:
    """The text of a leaf, shortened where it is long."""
    return _short(whole.write(leaf))


def write_operand(operand: tree.Operand) -> str:
    """The text of an operand, shortened where it is long."""
    return _short(whole.write_operand(operand))


def write_literal(literal: Any) -> str:
    """The text of a literal, shortened where it is long."""
    return _short(whole.write_literal(literal))


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _is_numeric(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").replace(".", "", 1).isdecimal()


def _for_pattern(name: str, type_: ValueType) -> str:
    if Container.ARRAY in (type_.kinds or frozenset()):
        return f"write {name}[*] like ..."
    return f"compare with < and >, or write cast({name} as text) like ..."
