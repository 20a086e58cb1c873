"""The suite of bugs that are put into systems on purpose, one at a time: a trial must find each of them.

A bug is a function that patches a class; its decorator says in which trial it is to be found, and within how
many seeds. `quick` ones are part of `make test`, all of `make chaos`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from distributary.model import Event, Offset, SubscriptionKey
from distributary.sim.trials.trial import Trial
from distributary.systems.home import Home
from distributary.systems.table import SYSTEMS

Patch = Callable[[pytest.MonkeyPatch], None]
SMALL: dict[str, Any] = {"nodes": 12, "subscriptions": 60, "events": 40}


@dataclass(frozen=True)
class Bug:
    """A bug, the trial that finds it, and within how many seeds."""

    name: str
    patch: Patch
    trial: Trial
    seeds: int
    quick: bool


BUGS: list[Bug] = []


def bug(
    system: str, scenario: str = "calm", *, seeds: int = 1, quick: bool = False, **settings: Any
) -> Callable[[Patch], Patch]:
    """Add a bug to the suite."""

    def add(patch: Patch) -> Patch:
        trial = Trial(system, scenario, **{**SMALL, **settings})
        name = f"{patch.__name__.replace('_', ' ')} in {system}"
        BUGS.append(Bug(name, patch, trial, seeds, quick))
        return patch

    return add


def on_every_system(
    *, but: Collection[str] = (), seeds: int = 1, quick: Collection[str] = ()
) -> Callable[[Patch], Patch]:
    """Add a bug to the suite once for each system."""

    def add(patch: Patch) -> Patch:
        for name in SYSTEMS:
            if name not in but:
                bug(name, seeds=seeds, quick=name in quick)(patch)
        return patch

    return add


# What several bugs have in common.


def one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Have homes take the events of a batch as they take single ones, so that a bug there is met by all."""

    def offer_all(self: Home, numbers: Sequence[int], events: Sequence[Event], epoch: float) -> None:
        for number, event in zip(numbers, events, strict=True):
            self.offer(event, Offset(epoch, number))

    patch.setattr(Home, "offer_all", offer_all)


def unheard(patch: pytest.MonkeyPatch, deaf_to: Callable[[Home, SubscriptionKey], bool]) -> None:
    """Have homes deliver nothing for some subscriptions."""
    whole = Home._hand_out

    def hand_out(
        self: Home, event: Event, keys: Iterable[SubscriptionKey], reached: Any, offset: Any = None
    ) -> None:
        whole(self, event, [key for key in keys if not deaf_to(self, key)], reached, offset)

    one_by_one(patch)
    patch.setattr(Home, "_hand_out", hand_out)
