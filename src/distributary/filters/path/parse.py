"""From the text of a path filter to tree patterns.

Elementpath's XPath 3.0 grammar reads the text (3.0, for it knows `Q{uri}name`), and its token tree is walked
here into the forms of `pattern`. A branch that is no tree pattern is read by `read_xpath`, as the path that
it is and as the pattern that it implies (see `twig`). What that does not know is refused where it stands.

Rules:

- Elementpath evaluates an expression while parsing it, as far as it can without a document; `1 to 1000000000`
  would then fill the memory. Only its grammar is run here.
- The text has at most `MAX_LENGTH` characters and `MAX_NESTING` brackets inside one another, and a path at
  most `MAX_STEPS` steps, so that neither the grammar nor any walk over a pattern can run out of stack.
- A string literal on the other side of `<` and the like is compared as a number, so it is read as one.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, NoReturn

from distributary.errors import FilterError
from distributary.filters.path import pattern
from distributary.filters.path.pattern import Axis, LocationPath, PathStep, Predicate
from distributary.filters.path.read_xpath import (
    MIRRORED,
    NUMBERS,
    XPathReader,
    bare,
    double_of,
    name_of,
    operands,
)
from distributary.filters.path.twig import implied_pattern
from distributary.filters.path.xpath import steps_of

MAX_LENGTH = 4096
"""Characters of a filter's text."""
MAX_NESTING = 32
"""Brackets and parentheses inside one another."""
MAX_STEPS = 256
"""Steps of one path, those in its predicates included."""

ALLOWED = (
    "a path is made of names, *, @name, node tests, axes, /, // and predicates; a predicate of paths, and, "
    "or, not(), positions, comparisons, calculations and the functions of XPath 1.0"
)

OPERATOR_WORDS = frozenset(
    {"acos", "and", "as", "asin", "atan", "atan2", "cast", "castable", "cos", "div", "else", "eq", "every"}
    | {"except", "exp", "exp10", "for", "ge", "gt", "idiv", "if", "in", "instance", "intersect", "is", "le"}
    | {"let", "log", "log10", "lt", "mod", "ne", "of", "or", "pi", "pow", "return", "satisfies", "sin"}
    | {"some", "sqrt", "tan", "then", "to", "treat", "union"}
)
"""The words that the grammar may read as operators wherever they stand: `and`, `div`, `to` and so on. Every
other word is a name, unless `(` or `::` comes after it."""

_QUOTED_OR_BRACKET = re.compile(r"""'[^']*'|"[^"]*"|Q\{[^{}]*\}|\(:|[][()]""")


def parse_branches(text: str) -> tuple[LocationPath, ...]:
    """The location paths of a union, each once, in the order written.

    >>> parse_branches("item/@id")
    (LocationPath(steps=(PathStep(axis=<Axis.DESCENDANT: '//'>, label='item', predicates=()), \
PathStep(axis=<Axis.CHILD: '/'>, label='@id', predicates=())), exact=None),)
    """
    return parse_with_places(text)[0]


def parse_with_places(text: str) -> tuple[tuple[LocationPath, ...], list[int]]:
    """The location paths, and where the literals of their comparisons stand, as the canonical text has them.

    A branch that is written twice is kept once, but its literals count each time.

    >>> parse_with_places("a[2 > b[c = 5]]")[1]
    [12, 2]
    """
    # Loaded when the first path is read: elementpath takes 18 MB, and most brokers read no paths.
    from distributary.filters.path.grammar import tokens

    _check_bounds(text)
    walk = _Walk(text)
    return walk.branches(tokens(text, ALLOWED)), walk.places


def _check_bounds(text: str) -> None:
    if len(text) > MAX_LENGTH:
        reason = f"has {len(text)} characters; at most {MAX_LENGTH} are read"
        raise FilterError(reason, field="path", text=text)
    depth = 0
    for found in _QUOTED_OR_BRACKET.finditer(text):
        if found[0] in ("(", "["):
            depth += 1
        elif found[0] in (")", "]"):
            depth -= 1
        elif found[0] == "(:":
            raise FilterError("comments are not read", field="path", text=text, position=found.start())
        if depth > MAX_NESTING:
            reason = f"brackets are nested more than {MAX_NESTING} deep"
            raise FilterError(reason, field="path", text=text, position=found.start())


class _NotATreeError(Exception):
    """A branch is no tree pattern, and perhaps a path that says more."""


