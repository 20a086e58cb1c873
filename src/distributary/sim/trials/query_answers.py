"""What clients of a query network must get: the interpreter's answers, less what was told to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from distributary.flow import (
    Aggregate,
    Catalogue,
    Copy,
    FilterOperation,
    Item,
    Map,
    Rename,
    Split,
    interpret,
)
from distributary.flow.catalogue import Sharing
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Arrangement
from distributary.flow.thinning import ShareSchedule, survives, thinning_unit
from distributary.systems.queries import QueryShare

Items = Mapping[str, Sequence[Item]]
"""Items by the names of their streams."""


def answers_due(catalogue: Catalogue, items: Items, told: Sequence[QueryShare], seed: int = 0) -> Items:
    """The items of every output, in stream order, for these of the sources.

    `told` are the shares that clients were told, in order, `seed` the one of `SheddingSettings`: an answer is
    due when its unit survives at the least share in force in all the time that it comes of.
    """
    full, sharing = interpret(catalogue, items).streams, catalogue.shared()
    makers = {stream: one.name for one in sharing.operators for stream in one.streams}
    due: dict[str, Sequence[Item]] = {}
    for query in catalogue.queries:
        outputs, schedule = catalogue.outputs(query), ShareSchedule()
        for one in told:
            if one.query == query and one.refused is None:
                schedule.change(one.since, one.share)
        for output in outputs:
            due[output] = full[output]
            if schedule.changed:
                unit, maker = thinning_unit(sharing, outputs), makers[sharing.streams[output]]
                due[output] = [
                    item
                    for item in full[output]
                    if survives(unit.text(maker, item), schedule.least(*unit.reach(item.time)), seed)
                ]
    return due


def differences(due: Items, found: Items) -> list[str]:
    """How what clients got differs from what was due; empty when it does not."""
    problems = []
    for output, items in due.items():
        wanted = Counter(map(_shown, items))
        got = Counter(map(_shown, found.get(output, ())))
        problems += [f"{output} lacks {item}" for item in (wanted - got).elements()]
        problems += [f"{output} gave {item}, unasked or twice" for item in (got - wanted).elements()]
    return problems


Place = Callable[[Item], Any]
"""What items are ordered by."""
Places = Mapping[str, Place | None]
"""The order that is promised for each output; None where any is right."""


def promised_order(
    catalogue: Catalogue, items: Items, divided: Collection[str] = (), *, kept: bool = True
) -> Places:
    """In which order clients are given each output.

    Those who asked for the order of the stream get that; others, if so much is promised (`kept`), what their
    operators keep. `items` are those of the sources, in the order in which they were published, and `divided`
    the operators that have replicas.
    """
    sharing = catalogue.shared()
    places: dict[str, Place | None] = {}
    for query in catalogue.queries.values():
        for output in catalogue.outputs(query.name):
            order = kept_order(sharing, sharing.streams[output], items, divided) if kept else None
            places[output] = _stream_order if query.ordered else order
    return places


def kept_order(sharing: Sharing, stream: str, items: Items, divided: Collection[str]) -> Place | None:
    """The order in which an operator gives out a stream, whatever comes when; None where that is left open.

    Operators of one item keep the order of their input, and windows by time end in the order of time. A
    union, a join and replicas give out what has come.
    """
    if stream in items:
        numbers = {item.id: number for number, item in enumerate(items[stream])}
        return lambda item: numbers[item.id]
    maker = next(one for one in sharing.operators if stream in one.streams)
    operation = maker.operation
    if isinstance(operation, Arrangement):
        return _stream_order
    if isinstance(operation, Aggregate) and isinstance(operation.span, TimeWindow):
        return _stream_order
    of_one_item = isinstance(operation, FilterOperation | Map | Rename | Copy | Split)
    if not of_one_item or any(name in divided for name in maker.stands_for):
        return None
    return kept_order(sharing, maker.inputs[0], items, divided)


def _stream_order(item: Item) -> tuple[int, int, str]:
    return item.order


def out_of_order(places: Places, found: Items) -> list[str]:
    """Where clients were given items in another order than was promised, a line for each output.

    >>> one, two = Item("e1", 1, {}), Item("e2", 2, {})
    >>> out_of_order({"busy.large": lambda item: item.time}, {"busy.large": [two, one]})
    ['busy.large gave e1 at 1 after e2 at 2: out of order']
    """
    problems = []
    for output, place in places.items():
        pairs = () if place is None else pairwise(found.get(output, ()))
        wrong = next((pair for pair in pairs if place is not None and place(pair[1]) < place(pair[0])), None)
        if wrong is not None:
            before, after = (f"{item.id} at {item.time}" for item in wrong)
            problems.append(f"{output} gave {after} after {before}: out of order")
    return problems


def until_withdrawn(due: Items, found: Items, places: Places, withdrawn: Iterable[str]) -> Items:
    """What was due of outputs that were withdrawn: their beginnings, as far as clients were given them.

    Where items may come in any order, any of them may have been under way: those count that came.

    >>> first, second = Item("e1", 1, {}), Item("e2", 2, {})
    >>> streams = {"busy.large": [first, second]}, {"busy.large": [first]}
    >>> until_withdrawn(*streams, {"busy.large": lambda item: item.time}, ["busy.large"])
    {'busy.large': [Item(id='e1', time=1, attributes={}, rank=0)]}
    """
    return {**due, **{name: _beginning(due[name], found.get(name, ()), places[name]) for name in withdrawn}}


def _beginning(due: Sequence[Item], found: Sequence[Item], place: Place | None) -> list[Item]:
    """What was due up to the last item that was found, or of what was due what was found."""
    got = {_shown(item) for item in found}
    last = None if place is None else max(map(place, found), default=None)
    if place is None or last is None:
        return [item for item in due if _shown(item) in got]
    return [item for item in due if place(item) <= last]


def _shown(item: Item) -> str:
    return f"{item.id} at {item.time}: {dict(sorted(item.attributes.items()))}, rank {item.rank}"


def nothing_due(due: Items, rejection: str) -> list[str]:
    """That a run has shown nothing, if no query had any answer; with an event that was set aside, if any was.

    >>> nothing_due({"busy.large": []}, "")
    ['no query had any answer, which means nothing: give more events, or ones that match']
    """
    if any(due.values()):
        return []
    aside = f"; set aside was {rejection}" if rejection else ""
    return [f"no query had any answer, which means nothing: give more events, or ones that match{aside}"]
