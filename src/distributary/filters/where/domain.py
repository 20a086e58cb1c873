"""Sets of attribute values: what a condition says about one attribute, in a form that indexes can use.

A `Domain` is the set of values of one attribute for which a condition is *true* (not false and not
unknown). Every condition on a single attribute but a general LIKE is one domain, whatever mix of
comparisons, BETWEEN, IN, AND, OR and NOT it was written with. A `Conjunction` holds one domain for each
attribute it constrains, and a condition in disjunctive form is a list of conjunctions.

Ranges are disjoint and ascending, with no two that touch. Numbers are ordered as numbers, texts by code point
(which is the byte order of their UTF-8). Instants, times and durations are ranges of nanoseconds. Numbers are
taken to be dense; a double as a bound stands for the decimal it is written as, and for itself where it meets
a double (see `values`), which orders numbers alike. Texts are not dense: nothing stands between a text and
the same with a NUL appended, so bounds are written without such a NUL, and the form of a set is unique.

The set operations work on *cuts*: a range lies between two of them, and a cut is the place before (side 0)
or after (side 1) a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from math import inf
from typing import Any

from distributary.filters.where.values import (
    OPERATORS,
    Duration,
    Instant,
    TimeOfDay,
    compare_with_literal,
    plain,
    read_instant,
    read_time,
)


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers between two bounds; equality is a range whose bounds are equal and closed."""

    low: int | float = -inf
    high: int | float = inf
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class TextRange:
    """Texts between two bounds; a prefix is such a range too. `high` None means no upper bound."""

    low: str = ""
    high: str | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of one attribute for which a condition is true.

    `instants`, `times` and `durations` are in nanoseconds. `null` says whether a missing value is in it,
    `other` whether a value of no kind that has ranges here is (both can only come from IS NULL and IS NOT
    NULL).
    """

    numbers: tuple[NumberRange, ...] = ()
    texts: tuple[TextRange, ...] = ()
    booleans: tuple[bool, ...] = ()
    null: bool = False
    other: bool = False
    instants: tuple[NumberRange, ...] = ()
    times: tuple[NumberRange, ...] = ()
    durations: tuple[NumberRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Domains by attribute, ascending by name, that must all contain the event's value.

    With `residual`, the domains are necessary but not sufficient: some part of the condition (a general
    LIKE, a comparison of two attributes) is in no domain. `residue` holds the texts of the conditions that
    must be true beside the domains; when it is empty, the whole condition must be evaluated for an event that
    passes them. The domains may then even be empty.
    """

    domains: tuple[tuple[str, Domain], ...]
    residual: bool = False
    residue: tuple[str, ...] = ()


ALL_NUMBERS = (NumberRange(),)
ALL_TEXTS = (TextRange(),)
NOTHING = Domain()
PRESENT = Domain(ALL_NUMBERS, ALL_TEXTS, (False, True), False, True, ALL_NUMBERS, ALL_NUMBERS, ALL_NUMBERS)
MISSING = Domain(null=True)
EVERYTHING = replace(PRESENT, null=True)

TIMES: dict[type, str] = {Instant: "instants", TimeOfDay: "times", Duration: "durations"}
"""The field that has the ranges of each kind of time."""
RANGED = ("numbers", *TIMES.values())
"""The fields whose ranges are between numbers."""

BOTTOM_TEXT = (0, "", 0)
TOP_TEXT = (1, "", 0)

Cut = tuple[Any, ...]
Span = tuple[Cut, Cut]


def is_empty(domain: Domain) -> bool:
    """Whether no value is in it."""
    return domain == NOTHING


def contains_value(domain: Domain, value: Any) -> bool:
    """Whether an event whose attribute has this value (None when missing) is in the domain.

    >>> contains_value(Domain(numbers=(NumberRange(8.3, 8.7, True, True),)), 8.5)
    True
    """
    value = plain(value)
    if value is None:
        return domain.null
    if isinstance(value, bool):
        return value in domain.booleans
    if isinstance(value, str):
        low_cut, high_cut = _text_cut(value, 0), _text_cut(value, 1)
        return any(low <= low_cut and high_cut <= high for low, high in map(_text_span, domain.texts))
    if isinstance(value, (int, float, Decimal)) and value == value:
        return any(_is_between(range_, value) for range_ in domain.numbers)
    if type(value) in TIMES:
        ranges = getattr(domain, TIMES[type(value)])
        return any(_is_between(range_, value.nanoseconds) for range_ in ranges)
    return domain.other


