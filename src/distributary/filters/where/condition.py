"""Conditions by their shape: from SQL text to a template and the names and literals that fill it.

Reading a condition anew takes several times as long as looking it up, and very many subscriptions differ
in nothing but their literals, or in literals and names. So a text is first cut into its *shape* (the text
with every literal taken out) and its literals; the shape is read once (see `parse`), into a
`ConditionTemplate`, and found in a bounded cache after that. A shape that is new but for its names is found
in a second cache, in which names are taken out too. Where the values of some literals matter to how a text
is read (those in operations, above all), a third cache has what was read by the shape and these values.
Whether a text is read anew or by its shape makes no difference to what comes out.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import count
from sys import intern
from typing import Any, NamedTuple

from distributary.errors import FilterError
from distributary.filters.where import expression as tree
from distributary.filters.where import tokens
from distributary.filters.where.expression import Blank, Expression
from distributary.filters.where.like import MAX_PATTERN
from distributary.filters.where.normal_form import NormalForm, may_have_residue
from distributary.filters.where.parse import MAX_LENGTH, ConditionReader
from distributary.filters.where.selectivity import guess, spans
from distributary.filters.where.tokens import NAME_MARK, NUMBER_MARK, TEXT_MARK
from distributary.filters.where.write import (
    BLANK_MARK,
    KEYWORDS,
    SPECIAL_VALUES,
    write,
    write_literal,
    write_name,
)
from distributary.model import surrogate_in

CACHED_SHAPES = 4096
CACHED_LENGTH = 4000
"""Longer shapes are not worth the memory."""

split_literals = re.compile(f"({tokens.LITERAL})", re.DOTALL).split
split_literals_and_quoted_names = re.compile(f"({tokens.QUOTED_NAME}|{tokens.LITERAL})", re.DOTALL).split

PLAIN_LENGTH = 16
"""A number of no more characters is an integer, or a double whose shortest text it is."""

split_names = re.compile(r"([^\W\d]\w*+(?:\.[^\W\d]\w*+)*+)").split


class ConditionTemplate:
    """A condition without its literals and names: with a tuple of each, it is a condition.

    In its expression each attribute is called by its number, and each literal is a blank.
    """

    __slots__ = (
        "_format",
        "_normal_form",
        "_order",
        "expression",
        "has_residue",
        "looks_at_clock",
        "present",
        "selectivity",
        "spans",
    )

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.present = tree.attributes_asked_for(expression)
        """The attributes of which it matters whether they are there, whatever their value."""
        self.looks_at_clock = tree.calls(expression, "now")
        # What stands in the tree may look like a place: then the text is written anew for each filter.
        is_plain = not any(isinstance(fixed, str) for fixed in tree.fixed_literals(expression))
        written = write(expression).replace("%", "%%") if is_plain else ""
        literals = count()
        self._order = [~int(name) if name else next(literals) for name in WRITTEN_PLACE.findall(written)]
        """What fills the format: a literal by its number, a name by the complement of its number."""
        self._format = WRITTEN_PLACE.sub("%s", written)
        self._normal_form: NormalForm | None = None
        self.selectivity = guess(expression)
        self.spans = spans(expression)
        self.has_residue = may_have_residue(expression)

    def text(self, names: tuple[str, ...], values: tuple[Any, ...]) -> str:
        """The canonical text of the condition."""
        if not self._format:
            return write(self.filled(names, values))
        return self._format % tuple(
            [write_literal(values[i]) if i >= 0 else write_name(names[~i]) for i in self._order]
        )

    def pieces(self, names: tuple[str, ...]) -> list[str | int] | None:
        """The canonical text: fixed texts and, in between, the numbers of the values written there.

        None when the text depends on the values in another way.
        """
        fixed = self._format.split("%s")
        if not self._format or "%" in "".join(fixed):
            return None
        pieces: list[str | int] = [fixed[0]]
        for place, following in zip(self._order, fixed[1:], strict=True):
            if place >= 0:
                pieces.append(place)
                pieces.append(following)
            else:
                pieces[-1] = f"{pieces[-1]}{write_name(names[~place])}{following}"
        return pieces

    def filled(self, names: tuple[str, ...], values: tuple[Any, ...]) -> Expression:
        """The condition as a tree."""
        return tree.rebuilt(
            self.expression,
            lambda literal: values[literal.index] if type(literal) is Blank else literal,
            lambda number: names[int(number)],
        )

    @property
    def normal_form(self) -> NormalForm:
        """How conjunctions are made of values; worked out once."""
        if self._normal_form is None:
            self._normal_form = NormalForm(self.expression)
        return self._normal_form


WRITTEN_PLACE = re.compile(f'"([0-9]+)"|{BLANK_MARK}')
"""Where a template's text has a name (a number is quoted) or a literal; nothing else of it has quotes."""


