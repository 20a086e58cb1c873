"""What a user chooses of a query network, and nodes made from that.

A query network is told its brokers by name when it is made: no node joins later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import process_time
from typing import Any

from distributary.errors import DistributaryError, SettingError
from distributary.flow.language.function import USE, permit_functions
from distributary.overlay.node import Address, Node
from distributary.plan.queries.goals import NAMED_GOALS, parse_query_goal
from distributary.plan.queries.rules import MIGRATIONS
from distributary.systems.options import SystemOption, number, read_options, text, whole
from distributary.systems.queries.client_broker import QueryBroker
from distributary.systems.queries.processing import TimedProcessor
from distributary.systems.queries.settings import CheckpointSettings, QueryOptimiserSettings, Surroundings

NAME = "queries"
WINDOW = 2.0
"""Seconds that whoever collects statistics waits for them, at most: a round must fit into a period."""


def names(given: Any) -> tuple[str, ...]:
    """Names: a list, or a text such as `hall-1,hall-2`."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Iterable) or not all(isinstance(each, str) and each for each in parts):
        raise ValueError(f"takes names, such as hall-1,hall-2, not {given!r}")
    return tuple(parts)


def functions(given: Any) -> tuple[str, ...]:
    """Functions, each as `module:name`."""
    found = names(given) if given else ()
    for each in found:
        if not USE.fullmatch(each):
            raise ValueError(f"takes functions written module:name, not {each!r}")
    return found


def goal(given: Any) -> Any:
    """A goal for placed queries: one that has a name, or its text."""
    try:
        return parse_query_goal(NAMED_GOALS.get(text(given), given))
    except DistributaryError as error:
        raise ValueError(f"cannot be read: {error}") from None


OPTIONS = (
    SystemOption("brokers", None, "the names of all nodes, the same at each", names),
    SystemOption("registry", None, "the node that has the registry first", text),
    SystemOption("functions", (), "functions that queries may name: module:name, ...", functions),
    SystemOption("goal", None, "what operators are moved for: bandwidth, latency, load, or a goal", goal),
    SystemOption("period", 30.0, "seconds between moves", number, needs="goal"),
    SystemOption("probing", 10.0, "seconds between measurements of links", number),
    SystemOption("fanout", 4, "children of a node in a tree of a stream", whole),
    SystemOption("checkpoint", 2.0, "seconds between checkpoints of operators", number),
    SystemOption("silence", 20.0, "seconds without a heartbeat after which a node is removed", number),
)


def read_query_options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what a user set, and the defaults of the rest; SettingError for what makes no sense."""
    given = {option.name: option.default for option in OPTIONS} | read_options(NAME, OPTIONS, chosen)
    brokers = given["brokers"]
    if brokers is None:
        raise SettingError("setting brokers of system 'queries' is missing: the names of all nodes")
    given["registry"] = given["registry"] or brokers[0]
    if given["registry"] not in brokers:
        raise SettingError(f"setting registry of system 'queries': {given['registry']!r} is not in brokers")
    return given


def shared_query_options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values that all nodes must have alike: those of `read_query_options`, the goal as its text."""
    goal = chosen.get("goal")
    return read_query_options(chosen) | {"goal": NAMED_GOALS.get(goal, goal) if goal else None}


def query_broker(
    chosen: Mapping[str, Any], address: Address, address_of: Callable[[str], Address]
) -> QueryBroker:
    """A node of a query network, of which `chosen` names all brokers; from now on this process loads no
    functions but those that are permitted."""
    given = read_query_options(chosen)
    brokers = tuple(map(address_of, given["brokers"]))
    if address not in brokers:
        raise SettingError("setting brokers of system 'queries' does not name this node")
    permit_functions(given["functions"])
    around = Surroundings(brokers=brokers, probing=given["probing"], fanout=given["fanout"])
    optimising = None
    if given["goal"] is not None:
        period = given["period"]
        window = min(WINDOW, period / 4)
        optimising = QueryOptimiserSettings(given["goal"], period=period, window=window, rules=MIGRATIONS)
    return QueryBroker(
        Node(address),
        address_of(given["registry"]),
        around,
        optimising=optimising,
        checkpoints=CheckpointSettings(checkpoint=given["checkpoint"], silence=given["silence"]),
        processor=TimedProcessor(process_time),
    )
