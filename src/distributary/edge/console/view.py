"""What the console's pages show, as plain values, and only what somebody may see.

Somebody who has logged in sees their own sessions and the events that their grants let pass. Operators (the
group `operators`), and whoever is on loopback while nobody needs to log in, see all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from distributary.edge.access import Access, Identity
from distributary.edge.console.recent import RecentEvent
from distributary.edge.sessions import Session, Sessions
from distributary.errors import DistributaryError
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription

OPERATORS = "operators"
MOST_MOVES = 50
TRIED = "tried"


class NodeMove(NamedTuple):
    """A change of a node's place in its overlay."""

    at: float
    what: str


class NodeMoves:
    """Notes how a node's place changes, from look to look.

    >>> moves = NodeMoves()
    >>> moves.look({"parent": None, "children": []}, 1.0); moves.look({"parent": 7, "children": []}, 2.0)
    >>> [move.what for move in moves]
    ['parent: none, now 7']
    """

    def __init__(self) -> None:
        self._moves: deque[NodeMove] = deque(maxlen=MOST_MOVES)
        self._last: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[NodeMove]:
        return iter(self._moves)

    def look(self, place: Mapping[str, Any], now: float) -> None:
        """Note what is otherwise than before."""
        if self._last is not None:
            for name in sorted({*place, *self._last}):
                before, after = self._last.get(name), place.get(name)
                if before != after:
                    self._moves.append(NodeMove(now, f"{name}: {shown(before)}, now {shown(after)}"))
        self._last = dict(place)


def shown(value: object) -> str:
    """A value of a node's place in words.

    >>> shown(None), shown([]), shown([3, 5]), shown(True)
    ('none', 'none', '3, 5', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def sees_all(identity: Identity, access: Access) -> bool:
    """Whether somebody sees every session."""
    return not access.configured or OPERATORS in access.groups(identity)


def sessions_seen(sessions: Iterable[Session], identity: Identity, access: Access) -> list[Session]:
    """The sessions that somebody may look at, by name."""
    own = f"{identity.user}/"
    every = sees_all(identity, access)
    chosen = [each for each in sessions if every or (identity.user and each.subscriber.startswith(own))]
    return sorted(chosen, key=lambda session: session.subscriber)


def session_row(session: Session) -> dict[str, Any]:
    """A line of the table of sessions."""
    mailbox, bounds = session.mailbox, session.mailbox.bounds
    return {
        "subscriber": session.subscriber,
        "connected": "yes" if session.connected else "no",
        "subscriptions": "; ".join(map(filters_text, session.subscriptions.values())) or "none",
        "waiting": len(mailbox),
        "kilobytes": round(mailbox.bytes / 1000, 1),
        "dropped": mailbox.dropped,
        "policy": f"{bounds.policy.value}, up to {bounds.events:,}",
    }


def filters_text(subscription: Subscription) -> str:
    """A subscription in a line.

    >>> filters_text(Subscription("s1", "ann", topic="quotes/*", where="price > 8"))
    's1: topic quotes/*, where price > 8'
    """
    texts = {kind: text for kind, text in subscription.filters().items() if kind != "change"}
    if subscription.change is not None:
        texts["change"] = ", ".join(f"{name} {number:g}" for name, number in subscription.change.items())
    return f"{subscription.id}: " + ", ".join(f"{kind} {text}" for kind, text in texts.items())


class TriedEvent(NamedTuple):
    """What a subscription that is tried out makes of an event."""

    event: Event
    matches: bool
    reasons: str


def tried(subscription: Subscription, recent: Iterable[RecentEvent]) -> list[TriedEvent]:
    """What a subscription would have made of events, in their order; FilterError when it is none."""
    matcher = Matcher([subscription])
    outcome = []
    for each in recent:
        told = str(matcher.explain(each.event, subscription.id))
        outcome.append(TriedEvent(each.event, bool(matcher.match(each.event)), told))
    return outcome


class ToExplain(NamedTuple):
    """An event, and the subscriptions that somebody may look at: their names, and what is in force."""

    event: Event
    subscriptions: list[tuple[str, tuple[Subscription, ...]]]


def to_explain(
    sessions: Sessions, identity: Identity, access: Access, recent: Iterable[RecentEvent], event_id: str
) -> ToExplain:
    """What there is to explain of an event to somebody.

    DistributaryError when no event of that id, which they may see, is among the latest.
    """
    found = [each.event for each in recent if each.event.id == event_id]
    events = [event for event in found if access.may_see(identity, event)]
    if not events:
        raise DistributaryError(f"no event {event_id!r} is among the latest that you may see")
    asked = [
        (
            f"{session.subscriber}: {filters_text(subscription)}",
            session.in_force(subscription.id) or (subscription,),
        )
        for session in sessions_seen(sessions, identity, access)
        for subscription in session.subscriptions.values()
    ]
    return ToExplain(events[-1], asked)


def explained(question: ToExplain) -> list[tuple[str, str]]:
    """Why an event went, or did not go, to each subscription: by the part of it that lets it pass, if any."""
    told = []
    for name, parts in question.subscriptions:
        found = [Matcher([part]).explain(question.event, part.id) for part in parts]
        told.append((name, str(next((each for each in found if each.matches), found[0]))))
    return told


def asked(subscriber: str, fields: Mapping[str, str], id: str = TRIED) -> Subscription:
    """The subscription that the fields of a form say; InputError when it is none.

    >>> asked("ann", {"topic": "quotes/*", "where": "", "change": "price 0.05, volume 10"}).change
    {'price': 0.05, 'volume': 10.0}
    """
    record: dict[str, Any] = {"id": id, "subscriber": subscriber}
    record |= {
        kind: fields[kind].strip() for kind in ("topic", "where", "path") if fields.get(kind, "").strip()
    }
    change = fields.get("change", "").strip()
    if change:
        record["change"] = tolerances(change)
    return Subscription.from_record(record)


def tolerances(text: str) -> dict[str, float]:
    """Tolerances of a form: `price 0.05, volume 10`; DistributaryError when they are none."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().rpartition(" ")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise DistributaryError(f"{part.strip()!r} is no tolerance: write such as `price 0.05`")
    return found
