"""Reading path filters by their shape: from the text to a template and the values that fill it.

Elementpath knows XPath's grammar but takes some 200 microseconds a path, and very many subscriptions differ
in nothing but the literals of their comparisons. So a text is first cut into its *shape* (the text with a
mark in the place of every literal) and its literals; a text of an unknown shape is parsed in full, and the
shape is remembered with the template it gave. A known shape costs one regular expression over the text. A
shape that is new may still be made of known pieces: `pieces` cuts the names out too.

Rules of this module:

- Reading by shape gives what parsing the text in full gives. Errors are found by parsing in full alone.
- A literal is cut out only where no grammar could read it as part of something else: a number between
  operators, brackets and white space, a string between its quotes. What stands inside `Q{}` is a name.
- A shape is remembered only when its text was accepted, when the literals cut out are exactly the operands
  the parser found, and when their values are those it read.
- No shape with a quote left in it is remembered (`Q{it's}a`): what such a quote pairs with for the parser
  depends on the literals. The same holds for the sign of a comment.
- The number of shapes remembered is bounded, and so is the length of each.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import NamedTuple

from distributary.errors import FilterError
from distributary.filters.path.parse import MAX_LENGTH, parse_with_places
from distributary.filters.path.pattern import EQUALITIES, LocationPath, number
from distributary.filters.path.pieces import (
    NEGATIVE_MARK,
    NUMBER_MARK,
    TEXT_MARK,
    Pieces,
    composed,
    forget_pieces,
    learn,
    pieces_of,
)
from distributary.filters.path.template import Composition, PathTemplate, Values, comparisons_in

CACHED_SHAPES = 4096
CACHED_LENGTH = 1000
NUMBER_LENGTH = 400
"""No double takes more characters when written without an exponent."""

UNSAFE = re.compile(r"""['"]|\(:""")

# The first character selects the branch, so that the search runs over the text between literals without
# trying anything.
LITERAL = re.compile(
    r"""(['"Q\-.0-9](?:"""
    r"""(?<=')(?:[^']++|'')*+'(?!')|(?<=")(?:[^"]++|"")*+"(?!")|(?<=Q)\{[^{}]*+\}"""
    r"""|(?<=[ \t\r\n=<>(\[].)(?:(?<=[0-9])[0-9]*+(?:\.[0-9]*+)?|(?<=\.)[0-9]++"""
    r"""|(?<=-)(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))(?:[eE][+\-]?[0-9]++)?(?=[ \t\r\n=<>!)\]])))"""
)
_cut = LITERAL.split


class PathShape(NamedTuple):
    """What a text means when its literals are left out."""

    template: PathTemplate | Composition
    names: tuple[str, ...]
    """The names that fill the template; none when it has its own."""
    literals: int
    """How many literals the text has; all of them fill the template."""
    selection: tuple[int, ...] | None
    """Which of them fills each place of the template; None when they do so in the order written."""
    ordered: tuple[int, ...]
    """The places of strings that are compared as numbers, if they are numbers."""
    may_repeat: bool
    """Whether some literals make two branches equal."""
    certain_length: int
    """A text that is no longer is not too long, nor is its canonical text."""


_shapes: dict[str, PathShape] = {}


def read_path(text: str) -> tuple[PathTemplate | Composition, Values]:
    """The template and the values of a path filter; FilterError when it is not one."""
    parts = _cut(text)
    values: list[str | float] = []
    sound = True
    for place in range(1, len(parts), 2):
        literal = parts[place]
        quote = literal[0]
        if quote == "'" or quote == '"':
            value = literal[1:-1]
            if quote in value:
                value = value.replace(quote + quote, quote)
                sound = sound and ("'" not in value or '"' not in value)
            values.append(value)
            parts[place] = TEXT_MARK
        elif quote != "Q":
            # Adding zero turns the negative zero into the only one.
            found = float(literal) + 0.0
            sound = sound and -inf < found < inf
            values.append(found)
            parts[place] = NEGATIVE_MARK if quote == "-" else NUMBER_MARK
    key = "".join(parts)
    shape = _shapes.get(key)
    # Each mark of a remembered shape is a literal's. So it is in a text of that shape with as many literals.
    if shape is not None and shape.literals == len(values) and sound:
        filling = _filling(shape, values)
        if _is_certain(shape, filling, text):
            return shape.template, filling
    return _read_by_pieces(text, key, values) if sound else _read_anew(text, key, None, None)


def forget_shapes() -> None:
    """Empty the caches."""
    _shapes.clear()
    forget_pieces()


def _filling(shape: PathShape, literals: list[str | float]) -> Values:
    """What the template takes: names, and literals in its order, numbers where it compares numbers."""
    if shape.selection is not None:
        literals = [literals[index] for index in shape.selection]
    if not shape.ordered:
        return (*shape.names, *literals)
    filling = literals.copy()
    for place in shape.ordered:
        found = number(str(literals[place]))
        if isfinite(found):
            filling[place] = found + 0.0
    return (*shape.names, *filling)


def _is_certain(shape: PathShape, values: Values, text: str) -> bool:
    """Whether the values give a filter that parsing the text would give as well."""
    if len(text) > shape.certain_length and (
        len(text) > MAX_LENGTH or len(shape.template.text(values)) > MAX_LENGTH
    ):
        return False
    return not shape.may_repeat or _all_differ(shape.template.branches(values))


def _all_differ(branches: tuple[LocationPath, ...]) -> bool:
    return len(set(branches)) == len(branches)


def _read_by_pieces(
    text: str, key: str, literals: list[str | float]
) -> tuple[PathTemplate | Composition, Values]:
    """Read a text of an unknown shape: put it together from known pieces, or parse it."""
    pieces = pieces_of(text, key)
    found = None if pieces is None else composed(pieces)
    if pieces is None or found is None:
        return _read_anew(text, key, pieces, literals)
    shape = _composed_shape(found, pieces.names, len(literals))
    values = _filling(shape, literals)
    if not _is_certain(shape, values, text):
        return _read_anew(text, key, None, literals)
    _remember(key, shape)
    return shape.template, values


def _read_anew(
    text: str, key: str, pieces: Pieces | None, literals: list[str | float] | None
) -> tuple[PathTemplate | Composition, Values]:
    """Parse a text in full, and remember its shape, and those of its pieces, when there is no doubt."""
    branches, places = parse_with_places(text)
    shape = None if literals is None else _shape_of(text, key, branches, places, literals)
    if shape is not None and literals is not None and pieces is not None and shape.selection is None:
        found = learn(pieces, branches)
        shape = shape if found is None else _composed_shape(found, pieces.names, len(literals))
    template = PathTemplate(branches) if shape is None else shape.template
    values = () if shape is None or literals is None else _filling(shape, literals)
    length = len(template.text(values))
    if length > MAX_LENGTH:
        reason = f"has {length} characters when written in full; at most {MAX_LENGTH} are kept"
        raise FilterError(reason, field="path", text=text)
    if shape is not None:
        _remember(key, shape)
    return template, values


def _remember(key: str, shape: PathShape) -> None:
    if len(_shapes) >= CACHED_SHAPES:
        _shapes.clear()
    _shapes[key] = shape


def _composed_shape(
    found: tuple[Composition, tuple[int, ...]], names: tuple[str, ...], literals: int
) -> PathShape:
    composition, ordered = found
    certain_length = MAX_LENGTH - composition.length - NUMBER_LENGTH * literals
    return PathShape(composition, names, literals, None, ordered, False, certain_length)


def _shape_of(
    text: str, key: str, branches: tuple[LocationPath, ...], places: list[int], literals: list[str | float]
) -> PathShape | None:
    """The shape of a text that has been parsed; None when it should not be remembered."""
    starts = [found.start() for found in LITERAL.finditer(text) if found[0][0] != "Q"]
    comparisons = comparisons_in(branches)
    marks = sum(map(key.count, (NUMBER_MARK, NEGATIVE_MARK, TEXT_MARK)))
    if (
        len(key) > CACHED_LENGTH
        or UNSAFE.search(key)
        or sorted(places) != starts
        or not len(starts) == len(comparisons) == marks
    ):
        return None
    selection = tuple(map(starts.index, places))
    ordered = tuple(
        place
        for place, (index, comparison) in enumerate(zip(selection, comparisons, strict=True))
        if isinstance(literals[index], str) and comparison.operator not in EQUALITIES
    )
    template = PathTemplate(branches, len(starts))
    shape = PathShape(
        template,
        (),
        len(starts),
        None if places == starts else selection,
        ordered,
        len(branches) > 1 and not _all_differ(template.branches(("",) * len(starts))),
        MAX_LENGTH - template.length - NUMBER_LENGTH * len(starts),
    )
    return shape if _filling(shape, literals) == tuple(each.literal for each in comparisons) else None
