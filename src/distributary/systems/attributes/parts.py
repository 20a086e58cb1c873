"""From a subscription to what is stored on the ring: parts, each a conjunction of sets of values.

A condition in disjunctive form is as many parts as it has alternatives; each is stored under an id of its own
(004 section 3 takes two constraints on one attribute for two subscriptions). Whatever of the filters is in no
part (paths, tolerances, general LIKE, wildcards in topics, attributes that the schema does not have) is left
to the home of the subscription: a part may let through more than its subscription wants, never less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.filters.where.domain import Conjunction, Domain, contains_value
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import value_under
from distributary.model import Event, bare_topic
from distributary.systems.attributes.schema import EVERYTHING, TOPIC, AttributeSchema, ValueSet

ANYTHING = Conjunction(())


class PartCondition(NamedTuple):
    """What an event must hold to be in one alternative of a subscription."""

    domains: tuple[tuple[str, Domain], ...]
    """The values of its attributes, those of the schema or not."""
    topic: str | None = None
    """Without a leading slash."""

    def admits(self, event: Event) -> bool:
        """Whether an event is in every one of the sets, exactly."""
        if self.topic is not None and (event.topic is None or bare_topic(event.topic) != self.topic):
            return False
        return all(contains_value(domain, value_under(event, name)) for name, domain in self.domains)

    def besides(self, attribute: str) -> PartCondition:
        """What is asked of everything but this attribute: a list of its values need not be told of them."""
        return self._replace(domains=tuple(each for each in self.domains if each[0] != attribute))


class SubscriptionPart(NamedTuple):
    """One alternative of a subscription."""

    reaches: tuple[tuple[str, ValueSet], ...]
    """Where it can be stored: under each of these attributes, the cells and points that it asks for."""
    wanted: PartCondition


def parts_of(filters: Mapping[str, Filter], schema: AttributeSchema) -> tuple[SubscriptionPart, ...]:
    """The parts of a subscription with these filters; FilterError when one cannot be stored anywhere.

    >>> digit = {"type": "integer", "minimum": 0, "maximum": 9}
    >>> schema = AttributeSchema.from_record({"attributes": {"a": digit}})
    >>> [part] = parts_of({"where": WhereFilter.parse("a > 3 and a <= 6 and b = 1")}, schema)
    >>> part.reaches
    (('a', ValueSet(runs=(CellRange(first=4, last=6),), points=())),)
    """
    where, topic_filter = filters.get("where"), filters.get("topic")
    topic = exact_topic(topic_filter) if schema.topic and isinstance(topic_filter, TopicFilter) else None
    conjunctions = where.conjunctions if isinstance(where, WhereFilter) else None
    return tuple(
        _part(conjunction, topic, filters, schema)
        for conjunction in ((ANYTHING,) if conjunctions is None else conjunctions)
    )


def exact_topic(filter: TopicFilter) -> str | None:
    """The one topic that a pattern matches, but for a leading slash; None when it matches several.

    >>> exact_topic(TopicFilter.parse("quotes/NYSE/#")), exact_topic(TopicFilter.parse("quotes/NYSE"))
    ('quotes/NYSE', None)
    """
    return None if filter.open or WILDCARD in filter.levels else "/".join(filter.bare)


def _part(
    conjunction: Conjunction, topic: str | None, filters: Mapping[str, Filter], schema: AttributeSchema
) -> SubscriptionPart:
    reaches = []
    if topic is not None:
        reaches.append((TOPIC, ValueSet(points=schema[TOPIC].spots(topic))))  # type: ignore[arg-type]
    for name, domain in conjunction.domains:
        if name in schema and name not in schema.filed_apart:
            reach = schema[name].reach(domain)
            if reach is not None:
                reaches.append((name, reach))
    if not reaches and schema.everything:
        reaches.append((EVERYTHING, ValueSet(points=schema[EVERYTHING].spots(EVERYTHING))))  # type: ignore[arg-type]
    if not reaches:
        raise FilterError(
            "holds nothing that the ring could look up, in one of its alternatives at least; it needs a "
            f"condition on the values of {' or '.join(schema.names)}"
            + (", or an exact topic such as 'A/B/#'" if schema.topic else "")
            + "; with `everything = true` in the schema it is looked up for every event",
            field="where" if "where" in filters else next(iter(filters)),
            text=filters["where"].text if "where" in filters else None,
        )
    return SubscriptionPart(tuple(reaches), PartCondition(conjunction.domains, topic))
