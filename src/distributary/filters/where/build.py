"""From what a condition's text says to the tree: the meaning of each construct, once its parts are read.

What is read is a `Parsed`: a condition (an expression of `expression`), or an operand: an attribute or an
operation (as `Truth`, for it may be a condition by itself), a literal (`Blank`, its value in `values`), or a
`Constant` (true, false, null, a time, bytes). Operations on constants are computed here.

A literal that stands in an operation, or that decides what the tree looks like, is written into the tree; the
tree then holds for this text alone, and `cacheable` is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn

from distributary.errors import FilterError
from distributary.filters.where import expression as tree
from distributary.filters.where.evaluate import operand_value, regular_expression
from distributary.filters.where.expression import (
    AttributeReference,
    Blank,
    Computation,
    Expression,
    Truth,
    TruthConstant,
    argument_of,
)
from distributary.filters.where.geometry import read_polygon
from distributary.filters.where.like import like_pattern, lowered
from distributary.filters.where.operations import ALIASES, FUNCTIONS, read_network
from distributary.filters.where.tokens import AGGREGATES, CALLS, literal_number
from distributary.filters.where.values import MIRRORED, Several, compare, exact

MAX_OPERATION_DEPTH = 50
"""How deep operations may be nested."""

NOT_A_CONDITION = "a literal is not a condition; compare an attribute with it"
CALLABLE = sorted({name for name in FUNCTIONS if name.isidentifier()} - {"negative", "element", "each"})
PARTS = {"year", "month", "day", "hour", "minute", "second", "weekday"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written into the tree."""

    value: Any


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read: what it means, where it stands, and whether in parentheses or needless quotes."""

    node: Any
    place: int
    enclosed: bool = False


class ConditionBuilder:
    """Makes the tree of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: list[Any] = []
        self.cacheable = True
        """Whether the meaning depends on the shape alone, not on the values of the literals."""
        self.fixed: set[int] = set()
        """The literals on whose values it depends, as far as they may still stand in the tree as blanks."""
        self.literal_places: list[int] = []
        self._depths: dict[Computation, int] = {}

    def refuse(self, reason: str, position: int | None) -> NoReturn:
        """Raise the error that says what is wrong with the text, and where."""
        raise FilterError(reason, field="where", text=self.text, position=position)

    def blank(self, value: Any, place: int) -> Blank | Constant:
        """Note a literal; a decimal, which is rare, is written into the tree."""
        self.values.append(value)
        self.literal_places.append(place)
        if type(value) is Decimal:
            self.cacheable = False
            return Constant(value)
        return Blank(len(self.values) - 1)

    def forget_from(self, count: int) -> None:
        """Forget the literals but the first so many."""
        del self.values[count:], self.literal_places[count:]

    # What a part means

    def condition(self, parsed: Parsed) -> Expression:
        """The part as a condition."""
        node = parsed.node
        if isinstance(node, Constant) and (node.value is None or isinstance(node.value, bool)):
            return TruthConstant(node.value)
        if isinstance(node, (Blank, Constant)):
            self.refuse(NOT_A_CONDITION, parsed.place)
        if isinstance(node, list):
            self.refuse("a list is not a condition; write a in (...)", parsed.place)
        expression: Expression = node
        return expression

    def operand(self, parsed: Parsed) -> tree.Operand:
        """The part as something that is looked at in an event."""
        if not isinstance(parsed.node, Truth):
            self.refuse("an attribute or an operation on attributes is needed here", parsed.place)
        return parsed.node.attribute

    def literal(self, parsed: Parsed) -> tree.Literal:
        """The part as a literal: a blank, or a value."""
        node = parsed.node
        value: tree.Literal = node.value if isinstance(node, Constant) else node
        return value

    def value(self, parsed: Parsed) -> Any:
        """The value of a literal, which is written into the tree."""
        self.cacheable = False
        literal = self.literal(parsed)
        if not isinstance(literal, Blank):
            return literal
        self.fixed.add(literal.index)
        return tree.value_of(literal, tuple(self.values))

    def _filled(self, condition: Expression) -> Expression:
        """A condition within an operation: its literals are written into the tree."""
        self.cacheable = False
        self.fixed |= tree.blanks_in(condition)
        return tree.fill(condition, tuple(self.values))

    def negation(self, part: Expression) -> Expression:
        """NOT, of which two in a row are none."""
        return part.part if isinstance(part, tree.Not) else tree.Not(part)

    def check_depth(self, expression: Expression, place: int) -> None:
        """Refuse what is nested too deep."""
        if tree.depth(expression) > tree.MAX_DEPTH:
            self.refuse(f"is nested more than {tree.MAX_DEPTH} deep", place)

    def _require_operand(self, parsed: Parsed) -> None:
        """Refuse the outcome of a condition, and a list, where a value is needed."""
        if isinstance(parsed.node, (Truth, Blank, Constant)):
            return
        self.refuse(
            "only attributes, operations and literals can be compared, not the outcome of a condition; "
            "join conditions with and, or, not",
            parsed.place,
        )

    # Predicates

    def comparison(self, left: Parsed, operator: str, right: Parsed) -> Expression:
        """`left operator right`."""
        self._require_operand(left)
        self._require_operand(right)
        if right.enclosed and isinstance(right.node, Truth) and isinstance(right.node.attribute, str):
            self._check_quotes(right)
        if isinstance(left.node, Truth) and isinstance(right.node, Truth):
            return tree.CompareAttributes(left.node.attribute, operator, right.node.attribute)
        if isinstance(left.node, Truth):
            return self._with_literal(left.node.attribute, operator, right)
        if isinstance(right.node, Truth):
            return self._with_literal(right.node.attribute, MIRRORED[operator], left)
        return TruthConstant(compare(self.value(left), operator, self.value(right)))

    def _with_literal(self, operand: tree.Operand, operator: str, literal: Parsed) -> tree.Compare:
        """A comparison with a literal; a distance is written into the tree, which bounds the place by it."""
        is_distance = isinstance(operand, Computation) and operand.function == "distance"
        return tree.Compare(operand, operator, self.value(literal) if is_distance else self.literal(literal))

    def _check_quotes(self, parsed: Parsed) -> None:
        if self.text[parsed.place : parsed.place + 1] == '"':
            name = parsed.node.attribute
            self.refuse(
                f"\"{name}\" names an attribute; write '{name}' for the text, or {name} for the attribute",
                parsed.place,
            )

    def between(self, value: Parsed, low: Parsed, high: Parsed) -> Expression:
        """`value between low and high`; unless it is an attribute between two literals, two comparisons."""
        simple = not isinstance(low.node, Truth) and not isinstance(high.node, Truth)
        if isinstance(value.node, Truth) and simple:
            self._require_operand(low)
            self._require_operand(high)
            bounds = self.literal(low), self.literal(high)
            alike = type(bounds[0]) is type(bounds[1]) or not (_is_time(bounds[0]) or _is_time(bounds[1]))
            if alike or _is_several(value.node.attribute):
                return tree.Between(value.node.attribute, *bounds)
        return tree.conjunction_of([self.comparison(value, ">=", low), self.comparison(value, "<=", high)])

    def is_in(self, value: Parsed, items: list[Parsed]) -> Expression:
        """`value in (items)`; with attributes among the items, comparisons with each."""
        for item in items:
            self._require_operand(item)
        if not any(isinstance(item.node, Truth) for item in items):
            if not isinstance(value.node, Truth):
                self.refuse("IN must follow an attribute", value.place)
            return tree.In(value.node.attribute, tuple([self.literal(item) for item in items]))
        return tree.disjunction_of([self.comparison(value, "=", item) for item in items])

    def pattern(self, value: Parsed, word: str, pattern: Parsed, escape: Parsed | None) -> Expression:
        """LIKE, ILIKE or REGEXP."""
        if not isinstance(value.node, Truth):
            self.refuse(f"{word.upper()} must follow an attribute", value.place)
        operand = value.node.attribute
        for part in (pattern, escape):
            if part is not None and not isinstance(self._peeked(part), str):
                self.refuse(f"{word.upper()} needs a string to compare with", part.place)
        try:
            if word in ("regexp", "rlike"):
                regular_expression(self.value(pattern))
                return tree.MatchesPattern(operand, self.value(pattern))
            if word == "ilike":
                folded = lowered(self.value(pattern), None if escape is None else self.value(escape))
                return tree.Like(self._operation("lower", (argument_of(operand),), value.place), *folded)
            like_pattern(self._peeked(pattern), None if escape is None else self._peeked(escape))
        except FilterError as error:
            self.refuse(error.reason, pattern.place)
        if escape is None:
            return tree.Like(operand, self.literal(pattern))  # type: ignore[arg-type]
        for part in (pattern, escape):
            self.value(part)  # whether they go together depends on both
        return tree.Like(operand, self.literal(pattern), self.literal(escape))  # type: ignore[arg-type]

    def _peeked(self, parsed: Parsed) -> Any:
        """The value of a literal, which stays a blank; None for anything else."""
        if not isinstance(parsed.node, (Blank, Constant)):
            return None
        return tree.value_of(self.literal(parsed), tuple(self.values))

    def is_truth(self, value: Parsed, word: str) -> Expression:
        """`value is null`, `is true`, `is false` or `is unknown`."""
        node = value.node
        if isinstance(node, (Blank, Constant)):
            return TruthConstant(self.value(value) is {"true": True, "false": False}.get(word))
        if isinstance(node, TruthConstant):  # a comparison of two literals
            return TruthConstant(node.truth is {"true": True, "false": False}.get(word))
        operand = node.attribute if isinstance(node, Truth) else self.outcome(self.condition(value))
        if word == "unknown" and isinstance(node, Truth):
            operand = self.outcome(tree.Compare(node.attribute, "=", True))
        if word in ("null", "unknown"):
            return tree.IsNull(operand)
        return tree.IsTruth(operand, word == "true")

    def outcome(self, condition: Expression) -> Computation:
        """The truth of a condition as an operand."""
        return self._operation("condition", (self._filled(condition),), 0)

    def is_distinct(self, left: Parsed, right: Parsed) -> Expression:
        """`left is distinct from right`: never unknown; null is not distinct from null."""
        self._require_operand(left)
        self._require_operand(right)
        sides = [part for part in (left, right) if isinstance(part.node, Truth)]
        if not sides:
            self.refuse("IS must follow an attribute", left.place)
        if len(sides) == 1:
            other = right if sides[0] is left else left
            if isinstance(other.node, Constant) and other.node.value is None:
                return tree.Not(tree.IsNull(sides[0].node.attribute))
        same: Expression = tree.IsTruth(self.outcome(self.comparison(left, "=", right)), True)
        if len(sides) == 2:
            missing = tree.conjunction_of([tree.IsNull(part.node.attribute) for part in sides])
            same = tree.disjunction_of([same, missing])
        return tree.Not(same)

    # Operations

    def arithmetic(self, sign: str, *parts: Parsed) -> Truth | Constant:
        """`left sign right`, or the negative of a part."""
        for part in parts:
            if not isinstance(part.node, (Truth, Blank, Constant)):
                words = (
                    "|| joins texts; write or between conditions" if sign == "||" else f"{sign} takes values"
                )
                self.refuse(f"{words}, not the outcome of a condition", part.place)
        return self._applied(sign, parts)

    def call(self, name: str, parts: list[Parsed], place: int) -> Any:
        """A function's call."""
        if name == "now" and not parts:
            self.cacheable = False
            return Truth(Computation("now"))
        if name in ("any", "some") and len(parts) == 1:
            return self._applied("each", parts)
        if name == "extract" and len(parts) == 2:
            return self._extract(parts)
        if name == "if" and len(parts) == 3:
            return self.case(list(zip(("then", "else", "end"), parts, strict=True)), place)
        function = ALIASES.get(name, "cast" if name == "try_cast" else name)
        known = FUNCTIONS.get(function) if function.isidentifier() else None
        if known is None or function in ("negative", "element", "each"):
            self._refuse_call(name, place)
        if not known.least <= len(parts) <= known.most:
            counts = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
            self.refuse(f"{name}(...) takes {counts} arguments, not {len(parts)}", place)
        self._check_arguments(function, parts)
        return self._applied(function, parts)

    def _refuse_call(self, name: str, place: int) -> NoReturn:
        if name in AGGREGATES:
            self.refuse(f"{name}(...) is over many events; a condition sees one. Write a query", place)
        if name == "if":
            self.refuse("if is written as if(condition, value, otherwise)", place)
        known = [*CALLABLE, "extract", "if", "now"]
        near = get_close_matches(name, [*known, *ALIASES], 1, 0.7)
        hint = f"did you mean {near[0]}(...)?" if near else f"there are {', '.join(known)}"
        self.refuse(f"the function {name}(...) is not supported; {CALLS.get(name, hint)}", place)

    def _check_arguments(self, function: str, parts: list[Parsed]) -> None:
        """Refuse a type, a polygon or a block of addresses that is none."""
        if function == "cast" and not (
            isinstance(parts[1].node, Constant) and isinstance(parts[1].node.value, str)
        ):
            self.refuse("cast is written as cast(a as bigint)", parts[1].place)
        if function == "within":
            given = self._peeked(parts[2])
            if not isinstance(given, str):
                self.refuse(
                    "within(latitude, longitude, polygon) needs its polygon as a text", parts[2].place
                )
            try:
                read_polygon(given)
            except FilterError as error:
                self.refuse(error.reason, parts[2].place)
        if function == "in_cidr" and isinstance(parts[1].node, (Blank, Constant)):
            given = self._peeked(parts[1])
            if not isinstance(given, str) or read_network(given) is None:
                self.refuse("in_cidr(address, block) needs a block such as '10.0.0.0/8'", parts[1].place)

    def _extract(self, parts: list[Parsed]) -> Any:
        field = parts[0].node
        name = (
            field.attribute.lower() if isinstance(field, Truth) and isinstance(field.attribute, str) else ""
        )
        name = {"isodow": "weekday", "dow": "weekday"}.get(name, name)
        if name not in PARTS:
            self.refuse(f"extract takes one of {', '.join(sorted(PARTS))} from a timestamp", parts[0].place)
        self.forget_name(parts[0].place)
        return self._applied(name, parts[1:])

    def forget_name(self, place: int) -> None:
        """Forget that the word at this place was taken for an attribute."""

    def case(self, parts: list[tuple[str, Parsed]], place: int) -> Any:
        """`case when a then b else c end`: each part with the word that follows it."""
        words = [word for word, _ in parts]
        # The word behind a part tells what it is: a condition ends with then, a value with when, else or end.
        ends = ["then" if number % 2 == 0 else "when" for number in range(len(words) - 1)] + ["end"]
        has_else = len(words) % 2 == 1
        if has_else and len(words) > 1:
            ends[-2] = "else"
        if words != ends or len(words) < 2:
            self.refuse("case is written as case when a then b else c end", place)
        arguments: list[Any] = []
        for number, (_, part) in enumerate(parts):
            is_test = number % 2 == 0 and not (has_else and number == len(parts) - 1)
            arguments.append(self._test(part) if is_test else self._argument_of(part))
        if not has_else:
            arguments.append(None)
        return Truth(self._operation("case", tuple(arguments), place))

    def _test(self, part: Parsed) -> Expression:
        return self._filled(self.condition(part))

    def subscript(self, base: Parsed, key: Parsed | None, place: int) -> Any:
        """`base[key]`, or `base[*]` when the key is None."""
        operand = self.operand(base)
        self.cacheable = False
        if key is None:
            if _is_several(operand):
                self.refuse("[*] may stand once", place)
            return Truth(self._operation("each", (argument_of(operand),), place))
        given = self._peeked(key)
        if isinstance(given, bool) or not isinstance(given, (str, int)):
            self.refuse("a key is a text or a whole number, as in props['utm'] or items[0]", key.place)
        if isinstance(given, int) and given < 0:
            self.refuse("elements are counted from the first, which is items[0]", key.place)
        if isinstance(operand, Computation) and operand.function == "each":
            return Truth(self._operation("each", (*operand.arguments, given), place))
        arguments: tuple[Any, ...] = (argument_of(operand), given)
        flat = _flat_name(operand)
        if isinstance(given, str) and flat is not None:
            arguments += (AttributeReference(f"{flat}.{given}"),)
            self.note_name(f"{flat}.{given}", place)
        return Truth(self._operation("element", arguments, place))

    def note_name(self, name: str, place: int) -> None:
        """Note an attribute that is looked at without being named."""

    def _argument_of(self, part: Parsed) -> Any:
        """A part as an argument of an operation."""
        self._require_operand(part)
        if isinstance(part.node, Truth):
            return argument_of(part.node.attribute)
        value = self.value(part)
        return exact(value) if type(value) is float else value

    def _applied(self, function: str, parts: Any) -> Truth | Constant:
        """The operation; computed if nothing in it depends on the event."""
        self.cacheable = False
        arguments = tuple([self._argument_of(part) for part in parts])
        operation = self._operation(function, arguments, parts[0].place)
        if any(isinstance(argument, (AttributeReference, Computation)) for argument in arguments):
            return Truth(operation)
        value = operand_value(operation, {})
        if isinstance(value, Several):
            self.refuse("any(...) takes an attribute that holds an array", parts[0].place)
        return Constant(literal_number(value) if type(value) is Decimal else value)

    def _operation(self, function: str, arguments: tuple[Any, ...], place: int) -> Computation:
        depth = 1 + max(map(self._depth_of, arguments), default=0)
        if depth > MAX_OPERATION_DEPTH:
            self.refuse(f"operations are nested more than {MAX_OPERATION_DEPTH} deep", place)
        operation = Computation(function, arguments)
        self._depths[operation] = depth
        return operation

    def _depth_of(self, argument: Any) -> int:
        if isinstance(argument, Computation):
            return self._depths.get(argument, 1)
        if not isinstance(argument, tree.CONDITIONS):
            return 0
        operands = [operand for leaf in tree.leaves(argument) for operand in tree.operands_of(leaf)]
        return tree.depth(argument) + max(map(self._depth_of, operands), default=0)


def _is_time(literal: Any) -> bool:
    return not (literal is None or isinstance(literal, (str, int, float, Decimal, bool, Blank)))


def _is_several(operand: tree.Operand) -> bool:
    return isinstance(operand, Computation) and operand.function == "each"


def _flat_name(operand: tree.Operand) -> str | None:
    """The dotted name under which a nested value is an attribute by itself."""
    if isinstance(operand, str):
        return operand
    if operand.function == "element" and len(operand.arguments) == 3:
        return str(operand.arguments[2].name)
    return None
