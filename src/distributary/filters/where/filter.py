"""The where filter: an SQL condition on an event's attributes.

A filter holds a template (its condition without literals and names, shared by all that differ in nothing
else), the names and the literals. Tree and conjunctions are made anew when asked for, because a million
filters are held at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

from distributary.errors import FilterError
from distributary.filters.filter import EVERY_EVENT, Filter
from distributary.filters.where import domain as sets
from distributary.filters.where import expression as tree
from distributary.filters.where.condition import ConditionTemplate, read_condition, template_of
from distributary.filters.where.domain import Conjunction, Domain
from distributary.filters.where.evaluate import NOW, evaluate
from distributary.filters.where.expression import And, Expression, Or
from distributary.filters.where.lookup import arrival_of, attribute_of
from distributary.filters.where.merge import MAX_MERGED, described, generalised, hull
from distributary.filters.where.normal_form import MAX_CONJUNCTIONS
from distributary.filters.where.selectivity import narrowed
from distributary.model import Event

MERGED_LENGTH = 20_000
MERGED_RANGES = (64, 8, 1)
"""How many ranges a domain of a merged filter may have: as many as the length of its text allows."""


class WhereFilter(Filter):
    """A condition in SQL with three-valued logic; an event passes when it is true, not when it is unknown.

    >>> WhereFilter.parse("price>8.3 AND Price < 8.7")
    WhereFilter('price > 8.3 and Price < 8.7')
    """

    kind = "where"

    __slots__ = ("_names", "_template", "_text", "_values")

    def __init__(self, template: ConditionTemplate, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self._template = template
        self._names = names
        self._values = values
        self._text: str | None = None

    @classmethod
    def parse(cls, given: Any) -> Self:
        """Read a condition; `FilterError` says what is wrong at which position."""
        if not isinstance(given, str):
            raise FilterError(f"must be a string, not {type(given).__name__}", field="where")
        return cls(*read_condition(given))

    @property
    def text(self) -> str:
        """The canonical text; written when first asked for."""
        if self._text is None:
            self._text = self._template.text(self._names, self._values)
        return self._text

    @property
    def expression(self) -> Expression:
        """The condition as a tree."""
        return self._template.filled(self._names, self._values)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it asks for.

        >>> WhereFilter.parse("a = 1 and b > 2").names
        ('a', 'b')
        """
        return self._names

    @property
    def conjunctions(self) -> tuple[Conjunction, ...] | None:
        """The disjunctive form: an event passes when it satisfies one of these. None when it is too large.

        >>> WhereFilter.parse("a in (1, 2) or a > 10").conjunctions[0].domains[0][1].numbers[-1]
        NumberRange(low=10, high=inf, low_open=True, high_open=False)
        """
        return self._template.normal_form.conjunctions(self._values, self._names)

    @property
    def confines(self) -> dict[str, Domain]:
        """For each attribute that every alternative bounds: the only values with which an event may pass.

        >>> sorted(WhereFilter.parse("a = 1 and b > 2 or a = 3").confines)
        ['a']
        """
        conjunctions = self.conjunctions
        if not conjunctions:
            return {}
        if len(conjunctions) == 1:
            return dict(conjunctions[0].domains)
        alternatives = [dict(conjunction.domains) for conjunction in conjunctions]
        common = set(alternatives[0]).intersection(*alternatives)
        return {name: sets.union([each[name] for each in alternatives]) for name in sorted(common)}

    @property
    def selectivity(self) -> float:
        """A guess from the form of the condition and its ranges; see `selectivity`."""
        return narrowed(self._template.selectivity, self._template.spans, self._values)

    @property
    def asks_for_all(self) -> str | None:
        """For a condition that is true whatever an event has, as far as single attributes tell.

        >>> [WhereFilter.parse(text).asks_for_all for text in ("a is null or a is not null", "a = a")]
        ['every event', None]
        """
        holds_always = self._template.normal_form.holds_always(self._values, self._names)
        return EVERY_EVENT if holds_always else None

    @property
    def slow(self) -> str | None:
        """Why no index can narrow this condition down, if none can."""
        if self._template.normal_form.is_complete and not self._template.has_residue:
            return None
        conjunctions = self.conjunctions
        if self.asks_for_all is not None:
            return None
        if conjunctions is None:
            return f"its disjunctive form has more than {MAX_CONJUNCTIONS} conjunctions"
        if any(not sets.narrows(conjunction) for conjunction in conjunctions):
            return (
                "an alternative bounds no attribute: a LIKE without a fixed beginning, a regular expression, "
                "attributes compared, or elements of an array"
            )
        return None

    @property
    def looks_at_clock(self) -> bool:
        """Whether `now()` stands in it, so that when the event arrived decides.

        >>> WhereFilter.parse("at > now() - interval '1 hour'").looks_at_clock
        True
        """
        return self._template.looks_at_clock

    def matches(self, event: Event) -> bool:
        """Whether the condition is true for the event's attributes."""
        given, present = event.attributes, self._template.present
        numbered: dict[str, Any] = {}
        for number, name in enumerate(self._names):
            value = given.get(name)
            key = str(number)
            numbered[key] = attribute_of(event, name, key in present) if value is None else value
        if self._template.looks_at_clock:
            numbered[NOW] = arrival_of(event)
        return evaluate(self._template.expression, numbered, self._values) is True

    def covers(self, other: WhereFilter) -> bool:
        """True when each conjunction of the other lies within one of this one, or both are written alike."""
        outer, inner = _compared_form(self), _compared_form(other)
        if outer is not None and inner is not None:
            if all(any(sets.contains(wide, narrow) for wide in outer) for narrow in inner):
                return True
            if not any(conjunction.residual for conjunction in outer):
                return False
        # What is in no domain can still be recognised when it is written alike.
        mine, theirs = self.expression, other.expression
        return (
            mine == theirs
            or (isinstance(theirs, And) and mine in theirs.parts)
            or (isinstance(mine, Or) and theirs in mine.parts)
        )

    def merge(self, other: WhereFilter) -> WhereFilter | None:
        """One condition OR the other if that is short, else wider domains; None if all would have to pass."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        return self._united_as_written(other) or self._united_as_domains(other)

    def widened(self) -> WhereFilter | None:
        """One range of each attribute that every alternative bounds.

        >>> WhereFilter.parse("a = 3 and b = 1 or a in (5, 9)").widened()
        WhereFilter('a between 3 and 9')
        """
        outline = self._template.normal_form.outline(self._values, self._names)
        wide = hull(outline) if outline else None
        return None if wide is None else _short_filter(described([wide]))

    def _united_as_written(self, other: WhereFilter) -> WhereFilter | None:
        """One condition OR the other, when that is short and domains would lose something."""
        conjunctions = (self.conjunctions or ()) + (other.conjunctions or ())
        if not any(conjunction.residual for conjunction in conjunctions) or len(conjunctions) > MAX_MERGED:
            return None
        return _short_filter(tree.disjunction_of([self.expression, other.expression]))

    def _united_as_domains(self, other: WhereFilter) -> WhereFilter | None:
        """What the domains of either allow, as widely as it takes for the condition to be short."""
        conjunctions = [
            *self._template.normal_form.outline(self._values, self._names),
            *other._template.normal_form.outline(other._values, other._names),
        ]
        for ranges in MERGED_RANGES:
            fewer = generalised(conjunctions, ranges)
            if fewer is None:
                return None
            merged = _short_filter(described(fewer))
            if merged is not None:
                return merged
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return WhereFilter.parse, (self.text,)


@lru_cache(1 << 12)
def _compared_form(filter: WhereFilter) -> tuple[Conjunction, ...] | None:
    """The disjunctive form of a filter that is compared: with one profile after another, at a broker."""
    return filter.conjunctions


def _short_filter(expression: Expression) -> WhereFilter | None:
    """The filter, or None when its text would be long or it would let everything pass."""
    template, names, values = template_of(expression)
    filter = WhereFilter(template, names, values)
    too_much = len(filter.text) > MERGED_LENGTH or tree.depth(expression) > tree.MAX_DEPTH
    return None if too_much or template.normal_form.holds_always(values, names) else filter
