"""Which kinds of values an operand of a condition can have, given what the events have.

An operation on a kind that it does not take is null for every event; that is reported where it is met, and
its own kinds are then unknown, so that one mistake is told once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributary.filters.lint.schema import ANY, Container, EventSchema, ValueType, either, one_of
from distributary.filters.where.expression import AttributeReference, Computation, Operand
from distributary.filters.where.values import Kind, Months, kind_of, read_instant, read_time
from distributary.filters.where.write import write_operand

NUMBER, TEXT, BOOLEAN, INSTANT = (
    one_of(each) for each in (Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.INSTANT)
)
TIME_OF_DAY, DURATION = one_of(Kind.TIME), one_of(Kind.DURATION)
DATED = one_of(Kind.INSTANT, Kind.TEXT)
CLOCKED = one_of(Kind.INSTANT, Kind.TIME, Kind.TEXT)
ARRAY = one_of(Container.ARRAY)

TAKES_AND_GIVES: dict[str, tuple[tuple[ValueType, ...], ValueType]] = {
    **dict.fromkeys(("lower", "upper", "trim"), ((TEXT,), TEXT)),
    **dict.fromkeys(("||", "concat"), ((TEXT,), TEXT)),
    "substring": ((TEXT, NUMBER, NUMBER), TEXT),
    "length": ((one_of(Kind.TEXT, Kind.BINARY, Container.ARRAY, Container.MAP, Container.OBJECT),), NUMBER),
    **dict.fromkeys(("abs", "floor", "ceil", "round"), ((NUMBER,), NUMBER)),
    **dict.fromkeys(("year", "month", "day", "weekday"), ((DATED,), NUMBER)),
    **dict.fromkeys(("hour", "minute", "second"), ((CLOCKED,), NUMBER)),
    **dict.fromkeys(("date", "as_timestamp"), ((DATED,), INSTANT)),
    "as_time": ((one_of(Kind.TIME, Kind.TEXT),), TIME_OF_DAY),
    "array_contains": ((ARRAY, ANY), BOOLEAN),
    "in_cidr": ((TEXT,), BOOLEAN),
    "within": ((NUMBER, NUMBER, TEXT), BOOLEAN),
    "distance": ((NUMBER,), NUMBER),
    "condition": ((ANY,), BOOLEAN),
    "now": ((), INSTANT),
}
"""What functions take (the last stands for all that follow) and what they give."""

CASTS_GIVE = {
    **dict.fromkeys(("bigint", "double", "decimal"), NUMBER),
    "text": TEXT,
    "boolean": BOOLEAN,
    **dict.fromkeys(("timestamp", "date"), INSTANT),
    "time": TIME_OF_DAY,
}

READS_TEXT = {Kind.INSTANT: read_instant, Kind.TIME: read_time}
"""The kinds that read a text which they meet."""

Report = Callable[[str, str], None]
"""Takes what is wrong with an operation, and what to write instead."""


def type_of_operand(operand: Operand, schema: EventSchema, report: Report) -> ValueType:
    """The type of what a leaf is about; what can be no value of any event is reported."""
    if isinstance(operand, str):
        return schema.type_of(operand) or ANY
    return _type_of(operand, schema, report)


def _type_of(argument: Any, schema: EventSchema, report: Report) -> ValueType:
    if isinstance(argument, AttributeReference):
        return schema.type_of(argument.name) or ANY
    if isinstance(argument, Computation):
        return _of_computation(argument, schema, report)
    kind = kind_of(argument)
    return ANY if kind is None else one_of(kind)


def _of_computation(done: Computation, schema: EventSchema, report: Report) -> ValueType:
    given = [_type_of(each, schema, report) for each in done.arguments]
    match done.function:
        case "+" | "-" | "*" | "/" | "%" | "negative":
            return _of_arithmetic(done, given, report)
        case "coalesce":
            return either(given)
        case "nullif":
            return given[0]
        case "case":
            return either(given[1::2] + given[-1:])
        case "cast":
            return CASTS_GIVE.get(str(done.arguments[1]).partition(" ")[0], ANY)
        case "element":
            return _of_element(done, given, report)
        case "each":
            if not _takes(ARRAY, given[0]):
                report(f"{write_operand(done):.200} looks into {given[0]}, not an array", "name an array")
            return (given[0].element or ANY) if len(given) == 1 else ANY
    takes, gives = TAKES_AND_GIVES.get(done.function, ((ANY,), ANY))
    for number, type_ in enumerate(given):
        wanted = takes[min(number, len(takes) - 1)] if takes else ANY
        if not _takes(wanted, type_):
            report(
                f"{write_operand(done):.200} is null for every event: "
                f"{done.function} takes {wanted}, not {type_}",
                f"give it {wanted}, or cast",
            )
            return ANY
    return _of_membership(done, given, report) if done.function == "array_contains" else gives


def compares(type_: ValueType, literal: Any) -> bool:
    """Whether values of the type and a literal can compare."""
    kinds, kind = type_.kinds or frozenset(), kind_of(literal)
    if kind in kinds or (kind in READS_TEXT and Kind.TEXT in kinds):
        return True
    reads = [READS_TEXT[each] for each in kinds if each in READS_TEXT]
    return kind is Kind.TEXT and any(read(literal) is not None for read in reads)


def kinds_compare(left: ValueType, right: ValueType) -> bool:
    """Whether values of two types, both of known kinds, can compare."""
    mine, theirs = left.kinds or frozenset(), right.kinds or frozenset()
    plain = mine & theirs & set(Kind)
    timed = set(READS_TEXT)
    return bool(plain or (Kind.TEXT in mine and theirs & timed) or (Kind.TEXT in theirs and mine & timed))


def _of_membership(done: Computation, given: list[ValueType], report: Report) -> ValueType:
    """Of `array_contains`, whose first argument is an array: what is looked for must be like its elements."""
    wanted, element = done.arguments[1], given[0].element or ANY
    if element.kinds is None or given[1].kinds is None:
        return BOOLEAN
    is_literal = not isinstance(wanted, AttributeReference | Computation)
    if not (compares(element, wanted) if is_literal else kinds_compare(element, given[1])):
        report(
            f"{write_operand(done):.200} is never true: each element is {element}, not {given[1]}",
            f"look for {element}",
        )
        return ANY
    return BOOLEAN


def _takes(wanted: ValueType, given: ValueType) -> bool:
    return wanted.kinds is None or given.kinds is None or bool(wanted.kinds & given.kinds)


def _of_element(done: Computation, given: list[ValueType], report: Report) -> ValueType:
    if len(given) > 2 and given[2].kinds is not None:
        return given[2]
    container = given[0]
    if container.kinds is not None and not container.kinds & set(Container):
        report(
            f"{write_operand(done):.200} looks into {container}, not an array or a map",
            "name an array or a map",
        )
        return ANY
    return container.element or ANY


def _of_arithmetic(done: Computation, given: list[ValueType], report: Report) -> ValueType:
    if any(type_.kinds is None for type_ in given) or any(
        isinstance(each, Months) for each in done.arguments
    ):
        return ANY
    results = {
        _arithmetic_result(done.function, *pair)
        for pair in (
            [(a, b) for a in given[0].kinds or () for b in given[1].kinds or ()]
            if len(given) == 2
            else [(a, a) for a in given[0].kinds or ()]
        )
    } - {None}
    if not results:
        report(
            f"{write_operand(done):.200} is null for every event: {done.function} does not take "
            + " and ".join(map(str, given)),
            "give it numbers, or cast",
        )
        return ANY
    return one_of(*[kind for kind in results if kind is not None])


def _arithmetic_result(sign: str, left: Kind | Container, right: Kind | Container) -> Kind | None:
    pair = (left, right)
    if pair == (Kind.NUMBER, Kind.NUMBER):
        return Kind.NUMBER
    if sign == "negative":
        return Kind.DURATION if left is Kind.DURATION else None
    if sign in "+-" and set(pair) <= {Kind.INSTANT, Kind.DURATION}:
        if left is right:
            return None if (left, sign) == (Kind.INSTANT, "+") else Kind.DURATION
        return Kind.INSTANT if sign == "+" or left is Kind.INSTANT else None
    return Kind.DURATION if sign == "*" and set(pair) == {Kind.DURATION, Kind.NUMBER} else None
