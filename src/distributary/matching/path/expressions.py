"""Path filters as one table of shared expressions.

An expression says something about a node: it has a child (or a descendant) of a label for which another
expression holds; its value compares so with a literal; or a combination of such statements. A filter is an
expression about the document's own node. Equal expressions are kept once, whichever filters they come from,
so a document pays for each only once. `evaluate` works them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import NamedTuple

import numpy as np

from distributary.filters.path import pattern
from distributary.filters.path.filter import PathFilter
from distributary.filters.path.pattern import Compares, LocationPath, Predicate
from distributary.matching import frozen
from distributary.matching.index import Arrays
from distributary.matching.path.labels import ATTRIBUTE_CODE, ELEMENT_CODE, TEXT_CODE

KIND, FIRST, SECOND, THIRD = range(4)
"""The columns of the table: what an expression is, and its operands."""

FALSE, TRUE, CHILD, DESCENDANT, BOTH, EITHER, NEGATED, COMPARED = range(8)
"""What an expression is. The first two are also the numbers of the expressions that hold never and always.

The operands of CHILD and DESCENDANT are a label's code and an expression about the child; those of BOTH,
EITHER and NEGATED are expressions; those of COMPARED are the node's label's code, a relation and the place of
the literal among the strings or numbers.
"""

STRING_EQUAL, STRING_UNEQUAL, EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(8)
"""How a value is compared: as a string, or as a number."""

_NUMERIC = {"=": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST, ">": GREATER, ">=": AT_LEAST}


class Comparison(NamedTuple):
    """A comparison of a value: how, and with what."""

    relation: int
    literal: str | float

    @classmethod
    def of(cls, predicate: Compares) -> Comparison:
        """The comparison that a predicate asks for: strings are equal or not, all else compares numbers."""
        literal = predicate.literal
        if isinstance(literal, str):
            if predicate.operator in ("=", "!="):
                return cls(STRING_EQUAL if predicate.operator == "=" else STRING_UNEQUAL, literal)
            literal = pattern.number(literal)
        return cls(_NUMERIC[predicate.operator], literal + 0.0)

    @property
    def always(self) -> bool | None:
        """Whether it holds for every value or for none, whatever the value; None when that depends."""
        if isinstance(self.literal, float) and isnan(self.literal):
            return self.relation == UNEQUAL
        return None


class Expressions:
    """The table while it is being made. Operands come before what they are operands of."""

    def __init__(self) -> None:
        wildcards = (pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE, pattern.TEXT)
        self.codes = dict(zip(wildcards, (ELEMENT_CODE, ATTRIBUTE_CODE, TEXT_CODE), strict=True))
        self.text_asked = False
        """Whether some step selects text nodes; a reader that asks for none can leave them out."""
        self._rows: dict[tuple[int, int, int, int], int] = {(FALSE, 0, 0, 0): FALSE, (TRUE, 0, 0, 0): TRUE}
        self._strings: dict[str, int] = {}
        self._numbers: dict[float, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def code(self, label: str) -> int:
        """The code of a label; new labels get new codes."""
        self.text_asked |= label == pattern.TEXT
        return self.codes.setdefault(label, len(self.codes))

    def of_filter(self, path_filter: PathFilter) -> int:
        """The expression that holds for the document's node exactly when the filter selects the document.

        Where a branch says more than a pattern can, it holds for all those documents and maybe for others.
        """
        return self.either([self.of_path(branch) for branch in path_filter.branches])

    def of_path(
        self, path: LocationPath, start: int = 0, last: Compares | None = None, upper: bool | None = None
    ) -> int:
        """The path from its step `start` on selects something (that compares like `last`).

        `upper` turns values into bounds: True assumes that every comparison with an existing node may hold,
        False that none does, and None looks at the values.
        """
        found = TRUE
        for place in range(len(path.steps) - 1, start - 1, -1):
            step = path.steps[place]
            code = self.code(step.label)
            if last is not None:
                found = self.compared(code, last, upper)
                last = None
            for predicate in step.predicates:
                found = self.both(found, self.of_predicate(predicate, code, upper))
            if found == FALSE:
                return FALSE
            found = self._row(CHILD if step.axis is pattern.Axis.CHILD else DESCENDANT, code, found)
        return found

    def of_predicate(self, predicate: Predicate, code: int, upper: bool | None) -> int:
        """A node with the label of that code satisfies the predicate."""
        match predicate:
            case pattern.Exists(path):
                return self.of_path(path, 0, None, upper)
            case Compares(path):
                if not path.steps:
                    return self.compared(code, predicate, upper)
                return self.of_path(path, 0, predicate, upper)
            case pattern.And(parts):
                return self.all_of([self.of_predicate(part, code, upper) for part in parts])
            case pattern.Or(parts):
                return self.either([self.of_predicate(part, code, upper) for part in parts])
            case pattern.Not(part):
                opposite = None if upper is None else not upper
                return self.negated(self.of_predicate(part, code, opposite))

    def compared(self, code: int, predicate: Compares, upper: bool | None) -> int:
        """The value of a node with the label of that code compares so."""
        if upper is not None:
            return TRUE if upper else FALSE
        comparison = Comparison.of(predicate)
        if comparison.always is not None:
            return TRUE if comparison.always else FALSE
        return self._row(COMPARED, code, comparison.relation, self.literal(comparison.literal))

    def literal(self, literal: str | float) -> int:
        """The place of a literal among the strings or the numbers."""
        if isinstance(literal, str):
            return self._strings.setdefault(literal, len(self._strings))
        return self._numbers.setdefault(literal, len(self._numbers))

    def both(self, one: int, other: int) -> int:
        """Both expressions hold."""
        if one == other or other == TRUE:
            return one
        if one == TRUE:
            return other
        if FALSE in (one, other):
            return FALSE
        return self._row(BOTH, min(one, other), max(one, other))

    def all_of(self, parts: Iterable[int]) -> int:
        """All of the expressions hold."""
        found = TRUE
        for part in sorted(set(parts)):
            found = self.both(found, part)
        return found

    def either(self, parts: Iterable[int]) -> int:
        """At least one of the expressions holds."""
        found = FALSE
        for part in sorted(set(parts)):
            if part == TRUE:
                return TRUE
            found = part if found == FALSE else self._row(EITHER, found, part)
        return found

    def negated(self, part: int) -> int:
        """The expression does not hold."""
        return TRUE - part if part <= TRUE else self._row(NEGATED, part)

    def compiled(self) -> Arrays:
        """The table as arrays."""
        rows = np.array(list(self._rows), np.int32).reshape(-1, 4)
        return {
            "expressions": rows,
            "text_asked": np.array([self.text_asked]),
            "numbers": np.array(list(self._numbers), np.float64),
            **frozen.under("strings", frozen.pack_texts(list(self._strings))),
            **frozen.under("labels", frozen.pack_texts(list(self.codes))),
        }

    def _row(self, kind: int, first: int, second: int = 0, third: int = 0) -> int:
        return self._rows.setdefault((kind, first, second, third), len(self._rows))