def _is_between(range_: NumberRange, value: Any) -> bool:
    above = compare_with_literal(value, ">" if range_.low_open else ">=", range_.low)
    return (
        above is True and compare_with_literal(value, "<" if range_.high_open else "<=", range_.high) is True
    )


def number_set(spans: Sequence[Span]) -> Domain:
    """The numbers in any of these spans."""
    return Domain(numbers=_ranges(spans))


def _ranges(spans: Sequence[Span]) -> tuple[NumberRange, ...]:
    """The ranges that these spans make up."""
    return tuple([_number_range(*span) for span in _united(spans)])


def text_set(spans: Sequence[Span]) -> Domain:
    """The texts in any of these spans."""
    return Domain(texts=tuple([_text_range(*span) for span in _united(spans)]))


def comparison(operator: str, literal: Any) -> Domain:
    """The values for which the comparison with a literal (the literal on the right) is true.

    >>> comparison("<", 5).numbers
    (NumberRange(low=-inf, high=5, low_open=False, high_open=True),)
    """
    if isinstance(literal, bool):
        return Domain(
            booleans=tuple([truth for truth in (False, True) if OPERATORS[operator](truth, literal)])
        )
    if isinstance(literal, str):
        before, after = _text_cut(literal, 0), _text_cut(literal, 1)
        texts = text_set(_spans(operator, BOTTOM_TEXT, before, after, TOP_TEXT)).texts
        return Domain(
            texts=texts,
            instants=_time_ranges(operator, read_instant(literal)),
            times=_time_ranges(operator, read_time(literal)),
        )
    if isinstance(literal, (int, float)):
        return number_set(_spans(operator, (-inf, 0), (literal, 0), (literal, 1), (inf, 1)))
    if type(literal) in TIMES:
        return _time_domain(type(literal), _time_ranges(operator, literal))
    return NOTHING


def _time_domain(kind: type, ranges: tuple[NumberRange, ...]) -> Domain:
    """The times of one kind in these ranges."""
    if kind is Instant:
        return Domain(instants=ranges)
    return Domain(times=ranges) if kind is TimeOfDay else Domain(durations=ranges)


def _time_ranges(operator: str, literal: Any) -> tuple[NumberRange, ...]:
    """What compares so with a time; nothing for None, a text that is none."""
    if literal is None:
        return ()
    at = literal.nanoseconds
    return _ranges(_spans(operator, (-inf, 0), (at, 0), (at, 1), (inf, 1)))


def equal_to_any(literals: Sequence[Any]) -> Domain:
    """The values for which IN is true."""
    # Many literals of one kind are the rule: they are united at once.
    numbers = [((n, 0), (n, 1)) for n in literals if isinstance(n, (int, float)) and not isinstance(n, bool)]
    texts = [(_text_cut(t, 0), _text_cut(t, 1)) for t in literals if isinstance(t, str)]
    booleans = tuple(sorted({b for b in literals if isinstance(b, bool)}))
    instants, times, durations = (_ranges(_points(literals, kind)) for kind in TIMES)
    ranged = number_set(numbers).numbers, text_set(texts).texts
    return Domain(*ranged, booleans, instants=instants, times=times, durations=durations)


def _points(literals: Sequence[Any], kind: type) -> list[Span]:
    found = [_as_time(literal, kind) for literal in literals]
    return [((at.nanoseconds, 0), (at.nanoseconds, 1)) for at in found if at is not None]


def _as_time(literal: Any, kind: type) -> Any:
    """The literal as a value of the kind meets it; None when they do not compare."""
    if isinstance(literal, str):
        return read_instant(literal) if kind is Instant else read_time(literal) if kind is TimeOfDay else None
    return literal if type(literal) is kind else None


