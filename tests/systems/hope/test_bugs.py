"""Bugs that trials cannot see, put into HOPE on purpose: a test of this folder finds each.

They cost messages or memory, or show where a trial does not look: in history, and in what nodes know of each
other. Bugs that trials find are in `sim/bugs/hope.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from distributary.model import SubscriptionKey
from distributary.overlay.replication import Replication
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.documents import DocumentExchange
from distributary.systems.hope.history import EventHistory
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.table import FilterTable
from systems.hope import test_clocks, test_dimension, test_faults, test_hope, test_table

Patch = Callable[[pytest.MonkeyPatch], None]


def keys_are_not_withdrawn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HopeBroker, "_withdraw_from", lambda self, key, ranks: None)


def registrations_never_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HopeBroker, "_expire", lambda self, before: None)


def a_denial_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HopeBroker, "_forget_host", lambda self, message, sender: None)


def only_the_cube_in_force_is_asked(patch: pytest.MonkeyPatch) -> None:
    whole = HopeBroker.send_up

    def send_up(self: HopeBroker, key: SubscriptionKey, ranks: Iterable[int], message: Any) -> None:
        whole(self, key, [self.agreement.settled.publishing], message)

    patch.setattr(HopeBroker, "send_up", send_up)


def absences_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventHistory, "leaves", lambda self, key, since: None)


def the_first_holder_alone_is_asked(patch: pytest.MonkeyPatch) -> None:
    whole = DocumentExchange._ask

    def ask(self: DocumentExchange, key: Any) -> None:
        del self._awaited[key].holders[1:]
        whole(self, key)

    patch.setattr(DocumentExchange, "_ask", ask)


def less_demanding_filters_are_ignored(patch: pytest.MonkeyPatch) -> None:
    whole = FilterTable.remove

    def remove(self: FilterTable, filter: int, source: int) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(FilterTable, "_less_demanding", lambda self, filter: 0)
            whole(self, filter, source)

    patch.setattr(FilterTable, "remove", remove)


def newcomers_are_not_given_what_they_own(patch: pytest.MonkeyPatch) -> None:
    """Neither at once, nor when they compare digests, nor of those who keep it still."""
    patch.setattr(Replication, "_neighbours_changed", lambda self: None)
    patch.setattr(Replication, "_lacks", lambda self, mark: False)
    patch.setattr(Replication, "_strays", lambda self, message, arrival: None)


def filters_of_silent_neighbours_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kbsp, "_expire", HopeBroker._expire)


def adverts_are_not_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kbsp, "_request", lambda self, position, bit, speaker: None)


FOUND_BY: dict[Patch, Callable[[], None]] = {
    keys_are_not_withdrawn: test_hope.test_a_subscription_that_is_changed_moves_to_the_vertex_of_its_new_key,
    registrations_never_expire: test_faults.test_a_home_that_is_gone_for_good_is_forgotten,
    a_denial_is_ignored: lambda: test_hope.test_a_node_that_is_wrongly_taken_for_a_host_is_forgotten_as_such(
        returned=False
    ),
    only_the_cube_in_force_is_asked: (
        lambda: test_dimension.test_who_comes_back_gets_what_was_stored_before_the_addresses_changed(
            Kbsp, asks=False
        )
    ),
    absences_are_not_told: (
        lambda: (
            test_hope.test_who_comes_back_gets_what_came_at_once_after_it_left_and_its_absence_is_told_once(
                Kbsp
            )
        )
    ),
    the_first_holder_alone_is_asked: (test_hope.test_a_holder_that_has_a_document_no_more_is_not_waited_for),
    less_demanding_filters_are_ignored: (
        test_table.test_a_filter_stays_covered_when_one_of_two_that_cover_it_is_removed
    ),
    newcomers_are_not_given_what_they_own: (
        lambda: test_faults.test_vertices_move_with_joins_and_leaves_without_being_registered_again(Kbsp)
    ),
    adverts_are_not_asked_for_again: (
        lambda: test_clocks.test_nodes_whose_numbers_begin_further_back_are_heard(seed=0, budget=1)
    ),
    filters_of_silent_neighbours_stay: (
        test_faults.test_filters_of_a_neighbour_that_nobody_speaks_for_any_more_are_dropped
    ),
}


@pytest.mark.chaos
@pytest.mark.parametrize("bug", FOUND_BY, ids=lambda bug: bug.__name__)
def test_bugs_are_found_by_a_test(bug: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        bug(broken)
        with pytest.raises(AssertionError):
            FOUND_BY[bug]()
    FOUND_BY[bug]()
