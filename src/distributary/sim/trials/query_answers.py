"""What clients of a query network must get: the interpreter's answers, less what was told to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
