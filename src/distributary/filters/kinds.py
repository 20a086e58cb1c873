"""The filter kinds there are: the four built in, and those an application registers.

An installed package names the modules that register its kinds as entry points of the group
`distributary.filters`; they are loaded when kinds are first asked for, in the commands and in Spark's
workers too.

>>> sorted(kinds())
['change', 'path', 'topic', 'where']
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.metadata import entry_points

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
ENTRY_POINTS = "distributary.filters"
"""The group of entry points by which packages name the modules that register filter kinds."""
_added: dict[str, type[Filter]] = {}


def kinds() -> dict[str, type[Filter]]:
    """Every filter kind by its key in a subscription."""
    return {**BUILT_IN, **_known_to_be_added()}


def added_kinds() -> tuple[str, ...]:
    """The keys of the kinds that an application has registered."""
    return tuple(_known_to_be_added())


@cache
def _load_entry_points() -> None:
    """Load what installed packages name, once; one that cannot be loaded is an error that names it."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found = entry.load()
        except Exception as error:
            raise DistributaryError(
                f"the filter kinds of {entry.value!r} (entry point {entry.name!r}) cannot be loaded: {error}"
            ) from error
        if isinstance(found, type) and issubclass(found, Filter):
            register(found)


def _known_to_be_added() -> dict[str, type[Filter]]:
    _load_entry_points()
    return _added


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
        if kind in BUILT_IN or kind in _known_to_be_added():
            parse_filter(kind, given)


def parse_filter(kind: str, given: object) -> Filter:
    """The filter that a subscription gives under this kind; `FilterError` when there is no such kind."""
    if isinstance(given, str) and len(given) <= REMEMBERED_LENGTH and kind in BUILT_IN:
        return _parsed(kind, given)
    filter_class = BUILT_IN.get(kind) or _known_to_be_added().get(kind)
    if filter_class is None:
        raise FilterError(f"no such filter kind; known are {', '.join(kinds())}", field=kind)
    return filter_class.parse(given)


@lru_cache(maxsize=REMEMBERED)
def _parsed(kind: str, given: str) -> Filter:
    """A filter by its text. A subscription is parsed when it is made and again when it is used."""
    return BUILT_IN[kind].parse(given)
