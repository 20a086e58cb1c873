"""Bugs in HOPE that trials find; those that only its own tests find are in `systems/hope/test_bugs.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from distributary.model import Event
from distributary.overlay.replication import Replication
from distributary.systems.hope.addressing import Addressing, StructuralAddress
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.documents import DocumentExchange
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import FilterWithdrawal, RegistrationName, XmlPublication
from distributary.systems.hope.table import FilterTable
from sim.bugs.suite import bug


@bug("hope-kbsp", seeds=3)
def no_adverts_to_neighbours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kbsp, "_advertise_all", lambda self, about: None)


@bug("hope-kbpp", seeds=3)
@bug("hope-kbsp", seeds=3)
def publishers_hash_values_otherwise_than_homes(patch: pytest.MonkeyPatch) -> None:
    whole = Addressing.of_event

    def of_event(self: Addressing, event: Event) -> StructuralAddress:
        address = whole(self, event)
        structure = address.filter & ((1 << self.length) - 1)
        values = address.filter >> self.length
        moved = (values << 1 | values >> (self.value_bits - 1)) & ((1 << self.value_bits) - 1)
        return address._replace(filter=structure | moved << self.length)

    patch.setattr(Addressing, "of_event", of_event)


@bug("hope-kbpp", quick=True)
def every_branch_is_taken_for_ones_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kbpp, "_hosts_branch", lambda self, position, place, branch: True)


@bug("hope-kbpp", seeds=3)
@bug("hope-kbsp", seeds=3)
def a_withdrawal_takes_the_whole_vertex(patch: pytest.MonkeyPatch) -> None:
    def withdraw(self: HopeBroker, message: FilterWithdrawal, arrival: Any) -> None:
        for position in arrival.keys:
            for name in list(self.replication.contents(position)):
                if isinstance(name, RegistrationName):
                    self._forget(position, name)

    patch.setattr(HopeBroker, "_withdraw", withdraw)


@bug("hope-kbsp", seeds=3, subscriptions=100, settings={"budget": 100})
def what_a_removed_filter_had_covered_is_not_told(patch: pytest.MonkeyPatch) -> None:
    whole = FilterTable.remove

    def remove(self: FilterTable, filter: int, source: int) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(FilterTable, "_more_demanding", lambda self, filter: iter(()))
            whole(self, filter, source)

    patch.setattr(FilterTable, "remove", remove)


@bug("hope-kbsp", seeds=3)
@bug("hope-kbpp", seeds=3)
def only_the_first_home_is_notified(patch: pytest.MonkeyPatch) -> None:
    whole = DocumentExchange.notify

    def notify(self: DocumentExchange, homes: Iterable[int], publication: XmlPublication) -> None:
        whole(self, list(homes)[:1], publication)

    patch.setattr(DocumentExchange, "notify", notify)


@bug("hope-kbpp", "churn", settings={"refresh": 600}, seeds=3)
def newcomers_are_not_given_what_they_own(patch: pytest.MonkeyPatch) -> None:
    """Neither at once, nor when they compare digests, nor of those who keep it still."""
    whole = Replication._neighbours_changed

    def changed(self: Replication) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(type(self.ring), "new_owners", lambda ring: [])
            whole(self)

    patch.setattr(Replication, "_neighbours_changed", changed)
    patch.setattr(Replication, "_lacks", lambda self, mark: False)
    patch.setattr(Replication, "_strays", lambda self, message, arrival: None)


@bug("hope-kbsp", seeds=3)
def documents_are_held_for_nobody(patch: pytest.MonkeyPatch) -> None:
    whole = DocumentExchange.hold

    def hold(self: DocumentExchange, event: Event) -> None:
        whole(self, replace(event, document="<other/>"))

    patch.setattr(DocumentExchange, "hold", hold)
