"""What clients of a query network must get: the interpreter's answers, less what was told to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from distributary.flow import Catalogue, Item, interpret
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


def out_of_order(due: Items, found: Items) -> list[str]:
    """Where clients that got all that was due got it in another order, a line for each output.

    Items of one time come in any order, because an operator that is divided gives them out in several places.

    >>> first, second = Item("e1", 1, {}), Item("e2", 2, {})
    >>> out_of_order({"busy.large": [first, second]}, {"busy.large": [second, first]})
    ['busy.large gave e2 at 2 where an item at 1 was due: out of order']
    """
    problems = []
    for output, items in due.items():
        pairs = zip(items, found.get(output, ()), strict=False)
        wrong = next((pair for pair in pairs if pair[0].time != pair[1].time), None)
        if wrong is not None and not differences({output: items}, found):
            told = f"{wrong[1].id} at {wrong[1].time} where an item at {wrong[0].time} was due"
            problems.append(f"{output} gave {told}: out of order")
    return problems


def until_withdrawn(due: Items, found: Items, withdrawn: Iterable[str]) -> Items:
    """What was due of outputs that were withdrawn: as much of their beginnings as clients got; else all.

    >>> first, second = Item("e1", 1, {}), Item("e2", 2, {})
    >>> until_withdrawn({"busy.large": [first, second]}, {"busy.large": [first]}, ["busy.large"])
    {'busy.large': [Item(id='e1', time=1, attributes={}, rank=0)]}
    """
    return {**due, **{output: _beginning(due[output], found.get(output, ())) for output in withdrawn}}


def _beginning(due: Sequence[Item], found: Sequence[Item]) -> list[Item]:
    """What was due before the last item that was found, and of its time what was found."""
    last = max((item.time for item in found), default=None)
    got = {_shown(item) for item in found}
    return [item for item in due if last is not None and (item.time < last or _shown(item) in got)]


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
