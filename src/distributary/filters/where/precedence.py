"""Reading the items of a frame by precedence: which operator takes which operands.

    or < and < not < comparisons, between, in, like, is < || < + - < * / % < -x

An item is a token, or something that was read before (`Parsed`): an operand, a group in parentheses, a call,
a list. Nothing here enters a group, so the stack is as deep as there are levels of precedence.
"""

from __future__ import annotations

from typing import NoReturn

from distributary.filters.where import expression as tree
from distributary.filters.where.build import ConditionBuilder, Constant, Parsed
from distributary.filters.where.expression import Expression
from distributary.filters.where.tokens import ConditionToken

Item = ConditionToken | Parsed

LIST = "IN needs a list of values with commas between them, such as (1, 2)"
ARRAY = "whether an array has a value is asked with array_contains(array, value)"
COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
PREDICATES = frozenset({"in", "between", "like", "ilike", "regexp", "rlike", "is", "not"})
ARITHMETIC = {"||": 5, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
OR, AND, NOT, PREDICATE, UNARY = 1, 2, 3, 4, 8
"""How tightly operators bind."""


class PrecedenceReader(ConditionBuilder):
    """Reads the items of one frame after another."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._items: list[Item] = []
        self._at = 0

    def read_items(self, items: list[Item]) -> tuple[Parsed, int]:
        """What the items mean, and how many of them were read."""
        self._items, self._at = items, 0
        return self._read(OR), self._at

    def _current(self) -> Item | None:
        return self._items[self._at] if self._at < len(self._items) else None

    def _word(self) -> str:
        """The sign or keyword at hand, in lower case; empty for anything else."""
        item = self._current()
        return item.text if isinstance(item, ConditionToken) else ""

    def _read(self, least: int) -> Parsed:
        """An expression whose operators bind at least so tightly."""
        left = self._prefix()
        while True:
            sign = self._word()
            if sign == "or" and least <= OR:
                left = self._connected("or", left, AND)
            elif sign == "and" and least <= AND:
                left = self._connected("and", left, NOT)
            elif (sign in COMPARISONS or sign in PREDICATES) and least <= PREDICATE:
                start = self._at
                left = self._predicate(left)
                if self._word() in COMPARISONS:
                    self._refuse_chain(start)
            elif sign in ARITHMETIC and least <= ARITHMETIC[sign]:
                self._at += 1
                right = self._read(ARITHMETIC[sign] + 1)
                left = Parsed(self.arithmetic(sign, left, right), left.place)
            else:
                return left

    def _refuse_chain(self, start: int) -> NoReturn:
        """Refuse a second comparison after the one that starts there."""
        for item in self._items[start : self._at]:
            if isinstance(item, ConditionToken) and item.text == "||":
                self.refuse("|| joins texts; write or between conditions", item.place)
        place = self._items[self._at].place
        self.refuse("only two sides can be compared; write a < b and b < c for a chain", place)

    def _connected(self, word: str, first: Parsed, tighter: int) -> Parsed:
        parts = [self.condition(first)]
        while self._word() == word:
            self._at += 1
            parts.append(self.condition(self._read(tighter)))
        joined = tree.conjunction_of(parts) if word == "and" else tree.disjunction_of(parts)
        self.check_depth(joined, first.place)
        return Parsed(joined, first.place)

    def _prefix(self) -> Parsed:
        item = self._current()
        if item is None:
            last = self._items[-1]
            self.refuse("something is missing behind this", last.place)
        self._at += 1
        if isinstance(item, Parsed):
            return item
        word = item.text
        if word == "not":
            negations = 1
            while self._word() == "not":
                self._at, negations = self._at + 1, negations + 1
            part = self.condition(self._read(PREDICATE))
            return Parsed(self.negation(part) if negations % 2 else part, item.place)
        if word in ("true", "false", "null"):
            return Parsed(Constant({"true": True, "false": False}.get(word)), item.place)
        if word in ("-", "+"):
            negative = word == "-"
            while self._word() in ("-", "+"):
                negative ^= self._word() == "-"
                self._at += 1
            operand = self._read(UNARY)
            return Parsed(self.arithmetic("negative", operand), item.place) if negative else operand
        operators = {*COMPARISONS, *ARITHMETIC, *PREDICATES, "and", "or"}
        if word in operators:
            self.refuse(f"something is missing before {word}", item.place)
        return self.refuse(f"{word} is not expected here", item.place)

    def _predicate(self, left: Parsed) -> Parsed:
        item = self._items[self._at]
        self._at += 1
        word = str(getattr(item, "text", ""))
        if word in COMPARISONS:
            right = self._read(PREDICATE + 1)
            return Parsed(self.comparison(left, COMPARISONS[word], right), left.place)
        if word == "is":
            return Parsed(self._is(left, item.place), left.place)
        negated = word == "not"
        if negated:
            word = self._word()
            if word not in PREDICATES or word in ("is", "not"):
                self.refuse("not must be followed by in, between, like, ilike or regexp here", item.place)
            self._at += 1
        node: Expression
        if word == "in":
            listed = self._current()
            if not isinstance(listed, Parsed) or not isinstance(listed.node, list):
                place = item.place if listed is None else listed.place
                is_attribute = isinstance(listed, Parsed) and isinstance(listed.node, tree.Truth)
                self.refuse(f"{LIST}; {ARRAY}" if is_attribute else LIST, place)
            self._at += 1
            node = self.is_in(left, listed.node)
        elif word == "between":
            low = self._read(PREDICATE + 1)
            if self._word() != "and":
                self.refuse("between needs two bounds, as in between 1 and 5", item.place)
            self._at += 1
            node = self.between(left, low, self._read(PREDICATE + 1))
        else:
            node = self._pattern(left, word)
        return Parsed(self.negation(node) if negated else node, left.place)

    def _pattern(self, left: Parsed, word: str) -> Expression:
        pattern = self._read(PREDICATE + 1)
        escape = None
        if self._word() == "escape":
            self._at += 1
            escape = self._read(PREDICATE + 1)
        return self.pattern(left, word, pattern, escape)

    def _is(self, left: Parsed, place: int) -> Expression:
        negated = self._word() == "not"
        self._at += negated
        word = self._word()
        if word == "distinct":
            self._at += 1
            node = self.is_distinct(left, self._read(PREDICATE + 1))
        elif word in ("null", "true", "false", "unknown"):
            self._at += 1
            node = self.is_truth(left, word)
        else:
            item = self._current()
            where = place if item is None else item.place
            self.refuse(
                "IS must be followed by [not] null, true, false, unknown or distinct from; write =", where
            )
        return self.negation(node) if negated else node
