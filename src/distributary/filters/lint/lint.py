"""Subscriptions held against a schema, one by one and those of a subscriber against one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from distributary.errors import FilterError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import EVERY_EVENT, Filter
from distributary.filters.kinds import parse_filter
from distributary.filters.lint.conditions import Remark, condition_remarks
from distributary.filters.lint.covering import MAX_COMPARED, Coverings
from distributary.filters.lint.findings import Finding, Severity, finding
from distributary.filters.lint.schema import EventSchema
from distributary.filters.profile import Profile
from distributary.filters.where import expression as tree
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Kind
from distributary.model import Subscription


def lint(
    subscriptions: Iterable[Subscription], schema: EventSchema | None = None, *, covered: bool = True
) -> Iterator[Finding]:
    """What is found in the subscriptions: first in each by itself, then what is covered.

    Without a schema, only what needs none is found.

    >>> from distributary.model import Subscription
    >>> found = lint([Subscription("s1", "ann", where="prise > 5")], EventSchema.of_ddl("price double"))
    >>> [(each.what, each.advice) for each in found]
    [('unknown attribute', 'write price')]
    """
    kept: dict[str, list[Subscription]] = {}
    for subscription in subscriptions:
        yield from lint_subscription(subscription, schema)
        if covered:
            kept.setdefault(subscription.subscriber, []).append(subscription)
    for theirs in kept.values():
        yield from lint_covered(theirs)


def lint_subscription(
    subscription: Subscription, schema: EventSchema | None = None, place: str = ""
) -> list[Finding]:
    """What is found in one subscription by itself."""
    found: list[Finding] = []
    parsed: dict[str, Filter] = {}
    for kind, given in subscription.filters().items():
        try:
            parsed[kind] = parse_filter(kind, given)
            remarks = _remarks(parsed[kind], schema)
        except FilterError as error:
            remarks = [Remark(Severity.ERROR, "malformed", str(error))]
        found += [finding(subscription, kind, *remark) for remark in remarks]
    if len(parsed) == len(subscription.filters()):
        found += [finding(subscription, kind, *remark) for kind, remark in _everything_remarks(parsed)]
    return [replace(each, place=place) for each in found] if place else found


def _remarks(filter: Filter, schema: EventSchema | None) -> list[Remark]:
    if isinstance(filter, WhereFilter):
        return condition_remarks(filter, schema)
    found = []
    if filter.slow:
        found.append(Remark(Severity.WARNING, "slow", f"is evaluated event by event: {filter.slow}"))
    if schema is None:
        return found
    severity = Severity.ERROR if schema.complete else Severity.WARNING
    for kind, has_it in (("topic", schema.has_topic), ("document", schema.has_document)):
        if not has_it and filter.kind == ("path" if kind == "document" else kind):
            found.append(
                Remark(severity, "missing", f"the events have no {kind}", f"name the column of the {kind}")
            )
    if isinstance(filter, ChangeFilter):
        found += _change_remarks(filter, schema, severity)
    return found


def _everything_remarks(filters: Mapping[str, Filter]) -> Iterator[tuple[str, Remark]]:
    """Which filters ask for everything, if no other one asks for less, and which say nothing.

    Whoever writes `true` means it; who writes a condition on attributes that is always true may not.
    """
    asked = {kind: filter.asks_for_all for kind, filter in filters.items()}
    narrowed = any(what is None for kind, what in asked.items() if kind != ChangeFilter.kind)
    for kind, what in asked.items():
        filter = filters[kind]
        if isinstance(filter, WhereFilter) and what == EVERY_EVENT:
            by_mistake = bool(tree.attributes_of(filter.expression))
            severity = Severity.WARNING if by_mistake else Severity.NOTE
            advice = "write true if that is meant" if by_mistake else ""
            advice = advice if len(filters) == 1 else "leave it out"
            yield kind, Remark(severity, "everything", f"is true for {what}", advice)
        elif what is not None and not narrowed:
            yield kind, Remark(Severity.NOTE, "everything", f"asks for {what}")


def _change_remarks(filter: ChangeFilter, schema: EventSchema, severity: Severity) -> Iterator[Remark]:
    for name in filter.attributes:
        type_ = schema.type_of(name)
        if type_ is None:
            near = schema.nearest(name)
            advice = f"write {near}" if near else "name one that they have"
            yield Remark(severity, "unknown attribute", f"the events have no attribute {name!r:.200}", advice)
        elif type_.kinds is not None and Kind.NUMBER not in type_.kinds:
            message = f"{name} is {type_}, and tolerances are of numbers"
            yield Remark(severity, "type clash", message, "name an attribute that is a number")


def lint_covered(subscriptions: Sequence[Subscription]) -> Iterator[Finding]:
    """Which of the subscriptions of one subscriber are covered by others of theirs."""
    if len(subscriptions) < 2:
        return
    profiles: dict[str, Profile] = {}
    by_id: dict[str, Subscription] = {}
    for subscription in subscriptions:
        try:
            profiles.setdefault(subscription.id, Profile.of(subscription))
            by_id.setdefault(subscription.id, subscription)
        except FilterError:
            continue  # said to be malformed already
    coverings = Coverings(profiles)
    for covered, by in coverings.pairs():
        yield finding(
            by_id[covered],
            "",
            Severity.WARNING,
            "covered",
            f"subscription {by!r} of {by_id[by].subscriber!r} gets everything that this one gets",
            "leave one of them out",
        )
    if coverings.cut_off:
        first = subscriptions[0]
        message = (
            f"{coverings.cut_off:,} subscriptions of {first.subscriber!r} were compared with {MAX_COMPARED} "
            "others each at most, not with all"
        )
        yield finding(first, "", Severity.NOTE, "not compared", message)