class ConditionShape(NamedTuple):
    """What a text means when its literals, and perhaps its names, are left out."""

    template: ConditionTemplate
    places: int
    """How many marks stand in the shape."""
    selection: tuple[int, ...] | None
    """Which of the literals fill the template, in its order; None when all do, in theirs."""
    names: tuple[str, ...]
    fixed: tuple[int, ...] = ()
    """The literals whose values are in the template: it means this with these values alone."""


Condition = tuple[ConditionTemplate, tuple[str, ...], tuple[Any, ...]]
"""A template, the names of its attributes, and the values of its blanks."""

_shapes: dict[str, ConditionShape] = {}
_nameless_shapes: dict[str, ConditionShape] = {}
_fixed_shapes: dict[Any, ConditionShape] = {}


def read_condition(text: str) -> Condition:
    """The parts of a condition; FilterError when the text is not one."""
    if len(text) > MAX_LENGTH or not text.isascii():
        _check_characters(text)
    key, values = _cut(text)
    shape = _shapes.get(key)
    if shape is not None and shape.fixed and shape.places == len(values):
        shape = _fixed_shapes.get(_fixed_key(key, shape.fixed, values))
    # No valid text has a mark outside a literal, so an equal count means that each mark is a literal's.
    if shape is None or shape.places != len(values) or None in values:
        return _read_names(text, key, values)
    return shape.template, shape.names, _selected(values, shape.selection)


def shape_of(text: str) -> ConditionShape | None:
    """What a condition means when its literals are left out; None when that depends on the literals.

    >>> shape_of("price > 8.3 and symbol = 'OTE'").names
    ('price', 'symbol')
    """
    read_condition(text)
    key, values = _cut(text)
    shape = _shapes.get(key)
    is_known = shape is not None and not shape.fixed and shape.places == len(values) and None not in values
    return shape if is_known else None


def _fixed_key(key: str, fixed: tuple[int, ...], values: list[Any]) -> Any:
    """What tells texts of one shape apart whose literals are read into the tree."""
    chosen = [values[index] for index in fixed]
    return key, fixed, tuple(chosen), tuple(map(type, chosen))


def _cut(text: str) -> tuple[str, list[Any]]:
    """The text with marks in place of its literals, and their values; None for those that are read anew."""
    parts = split_literals(text) if '"' not in text else split_literals_and_quoted_names(text)
    values: list[Any] = []
    for place in range(1, len(parts), 2):
        literal = parts[place]
        first = literal[0]
        if first == "'":
            value: Any = literal[1:-1] if len(literal) <= MAX_PATTERN else None  # long ones are read anew
            values.append(value.replace("''", "'") if value and "'" in value else value)
            parts[place] = TEXT_MARK
        elif first != '"':
            if len(literal) > PLAIN_LENGTH or first == "-" or "e" in literal or "E" in literal:
                number = tokens.read_number(literal)
                values.append(None if type(number) is Decimal else number)  # decimals are in the tree
            else:
                values.append(float(literal) if "." in literal else int(literal))
            parts[place] = NUMBER_MARK
    return "".join(parts), values


