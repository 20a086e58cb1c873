"""What the console's pages show, and to whom."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from distributary.edge.access import Access, Identity
from distributary.edge.console import pages
from distributary.edge.console.pages import Console, OpenPage, Visitor
from distributary.edge.console.recent import RecentEvent
from distributary.edge.console.view import asked, explained, session_row, sessions_seen, to_explain, tried
from distributary.edge.mailbox import MailboxBounds, MailboxPolicy
from distributary.edge.sessions import Session, Sessions
from distributary.errors import DistributaryError
from distributary.model import Delivery, Event, Subscription
from edge.console.quiet_broker import QuietBroker, absent

ANN, BEN, OPERATOR = Identity("ann"), Identity("ben"), Identity("olga", ("operators",))
EVENTS = [
    RecentEvent(number, 0.0, Event(f"e{number}", "quotes/OTE", {"price": price}))
    for number, price in enumerate((8.0, 8.1, 9.0, 9.2), 1)
]


class LoggedIn(Access):
    """An access that wants everybody to log in, and shows events of a topic to one user."""

    @property
    def configured(self) -> bool:
        return True

    def may_see(self, identity: Identity, event: Event) -> bool:
        return identity != BEN


def sessions(*subscribers: str) -> Sessions:
    """Sessions that each have one subscription."""
    room = Sessions(QuietBroker(), lambda: 0.0)
    for subscriber in subscribers:
        session, _ = room.attach(subscriber, absent(), MailboxBounds(MailboxPolicy.KEEP, events=2), 60)
        session.subscribe(
            Subscription("s1", subscriber, topic="quotes/*", where="price > 8.5"), lambda _: None
        )
    return room


def names(found: list[Session]) -> list[str]:
    return [session.subscriber for session in found]


def test_users_see_their_own_sessions_and_operators_all() -> None:
    room, access = sessions("ben/phone", "ann/phone", "ann/tablet", "annette/phone"), LoggedIn()
    assert names(sessions_seen(room, ANN, access)) == ["ann/phone", "ann/tablet"]
    assert names(sessions_seen(room, OPERATOR, access)) == [
        "ann/phone",
        "ann/tablet",
        "annette/phone",
        "ben/phone",
    ]
    assert sessions_seen(room, Identity(""), access) == []


def test_a_session_s_line_counts_what_waits_and_what_was_dropped() -> None:
    [session] = sessions("ann")
    for number in (1, 2, 3):
        session.give(Delivery(Event(f"e{number}", "quotes/OTE"), "ann", ("s1",)))
    row = session_row(session)
    assert (row["waiting"], row["dropped"]) == (2, 1)
    assert row["subscriptions"] == "s1: topic quotes/*, where price > 8.5"


def test_a_subscription_is_tried_in_the_order_of_the_events() -> None:
    outcome = tried(asked("ann", {"change": "price 0.5"}), EVENTS)
    assert [each.matches for each in outcome] == [True, False, True, False]


def test_a_subscription_that_is_none_is_told_so() -> None:
    with pytest.raises(DistributaryError, match="has no filter"):
        asked("ann", {"topic": " "})
    with pytest.raises(DistributaryError, match="no tolerance"):
        asked("ann", {"change": "price"})


def test_an_event_is_explained_for_the_subscriptions_one_may_look_at() -> None:
    room, access = sessions("ann/phone", "ben/phone"), LoggedIn()
    [(subscription, reasons)] = explained(to_explain(room, ANN, access, EVENTS, "e1"))
    assert subscription.startswith("ann/phone: ")
    assert "does not match" in reasons


def test_an_event_that_one_may_not_see_is_not_explained() -> None:
    room, access = sessions("ben/phone"), LoggedIn()
    with pytest.raises(DistributaryError, match="that you may see"):
        to_explain(room, BEN, access, EVENTS, "e1")


def test_what_grants_leave_of_a_subscription_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text('[users.ann]\nsubscribe = [{where = "price < 8.1"}, {topic = "other"}]')
    access = Access(file)
    room = Sessions(QuietBroker(), lambda: 0.0, access=access)
    session, _ = room.attach("ann/phone", absent(), None, 60, identity=ANN)
    session.subscribe(Subscription("s1", "ann/phone", topic="quotes"), lambda _: None)
    found = [explained(to_explain(room, OPERATOR, Access(), EVENTS, id))[0][1] for id in ("e1", "e2")]
    assert ["does not match" in reasons for reasons in found] == [False, True]


class StillKnown(LoggedIn):
    """An access whose users are known for ever."""

    def known(self, identity: Identity) -> bool:
        return True


def console(access: Access) -> Console:
    room = sessions("ann/phone")
    service = SimpleNamespace(broker=QuietBroker(), access=access, sessions=room)
    made = Console(service, SimpleNamespace(counts=Counter()), lambda: 0.0)  # type: ignore[arg-type]
    for _, _, event in EVENTS:
        made.recent.give(Delivery(event, "console", ("everything",)))
    return made


def test_a_page_that_is_open_shows_nothing_when_the_log_in_is_over() -> None:
    pages = [
        OpenPage(console(access), Visitor(ANN, time.time() + seconds))
        for access, seconds in ((StillKnown(), 60.0), (StillKnown(), -1.0), (LoggedIn(), 60.0))
    ]
    assert [len(page.seen()) for page in pages] == [len(EVENTS), 0, 0]
    assert [len(page.sessions()) for page in pages] == [1, 0, 0]


def test_events_are_gathered_until_a_page_is_gone_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_break: list[Callable[[], None]] = []
    at_the_end: list[Callable[[], None]] = []
    client = SimpleNamespace(on_disconnect=at_a_break.append, on_delete=at_the_end.append)
    monkeypatch.setattr(pages, "ui", SimpleNamespace(context=SimpleNamespace(client=client)))
    monkeypatch.setattr(OpenPage, "build", lambda page: None)
    made = console(Access())
    asyncio.run(made._index(SimpleNamespace(client=SimpleNamespace(host="127.0.0.1"))))  # type: ignore[arg-type]
    for act in at_a_break:
        act()
    assert made.recent._watchers == made.pipelines._watchers == 1
    for act in at_the_end:
        act()
    assert made.recent._watchers == made.pipelines._watchers == 0


def test_what_is_no_event_and_no_session_is_for_operators_alone() -> None:
    class Grouped(StillKnown):
        def groups(self, identity: Identity) -> tuple[str, ...]:
            return identity.groups

    made = console(Grouped())
    shown = {who.user: OpenPage(made, Visitor(who, time.time() + 60)).operates() for who in (ANN, OPERATOR)}
    assert shown == {"ann": False, "olga": True}
    assert not OpenPage(made, Visitor(OPERATOR, time.time() - 1)).operates()
