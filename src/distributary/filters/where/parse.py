"""Reading a condition: from SQL text to a tree, with sqlglot for the grammar.

Rules of this module:

- sqlglot sees placeholders only: a name is a quoted number, a literal its ordinal, a parenthesised group
  one placeholder that was parsed before it. Nothing a user writes can therefore mean something else in
  some SQL dialect, any word that is not one of our keywords may be an attribute, and nesting costs no stack.
- What sqlglot returns is accepted node by node. Everything else is refused, with the position in the text
  as the user gave it.
- Text length, nesting and the number of parts are bounded, so that every text is answered soon. The list of
  IN is not bounded but by the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from distributary.errors import FilterError
from distributary.filters.where import expression as tree
from distributary.filters.where.expression import Blank, Expression, Literal, Truth
from distributary.filters.where.like import like_pattern

MAX_LENGTH = 1_000_000
MAX_TOKENS = 10_000
"""Names, literals, keywords and signs of one condition, not counting the lists of IN."""
MAX_NEGATIONS = 16
"""How often NOT may stand in a row: the one thing for which sqlglot recurses."""

ALLOWED = (
    "(a condition is made of = <> != < <= > >=, between, in, like, is null, is true, and, or, not, "
    "parentheses, attributes, numbers, strings, true, false and null)"
)

# The first character selects the branch, so that the search for the next literal runs over the text between
# literals without trying anything. A minus belongs to the number unless it could be a subtraction or part
# of a comment.
LITERAL = (
    r"['\-.0-9](?:(?<=')(?:[^']++|'')*+'(?!')"
    r"|(?<!')(?<![\w.\-].)"
    r"(?:(?<=-)\s*+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)|(?<=[0-9])[0-9]*+(?:\.[0-9]*+)?|(?<=\.)[0-9]++)"
    r"(?:[eE][+\-]?[0-9]++)?(?![\w.]))"
)
QUOTED_NAME = r'"(?:[^"]++|"")*+"(?!")'
PART = rf"(?:[^\W\d]\w*+|{QUOTED_NAME})"
TOKEN = re.compile(
    rf"(?P<space>\s++)|(?P<literal>{LITERAL})|(?P<name>{PART}(?:\.{PART})*+)|(?P<sign><=|>=|<>|!=|[=<>(),])",
    re.DOTALL,
)
LIST_ITEM = re.compile(
    rf"\s*+(?:(?P<literal>{LITERAL})|(?P<word>(?i:true|false|null)))\s*+(?P<end>[,)])", re.DOTALL
)
MARKS = NUMBER_MARK, TEXT_MARK, NAME_MARK = "\0", "\1", "\2"
"""What stands in a shape for what was taken out of the text."""


def read_number(literal: str) -> int | float | None:
    """The number, never -0.0; None when it is beyond the range of a double."""
    compact = "".join(literal.split())  # white space may follow the minus
    value = float(compact)
    if not -inf < value < inf:
        return None
    if not compact.lstrip("-").isdigit():
        return value + 0.0
    # Without the leading zeros, of which there may be more than `int` takes.
    return int(compact.lstrip("-0") or "0") * (-1 if compact[0] == "-" else 1)


CONSTRUCTS = {
    "as": "an alias",
    "select": "a subquery",
    "exists": "a subquery",
    "case": "a CASE expression",
    "when": "a CASE expression",
    "collate": "a collation",
    "ilike": "ILIKE",
    "rlike": "a regular expression",
    "regexp": "a regular expression",
    "similar": "a regular expression",
    "glob": "GLOB",
    "any": "ANY",
    "all": "ALL",
    "some": "SOME",
    "distinct": "DISTINCT",
    "interval": "an interval",
    "date": "a date",
    "timestamp": "a timestamp",
    "over": "a window",
    "order": "an ordering",
    "limit": "a limit",
    "union": "a set operation",
    "xor": "XOR",
    "div": "arithmetic",
    "mod": "arithmetic",
}

CHARACTERS = {
    **dict.fromkeys("+-*/%^|&~", "arithmetic"),
    ";": "a second statement",
    ":": "a cast or parameter",
    "?": "a parameter",
    "$": "a parameter",
    "@": "a variable",
    "[": "an array",
    "]": "an array",
    "{": "an object",
    "}": "an object",
    "`": 'a backquoted name (write "name")',
    "#": "a comment",
    "!": "a lone ! (write not)",
    ".": "a lone dot",
}

COMPARISONS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(slots=True)
class Frame:
    """What stands between two parentheses: the pieces sqlglot gets, and where each stands in the text."""

    start: int
    pieces: list[str]
    places: list[int]


class ConditionReader:
    """Reads one text. After `read`, `values` holds its literals, to which the blanks refer.

    `names` holds its attributes and where they stand, each as often as it is named.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: list[Any] = []
        self.cacheable = True
        """Whether the meaning depends on the shape alone, not on the values of the literals."""
        self._literal_places: list[int] = []
        self.names: list[tuple[str, int]] = []
        self._groups: list[tuple[Expression | Blank, int]] = []
        self._lists: list[tuple[tuple[Literal, ...], int]] = []
        self._place = 0
        self._resolved = 0

    def read(self) -> Expression:
        """The condition as a tree whose literals are blanks; `FilterError` when the text is none."""
        frames = [Frame(0, [], [])]
        negations = tokens = 0
        while (token := self._next()) is not None:
            kind, found, place = token
            tokens += 1
            if tokens > MAX_TOKENS:
                self._refuse(f"has more than {MAX_TOKENS} parts; use in (...) for many values", place)
            negations = negations + 1 if kind == "keyword" and found == "NOT" else 0
            if negations > MAX_NEGATIONS:
                self._refuse(f"more than {MAX_NEGATIONS} times not in a row", place)
            self._take(kind, found, place, frames)
        if len(frames) > 1:
            self._refuse("a parenthesis that is not closed", frames[-1].start)
        expression = self._finish(frames[0])
        if isinstance(expression, Blank):
            self._refuse("a literal is not a condition; compare an attribute with it", 0)
        return expression

    # Tokens

    def _next(self) -> tuple[str, str, int] | None:
        """The next token as (kind, what it says, where it stands)."""
        match = TOKEN.match(self.text, self._place)
        if match is not None and match.lastgroup == "space":
            self._place = match.end()
            match = TOKEN.match(self.text, self._place)
        place = self._place
        if match is None:
            if place < len(self.text):
                self._refuse_character(place)
            return None
        self._place = match.end()
        kind, found = str(match.lastgroup), match.group()
        if kind == "name" and found.lower() in tree.KEYWORDS:
            return "keyword", found.lower().upper(), place
        return kind, found, place

    def _take(self, kind: str, found: str, place: int, frames: list[Frame]) -> None:
        """Hand a token to the innermost frame, as a piece for sqlglot."""
        frame = frames[-1]
        if found == "(" and kind == "sign":
            if frame.pieces and frame.pieces[-1].startswith('"a'):
                name = self.names[-1][0]
                self._refuse(f"the function call {name}(...) is not supported {ALLOWED}", frame.places[-1])
            frames.append(Frame(place, [], []))
            return
        if found == ")" and kind == "sign":
            if len(frames) == 1:
                self._refuse("a parenthesis that was not opened", place)
            closed, frame = frames.pop(), frames[-1]
            place = closed.start
            self._groups.append((self._finish(closed), place))
            found = f'"g{len(self._groups) - 1}"'
        elif kind == "literal":
            found = self._literal(found, place)
        elif kind == "name":
            self.names.append((self._name(found, place), place))
            found = f'"a{len(self.names) - 1}"'
        elif found == ",":
            self._refuse("a comma outside the list of IN", place)
        frame.pieces.append(found)
        frame.places.append(place)
        if found == "IN":
            self._lists.append((self._list(), place))
            frame.pieces.append(f'("l{len(self._lists) - 1}")')
            frame.places.append(place)

    def _literal(self, found: str, place: int) -> str:
        """Note a literal's value; its piece is its ordinal, as a number or a string as it is one."""
        ordinal = str(len(self.values))
        self._literal_places.append(place)
        if found[0] == "'":
            self.values.append(found[1:-1].replace("''", "'"))
            return f"'{ordinal}'"
        number = read_number(found)
        if number is None:
            self._refuse("a number beyond the range of a double", place)
        self.values.append(number)
        return ordinal

    def _name(self, found: str, place: int) -> str:
        if '"' not in found:
            return found
        parts = re.findall(PART, found)
        name = ".".join(part[1:-1].replace('""', '"') if part[0] == '"' else part for part in parts)
        if '""' in parts or any(mark in name for mark in MARKS):
            self._refuse("an attribute needs a name, and one without control characters", place)
        return name

    def _list(self) -> tuple[Literal, ...]:
        """The literals after IN, which must be a list in parentheses."""
        _, sign, place = self._next() or ("end", "", len(self.text))
        if sign != "(":
            self._refuse("IN needs a list such as (1, 2)", place)
        literals: list[Literal] = []
        while (item := LIST_ITEM.match(self.text, self._place)) is not None:
            literal, word, end = item.groups()
            if literal is None:
                literals.append(None if word.lower() == "null" else word.lower() == "true")
            else:
                literals.append(Blank(len(self.values)))
                self._literal(literal, item.start("literal"))
            self._place = item.end()
            if end == ")":
                return tuple(literals)
        _, found, place = self._next() or ("end", "", len(self.text))
        what = f", not {CONSTRUCTS[found.lower()]}" if found.lower() in CONSTRUCTS else ""
        raise self._error(f"IN needs a list of literals with commas between them{what}", place)

    # The tree

    def _finish(self, frame: Frame) -> Expression | Blank:
        """Parse a frame. The groups in it have been parsed before."""
        if not frame.pieces:
            self._refuse("is empty" if frame.start == 0 else "nothing between parentheses", frame.start)
        if len(frame.pieces) == 1 and frame.pieces[0].startswith('"g'):
            return self._groups[int(frame.pieces[0][2:-1])][0]
        self._resolved = 0
        try:
            node = _parsed(" ".join(frame.pieces))
        except SqlglotError as error:
            self._refuse_syntax(frame, error)
        expression = self._condition(node)
        placeholders = sum(piece[0] in "\"'(0123456789" for piece in frame.pieces)
        if self._resolved != placeholders:
            self._refuse_construct(frame)
        if not isinstance(expression, Blank) and tree.depth(expression) > tree.MAX_DEPTH:
            self._refuse(f"is nested more than {tree.MAX_DEPTH} deep", frame.start)
        return expression

    def _condition(self, node: Any) -> Expression | Blank:
        """Our tree for sqlglot's. No group is entered, so this recurses through OR, AND and NOT alone."""
        if isinstance(node, (exp.And, exp.Or)):
            parts = [self._truth(part) for part in _operands(node)]
            return tree.conjunction_of(parts) if isinstance(node, exp.And) else tree.disjunction_of(parts)
        if isinstance(node, exp.Not):
            return tree.Not(self._truth(node.this))
        if type(node) in COMPARISONS:
            operator = COMPARISONS[type(node)]
            return self._comparison(self._operand(node.this), operator, self._operand(node.expression))
        if isinstance(node, exp.Column):
            return self._placeholder(node)
        if isinstance(node, (exp.Boolean, exp.Null)):
            return tree.TruthConstant(_constant(node))
        if isinstance(node, exp.Literal):
            self._resolved += 1
            return Blank(int(node.this))
        return self._predicate(node)

    def _truth(self, node: Any) -> Expression:
        expression = self._condition(node)
        if isinstance(expression, Blank):
            self._refuse(
                "a literal is not a condition; compare an attribute with it",
                self._literal_places[expression.index],
            )
        return expression

    def _predicate(self, node: Any) -> Expression:
        predicate: Expression
        inner = node.this if isinstance(node, exp.Escape) else node
        if isinstance(inner, exp.Like):
            predicate = self._like(inner, node.expression if inner is not node else None)
        elif isinstance(node, exp.Between):
            value, low, high = (self._operand(node.args[name]) for name in ("this", "low", "high"))
            if isinstance(value, Truth) and not isinstance(low, Truth) and not isinstance(high, Truth):
                predicate = tree.Between(value.attribute, low, high)
            else:
                bounds = [self._comparison(value, ">=", low), self._comparison(value, "<=", high)]
                predicate = tree.conjunction_of(bounds)
        elif isinstance(node, exp.In) and len(node.expressions) == 1:
            attribute = self._attribute(node.this, "IN")
            self._resolved += 1
            predicate = tree.In(attribute, self._lists[int(node.expressions[0].name[1:])][0])
        elif isinstance(node, exp.Is) and isinstance(node.expression, (exp.Boolean, exp.Null)):
            truth = _constant(node.expression)
            attribute = self._attribute(node.this, "IS")
            predicate = tree.IsNull(attribute) if truth is None else tree.IsTruth(attribute, truth)
        elif isinstance(node, exp.Is):
            self._refuse("IS must be followed by [not] null, true or false", self._place_of(node))
        else:
            self._refuse(f"{node.key.upper()} is not supported {ALLOWED}", self._place_of(node))
        return tree.Not(predicate) if inner.args.get("negate") else predicate

    def _like(self, node: Any, escape: Any) -> tree.Like:
        attribute = self._attribute(node.this, "LIKE")
        pattern = self._text_blank(node.expression)
        if escape is None:
            return tree.Like(attribute, pattern)
        self.cacheable = False
        escape_blank = self._text_blank(escape)
        try:
            like_pattern(self.values[pattern.index], self.values[escape_blank.index])
        except FilterError as error:
            self._refuse(error.reason, self._place_of(node.expression))
        return tree.Like(attribute, pattern, escape_blank)

    def _text_blank(self, node: Any) -> Blank:
        blank = self._operand(node)
        if not isinstance(blank, Blank) or not isinstance(self.values[blank.index], str):
            self._refuse("LIKE needs a string to compare with", self._place_of(node))
        return blank

    def _comparison(self, left: Any, operator: str, right: Any) -> Expression:
        if isinstance(left, Truth) and isinstance(right, Truth):
            return tree.CompareAttributes(left.attribute, operator, right.attribute)
        if isinstance(left, Truth):
            return tree.Compare(left.attribute, operator, right)
        if isinstance(right, Truth):
            return tree.Compare(right.attribute, tree.MIRRORED[operator], left)
        self.cacheable = False
        values = [self.values[side.index] if isinstance(side, Blank) else side for side in (left, right)]
        return tree.TruthConstant(tree.compare(values[0], operator, values[1]))

    def _attribute(self, node: Any, operator: str) -> str:
        operand = self._operand(node)
        if not isinstance(operand, Truth):
            self._refuse(f"{operator} must follow an attribute", self._place_of(node))
        return operand.attribute

    def _operand(self, node: Any) -> Truth | Literal:
        """What a comparison compares: an attribute (as `Truth`) or a literal."""
        if isinstance(node, (exp.Column, exp.Boolean, exp.Null, exp.Literal)):
            operand = self._condition(node)
            if isinstance(operand, tree.TruthConstant):
                return operand.truth
            if isinstance(operand, (Truth, Blank)):
                return operand
        reason = f"only attributes and literals can be compared, not the outcome of a condition {ALLOWED}"
        raise self._error(reason, self._place_of(node))

    def _placeholder(self, node: Any) -> Expression | Blank:
        if not node.this.args.get("quoted") or node.name[0] == "l":  # one of our keywords, taken for a name
            self._refuse(f"a keyword where an attribute or a literal should stand {ALLOWED}", None)
        self._resolved += 1
        ordinal = int(node.name[1:])
        return self._groups[ordinal][0] if node.name[0] == "g" else Truth(self.names[ordinal][0])

    # Refusals

    def _place_of(self, node: Any) -> int | None:
        """Where the first name or literal below a node of sqlglot's stands in the text."""
        found = node.find(exp.Literal, exp.Identifier) if node is not None else None
        if isinstance(found, exp.Literal):
            return self._literal_places[int(found.this)]
        if found is None or not found.args.get("quoted"):
            return None
        ordinal = int(found.name[1:])
        if found.name[0] == "a":
            return self.names[ordinal][1]
        return self._groups[ordinal][1] if found.name[0] == "g" else self._lists[ordinal][1]

    def _error(self, reason: str, position: int | None) -> FilterError:
        return FilterError(reason, field="where", text=self.text, position=position)

    def _refuse(self, reason: str, position: int | None) -> NoReturn:
        raise self._error(reason, position)

    def _refuse_character(self, place: int) -> NoReturn:
        character = self.text[place]
        if self.text[place : place + 2] in ("--", "/*"):
            self._refuse("a comment is not supported", place)
        if character in "'\"":
            self._refuse(f"a quote {character} that is not closed", place)
        if character.isdigit():
            self._refuse("a malformed number", place)
        what = CHARACTERS.get(character, f"the character {character!r}")
        self._refuse(f"{what} is not supported {ALLOWED}", place)

    def _refuse_construct(self, frame: Frame) -> NoReturn:
        """Refuse a frame that sqlglot may understand and we do not, by the word that gives it away."""
        for piece, place in zip(frame.pieces, frame.places, strict=True):
            if piece.startswith('"a'):
                name = self.names[int(piece[2:-1])][0]
                if name.lower() in CONSTRUCTS:
                    self._refuse(f"{CONSTRUCTS[name.lower()]} is not supported {ALLOWED}", place)
        self._refuse(f"cannot be understood {ALLOWED}", frame.places[0])

    def _refuse_syntax(self, frame: Frame, error: SqlglotError) -> NoReturn:
        details = getattr(error, "errors", None)
        if not details or any(
            piece.startswith('"a') and self.names[int(piece[2:-1])][0].lower() in CONSTRUCTS
            for piece in frame.pieces
        ):
            self._refuse_construct(frame)
        starts = [0]
        for piece in frame.pieces:
            starts.append(starts[-1] + len(piece) + 1)
        column = int(details[0]["col"]) - len(details[0]["highlight"])
        which = min(max(bisect_right(starts, column) - 1, 0), len(frame.pieces) - 1)
        place = frame.places[which]
        if "missing" in str(details[0]["description"]):
            self._refuse("something is missing around here", place)
        self._refuse("not expected here; an operator, and, or or is missing, or this is too much", place)


@lru_cache(maxsize=4096)
def _parsed(pieces: str) -> Any:
    """sqlglot's tree, which is never changed. Placeholders do not name the attributes, so many share one."""
    return sqlglot.parse_one(pieces, into=exp.Condition, dialect="postgres")


def _operands(node: Any) -> list[Any]:
    """The operands of a chain of one connective, from left to right."""
    kind, found, waiting = type(node), [], [node]
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            waiting.extend((current.expression, current.this))
        else:
            found.append(current)
    return found


def _constant(node: Any) -> bool | None:
    return None if isinstance(node, exp.Null) else bool(node.this)