def template_of(expression: Expression) -> Condition:
    """The parts of a condition that was not read but made."""
    names: dict[str, int] = {}
    values: list[Any] = []

    def next_blank(literal: Any) -> Any:
        if type(literal) not in (str, int, float):
            return literal
        values.append(literal)
        return Blank(len(values) - 1)

    numbered = tree.rebuilt(expression, next_blank, lambda name: str(names.setdefault(name, len(names))))
    return ConditionTemplate(numbered), tuple(names), tuple(values)


def forget_shapes() -> None:
    """Empty the cache."""
    _shapes.clear()
    _nameless_shapes.clear()
    _fixed_shapes.clear()


def _selected(values: list[Any], selection: tuple[int, ...] | None) -> tuple[Any, ...]:
    return tuple(values) if selection is None else tuple([values[index] for index in selection])


def _read_names(text: str, key: str, values: list[Any]) -> Condition:
    """Read a text whose shape is not known; it may still be known when the names are left out too."""
    names: dict[str, int] = {}
    places = len(values)
    parts = split_names(key)
    special = False
    for place in range(1, len(parts), 2):
        name = parts[place]
        special |= name.lower() in SPECIAL_VALUES
        if name.lower() not in KEYWORDS:
            parts[place] = f"{NAME_MARK}{names.setdefault(intern(name), len(names))};"
            places += 1
    nameless = "".join(parts)
    shape = _nameless_shapes.get(nameless)
    if shape is None or special or shape.places != places or None in values or '"' in text:
        return _read_anew(text, key, nameless, values)
    found = tuple(names)
    _remember(_shapes, key, ConditionShape(shape.template, len(values), shape.selection, found))
    return shape.template, found, _selected(values, shape.selection)


def _read_anew(text: str, key: str, nameless: str, found: list[Any]) -> Condition:
    """Read a text of which nothing is known, and remember the shape."""
    reader = ConditionReader(text)
    expression = reader.read()
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in reader.names))}
    used: list[int] = []
    template = ConditionTemplate(_renumbered(expression, used, names))
    condition = template, tuple(names), tuple([reader.values[index] for index in used])
    if reader.cacheable and found == reader.values:
        selection = None if used == list(range(len(found))) else tuple(used)
        _remember(_shapes, key, ConditionShape(template, len(found), selection, tuple(names)))
        if '"' not in text:
            places = len(found) + len(reader.names)
            _remember(_nameless_shapes, nameless, ConditionShape(template, places, selection, ()))
    elif found == reader.values and len(key) <= CACHED_LENGTH:
        fixed = tuple(sorted(reader.fixed | set(range(len(found))) - set(used)))
        shape = ConditionShape(template, len(found), tuple(used), tuple(names), fixed)
        _remember(_shapes, key, shape)
        if fixed:
            _remember(_fixed_shapes, _fixed_key(key, fixed, found), shape)
    return condition


def _remember(shapes: dict[Any, ConditionShape], key: Any, shape: ConditionShape) -> None:
    if len(key) <= CACHED_LENGTH:
        if len(shapes) >= CACHED_SHAPES:
            shapes.clear()
        shapes[key] = shape


def _check_characters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise FilterError(f"is longer than {MAX_LENGTH} characters", field="where", text=text)
    if (position := surrogate_in(text)) is not None:
        raise FilterError("half a surrogate pair", field="where", text=text, position=position)


def _renumbered(expression: Expression, used: list[int], names: dict[str, int]) -> Expression:
    """Number the blanks as they are written, and note which they were; number the names."""

    def next_blank(blank: Any) -> Any:
        if type(blank) is not Blank:
            return blank
        used.append(blank.index)
        return Blank(len(used) - 1)

    return tree.rebuilt(expression, next_blank, lambda name: str(names[name]))