def equal_to_none(literals: Sequence[Any]) -> Domain:
    """The values for which NOT IN is true: of a kind that all literals compare with, and equal to none."""
    equal = equal_to_any(literals)
    if all(isinstance(literal, bool) for literal in literals):
        return Domain(booleans=tuple([truth for truth in (False, True) if truth not in equal.booleans]))
    if all(isinstance(literal, (int, float)) and not isinstance(literal, bool) for literal in literals):
        return Domain(numbers=_outside(equal.numbers))
    texts: tuple[TextRange, ...] = ()
    if all(isinstance(literal, str) for literal in literals):
        texts = text_set(_gaps([_text_span(r) for r in equal.texts], BOTTOM_TEXT, TOP_TEXT)).texts
    instants, times, durations = (
        _outside(getattr(equal, name)) if all(_as_time(each, kind) is not None for each in literals) else ()
        for kind, name in TIMES.items()
    )
    return Domain(texts=texts, instants=instants, times=times, durations=durations)


def _outside(ranges: tuple[NumberRange, ...]) -> tuple[NumberRange, ...]:
    return _ranges(_gaps([_number_span(range_) for range_ in ranges], (-inf, 0), (inf, 1)))


def texts_beginning(prefix: str) -> Domain:
    """The texts with this prefix.

    >>> texts_beginning("ab").texts
    (TextRange(low='ab', high='ac', low_open=False, high_open=True),)
    """
    return text_set([_prefix_span(prefix)])


def texts_not_beginning(prefix: str) -> Domain:
    """The texts without this prefix."""
    return text_set(_gaps([_prefix_span(prefix)], BOTTOM_TEXT, TOP_TEXT))


def union(domains: Sequence[Domain]) -> Domain:
    """The values in any of the domains. O(n log n) in the number of ranges."""
    if len(domains) == 1:
        return domains[0]
    ranged = [
        _ranges([_number_span(r) for domain in domains for r in getattr(domain, name)]) for name in RANGED
    ]
    return Domain(
        ranged[0],
        text_set([_text_span(r) for domain in domains for r in domain.texts]).texts,
        tuple([truth for truth in (False, True) if any(truth in domain.booleans for domain in domains)]),
        any(domain.null for domain in domains),
        any(domain.other for domain in domains),
        *ranged[1:],
    )


def intersection(domains: Sequence[Domain]) -> Domain:
    """The values in all of the domains. O(n log n) in the number of ranges."""
    if len(domains) == 1:
        return domains[0]
    if len(domains) > 2:
        middle = len(domains) // 2
        return intersection([intersection(domains[:middle]), intersection(domains[middle:])])
    first, second = domains
    ranged = [_common_ranges(getattr(first, name), getattr(second, name)) for name in RANGED]
    texts = _common(list(map(_text_span, first.texts)), list(map(_text_span, second.texts)))
    return Domain(
        ranged[0],
        tuple([_text_range(*span) for span in texts]),
        tuple([truth for truth in first.booleans if truth in second.booleans]),
        first.null and second.null,
        first.other and second.other,
        *ranged[1:],
    )


def _common_ranges(
    first: tuple[NumberRange, ...], second: tuple[NumberRange, ...]
) -> tuple[NumberRange, ...]:
    if not first or not second:
        return ()
    common = _common(list(map(_number_span, first)), list(map(_number_span, second)))
    return tuple([_number_range(*span) for span in common])


def is_within(inner: Domain, outer: Domain) -> bool:
    """Whether every value of `inner` is in `outer`. Most answers need a look at the outermost bounds only."""
    if inner.null > outer.null or inner.other > outer.other or not set(inner.booleans) <= set(outer.booleans):
        return False
    if inner.numbers:
        if not outer.numbers or inner.numbers[0].low < outer.numbers[0].low:
            return False
        if inner.numbers[-1].high > outer.numbers[-1].high:
            return False
    if inner.texts:
        if not outer.texts or inner.texts[0].low < outer.texts[0].low:
            return False
        last, limit = inner.texts[-1].high, outer.texts[-1].high
        if limit is not None and (last is None or last > limit):
            return False
    return intersection([inner, outer]) == inner


