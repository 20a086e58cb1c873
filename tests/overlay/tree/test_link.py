"""The table of a change of parent: what moves it on, and that nothing else does."""

from __future__ import annotations

import pytest

from distributary.overlay.tree import messages
from distributary.overlay.tree.link import TRANSITIONS, ChangeState, ParentLink, ParentTransition

STEPS = {step for steps in TRANSITIONS.values() for step in steps}


def change(state: ChangeState = ChangeState.REQUESTED) -> ParentTransition:
    return ParentTransition(stamp=7, wanted=None, since=0.0, must=False, state=state)


def test_every_state_is_reached_and_only_the_last_has_no_way_on() -> None:
    reached = {ChangeState.REQUESTED} | {after for steps in TRANSITIONS.values() for after in steps.values()}
    assert reached == set(ChangeState) == TRANSITIONS.keys()
    assert [state for state, steps in TRANSITIONS.items() if not steps] == [ChangeState.ENDED]


@pytest.mark.parametrize("state", ChangeState)
@pytest.mark.parametrize("step", sorted(STEPS, key=lambda step: step.__name__))
def test_a_message_that_the_table_does_not_list_changes_nothing(state: ChangeState, step: type) -> None:
    one = change(state)
    following = TRANSITIONS[state].get(step)
    assert one.advance(step) == (following is not None)
    assert one.state is (following or state)


def test_a_switch_needs_a_grant_of_the_interest_as_it_is_now() -> None:
    one = change()
    assert one.advance(messages.ParentGrant)
    assert one.advance(messages.InterestGrant)
    assert one.advance(messages.InterestChange)
    assert not one.advance(messages.ParentConfirmation)
    assert one.advance(messages.InterestGrant)
    assert one.advance(messages.ParentConfirmation)
    assert one.state is ChangeState.ENDED


def test_a_message_of_an_older_link_is_not_heard() -> None:
    link = ParentLink()
    link.place(3, stamp=5)
    link.change = change()
    link.change.new_parent = 4
    assert link.hears(3, 5)
    assert not link.hears(3, 4)
    assert not link.hears(4, 5)
    assert link.awaited(4, 7) is link.change
    assert link.awaited(4, 6) is None
    assert link.awaited(3, 7) is None
