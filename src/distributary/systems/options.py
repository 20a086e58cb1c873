"""The settings of each system that a user may choose by name: what they are, their defaults, and their types.

`sim run --set key=value` and TOML files name them; `SYSTEMS` says which system takes which. Defaults are
those of the classes that take them, and None where the system works the value out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.errors import SettingError

LAYOUT = "layout"
"""By this name nodes tell the layout of what they compute, which nobody chooses; 1 if they do not."""


@dataclass(frozen=True)
class SystemOption:
    """A setting of a system."""

    name: str
    default: Any
    about: str
    read: Callable[[Any], Any]
    """Gives the value for what a user wrote; ValueError when it makes no sense."""
    for_faults: bool = False
    """Whether it changes nothing where nodes are not made to bear faults."""
    needs: str = ""
    """Another setting without which it changes nothing."""


def read_options(system: str, options: Sequence[SystemOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what a user set; SettingError for a setting that the system does not have.

    >>> read_options("ring", [SystemOption("copies", 2, "", whole)], {"copies": "3"})
    {'copies': 3}
    """
    known = {option.name: option for option in options}
    values = {}
    for name, value in given.items():
        if name not in known:
            told = ", ".join(known) or "none"
            raise SettingError(f"system {system!r} has no setting {name!r}; its settings are {told}")
        try:
            values[name] = known[name].read(value)
        except ValueError as error:
            raise SettingError(f"setting {name} of system {system!r} {error}") from None
    return values


def whole(given: Any) -> int:
    """A whole number, none below 0."""
    try:
        number = int(given) if not isinstance(given, float | bool) else -1
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"takes a whole number of at least 0, not {given!r}")
    return number


def number(given: Any) -> float:
    """A number above 0."""
    try:
        value = float(given) if not isinstance(given, bool) else 0.0
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"takes a number above 0, not {given!r}")
    return value


def truth(given: Any) -> bool:
    """True or false."""
    if given not in (True, False, "true", "false"):
        raise ValueError(f"takes true or false, not {given!r}")
    return given in (True, "true")


def text(given: Any) -> str:
    """A text that is not empty."""
    if not isinstance(given, str) or not given:
        raise ValueError(f"takes a text, not {given!r}")
    return given


def several(given: Any) -> tuple[int, ...]:
    """Whole numbers: a list, or a text such as `4,6`."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Iterable):
        raise ValueError(f"takes whole numbers, such as 4,6, not {given!r}")
    return tuple(whole(one) for one in parts)


def one_of(*names: str) -> Callable[[Any], str]:
    """One of these names."""

    def read(given: Any) -> str:
        if given not in names:
            raise ValueError(f"takes one of {', '.join(names)}, not {given!r}")
        return str(given)

    return read


def schema(given: Any) -> Any:
    """An attribute schema, or the name of a file with one."""
    from distributary.systems.attributes.schema import AttributeSchema

    return given if isinstance(given, AttributeSchema) else AttributeSchema.read(text(given))


KEEPING = (
    SystemOption(
        "copies",
        2,
        "nodes that keep copies of what a node keeps, where faults are borne",
        whole,
        for_faults=True,
    ),
    SystemOption(
        "refresh",
        10.0,
        "seconds after which homes register again, where faults are borne",
        number,
        for_faults=True,
    ),
)
ATTRIBUTES = (
    KEEPING[0],
    SystemOption("refresh", 30.0, KEEPING[1].about, number, for_faults=True),
    SystemOption("schema", None, "a file with the attributes: TOML or JSON (those of `ranges`)", schema),
    SystemOption("overlap", 20.0, "seconds for which two placements of an attribute are kept", number),
    SystemOption("window", 5.0, "seconds in which a new placement is gathered", number),
    SystemOption("outstanding", 1_000_000, "parts of subscriptions that one node may have", whole),
)
ARCS = (*ATTRIBUTES, SystemOption("rebalance", None, "seconds between changes of a placement", number))
SEGMENTS = (
    *KEEPING,
    SystemOption("span", 16.0, "segment length: nodes that an item's segment spans on average", number),
    SystemOption("maximum", 64.0, "the largest tolerance with a place of its own", number),
    SystemOption("depth", 3, "levels of a topic that name an item", whole),
)
LEVELS = (*SEGMENTS, SystemOption("window", 0.25, "seconds that a leader waits for reports", number))
HOPE = (
    *KEEPING,
    SystemOption("dimension", None, "bits of a vertex (as many vertices as nodes)", whole),
    SystemOption("length", 1024, "bits of a structural filter", whole),
    SystemOption("hashes", 1, "bits that an item sets in it", whole),
    SystemOption("value_bits", 256, "bits of it that show values compared with =", whole),
    SystemOption("facets", 1, "cubes that a subscription is kept in", whole),
    SystemOption("history", 0, "events that a node stores for those who come back", whole),
    SystemOption("dimensions", None, "dimensions among which it may change, such as 4,6", several),
)
BOUNDED_HOPE = (*HOPE, SystemOption("budget", 1, "filters in an advert to a neighbour", whole))
RULES = one_of("local", "directed", "hybrid")
TREE = (
    SystemOption("fanout", 8, "children of a node, at most", whole),
    SystemOption("most_profiles", 64, "profiles in an interest; above that they are merged", whole),
    SystemOption(
        "heartbeat", 1.0, "seconds between heartbeats, where faults are borne", number, for_faults=True
    ),
    SystemOption("goal", None, "a goal that the tree follows, in the goal language (none)", text),
    SystemOption("rules", "hybrid", "rewrites for it: local, directed or hybrid", RULES, needs="goal"),
    SystemOption("unit", 3, "levels of an optimisation unit: 3, 4 or 5", whole, needs="goal"),
    SystemOption("period", 60.0, "seconds between optimisation periods", number, needs="goal"),
    SystemOption("statistics", 1.0, "seconds between its maintenance messages", number, needs="goal"),
    SystemOption(
        "best_effort", False, "whether nodes choose the best parent for themselves", truth, needs="goal"
    ),
    SystemOption(
        "concurrent", False, "whether several rewrites are granted in a period", truth, needs="goal"
    ),
)