def contains(outer: Conjunction, inner: Conjunction) -> bool:
    """Whether it is certain that what satisfies `inner` satisfies `outer`."""
    if outer.residual or len(outer.domains) > len(inner.domains):
        return False
    given = dict(inner.domains)
    return all(name in given and is_within(given[name], domain) for name, domain in outer.domains)


def narrows(conjunction: Conjunction) -> bool:
    """Whether an index gains by it: it says all there is to say, or bounds the values of an attribute."""
    return not conjunction.residual or any(
        domain.numbers != ALL_NUMBERS and domain.texts != ALL_TEXTS for _, domain in conjunction.domains
    )


def widened(domain: Domain, limit: int) -> Domain:
    """A domain that contains this one and has at most `limit` ranges of numbers and of texts.

    Of the numbers the narrowest gaps are closed; texts, which have no distance, become one range.
    """
    numbers, instants, times, durations = (_fewer(getattr(domain, name), limit) for name in RANGED)
    texts = domain.texts
    if len(texts) > limit:
        texts = (replace(texts[0], high=texts[-1].high, high_open=texts[-1].high_open),)
    return replace(domain, numbers=numbers, texts=texts, instants=instants, times=times, durations=durations)


def _fewer(ranges: tuple[NumberRange, ...], limit: int) -> tuple[NumberRange, ...]:
    if len(ranges) <= limit:
        return ranges
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i].low - ranges[i - 1].high)
    kept = [0, *sorted(gaps[len(gaps) - limit + 1 :]), len(ranges)] if limit > 1 else [0, len(ranges)]
    ends = [(ranges[start], ranges[end - 1]) for start, end in pairwise(kept)]
    return tuple([replace(low, high=high.high, high_open=high.high_open) for low, high in ends])


# Cuts


def _number_span(range_: NumberRange) -> Span:
    return (range_.low, int(range_.low_open)), (range_.high, int(not range_.high_open))


def _number_range(low: Cut, high: Cut) -> NumberRange:
    return NumberRange(low[0], high[0], low[1] == 1, high[1] == 0)


def _text_cut(text: str, side: int) -> Cut:
    """A cut beside a text; before a text with a final NUL is after the text without it."""
    return (0, text[:-1], 1) if side == 0 and text.endswith("\0") else (0, text, side)


def _text_span(range_: TextRange) -> Span:
    high = TOP_TEXT if range_.high is None else _text_cut(range_.high, int(not range_.high_open))
    return _text_cut(range_.low, int(range_.low_open)), high


def _text_range(low: Cut, high: Cut) -> TextRange:
    if high == TOP_TEXT:
        return TextRange(low[1], None, low[2] == 1)
    return TextRange(low[1], high[1], low[2] == 1, high[2] == 0)


def _prefix_span(prefix: str) -> Span:
    """From the prefix up to the first text behind all that begin with it."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return _text_cut(prefix, 0), TOP_TEXT
    following = ord(kept[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # no text holds half a surrogate pair
        following = 0xE000
    return _text_cut(prefix, 0), _text_cut(kept[:-1] + chr(following), 0)


def _spans(operator: str, bottom: Cut, before: Cut, after: Cut, top: Cut) -> list[Span]:
    """The spans of the values that compare so with one value, which lies between `before` and `after`."""
    below, above = (bottom, before), (after, top)
    return {
        "=": [(before, after)],
        "<>": [below, above],
        "<": [below],
        "<=": [(bottom, after)],
        ">": [above],
        ">=": [(before, top)],
    }[operator]


def _united(spans: Sequence[Span]) -> list[Span]:
    """Disjoint ascending spans, none touching another, that together are these."""
    united: list[Span] = []
    for low, high in sorted(spans):
        if not low < high:
            continue
        if united and low <= united[-1][1]:
            if high > united[-1][1]:
                united[-1] = (united[-1][0], high)
        else:
            united.append((low, high))
    return united


def _common(first: list[Span], second: list[Span]) -> list[Span]:
    """What two lists of disjoint ascending spans have in common."""
    common = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low < high:
            common.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return common


def _gaps(spans: list[Span], bottom: Cut, top: Cut) -> list[Span]:
    """What disjoint ascending spans leave out."""
    edges = [bottom, *(cut for span in spans for cut in span), top]
    return list(zip(edges[::2], edges[1::2], strict=True))