class _Walk:
    """The walk over one text's token tree. Recursion follows brackets only, and those are bounded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places: list[int] = []
        """Where the literals of the comparisons walked so far stand."""

    def branches(self, token: Any) -> tuple[LocationPath, ...]:
        found: dict[LocationPath, None] = {}
        for part in operands(token, "|", "union"):
            path = self._branch(part)
            if pattern.is_all_embracing(path):
                path = pattern.EVERY_DOCUMENT
            if _size(path) > MAX_STEPS:
                self._refuse(part, f"has more than {MAX_STEPS} steps")
            found[path] = None
        return tuple(found)

    def _branch(self, token: Any) -> LocationPath:
        places = len(self.places)
        try:
            return self._path(token, inside=False)
        except _NotATreeError:
            del self.places[places:]
            return implied_pattern(XPathReader(self.text, ALLOWED).branch(token))

    def _path(self, token: Any, *, inside: bool) -> LocationPath:
        parts: list[tuple[Any, Any]] = []  # a separator and what follows it, last first
        while token.symbol in ("/", "//") and len(token) == 2:
            parts.append((token, token[1]))
            token = token[0]
        axis = Axis.CHILD if inside else Axis.DESCENDANT
        if token.symbol in ("/", "//"):
            if inside:
                raise _NotATreeError
            if len(token) == 0:
                return LocationPath(())
            axis = Axis.CHILD if token.symbol == "/" else Axis.DESCENDANT
            token = token[0]
        steps: list[PathStep] = []
        pending = self._append(steps, axis, token)
        for separator, token in reversed(parts):
            if separator.symbol == "//":
                pending = Axis.DESCENDANT
            pending = self._append(steps, pending, token)
        if pending is Axis.DESCENDANT and (inside or steps or parts):
            raise _NotATreeError
        return LocationPath(tuple(steps))

    def _append(self, steps: list[PathStep], axis: Axis, token: Any) -> Axis:
        """Add the step that a token means, if any; the axis on which the next one hangs."""
        predicates: list[Any] = []
        core = token
        while core.symbol == "[":
            predicates.append(core[1])
            core = core[0]
        if core.symbol in (".", "self", "descendant-or-self"):
            if predicates or (core.symbol != "." and core[0].symbol != "node"):
                raise _NotATreeError
            return Axis.DESCENDANT if core.symbol == "descendant-or-self" else axis
        if steps and not pattern.is_element(steps[-1].label):
            raise _NotATreeError
        if core.symbol == "descendant":
            axis = Axis.DESCENDANT
        label = self._label(core)
        steps.append(PathStep(axis, label, tuple(map(self._predicate, reversed(predicates)))))
        return Axis.CHILD

    def _label(self, token: Any) -> str:
        if token.symbol in ("child", "descendant"):
            token = token[0]
        elif token.symbol in ("@", "attribute") and len(token) == 1 and token.label != "kind test":
            return pattern.ATTRIBUTE + self._name(token[0])
        if token.symbol == "text" and len(token) == 0:
            return pattern.TEXT
        return self._name(token)

    def _name(self, token: Any) -> str:
        name = name_of(token)
        if name is None:
            raise _NotATreeError
        return name

    def _predicate(self, token: Any) -> Predicate:
        token = bare(token)
        if token.symbol in ("and", "or") and len(token) == 2:
            parts = tuple(map(self._predicate, operands(token, token.symbol)))
            return pattern.And(parts) if token.symbol == "and" else pattern.Or(parts)
        if token.symbol == "not" and len(token) == 1:
            return pattern.Not(self._predicate(token[0]))
        if token.symbol in MIRRORED and len(token) == 2:
            return self._comparison(token)
        path = self._path(token, inside=True)
        if not path.steps:
            raise _NotATreeError
        return pattern.Exists(path)

    def _comparison(self, token: Any) -> Predicate:
        left, right = bare(token[0]), bare(token[1])
        relation = token.symbol
        if _is_literal(left) and not _is_literal(right):
            left, right, relation = right, left, MIRRORED[relation]
        if _is_literal(left) or not _is_literal(right):
            raise _NotATreeError
        literal = _literal(right)
        if (
            isinstance(literal, str)
            and relation not in pattern.EQUALITIES
            and isfinite(pattern.number(literal))
        ):
            literal = pattern.number(literal) + 0.0
        path = self._path(left, inside=True)
        self.places.append(right.span[0])
        return pattern.Compares(path, relation, literal)

    def _refuse(self, token: Any, reason: str) -> NoReturn:
        raise FilterError(reason, field="path", text=self.text, position=token.span[0])


def _size(path: LocationPath) -> int:
    """How many steps a branch has, those in its predicates included."""
    if path.exact is not None:
        return sum(1 for _ in steps_of(path.exact))
    return sum(isinstance(part, PathStep) for part, _ in pattern.walk(path))


def _is_literal(token: Any) -> bool:
    return token.symbol in (*NUMBERS, "(string)") or (token.symbol in "+-" and len(token) == 1)


def _literal(token: Any) -> str | float:
    if token.symbol == "(string)":
        literal = str(token.value)
        if "'" in literal and '"' in literal:
            raise _NotATreeError
        return literal
    sign = -1.0 if token.symbol == "-" else 1.0
    digits = token[0] if token.symbol == "-" else token
    if digits.symbol not in NUMBERS:
        raise _NotATreeError
    found = double_of(digits)
    if not isfinite(found):
        raise _NotATreeError
    # Adding zero turns the negative zero into the only one.
    return sign * found + 0.0
