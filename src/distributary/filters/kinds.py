"""The filter kinds there are: the four built in, and those an application registers.

>>> sorted(kinds())
['change', 'path', 'topic', 'where']
"""

from __future__ import annotations

from functools import lru_cache

from distributary.errors import DistributaryError, FilterError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.path.filter import PathFilter
from distributary.filters.topic import TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.model import BUILT_IN_FILTERS, Subscription

REMEMBERED = 1 << 14
REMEMBERED_LENGTH = 1000
"""So many filters, of texts no longer than this, are not parsed again."""

BUILT_IN: dict[str, type[Filter]] = {
    filter_class.kind: filter_class for filter_class in (TopicFilter, WhereFilter, PathFilter, ChangeFilter)
}
_added: dict[str, type[Filter]] = {}


def kinds() -> dict[str, type[Filter]]:
    """Every filter kind by its key in a subscription."""
    return {**BUILT_IN, **_added}


def added_kinds() -> tuple[str, ...]:
    """The keys of the kinds that an application has registered."""
    return tuple(_added)


def register(filter_class: type[Filter]) -> type[Filter]:
    """Make a filter kind of your own known; usable as a class decorator."""
    reserved = ("id", "subscriber", *BUILT_IN_FILTERS)
    if filter_class.kind in reserved:
        raise DistributaryError(
            f"{filter_class.kind!r} is taken; choose another kind than {', '.join(reserved)}"
        )
    _added[filter_class.kind] = filter_class
    return filter_class


def parse_filters(subscription: Subscription) -> dict[str, Filter]:
    """The filters of a subscription by kind, parsed; `FilterError` says which one is wrong and why."""
    return {kind: parse_filter(kind, given) for kind, given in subscription.filters().items()}


def check_filters(subscription: Subscription) -> None:
    """Raise `FilterError` when a filter cannot be understood; kinds not registered are passed over."""
    for kind, given in subscription.filters().items():
        if kind in BUILT_IN or kind in _added:
            parse_filter(kind, given)


def parse_filter(kind: str, given: object) -> Filter:
    """The filter that a subscription gives under this kind; `FilterError` when there is no such kind."""
    if isinstance(given, str) and len(given) <= REMEMBERED_LENGTH and kind in BUILT_IN:
        return _parsed(kind, given)
    filter_class = BUILT_IN.get(kind) or _added.get(kind)
    if filter_class is None:
        raise FilterError(f"no such filter kind; known are {', '.join(kinds())}", field=kind)
    return filter_class.parse(given)


@lru_cache(maxsize=REMEMBERED)
def _parsed(kind: str, given: str) -> Filter:
    """A filter by its text. A subscription is parsed when it is made and again when it is used."""
    return BUILT_IN[kind].parse(given)
